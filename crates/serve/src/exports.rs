//! What is served, and to whom: names and their volumes, who waits for one that opens, who is connected.
//!
//! It knows no protocol. One that listens ([`Exports::accept`]) holds the conversations, and says of each which export was chosen
//! and how its [`Session`] is reached. Who may connect is a matter of the listener: a unix socket's mode and group, TLS on TCP.
//! Invariants: connections are counted and limited; an export that is removed, and a stop, let requests in flight finish within
//! a time limit and then close.

mod accept;
mod connections;
mod list;
mod session;
mod settings;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::select;
use hotset_block::sync::Event;
use hotset_block::{Env, HostEnv};
use hotset_cache::config::limits::REQUEST_BYTES_MAX;
use hotset_cache::{Error, ErrorKind, Volume};

pub(crate) use self::accept::Visitor;
use self::connections::Connections;
pub use self::connections::{ConnectionStatus, ServerCounters};
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
    list: RefCell<ExportList>,
    list_changed: Event,
    volumes: RefCell<BTreeMap<String, Volume<HostEnv>>>,
    connections: Connections,
    /// What the payloads of connections may take.
    budget: Budget,
    stopping: Cell<bool>,
    stop: Event,
}

impl Exports {
    /// None yet, and nobody who listens for clients.
    pub fn new(env: HostEnv, settings: ServerSettings) -> Self {
        let request_bytes_max = usize::try_from(REQUEST_BYTES_MAX).expect("a request has at most 32 MiB");
        let budget = Budget::new(settings.memory_bytes.max(request_bytes_max));
        let inner = Rc::new(ExportsInner {
            env,
            settings,
            list: RefCell::default(),
            list_changed: Event::new(),
            volumes: RefCell::default(),
            connections: Connections::new(budget.clone()),
            budget,
            stopping: Cell::new(false),
            stop: Event::new(),
        });
        let watched = Rc::clone(&inner);
        inner.env.spawn(async move { watched.expire_late().await });
        let watched = Rc::clone(&inner);
        inner.env.spawn(async move { watched.watch_clients().await });
        Self { inner }
    }

    pub fn settings(&self) -> ServerSettings {
        self.inner.settings
    }

    /// Exports a volume under its own name. Fails if the name is taken.
    pub fn add(&self, volume: Volume<HostEnv>) -> Result<(), Error> {
        let info = ExportInfo::of(&volume);
        let name = info.name.clone();
        if !self.inner.list.borrow_mut().insert(info) {
            return Err(Error::new(ErrorKind::Refused, format!("there is an export {name} already")));
        }
        self.inner.volumes.borrow_mut().insert(name, volume);
        self.inner.list_changed.wake_all();
        Ok(())
    }

    /// Clients that ask for one of these exports wait for it, until it is added, or expected no more.
    pub fn expect(&self, names: Vec<String>) {
        let mut list = self.inner.list.borrow_mut();
        names.into_iter().for_each(|name| list.expect(name));
    }

    /// Those of these exports that are not there do not come by themselves: clients that wait are told so.
    pub fn expect_no_more(&self, names: &[String]) {
        let mut list = self.inner.list.borrow_mut();
        names.iter().for_each(|name| list.expect_no_more(name));
        drop(list);
        self.inner.list_changed.wake_all();
    }

    /// Gives the export that was called `from` the name that its volume has now: new connections ask for that one, those
    /// there are go on.
    pub fn rename(&self, from: &str, volume: Volume<HostEnv>) -> Result<(), Error> {
        self.add(volume.clone())?;
        self.inner.list.borrow_mut().remove(from);
        self.inner.volumes.borrow_mut().remove(from);
        self.inner.connections.rename(from, volume.name().as_str());
        Ok(())
    }

    /// Tells new connections how the volume of an export is now. Those there are go on: what was added to their volume is served
    /// to them, whether or not their protocol can tell them of it.
    pub fn refresh(&self, volume: &Volume<HostEnv>) {
        self.inner.list.borrow_mut().refresh(ExportInfo::of(volume));
    }

    /// Ends an export: nobody may choose it any more, and its connections are closed when their requests in flight are
    /// finished, after `limit` in any case. The answer says whether there was one.
    pub async fn remove(&self, name: &str, limit: Duration) -> bool {
        self.inner.list.borrow_mut().remove(name);
        let removed = self.inner.volumes.borrow_mut().remove(name).is_some();
        self.inner.connections.end(Some(name), limit).await;
        removed
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
        self.inner.list_changed.wake_all();
        self.inner.connections.end(None, limit).await;
    }

    /// What may be chosen now.
    pub(crate) fn list(&self) -> std::cell::Ref<'_, ExportList> {
        self.inner.list.borrow()
    }

    /// Waits until there is another export, or one is expected no more, or somebody has to end.
    pub(crate) async fn list_changed(&self) {
        self.inner.list_changed.wait().await;
    }
}

impl ExportsInner {
    async fn watch_clients(&self) {
        while !self.stopping.get() {
            select(std::pin::pin!(self.env.sleep(LOOK)), self.stop.wait()).await;
            self.connections.end_abandoned();
        }
    }

    async fn expire_late(&self) {
        let timeout = self.settings.request_timeout;
        while !self.stopping.get() {
            select(std::pin::pin!(self.env.sleep(timeout / 8)), self.stop.wait()).await;
            self.connections.expire_late(self.env.now(), timeout);
        }
    }
}
