//! The bytes received on a connection and not yet understood.

use std::future::Future;
use std::io;

use hotset_block::{Buf, BufPool};

use crate::transport::Transport;

/// A buffer of fixed size: bytes are added behind and taken in front. It never grows; what does not fit is left in the
/// socket.
pub(crate) struct ReceiveBuffer {
    /// `None` while a receive owns it.
    buf: Option<Buf>,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    pub(crate) fn new(buffers: &BufPool, capacity_bytes: usize) -> Self {
        Self { buf: Some(buffers.take(capacity_bytes)), start: 0, end: 0 }
    }

    /// What was received and not consumed.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buf()[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, len: usize) {
        assert!(len <= self.end - self.start, "only what was received can be consumed");
        self.start += len;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Moves up to `target.len()` bytes to `target`; answers how many.
    pub(crate) fn take_into(&mut self, target: &mut [u8]) -> usize {
        let len = target.len().min(self.bytes().len());
        target[..len].copy_from_slice(&self.bytes()[..len]);
        self.consume(len);
        len
    }

    /// With what another one had.
    ///
    /// # Panics
    /// If that is longer than `capacity_bytes`.
    pub(crate) fn with(buffers: &BufPool, capacity_bytes: usize, bytes: &[u8]) -> Self {
        let mut buf = buffers.take(capacity_bytes);
        buf[..bytes.len()].copy_from_slice(bytes);
        Self { buf: Some(buf), start: 0, end: bytes.len() }
    }

    /// Waits for more bytes; what is there is moved to the front when room gets short. `Ok(0)` is the end of the stream.
    ///
    /// # Panics
    /// If the buffer is full: callers consume, or end the connection whose message cannot fit.
    pub(crate) async fn fill(&mut self, transport: &Transport) -> io::Result<usize> {
        let (head, tail) = self.split();
        let (tail, received) = transport.recv(tail).await;
        self.join(head, tail, *received.as_ref().unwrap_or(&0));
        received
    }

    /// As [`ReceiveBuffer::fill`], until `stop` completes; `None`: nothing had come by then.
    pub(crate) async fn fill_until(
        &mut self,
        transport: &Transport,
        stop: impl Future<Output = ()>,
    ) -> Option<io::Result<usize>> {
        let (head, tail) = self.split();
        let (tail, received) = transport.recv_until(tail, stop).await;
        let count = received.as_ref().and_then(|received| received.as_ref().ok()).copied();
        self.join(head, tail, count.unwrap_or(0));
        received
    }

    /// What was received and not consumed (and what was before that), and room for more.
    fn split(&mut self) -> (Buf, Buf) {
        let mut buf = self.buf.take().expect("a receive that was dropped is not followed by another");
        if buf.len() - self.end < buf.len() / 4 {
            buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let (head, tail) = buf.split_at(self.end);
        assert!(!tail.is_empty(), "a full buffer is consumed before it is filled");
        (head, tail)
    }

    fn join(&mut self, head: Buf, tail: Buf, received: usize) {
        self.buf = Some(head.join(tail));
        self.end += received;
    }

    fn buf(&self) -> &Buf {
        self.buf.as_ref().expect("no receive is under way while the bytes are looked at")
    }
}
