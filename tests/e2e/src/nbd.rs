//! A small NBD client that does exactly what a test tells it, also what no sane client does.
//!
//! Fixed newstyle, simple replies, requests as deep as wanted. Numbers are those of the protocol document,
//! <https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md>.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::files::usize_of;

/// A server that says nothing for so long has failed the test.
const TIMEOUT: Duration = Duration::from_secs(90);

const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;

pub const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_IS_ERROR: u32 = 1 << 31;

pub const FLAG_FUA: u16 = 1;
pub const FLAG_NO_HOLE: u16 = 2;
pub const FLAG_FAST_ZERO: u16 = 16;

pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    Cache,
    WriteZeroes,
}

impl Verb {
    fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::Cache => 5,
            Self::WriteZeroes => 6,
        }
    }
}

#[derive(Debug)]
pub enum Error {
    /// The connection ended or broke.
    Connection(io::Error),
    /// The server answered with this number.
    Answer(u32),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => write!(f, "connection: {error}"),
            Self::Answer(number) => write!(f, "the server answered error {number}"),
        }
    }
}

/// A reply, in the order in which the server sent it.
pub struct Reply {
    pub cookie: u64,
    /// 0: done.
    pub error: u32,
    /// The bytes of a read.
    pub data: Vec<u8>,
}

/// A connection in its transmission phase.
pub struct Client {
    stream: UnixStream,
    size_bytes: u64,
    /// The transmission flags of the export.
    flags: u16,
    /// Smallest, preferred and largest request, if the server said.
    block_sizes: Option<[u32; 3]>,
    next_cookie: u64,
    /// How many bytes follow the reply, for every request that waits for one.
    waiting: BTreeMap<u64, usize>,
}

/// Connects and reads the greeting; what follows is the caller's business.
pub fn greet(socket: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting)?;
    assert_eq!(&greeting[..8], b"NBDMAGIC");
    assert_eq!(u64_at(&greeting, 8), OPTION_MAGIC);
    assert_eq!(u16_at(&greeting, 16) & 3, 3, "fixed newstyle without zeroes");
    stream.write_all(&3_u32.to_be_bytes())?;
    Ok(stream)
}

/// An option with its data.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend(u32::try_from(data.len()).expect("an option is below 4 GiB").to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The data of `GO`: the export's name and a wish to learn its block sizes.
pub fn go_data(export: &str) -> Vec<u8> {
    let mut data = u32::try_from(export.len()).expect("a name has at most 4096 bytes").to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend([0, 1, 0, 3]);
    data
}

/// The data of NBD_OPT_GO of a client that wishes to learn nothing.
fn go_data_of_the_simple(export: &str) -> Vec<u8> {
    let mut data = u32::try_from(export.len()).expect("a name has at most 4096 bytes").to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend([0, 0]);
    data
}

