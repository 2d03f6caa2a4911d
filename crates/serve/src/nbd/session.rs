//! A connection after its handshake: requests in, calls of the volume, replies out in the order of completion.
//!
//! One task receives, one sends, and every request has its own. What a connection may hold in memory is bounded; at the
//! bound it is not read from. A request that gets nowhere for too long is answered with an error while its operation goes on
//! behind (rule `late-io`).

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::sync::Promise;
use hotset_block::{Buf, Env, HostEnv, Instant};
use hotset_cache::config::limits::REQUEST_BYTES_MAX;
use hotset_cache::{Error, ErrorAnswer, Volume};

use super::command::{Answer, Terms, durability, failure_answer, operation, payload_bytes, perform};
use super::replies::{Payload, Replies, Reply};
use super::wire::{self, Command, REQUEST_BYTES, Request, SimpleReply, error_chunk, offset_data, push_block_status};
use crate::exports;
use crate::inflight::{Budget, ClientWatch, Cost, Course, Ended, Ending, Inflight, Reserved, Stopped, Ticket};
use crate::receive::ReceiveBuffer;
use crate::transport::Transport;

/// Payloads up to this length are received together with the requests around them and copied once; longer ones are
/// received where they stay.
const COPIED_BYTES_MAX: usize = 64 << 10;

/// See the file's summary.
pub(super) struct Session {
    env: HostEnv,
    volume: Volume<HostEnv>,
    transport: Transport,
    terms: Terms,
    inflight: Inflight<Request>,
    replies: Replies,
    ending: Ending,
    /// A payload is being received that the client has announced.
    awaits_payload: Cell<bool>,
    client: ClientWatch,
    /// The volume's when they were last looked at.
    steps: Cell<u64>,
}

/// Why no more requests are received.
enum Over {
    /// The client said goodbye or closed its side, or the server stops: requests in flight are finished.
    Orderly,
    /// The connection or the protocol broke: nobody waits for replies.
    Broken,
    /// The export is about to move.
    Paused,
}

impl From<Stopped> for Over {
    fn from(_: Stopped) -> Self {
        Self::Orderly
    }
}

impl Session {
    pub(super) fn new(
        env: HostEnv,
        volume: Volume<HostEnv>,
        transport: Transport,
        terms: Terms,
        budget: Budget,
        drain_timeout: Duration,
    ) -> Rc<Self> {
        Rc::new(Self {
            env,
            volume,
            transport,
            terms,
            inflight: Inflight::within(budget),
            replies: Replies::default(),
            ending: Ending::new(drain_timeout),
            awaits_payload: Cell::new(false),
            client: ClientWatch::default(),
            steps: Cell::new(0),
        })
    }

    /// Sends the last answer of the handshake and serves until the connection ends, or leaves: then the answer is what was
    /// received and not done.
    pub(super) async fn run(self: &Rc<Self>, answer: &[u8], mut received: ReceiveBuffer) -> Option<ReceiveBuffer> {
        let answered = self.ending.unless_stopped(self.transport.send(answer)).await;
        let (sender, (sent, sender_ended)) = (Rc::clone(self), Promise::new());
        self.env.spawn(async move {
            sender.send_replies().await;
            drop(sender);
            sent.set(());
        });
        let mut over =
            if matches!(answered, Ok(Ok(()))) { self.receive_requests(&mut received).await } else { Over::Broken };
        while let Over::Paused = over {
            over = match self.pause_over().await {
                Course::Departing => {
                    self.replies.close();
                    sender_ended.await;
                    return Some(received);
                }
                Course::Stopping => Over::Orderly,
                Course::Serving | Course::Pausing | Course::Resting => self.receive_requests(&mut received).await,
            };
        }
        match over {
            Over::Orderly => self.drain().await,
            Over::Broken | Over::Paused => {}
        }
        self.end();
        None
    }

    /// What one that has left takes with it.
    ///
    /// # Panics
    /// If it has not left: [`Session::run`] says so.
    pub(super) fn into_parts(session: Rc<Self>) -> (Volume<HostEnv>, Transport) {
        let session = Rc::into_inner(session).expect("its tasks have ended, and the exports know it no more");
        (session.volume, session.transport)
    }

