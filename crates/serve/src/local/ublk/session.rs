//! What serves a device's requests with its volume: requests in, calls of the volume, answers out in the order of completion.
//!
//! It ends, pauses and goes to another thread as a host's session does. A request that gets nowhere for too long is answered with an
//! error while its operation goes on behind (rule `late-io`); bytes are given to the driver only with an answer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::unix::net::UnixStream;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::{Buf, Env, HostEnv, Instant, Stream, UblkData};
use hotset_cache::{ErrorAnswer, Volume};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{OwnedMutexGuard, oneshot};

use super::requests::{Asked, UblkRequests, failed};
use crate::exports::{self, Departure, ExportId, Exports, Farewell, Link, Visitor};
use crate::inflight::{Budget, Course, Ended, Ending, Inflight, Reserved, Stopped, Ticket};
use crate::nbd::command::{Answer, Terms, durability, failure_answer, operation, payload_bytes, perform};
use crate::nbd::wire::{self, Command, Request};
use crate::transport::Transport;

/// What goes with a session from thread to thread.
struct Carried {
    export: ExportId,
    terms: Terms,
    asked: OwnedMutexGuard<UnboundedReceiver<Asked>>,
    data: UblkData,
    /// The other end of what stands for a connection.
    _other_end: UnixStream,
}

/// Serves the export of that name to a device. False: there is no such export now, or the device is served.
///
/// # Errors
/// No descriptor is left.
pub(super) fn serve(exports: &Exports, name: &str, requests: &UblkRequests) -> io::Result<bool> {
    let Some((info, export)) = exports.list(|list| list.find(name).cloned()).zip(exports.id_of(name)) else {
        return Ok(false);
    };
    let Some(asked) = requests.take() else { return Ok(false) };
    // Connections are known by their sockets: this one has no bytes to carry.
    let (end, other_end) = UnixStream::pair()?;
    let stream = Stream::over_pair(exports.env(), end, "the kernel of this machine")?;
    let (terms, data) = (Terms::without_handshake(&info), requests.data().clone());
    let carried = Carried { export, terms, asked, data, _other_end: other_end };
    exports.welcome_to_export(depart(Transport::Plain(stream), carried), Link::LocalDevice);
    Ok(true)
}

fn depart(transport: Transport, carried: Carried) -> Departure {
    let export = carried.export;
    let serve = move |visitor: Visitor, volume: Volume<HostEnv>, transport: Transport| {
        let session = begin(&visitor, volume, &carried);
        let serving: Pin<Box<dyn Future<Output = Farewell>>> =
            Box::pin(async move { run(visitor, session, transport, carried).await });
        serving
    };
    Departure { transport, export, serve: Box::new(serve) }
}

/// Makes the session known.
fn begin(visitor: &Visitor, volume: Volume<HostEnv>, carried: &Carried) -> Rc<Session> {
    let (exports, name) = (visitor.exports(), volume.name().to_string());
    let env = exports.env().at_work_for(&format!("volume {name}"));
    let drain_timeout = exports.settings().drain_timeout;
    let session = Session::new(env, volume, carried, exports.budget(), drain_timeout);
    visitor.serves(carried.export, name, session.clone());
    session
}

/// Serves until the device is gone, or the export ends or moves.
async fn run(visitor: Visitor, session: Rc<Session>, transport: Transport, mut carried: Carried) -> Farewell {
    if session.run(&mut carried.asked).await == After::Over {
        return Farewell::Over;
    }
    visitor.serves_no_more();
    Farewell::Leaves(depart(transport, carried))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    Over,
    Leaves,
}

/// Why no more requests are taken.
enum Pause {
    /// The device is gone.
    Gone,
    /// It is to end, to pause or to leave.
    Course,
}

impl From<Stopped> for Pause {
    fn from(_: Stopped) -> Self {
        Self::Course
    }
}

/// See the file's summary.
struct Session {
    env: HostEnv,
    volume: Volume<HostEnv>,
    terms: Terms,
    data: UblkData,
    inflight: Inflight<Request>,
    /// Where the answers go of what is in flight, by tag.
    answers: RefCell<BTreeMap<u16, oneshot::Sender<i32>>>,
    ending: Ending,
    /// The volume's when they were last looked at.
    steps: Cell<u64>,
}

impl Session {
    fn new(
        env: HostEnv,
        volume: Volume<HostEnv>,
        carried: &Carried,
        budget: Budget,
        drain_timeout: Duration,
    ) -> Rc<Self> {
        Rc::new(Self {
            env,
            volume,
            terms: carried.terms,
            data: carried.data.clone(),
            inflight: Inflight::within(budget),
            answers: RefCell::default(),
            ending: Ending::new(drain_timeout),
            steps: Cell::new(0),
        })
    }

    async fn run(self: &Rc<Self>, asked: &mut UnboundedReceiver<Asked>) -> After {
        loop {
            let gone = matches!(self.take_requests(asked).await, Pause::Gone);
            match self.ending.course() {
                Course::Departing => return After::Leaves,
                Course::Stopping => break,
                Course::Serving if gone => break,
                Course::Serving | Course::Pausing | Course::Resting => {
                    self.ending.pause_over(self.inflight.drained()).await;
                }
            }
        }
        self.ending.drain(&self.env, self.inflight.drained()).await;
        // What is not done is asked of the next session.
        self.answers.borrow_mut().clear();
        // Whoever waits for it to rest waits no longer.
        self.ending.stop(Duration::ZERO);
        After::Over
    }