/// The head of a request.
pub fn request(verb: Verb, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(verb.number().to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

impl Client {
    /// Connects to an export.
    pub fn connect(socket: &Path, export: &str) -> Result<Self, Error> {
        Self::connect_by(socket, &go_data(export))
    }

    /// Connects as a client does that knows nothing of block sizes.
    pub fn connect_as_simple(socket: &Path, export: &str) -> Result<Self, Error> {
        Self::connect_by(socket, &go_data_of_the_simple(export))
    }

    fn connect_by(socket: &Path, go: &[u8]) -> Result<Self, Error> {
        let mut stream = greet(socket)?;
        stream.write_all(&option(OPTION_GO, go))?;
        let (mut size_bytes, mut flags, mut block_sizes) = (0, 0, None);
        loop {
            let (kind, data) = option_reply(&mut stream)?;
            match kind {
                REPLY_ACK => break,
                REPLY_INFO if u16_at(&data, 0) == 0 => (size_bytes, flags) = (u64_at(&data, 2), u16_at(&data, 10)),
                REPLY_INFO if u16_at(&data, 0) == 3 => {
                    block_sizes = Some([u32_at(&data, 2), u32_at(&data, 6), u32_at(&data, 10)]);
                }
                REPLY_INFO => {}
                error => return Err(Error::Answer(error)),
            }
        }
        Ok(Self { stream, size_bytes, flags, block_sizes, next_cookie: 1, waiting: BTreeMap::new() })
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub fn flags(&self) -> u16 {
        self.flags
    }

    pub fn block_sizes(&self) -> Option<[u32; 3]> {
        self.block_sizes
    }

    /// Sends a request and does not wait; `data` is what a write writes. Returns its cookie.
    pub fn send(&mut self, verb: Verb, flags: u16, offset: u64, length: u32, data: &[u8]) -> Result<u64, Error> {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let answered = if verb == Verb::Read { usize_of(u64::from(length)) } else { 0 };
        self.waiting.insert(cookie, answered);
        let mut bytes = request(verb, flags, cookie, offset, length);
        bytes.extend(data);
        self.stream.write_all(&bytes)?;
        Ok(cookie)
    }

    /// That of the newest request, also if the connection broke under it.
    pub fn last_cookie(&self) -> u64 {
        self.next_cookie - 1
    }

    /// Waits for the next reply, of whichever request.
    pub fn receive(&mut self) -> Result<Reply, Error> {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head)?;
        assert_eq!(u32_at(&head, 0), SIMPLE_REPLY_MAGIC, "the server keeps to simple replies");
        let (error, cookie) = (u32_at(&head, 4), u64_at(&head, 8));
        let len = self.waiting.remove(&cookie).unwrap_or_else(|| panic!("a reply to nothing: cookie {cookie}"));
        let mut data = vec![0; if error == 0 { len } else { 0 }];
        self.stream.read_exact(&mut data)?;
        Ok(Reply { cookie, error, data })
    }

    /// How many requests have no reply yet.
    pub fn in_flight(&self) -> usize {
        self.waiting.len()
    }

    /// One request and its reply; nothing else may be in flight.
    pub fn call(&mut self, verb: Verb, flags: u16, offset: u64, length: u32, data: &[u8]) -> Result<Vec<u8>, Error> {
        self.send(verb, flags, offset, length, data)?;
        let reply = self.receive()?;
        if reply.error == 0 { Ok(reply.data) } else { Err(Error::Answer(reply.error)) }
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, Error> {
        self.call(Verb::Read, 0, offset, length, &[])
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.call(Verb::Write, 0, offset, u32_of(data), data).map(|_| ())
    }

    pub fn write_fua(&mut self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.call(Verb::Write, FLAG_FUA, offset, u32_of(data), data).map(|_| ())
    }

    pub fn flush(&mut self) -> Result<(), Error> {
        self.call(Verb::Flush, 0, 0, 0, &[]).map(|_| ())
    }

    /// Brings a range into the cache.
    pub fn cache(&mut self, offset: u64, length: u32) -> Result<(), Error> {
        self.call(Verb::Cache, 0, offset, length, &[]).map(|_| ())
    }

    pub fn trim(&mut self, offset: u64, length: u32) -> Result<(), Error> {
        self.call(Verb::Trim, 0, offset, length, &[]).map(|_| ())
    }

    pub fn write_zeroes(&mut self, flags: u16, offset: u64, length: u32) -> Result<(), Error> {
        self.call(Verb::WriteZeroes, flags, offset, length, &[]).map(|_| ())
    }

    /// The socket itself, for what no sane client sends.
    pub fn into_stream(self) -> UnixStream {
        self.stream
    }
}

fn option_reply(stream: &mut UnixStream) -> Result<(u32, Vec<u8>), Error> {
    let mut head = [0; 20];
    stream.read_exact(&mut head)?;
    assert_eq!(u64_at(&head, 0), OPTION_REPLY_MAGIC);
    let mut data = vec![0; usize_of(u64::from(u32_at(&head, 16)))];
    stream.read_exact(&mut data)?;
    let kind = u32_at(&head, 12);
    if kind & REPLY_IS_ERROR != 0 { Err(Error::Answer(kind)) } else { Ok((kind, data)) }
}

fn u32_of(data: &[u8]) -> u32 {
    u32::try_from(data.len()).expect("a request is below 4 GiB")
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes are two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes are four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes are eight bytes"))
}
