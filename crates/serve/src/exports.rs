//! What is served, and to whom: names and their volumes, who waits for one that opens, who is connected.
//!
//! It knows no protocol. One that listens ([`Exports::accept`]) holds the conversations, and says of each which export was chosen
//! and how its [`Session`] is reached. Who may connect is a matter of the listener: a unix socket's mode and group, TLS on TCP.
//! Each thread has its own, and all of them one [`directory`]: a client that has chosen goes to the thread of its export.
//! Invariants: connections are counted and limited; an export that is removed, and a stop, let requests in flight finish within
//! a time limit and then close; a session and its volume are on one thread.

mod accept;
mod arrive;
mod connections;
mod directory;
mod list;
mod session;
mod settings;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::sync::Event;
use hotset_block::{Env, HostEnv};
use hotset_cache::config::limits::REQUEST_BYTES_MAX;
use hotset_cache::{Error, ErrorKind, Volume};
use tokio::sync::mpsc::UnboundedReceiver;

pub(crate) use self::accept::Visitor;
use self::arrive::Arrival;
pub(crate) use self::arrive::{Departure, Farewell};
use self::connections::Connections;
pub use self::connections::{ConnectionStatus, Link, ServerCounters};
use self::directory::Directory;
pub use self::directory::{Door, ExportId};
pub use self::list::{ExportInfo, ExportList};
pub(crate) use self::session::Session;
pub use self::settings::ServerSettings;
use crate::inflight::Budget;

/// How often clients are looked after.
const LOOK: Duration = Duration::from_secs(2);

/// See the file's summary. A handle: cloning it is cheap.
#[derive(Clone)]
pub struct Exports {
    inner: Rc<ExportsInner>,
}

struct ExportsInner {
    env: HostEnv,
    settings: ServerSettings,
    directory: Arc<Directory>,
    thread: usize,
    arrivals: RefCell<UnboundedReceiver<Arrival>>,
    /// Those of this thread.
    volumes: RefCell<BTreeMap<ExportId, Volume<HostEnv>>>,
    /// Exports that are about to move: their sessions receive nothing.
    paused: RefCell<BTreeSet<ExportId>>,
    connections: Connections,
    /// What the payloads of connections may take.
    budget: Budget,
    stopping: Cell<bool>,
    stop: Event,
}

impl Exports {
    /// None yet, and nobody who listens for clients; for one thread, with what `settings` give to that.
    pub fn new(env: HostEnv, settings: ServerSettings, door: Door) -> Self {
        let Door { directory, thread, arrivals } = door;
        let request_bytes_max = usize::try_from(REQUEST_BYTES_MAX).expect("a request has at most 32 MiB");
        let budget = Budget::new(settings.memory_bytes.max(request_bytes_max));
        let inner = Rc::new(ExportsInner {
            env,
            settings,
            directory,
            thread,
            arrivals: RefCell::new(arrivals),
            volumes: RefCell::default(),
            paused: RefCell::default(),
            connections: Connections::new(budget.clone()),
            budget,
            stopping: Cell::new(false),
            stop: Event::new(),
        });
        let watched = Rc::clone(&inner);
        inner.env.spawn(async move { watched.expire_late().await });
        let watched = Rc::clone(&inner);
        inner.env.spawn(async move { watched.watch_clients().await });
        let exports = Self { inner };
        exports.inner.env.spawn(exports.clone().receive_all());
        exports
    }

    pub fn settings(&self) -> ServerSettings {
        self.inner.settings
    }

    /// Exports a volume under its own name. Fails if the name is taken.
    pub fn add(&self, volume: Volume<HostEnv>) -> Result<(), Error> {
        let info = ExportInfo::of(&volume);
        // Who finds it in the list finds its volume.
        let mut known = self.inner.directory.known();
        let added = known.add(info, self.inner.thread);
        let export = added.ok_or_else(|| taken(volume.name().as_str()))?;
        self.inner.volumes.borrow_mut().insert(export, volume);
        drop(known);
        self.inner.directory.tell();
        Ok(())
    }

    /// Clients that ask for one of these exports wait for it, until it is added, or expected no more.
    pub fn expect(&self, names: Vec<String>) {
        let mut known = self.inner.directory.known();
        names.into_iter().for_each(|name| known.list.expect(name));
    }

    /// Those of these exports that are not there do not come by themselves: clients that wait are told so.
    pub fn expect_no_more(&self, names: &[String]) {
        let mut known = self.inner.directory.known();
        names.iter().for_each(|name| known.list.expect_no_more(name));
        drop(known);
        self.inner.directory.tell();
    }

