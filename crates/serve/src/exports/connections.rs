//! Who is connected, how many may be, and what is counted of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use hotset_block::sync::Event;
use hotset_block::{Instant, RealInstant, Stream};

use super::directory::{Counted, Directory, ExportId};
use super::session::Session;
use crate::inflight::{Budget, Ended};

/// Connections that make room at once.
const ENDING_MAX: usize = 64;

/// So many looks in a row without a sign of a client end its connection: one that is late, because this process did not
/// run, is one look.
const LOOKS_MAX: u32 = 5;

/// How a client reaches its export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Socket,
    Tls,
    /// It is this machine's kernel, by a block device.
    LocalDevice,
}

/// What a server knows of one of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStatus {
    pub peer: String,
    /// `None` until the client has chosen one.
    pub export: Option<String>,
    /// Requests received and not answered.
    pub in_flight: usize,
    pub link: Link,
    /// When it was taken, in real time.
    pub since: RealInstant,
}

/// What a server counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Connections that were closed at once, because there were as many as there may be.
    pub refused: u64,
    /// Connections without an export that had to make room.
    pub made_room: u64,
    /// Connections that ended because their client was gone, or held what others waited for and did nothing.
    pub abandoned: u64,
    /// Times that no connection could be taken at all, for want of a file descriptor or memory.
    pub accept_failures: u64,
    /// Clients whose TLS handshake failed.
    pub handshakes_refused: u64,
}

impl ServerCounters {
    /// Of two threads together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            refused: self.refused + other.refused,
            made_room: self.made_room + other.made_room,
            abandoned: self.abandoned + other.abandoned,
            accept_failures: self.accept_failures + other.accept_failures,
            handshakes_refused: self.handshakes_refused + other.handshakes_refused,
        }
    }
}

/// See the file's summary.
pub(super) struct Connections {
    all: RefCell<BTreeMap<u64, Connection>>,
    made: Cell<u64>,
    ended: Event,
    counters: Cell<ServerCounters>,
    /// Who was refused TLS last, and why.
    refused_handshake: RefCell<String>,
    /// What the payloads of all of them may take.
    budget: Budget,
}

pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) link: Link,
    pub(super) since: RealInstant,
    pub(super) counted: Counted,
    /// It had to make room, and its task is about to end.
    ending: bool,
    serving: Option<Serving>,
}

struct Serving {
    export: ExportId,
    name: String,
    session: Rc<dyn Session>,
}

impl Connections {
    pub(super) fn new(budget: Budget) -> Self {
        Self {
            all: RefCell::default(),
            made: Cell::new(0),
            ended: Event::new(),
            counters: Cell::default(),
            refused_handshake: RefCell::default(),
            budget,
        }
    }

    /// Registers one more connection; answers what it is known by until [`Connections::forget`].
    pub(super) fn register(&self, stream: Stream, link: Link, since: RealInstant, counted: Counted) -> u64 {
        let id = self.made.get();
        self.made.set(id + 1);
        let connection = Connection { stream, link, since, counted, ending: false, serving: None };
        self.all.borrow_mut().insert(id, connection);
        id
    }

    /// Whether one more may be kept. At the limit, whoever has been longest without choosing an export makes room: those who choose
    /// nothing keep nobody out. Those of other threads have chosen theirs.
    pub(super) fn make_room(&self, newcomer: &Stream, connections_max: usize, directory: &Directory) -> bool {
        let mut all = self.all.borrow_mut();
        let ending = all.values().filter(|connection| connection.ending).count();
        if directory.connections().saturating_sub(ending) < connections_max && newcomer.may_be_kept() {
            return true;
        }
        let idle = all.values_mut().find(|connection| connection.serving.is_none() && !connection.ending);
        let Some(idle) = idle.filter(|_| ending < ENDING_MAX) else { return false };
        self.count(|counters| counters.made_room += 1);
        idle.ending = true;
        idle.stream.shutdown();
        // It may be waiting for an export.
        directory.tell();
        true
    }

    /// The client has chosen its export.
    pub(super) fn serves(&self, id: u64, export: ExportId, name: String, session: Rc<dyn Session>) {
        let mut all = self.all.borrow_mut();
        let connection = all.get_mut(&id).expect("a connection is known until its task has ended");
        connection.serving = Some(Serving { export, name, session });
        self.divide_memory(&all);
    }

    pub(super) fn serves_no_more(&self, id: u64) {
        let mut all = self.all.borrow_mut();
        all.get_mut(&id).expect("a connection is known until its task has ended").serving = None;
        self.divide_memory(&all);
    }

    /// The connection's task has ended.
    pub(super) fn forget(&self, id: u64) -> Connection {
        let mut all = self.all.borrow_mut();
        let connection = all.remove(&id).expect("a connection is known until its task has ended");
        self.divide_memory(&all);
        self.ended.wake_all();
        connection
    }

