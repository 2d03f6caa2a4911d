//! A connection's bytes, in the clear or through TLS: the session above does not know which.

use std::io::{self, IoSlice};

use hotset_block::{Buf, Stream};

use crate::tls::TlsStream;

/// A handle: cloning it is cheap. One task receives, one sends.
#[derive(Clone)]
pub(crate) enum Transport {
    Plain(Stream),
    Tls(TlsStream),
}

impl Transport {
    /// Receives what there is, at least one byte; `Ok(0)` is the end of the stream.
    pub(crate) async fn recv(&self, buf: Buf) -> (Buf, io::Result<usize>) {
        match self {
            Self::Plain(stream) => stream.recv(buf).await,
            Self::Tls(stream) => stream.recv(buf).await,
        }
    }

    /// Sends what can be sent now. `WouldBlock`: nothing; see [`Transport::writable`].
    pub(crate) fn try_send(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.try_send(pieces),
            Self::Tls(stream) => stream.try_send(pieces),
        }
    }

    /// Returns when `try_send` may get on.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.stream().writable().await
    }

    /// Sends what `try_send` took and could not send yet (TLS keeps some).
    pub(crate) async fn flush(&self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush().await,
        }
    }

    /// Sends all of `bytes`.
    pub(crate) async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_send(&[IoSlice::new(bytes)]) {
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable().await?,
                Err(error) => return Err(error),
            }
        }
        self.flush().await
    }

    /// Ends the connection in both directions; what waits for it wakes.
    pub(crate) fn shutdown(&self) {
        self.stream().shutdown();
    }

    pub(crate) fn stream(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.stream(),
        }
    }
}
