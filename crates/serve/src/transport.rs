//! A connection's bytes, in the clear or through TLS: the session above does not know which.

use std::future::Future;
use std::io::{self, IoSlice};

use hotset_block::{Buf, DetachedStream, HostEnv, Stream};

use crate::tls::{DetachedTls, TlsStream};

/// One task receives, one sends.
pub(crate) enum Transport {
    Plain(Stream),
    Tls(TlsStream),
}

/// One on its way from one thread to another.
pub(crate) enum DetachedTransport {
    Plain(DetachedStream),
    Tls(DetachedTls),
}

impl Transport {
    /// Receives what there is, at least one byte; `Ok(0)` is the end of the stream.
    pub(crate) async fn recv(&self, buf: Buf) -> (Buf, io::Result<usize>) {
        match self {
            Self::Plain(stream) => stream.recv(buf).await,
            Self::Tls(stream) => stream.recv(buf).await,
        }
    }

    /// As [`Transport::recv`], until `stop` completes: nothing that came is lost then. `None`: nothing had come.
    pub(crate) async fn recv_until(
        &self,
        buf: Buf,
        stop: impl Future<Output = ()>,
    ) -> (Buf, Option<io::Result<usize>>) {
        match self {
            Self::Plain(stream) => stream.recv_until(buf, stop).await,
            Self::Tls(stream) => stream.recv_until(buf, stop).await,
        }
    }

    /// Takes it off its thread. Nothing is under way on it; what was received and not taken yet goes with it.
    ///
    /// # Errors
    /// As `Stream::detach`.
    pub(crate) fn detach(self) -> io::Result<DetachedTransport> {
        match self {
            Self::Plain(stream) => stream.detach().map(DetachedTransport::Plain),
            Self::Tls(stream) => stream.detach().map(DetachedTransport::Tls),
        }
    }

    /// Puts it on the thread of `env`.
    pub(crate) fn attach(env: &HostEnv, detached: DetachedTransport) -> Self {
        match detached {
            DetachedTransport::Plain(stream) => Self::Plain(Stream::attach(env, stream)),
            DetachedTransport::Tls(stream) => Self::Tls(TlsStream::attach(env, stream)),
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
        self.flush_watched(|_| ()).await
    }

    /// The same; `taken` hears each time how many bytes more the peer has taken.
    pub(crate) async fn flush_watched(&self, taken: impl Fn(usize)) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush(taken).await,
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

    /// The stream below.
    pub(crate) fn into_stream(self) -> Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.into_stream(),
        }
    }

    pub(crate) fn stream(&self) -> &Stream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.stream(),
        }
    }
}
