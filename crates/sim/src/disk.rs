//! A simulated disk: its content, what is in flight on it, how long things take, and its faults.
//!
//! It outlives the daemons that use it through [`crate::device::SimDevice`] handles. An operation goes on when the one
//! who asked for it has stopped waiting. A write lands at any moment between its submission and its completion, whole
//! or in two pieces; a read sees the disk as it was at its start or at its end.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use hotset_block::{ByteRange, DeviceErrorKind, DeviceIdentity, DeviceInfo, Discard};

use crate::executor::Simulation;
use crate::image::{Image, index};
use crate::media::{Media, length};
use crate::recognise::is_journal_sector;

/// Late, and some of it later than any timeout allows.
pub const TOO_LATE_MS: &[u64] = &[8_000, 8_000, 40_000];
/// Late, and always in time.
pub const LATE_IN_TIME_MS: &[u64] = &[3_000];

/// Which operations may take seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhatIsLate {
    #[default]
    Anything,
    /// All but reads: a start that reads step by step would take such an SSD for dead.
    AllButReads,
    Reads,
    /// What a slot index is told.
    Journal,
}

/// What a disk is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    WriteOfJournal,
    WriteDurable,
    Flush,
}

impl WhatIsLate {
    fn contains(self, kind: Kind) -> bool {
        match self {
            Self::Anything => true,
            Self::AllButReads => kind != Kind::Read,
            Self::Reads => kind == Kind::Read,
            Self::Journal => kind == Kind::WriteOfJournal,
        }
    }
}

/// What goes wrong by itself, in operations of a thousand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub read_errors: u64,
    pub write_errors: u64,
    pub flush_errors: u64,
    /// Operations that take seconds.
    pub late: u64,
    pub what_is_late: WhatIsLate,
    /// How long these may take, in milliseconds: one of the choices is the most.
    pub late_ms: &'static [u64],
    /// Operations that are never answered.
    pub hang: u64,
}

/// How long an operation takes.
#[derive(Clone, Copy, Debug)]
pub struct Speed {
    pub least_us: u64,
    pub most_us: u64,
    /// How many times longer a flush may take.
    pub flush_slowness: u64,
}

/// Who wants to know what is written to a disk.
pub trait Watcher {
    /// A write was submitted, to where the disk holds these bytes. `alone`: no other write there is under way.
    fn wrote(&self, offset: u64, bytes: &[u8], held: &[u8], alone: bool);
}

/// See the file's summary.
pub struct Disk {
    pub name: String,
    info: Cell<DeviceInfo>,
    pub speed: Speed,
    pub(crate) simulation: Rc<Simulation>,
    /// When the power fails, it keeps nothing that was not flushed.
    pub forgetful: Cell<bool>,
    state: RefCell<State>,
}

struct State {
    media: Media,
    identity: DeviceIdentity,
    /// Rises with every write, and with every change behind our back.
    change_mark: u64,
    inflight: BTreeMap<u64, InflightOp>,
    faults: Faults,
    /// Pages that no read brings, by where they begin.
    bad_pages: BTreeSet<u64>,
    failures: Vec<Failure>,
    reads: u64,
    gone: bool,
    /// How often it went away: a handle from before that is of no use any more.
    departures: u64,
    /// It answers nothing.
    silent: bool,
    /// What it would have answered meanwhile.
    unanswered: Vec<u64>,
    refuses: Option<Refuses>,
    watcher: Option<Rc<dyn Watcher>>,
}

/// A disk that can be read takes no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refuses {
    pub error: DeviceErrorKind,
    /// No flushes either: what was written before may be lost.
    pub flushes: bool,
    /// What it says that it did not write is there all the same.
    pub lands: bool,
}

/// An operation that failed.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    pub kind: Failed,
    pub range: ByteRange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    Read,
    /// A write, a discard, or what was to make it durable.
    Write,
    Flush,
}

/// A device that was taken away: what it holds and what it says of itself.
#[derive(Clone)]
pub struct Saved {
    content: Image,
    identity: DeviceIdentity,
    change_mark: u64,
}

struct InflightOp {
    /// Of the handle that asked for it.
    departures: u64,
    range: ByteRange,
    work: Work,
    answer: Rc<RefCell<Answer>>,
}

enum Work {
    Read {
        offset: u64,
        sampled: bool,
    },
    /// What has not landed yet.
    Write {
        rest: Vec<(u64, Rc<[u8]>)>,
        durable: bool,
    },
    /// The writes that had completed when the flush began.
    Flush {
        covered: Vec<u64>,
    },
}

