//! The NBD server: listeners, exports, connections.
//!
//! Invariants: connections are counted and limited; a handshake has a time limit; an export that is removed, and a server
//! that stops, let requests in flight finish within a time limit and then close.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::sync::Event;
use hotset_block::{Env, HostEnv, InheritedListener, Listener, RealInstant, Stream};
use hotset_cache::config::limits::REQUEST_BYTES_MAX;
use hotset_cache::{Error, ErrorKind, Volume};

use super::connection;
use super::negotiation::{Catalogue, ExportInfo};
use super::session::Session;
use super::wire::transmission_flag;
use crate::inflight::{Budget, Ended};
use crate::tls::TlsAcceptor;

/// The transfer that clients are advised to use where the backing device does not say: the cache's page.
const BLOCK_BYTES_PREFERRED: u32 = 4096;
/// How long `accept` rests after it failed, for instance because the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that make room at once.
const ENDING_MAX: usize = 64;

/// How often clients are looked after.
const LOOK: Duration = Duration::from_secs(2);

/// So many looks in a row without a sign of a client end its connection: one that is late, because this process did not
/// run, is one look.
const LOOKS_MAX: u32 = 5;

/// The limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// Connections at once, as far as file descriptors allow. One more takes the place of one that has not chosen an export
    /// yet, or is closed at once.
    pub connections_max: usize,
    /// What the payloads of all connections may take together, beside 128 KiB of each. At least the longest request.
    pub memory_bytes: usize,
    /// Who may connect to unix sockets that the server makes: their mode, and their group, if not the process's own.
    pub socket_mode: u32,
    pub socket_group: Option<u32>,
    /// What a connection may have in the kernel on its way, in each direction.
    pub socket_buffer_bytes: usize,
    /// How long a client may take until it has chosen its export, TLS included.
    pub handshake_timeout: Duration,
    /// How much longer a client may wait for an export that is being opened.
    pub export_timeout: Duration,
    /// How long a request may make no progress until it is answered with an error (`inflight/progress.rs`). It is looked after eight
    /// times as often.
    pub request_timeout: Duration,
    /// How long a connection that its client ends may take to finish what is in flight.
    pub drain_timeout: Duration,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            connections_max: usize::MAX,
            memory_bytes: 512 << 20,
            socket_mode: 0o600,
            socket_group: None,
            socket_buffer_bytes: 2 << 20,
            handshake_timeout: Duration::from_secs(10),
            export_timeout: Duration::from_secs(600),
            request_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
        }
    }
}

/// What a server knows of one of its connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionStatus {
    pub peer: String,
    /// `None` until the client has chosen one.
    pub export: Option<String>,
    /// Requests received and not answered.
    pub in_flight: usize,
    pub tls: bool,
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

/// See the file's summary. A handle: cloning it is cheap.
#[derive(Clone)]
pub struct Server {
    inner: Rc<ServerInner>,
}

pub(super) struct ServerInner {
    pub(super) env: HostEnv,
    pub(super) settings: ServerSettings,
    pub(super) catalogue: RefCell<Catalogue>,
    pub(super) catalogue_changed: Event,
    volumes: RefCell<BTreeMap<String, Volume<HostEnv>>>,
    connections: RefCell<BTreeMap<u64, Connection>>,
    /// What the payloads of connections may take.
    pub(super) budget: Budget,
    counters: Cell<ServerCounters>,
    /// Who was refused TLS last, and why.
    refused_handshake: RefCell<String>,
    connections_made: Cell<u64>,
    connection_ended: Event,
    stopping: Cell<bool>,
    stop: Event,
}

/// A connection as its server sees it.
struct Connection {
    stream: Stream,
    tls: bool,
    since: RealInstant,
    /// It had to make room, and its task is about to end.
    ending: bool,
    serving: Option<Serving>,
}

struct Serving {
    export: String,
    session: Rc<Session>,
}

