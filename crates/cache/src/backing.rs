//! A volume's backing device: the only place that reads, writes, flushes and discards it.
//!
//! A flush that fails latches the device (rule `flush-covers-all`): nothing that needs durability is believed of it
//! again until it is reopened. Reads go on.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use hotset_block::sync::Event;
use hotset_block::{Buf, ByteRange, Device, DeviceError, DeviceInfo, Env, Instant, ZeroMode};

use crate::config::{FetchRate, FlushRate, limits};
use crate::error::{Error, ErrorKind};
use crate::flow::clean::Effort;
use crate::flow::flush::cover;
use crate::flow::within;
use crate::planted::{Planted, planted};
use crate::state::flusher::{Flusher, Mark};
use crate::state::io::IoCounts;
use crate::state::turns::{TURN_END, Turns};

/// What a transfer costs the device beside others: one access, and one more for each of these bytes.
const COST_BYTES: u64 = 64 << 10;

pub(crate) struct Backing<E: Env> {
    env: E,
    /// How people know it.
    pub(crate) name: String,
    pub(crate) device: E::Device,
    pub(crate) info: DeviceInfo,
    pub(crate) flusher: Flusher,
    pub(crate) io: IoCounts,
    /// Cost of the hosts' transfers in flight.
    host_cost: Cell<u64>,
    /// Cost of the fills' reads in flight.
    fill_cost: Cell<u64>,
    /// A fill may look again whether it may read.
    fill_ended: Event,
    /// Cost of the cleaner's writes in flight.
    clean_cost: Cell<u64>,
    clean_ended: Event,
    /// The writes up to the last one that a host was told of as written here.
    around: Cell<Mark>,
    /// Who reads where fills may take most of the device's time.
    turns: RefCell<Turns>,
    hosts_turn: Event,
    latched: RefCell<Option<String>>,
    reads: Answers,
    /// Of writes, discards and flushes.
    changes: Answers,
    /// A flush for the publisher runs, whether or not the publisher still waits for it.
    pub(crate) flushing_to_publish: Cell<bool>,
}

fn cost_of(bytes: u64) -> u64 {
    1 + bytes / COST_BYTES
}

fn length_of(buf: &Buf) -> u64 {
    u64::try_from(buf.len()).expect("a length fits in 64 bits")
}

/// Adds to a counter while it lives.
struct Counted<'a> {
    counter: &'a Cell<u64>,
    cost: u64,
}

impl<'a> Counted<'a> {
    fn new(counter: &'a Cell<u64>, cost: u64) -> Self {
        counter.set(counter.get() + cost);
        Self { counter, cost }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.counter.set(self.counter.get() - self.cost);
    }
}

/// Whether a device answers.
#[derive(Default)]
struct Answers {
    /// Operations that it works on.
    pending: Cell<u64>,
    /// When it last ended one, or got one while it had none.
    heard: Cell<Instant>,
    /// It has ended none for too long, so far as somebody asked since then.
    missing: Cell<bool>,
}

impl Answers {
    /// For how long it has answered nothing of what it works on, if that is too long.
    fn missing_for(&self, now: Instant) -> Option<Duration> {
        let silence = now.since(self.heard.get());
        self.missing.set(self.pending.get() > 0 && silence > limits::BACKING_TIMEOUT);
        self.missing.get().then_some(silence)
    }
}

/// An operation that the device works on.
struct Pending<'a, E: Env> {
    env: &'a E,
    answers: &'a Answers,
}

impl<'a, E: Env> Pending<'a, E> {
    fn new(env: &'a E, answers: &'a Answers) -> Self {
        if answers.pending.replace(answers.pending.get() + 1) == 0 {
            answers.heard.set(env.now());
        }
        Self { env, answers }
    }
}

impl<E: Env> Drop for Pending<'_, E> {
    fn drop(&mut self) {
        self.answers.pending.set(self.answers.pending.get() - 1);
        self.answers.heard.set(self.env.now());
        self.answers.missing.set(false);
    }
}