    fn divide_memory(&self, all: &BTreeMap<u64, Connection>) {
        let serving = all.values().filter(|connection| connection.serving.is_some());
        self.budget.divide_among(serving.count());
    }

    /// Whether a connection has to make room, or is gone.
    pub(super) fn is_ending(&self, id: u64) -> bool {
        self.all.borrow().get(&id).is_none_or(|connection| connection.ending)
    }

    /// Those who use an export use it by the name `to`.
    pub(super) fn rename(&self, export: ExportId, to: &str) {
        for connection in self.all.borrow_mut().values_mut() {
            if let Some(serving) = connection.serving.as_mut().filter(|serving| serving.export == export) {
                to.clone_into(&mut serving.name);
            }
        }
    }

    /// Has those of an export receive nothing more; answers when all that they had received is done.
    pub(super) async fn pause(&self, export: ExportId) {
        let sessions = self.sessions_of(export);
        sessions.iter().for_each(|session| session.pause());
        join_all(sessions.into_iter().map(Session::at_rest)).await;
    }

    /// Has them go on.
    pub(super) fn resume(&self, export: ExportId) {
        self.sessions_of(export).iter().for_each(|session| session.resume());
    }

    /// Has those that rest leave for where their export is now; answers when they have left.
    pub(super) async fn depart(&self, export: ExportId) {
        self.sessions_of(export).iter().for_each(|session| session.depart());
        while self.all.borrow().values().any(|connection| connection.export() == Some(export)) {
            self.ended.wait().await;
        }
    }

    fn sessions_of(&self, export: ExportId) -> Vec<Rc<dyn Session>> {
        let all = self.all.borrow();
        let serving = all.values().filter_map(|connection| connection.serving.as_ref());
        serving.filter(|serving| serving.export == export).map(|serving| Rc::clone(&serving.session)).collect()
    }

    /// Ends those of an export (all of them without one) when their requests in flight are finished, after `limit` in any case;
    /// answers when they are gone.
    pub(super) async fn end(&self, export: Option<ExportId>, limit: Duration) {
        let is_meant = |connection: &&Connection| export.is_none() || connection.export() == export;
        for connection in self.all.borrow().values().filter(is_meant) {
            match &connection.serving {
                Some(serving) => serving.session.stop(limit),
                None => connection.stream.shutdown(),
            }
        }
        while self.all.borrow().values().any(|connection| is_meant(&connection)) {
            self.ended.wait().await;
        }
    }

    /// Ends connections whose client is gone, or keeps others from their memory. To be asked at regular times.
    pub(super) fn end_abandoned(&self) {
        let mut abandoned = 0;
        for connection in self.all.borrow().values() {
            if connection.stream.is_abandoned() {
                abandoned += 1;
                connection.stream.shutdown();
            } else if let Some(serving) = &connection.serving
                && serving.session.is_stalled(LOOKS_MAX)
                && self.budget.is_awaited()
            {
                abandoned += 1;
                serving.session.close();
            }
        }
        self.count(|counters| counters.abandoned += abandoned);
    }

    /// Has requests answered that make no progress.
    pub(super) fn expire_late(&self, now: Instant, timeout: Duration) {
        let all = self.all.borrow();
        let serving = || all.values().filter_map(|connection| connection.serving.as_ref());
        let mut ended: BTreeMap<ExportId, Ended> = BTreeMap::new();
        for serving in serving() {
            let of_export = ended.entry(serving.export).or_default();
            *of_export = of_export.or(serving.session.ended());
        }
        for serving in serving() {
            serving.session.expire_late(&ended[&serving.export], now, timeout);
        }
    }

    pub(super) fn refuse_handshake(&self, id: u64, why: &io::Error) {
        self.count(|counters| counters.handshakes_refused += 1);
        let peer = self.all.borrow().get(&id).map(|connection| connection.stream.peer()).unwrap_or_default();
        *self.refused_handshake.borrow_mut() = format!("{peer}: {why}");
    }

    pub(super) fn refused_handshake(&self) -> String {
        self.refused_handshake.borrow().clone()
    }

    pub(super) fn count(&self, more: impl FnOnce(&mut ServerCounters)) {
        let mut counters = self.counters.get();
        more(&mut counters);
        self.counters.set(counters);
    }

    pub(super) fn counters(&self) -> ServerCounters {
        self.counters.get()
    }

    pub(super) fn statuses(&self) -> Vec<ConnectionStatus> {
        self.all.borrow().values().map(Connection::status).collect()
    }
}

impl Connection {
    fn export(&self) -> Option<ExportId> {
        self.serving.as_ref().map(|serving| serving.export)
    }

    fn status(&self) -> ConnectionStatus {
        ConnectionStatus {
            peer: self.stream.peer(),
            export: self.serving.as_ref().map(|serving| serving.name.clone()),
            in_flight: self.serving.as_ref().map_or(0, |serving| serving.session.in_flight()),
            link: self.link,
            since: self.since,
        }
    }
}
