//! One connection's life: TLS if it must, the handshake, then the session.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use futures_util::future::{Either, select};
use hotset_block::{Env, Stream};

use super::command::Terms;
use super::negotiation::{Agreement, Negotiation, Next, OPTION_BYTES_MAX, TlsState};
use super::server::ServerInner;
use super::session::Session;
use super::wire::OPTION_HEADER_BYTES;
use crate::receive::ReceiveBuffer;
use crate::tls::TlsAcceptor;
use crate::transport::Transport;

/// Requests of a turn: a few hundred with small payloads.
const RECEIVE_BYTES: usize = 256 << 10;
const _: () = assert!(RECEIVE_BYTES > OPTION_HEADER_BYTES + OPTION_BYTES_MAX, "every option fits");

/// A finished handshake.
struct Agreed {
    transport: Transport,
    received: ReceiveBuffer,
    agreement: Agreement,
    /// The last answer, not sent yet: whoever serves the export is known before the client may use it.
    answer: Vec<u8>,
}

/// Serves a connection until it ends. That it ended, or why, is nobody's concern but the client's.
pub(super) async fn run(server: &Rc<ServerInner>, id: u64, stream: Stream, tls: Option<TlsAcceptor>) {
    let awaits_export = Cell::new(false);
    let limit = patience(server, &awaits_export);
    let agreed = match select(Box::pin(shake_hands(server, id, stream, tls, &awaits_export)), Box::pin(limit)).await {
        Either::Left((agreed, _)) => agreed,
        Either::Right(((), _)) => return,
    };
    let Ok(Some(agreed)) = agreed else { return };
    serve(server, id, agreed).await;
}

/// Completes when a handshake has taken too long. One that waits for us, and not for its client, may take longer.
async fn patience(server: &ServerInner, awaits_export: &Cell<bool>) {
    server.env.sleep(server.settings.handshake_timeout).await;
    if awaits_export.get() {
        server.env.sleep(server.settings.export_timeout).await;
    }
}

/// From the first byte to an agreement; `None` if the client leaves, or breaks the protocol.
async fn shake_hands(
    server: &ServerInner,
    id: u64,
    stream: Stream,
    tls: Option<TlsAcceptor>,
    awaits_export: &Cell<bool>,
) -> io::Result<Option<Agreed>> {
    let mut transport = Transport::Plain(stream.clone());
    let mut received = ReceiveBuffer::new(server.env.buffers(), RECEIVE_BYTES);
    let mut negotiation = Negotiation::new(if tls.is_some() { TlsState::Required } else { TlsState::Off });
    transport.send(&Negotiation::greeting()).await?;
    let mut answer = Vec::new();
    loop {
        let (consumed, next) = negotiation.advance(received.bytes(), &server.catalogue.borrow(), &mut answer);
        received.consume(consumed);
        if next == Next::Await {
            awaits_export.set(true);
            server.catalogue_changed.wait().await;
            if server.is_ending(id) {
                return Ok(None);
            }
            continue;
        }
        if let Next::Serve(agreement) = next {
            return Ok(Some(Agreed { transport, received, agreement, answer }));
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
                let accepted = acceptor.accept(stream.clone()).await;
                let accepted = accepted.inspect_err(|error| server.refuses_handshake(&stream, error));
                transport = Transport::Tls(accepted?);
                negotiation.tls_established();
            }
            Next::Await | Next::Serve(_) => unreachable!("done above"),
            Next::Close => return Ok(None),
        }
    }
}

/// Makes the session known, then tells the client that it may begin. There is no await between the agreement and
/// here, so that an export that is removed finds all its sessions.
async fn serve(server: &Rc<ServerInner>, id: u64, agreed: Agreed) {
    let Agreed { transport, received, agreement, answer } = agreed;
    let Some(volume) = server.volume(&agreement.export) else { return };
    let Some(terms) = server.catalogue.borrow().find(&agreement.export).map(|export| Terms::new(&agreement, export))
    else {
        return;
    };
    let drain_timeout = server.settings.drain_timeout;
    let env = server.env.at_work_for(&format!("volume {}", agreement.export));
    let session = Session::new(env, volume, transport, terms, server.budget.clone(), drain_timeout);
    server.serves(id, agreement.export, Rc::clone(&session));
    session.run(answer, received).await;
}