impl Server {
    /// A server without listeners and exports.
    pub fn new(env: HostEnv, settings: ServerSettings) -> Self {
        let inner = Rc::new(ServerInner {
            env,
            settings,
            catalogue: RefCell::default(),
            catalogue_changed: Event::new(),
            volumes: RefCell::default(),
            connections: RefCell::default(),
            budget: Budget::new(settings.memory_bytes.max(usize::try_from(REQUEST_BYTES_MAX).expect("32 MiB"))),
            counters: Cell::default(),
            refused_handshake: RefCell::default(),
            connections_made: Cell::new(0),
            connection_ended: Event::new(),
            stopping: Cell::new(false),
            stop: Event::new(),
        });
        let swept = Rc::clone(&inner);
        inner.env.spawn(async move { swept.sweep().await });
        let watched = Rc::clone(&inner);
        inner.env.spawn(async move { watched.watch_clients().await });
        Self { inner }
    }

    /// Listens on a unix socket. With `tls`, clients must begin TLS before anything else. Answers where it listens.
    pub fn listen_unix(&self, path: &Path, tls: Option<TlsAcceptor>) -> io::Result<String> {
        let ServerSettings { socket_mode, socket_group, .. } = self.inner.settings;
        Ok(self.listen(Listener::bind_unix_for(&self.inner.env, path, socket_mode, socket_group)?, tls))
    }

    /// Listens on a TCP address; port 0 lets the kernel choose one. As [`Server::listen_unix`].
    pub fn listen_tcp(&self, address: SocketAddr, tls: Option<TlsAcceptor>) -> io::Result<String> {
        Ok(self.listen(Listener::bind_tcp(&self.inner.env, address)?, tls))
    }

    /// Listens on a socket that this process was started with. As [`Server::listen_unix`].
    pub fn listen_inherited(&self, inherited: InheritedListener, tls: Option<TlsAcceptor>) -> io::Result<String> {
        Ok(self.listen(Listener::over_inherited(&self.inner.env, inherited)?, tls))
    }

    fn listen(&self, mut listener: Listener, tls: Option<TlsAcceptor>) -> String {
        listener.limit_buffers(self.inner.settings.socket_buffer_bytes);
        let address = listener.local_addr();
        let inner = Rc::clone(&self.inner);
        self.inner.env.spawn(async move { inner.accept(listener, tls).await });
        address
    }

    /// Exports a volume under its own name. Fails if the name is taken.
    pub fn add_export(&self, volume: Volume<HostEnv>) -> Result<(), Error> {
        let info = describe(&volume);
        let name = info.name.clone();
        if !self.inner.catalogue.borrow_mut().insert(info) {
            return Err(Error::new(ErrorKind::Refused, format!("there is an export {name} already")));
        }
        self.inner.volumes.borrow_mut().insert(name, volume);
        self.inner.catalogue_changed.wake_all();
        Ok(())
    }

    /// Clients that ask for one of these exports wait for it, until it is added, or expected no more.
    pub fn expect_exports(&self, names: Vec<String>) {
        let mut catalogue = self.inner.catalogue.borrow_mut();
        names.into_iter().for_each(|name| catalogue.expect(name));
    }

    /// Those of these exports that are not there do not come by themselves: clients that wait are told so.
    pub fn expect_no_more(&self, names: &[String]) {
        let mut catalogue = self.inner.catalogue.borrow_mut();
        names.iter().for_each(|name| catalogue.expect_no_more(name));
        drop(catalogue);
        self.inner.catalogue_changed.wake_all();
    }

    /// Gives the export that was called `from` the name that its volume has now: new connections ask for that one, those
    /// there are go on.
    pub fn rename_export(&self, from: &str, volume: Volume<HostEnv>) -> Result<(), Error> {
        self.add_export(volume.clone())?;
        self.inner.catalogue.borrow_mut().remove(from);
        self.inner.volumes.borrow_mut().remove(from);
        for connection in self.inner.connections.borrow_mut().values_mut() {
            if let Some(serving) = connection.serving.as_mut().filter(|serving| serving.export == from) {
                serving.export = volume.name().to_string();
            }
        }
        Ok(())
    }

    /// Tells new connections how the volume of an export is now; those there are go on as they were told.
    pub fn refresh_export(&self, volume: &Volume<HostEnv>) {
        let info = describe(volume);
        let mut catalogue = self.inner.catalogue.borrow_mut();
        if catalogue.find(&info.name).is_some() {
            catalogue.remove(&info.name);
            catalogue.insert(info);
        }
    }

