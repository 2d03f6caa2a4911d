//! A volume's backing device: the only place that reads, writes, flushes and discards it.
//!
//! A flush that fails latches the device (rule `flush-covers-all`): nothing that needs durability is believed of it
//! again until it is reopened (`volume/clear.rs`). Reads go on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use hotset_block::sync::Event;
use hotset_block::{Buf, ByteRange, Device, DeviceError, DeviceIdentity, DeviceInfo, Env, Extent, Instant, ZeroMode};

use crate::config::{FetchRate, FlushRate, PAGE, limits};
use crate::error::{Error, ErrorKind};
use crate::members::flush::cover;
use crate::members::flusher::{Flusher, Mark};
use crate::members::io::IoCounts;
use crate::members::look::until_looked;
use crate::members::ownership::Ownership;
use crate::reasons::BackingStop;
use crate::time_limit::within;
use crate::volume::effort::Effort;
use crate::volume::seeks::Seeks;
use crate::volume::turn_shares::{FillDemand, TurnShares};
use crate::volume::turns::{TURN_END, Turns};

/// What a transfer costs the device beside others: one access, and one more for each of these bytes.
const COST_BYTES: u64 = 64 << 10;

pub(crate) struct Backing<E: Env> {
    env: E,
    /// How people know it.
    pub(crate) name: String,
    /// `None`: it was closed, and could not be opened again.
    device: RefCell<Option<Rc<E::Device>>>,
    /// Its own mark when it was opened first; empty if it could not say.
    pub(crate) id: String,
    /// What it was like when it was opened first. One that is opened again is as that one, but for its size.
    pub(crate) info: DeviceInfo,
    /// It is being opened again: hosts and fills wait with what they want to read.
    reopening: Cell<bool>,
    reopened: Event,
    /// How often it was latched.
    failures: Cell<Failures>,
    /// What hosts were told of as written up to here may not be there.
    doubtful: Cell<Mark>,
    /// Some host was told of that, by a flush, up to here.
    reported: Cell<Mark>,
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
    seeks: Seeks,
    latched: RefCell<Option<BackingStop>>,
    reads: Answers,
    /// Of writes, discards and flushes.
    changes: Answers,
    /// A flush for the publisher runs, whether or not the publisher still waits for it.
    flushing_to_publish: Cell<bool>,
    /// Of the pool that caches it, or did.
    owner: RefCell<Option<Rc<Ownership>>>,
}

/// A count of the times that a backing device was latched: who began before one of them is not told of success after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Failures(u64);

/// Whether what hosts were told of as written may not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    None,
    /// Some of them were told, and those that come are not told any more.
    Reported,
    Unreported,
}

fn cost_of(bytes: u64) -> u64 {
    1 + bytes / COST_BYTES
}

fn length_of(buf: &Buf) -> u64 {
    u64::try_from(buf.len()).expect("a length fits in 64 bits")
}

/// Adds to a counter while it lives.
struct CountedOperation<'a> {
    counter: &'a Cell<u64>,
    cost: u64,
}

impl<'a> CountedOperation<'a> {
    fn new(counter: &'a Cell<u64>, cost: u64) -> Self {
        counter.set(counter.get() + cost);
        Self { counter, cost }
    }
}

impl Drop for CountedOperation<'_> {
    fn drop(&mut self) {
        let counted = self.counter.get();
        assert!(counted >= self.cost, "a transfer of cost {} ends, and {counted} is in flight", self.cost);
        self.counter.set(counted - self.cost);
    }
}

/// Wakes those who wait when it is dropped, with whatever ends there.
struct WakeAtEnd<'a>(&'a Event);

impl Drop for WakeAtEnd<'_> {
    fn drop(&mut self) {
        self.0.wake_all();
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
struct PendingOperation<'a, E: Env> {
    env: &'a E,
    answers: &'a Answers,
}

impl<'a, E: Env> PendingOperation<'a, E> {
    fn new(env: &'a E, answers: &'a Answers) -> Self {
        if answers.pending.replace(answers.pending.get() + 1) == 0 {
            answers.heard.set(env.now());
        }
        Self { env, answers }
    }
}

impl<E: Env> Drop for PendingOperation<'_, E> {
    fn drop(&mut self) {
        let pending = self.answers.pending.get();
        assert!(pending > 0, "an operation of a backing device ends, and it works on none");
        self.answers.pending.set(pending - 1);
        self.answers.heard.set(self.env.now());
        self.answers.missing.set(false);
    }
}

/// A host's transfer, from its arrival on.
struct HostRequest<'a, E: Env> {
    backing: &'a Backing<E>,
    _counted: CountedOperation<'a>,
    begun: bool,
}

