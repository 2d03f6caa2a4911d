//! One connection's life: TLS if it must, the handshake, then the session.

use std::cell::Cell;
use std::io;

use futures_util::future::{Either, select};
use hotset_block::Env;

use super::command::Terms;
use super::negotiation::{Agreement, Negotiation, Next, OPTION_BYTES_MAX, TlsState};
use super::session::Session;
use super::wire::OPTION_HEADER_BYTES;
use crate::exports::{Exports, Visitor};
use crate::receive::ReceiveBuffer;
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
pub(super) async fn run(visitor: Visitor) {
    let awaits_export = Cell::new(false);
    let limit = handshake_limit(visitor.exports(), &awaits_export);
    let agreed = match select(Box::pin(shake_hands(&visitor, &awaits_export)), Box::pin(limit)).await {
        Either::Left((agreed, _)) => agreed,
        Either::Right(((), _)) => return,
    };
    let Ok(Some(agreed)) = agreed else { return };
    serve(&visitor, agreed).await;
}

/// Completes when a handshake has taken too long. One that waits for us, and not for its client, may take longer.
async fn handshake_limit(exports: &Exports, awaits_export: &Cell<bool>) {
    exports.env().sleep(exports.settings().handshake_timeout).await;
    if awaits_export.get() {
        exports.env().sleep(exports.settings().export_timeout).await;
    }
}

/// From the first byte to an agreement; `None` if the client leaves, or breaks the protocol.
async fn shake_hands(visitor: &Visitor, awaits_export: &Cell<bool>) -> io::Result<Option<Agreed>> {
    let exports = visitor.exports();
    let mut transport = Transport::Plain(visitor.stream().clone());
    let mut received = ReceiveBuffer::new(exports.env().buffers(), RECEIVE_BYTES);
    let mut negotiation = Negotiation::new(if visitor.tls().is_some() { TlsState::Required } else { TlsState::Off });
    transport.send(&Negotiation::greeting()).await?;
    let mut answer = Vec::new();
    loop {
        let (consumed, next) = negotiation.advance(received.bytes(), &exports.list(), &mut answer);
        received.consume(consumed);
        if next == Next::Await {
            awaits_export.set(true);
            exports.list_changed().await;
            if visitor.is_ending() {
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
                let acceptor = visitor.tls().expect("TLS is offered only where it is configured");
                let accepted = acceptor.accept(visitor.stream().clone()).await;
                let accepted = accepted.inspect_err(|error| visitor.refuse_handshake(error));
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
async fn serve(visitor: &Visitor, agreed: Agreed) {
    let Agreed { transport, received, agreement, answer } = agreed;
    let exports = visitor.exports();
    let Some(volume) = exports.volume(&agreement.export) else { return };
    let Some(terms) = exports.list().find(&agreement.export).map(|export| Terms::new(&agreement, export)) else {
        return;
    };
    let env = exports.env().at_work_for(&format!("volume {}", agreement.export));
    let session = Session::new(env, volume, transport, terms, exports.budget(), exports.settings().drain_timeout);
    visitor.serves(agreement.export, session.clone());
    session.run(answer, received).await;
}