impl InflightOp {
    /// What it is if it fails.
    fn failure(&self) -> Failure {
        let kind = match &self.work {
            Work::Read { .. } => Failed::Read,
            Work::Write { .. } => Failed::Write,
            Work::Flush { .. } => Failed::Flush,
        };
        Failure { kind, range: self.range }
    }
}

/// Where an operation's outcome appears.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) outcome: Option<Result<(), DeviceErrorKind>>,
    pub(crate) data: Vec<u8>,
    pub(crate) waker: Option<Waker>,
}

impl State {
    fn is_away(&self, departures: u64) -> bool {
        self.gone || self.departures != departures
    }
}

impl Disk {
    /// A disk of no particular kind, with a volatile cache.
    pub fn plain(simulation: &Rc<Simulation>, name: &str, size_bytes: u64) -> Rc<Self> {
        Self::plain_of(simulation, name, size_bytes, Speed { least_us: 20, most_us: 400, flush_slowness: 10 })
    }

    /// A plain disk of this speed.
    pub fn plain_of(simulation: &Rc<Simulation>, name: &str, size_bytes: u64, speed: Speed) -> Rc<Self> {
        let info = DeviceInfo {
            size_bytes,
            logical_block_bytes: 512,
            optimal_io_bytes: 0,
            volatile_cache: true,
            discard: Discard::Zeroes,
            read_only: false,
            emulated: false,
        };
        Self::new(simulation, name, info, speed)
    }

    pub fn new(simulation: &Rc<Simulation>, name: &str, info: DeviceInfo, speed: Speed) -> Rc<Self> {
        let identity = DeviceIdentity {
            id: format!("serial-of-{name}"),
            parent: format!("drive-of-{name}"),
            change_mark: Some(0),
            boot: 1,
        };
        let state = State {
            media: Media::new(info.size_bytes, u64::from(info.logical_block_bytes)),
            identity,
            change_mark: 1,
            inflight: BTreeMap::new(),
            faults: Faults::default(),
            bad_pages: BTreeSet::new(),
            failures: Vec::new(),
            reads: 0,
            gone: false,
            departures: 0,
            silent: false,
            unanswered: Vec::new(),
            refuses: None,
            watcher: None,
        };
        let simulation = Rc::clone(simulation);
        let forgetful = Cell::new(false);
        let info = Cell::new(info);
        Rc::new(Self { name: name.to_owned(), info, speed, simulation, forgetful, state: RefCell::new(state) })
    }

    pub fn info(&self) -> DeviceInfo {
        self.info.get()
    }

    // ---- what a device handle asks

    /// How often it has gone away so far.
    pub(crate) fn departures(&self) -> u64 {
        self.state.borrow().departures
    }

    /// It is away for a handle that was opened after so many departures.
    pub(crate) fn is_away(&self, departures: u64) -> bool {
        self.state.borrow().is_away(departures)
    }

    pub(crate) fn identity(&self, departures: u64) -> Result<DeviceIdentity, DeviceErrorKind> {
        let state = self.state.borrow();
        if state.is_away(departures) {
            return Err(DeviceErrorKind::Gone);
        }
        let change_mark = state.identity.change_mark.map(|_| state.change_mark);
        Ok(DeviceIdentity { change_mark, ..state.identity.clone() })
    }

    pub(crate) fn submit_read(self: &Rc<Self>, departures: u64, offset: u64, len: usize) -> Rc<RefCell<Answer>> {
        self.state.borrow_mut().reads += 1;
        let sampled = self.simulation.draw(|random| random.one_in(4));
        let answer = Rc::new(RefCell::new(Answer { data: vec![0; len], ..Answer::default() }));
        if sampled {
            self.state.borrow().media.current.read(offset, &mut answer.borrow_mut().data);
        }
        let range = ByteRange::at(offset, length(&answer.borrow().data));
        self.submit(
            Kind::Read,
            self.simulation.unique(),
            InflightOp { departures, range, work: Work::Read { offset, sampled }, answer },
        )
    }