    /// Ends an export: nobody may choose it any more, and its connections are closed when their requests in flight are
    /// finished, after `limit` in any case. The answer says whether there was one.
    pub async fn remove_export(&self, name: &str, limit: Duration) -> bool {
        self.inner.catalogue.borrow_mut().remove(name);
        let removed = self.inner.volumes.borrow_mut().remove(name).is_some();
        self.inner.end_connections(|connection| connection.export() == Some(name), limit).await;
        removed
    }

    pub fn counters(&self) -> ServerCounters {
        self.inner.counters.get()
    }

    /// Whose TLS handshake failed last, and why; empty if nobody's did.
    pub fn refused_handshake(&self) -> String {
        self.inner.refused_handshake.borrow().clone()
    }

    pub fn connections(&self) -> Vec<ConnectionStatus> {
        self.inner.connections.borrow().values().map(Connection::status).collect()
    }

    /// Takes no more connections, and closes those there are when their requests in flight are finished, after `limit`
    /// in any case.
    pub async fn stop(&self, limit: Duration) {
        self.inner.stopping.set(true);
        self.inner.stop.wake_all();
        self.inner.catalogue_changed.wake_all();
        self.inner.end_connections(|_| true, limit).await;
    }
}

/// What clients are told of a volume.
fn describe(volume: &Volume<HostEnv>) -> ExportInfo {
    use transmission_flag as flag;
    let settings = volume.settings();
    let mut flags = flag::HAS_FLAGS
        | flag::SEND_FLUSH
        | flag::SEND_FUA
        | flag::SEND_WRITE_ZEROES
        | flag::SEND_FAST_ZERO
        | flag::SEND_CACHE
        | flag::CAN_MULTI_CONN;
    if settings.read_only {
        flags |= flag::READ_ONLY;
    }
    if volume.trims() {
        flags |= flag::SEND_TRIM;
    }
    let status = volume.status();
    ExportInfo {
        name: volume.name().as_str().to_owned(),
        description: format!("Hotset volume {} on {}", status.name, status.backing),
        size_bytes: volume.size_bytes(),
        flags,
        block_bytes_min: settings.logical_block_bytes,
        block_bytes_preferred: settings.logical_block_bytes.max(BLOCK_BYTES_PREFERRED),
        block_bytes_max: u32::try_from(REQUEST_BYTES_MAX).expect("32 MiB"),
    }
}

