//! The NBD protocol's bytes: pure decoding and encoding, all numbers big-endian.
//!
//! Sections named here are those of the protocol document,
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>. Nothing here panics on any input, and nothing
//! is believed that was not checked: [`Reader`] answers `None` where bytes are missing.

use hotset_block::{Extent, ExtentKind};

/// "Newstyle negotiation": the first eight bytes of a server, `NBDMAGIC`.
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "Newstyle negotiation": `IHAVEOPT`, before every option and in the server's greeting.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// "Fixed newstyle negotiation": before every answer to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// "Request message".
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// "Simple reply message".
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// "Structured reply chunk message".
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Bytes of an option's header: magic, option, length of the data.
pub const OPTION_HEADER_BYTES: usize = 16;
/// Bytes of the header of an answer to an option: magic, option, type, length of the data.
pub const OPTION_REPLY_HEADER_BYTES: usize = 20;
/// Bytes of a request without its payload.
pub const REQUEST_BYTES: usize = 28;
/// Bytes of a simple reply without its payload.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of a chunk's header without its payload.
pub const CHUNK_HEADER_BYTES: usize = 20;
/// The zeroes that end the answer to `EXPORT_NAME` unless both sides agreed to leave them out.
pub const EXPORT_NAME_ZEROES: usize = 124;
/// "Values": strings are at most this long.
pub const STRING_BYTES_MAX: usize = 4096;

/// "Handshake flags" of the server and "Client flags": the same two bits.
pub mod handshake_flag {
    pub const FIXED_NEWSTYLE: u16 = 1 << 0;
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// "Transmission flags".
pub mod transmission_flag {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_CACHE: u16 = 1 << 10;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

/// "Option types".
pub mod option {
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const STARTTLS: u32 = 5;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// "Option reply types".
pub mod reply {
    pub const ACK: u32 = 1;
    pub const SERVER: u32 = 2;
    pub const INFO: u32 = 3;
    pub const META_CONTEXT: u32 = 4;
    /// Set in every type that is an error.
    pub const ERROR: u32 = 1 << 31;
    pub const ERR_UNSUP: u32 = ERROR + 1;
    pub const ERR_POLICY: u32 = ERROR + 2;
    pub const ERR_INVALID: u32 = ERROR + 3;
    pub const ERR_TLS_REQD: u32 = ERROR + 5;
    pub const ERR_UNKNOWN: u32 = ERROR + 6;
    pub const ERR_TOO_BIG: u32 = ERROR + 9;
}

/// Information types of `NBD_OPT_INFO` and `NBD_OPT_GO`.
pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

/// "Command flags".
pub mod command_flag {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

/// "Structured reply types" and the flag that ends a reply.
pub mod chunk {
    pub const FLAG_DONE: u16 = 1 << 0;
    pub const NONE: u16 = 0;
    pub const OFFSET_DATA: u16 = 1;
    pub const BLOCK_STATUS: u16 = 5;
    pub const ERROR: u16 = (1 << 15) + 1;
}

/// "Error values": the numbers that the protocol gives its errors, which are Linux's.
pub mod errno {
    pub const EPERM: u32 = 1;
    pub const EIO: u32 = 5;
    pub const ENOMEM: u32 = 12;
    pub const EINVAL: u32 = 22;
    pub const ENOSPC: u32 = 28;
    pub const EOVERFLOW: u32 = 75;
    pub const ENOTSUP: u32 = 95;
    pub const ESHUTDOWN: u32 = 108;
}

/// The metadata context that the protocol defines ("`base:allocation` metadata context").
pub const BASE_ALLOCATION: &str = "base:allocation";
/// The number that a session gives to [`BASE_ALLOCATION`].
pub const BASE_ALLOCATION_ID: u32 = 1;
const STATE_HOLE: u32 = 1 << 0;
const STATE_ZERO: u32 = 1 << 1;

/// Takes big-endian numbers and strings off the front of a byte string.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string with its 32-bit length before it. `None` also if it is too long or not UTF-8.
    pub fn string(&mut self) -> Option<&'a str> {
        let len = usize::try_from(self.u32()?).ok().filter(|len| *len <= STRING_BYTES_MAX)?;
        std::str::from_utf8(self.bytes(len)?).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }
}

/// An option's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionHeader {
    pub option: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionHeader {
    /// `None` if the magic is wrong: the two sides no longer agree where messages start.
    pub fn decode(bytes: &[u8; OPTION_HEADER_BYTES]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u64()?;
        let header = Self { option: reader.u32()?, length: reader.u32()? };
        (magic == OPTION_MAGIC).then_some(header)
    }

    pub fn encode(self) -> [u8; OPTION_HEADER_BYTES] {
        let mut bytes = [0; OPTION_HEADER_BYTES];
        bytes[..8].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.option.to_be_bytes());
        bytes[12..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }
}

/// The header of an answer to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionReply {
    pub option: u32,
    pub kind: u32,
    /// Bytes of data that follow.
    pub length: u32,
}

impl OptionReply {
    /// `None` if the magic is wrong.
    pub fn decode(bytes: &[u8; OPTION_REPLY_HEADER_BYTES]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u64()?;
        let reply = Self { option: reader.u32()?, kind: reader.u32()?, length: reader.u32()? };
        (magic == OPTION_REPLY_MAGIC).then_some(reply)
    }
}

/// Appends an answer to an option, with its data.
pub fn push_option_reply(out: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&length_of(data).to_be_bytes());
    out.extend_from_slice(data);
}