impl<'a, E: Env> HostRequest<'a, E> {
    fn new(backing: &'a Backing<E>, cost: u64) -> Self {
        backing.turn(|turns, now| turns.host_arrives(now));
        Self { backing, _counted: CountedOperation::new(&backing.host_cost, cost), begun: false }
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
            self.backing.turn(|turns, now| turns.host_cancels(now));
        }
    }
}

/// A host's read that may begin.
pub(crate) struct HostsTurn<'a, E: Env>(HostRequest<'a, E>);

impl<E: Env> HostsTurn<'_, E> {
    pub(crate) async fn read(self, offset: u64, buf: Buf) -> (Buf, Result<(), Error>) {
        let backing = self.0.backing;
        let began = backing.env.now();
        let read = backing.read_when_open(offset, buf).await;
        backing.seeks.host_read_took(backing.env.now().since(began));
        read
    }
}

/// A fill's read that waits.
struct FillWaiting<'a, E: Env> {
    backing: &'a Backing<E>,
    shares: TurnShares,
}

impl<'a, E: Env> FillWaiting<'a, E> {
    fn new(backing: &'a Backing<E>, shares: TurnShares) -> Self {
        backing.turn(|turns, now| turns.fill_arrives(now, shares));
        Self { backing, shares }
    }
}

impl<E: Env> Drop for FillWaiting<'_, E> {
    fn drop(&mut self) {
        self.backing.turn(|turns, now| turns.fill_waits_no_longer(now));
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
        self.backing.read_when_open(offset, buf).await
    }
}

