//! How connections are taken: from a listener of whatever protocol, within the limits, each in a task of its own.

use std::future::Future;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::{Env, HostEnv, Listener, RealInstant, Stream};

use super::arrive::{Departure, Farewell};
use super::connections::Link;
use super::directory::{Counted, ExportId};
use super::list::ExportList;
use super::session::Session;
use super::{Exports, ExportsInner};
use crate::inflight::Budget;
use crate::tls::TlsAcceptor;

/// How long `accept` rests after it failed, for instance because the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A client that has connected. A handle: cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Visitor {
    exports: Exports,
    id: u64,
}

/// The peer of one connection did not stay: the next one has nothing to do with that.
fn is_of_its_peer(error: &io::Error) -> bool {
    let kinds = [io::ErrorKind::NotConnected, io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset];
    kinds.contains(&error.kind())
}

impl Exports {
    /// Takes connections until the stop. `converse` holds the conversation with each until it ends, or leaves for its export; with
    /// the acceptor, if it must begin TLS with that before anything else. Answers where it listens.
    pub(crate) fn accept<F: Future<Output = Farewell> + 'static>(
        &self,
        mut listener: Listener,
        tls: Option<TlsAcceptor>,
        converse: impl Fn(Visitor, Stream, Option<TlsAcceptor>) -> F + 'static,
    ) -> String {
        listener.limit_buffers(self.inner.settings.socket_buffer_bytes);
        let address = listener.local_addr();
        let exports = self.clone();
        self.inner.env.spawn(async move { exports.accept_all(listener, tls, converse).await });
        address
    }

    async fn accept_all<F: Future<Output = Farewell> + 'static>(
        self,
        listener: Listener,
        tls: Option<TlsAcceptor>,
        converse: impl Fn(Visitor, Stream, Option<TlsAcceptor>) -> F,
    ) {
        let ExportsInner { env, connections, stopping, stop, .. } = &*self.inner;
        while !stopping.get() {
            let accepted = match select(std::pin::pin!(listener.accept()), stop.wait()).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(((), _)) => return,
            };
            match accepted {
                Ok(stream) => self.welcome(stream, tls.clone(), &converse),
                Err(error) if is_of_its_peer(&error) => {}
                Err(_) => {
                    connections.count(|counters| counters.accept_failures += 1);
                    env.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Gives a connection its task, if there is room for one more.
    fn welcome<F: Future<Output = Farewell> + 'static>(
        &self,
        stream: Stream,
        tls: Option<TlsAcceptor>,
        converse: impl Fn(Visitor, Stream, Option<TlsAcceptor>) -> F,
    ) {
        let ExportsInner { env, connections, settings, directory, .. } = &*self.inner;
        if !connections.make_room(&stream, settings.connections_max, directory) {
            connections.count(|counters| counters.refused += 1);
            stream.shutdown();
            return;
        }
        let link = if tls.is_some() { Link::Tls } else { Link::Socket };
        let visitor = self.register(stream.clone(), link, env.real_now(), directory.count());
        let conversation = converse(visitor.clone(), stream, tls);
        let exports = self.clone();
        env.spawn(async move { exports.see_off(visitor, conversation).await });
    }

    /// Knows a connection until it is seen off.
    pub(super) fn register(&self, stream: Stream, link: Link, since: RealInstant, counted: Counted) -> Visitor {
        let id = self.inner.connections.register(stream, link, since, counted);
        Visitor { exports: self.clone(), id }
    }

    /// Knows a client that has chosen its export by other means than a handshake with us.
    pub(crate) fn welcome_to_export(&self, departure: Departure, link: Link) {
        self.send(departure, link, self.inner.env.real_now(), self.inner.directory.count());
    }

    /// Waits for the end of a conversation; the connection ends with it, or goes to where its export is.
    pub(super) async fn see_off(&self, visitor: Visitor, conversation: impl Future<Output = Farewell>) {
        let farewell = conversation.await;
        let left = self.inner.connections.forget(visitor.id);
        match farewell {
            Farewell::Over => left.stream.shutdown(),
            Farewell::Leaves(departure) => {
                let (link, since, counted) = (left.link, left.since, left.counted);
                drop(left.stream);
                self.send(departure, link, since, counted);
            }
        }
    }
}

impl Visitor {
    pub(crate) fn exports(&self) -> &Exports {
        &self.exports
    }

    /// Whether it has to make room for others, or all have to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.exports.inner.stopping.get() || self.exports.inner.connections.is_ending(self.id)
    }

    /// Its TLS handshake failed.
    pub(crate) fn refuse_handshake(&self, why: &io::Error) {
        self.exports.inner.connections.refuse_handshake(self.id, why);
    }

    /// A session serves it. If its export is about to move, that waits with the others.
    pub(crate) fn serves(&self, export: ExportId, name: String, session: Rc<dyn Session>) {
        if self.exports.inner.paused.borrow().contains(&export) {
            session.pause();
        }
        self.exports.inner.connections.serves(self.id, export, name, session);
    }

    /// Its session is about to leave, and nobody may ask anything of it any more.
    pub(crate) fn serves_no_more(&self) {
        self.exports.inner.connections.serves_no_more(self.id);
    }
}

/// What a protocol needs of the exports to serve one of them.
impl Exports {
    pub(crate) fn env(&self) -> &HostEnv {
        &self.inner.env
    }

    pub(crate) fn budget(&self) -> Budget {
        self.inner.budget.clone()
    }

    /// What `look` finds in what may be chosen now. It does not wait.
    pub(crate) fn list<T>(&self, look: impl FnOnce(&ExportList) -> T) -> T {
        look(&self.inner.directory.known().list)
    }

    /// What names the export of that name, unless it is gone.
    pub(crate) fn id_of(&self, name: &str) -> Option<ExportId> {
        self.inner.directory.known().id_of(name)
    }

    /// Waits until there is another export, or one is expected no more, or somebody has to end: from this call on, not from
    /// the first poll.
    pub(crate) fn list_changed(&self) -> impl Future<Output = ()> {
        self.inner.directory.changed()
    }
}
