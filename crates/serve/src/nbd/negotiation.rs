//! The handshake of the NBD protocol, fixed newstyle, as a pure state machine: bytes in, answers and a [`Next`] out.
//!
//! It sends and receives nothing itself and knows of exports only what the [`ExportList`] says. One message is handled
//! per call, so that its answer can be sent before the next is looked at: a client that asks without reading cannot
//! make answers pile up. Invariants: an export is named only to those who may see it (TLS first, where required), and
//! nothing agreed before TLS holds after it.

use super::wire::{
    BASE_ALLOCATION, BASE_ALLOCATION_ID, EXPORT_NAME_ZEROES, INIT_MAGIC, OPTION_HEADER_BYTES, OPTION_MAGIC,
    OptionHeader, Reader, STRING_BYTES_MAX, handshake_flag, info, option, push_option_reply, push_string, reply,
    transmission_flag,
};
use crate::exports::{ExportInfo, ExportList};

/// The longest option that is looked at: an export's name and a dozen queries of the longest kind.
pub const OPTION_BYTES_MAX: usize = 64 << 10;
/// Options of one handshake, so that it ends. Tools that look at every export ask a few times for each of them.
const OPTIONS_MAX: u32 = 8192;

/// Where the connection stands with TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsState {
    /// This server has no TLS here.
    Off,
    /// Nothing may be said before TLS.
    Required,
    Established,
}

/// What both sides agreed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// The export's full name (never the empty one).
    pub export: String,
    pub structured_replies: bool,
    /// The client may ask for block status, context [`BASE_ALLOCATION_ID`].
    pub block_status: bool,
    /// The client asked for the sizes of blocks, and keeps to them ("Block size constraints"). Who did not may ask for any bytes.
    pub block_sizes: bool,
}

/// What the caller does after it sent the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next message is not complete: receive more.
    Receive,
    /// Call again: there may be another message.
    Continue,
    /// Call again with the same bytes when the exports has changed: the export that is asked for is being opened.
    Await,
    /// Begin TLS, then [`Negotiation::tls_established`].
    StartTls,
    /// The handshake is over; requests follow.
    Serve(Agreement),
    /// The client left, or broke the protocol.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    ClientFlags,
    Options,
}

/// See the file's summary.
#[derive(Debug)]
pub struct Negotiation {
    phase: Phase,
    tls: TlsState,
    no_zeroes: bool,
    fixed: bool,
    structured_replies: bool,
    /// The export for which block status was selected.
    block_status_of: Option<String>,
    options_left: u32,
}

/// Whether the option that ends the handshake asked for `NBD_INFO_BLOCK_SIZE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockSizes {
    Asked,
    NotAsked,
}

/// One option with its data.
struct Asked<'a> {
    option: u32,
    data: &'a [u8],
}

impl Negotiation {
    pub fn new(tls: TlsState) -> Self {
        Self {
            phase: Phase::ClientFlags,
            tls,
            no_zeroes: false,
            fixed: false,
            structured_replies: false,
            block_status_of: None,
            options_left: OPTIONS_MAX,
        }
    }

    /// What the server says first.
    pub fn greeting() -> [u8; 18] {
        let mut bytes = [0; 18];
        bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
        bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        let flags = handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES;
        bytes[16..].copy_from_slice(&flags.to_be_bytes());
        bytes
    }

    /// TLS is up: the client starts over, and what was said in the clear is forgotten.
    pub fn tls_established(&mut self) {
        self.tls = TlsState::Established;
        self.structured_replies = false;
        self.block_status_of = None;
    }

    /// Handles at most one message at the start of `input`; appends its answer to `out`. The first value is how many
    /// bytes of `input` are done with.
    pub fn advance(&mut self, input: &[u8], exports: &ExportList, out: &mut Vec<u8>) -> (usize, Next) {
        match self.phase {
            Phase::ClientFlags => self.client_flags(input),
            Phase::Options => self.option(input, exports, out),
        }
    }