    /// Finishes what is in flight, and waits for what comes after the pause.
    async fn pause_over(&self) -> Course {
        let finished = async {
            self.inflight.drained().await;
            // Who does not take its replies has ended, or ends soon.
            let _ = self.transport.flush().await;
        };
        self.ending.pause_over(finished).await;
        self.ending.course()
    }

    async fn send_replies(&self) {
        let sent = |bytes, cost| {
            self.client.made_progress(bytes);
            self.inflight.release(cost);
        };
        let sent = self.replies.send_all(&self.env, &self.transport, sent).await;
        if sent.is_err() {
            self.end();
        }
    }

    /// Nothing is sent any more, and both tasks end. What is in flight ends by itself; requests that came and wait for room are not begun:
    /// the host has no answer to them, and sends them again. Whoever waits for the session to rest waits no longer.
    fn end(&self) {
        self.ending.stop(Duration::ZERO);
        self.inflight.release(self.replies.close());
        self.transport.shutdown();
    }

    /// Waits until everything is answered and sent, as long as the time limit allows; a stop may shorten it.
    async fn drain(&self) {
        let finished = async {
            self.inflight.drained().await;
            // The last replies are in the socket, or still in TLS.
            self.transport.flush().await
        };
        self.ending.drain(&self.env, finished).await;
    }

    async fn receive_requests(self: &Rc<Self>, received: &mut ReceiveBuffer) -> Over {
        loop {
            let now = self.env.now();
            while let Some(head) = received.bytes().first_chunk::<REQUEST_BYTES>() {
                if self.ending.course() != Course::Serving {
                    return self.why_over();
                }
                let Some(request) = Request::decode(head) else { return Over::Broken };
                received.consume(REQUEST_BYTES);
                if request.command == Command::Disconnect {
                    return Over::Orderly;
                }
                match self.receive_payload(&request, received).await {
                    Ok((reserved, payload)) => self.begin(reserved, request, payload, now),
                    Err(ended) => return ended,
                }
            }
            let interrupted = self.ending.leaves(Course::Serving);
            match received.fill_until(&self.transport, interrupted).await.map(require_bytes) {
                Some(Ok(_)) => {}
                Some(Err(ended)) => return ended,
                None => return self.why_over(),
            }
        }
    }

    /// Between two requests.
    fn why_over(&self) -> Over {
        match self.ending.course() {
            Course::Stopping => Over::Orderly,
            Course::Serving | Course::Pausing | Course::Resting | Course::Departing => Over::Paused,
        }
    }

    /// Waits until there is room for the request, and receives what it stores, if it stores something.
    async fn receive_payload(
        &self,
        request: &Request,
        received: &mut ReceiveBuffer,
    ) -> Result<(Reserved<'_, Request>, Option<Buf>), Over> {
        if request.command == Command::Write && u64::from(request.length) > REQUEST_BYTES_MAX {
            // "Block size constraints": too long to be skipped.
            return Err(Over::Broken);
        }
        let bytes = payload_bytes(request);
        while !self.inflight.has_room_for(bytes) {
            self.ending.unless_stopped(self.inflight.capacity_freed()).await?;
            if self.replies.is_closed() {
                return Err(Over::Broken);
            }
        }
        let reserved = self.ending.unless_stopped(self.inflight.reserve(bytes)).await?;
        if request.command != Command::Write {
            return Ok((reserved, None));
        }
        self.awaits_payload.set(true);
        let payload = self.receive_bytes(bytes, received).await;
        self.awaits_payload.set(false);
        Ok((reserved, Some(payload?)))
    }

    async fn receive_bytes(&self, bytes: usize, received: &mut ReceiveBuffer) -> Result<Buf, Over> {
        let mut payload = self.env.buffers().take(bytes);
        while bytes <= COPIED_BYTES_MAX && received.bytes().len() < bytes {
            self.fill(received).await?;
        }
        let mut filled = received.take_into(&mut payload);
        while filled < bytes {
            let (head, tail) = payload.split_at(filled);
            let (tail, more) = self.ending.unless_stopped(self.transport.recv(tail)).await?;
            payload = head.join(tail);
            let more = require_bytes(more)?;
            filled += more;
            self.client.made_progress(more);
        }
        Ok(payload)
    }

