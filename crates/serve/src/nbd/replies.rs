//! Replies on their way out: gathered over a turn of the event loop, sent together, one send at a time.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, IoSlice};

use hotset_block::sync::Event;
use hotset_block::{Buf, HostEnv};

use super::wire::{CHUNK_HEADER_BYTES, SIMPLE_REPLY_BYTES};
use crate::inflight::Cost;
use crate::transport::Transport;

/// Replies of one send: each has one or two pieces, and the kernel takes 1024.
const GATHERED: usize = 256;
/// The longest header: that of a read's chunk, with the offset.
const HEADER_BYTES_MAX: usize = CHUNK_HEADER_BYTES + 8;
const _: () = assert!(SIMPLE_REPLY_BYTES <= HEADER_BYTES_MAX);

/// What follows a reply's header.
pub(super) enum Payload {
    None,
    /// What was read.
    Data(Buf),
    /// An answer made for this reply, of any length.
    Bytes(Vec<u8>),
}

impl Payload {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Data(buf) => buf,
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// One reply.
pub(super) struct Reply {
    header: [u8; HEADER_BYTES_MAX],
    header_bytes: usize,
    payload: Payload,
    /// What goes back to the connection's budget when it was sent.
    cost: Cost,
}

impl Reply {
    /// # Panics
    /// If the header is longer than any of the protocol.
    pub(super) fn new(header: &[u8], payload: Payload, cost: Cost) -> Self {
        let mut bytes = [0; HEADER_BYTES_MAX];
        bytes[..header.len()].copy_from_slice(header);
        Self { header: bytes, header_bytes: header.len(), payload, cost }
    }

    fn header(&self) -> &[u8] {
        &self.header[..self.header_bytes]
    }

    fn len(&self) -> usize {
        self.header_bytes + self.payload.bytes().len()
    }
}

/// The queue of a connection.
#[derive(Default)]
pub(super) struct Replies {
    queue: RefCell<VecDeque<Reply>>,
    /// Bytes of the first reply that are sent already.
    sent_of_first: Cell<usize>,
    added: Event,
    sender_waits: Cell<bool>,
    /// The client's socket takes nothing.
    blocked: Cell<bool>,
    closed: Cell<bool>,
}

impl Replies {
    /// Queues a reply; it goes out at the end of this turn. If the queue is closed the reply is dropped, and what it
    /// cost is given back at once.
    pub(super) fn add(&self, reply: Reply) -> Cost {
        if self.closed.get() {
            return reply.cost;
        }
        self.queue.borrow_mut().push_back(reply);
        self.wake_sender();
        Cost::NOTHING
    }

    /// Whether replies wait for the client to take some.
    pub(super) fn are_not_taken(&self) -> bool {
        self.blocked.get()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Drops what is queued and what will be, and ends the sender. Gives back what the dropped replies cost.
    pub(super) fn close(&self) -> Cost {
        self.closed.set(true);
        let dropped = self.queue.take();
        self.wake_sender();
        dropped.iter().fold(Cost::NOTHING, |sum, reply| sum.plus(reply.cost))
    }

    fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    fn wake_sender(&self) {
        if self.sender_waits.replace(false) {
            self.added.wake_all();
        }
    }

    /// Sends what is queued until the queue is closed or the connection breaks. `sent` hears of each send: how many bytes
    /// it was, and what went back to the budget.
    pub(super) async fn send_all(
        &self,
        env: &HostEnv,
        transport: &Transport,
        sent: impl Fn(usize, Cost),
    ) -> io::Result<()> {
        loop {
            // TLS keeps what the client does not take: it owes that as it does what is queued here.
            self.blocked.set(true);
            let flushed = transport.flush_watched(|bytes| sent(bytes, Cost::NOTHING)).await;
            self.blocked.set(false);
            flushed?;
            if self.is_empty() {
                if self.closed.get() {
                    return Ok(());
                }
                self.sender_waits.set(true);
                self.added.wait().await;
            }
            env.end_of_turn().await;
            while !self.is_empty() {
                match self.send_some(transport) {
                    Ok(bytes) => sent(bytes, self.advance(bytes)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.blocked.set(true);
                        let writable = transport.writable().await;
                        self.blocked.set(false);
                        writable?;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    fn send_some(&self, transport: &Transport) -> io::Result<usize> {
        let queue = self.queue.borrow();
        let mut pieces = [IoSlice::new(&[]); 2 * GATHERED];
        let mut count = 0;
        let mut skip = self.sent_of_first.get();
        for reply in queue.iter().take(GATHERED) {
            for bytes in [reply.header(), reply.payload.bytes()] {
                let rest = bytes.get(skip..).unwrap_or(&[]);
                skip = skip.saturating_sub(bytes.len());
                if !rest.is_empty() {
                    pieces[count] = IoSlice::new(rest);
                    count += 1;
                }
            }
        }
        transport.try_send(&pieces[..count])
    }

    /// Forgets the first `bytes` bytes of the queue.
    fn advance(&self, bytes: usize) -> Cost {
        let mut queue = self.queue.borrow_mut();
        let mut left = self.sent_of_first.get() + bytes;
        let mut freed = Cost::NOTHING;
        while let Some(first) = queue.front()
            && first.len() <= left
        {
            left -= first.len();
            freed = freed.plus(first.cost);
            queue.pop_front();
        }
        self.sent_of_first.set(left);
        freed
    }
}