    /// `durable`: no flush is needed for it.
    pub(crate) fn submit_write(
        self: &Rc<Self>,
        departures: u64,
        offset: u64,
        data: &[u8],
        durable: bool,
    ) -> Rc<RefCell<Answer>> {
        self.tell_watcher(offset, data);
        self.simulation.count_write(data, index(u64::from(self.info().logical_block_bytes)));
        let operation = self.simulation.unique();
        let (now, rest) = self.landing_plan(offset, data);
        {
            let mut state = self.state.borrow_mut();
            state.change_mark += 1;
            if !state.is_away(departures) {
                now.into_iter().for_each(|(offset, data)| state.media.land(operation, offset, data));
            }
        }
        let kind = match durable {
            true => Kind::WriteDurable,
            false if is_journal_sector(data) => Kind::WriteOfJournal,
            false => Kind::Write,
        };
        let range = ByteRange::at(offset, length(data));
        self.submit(
            kind,
            operation,
            InflightOp { departures, range, work: Work::Write { rest, durable }, answer: Rc::default() },
        )
    }

    fn tell_watcher(&self, offset: u64, data: &[u8]) {
        let state = self.state.borrow();
        let Some(watcher) = state.watcher.clone() else { return };
        let range = ByteRange::at(offset, length(data));
        let is_beside = |other: &InflightOp| matches!(other.work, Work::Write { .. }) && other.range.overlaps(range);
        let alone = !state.inflight.values().any(is_beside);
        drop(state);
        let mut held = vec![0; data.len()];
        self.peek(offset, &mut held);
        watcher.wrote(offset, data, &held, alone);
    }

    pub(crate) fn submit_flush(self: &Rc<Self>, departures: u64) -> Rc<RefCell<Answer>> {
        let covered = self.state.borrow().media.flushable();
        self.simulation.flushes.set(self.simulation.flushes.get() + 1);
        let whole = ByteRange { start: 0, end: self.info().size_bytes };
        self.submit(
            Kind::Flush,
            self.simulation.unique(),
            InflightOp { departures, range: whole, work: Work::Flush { covered }, answer: Rc::default() },
        )
    }

    pub(crate) fn is_hole(&self, offset: u64) -> bool {
        self.state.borrow().media.current.is_hole(offset)
    }

    /// Which pieces of a write land at once, and which when it completes.
    #[allow(clippy::type_complexity, reason = "two lists of pieces, used in the next lines")]
    fn landing_plan(&self, offset: u64, data: &[u8]) -> (Vec<(u64, Rc<[u8]>)>, Vec<(u64, Rc<[u8]>)>) {
        let sector = u64::from(self.info().logical_block_bytes);
        let (choice, cut) =
            self.simulation.draw(|random| (random.below(10), random.below(length(data).div_ceil(sector))));
        if choice < 6 || cut == 0 {
            let whole = vec![(offset, Rc::from(data))];
            return if choice % 2 == 0 { (whole, vec![]) } else { (vec![], whole) };
        }
        let (head, tail) = data.split_at(index(cut * sector));
        let (head, tail) = (vec![(offset, Rc::from(head))], vec![(offset + cut * sector, Rc::from(tail))]);
        if choice % 2 == 0 { (head, tail) } else { (tail, head) }
    }

    fn submit(self: &Rc<Self>, kind: Kind, operation: u64, submitted: InflightOp) -> Rc<RefCell<Answer>> {
        let answer = Rc::clone(&submitted.answer);
        self.state.borrow_mut().inflight.insert(operation, submitted);
        if let Some(delay) = self.delay(kind) {
            let disk = Rc::clone(self);
            self.simulation.call_after(delay, move || disk.complete(operation));
        }
        answer
    }

    /// The time that an operation takes; `None` is for ever.
    fn delay(&self, kind: Kind) -> Option<Duration> {
        let faults = self.state.borrow().faults;
        self.simulation.draw(|random| {
            if random.below(1000) < faults.hang {
                return None;
            }
            if random.below(1000) < faults.late && faults.what_is_late.contains(kind) {
                let longest_ms = random.pick(faults.late_ms);
                return Some(Duration::from_millis(random.between(1_500, longest_ms)));
            }
            // A flush takes as long as several writes: the moments in which it matters whether it was waited for.
            let flushes = [Kind::Flush, Kind::WriteDurable].contains(&kind);
            let slowness = if random.one_in(50) { 20 } else { 1 }
                * if flushes { random.between(1, self.speed.flush_slowness) } else { 1 };
            Some(Duration::from_micros(random.between(self.speed.least_us, self.speed.most_us) * slowness))
        })
    }