    async fn take_requests(self: &Rc<Self>, asked: &mut UnboundedReceiver<Asked>) -> Pause {
        while self.ending.course() == Course::Serving {
            let next = match select(pin!(asked.recv()), pin!(self.ending.leaves(Course::Serving))).await {
                Either::Left((one, _)) => one.ok_or(Pause::Gone),
                Either::Right(((), _)) => Err(Pause::Course),
            };
            let begun = match next {
                Ok(one) => self.begin(one).await,
                Err(pause) => Err(pause),
            };
            if let Err(pause) = begun {
                return pause;
            }
        }
        Pause::Course
    }

    /// Waits until there is room for the request, and starts a task of its own for it, or answers at once that it cannot be done.
    async fn begin(self: &Rc<Self>, asked: Asked) -> Result<(), Pause> {
        let (now, Asked { request, answer }) = (self.env.now(), asked);
        let bytes = payload_bytes(&request);
        while !self.inflight.has_room_for(bytes) {
            self.ending.unless_stopped(self.inflight.capacity_freed()).await?;
        }
        let reserved = self.ending.unless_stopped(self.inflight.reserve(bytes)).await?;
        self.answers.borrow_mut().insert(tag(&request), answer);
        let checked = self.terms.check(&request, self.volume.size_bytes());
        let payload =
            checked.map_err(|error| (error, ErrorAnswer::Invalid)).and_then(|()| self.payload(&request, bytes));
        let ticket = self.register(reserved, request, now);
        match payload {
            Ok(payload) => {
                let session = Rc::clone(self);
                self.env.spawn(async move { session.perform(request, ticket, payload).await });
            }
            Err((error, why)) => self.fail(&request, ticket, error, why),
        }
        Ok(())
    }

    fn register(&self, reserved: Reserved<'_, Request>, request: Request, now: Instant) -> Ticket {
        self.inflight.register(reserved, request, operation(&request), now)
    }

    /// What the request stores, if it stores something.
    fn payload(&self, request: &Request, bytes: usize) -> Result<Option<Buf>, (u32, ErrorAnswer)> {
        if request.command != Command::Write {
            return Ok(None);
        }
        let mut payload = self.env.buffers().take(bytes);
        let taken = self.data.take(tag(request), &mut payload);
        taken.map(|()| Some(payload)).map_err(|_| (wire::errno::EIO, ErrorAnswer::Failed))
    }

    async fn perform(&self, request: Request, ticket: Ticket, payload: Option<Buf>) {
        let (volume, durability) = (&self.volume, durability(&request));
        let outcome = match payload {
            Some(payload) => volume.write(request.offset, payload, durability).await.map(|()| Answer::Done),
            None => perform(volume, &request).await,
        };
        match outcome {
            Ok(answer) => self.succeed(&request, ticket, answer),
            // NBD's error numbers are those of Linux.
            Err(error) => {
                let (errno, why) = failure_answer(volume, &error);
                self.fail(&request, ticket, errno, why);
            }
        }
    }

    fn succeed(&self, request: &Request, ticket: Ticket, answer: Answer) {
        // Whoever was answered before may ask for something else by this tag now.
        let Some(cost) = self.inflight.end(ticket) else { return };
        let given = match answer {
            // The session may have ended, and the request be another's.
            Answer::Data(data) if self.answers.borrow().contains_key(&tag(request)) => {
                self.data.give(tag(request), &data)
            }
            Answer::Data(_) | Answer::Extents(_) | Answer::Done => Ok(()),
        };
        match given {
            Ok(()) => {
                self.answer(request, i32::try_from(payload_bytes(request)).expect("a request moves at most 32 MiB"))
            }
            Err(_) => self.answer_error(request, wire::errno::EIO, ErrorAnswer::Failed),
        }
        self.inflight.release(cost);
    }

    fn fail(&self, request: &Request, ticket: Ticket, error: u32, why: ErrorAnswer) {
        let Some(cost) = self.inflight.end(ticket) else { return };
        self.answer_error(request, error, why);
        self.inflight.release(cost);
    }

    /// The one way to answer an error: it is counted.
    fn answer_error(&self, request: &Request, error: u32, why: ErrorAnswer) {
        self.volume.count_error_answer(why);
        self.answer(request, failed(error));
    }

    fn answer(&self, request: &Request, answer: i32) {
        if let Some(asker) = self.answers.borrow_mut().remove(&tag(request)) {
            // Whoever asked may be gone with its device.
            let _ = asker.send(answer);
        }
    }
}

fn tag(request: &Request) -> u16 {
    u16::try_from(request.cookie).expect("requests of a device are named by their tags")
}

impl exports::Session for Session {
    fn ending(&self) -> &Ending {
        &self.ending
    }

    fn in_flight(&self) -> usize {
        self.inflight.requests()
    }

    fn ended(&self) -> Ended {
        let steps = self.volume.steps();
        self.inflight.ended(self.steps.replace(steps) != steps)
    }

    fn expire_late(&self, ended: &Ended, now: Instant, timeout: Duration) {
        for request in self.inflight.expire_late(ended, now, timeout) {
            self.answer_error(&request, wire::errno::EIO, ErrorAnswer::TimedOut);
        }
    }

    /// The kernel owes nothing: what a request writes is there before it comes.
    fn is_stalled(&self, _looks: u32) -> bool {
        false
    }

    fn close(&self) {
        self.ending.stop(Duration::ZERO);
    }
}