/// Appends a string with its length before it.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&length_of(text.as_bytes()).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn length_of(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("what a negotiation sends is bounded by STRING_BYTES_MAX")
}

/// "Request types".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    Cache,
    WriteZeroes,
    BlockStatus,
    /// A request that this server does not know; it carries no payload as far as anybody can tell.
    Unknown(u16),
}

impl Command {
    fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            unknown => Self::Unknown(unknown),
        }
    }

    fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Unknown(number) => number,
        }
    }
}

/// "Request message".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bits of [`command_flag`].
    pub flags: u16,
    pub command: Command,
    /// What the client recognises the reply by.
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

impl Request {
    /// `None` if the magic is wrong: the two sides no longer agree where messages start.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u32()?;
        let request = Self {
            flags: reader.u16()?,
            command: Command::from_number(reader.u16()?),
            cookie: reader.u64()?,
            offset: reader.u64()?,
            length: reader.u32()?,
        };
        (magic == REQUEST_MAGIC).then_some(request)
    }

    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.number().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.length.to_be_bytes());
        bytes
    }

    /// Whether a flag of [`command_flag`] is set.
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// "Simple reply message", without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimpleReply {
    /// 0, or a number of [`errno`].
    pub error: u32,
    pub cookie: u64,
}

impl SimpleReply {
    /// `None` if the magic is wrong.
    pub fn decode(bytes: &[u8; SIMPLE_REPLY_BYTES]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let magic = reader.u32()?;
        let reply = Self { error: reader.u32()?, cookie: reader.u64()? };
        (magic == SIMPLE_REPLY_MAGIC).then_some(reply)
    }

    pub fn encode(&self) -> [u8; SIMPLE_REPLY_BYTES] {
        let mut bytes = [0; SIMPLE_REPLY_BYTES];
        bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.error.to_be_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_be_bytes());
        bytes
    }
}

/// The header of a chunk that is the last (and only) one of its reply.
pub fn only_chunk(kind: u16, cookie: u64, length: u32) -> [u8; CHUNK_HEADER_BYTES] {
    let mut bytes = [0; CHUNK_HEADER_BYTES];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&chunk::FLAG_DONE.to_be_bytes());
    bytes[6..8].copy_from_slice(&kind.to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&length.to_be_bytes());
    bytes
}

/// What goes before the bytes of a read in one `OFFSET_DATA` chunk; `None` if they are more than a chunk can hold.
pub fn offset_data(cookie: u64, offset: u64, data_bytes: usize) -> Option<[u8; CHUNK_HEADER_BYTES + 8]> {
    let length = u32::try_from(data_bytes).ok()?.checked_add(8)?;
    let mut bytes = [0; CHUNK_HEADER_BYTES + 8];
    bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&only_chunk(chunk::OFFSET_DATA, cookie, length));
    bytes[CHUNK_HEADER_BYTES..].copy_from_slice(&offset.to_be_bytes());
    Some(bytes)
}

/// An `ERROR` chunk without a message.
pub fn error_chunk(cookie: u64, error: u32) -> [u8; CHUNK_HEADER_BYTES + 6] {
    let mut bytes = [0; CHUNK_HEADER_BYTES + 6];
    bytes[..CHUNK_HEADER_BYTES].copy_from_slice(&only_chunk(chunk::ERROR, cookie, 6));
    bytes[CHUNK_HEADER_BYTES..][..4].copy_from_slice(&error.to_be_bytes());
    bytes
}