    fn complete(&self, operation: u64) {
        if self.state.borrow().silent {
            self.state.borrow_mut().unanswered.push(operation);
            return;
        }
        let Some(submitted) = self.state.borrow_mut().inflight.remove(&operation) else { return };
        let failure = submitted.failure();
        let outcome = match self.is_away(submitted.departures) {
            true => Err(DeviceErrorKind::Gone),
            false => self.carry_out(operation, submitted.work, &submitted.answer),
        };
        if outcome.is_err() {
            self.state.borrow_mut().failures.push(failure);
        }
        self.simulation.failures.set(self.simulation.failures.get() + u64::from(outcome.is_err()));
        self.simulation.trace.mix(operation ^ u64::from(outcome.is_err()).rotate_left(63));
        let waker = {
            let mut answer = submitted.answer.borrow_mut();
            answer.outcome = Some(outcome);
            answer.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn carry_out(&self, operation: u64, work: Work, answer: &RefCell<Answer>) -> Result<(), DeviceErrorKind> {
        let roll = self.simulation.draw(|random| random.below(1000));
        match work {
            Work::Read { offset, sampled } => self.finish_read(roll, offset, sampled, answer),
            Work::Write { rest, durable } => self.finish_write(roll, operation, rest, durable),
            Work::Flush { covered } => self.finish_flush(roll, &covered),
        }
    }

    fn finish_read(
        &self,
        roll: u64,
        offset: u64,
        sampled: bool,
        answer: &RefCell<Answer>,
    ) -> Result<(), DeviceErrorKind> {
        let state = self.state.borrow();
        let range = offset..offset + length(&answer.borrow().data);
        if roll < state.faults.read_errors || state.bad_pages.range(range).next().is_some() {
            self.simulation.note(|| format!("{}: read error at {offset}", self.name));
            return Err(DeviceErrorKind::Media);
        }
        if !sampled {
            state.media.current.read(offset, &mut answer.borrow_mut().data);
        }
        Ok(())
    }

    fn finish_write(
        &self,
        roll: u64,
        operation: u64,
        rest: Vec<(u64, Rc<[u8]>)>,
        durable: bool,
    ) -> Result<(), DeviceErrorKind> {
        let mut state = self.state.borrow_mut();
        if let Some(refuses) = state.refuses {
            // What landed before was not refused yet.
            for (offset, data) in rest.into_iter().filter(|_| refuses.lands) {
                state.media.land(operation, offset, data);
            }
            state.media.complete(|completed| completed == operation);
            if durable && refuses.flushes {
                self.lose_flushable(&mut state);
            }
            return Err(refuses.error);
        }
        let flush_errors = if durable { state.faults.flush_errors } else { 0 };
        let failed = roll < state.faults.write_errors + flush_errors;
        for (offset, data) in rest {
            if failed {
                self.simulation.note(|| format!("{}: write error at {offset}", self.name));
                let lands = || self.simulation.draw(|random| random.one_in(2));
                state.media.land_in_part(operation, offset, &data, lands);
            } else {
                state.media.land(operation, offset, data);
            }
        }
        if failed && roll >= state.faults.write_errors {
            self.lose_flushable(&mut state);
        }
        state.media.complete(|completed| completed == operation);
        if !self.info().volatile_cache || (durable && !failed) {
            state.media.make_durable(|completed| completed == operation);
        }
        if failed { Err(DeviceErrorKind::Media) } else { Ok(()) }
    }

    /// The flush of a durable write failed, and takes along what was written before.
    fn lose_flushable(&self, state: &mut State) {
        self.simulation.note(|| format!("{}: the flush of a durable write fails", self.name));
        let covered = state.media.flushable();
        state.media.orphan(|operation| covered.contains(&operation));
    }

    fn finish_flush(&self, roll: u64, covered: &[u64]) -> Result<(), DeviceErrorKind> {
        let is_covered = |operation: u64| covered.contains(&operation);
        let mut state = self.state.borrow_mut();
        if let Some(refuses) = state.refuses.filter(|refuses| refuses.flushes) {
            state.media.orphan(is_covered);
            return Err(refuses.error);
        }
        if roll >= state.faults.flush_errors {
            state.media.make_durable(is_covered);
            if state.watcher.is_some() {
                self.simulation.backing_flushes.set(self.simulation.backing_flushes.get() + 1);
            }
            return Ok(());
        }
        self.simulation.note(|| format!("{}: flush error", self.name));
        state.media.orphan(is_covered);
        Err(DeviceErrorKind::Media)
    }

    // ---- what the world does to it

    /// The daemon died: what it had in flight lands, in part or not at all, before anybody opens the disk again.
    pub fn kill(&self) {
        let mut state = self.state.borrow_mut();
        for (operation, submitted) in std::mem::take(&mut state.inflight) {
            if let Work::Write { rest, .. } = submitted.work {
                let percent = self.simulation.draw(|random| random.pick(&[0, 50, 100, 100]));
                let lands = || self.simulation.draw(|random| random.percent(percent));
                rest.iter().for_each(|(offset, data)| state.media.land_in_part(operation, *offset, data, lands));
            }
        }
        state.media.complete(|_| true);
        state.media.adopt_orphans();
        if !self.info().volatile_cache {
            state.media.make_durable(|_| true);
        }
    }

    /// The power fails, and comes back.
    pub fn cut_power(&self) {
        self.lose_cache();
        self.state.borrow_mut().inflight.clear();
    }

    /// The disk goes away while the daemon uses it: from now on every operation says so.
    pub fn vanish(&self) {
        self.simulation.note(|| format!("{}: vanishes", self.name));
        self.lose_cache();
        let mut state = self.state.borrow_mut();
        state.gone = true;
        state.departures += 1;
    }

    /// The disk is there again, for who opens it from now on.
    pub fn come_back(&self) {
        self.state.borrow_mut().gone = false;
    }

    /// It answers nothing until [`Self::answer_again`].
    pub fn is_silent(&self) -> bool {
        self.state.borrow().silent
    }

    /// From now on it answers nothing.
    pub fn fall_silent(&self) {
        self.simulation.note(|| format!("{}: falls silent", self.name));
        self.state.borrow_mut().silent = true;
    }

    /// It goes on where it was.
    pub fn answer_again(&self) {
        self.state.borrow_mut().silent = false;
        let unanswered = std::mem::take(&mut self.state.borrow_mut().unanswered);
        unanswered.into_iter().for_each(|operation| self.complete(operation));
    }

    /// It takes no writes until it is told that it does.
    pub fn refuse(&self, refuses: Option<Refuses>) {
        self.simulation.note(|| format!("{}: takes no writes: {refuses:?}", self.name));
        self.state.borrow_mut().refuses = refuses;
    }

    /// The disk is reset: it loses some of what was not flushed.
    pub fn reset(&self) {
        self.simulation.note(|| format!("{}: is reset", self.name));
        self.lose_cache();
    }

    /// What was not flushed is lost, as if a flush of it had failed.
    fn lose_cache(&self) {
        let mut state = self.state.borrow_mut();
        if state.watcher.is_some() {
            let whole = ByteRange { start: 0, end: self.info().size_bytes };
            state.failures.push(Failure { kind: Failed::Flush, range: whole });
        }
        let mut rest = Vec::new();
        for (operation, submitted) in &mut state.inflight {
            if let Work::Write { rest: inflight, .. } = &mut submitted.work {
                rest.extend(inflight.drain(..).map(|(offset, data)| (*operation, offset, data)));
            }
        }
        rest.into_iter().for_each(|(operation, offset, data)| state.media.land(operation, offset, data));
        let percents: &[u64] = if self.forgetful.get() { &[0] } else { &[0, 0, 10, 50, 90, 100] };
        self.simulation.draw(|random| state.media.cut_power(percents, random));
    }

    pub fn set_faults(&self, faults: Faults) {
        self.state.borrow_mut().faults = faults;
    }

    /// No read brings these pages, from here on.
    pub fn set_bad_pages(&self, pages: impl IntoIterator<Item = u64>) {
        self.state.borrow_mut().bad_pages = pages.into_iter().collect();
    }

    /// What hangs is carried out now, and nothing goes wrong from here on.
    pub fn answer_all(&self) {
        self.set_faults(Faults::default());
        self.answer(|_| true);
    }

    /// The reads that hang are answered now.
    pub fn answer_reads(&self) {
        self.answer(|work| matches!(work, Work::Read { .. }));
    }

    fn answer(&self, which: impl Fn(&Work) -> bool) {
        let state = self.state.borrow();
        let hanging =
            state.inflight.iter().filter(|(_, submitted)| which(&submitted.work)).map(|(operation, _)| *operation);
        let hanging: Vec<u64> = hanging.collect();
        drop(state);
        hanging.into_iter().for_each(|operation| self.complete(operation));
    }

    /// What is in flight, for people.
    pub fn in_flight(&self) -> String {
        let state = self.state.borrow();
        let words = state.inflight.values().map(|submitted| match &submitted.work {
            Work::Read { offset, .. } => format!("read at {offset}"),
            Work::Write { rest, .. } => format!("write, {} pieces of it not landed", rest.len()),
            Work::Flush { .. } => "flush".to_owned(),
        });
        format!("{}: {}", self.name, words.collect::<Vec<_>>().join(", "))
    }

    pub fn reads_in_flight(&self) -> usize {
        self.state.borrow().inflight.values().filter(|submitted| matches!(submitted.work, Work::Read { .. })).count()
    }

    /// Something is in flight.
    pub fn is_busy(&self) -> bool {
        !self.state.borrow().inflight.is_empty()
    }

    /// Reads that were asked for, since the disk was made.
    pub fn reads(&self) -> u64 {
        self.state.borrow().reads
    }

    /// Operations that failed, since the disk was made.
    pub fn failed_operations(&self) -> usize {
        self.state.borrow().failures.len()
    }

    /// Whether one of them is so, of those that came after so many others.
    pub fn has_failed_since(&self, failures_before: usize, is_so: impl Fn(&Failure) -> bool) -> bool {
        self.state.borrow().failures[failures_before..].iter().any(is_so)
    }

    pub fn is_gone(&self) -> bool {
        self.state.borrow().gone
    }

    pub fn watch(&self, watcher: Rc<dyn Watcher>) {
        self.state.borrow_mut().watcher = Some(watcher);
    }

    /// It has room for more behind its end, which reads as zeroes.
    pub fn grow(&self, size_bytes: u64) {
        self.info.set(DeviceInfo { size_bytes, ..self.info.get() });
        self.state.borrow_mut().media.grow(size_bytes);
    }

    /// A new boot of the machine: change marks of different boots mean nothing to each other.
    pub fn set_boot(&self, boot: u128) {
        self.state.borrow_mut().identity.boot = boot;
    }

    /// Whether the device tells when it was changed.
    pub fn reports_changes(&self, reports: bool) {
        self.state.borrow_mut().identity.change_mark = reports.then_some(0);
    }

    /// Another device is in its place.
    pub fn set_id(&self, id: &str) {
        id.clone_into(&mut self.state.borrow_mut().identity.id);
    }

    /// Somebody else writes to it while no daemon runs.
    pub fn overwrite(&self, offset: u64, bytes: &[u8]) {
        let mut state = self.state.borrow_mut();
        state.media.overwrite(offset, bytes);
        state.change_mark += 1;
    }

    /// What a reader would find at `offset` now.
    pub fn peek(&self, offset: u64, into: &mut [u8]) {
        self.state.borrow().media.current.read(offset, into);
    }

    /// What a reader would find now.
    pub fn content(&self) -> Image {
        self.state.borrow().media.current.clone()
    }

    /// An older copy takes its place.
    pub fn replace_content(&self, image: Image) {
        self.state.borrow_mut().media.replace(image);
    }

    /// What is needed to put it back later as it is now.
    pub fn save(&self) -> Saved {
        let state = self.state.borrow();
        let identity = state.identity.clone();
        Saved { content: state.media.current.clone(), identity, change_mark: state.change_mark }
    }

    /// It is put back, in the boot that is now.
    pub fn put_back(&self, saved: Saved) {
        let mut state = self.state.borrow_mut();
        let boot = state.identity.boot;
        state.media.replace(saved.content);
        state.identity = DeviceIdentity { boot, ..saved.identity };
        state.change_mark = saved.change_mark;
    }

    /// Changes some bytes at rest in pages that hold data, within `range`.
    pub fn rot(&self, range: ByteRange, count: u64) {
        let mut state = self.state.borrow_mut();
        let mut pages = state.media.current.data_pages();
        pages.retain(|page| range.contains(ByteRange::at(page * 4096, 4096)));
        if pages.is_empty() {
            return;
        }
        for _ in 0..count {
            let (page, byte, mask) =
                self.simulation.draw(|random| (random.pick(&pages), random.below(4096), random.between(1, 255)));
            let mask = u8::try_from(mask).expect("it is at most 255");
            state.media.flip(page * 4096 + byte, mask);
        }
        self.simulation.note(|| format!("{}: {count} bytes rot", self.name));
    }
}