    /// Gives the export that was called `from` the name that its volume has now: new connections ask for that one, those
    /// there are go on.
    pub fn rename(&self, from: &str, volume: Volume<HostEnv>) -> Result<(), Error> {
        let name = volume.name();
        let mut known = self.inner.directory.known();
        let Some(export) = known.id_of(from) else {
            drop(known);
            return self.add(volume);
        };
        if !known.rename(from, ExportInfo::of(&volume)) {
            return Err(taken(name.as_str()));
        }
        drop(known);
        self.inner.connections.rename(export, name.as_str());
        self.inner.directory.tell();
        Ok(())
    }

    /// Tells new connections how the volume of an export is now. Those there are go on: what was added to their volume is served
    /// to them, whether or not their protocol can tell them of it.
    pub fn refresh(&self, volume: &Volume<HostEnv>) {
        self.inner.directory.known().list.refresh(ExportInfo::of(volume));
    }

    /// Ends an export: nobody may choose it any more, and its connections are closed when their requests in flight are
    /// finished, after `limit` in any case. The answer says whether there was one.
    pub async fn remove(&self, name: &str, limit: Duration) -> bool {
        let removed = self.inner.directory.known().remove(name);
        let Some(export) = removed else { return false };
        self.inner.volumes.borrow_mut().remove(&export);
        self.inner.connections.end(Some(export), limit).await;
        true
    }

    pub fn counters(&self) -> ServerCounters {
        self.inner.connections.counters()
    }

    /// Whose TLS handshake failed last, and why; empty if nobody's did.
    pub fn refused_handshake(&self) -> String {
        self.inner.connections.refused_handshake()
    }

    pub fn connections(&self) -> Vec<ConnectionStatus> {
        self.inner.connections.statuses()
    }

    /// Takes no more connections, and closes those there are when their requests in flight are finished, after `limit`
    /// in any case.
    pub async fn stop(&self, limit: Duration) {
        self.inner.stopping.set(true);
        self.inner.stop.wake_all();
        self.inner.directory.tell();
        self.inner.connections.end(None, limit).await;
    }
}

/// An export moves to another thread, and its clients with it: they pause here, its volume is opened there and expects them
/// ([`Exports::take_over`]), and they leave for it ([`Exports::depart`]). Until they do, everything can go on here
/// ([`Exports::resume`]).
impl Exports {
    /// What names an export of this thread.
    pub fn export_of(&self, name: &str) -> Option<ExportId> {
        let export = self.inner.directory.known().id_of(name)?;
        self.inner.volumes.borrow().contains_key(&export).then_some(export)
    }

    /// Has the clients of an export wait with what they want next. The answer says whether all that they wanted before is
    /// done; false if that takes longer than `limit`, and they go on.
    pub async fn pause(&self, export: ExportId, limit: Duration) -> bool {
        self.inner.paused.borrow_mut().insert(export);
        let limit = pin!(self.inner.env.sleep(limit));
        match select(pin!(self.inner.connections.pause(export)), limit).await {
            Either::Left(_) => true,
            Either::Right(_) => {
                self.resume(export);
                false
            }
        }
    }

    /// Has them go on here.
    pub fn resume(&self, export: ExportId) {
        self.inner.paused.borrow_mut().remove(&export);
        self.inner.connections.resume(export);
    }

    /// From now on this thread serves an export whose clients still rest on another one, with `volume`.
    pub fn take_over(&self, export: ExportId, volume: Volume<HostEnv>) {
        let mut known = self.inner.directory.known();
        known.moved(export, self.inner.thread);
        self.inner.volumes.borrow_mut().insert(export, volume);
    }

    /// Has the clients of an export that another thread has taken over leave for that; answers when they have left.
    pub async fn depart(&self, export: ExportId) {
        self.inner.volumes.borrow_mut().remove(&export);
        self.inner.connections.depart(export).await;
        self.inner.paused.borrow_mut().remove(&export);
    }
}

fn taken(name: &str) -> Error {
    Error::new(ErrorKind::Refused, format!("there is an export {name} already"))
}

impl ExportsInner {
    async fn watch_clients(&self) {
        while !self.stopping.get() {
            select(pin!(self.env.sleep(LOOK)), self.stop.wait()).await;
            self.connections.end_abandoned();
        }
    }

    async fn expire_late(&self) {
        let timeout = self.settings.request_timeout;
        while !self.stopping.get() {
            select(pin!(self.env.sleep(timeout / 8)), self.stop.wait()).await;
            self.connections.expire_late(self.env.now(), timeout);
        }
    }
}
