//! A host: sends random requests to a volume, tells the model of each, and has every answer judged.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{ByteRange, Env, Extent, ExtentKind, Instant, ZeroMode};
use hotset_cache::{Durability, Error, ErrorKind, Health, Volume, ZeroEffort};

use crate::daemon::Daemon;
use crate::executor::SimEnv;
use crate::image::index;
use crate::model::{Answered, Begun, WriteNumber};
use crate::random::Random;
use crate::second_loss::{self, Lost};
use crate::shape::Profile;
use crate::world::{Asked, FaultsBefore, HostVolume};

/// The longest that a request may take while the backing device answers: SSDs may time out several times on the way.
const ANSWER_MAX: Duration = Duration::from_secs(120);
/// What a host asks for at a time that goes through its volume in order.
const STREAM_REQUEST_BYTES: u64 = 64 << 10;

/// See the file's summary.
#[derive(Clone)]
pub struct Host {
    pub daemon: Daemon,
    pub number: usize,
    pub volume: Volume<SimEnv>,
    /// Where a host that goes through its volume in order is.
    pub stream_at: Option<u64>,
    /// What it wrote last is to be flushed by itself.
    pub flush_next: bool,
    /// Operations of the backing device that had failed when its last flush did.
    pub told_of: Cell<usize>,
}

/// What a host does next.
#[derive(Clone, Copy, Debug)]
enum Request {
    Read(ByteRange),
    Write(ByteRange, Durability),
    Flush,
    Trim(ByteRange, Durability),
    Zeroes(ByteRange, Durability),
    Populate(ByteRange),
    BlockStatus(ByteRange),
}

impl Host {
    /// One of a volume that is there.
    pub fn of(daemon: &Daemon, number: usize) -> Option<Self> {
        let volume = daemon.volume(number)?;
        let told_of = Cell::new(0);
        Some(Self { daemon: daemon.clone(), number, volume, stream_at: None, flush_next: false, told_of })
    }

    fn disk(&self) -> Rc<HostVolume> {
        Rc::clone(&self.daemon.world.volumes[self.number])
    }

    /// Sends requests until there were enough or the daemon stops.
    pub async fn run(mut self, requests: u64) {
        let running = Rc::clone(&self.daemon.hosts_running);
        running.set(running.get() + 1);
        for _ in 0..requests {
            if self.daemon.stopping.get() {
                break;
            }
            let think_ms = self.daemon.world.shape.think_ms;
            let pause = self.daemon.world.simulation.draw(|random| random.below(think_ms * 1000 + 1));
            self.daemon.env.sleep(Duration::from_micros(pause)).await;
            self.one_request().await;
        }
        running.set(running.get() - 1);
    }

    async fn one_request(&mut self) {
        let request = self.choose();
        self.carry_out(request).await;
    }

    /// Reads this like any other host.
    pub async fn look(&self, range: ByteRange) {
        self.carry_out(Request::Read(range)).await;
    }

    async fn carry_out(&self, request: Request) {
        let name = self.daemon.world.simulation.unique();
        self.daemon.world.simulation.note(|| format!("volume {} request {name}: {request:?}", self.number));
        let started = self.daemon.env.now();
        let host = self.disk();
        // Fills of all volumes share what is allowed at once.
        let one = u64::from(!matches!(request, Request::Populate(_)));
        let lost = Lost::of(&self.daemon, self.number);
        let faults = host.faults(self.told_of.get());
        host.waiting.set(host.waiting.get() + one);
        let outcome = match request {
            Request::Read(range) => self.read(range).await,
            Request::Write(range, durability) => self.write(range, durability).await,
            Request::Flush => self.flush().await,
            Request::Trim(range, durability) => self.trim(range, durability).await,
            Request::Zeroes(range, durability) => self.zeroes(range, durability).await,
            Request::Populate(range) => self.volume.populate(range).await,
            Request::BlockStatus(range) => self.block_status(range).await,
        };
        host.waiting.set(host.waiting.get() - one);
        self.daemon.world.simulation.note(|| format!("volume {} request {name} answered: {outcome:?}", self.number));
        if let Err(error) = &outcome {
            self.judge_error(request, error, &lost, faults);
        }
        self.judge_time(request, started);
    }

    /// A host gets errors of the backing device, and only where that failed it. `lost` and `faults`: what was lost and
    /// wrong when it asked.
    fn judge_error(&self, request: Request, error: &Error, lost: &Lost, faults: FaultsBefore) {
        let (asked, is_excused) = match request {
            Request::Read(range) | Request::Populate(range) => {
                (Asked::Read(range), second_loss::excuses(&self.daemon, self.number, lost, range, error))
            }
            Request::Write(range, _) | Request::Trim(range, _) | Request::Zeroes(range, _) => {
                (Asked::Change(range), second_loss::excuses(&self.daemon, self.number, lost, range, error))
            }
            Request::BlockStatus(range) => (Asked::Read(range), false),
            Request::Flush => (Asked::Flush, false),
        };
        let explained = self.volume.is_closed() || self.disk().explains(asked, faults);
        if !explained && !self.daemon.stops(error) && !is_excused {
            self.daemon.world.violate(format!("{request:?} failed though the backing device did not: {error}"));
        }
    }