/// A host's transfer, from its arrival on.
struct HostRequest<'a, E: Env> {
    backing: &'a Backing<E>,
    _counted: Counted<'a>,
    begun: bool,
}

impl<'a, E: Env> HostRequest<'a, E> {
    fn new(backing: &'a Backing<E>, cost: u64) -> Self {
        backing.turn(|turns, now| turns.host_arrives(now));
        Self { backing, _counted: Counted::new(&backing.host_cost, cost), begun: false }
    }

    fn begin(&mut self) {
        self.begun = true;
        self.backing.turns.borrow_mut().host_begins();
    }
}

impl<E: Env> Drop for HostRequest<'_, E> {
    fn drop(&mut self) {
        if self.begun {
            self.backing.turn(|turns, now| turns.host_ends(now));
        } else {
            self.backing.turn(|turns, now| turns.host_gives_up(now));
        }
    }
}

/// A host's read that may begin.
pub(crate) struct HostsTurn<'a, E: Env>(HostRequest<'a, E>);

impl<E: Env> HostsTurn<'_, E> {
    pub(crate) async fn read(self, offset: u64, buf: Buf) -> (Buf, Result<(), Error>) {
        self.0.backing.read_now(offset, buf).await
    }
}

/// A fill's read that waits.
struct FillWaiting<'a, E: Env>(&'a Backing<E>);

impl<'a, E: Env> FillWaiting<'a, E> {
    fn new(backing: &'a Backing<E>) -> Self {
        backing.turn(|turns, now| turns.fill_arrives(now));
        Self(backing)
    }
}

impl<E: Env> Drop for FillWaiting<'_, E> {
    fn drop(&mut self) {
        self.0.turn(|turns, now| turns.fill_waits_no_longer(now));
    }
}

/// A fill's read that may begin, or is in flight.
pub(crate) struct FillReading<'a, E: Env> {
    backing: &'a Backing<E>,
    cost: u64,
    takes_turns: bool,
}

impl<'a, E: Env> FillReading<'a, E> {
    fn new(backing: &'a Backing<E>, cost: u64, takes_turns: bool) -> Self {
        backing.fill_cost.set(backing.fill_cost.get() + cost);
        if takes_turns {
            backing.turns.borrow_mut().fill_begins(cost);
        }
        Self { backing, cost, takes_turns }
    }

    pub(crate) async fn read(self, offset: u64, buf: Buf) -> (Buf, Result<(), Error>) {
        self.backing.read_now(offset, buf).await
    }
}

impl<E: Env> Drop for FillReading<'_, E> {
    fn drop(&mut self) {
        let cost = &self.backing.fill_cost;
        cost.set(cost.get() - self.cost);
        if self.takes_turns {
            self.backing.turn(|turns, now| turns.fill_ends(now, self.cost));
        }
        self.backing.fill_ended.wake_all();
    }
}

impl<E: Env> Backing<E> {
    pub(crate) fn new(env: E, name: String, device: E::Device) -> Self {
        let info = device.info();
        let flusher = Flusher::new();
        Self {
            env,
            name,
            device,
            info,
            around: Cell::new(flusher.mark()),
            clean_cost: Cell::new(0),
            clean_ended: Event::new(),
            flusher,
            io: IoCounts::default(),
            host_cost: Cell::new(0),
            fill_cost: Cell::new(0),
            fill_ended: Event::new(),
            turns: RefCell::default(),
            hosts_turn: Event::new(),
            latched: RefCell::new(None),
            reads: Answers::default(),
            changes: Answers::default(),
            flushing_to_publish: Cell::new(false),
        }
    }

    pub(crate) fn error(&self, error: &DeviceError) -> Error {
        Error::device(&format!("backing device {}", self.name), error)
    }

    /// Why nothing is written to it any more.
    pub(crate) fn latched(&self) -> Option<String> {
        self.latched.borrow().clone()
    }

    /// Waits for an operation of the device, and notes whether it is answered.
    async fn watched<T>(&self, answers: &Answers, operation: impl Future<Output = T>) -> T {
        let _pending = Pending::new(&self.env, answers);
        operation.await
    }