    /// "Client flags": an unknown one must end the connection.
    fn client_flags(&mut self, input: &[u8]) -> (usize, Next) {
        let Some(flags) = Reader::new(input).u32() else { return (0, Next::Receive) };
        let fixed = u32::from(handshake_flag::FIXED_NEWSTYLE);
        let no_zeroes = u32::from(handshake_flag::NO_ZEROES);
        if flags & !(fixed | no_zeroes) != 0 {
            return (4, Next::Close);
        }
        self.fixed = flags & fixed != 0;
        self.no_zeroes = flags & no_zeroes != 0;
        self.phase = Phase::Options;
        (4, Next::Continue)
    }

    fn option(&mut self, input: &[u8], exports: &ExportList, out: &mut Vec<u8>) -> (usize, Next) {
        let Some((head, rest)) = input.split_first_chunk::<OPTION_HEADER_BYTES>() else { return (0, Next::Receive) };
        let Some(header) = OptionHeader::decode(head) else { return (input.len(), Next::Close) };
        let Some(length) = usize::try_from(header.length).ok().filter(|length| *length <= OPTION_BYTES_MAX) else {
            refuse(out, header.option, reply::ERR_TOO_BIG, "this option is too long for this server");
            return (input.len(), Next::Close);
        };
        let Some((data, _)) = rest.split_at_checked(length) else { return (0, Next::Receive) };
        let Some(left) = self.options_left.checked_sub(1) else { return (input.len(), Next::Close) };
        self.options_left = left;
        let consumed = OPTION_HEADER_BYTES + length;
        let next = self.answer(&Asked { option: header.option, data }, exports, out);
        if next == Next::Await {
            self.options_left += 1;
            return (0, next);
        }
        if next == Next::StartTls && consumed < input.len() {
            // Bytes that came before TLS must not be read as if they had come through it.
            return (input.len(), Next::Close);
        }
        (consumed, next)
    }

    fn answer(&mut self, asked: &Asked<'_>, exports: &ExportList, out: &mut Vec<u8>) -> Next {
        if !self.fixed && asked.option != option::EXPORT_NAME {
            return Next::Close;
        }
        match asked.option {
            option::ABORT => {
                acknowledge(out, asked.option);
                Next::Close
            }
            option::STARTTLS => self.start_tls(asked, out),
            option::EXPORT_NAME if self.tls == TlsState::Required => Next::Close,
            _ if self.tls == TlsState::Required => {
                refuse(out, asked.option, reply::ERR_TLS_REQD, "this server talks to clients with TLS only");
                Next::Continue
            }
            option::EXPORT_NAME => self.export_name(asked, exports, out),
            option::LIST => list(asked, exports, out),
            option::INFO | option::GO => self.info(asked, exports, out),
            option::STRUCTURED_REPLY => self.structured_reply(asked, out),
            option::LIST_META_CONTEXT | option::SET_META_CONTEXT => self.meta_context(asked, exports, out),
            unknown => {
                refuse(out, unknown, reply::ERR_UNSUP, "this server does not know this option");
                Next::Continue
            }
        }
    }

    fn start_tls(&self, asked: &Asked<'_>, out: &mut Vec<u8>) -> Next {
        let (kind, text) = match self.tls {
            TlsState::Off => (reply::ERR_POLICY, "TLS is not configured on this server"),
            TlsState::Established => (reply::ERR_INVALID, "TLS is established already"),
            TlsState::Required if !asked.data.is_empty() => (reply::ERR_INVALID, "STARTTLS takes no data"),
            TlsState::Required => {
                acknowledge(out, asked.option);
                return Next::StartTls;
            }
        };
        refuse(out, asked.option, kind, text);
        Next::Continue
    }