/// Appends a `BLOCK_STATUS` chunk for [`BASE_ALLOCATION`]. Extents too long for 32 bits are cut, and those after them
/// left out: the protocol lets a reply end early.
pub fn push_block_status(out: &mut Vec<u8>, cookie: u64, extents: &[Extent]) {
    let mut data = Vec::with_capacity(4 + 8 * extents.len());
    data.extend_from_slice(&BASE_ALLOCATION_ID.to_be_bytes());
    for extent in extents {
        let whole = u32::try_from(extent.length).ok();
        let flags = match extent.kind {
            ExtentKind::Data => 0,
            ExtentKind::Hole => STATE_HOLE | STATE_ZERO,
            ExtentKind::Zero => STATE_ZERO,
        };
        // A multiple of every logical block, so that the next question is aligned.
        data.extend_from_slice(&whole.unwrap_or(1 << 31).to_be_bytes());
        data.extend_from_slice(&flags.to_be_bytes());
        if whole.is_none() {
            break;
        }
    }
    out.extend_from_slice(&only_chunk(chunk::BLOCK_STATUS, cookie, length_of(&data)));
    out.extend_from_slice(&data);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_request_survives_encoding(
            flags: u16, number: u16, cookie: u64, offset: u64, length: u32
        ) {
            let request = Request { flags, command: Command::from_number(number), cookie, offset, length };
            prop_assert_eq!(Request::decode(&request.encode()), Some(request));
        }

        #[test]
        fn a_simple_reply_survives_encoding(error: u32, cookie: u64) {
            let reply = SimpleReply { error, cookie };
            prop_assert_eq!(SimpleReply::decode(&reply.encode()), Some(reply));
        }

        #[test]
        fn an_option_and_its_answer_survive_encoding(option: u32, kind: u32, data: Vec<u8>) {
            let length = u32::try_from(data.len()).expect("a test sends less than 4 GiB");
            let header = OptionHeader { option, length };
            prop_assert_eq!(OptionHeader::decode(&header.encode()), Some(header));
            let mut out = Vec::new();
            push_option_reply(&mut out, option, kind, &data);
            let head = out.first_chunk().expect("an answer begins with its header");
            prop_assert_eq!(OptionReply::decode(head), Some(OptionReply { option, kind, length }));
            prop_assert_eq!(&out[OPTION_REPLY_HEADER_BYTES..], &data[..]);
        }

        #[test]
        fn a_message_with_any_wrong_magic_is_refused(bytes: [u8; REQUEST_BYTES]) {
            prop_assume!(bytes[..4] != REQUEST_MAGIC.to_be_bytes());
            prop_assert_eq!(Request::decode(&bytes), None);
        }

        #[test]
        fn a_string_is_read_only_if_all_of_it_is_there(text in ".{0,40}", missing in 1_usize..5) {
            let mut out = Vec::new();
            push_string(&mut out, &text);
            prop_assert_eq!(Reader::new(&out).string(), Some(text.as_str()));
            prop_assert_eq!(Reader::new(&out[..out.len() - missing.min(out.len())]).string(), None);
        }
    }

    #[test]
    fn a_request_looks_as_the_protocol_says() {
        let request = Request { flags: 1, command: Command::Write, cookie: 2, offset: 0x1_0000_0000, length: 4096 };
        let expected = b"\x25\x60\x95\x13\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\
                         \x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x10\x00";
        assert_eq!(&request.encode(), expected);
    }

    #[test]
    fn a_read_chunk_counts_its_offset_and_refuses_what_does_not_fit() {
        let bytes = offset_data(9, 4096, 512).expect("512 bytes fit a chunk");
        assert_eq!(&bytes[16..20], &520_u32.to_be_bytes());
        assert_eq!(&bytes[20..], &4096_u64.to_be_bytes());
        assert_eq!(offset_data(9, 0, usize::try_from(u32::MAX).expect("64 bit")), None);
    }

    #[test]
    fn an_extent_longer_than_32_bits_ends_the_answer_early() {
        let hole = Extent { length: 5 << 32, kind: ExtentKind::Hole };
        let data = Extent { length: 4096, kind: ExtentKind::Data };
        let mut out = Vec::new();
        push_block_status(&mut out, 1, &[data, hole, data]);
        assert_eq!(out.len(), CHUNK_HEADER_BYTES + 4 + 2 * 8);
        assert_eq!(&out[CHUNK_HEADER_BYTES + 12..], b"\x80\x00\x00\x00\x00\x00\x00\x03");
    }

    #[test]
    fn a_string_longer_than_the_protocol_allows_is_refused() {
        let mut out = Vec::new();
        push_string(&mut out, &"x".repeat(STRING_BYTES_MAX + 1));
        assert_eq!(Reader::new(&out).string(), None);
    }
}