    fn judge_time(&self, request: Request, started: Instant) {
        let took = self.daemon.env.now().since(started);
        if took > ANSWER_MAX + 2 * self.daemon.world.silent_for.get() && !self.disk().may_hang.get() {
            self.daemon.world.violate(format!("{request:?} took {took:?}"));
        }
    }

    // ---- the requests

    pub async fn read(&self, range: ByteRange) -> Result<(), Error> {
        let model = Rc::clone(&self.disk().model);
        let begun = model.borrow_mut().begin_read();
        let outcome = self.volume.read(range).await;
        let bytes = outcome.as_ref().ok().map(|buf| &buf[..]);
        if bytes.is_some_and(|bytes| bytes.len() != index(range.length())) {
            self.daemon.world.violate(format!("a read of {range:?} returned {:?} bytes", bytes.map(<[u8]>::len)));
            return Ok(());
        }
        let judged = model.borrow_mut().end_read(begun, range, bytes);
        self.daemon.world.report(judged.map_err(|what| format!("read {range:?}: {what}")));
        outcome.map(drop)
    }

    pub async fn write(&self, range: ByteRange, durability: Durability) -> Result<(), Error> {
        let model = Rc::clone(&self.disk().model);
        let mut buf = self.daemon.env.buffers().take(index(range.length()));
        let number = {
            let mut model = model.borrow_mut();
            let number = model.begin_write(range, false);
            model.fill(number, range, &mut buf);
            number
        };
        self.daemon.world.simulation.note(|| format!("volume {}: {number:?} is {range:?}", self.number));
        let outcome = self.volume.write(range.start, buf, durability).await;
        self.end_write(number, durability, &outcome);
        outcome
    }

    fn end_write(&self, number: WriteNumber, durability: Durability, outcome: &Result<(), Error>) {
        let answered = match (outcome, durability) {
            (Ok(()), Durability::Volatile) => Answered::Done,
            (Ok(()), Durability::Durable) => Answered::Durable,
            (Err(_), Durability::Volatile | Durability::Durable) => Answered::Unknown,
        };
        self.disk().model.borrow_mut().end_write(number, answered);
    }

    pub async fn flush(&self) -> Result<(), Error> {
        let model = Rc::clone(&self.disk().model);
        let begun = model.borrow_mut().begin_flush();
        if let Err(error) = self.volume.flush().await {
            let latched = self.volume.status().health == Health::Failed;
            if latched || error.to_string().contains("may not be there") {
                model.borrow_mut().flush_failed();
            }
            self.told_of.set(self.disk().disk.failed_operations());
            return Err(error);
        }
        let told = model.borrow().check_told();
        self.daemon.world.report(told);
        model.borrow_mut().end_flush(begun);
        let flushes = &self.daemon.world.simulation.host_flushes;
        flushes.set(flushes.get() + 1);
        Ok(())
    }

    /// A trim may do nothing. Where it may do something, every cell is old or zero, and stays what it is.
    async fn trim(&self, range: ByteRange, durability: Durability) -> Result<(), Error> {
        if !self.volume.trims() {
            return self.volume.trim(range, durability).await;
        }
        let number = self.disk().model.borrow_mut().begin_write(range, true);
        let outcome = self.volume.trim(range, durability).await;
        self.disk().model.borrow_mut().end_write(number, Answered::Unknown);
        outcome
    }

    async fn zeroes(&self, range: ByteRange, durability: Durability) -> Result<(), Error> {
        let (mode, effort) = self.daemon.world.simulation.draw(|random| {
            let mode = random.pick(&[ZeroMode::MayPunch, ZeroMode::KeepAllocated]);
            (mode, if random.one_in(4) { ZeroEffort::FastOnly } else { ZeroEffort::Any })
        });
        let number = self.disk().model.borrow_mut().begin_write(range, true);
        let outcome = self.volume.write_zeroes(range, mode, effort, durability).await;
        self.end_write(number, durability, &outcome);
        match outcome {
            Err(error) if effort == ZeroEffort::FastOnly && error.kind == ErrorKind::Unsupported => Ok(()),
            Ok(()) | Err(_) => outcome,
        }
    }