    /// `NBD_OPT_EXPORT_NAME`: no error can be answered, so an unknown name ends the connection.
    fn export_name(&self, asked: &Asked<'_>, exports: &ExportList, out: &mut Vec<u8>) -> Next {
        let Ok(name) = std::str::from_utf8(asked.data) else { return Next::Close };
        let Some(export) = exports.find(name) else {
            return if exports.expects(name) { Next::Await } else { Next::Close };
        };
        out.extend_from_slice(&export.size_bytes.to_be_bytes());
        out.extend_from_slice(&self.flags_of(export).to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; EXPORT_NAME_ZEROES]);
        }
        Next::Serve(self.agreement(export, BlockSizes::NotAsked))
    }

    /// `NBD_OPT_INFO` and `NBD_OPT_GO`. Size and block sizes are told in any case; the protocol allows it.
    fn info(&self, asked: &Asked<'_>, exports: &ExportList, out: &mut Vec<u8>) -> Next {
        let Some((name, wanted)) = decode_info(asked.data) else {
            refuse(out, asked.option, reply::ERR_INVALID, "this option's data are malformed");
            return Next::Continue;
        };
        let Some(export) = exports.find(name) else {
            return not_there(asked.option, name, exports, out);
        };
        let mut data = info::EXPORT.to_be_bytes().to_vec();
        data.extend_from_slice(&export.size_bytes.to_be_bytes());
        data.extend_from_slice(&self.flags_of(export).to_be_bytes());
        push_option_reply(out, asked.option, reply::INFO, &data);
        push_option_reply(out, asked.option, reply::INFO, &block_size_info(export));
        if wanted.contains(&info::NAME) {
            push_option_reply(out, asked.option, reply::INFO, &text_info(info::NAME, &export.name));
        }
        if wanted.contains(&info::DESCRIPTION) {
            push_option_reply(out, asked.option, reply::INFO, &text_info(info::DESCRIPTION, &export.description));
        }
        acknowledge(out, asked.option);
        let sizes = if wanted.contains(&info::BLOCK_SIZE) { BlockSizes::Asked } else { BlockSizes::NotAsked };
        if asked.option == option::GO { Next::Serve(self.agreement(export, sizes)) } else { Next::Continue }
    }

    fn structured_reply(&mut self, asked: &Asked<'_>, out: &mut Vec<u8>) -> Next {
        if asked.data.is_empty() {
            self.structured_replies = true;
            acknowledge(out, asked.option);
        } else {
            refuse(out, asked.option, reply::ERR_INVALID, "STRUCTURED_REPLY takes no data");
        }
        Next::Continue
    }

    /// `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
    fn meta_context(&mut self, asked: &Asked<'_>, exports: &ExportList, out: &mut Vec<u8>) -> Next {
        let selects = asked.option == option::SET_META_CONTEXT;
        if selects {
            self.block_status_of = None;
        }
        if !self.structured_replies {
            refuse(out, asked.option, reply::ERR_INVALID, "metadata contexts need structured replies first");
            return Next::Continue;
        }
        let Some((name, queries)) = decode_meta_context(asked.data) else {
            refuse(out, asked.option, reply::ERR_INVALID, "this option's data are malformed");
            return Next::Continue;
        };
        let Some(export) = exports.find(name) else {
            return not_there(asked.option, name, exports, out);
        };
        let exact = queries.contains(&BASE_ALLOCATION);
        let all = !selects && (queries.is_empty() || queries.contains(&"base:"));
        if exact || all {
            let id = if selects { BASE_ALLOCATION_ID } else { 0 };
            let data = [&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()].concat();
            push_option_reply(out, asked.option, reply::META_CONTEXT, &data);
        }
        if exact && selects {
            self.block_status_of = Some(export.name.clone());
        }
        acknowledge(out, asked.option);
        Next::Continue
    }

    fn flags_of(&self, export: &ExportInfo) -> u16 {
        let fragment = if self.structured_replies { transmission_flag::SEND_DF } else { 0 };
        abilities(export) | fragment
    }

    fn agreement(&self, export: &ExportInfo, sizes: BlockSizes) -> Agreement {
        Agreement {
            export: export.name.clone(),
            structured_replies: self.structured_replies,
            block_status: self.structured_replies && self.block_status_of.as_ref() == Some(&export.name),
            block_sizes: sizes == BlockSizes::Asked,
        }
    }
}

