//! How connections are taken: from a listener of whatever protocol, within the limits, each in a task of its own.

use std::future::Future;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use hotset_block::{Env, HostEnv, Listener, Stream};
use hotset_cache::Volume;

use super::session::Session;
use super::{Exports, ExportsInner};
use crate::inflight::Budget;
use crate::tls::TlsAcceptor;

/// How long `accept` rests after it failed, for instance because the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A client that has connected.
pub(crate) struct Visitor {
    exports: Exports,
    id: u64,
    stream: Stream,
    /// It must begin TLS with this before anything else.
    tls: Option<TlsAcceptor>,
}

impl Exports {
    /// Takes connections until the stop. `converse` holds the conversation with each until it ends. Answers where it listens.
    pub(crate) fn accept<F: Future<Output = ()> + 'static>(
        &self,
        mut listener: Listener,
        tls: Option<TlsAcceptor>,
        converse: impl Fn(Visitor) -> F + 'static,
    ) -> String {
        listener.limit_buffers(self.inner.settings.socket_buffer_bytes);
        let address = listener.local_addr();
        let exports = self.clone();
        self.inner.env.spawn(async move { exports.accept_all(listener, tls, converse).await });
        address
    }

    async fn accept_all<F: Future<Output = ()> + 'static>(
        self,
        listener: Listener,
        tls: Option<TlsAcceptor>,
        converse: impl Fn(Visitor) -> F,
    ) {
        let ExportsInner { env, connections, stopping, stop, .. } = &*self.inner;
        while !stopping.get() {
            let accepted = match select(std::pin::pin!(listener.accept()), stop.wait()).await {
                Either::Left((accepted, _)) => accepted,
                Either::Right(((), _)) => return,
            };
            match accepted {
                Ok(stream) => self.welcome(stream, tls.clone(), &converse),
                Err(_) => {
                    connections.count(|counters| counters.accept_failures += 1);
                    env.sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    /// Gives a connection its task, if there is room for one more.
    fn welcome<F: Future<Output = ()> + 'static>(
        &self,
        stream: Stream,
        tls: Option<TlsAcceptor>,
        converse: impl Fn(Visitor) -> F,
    ) {
        let ExportsInner { env, connections, settings, list_changed, .. } = &*self.inner;
        // Who makes room may be waiting for an export.
        if !connections.make_room(&stream, settings.connections_max, list_changed) {
            connections.count(|counters| counters.refused += 1);
            stream.shutdown();
            return;
        }
        let id = connections.register(stream.clone(), tls.is_some(), env.real_now());
        let conversation = converse(Visitor { exports: self.clone(), id, stream: stream.clone(), tls });
        let exports = self.clone();
        env.spawn(async move {
            conversation.await;
            stream.shutdown();
            exports.inner.connections.forget(id);
        });
    }
}

impl Visitor {
    pub(crate) fn exports(&self) -> &Exports {
        &self.exports
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(crate) fn tls(&self) -> Option<&TlsAcceptor> {
        self.tls.as_ref()
    }

    /// Whether it has to make room for others, or all have to end.
    pub(crate) fn is_ending(&self) -> bool {
        self.exports.inner.stopping.get() || self.exports.inner.connections.is_ending(self.id)
    }

    /// Its TLS handshake failed.
    pub(crate) fn refuse_handshake(&self, why: &io::Error) {
        self.exports.inner.connections.refuse_handshake(&self.stream, why);
    }

    /// It has chosen its export.
    pub(crate) fn serves(&self, export: String, session: Rc<dyn Session>) {
        self.exports.inner.connections.serves(self.id, export, session);
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

    /// The volume of an export, unless it is gone.
    pub(crate) fn volume(&self, export: &str) -> Option<Volume<HostEnv>> {
        self.inner.volumes.borrow().get(export).cloned()
    }
}