    /// What is called a hole has to be one.
    async fn block_status(&self, range: ByteRange) -> Result<(), Error> {
        let model = Rc::clone(&self.disk().model);
        let begun = model.borrow_mut().begin_read();
        let outcome = self.volume.block_status(range, 16).await;
        if let Ok(extents) = &outcome {
            self.judge_extents(begun, range, extents);
        }
        model.borrow_mut().end_look(begun);
        outcome.map(drop)
    }

    fn judge_extents(&self, begun: Begun, range: ByteRange, extents: &[Extent]) {
        if extents.is_empty() {
            self.daemon.world.violate(format!("block status of {range:?} is empty"));
        }
        let mut at = range.start;
        for extent in extents {
            let part = ByteRange { start: at, end: (at + extent.length).min(range.end) };
            at += extent.length;
            let reads_as_zero = matches!(extent.kind, ExtentKind::Hole | ExtentKind::Zero);
            if reads_as_zero {
                let judged = self.disk().model.borrow_mut().may_be_zero(begun, part);
                self.daemon.world.report(judged.map_err(|what| format!("called a hole, {part:?}: {what}")));
            }
        }
    }

    // ---- the choice

    fn choose(&mut self) -> Request {
        let simulation = Rc::clone(&self.daemon.world.simulation);
        if let Some(at) = self.stream_at {
            return simulation.draw(|random| self.next_of_stream(at, random));
        }
        let range = simulation.draw(|random| self.choose_range(random));
        if self.daemon.world.shape.profile == Profile::Commits {
            return simulation.draw(|random| self.next_commit(range, random));
        }
        let durable_percent = self.daemon.world.shape.durable_percent;
        simulation.draw(|random| {
            let flushes = random.percent(durable_percent);
            if flushes && random.one_in(2) {
                return Request::Flush;
            }
            let durability = if flushes { Durability::Durable } else { Durability::Volatile };
            match random.below(100) {
                0..52 => Request::Read(range),
                52..86 => Request::Write(range, durability),
                86..90 => Request::Trim(range, durability),
                90..95 => Request::Zeroes(range, durability),
                95..98 => Request::Populate(range),
                _ => Request::BlockStatus(range),
            }
        })
    }

    fn next_of_stream(&mut self, at: u64, random: &mut Random) -> Request {
        let size = self.volume.size_bytes();
        let start = if at >= size { 0 } else { at };
        let request = |start: u64| ByteRange { start, end: (start + STREAM_REQUEST_BYTES).min(size) };
        if !random.one_in(3) {
            self.stream_at = Some(request(start).end);
            return Request::Read(request(start));
        }
        // Where it is, or where it is going to read.
        let ahead = start + random.below(4) * STREAM_REQUEST_BYTES;
        let written = request(if ahead < size { ahead } else { start });
        self.stream_at = Some(if written.start == start { written.end } else { start });
        Request::Write(written, Durability::Volatile)
    }

    /// As a database's log does: now and then it misses a flush.
    fn next_commit(&mut self, range: ByteRange, random: &mut Random) -> Request {
        if std::mem::take(&mut self.flush_next) {
            return Request::Flush;
        }
        let choice = random.below(20);
        self.flush_next = choice > 2;
        if choice < 2 { Request::Read(range) } else { Request::Write(range, Durability::Volatile) }
    }

    fn choose_range(&self, random: &mut Random) -> ByteRange {
        let host = self.disk();
        let size = self.volume.size_bytes();
        let unit = host.shape.request_unit_bytes();
        let block = self.daemon.world.shape.settings.block_bytes.get();
        let block_start =
            choose_block(&host, size.div_ceil(block), self.daemon.world.shape.wander_percent, random) * block;
        // The first pages of a block are where requests meet.
        let page = if random.one_in(2) { random.below(3) } else { random.below(block / 4096) };
        let inside = if random.one_in(4) { random.below(4096 / unit) * unit } else { 0 };
        let length = match random.below(20) {
            0..9 => 4096,
            9..13 => random.between(1, 4096 / unit) * unit,
            13..17 => random.between(1, 5 * 4096 / unit) * unit,
            17..19 => block,
            _ => random.between(1, 3 * block / unit) * unit,
        };
        let start = (block_start + page * 4096 + inside).min(size - unit);
        ByteRange { start, end: (start + length).min(size) }
    }
}

/// Mostly one of the hot blocks; which blocks are hot changes now and then.
fn choose_block(host: &HostVolume, blocks: u64, wander_percent: u64, random: &mut Random) -> u64 {
    let mut hot = host.hot.borrow_mut();
    let wanted = index(host.shape.hot_blocks);
    if hot.len() < wanted {
        hot.push(random.below(blocks));
    } else if random.one_in(40) {
        let at = random.index(hot.len());
        hot[at] = random.below(blocks);
    }
    if random.percent(wander_percent) { random.below(blocks) } else { random.pick(&hot) }
}
