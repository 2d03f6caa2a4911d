//! The client's side of the handshake: reach a server, choose an export, learn its size.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

use hotset_block::{HostEnv, Stream};

use super::broken;
use crate::nbd::wire::{
    INIT_MAGIC, OPTION_MAGIC, OPTION_REPLY_HEADER_BYTES, OptionHeader, OptionReply, Reader, handshake_flag, info,
    option, push_string, reply,
};
use crate::receive::ReceiveBuffer;
use crate::transport::Transport;

/// The longest answer that is read; servers' texts and numbers are far shorter.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Where a server listens: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let Some(address) = text.strip_prefix("tcp:") else {
            return Err(format!("{text:?}: an endpoint is unix:PATH or tcp:HOST:PORT"));
        };
        let mut found = address.to_socket_addrs().map_err(|error| format!("{text:?}: {error}"))?;
        found.next().map(Self::Tcp).ok_or_else(|| format!("{text:?}: the name has no address"))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl Endpoint {
    pub(super) fn connect(&self, env: &HostEnv) -> io::Result<Stream> {
        match self {
            Self::Unix(path) => Stream::connect_unix(env, path),
            Self::Tcp(address) => Stream::connect_tcp(env, *address),
        }
    }
}

/// What the server said of the export.
pub(super) struct Agreed {
    pub(super) size_bytes: u64,
    pub(super) block_bytes_min: u32,
}

/// Chooses `export`; fails with the server's own words if it refuses.
pub(super) async fn run(transport: &Transport, received: &mut ReceiveBuffer, export: &str) -> io::Result<Agreed> {
    greet(transport, received).await?;
    transport.send(&go(export)?).await?;
    let mut agreed = None;
    let mut block_bytes_min = 1;
    loop {
        let (kind, data) = answer(transport, received).await?;
        let mut reader = Reader::new(&data);
        match kind {
            reply::INFO => match reader.u16() {
                Some(info::EXPORT) => agreed = reader.u64(),
                Some(info::BLOCK_SIZE) => block_bytes_min = reader.u32().unwrap_or(1),
                Some(_) | None => {}
            },
            reply::ACK => {
                let size_bytes = agreed.ok_or_else(|| broken("it did not tell the size of the export"))?;
                return Ok(Agreed { size_bytes, block_bytes_min });
            }
            refused if refused & reply::ERROR != 0 => {
                let text = String::from_utf8_lossy(&data).into_owned();
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("export {export:?}: {text}")));
            }
            _ => {}
        }
    }
}

async fn greet(transport: &Transport, received: &mut ReceiveBuffer) -> io::Result<()> {
    let greeting = exactly(transport, received, 18).await?;
    let mut reader = Reader::new(&greeting);
    if reader.u64() != Some(INIT_MAGIC) || reader.u64() != Some(OPTION_MAGIC) {
        return Err(broken("it did not greet as an NBD server (newstyle)"));
    }
    let flags = reader.u16().unwrap_or(0) & (handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES);
    transport.send(&u32::from(flags).to_be_bytes()).await
}

fn go(export: &str) -> io::Result<Vec<u8>> {
    let mut data = Vec::new();
    push_string(&mut data, export);
    data.extend_from_slice(&1_u16.to_be_bytes());
    data.extend_from_slice(&info::BLOCK_SIZE.to_be_bytes());
    let length = u32::try_from(data.len()).map_err(io::Error::other)?;
    Ok([&OptionHeader { option: option::GO, length }.encode()[..], &data].concat())
}

/// One answer to an option: its type and its data.
async fn answer(transport: &Transport, received: &mut ReceiveBuffer) -> io::Result<(u32, Vec<u8>)> {
    let head = exactly(transport, received, OPTION_REPLY_HEADER_BYTES).await?;
    let head = head.first_chunk().and_then(OptionReply::decode);
    let head = head.ok_or_else(|| broken("an answer with a wrong magic"))?;
    let length = usize::try_from(head.length).ok().filter(|length| *length <= ANSWER_BYTES_MAX);
    let length = length.ok_or_else(|| broken("an answer of absurd length"))?;
    Ok((head.kind, exactly(transport, received, length).await?))
}

async fn exactly(transport: &Transport, received: &mut ReceiveBuffer, len: usize) -> io::Result<Vec<u8>> {
    while received.bytes().len() < len {
        if received.fill(transport).await? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
    }
    let taken = received.bytes()[..len].to_vec();
    received.consume(len);
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_as_they_are_written() {
        for text in ["unix:/run/nbd.sock", "tcp:127.0.0.1:10809", "tcp:[::1]:10809"] {
            assert_eq!(text.parse::<Endpoint>().expect(text).to_string(), text);
        }
        for text in ["", "udp:1", "tcp:nowhere"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
