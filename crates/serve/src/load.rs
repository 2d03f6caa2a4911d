//! A load generator: an NBD client that makes many requests at once and costs little.
//!
//! All requests of a turn go out in one send, and all replies that arrived are taken together, because the usual clients
//! cost more per request than the server and would measure themselves. The caller sees every byte read and provides
//! every byte written. One connection per [`Client`]; several clients make several connections.

mod handshake;
mod histogram;
mod random;
mod workload;

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::select;
use hotset_block::{Env, HostEnv, RealInstant};

pub use self::handshake::Endpoint;
pub use self::histogram::Histogram;
pub use self::random::RandomBytes;
pub use self::workload::{Limit, Pattern, Workload};

use self::histogram::{LiveHistogram, raise};
use self::workload::{Draw, Generator};
use crate::nbd::wire::{Command, REQUEST_BYTES, Request, SIMPLE_REPLY_BYTES, SimpleReply};
use crate::receive::ReceiveBuffer;
use crate::transport::Transport;

/// Room for the replies of a turn, beside one reply of the longest kind.
const RECEIVE_BYTES: usize = 2 << 20;
/// Requests are gathered up to this many bytes per send.
const SEND_BYTES: usize = 1 << 20;

/// The counters of a running load. One load raises them; any thread may look at them.
pub struct Progress {
    requests: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    latency: LiveHistogram,
}

/// The counters at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Requests answered, errors among them.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Requests answered with an error.
    pub errors: u64,
    pub latency: Histogram,
}

impl Snapshot {
    /// What happened since `earlier`, a snapshot of the same load.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            errors: self.errors.saturating_sub(earlier.errors),
            latency: self.latency.since(&earlier.latency),
        }
    }

    /// Requests per second, if they took `elapsed`; rounded down.
    pub fn iops(&self, elapsed: Duration) -> u64 {
        let micros = elapsed.as_micros().max(1);
        u64::try_from(u128::from(self.requests) * 1_000_000 / micros).unwrap_or(u64::MAX)
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    pub fn new() -> Self {
        Self {
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            latency: LiveHistogram::new(),
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            latency: self.latency.snapshot(),
        }
    }

    /// Requests answered so far: cheaper than a whole snapshot.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

/// What a caller that follows single requests is told, beside the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A read of the bytes at `offset` was issued.
    ReadIssued { offset: u64 },
    /// The write at `offset` was answered without an error.
    Written { offset: u64 },
}

/// A connection to an export.
pub struct Client {
    env: HostEnv,
    transport: Transport,
    received: ReceiveBuffer,
    size_bytes: u64,
    block_bytes_min: u32,
}

impl Client {
    /// Connects to an export and agrees on simple replies.
    pub async fn connect(env: &HostEnv, endpoint: &Endpoint, export: &str) -> io::Result<Self> {
        let transport = Transport::Plain(endpoint.connect(env)?);
        let capacity_bytes = RECEIVE_BYTES + usize::try_from(Workload::REQUEST_BYTES_MAX).map_err(io::Error::other)?;
        let mut received = ReceiveBuffer::new(env.buffers(), capacity_bytes);
        let agreed = handshake::run(&transport, &mut received, export).await?;
        let handshake::Agreed { size_bytes, block_bytes_min } = agreed;
        Ok(Self { env: env.clone(), transport, received, size_bytes, block_bytes_min })
    }

    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The smallest request and the unit of all requests.
    pub fn block_bytes_min(&self) -> u32 {
        self.block_bytes_min
    }

    /// Makes the requests of `workload` and returns when the last is answered. `check` is called with the offset and the
    /// bytes of every read; `fill` provides all bytes of every write, over what is left of earlier ones. A request that the server answers with an error is
    /// counted, and neither callback hears of it. Fails if the connection does.
    pub async fn run(
        &mut self,
        workload: &Workload,
        check: impl FnMut(u64, &[u8]),
        fill: impl FnMut(u64, &mut [u8]),
        progress: &Progress,
    ) -> io::Result<()> {
        self.run_followed(workload, check, fill, |_| (), progress).await
    }

    /// As `run`; `follow` is also told when reads begin and when writes are done.
    pub async fn run_followed(
        &mut self,
        workload: &Workload,
        check: impl FnMut(u64, &[u8]),
        fill: impl FnMut(u64, &mut [u8]),
        follow: impl FnMut(Event),
        progress: &Progress,
    ) -> io::Result<()> {
        workload.check(self.size_bytes)?;
        let mut run = Run::new(*workload, self.env.real_now(), (check, fill, follow), progress);
        loop {
            while run.issue(self.env.real_now()) == Issued::Some {
                while run.send(&self.transport)? == Sent::Partly {
                    // The socket is full, perhaps because the server waits for us to read: do so.
                    self.either_way().await?;
                    run.take_replies(self.env.real_now(), &mut self.received)?;
                }
            }
            if run.in_flight == 0 {
                return Ok(());
            }
            self.receive().await?;
            run.take_replies(self.env.real_now(), &mut self.received)?;
        }
    }

    /// Ends the connection as the protocol wants it.
    pub async fn disconnect(self) -> io::Result<()> {
        let request = Request { flags: 0, command: Command::Disconnect, cookie: 0, offset: 0, length: 0 };
        self.transport.send(&request.encode()).await?;
        self.transport.shutdown();
        Ok(())
    }

