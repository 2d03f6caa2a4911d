//! A connection goes to the thread of its export: after its handshake, and when its export moves.
//!
//! Nothing of it is under way meanwhile: what was received and not done, and what its protocol needs, goes with it.

use std::future::Future;
use std::pin::Pin;

use hotset_block::{Env, RealInstant};
use hotset_cache::Volume;

use super::accept::Visitor;
use super::connections::Link;
use super::directory::{Counted, ExportId};
use super::{Exports, HostEnv};
use crate::transport::{DetachedTransport, Transport};

/// How a conversation with a client ended, as this thread has it.
pub(crate) enum Farewell {
    Over,
    /// It goes on where its export is.
    Leaves(Departure),
}

/// A conversation that goes on at its export: `serve` begins it, with the export's volume, before it first waits. What it
/// answers ends as any other conversation.
pub(crate) struct Departure {
    pub(crate) transport: Transport,
    pub(crate) export: ExportId,
    pub(crate) serve: Serve,
}

pub(crate) type Conversation = Pin<Box<dyn Future<Output = Farewell>>>;
pub(crate) type Serve = Box<dyn FnOnce(Visitor, Volume<HostEnv>, Transport) -> Conversation + Send>;

/// A connection on its way. Dropping it closes it.
pub(super) struct Arrival {
    transport: DetachedTransport,
    pub(super) export: ExportId,
    serve: Serve,
    link: Link,
    since: RealInstant,
    counted: Counted,
}

impl Exports {
    /// Sends a connection to where its export is; nobody here knows it any more.
    pub(super) fn send(&self, departure: Departure, link: Link, since: RealInstant, counted: Counted) {
        let Departure { transport, export, serve } = departure;
        // Without a descriptor for the way it ends here.
        let Ok(transport) = transport.detach() else { return };
        self.receive(Arrival { transport, export, serve, link, since, counted });
    }

    /// Takes connections from other threads, until the thread ends.
    pub(super) async fn receive_all(self) {
        let arrivals = &self.inner.arrivals;
        while let Some(arrival) = std::future::poll_fn(|context| arrivals.borrow_mut().poll_recv(context)).await {
            self.receive(arrival);
        }
    }

    /// There is no await between the look for the volume and the session being known, so that an export that is removed or moves
    /// finds all its sessions.
    fn receive(&self, arrival: Arrival) {
        let Some(volume) = self.inner.volumes.borrow().get(&arrival.export).cloned() else {
            // It moved meanwhile, or is gone.
            self.inner.directory.send(arrival);
            return;
        };
        if self.inner.stopping.get() {
            return;
        }
        let Arrival { transport, serve, link, since, counted, .. } = arrival;
        let transport = Transport::attach(&self.inner.env, transport);
        let visitor = self.register(transport.stream().clone(), link, since, counted);
        let conversation = serve(visitor.clone(), volume, transport);
        let exports = self.clone();
        self.inner.env.spawn(async move { exports.see_off(visitor, conversation).await });
    }
}
