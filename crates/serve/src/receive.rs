//! The bytes received on a connection and not yet understood.

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

    /// Waits for more bytes; what is there is moved to the front when room gets short. `Ok(0)` is the end of the stream.
    ///
    /// # Panics
    /// If the buffer is full: callers consume, or end the connection whose message cannot fit.
    pub(crate) async fn fill(&mut self, transport: &Transport) -> io::Result<usize> {
        let mut buf = self.buf.take().expect("a receive that was dropped is not followed by another");
        if buf.len() - self.end < buf.len() / 4 {
            buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        let (head, tail) = buf.split_at(self.end);
        assert!(!tail.is_empty(), "a full buffer is consumed before it is filled");
        let (tail, received) = transport.recv(tail).await;
        self.buf = Some(head.join(tail));
        self.end += *received.as_ref().unwrap_or(&0);
        received
    }

    fn buf(&self) -> &Buf {
        self.buf.as_ref().expect("no receive is under way while the bytes are looked at")
    }
}
