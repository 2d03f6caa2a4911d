//! Entry points for fuzzing: every function takes any bytes, and must neither panic, nor loop, nor grow without bound.

use super::negotiation::{Negotiation, Next, OPTION_BYTES_MAX, TlsState};
use super::wire::{
    CHUNK_HEADER_BYTES, OPTION_HEADER_BYTES, OPTION_REPLY_HEADER_BYTES, OptionReply, REQUEST_BYTES, Request,
    SIMPLE_REPLY_BYTES, SimpleReply,
};
use crate::exports::{ExportInfo, ExportList};

/// A whole handshake with a client that sends `bytes`. The first byte chooses whether TLS is required.
pub fn negotiation(bytes: &[u8]) {
    let Some((choice, mut input)) = bytes.split_first() else { return };
    let mut exports = ExportList::default();
    for name in ["a", "disk"] {
        exports.insert(ExportInfo::sample(name));
    }
    exports.expect("soon".to_owned());
    let tls = if choice & 1 == 0 { TlsState::Off } else { TlsState::Required };
    let mut negotiation = Negotiation::new(tls);
    let mut out = Vec::new();
    loop {
        out.clear();
        let (consumed, next) = negotiation.advance(input, &exports, &mut out);
        input = &input[consumed..];
        assert!(out.len() <= 4 * OPTION_BYTES_MAX, "an answer is bounded");
        match next {
            Next::Receive => {
                assert!(input.len() < OPTION_HEADER_BYTES + OPTION_BYTES_MAX, "a message that fits is not waited for");
                return;
            }
            Next::Continue => assert!(consumed > 0, "every turn takes a message"),
            Next::Await => {
                assert_eq!((consumed, out.len()), (0, 0), "it asks again");
                exports.expect_no_more("soon");
            }
            Next::StartTls => negotiation.tls_established(),
            Next::Serve(agreement) => {
                assert!(exports.find(&agreement.export).is_some(), "only what exists is served");
                return;
            }
            Next::Close => return,
        }
    }
}

/// A stream of requests, and of what a client decodes.
pub fn messages(bytes: &[u8]) {
    for message in bytes.chunks_exact(REQUEST_BYTES).filter_map(|chunk| chunk.first_chunk::<REQUEST_BYTES>()) {
        if let Some(request) = Request::decode(message) {
            assert_eq!(&request.encode(), message, "what decodes is encoded the same");
        }
    }
    if let Some(reply) = bytes.first_chunk::<SIMPLE_REPLY_BYTES>().and_then(SimpleReply::decode) {
        assert_eq!(reply.encode()[..], bytes[..SIMPLE_REPLY_BYTES]);
    }
    if let Some(reply) = bytes.first_chunk::<OPTION_REPLY_HEADER_BYTES>().and_then(OptionReply::decode) {
        assert_eq!(reply.length.to_be_bytes()[..], bytes[CHUNK_HEADER_BYTES - 4..CHUNK_HEADER_BYTES]);
    }
}