/// Transmission flags, but for `SEND_DF`, which depends on the client.
pub(crate) fn abilities(export: &ExportInfo) -> u16 {
    use transmission_flag as flag;
    let read_only = if export.read_only { flag::READ_ONLY } else { 0 };
    let trims = if export.trims { flag::SEND_TRIM } else { 0 };
    flag::HAS_FLAGS
        | flag::SEND_FLUSH
        | flag::SEND_FUA
        | flag::SEND_WRITE_ZEROES
        | flag::SEND_FAST_ZERO
        | flag::SEND_CACHE
        | flag::CAN_MULTI_CONN
        | read_only
        | trims
}

fn acknowledge(out: &mut Vec<u8>, option: u32) {
    push_option_reply(out, option, reply::ACK, &[]);
}

fn refuse(out: &mut Vec<u8>, option: u32, kind: u32, text: &str) {
    push_option_reply(out, option, kind, text.as_bytes());
}

fn not_there(option: u32, name: &str, exports: &ExportList, out: &mut Vec<u8>) -> Next {
    if exports.expects(name) {
        return Next::Await;
    }
    refuse_unknown(out, option, name);
    Next::Continue
}

fn refuse_unknown(out: &mut Vec<u8>, option: u32, name: &str) {
    let text = if name.is_empty() {
        "there is no default export here: name one (LIST tells which there are)".to_owned()
    } else {
        let shown: String = name.chars().take(64).collect();
        format!("there is no export {shown:?} here (LIST tells which there are)")
    };
    refuse(out, option, reply::ERR_UNKNOWN, &text);
}

/// `NBD_OPT_LIST`.
fn list(asked: &Asked<'_>, exports: &ExportList, out: &mut Vec<u8>) -> Next {
    if !asked.data.is_empty() {
        refuse(out, asked.option, reply::ERR_INVALID, "LIST takes no data");
        return Next::Continue;
    }
    for export in exports.iter() {
        let mut data = Vec::new();
        push_string(&mut data, &export.name);
        data.extend_from_slice(export.description.as_bytes());
        push_option_reply(out, asked.option, reply::SERVER, &data);
    }
    acknowledge(out, asked.option);
    Next::Continue
}

/// The export's name, and what the client would like to know.
fn decode_info(data: &[u8]) -> Option<(&str, Vec<u16>)> {
    let mut reader = Reader::new(data);
    let name = reader.string()?;
    let count = reader.u16()?;
    let wanted = (0..count).map(|_| reader.u16()).collect::<Option<Vec<_>>>()?;
    reader.is_empty().then_some((name, wanted))
}

/// The export's name, and the queries.
fn decode_meta_context(data: &[u8]) -> Option<(&str, Vec<&str>)> {
    let mut reader = Reader::new(data);
    let name = reader.string()?;
    let count = reader.u32()?;
    // `collect` stops at the first query that is not there: a huge count costs nothing.
    let queries = (0..count).map(|_| reader.string()).collect::<Option<Vec<_>>>()?;
    reader.is_empty().then_some((name, queries))
}

fn block_size_info(export: &ExportInfo) -> Vec<u8> {
    let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
    for bytes in [export.block_bytes_min, export.block_bytes_preferred, export.block_bytes_max] {
        data.extend_from_slice(&bytes.to_be_bytes());
    }
    data
}

/// A text of the longest length that the protocol allows, or less.
fn text_info(kind: u16, text: &str) -> Vec<u8> {
    let mut data = kind.to_be_bytes().to_vec();
    data.extend(text.bytes().take(STRING_BYTES_MAX));
    data
}

#[cfg(test)]
#[path = "negotiation_tests.rs"]
mod tests;
