//! One connection's life: TLS if it must, the handshake, then the session, on the thread of its export.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;

use futures_util::future::{Either, select};
use hotset_block::{Env, HostEnv, Stream};
use hotset_cache::Volume;

use super::command::Terms;
use super::negotiation::{Negotiation, Next, OPTION_BYTES_MAX, TlsState};
use super::session::Session;
use super::wire::OPTION_HEADER_BYTES;
use crate::exports::{Departure, ExportId, ExportInfo, Exports, Farewell, Link, Visitor};
use crate::receive::ReceiveBuffer;
use crate::tls::TlsAcceptor;
use crate::transport::Transport;

/// Requests of a turn: a few hundred with small payloads.
const RECEIVE_BYTES: usize = 256 << 10;
const _: () = assert!(RECEIVE_BYTES > OPTION_HEADER_BYTES + OPTION_BYTES_MAX, "every option fits");

/// What a session needs beside its connection and its volume; it goes with them from thread to thread.
struct Carried {
    export: ExportId,
    terms: Terms,
    /// Received, and not understood yet.
    received: Vec<u8>,
    /// The last answer of the handshake, if that is not sent yet: whoever serves the export is known before the client may use it.
    answer: Vec<u8>,
    /// What was written may not be there, and the client was not told yet.
    owes_warning: bool,
}

/// Meets a client, until it ends or leaves for its export. That it ended, or why, is nobody's concern but the client's.
pub(super) async fn run(visitor: Visitor, stream: Stream, tls: Option<TlsAcceptor>) -> Farewell {
    let awaits_export = Cell::new(false);
    let limit = handshake_limit(visitor.exports(), &awaits_export);
    let handshake = shake_hands(&visitor, stream, tls, &awaits_export);
    let agreed = match select(Box::pin(handshake), Box::pin(limit)).await {
        Either::Left((agreed, _)) => agreed,
        Either::Right(((), _)) => return Farewell::Over,
    };
    match agreed {
        Ok(Some((transport, carried))) => leave(transport, carried),
        Ok(None) | Err(_) => Farewell::Over,
    }
}

/// Serves the export of that name to the client at the other end of `stream`, which is told by other means what it is: no handshake
/// comes first. Answers what it has to be told; `None`: there is no such export now, and the client is gone.
pub(crate) fn serve_without_handshake(exports: &Exports, name: &str, stream: Stream, link: Link) -> Option<ExportInfo> {
    let info = exports.list(|list| list.find(name).cloned())?;
    let export = exports.id_of(name)?;
    let terms = Terms::without_handshake(&info);
    let carried = Carried { export, terms, received: Vec::new(), answer: Vec::new(), owes_warning: false };
    exports.welcome_to_export(depart(Transport::Plain(stream), carried), link);
    Some(info)
}

/// Completes when a handshake has taken too long. One that waits for us, and not for its client, may take longer.
async fn handshake_limit(exports: &Exports, awaits_export: &Cell<bool>) {
    exports.env().sleep(exports.settings().handshake_timeout).await;
    if awaits_export.get() {
        exports.env().sleep(exports.settings().export_timeout).await;
    }
}

/// From the first byte to an agreement; `None` if the client leaves, or breaks the protocol.
async fn shake_hands(
    visitor: &Visitor,
    stream: Stream,
    tls: Option<TlsAcceptor>,
    awaits_export: &Cell<bool>,
) -> io::Result<Option<(Transport, Carried)>> {
    let exports = visitor.exports();
    let mut negotiation = Negotiation::new(if tls.is_some() { TlsState::Required } else { TlsState::Off });
    let mut transport = Transport::Plain(stream);
    let mut received = ReceiveBuffer::new(exports.env().buffers(), RECEIVE_BYTES);
    transport.send(&Negotiation::greeting()).await?;
    let mut answer = Vec::new();
    loop {
        let changed = exports.list_changed();
        let (consumed, next) = exports.list(|list| negotiation.advance(received.bytes(), list, &mut answer));
        received.consume(consumed);
        if next == Next::Await {
            awaits_export.set(true);
            changed.await;
            if visitor.is_ending() {
                return Ok(None);
            }
            continue;
        }
        if let Next::Serve(agreement) = next {
            let terms = exports.list(|list| list.find(&agreement.export).map(|export| Terms::new(&agreement, export)));
            let (Some(terms), Some(export)) = (terms, exports.id_of(&agreement.export)) else { return Ok(None) };
            let received = received.bytes().to_vec();
            return Ok(Some((transport, Carried { export, terms, received, answer, owes_warning: false })));
        }
        transport.send(&answer).await?;
        answer.clear();
        match next {
            Next::Receive => {
                if received.fill(&transport).await? == 0 {
                    return Ok(None);
                }
            }
            Next::Continue => {}
            Next::StartTls => {
                let acceptor = tls.as_ref().expect("TLS is offered only where it is configured");
                let accepted = acceptor.accept(transport.into_stream()).await;
                let accepted = accepted.inspect_err(|error| visitor.refuse_handshake(error));
                transport = Transport::Tls(accepted?);
                negotiation.tls_established();
            }
            Next::Await | Next::Serve(_) => unreachable!("done above"),
            Next::Close => return Ok(None),
        }
    }
}

/// The connection goes to the thread of its export.
fn leave(transport: Transport, carried: Carried) -> Farewell {
    Farewell::Leaves(depart(transport, carried))
}

fn depart(transport: Transport, carried: Carried) -> Departure {
    let export = carried.export;
    let serve = move |visitor: Visitor, volume: Volume<HostEnv>, transport: Transport| {
        let session = begin(&visitor, volume, transport, &carried);
        let serving: Pin<Box<dyn Future<Output = Farewell>>> =
            Box::pin(async move { serve(visitor, session, carried).await });
        serving
    };
    Departure { transport, export, serve: Box::new(serve) }
}

/// Makes the session known; the client may begin after that.
fn begin(visitor: &Visitor, volume: Volume<HostEnv>, transport: Transport, carried: &Carried) -> Rc<Session> {
    let (exports, name) = (visitor.exports(), volume.name().to_string());
    if carried.owes_warning {
        volume.owe_warning();
    }
    let env = exports.env().at_work_for(&format!("volume {name}"));
    let drain_timeout = exports.settings().drain_timeout;
    let session = Session::new(env, volume, transport, carried.terms, exports.budget(), drain_timeout);
    visitor.serves(carried.export, name, session.clone());
    session
}

/// Serves a client until it ends, or its export moves.
async fn serve(visitor: Visitor, session: Rc<Session>, carried: Carried) -> Farewell {
    let received = ReceiveBuffer::with(visitor.exports().env().buffers(), RECEIVE_BYTES, &carried.received);
    let Some(received) = session.run(&carried.answer, received).await else { return Farewell::Over };
    visitor.serves_no_more();
    let (volume, transport) = Session::into_parts(session);
    let (received, owes_warning) = (received.bytes().to_vec(), volume.owes_warning());
    leave(transport, Carried { received, answer: Vec::new(), owes_warning, ..carried })
}