    /// More of a request.
    async fn fill(&self, received: &mut ReceiveBuffer) -> Result<(), Over> {
        let filled = received.fill_until(&self.transport, self.ending.stopped()).await;
        filled.map_or(Err(Over::Orderly), |filled| require_bytes(filled).map(|_| ()))
    }

    /// Starts a request's own task, or answers at once that it cannot be done.
    fn begin(self: &Rc<Self>, reserved: Reserved<'_, Request>, request: Request, payload: Option<Buf>, now: Instant) {
        let ticket = self.inflight.register(reserved, request, operation(&request), now);
        if let Err(error) = self.terms.check(&request, self.volume.size_bytes()) {
            if let Some(cost) = self.inflight.end(ticket) {
                self.answer_error(&request, error, ErrorAnswer::Invalid, cost);
            }
            return;
        }
        let session = Rc::clone(self);
        self.env.spawn(async move {
            let (volume, durability) = (&session.volume, durability(&request));
            let outcome = match payload {
                Some(payload) => volume.write(request.offset, payload, durability).await.map(|()| Answer::Done),
                None => perform(volume, &request).await,
            };
            session.finish(&request, ticket, outcome);
        });
    }

    /// Queues the reply, unless the client was answered before.
    fn finish(&self, request: &Request, ticket: Ticket, outcome: Result<Answer, Error>) {
        let Some(cost) = self.inflight.end(ticket) else { return };
        match outcome {
            Ok(answer) => self.reply(self.success(request, answer, cost)),
            Err(error) => {
                let (errno, why) = failure_answer(&self.volume, &error);
                self.answer_error(request, errno, why, cost);
            }
        }
    }

    /// The one way to answer an error: it is counted.
    fn answer_error(&self, request: &Request, error: u32, why: ErrorAnswer, cost: Cost) {
        self.volume.count_error_answer(why);
        self.reply(self.failure(request, error, cost));
    }

    fn reply(&self, reply: Reply) {
        let unsent = self.replies.add(reply);
        if unsent != Cost::NOTHING {
            self.inflight.release(unsent);
        }
    }

    fn success(&self, request: &Request, answer: Answer, cost: Cost) -> Reply {
        match answer {
            Answer::Data(data) if self.terms.structured_replies => {
                let header = offset_data(request.cookie, request.offset, data.len());
                let header = header.expect("a read is shorter than a chunk can be");
                Reply::new(&header, Payload::Data(data), cost)
            }
            Answer::Data(data) => {
                let header = SimpleReply { error: 0, cookie: request.cookie }.encode();
                Reply::new(&header, Payload::Data(data), cost)
            }
            Answer::Extents(extents) => {
                let mut bytes = Vec::new();
                push_block_status(&mut bytes, request.cookie, &extents);
                Reply::new(&[], Payload::Bytes(bytes), cost)
            }
            Answer::Done => {
                let header = SimpleReply { error: 0, cookie: request.cookie }.encode();
                Reply::new(&header, Payload::None, cost)
            }
        }
    }

    /// "Structured replies": a read or block status then has no other kind of reply.
    fn failure(&self, request: &Request, error: u32, cost: Cost) -> Reply {
        let structured = match request.command {
            Command::Read | Command::BlockStatus => self.terms.structured_replies,
            Command::Write
            | Command::Disconnect
            | Command::Flush
            | Command::Trim
            | Command::Cache
            | Command::WriteZeroes
            | Command::Unknown(_) => false,
        };
        if structured {
            return Reply::new(&error_chunk(request.cookie, error), Payload::None, cost);
        }
        Reply::new(&SimpleReply { error, cookie: request.cookie }.encode(), Payload::None, cost)
    }
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
            self.answer_error(&request, wire::errno::EIO, ErrorAnswer::TimedOut, Cost::NOTHING);
        }
    }

    fn is_stalled(&self, looks: u32) -> bool {
        let waited_for = self.awaits_payload.get() || self.replies.are_not_taken();
        self.client.is_stalled(if waited_for { self.inflight.counted_bytes() } else { 0 }, looks)
    }

    fn close(&self) {
        self.end();
    }
}

/// How many bytes came; the end of the stream is an end in order.
fn require_bytes(received: io::Result<usize>) -> Result<usize, Over> {
    match received {
        Ok(0) => Err(Over::Orderly),
        Ok(count) => Ok(count),
        Err(_) => Err(Over::Broken),
    }
}