impl<E: Env> Drop for FillReading<'_, E> {
    fn drop(&mut self) {
        let in_flight = self.backing.fill_cost.get();
        assert!(self.cost <= in_flight, "a fill's read of cost {} ends, and {in_flight} is in flight", self.cost);
        self.backing.fill_cost.set(in_flight - self.cost);
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
        let id = device.identity().map_or_else(|_| String::new(), |identity| identity.id);
        Self {
            env,
            name,
            device: RefCell::new(Some(Rc::new(device))),
            id,
            info,
            reopening: Cell::new(false),
            reopened: Event::new(),
            failures: Cell::default(),
            doubtful: Cell::default(),
            reported: Cell::default(),
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
            seeks: Seeks::default(),
            latched: RefCell::new(None),
            reads: Answers::default(),
            changes: Answers::default(),
            flushing_to_publish: Cell::new(false),
            owner: RefCell::default(),
        }
    }

    /// Nothing is written to it while somebody else may have the pool that caches it.
    pub(crate) fn owned_by(&self, owner: &Rc<Ownership>) {
        *self.owner.borrow_mut() = Some(Rc::clone(owner));
    }

    /// Waits, after a pause, until it is known whether somebody else has the pool.
    async fn until_looked(&self) -> Result<(), Error> {
        let owner = self.owner.borrow().clone();
        let Some(owner) = owner else { return Ok(()) };
        until_looked(&self.env, &owner).await;
        if owner.is_taken() {
            let message = format!("backing device {}: another machine took over the pool that caches it", self.name);
            return Err(Error::new(ErrorKind::OtherMachine, message));
        }
        Ok(())
    }

    pub(crate) fn error(&self, error: &DeviceError) -> Error {
        Error::device(&format!("backing device {}", self.name), error)
    }

    /// The device, for what does not wait.
    pub(crate) fn device(&self) -> Result<Rc<E::Device>, Error> {
        let closed = || Error::new(ErrorKind::Gone, format!("backing device {}: it is not open", self.name));
        self.device.borrow().clone().ok_or_else(closed)
    }

    /// What tells it from another one now.
    pub(crate) async fn identity_now(&self) -> Result<DeviceIdentity, Error> {
        let device = self.device()?;
        device.identity_now().await.map_err(|error| self.error(&error))
    }

    /// What of it can be used now: at least what the volume has.
    fn size_bytes(&self) -> u64 {
        self.device.borrow().as_ref().map_or(self.info.size_bytes, |device| device.info().size_bytes)
    }

    /// What it has beyond a volume of that size, if that is less than a block.
    pub(crate) fn unserved_bytes(&self, volume_bytes: u64) -> u64 {
        let end_bytes = self.device.borrow().as_ref().map_or(self.info.size_bytes, |device| device.end_bytes());
        Some(end_bytes.saturating_sub(volume_bytes)).filter(|rest| *rest < PAGE).unwrap_or(0)
    }

    /// The device's blocks that a range of any bytes inside it touches. The last one may be cut short by the device's end.
    pub(crate) fn blocks_of(&self, range: ByteRange) -> ByteRange {
        let wide = range.widened_to(u64::from(self.info.logical_block_bytes));
        ByteRange { end: wide.end.min(self.size_bytes().max(range.end)), ..wide }
    }

    /// The logical blocks that lie in a range as a whole.
    pub(crate) fn blocks_inside(&self, range: ByteRange) -> ByteRange {
        let inner = range.narrowed_to(u64::from(self.info.logical_block_bytes));
        match range.end == self.size_bytes() && !self.is_within_a_block(range) {
            true => ByteRange { end: range.end, ..inner },
            false => inner,
        }
    }

    /// It begins and ends inside one block, and not at its beginning.
    fn is_within_a_block(&self, range: ByteRange) -> bool {
        let unit = u64::from(self.info.logical_block_bytes);
        !range.start.is_multiple_of(unit) && range.start / unit == range.end / unit
    }

    /// It was closed to be opened again, and that did not succeed yet.
    pub(crate) fn is_closed(&self) -> bool {
        self.device.borrow().is_none()
    }

    /// Closes the device, so that it can be opened again: nothing uses it any more. Until [`Backing::reopen`] reads wait, and
    /// nothing is written, for the reason given.
    pub(crate) fn begin_reopening(&self, reason: BackingStop) {
        self.reopening.set(true);
        if self.latched.borrow().is_none() {
            self.failures.set(Failures(self.failures.get().0 + 1));
        }
        *self.latched.borrow_mut() = Some(reason);
    }

    /// Nobody but this has the device.
    pub(crate) fn is_unused(&self) -> bool {
        self.device.borrow().as_ref().is_none_or(|device| Rc::strong_count(device) == 1)
    }

    pub(crate) fn close(&self) {
        assert!(self.reopening.get(), "backing device {} is closed while hosts may read it", self.name);
        *self.device.borrow_mut() = None;
    }

    /// Takes a device that was opened again: it is judged next.
    pub(crate) fn put(&self, device: E::Device) {
        assert!(self.is_closed(), "backing device {} is put in the place of one that is open", self.name);
        *self.device.borrow_mut() = Some(Rc::new(device));
    }

    /// Reads go on; nothing is written, for this reason.
    pub(crate) fn end_reopening(&self, reason: BackingStop) {
        assert!(self.reopening.get(), "backing device {}: {reason}, and nobody was opening it again", self.name);
        *self.latched.borrow_mut() = Some(reason);
        self.reopening.set(false);
        self.reopened.wake_all();
    }

    /// Everything goes on, and what was written before counts as written no more. Answers whether hosts were told of something
    /// of that which they had not flushed.
    pub(crate) fn unlatch(&self) -> bool {
        assert!(!self.is_closed(), "backing device {} is written again, and is not open", self.name);
        let doubtful = !self.flusher.covers(self.around.get());
        if doubtful {
            self.doubtful.set(self.around.get());
        }
        self.flusher.wrote();
        self.around.set(Mark::default());
        *self.latched.borrow_mut() = None;
        self.reopening.set(false);
        self.reopened.wake_all();
        doubtful
    }

    pub(crate) fn failures(&self) -> Failures {
        self.failures.get()
    }

    /// What a client that comes now need not be told of. What nobody was told of, it is: it may be one that came back.
    pub(crate) fn reported(&self) -> Mark {
        self.reported.get()
    }

    /// A host is told, by a flush, of all that was written so far.
    pub(crate) fn report(&self) -> Mark {
        self.reported.set(self.flusher.mark());
        self.flusher.mark()
    }

    /// What another thread that opens it has to know.
    pub(crate) fn doubted(&self) -> Doubt {
        match self.doubtful.get() {
            doubtful if doubtful == Mark::default() => Doubt::None,
            doubtful if doubtful <= self.reported.get() => Doubt::Reported,
            _ => Doubt::Unreported,
        }
    }

    /// That of another thread that had it open, about what was written before it was opened here.
    pub(crate) fn doubt(&self, doubt: Doubt) {
        let mark = self.flusher.mark();
        match doubt {
            Doubt::None => {}
            Doubt::Reported => {
                self.doubtful.set(mark);
                self.reported.set(mark);
            }
            Doubt::Unreported => self.doubtful.set(mark),
        }
    }

    /// Refuses who was told of what was written up to `told` only, if something that was written later may not be there.
    pub(crate) fn check_told(&self, told: Mark) -> Result<(), Error> {
        if self.doubtful.get() <= told {
            return Ok(());
        }
        let message = format!(
            "backing device {}: what was written to it before a flush of it failed, and not flushed since, may not be there",
            self.name
        );
        Err(Error::new(ErrorKind::Media, message))
    }

    /// Refuses what began when the device had failed so often, if it has failed since.
    pub(crate) fn check_failures(&self, before: Failures) -> Result<(), Error> {
        if self.failures.get() == before {
            return Ok(());
        }
        let message = format!("backing device {}: a flush of it failed meanwhile", self.name);
        Err(Error::new(ErrorKind::Media, message))
    }

    /// Why nothing is written to it any more.
    pub(crate) fn latched(&self) -> Option<BackingStop> {
        self.latched.borrow().clone()
    }

    /// Waits for an operation of the device, and notes whether it is answered.
    async fn watched<T>(&self, answers: &Answers, operation: impl Future<Output = T>) -> T {
        let _pending = PendingOperation::new(&self.env, answers);
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
            Some(reason) => Err(Error::new(ErrorKind::Media, reason.to_string())),
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

    async fn read_when_open(&self, offset: u64, buf: Buf) -> (Buf, Result<(), Error>) {
        while self.reopening.get() {
            self.reopened.wait().await;
        }
        self.read_to_judge(offset, buf).await
    }

    /// Reads from the device as it is now, whether or not it is the right one.
    pub(crate) async fn read_to_judge(&self, offset: u64, buf: Buf) -> (Buf, Result<(), Error>) {
        let device = match self.device() {
            Ok(device) => device,
            Err(error) => return (buf, Err(error)),
        };
        let (buf, result) = self.watched(&self.reads, device.read(offset, buf)).await;
        self.io.has_read(buf.len());
        (buf, result.map_err(|error| self.error(&error)))
    }

    /// As far as hosts' reads have shown.
    pub(crate) fn has_seeks(&self) -> bool {
        self.seeks.has_seeks()
    }

    /// Requests of hosts that it works on, or that wait for it.
    pub(crate) fn hosts(&self) -> u64 {
        self.turns.borrow().hosts()
    }

    /// Whether it works on nothing but so many requests of hosts.
    pub(crate) fn serves_only(&self, requests: u64) -> bool {
        self.hosts() <= requests && self.fill_cost.get() == 0 && self.clean_cost.get() == 0
    }

    /// A block that was not known came to be filled.
    pub(crate) fn block_is_wanted(&self) {
        self.turns.borrow_mut().block_is_wanted();
    }

    /// Waits until a fill may read that much.
    pub(crate) async fn fills_turn(&self, bytes: usize, demand: impl Fn() -> FillDemand) -> FillReading<'_, E> {
        let cost = cost_of(u64::try_from(bytes).expect("a length fits in 64 bits"));
        let mut waiting: Option<FillWaiting<'_, E>> = None;
        let takes_turns = loop {
            let demand = demand();
            let shares = TurnShares::of(&demand, self.has_seeks(), self.hosts());
            if shares != waiting.as_ref().map(|waiting| waiting.shares) {
                waiting = shares.map(|shares| FillWaiting::new(self, shares));
            }
            let may_begin = match shares {
                Some(_) => self.turns.borrow_mut().fill_may_begin(self.env.now(), cost, demand.hits),
                None => self.fill_may_begin_beside(cost, demand.rate),
            };
            if may_begin {
                break shares.is_some();
            }
            self.until_fills_may_look(shares).await;
        };
        FillReading::new(self, cost, takes_turns)
    }

    /// Nobody tells that hosts make more than a pause by now.
    async fn until_fills_may_look(&self, shares: Option<TurnShares>) {
        let pause = shares.map_or(Duration::ZERO, |shares| shares.hosts_pause_max);
        if pause.is_zero() {
            self.fill_ended.wait().await;
        } else if within(&self.env, pause, self.fill_ended.wait()).await.is_none() {
            self.turn(Turns::decide);
        }
    }

    /// Where nobody waits for a turn, the share of the device's time that fills take follows from the cost of what is in
    /// flight, theirs beside the hosts': a device serves its queue evenly, whatever its speed.
    fn fill_may_begin_beside(&self, cost: u64, rate: FetchRate) -> bool {
        let hosts = self.host_cost.get();
        let allowance = match rate {
            FetchRate::Low => hosts / 12,
            FetchRate::Medium | FetchRate::High => hosts / 3 + 8,
        };
        self.fill_cost.get() == 0 || self.fill_cost.get() + cost <= allowance
    }

    pub(crate) async fn write(&self, offset: u64, buf: Buf) -> Result<(), Error> {
        self.until_looked().await?;
        let device = self.writable_device()?;
        let mut host = HostRequest::new(self, cost_of(length_of(&buf)));
        host.begin();
        let (buf, result) = self.watched(&self.changes, device.write(offset, buf)).await;
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
        self.until_looked().await?;
        let device = self.writable_device()?;
        // In this order: what is dropped last wakes those who wait for what is dropped first.
        let _ended = WakeAtEnd(&self.clean_ended);
        let _working = CountedOperation::new(&self.clean_cost, cost);
        let (buf, result) = self.watched(&self.changes, device.write(offset, buf)).await;
        self.io.has_written(buf.len());
        self.flusher.wrote();
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

    /// Which parts of a range of any bytes are allocated, if the device says in time. One that may have lost what it was given is not
    /// believed: whoever copies the volume is to read it, and to hear of that.
    pub(crate) async fn allocation(&self, range: ByteRange, extents_max: usize) -> Option<Vec<Extent>> {
        let failures = self.failures.get();
        if self.latched.borrow().is_some() {
            return None;
        }
        let (wide, device) = (self.blocks_of(range), self.device().ok()?);
        let answer = within(&self.env, limits::BACKING_TIMEOUT, device.allocation(wide, extents_max)).await;
        let mut extents = answer?.ok()?;
        if self.failures.get() != failures {
            return None;
        }
        let mut start = wide.start;
        for extent in &mut extents {
            let told = ByteRange::at(start, extent.length);
            start = told.end;
            extent.length = told.intersection(range).map_or(0, ByteRange::length);
        }
        extents.retain(|extent| extent.length > 0);
        Some(extents)
    }

    /// Makes durable what hosts were told of as written here, and nothing else if that is durable already: a device that could not
    /// flush what the log still has breaks no promise.
    pub(crate) async fn flush_around(&self) -> Result<(), Error> {
        if self.flusher.covers(self.around.get()) { Ok(()) } else { self.flush().await }
    }

    pub(crate) async fn discard(&self, range: ByteRange) -> Result<(), Error> {
        self.until_looked().await?;
        let device = self.writable_device()?;
        let result = self.watched(&self.changes, device.discard(range)).await;
        self.flusher.wrote();
        self.around.set(self.flusher.mark());
        result.map_err(|error| self.error(&error))
    }

    /// Makes the range read as zeroes; answers `Unsupported` if the device cannot by itself.
    pub(crate) async fn write_zeroes(&self, range: ByteRange, mode: ZeroMode) -> Result<(), Error> {
        self.until_looked().await?;
        let device = self.writable_device()?;
        let result = self.watched(&self.changes, device.write_zeroes(range, mode)).await;
        self.flusher.wrote();
        self.around.set(self.flusher.mark());
        result.map_err(|error| self.error(&error))
    }

    /// A flush for the publisher begins; false: one runs, whether or not anybody waits for it.
    pub(crate) fn begin_flush_to_publish(&self) -> bool {
        !self.flushing_to_publish.replace(true)
    }

    pub(crate) fn end_flush_to_publish(&self) {
        let was_flushing = self.flushing_to_publish.replace(false);
        assert!(was_flushing, "backing device {}: a flush to publish ends that did not begin", self.name);
    }

    /// Makes durable every write that completed before this call; also those from before the device was opened.
    pub(crate) async fn flush(&self) -> Result<(), Error> {
        let (mark, failures) = (self.flusher.mark(), self.failures.get());
        let flush = async || {
            let device = self.writable_device()?;
            self.flush_device(&device).await
        };
        if !self.flusher.covers(mark) {
            cover(&self.flusher, mark, flush).await?;
        }
        self.check_latch()?;
        self.check_failures(failures)
    }

    /// Flushes the device that was put in place to be judged.
    pub(crate) async fn flush_to_judge(&self) -> Result<(), Error> {
        let device = self.device()?;
        self.watched(&self.changes, device.flush()).await.map_err(|error| self.error(&error))
    }

    async fn flush_device(&self, device: &E::Device) -> Result<(), Error> {
        let result = self.watched(&self.changes, device.flush()).await;
        result.map_err(|error| self.latch(&error))
    }

    fn writable_device(&self) -> Result<Rc<E::Device>, Error> {
        self.check_latch()?;
        self.device()
    }

    fn latch(&self, error: &DeviceError) -> Error {
        let error = self.error(error);
        self.failures.set(Failures(self.failures.get().0 + 1));
        *self.latched.borrow_mut() = Some(BackingStop::FlushFailed(error.clone()));
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a transfer of cost 7 ends, and 0 is in flight")]
    fn a_transfer_ends_once() {
        let counter = Cell::new(0);
        let counted = CountedOperation::new(&counter, 7);
        counter.set(0);
        drop(counted);
    }
}