    /// What it does not answer, and for how long it has answered none of that, if that is too long. To be asked from time to
    /// time: what was answered last is believed in between.
    pub(crate) fn hangs_for(&self) -> Option<(&'static str, Duration)> {
        let now = self.env.now();
        let changes = self.changes.missing_for(now).map(|silence| ("write, discard or flush", silence));
        changes.or_else(|| Some(("read", self.reads.missing_for(now)?)))
    }

    /// It is latched, or hangs.
    pub(crate) fn takes_nothing(&self) -> bool {
        self.changes.missing.get() || self.latched.borrow().is_some()
    }

    pub(crate) fn check_latch(&self) -> Result<(), Error> {
        match &*self.latched.borrow() {
            None => Ok(()),
            Some(reason) => Err(Error::new(ErrorKind::Media, reason.clone())),
        }
    }

    /// Waits until a host may read that much.
    pub(crate) async fn hosts_turn(&self, bytes: u64) -> HostsTurn<'_, E> {
        let mut host = HostRequest::new(self, cost_of(bytes));
        while !self.turns.borrow().host_may_begin() {
            if within(&self.env, TURN_END, self.hosts_turn.wait()).await.is_none() {
                self.turn(Turns::decide);
            }
        }
        host.begin();
        HostsTurn(host)
    }

    /// Reads for a host. The buffer comes back in any case.
    pub(crate) async fn read(&self, offset: u64, buf: Buf) -> (Buf, Result<(), Error>) {
        self.hosts_turn(length_of(&buf)).await.read(offset, buf).await
    }

    /// Tells the turns what happened, and those who wait that they should look again.
    fn turn(&self, happened: impl FnOnce(&mut Turns, Instant)) {
        let mut turns = self.turns.borrow_mut();
        let (hosts_before, fills_before) = (turns.host_may_begin(), turns.fills_turn());
        happened(&mut turns, self.env.now());
        let (hosts_now, fills_now) = (turns.host_may_begin(), turns.fills_turn());
        drop(turns);
        if hosts_now && !hosts_before {
            self.hosts_turn.wake_all();
        }
        if fills_now && !fills_before {
            self.fill_ended.wake_all();
        }
    }

    async fn read_now(&self, offset: u64, buf: Buf) -> (Buf, Result<(), Error>) {
        let (buf, result) = self.watched(&self.reads, self.device.read(offset, buf)).await;
        self.io.has_read(buf.len());
        (buf, result.map_err(|error| self.error(&error)))
    }

    /// A block that was not known came to be filled.
    pub(crate) fn block_is_wanted(&self) {
        self.turns.borrow_mut().block_is_wanted();
    }

    /// Waits until a fill may read that much at its fetch rate: `demand` is that, and what the cache has answered so far.
    pub(crate) async fn fills_turn(&self, bytes: usize, demand: impl Fn() -> (FetchRate, u64)) -> FillReading<'_, E> {
        let cost = cost_of(u64::try_from(bytes).expect("a length fits in 64 bits"));
        let mut waiting = None;
        let takes_turns = loop {
            let (rate, hits) = demand();
            let takes_turns = rate == FetchRate::High;
            if takes_turns != waiting.is_some() {
                waiting = takes_turns.then(|| FillWaiting::new(self));
            }
            if self.fill_may_begin(cost, rate, hits) {
                break takes_turns;
            }
            self.fill_ended.wait().await;
        };
        FillReading::new(self, cost, takes_turns)
    }

    /// At the lower rates, the share of the device's time that fills take follows from the cost of what is in flight,
    /// theirs beside the hosts': a disk serves its queue evenly, whatever its speed. At the highest they take turns.
    fn fill_may_begin(&self, cost: u64, rate: FetchRate, hits: u64) -> bool {
        let hosts = self.host_cost.get();
        let allowance = match rate {
            FetchRate::Low => hosts / 12,
            FetchRate::Medium => hosts / 3 + 8,
            FetchRate::High => return self.turns.borrow_mut().fill_may_begin(self.env.now(), cost, hits),
        };
        self.fill_cost.get() == 0 || self.fill_cost.get() + cost <= allowance
    }

    pub(crate) async fn write(&self, offset: u64, buf: Buf) -> Result<(), Error> {
        self.check_latch()?;
        let mut host = HostRequest::new(self, cost_of(length_of(&buf)));
        host.begin();
        let (buf, result) = self.watched(&self.changes, self.device.write(offset, buf)).await;
        self.io.has_written(buf.len());
        self.flusher.wrote();
        self.around.set(self.flusher.mark());
        result.map_err(|error| self.error(&error))
    }

    /// Writes for the cleaner, when the effort lets it: as [`Backing::fills_turn`].
    pub(crate) async fn write_for_cleaning(&self, offset: u64, buf: Buf, effort: Effort) -> Result<(), Error> {
        self.check_latch()?;
        let cost = cost_of(length_of(&buf));
        while self.clean_cost.get() > 0 && self.clean_cost.get() + cost > self.clean_allowance(effort) {
            self.clean_ended.wait().await;
        }
        let working = Counted::new(&self.clean_cost, cost);
        let (buf, result) = self.watched(&self.changes, self.device.write(offset, buf)).await;
        self.io.has_written(buf.len());
        self.flusher.wrote();
        drop(working);
        self.clean_ended.wake_all();
        result.map_err(|error| self.error(&error))
    }

    fn clean_allowance(&self, effort: Effort) -> u64 {
        let hosts = self.host_cost.get();
        match effort {
            Effort::Full => u64::MAX,
            Effort::Beside { .. } if hosts == 0 => u64::MAX,
            Effort::Beside { rate, pressure_percent } => {
                let (least, more) = match rate {
                    FlushRate::Low => (hosts / 12, hosts / 3 + 8),
                    FlushRate::Medium => (hosts / 3 + 8, 16 * hosts + 384),
                    FlushRate::High => (2 * hosts + 384, 32 * hosts),
                };
                least + more * u64::from(pressure_percent) / 100
            }
        }
    }

    /// Makes durable what hosts were told of as written here, and nothing else if that is durable already.
    pub(crate) async fn flush_around(&self) -> Result<(), Error> {
        if self.flusher.covers(self.around.get()) { self.check_latch() } else { self.flush().await }
    }

    /// What was written until now is nowhere else.
    pub(crate) fn count_as_around(&self) {
        self.around.set(self.flusher.mark());
    }

    pub(crate) async fn discard(&self, range: ByteRange) -> Result<(), Error> {
        self.check_latch()?;
        let result = self.watched(&self.changes, self.device.discard(range)).await;
        self.flusher.wrote();
        self.around.set(self.flusher.mark());
        result.map_err(|error| self.error(&error))
    }

    /// Makes the range read as zeroes; answers `Unsupported` if the device cannot by itself.
    pub(crate) async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), Error> {
        self.check_latch()?;
        let result = self.watched(&self.changes, self.device.write_zeroes(range, mode)).await;
        self.flusher.wrote();
        self.around.set(self.flusher.mark());
        result.map_err(|error| self.error(&error))
    }

    /// Makes durable every write that completed before this call; also those from before the device was opened.
    pub(crate) async fn flush(&self) -> Result<(), Error> {
        if planted(Planted::FlushDoesNothing) {
            return Ok(());
        }
        let mark = self.flusher.mark();
        let flush = async || {
            self.check_latch()?;
            let result = self.watched(&self.changes, self.device.flush()).await;
            result.map_err(|error| self.latch(&error))
        };
        if !self.flusher.covers(mark) {
            cover(&self.flusher, mark, flush).await?;
        }
        self.check_latch()
    }

    fn latch(&self, error: &DeviceError) -> Error {
        let text = self.error(error);
        if !planted(Planted::FailedFlushForgotten) {
            let reason = format!("{text}; after a failed flush nothing more is written to it: check it, then restart");
            *self.latched.borrow_mut() = Some(reason);
        }
        text
    }
}