    async fn receive(&mut self) -> io::Result<()> {
        match self.received.fill(&self.transport).await? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed the connection")),
            _ => Ok(()),
        }
    }

    /// Waits until the socket takes more, or receives what has come.
    async fn either_way(&mut self) -> io::Result<()> {
        let stream = self.transport.stream().clone();
        let readable = {
            let either = select(Box::pin(stream.readable()), Box::pin(stream.writable())).await;
            match either {
                futures_util::future::Either::Left((readable, _)) => readable.map(|()| true),
                futures_util::future::Either::Right((writable, _)) => writable.map(|()| false),
            }
        };
        if readable? { self.receive().await } else { Ok(()) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Issued {
    Some,
    /// All slots are taken, or the workload is at its end.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    All,
    Partly,
}

/// A request in flight; its index is its cookie.
#[derive(Clone, Copy)]
struct Slot {
    draw: Option<Draw>,
    issued: RealInstant,
}

/// A load under way.
struct Run<'a, C, F, E> {
    workload: Workload,
    request_bytes: usize,
    generator: Generator,
    ends: Option<RealInstant>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    in_flight: usize,
    /// Begins with `encoded` bytes of requests, of which `sent` are sent. The rest is room: it is not zeroed again for each request.
    outgoing: Vec<u8>,
    encoded: usize,
    sent: usize,
    check: C,
    fill: F,
    follow: E,
    progress: &'a Progress,
}

impl<'a, C: FnMut(u64, &[u8]), F: FnMut(u64, &mut [u8]), E: FnMut(Event)> Run<'a, C, F, E> {
    fn new(workload: Workload, now: RealInstant, (check, fill, follow): (C, F, E), progress: &'a Progress) -> Self {
        let ends = match workload.limit {
            Limit::Duration(duration) => Some(now.plus(duration)),
            Limit::Requests(_) => None,
        };
        Self {
            workload,
            request_bytes: usize::try_from(workload.request_bytes).expect("at most 32 MiB"),
            generator: Generator::new(workload),
            ends,
            slots: vec![Slot { draw: None, issued: now }; workload.depth],
            free: (0..workload.depth).rev().collect(),
            in_flight: 0,
            outgoing: Vec::new(),
            encoded: 0,
            sent: 0,
            check,
            fill,
            follow,
            progress,
        }
    }

    /// Encodes a request for every free slot, as far as the workload and one send go.
    fn issue(&mut self, now: RealInstant) -> Issued {
        if self.ends.is_some_and(|ends| now >= ends) {
            return Issued::None;
        }
        while self.encoded < SEND_BYTES
            && let Some(index) = self.free.pop()
        {
            let Some(draw) = self.generator.draw() else {
                self.free.push(index);
                break;
            };
            self.encode(index, draw);
            self.slots[index] = Slot { draw: Some(draw), issued: now };
            self.in_flight += 1;
        }
        if self.encoded == 0 { Issued::None } else { Issued::Some }
    }

    fn encode(&mut self, index: usize, draw: Draw) {
        let cookie = u64::try_from(index).expect("below DEPTH_MAX");
        let command = if draw.read { Command::Read } else { Command::Write };
        let length = self.workload.request_bytes;
        let request = Request { flags: 0, command, cookie, offset: draw.offset, length };
        let head = self.room_for(REQUEST_BYTES);
        self.outgoing[head].copy_from_slice(&request.encode());
        if draw.read {
            (self.follow)(Event::ReadIssued { offset: draw.offset });
        } else {
            let data = self.room_for(self.request_bytes);
            (self.fill)(draw.offset, &mut self.outgoing[data]);
        }
    }

    /// Where so many more bytes of requests stand.
    fn room_for(&mut self, bytes: usize) -> Range<usize> {
        let room = self.encoded..self.encoded + bytes;
        self.encoded = room.end;
        if self.outgoing.len() < room.end {
            self.outgoing.resize(room.end, 0);
        }
        room
    }

    fn send(&mut self, transport: &Transport) -> io::Result<Sent> {
        while self.sent < self.encoded {
            match transport.try_send(&[IoSlice::new(&self.outgoing[self.sent..self.encoded])]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Sent::Partly),
                Err(error) => return Err(error),
            }
        }
        (self.encoded, self.sent) = (0, 0);
        Ok(Sent::All)
    }

    /// Takes every whole reply.
    fn take_replies(&mut self, now: RealInstant, received: &mut ReceiveBuffer) -> io::Result<()> {
        let mut rest = received.bytes();
        let before = rest.len();
        while let Some((head, payload)) = rest.split_first_chunk::<SIMPLE_REPLY_BYTES>() {
            let reply = SimpleReply::decode(head).ok_or_else(|| broken("a reply with a wrong magic"))?;
            let index = usize::try_from(reply.cookie).unwrap_or(usize::MAX);
            let draw = self.slots.get(index).and_then(|slot| slot.draw);
            let draw = draw.ok_or_else(|| broken("a reply to no request"))?;
            let payload_bytes = if draw.read && reply.error == 0 { self.request_bytes } else { 0 };
            let Some((data, after)) = payload.split_at_checked(payload_bytes) else { break };
            if payload_bytes > 0 {
                (self.check)(draw.offset, data);
            } else if reply.error == 0 {
                (self.follow)(Event::Written { offset: draw.offset });
            }
            self.count(now, index, reply.error);
            rest = after;
        }
        let consumed = before - rest.len();
        received.consume(consumed);
        Ok(())
    }

    fn count(&mut self, now: RealInstant, index: usize, error: u32) {
        let slot = &mut self.slots[index];
        slot.draw = None;
        let latency = u64::try_from(now.since(slot.issued).as_nanos()).unwrap_or(u64::MAX);
        self.free.push(index);
        self.in_flight -= 1;
        raise(&self.progress.requests, 1);
        if error == 0 {
            raise(&self.progress.bytes, u64::from(self.workload.request_bytes));
        } else {
            raise(&self.progress.errors, 1);
        }
        self.progress.latency.record(latency);
    }
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the server broke the protocol: {what}"))
}