impl ServerInner {
    async fn accept(self: Rc<Self>, listener: Listener, tls: Option<TlsAcceptor>) {
        while !self.stopping.get() {
            let accepted = match select(std::pin::pin!(listener.accept()), self.stop.wait()).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(((), _)) => return,
            };
            match accepted {
                Ok(stream) => self.welcome(stream, tls.clone()),
                Err(_) => {
                    self.count(|counters| counters.accept_failures += 1);
                    self.env.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Gives a connection its task, if there is room for one more.
    fn welcome(self: &Rc<Self>, stream: Stream, tls: Option<TlsAcceptor>) {
        if !self.make_room(&stream) {
            self.count(|counters| counters.refused += 1);
            stream.shutdown();
            return;
        }
        let id = self.connections_made.get();
        self.connections_made.set(id + 1);
        let (of_tls, since) = (tls.is_some(), self.env.real_now());
        let connection = Connection { stream: stream.clone(), tls: of_tls, since, ending: false, serving: None };
        self.connections.borrow_mut().insert(id, connection);
        let inner = Rc::clone(self);
        self.env.spawn(async move {
            connection::run(&inner, id, stream.clone(), tls).await;
            stream.shutdown();
            inner.forget(id);
        });
    }

    /// At the limit, whoever has been longest without choosing an export makes room: idle strangers keep nobody out.
    fn make_room(&self, newcomer: &Stream) -> bool {
        let mut connections = self.connections.borrow_mut();
        let ending = connections.values().filter(|connection| connection.ending).count();
        if connections.len() - ending < self.settings.connections_max && newcomer.may_be_kept() {
            return true;
        }
        let idle = connections.values_mut().find(|connection| connection.serving.is_none() && !connection.ending);
        let Some(idle) = idle.filter(|_| ending < ENDING_MAX) else { return false };
        self.count(|counters| counters.made_room += 1);
        idle.ending = true;
        idle.stream.shutdown();
        // It may wait for an export.
        self.catalogue_changed.wake_all();
        true
    }

    pub(super) fn refuses_handshake(&self, stream: &Stream, why: &io::Error) {
        self.count(|counters| counters.handshakes_refused += 1);
        *self.refused_handshake.borrow_mut() = format!("{}: {why}", stream.peer());
    }

    fn count(&self, more: impl FnOnce(&mut ServerCounters)) {
        let mut counters = self.counters.get();
        more(&mut counters);
        self.counters.set(counters);
    }

    /// Ends connections whose client is gone, or keeps others from their memory.
    async fn watch_clients(&self) {
        while !self.stopping.get() {
            select(std::pin::pin!(self.env.sleep(LOOK)), self.stop.wait()).await;
            let mut abandoned = 0;
            for connection in self.connections.borrow().values() {
                if connection.stream.is_abandoned() {
                    abandoned += 1;
                    connection.stream.shutdown();
                } else if let Some(serving) = &connection.serving
                    && serving.session.is_stalled(LOOKS_MAX)
                    && self.budget.is_awaited()
                {
                    abandoned += 1;
                    serving.session.end();
                }
            }
            self.count(|counters| counters.abandoned += abandoned);
        }
    }

    /// Whether a connection has to make room, or all have to end.
    pub(super) fn is_ending(&self, id: u64) -> bool {
        self.stopping.get() || self.connections.borrow().get(&id).is_none_or(|connection| connection.ending)
    }

    /// The volume of an export, unless it is gone.
    pub(super) fn volume(&self, export: &str) -> Option<Volume<HostEnv>> {
        self.volumes.borrow().get(export).cloned()
    }

    /// The connection's client has chosen its export.
    pub(super) fn serves(&self, id: u64, export: String, session: Rc<Session>) {
        let mut connections = self.connections.borrow_mut();
        let connection = connections.get_mut(&id).expect("a connection is known until its task has ended");
        connection.serving = Some(Serving { export, session });
        self.divide_memory(&connections);
    }

    /// The connection's task has ended.
    fn forget(&self, id: u64) {
        let mut connections = self.connections.borrow_mut();
        connections.remove(&id);
        self.divide_memory(&connections);
        self.connection_ended.wake_all();
    }

    fn divide_memory(&self, connections: &BTreeMap<u64, Connection>) {
        let serving = connections.values().filter(|connection| connection.serving.is_some());
        self.budget.divide_among(serving.count());
    }

    /// Ends those connections, and waits until they are gone.
    async fn end_connections(&self, which: impl Fn(&Connection) -> bool, limit: Duration) {
        for connection in self.connections.borrow().values().filter(|connection| which(connection)) {
            match &connection.serving {
                Some(serving) => serving.session.stop(limit),
                None => connection.stream.shutdown(),
            }
        }
        while self.connections.borrow().values().any(&which) {
            self.connection_ended.wait().await;
        }
    }

    /// Looks for requests that get nowhere.
    async fn sweep(&self) {
        let timeout = self.settings.request_timeout;
        while !self.stopping.get() {
            select(std::pin::pin!(self.env.sleep(timeout / 8)), self.stop.wait()).await;
            let now = self.env.now();
            let connections = self.connections.borrow();
            let serving = || connections.values().filter_map(|connection| connection.serving.as_ref());
            let mut ended: BTreeMap<&str, Ended> = BTreeMap::new();
            for serving in serving() {
                let of_export = ended.entry(&serving.export).or_default();
                *of_export = of_export.or(serving.session.ended());
            }
            for serving in serving() {
                serving.session.expire_late(&ended[serving.export.as_str()], now, timeout);
            }
        }
    }
}

impl Connection {
    fn export(&self) -> Option<&str> {
        self.serving.as_ref().map(|serving| serving.export.as_str())
    }

    fn status(&self) -> ConnectionStatus {
        ConnectionStatus {
            peer: self.stream.peer(),
            export: self.export().map(str::to_owned),
            in_flight: self.serving.as_ref().map_or(0, |serving| serving.session.in_flight()),
            tls: self.tls,
            since: self.since,
        }
    }
}
