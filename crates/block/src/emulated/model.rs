//! The array as a state machine in virtual time: requests and the clock go in, answers come out.
//!
//! It owns the disks and the controller's cache and knows nothing of data, of tasks or of the real clock. Whoever
//! drives it calls [`ArrayModel::advance`] at or after [`ArrayModel::next_event`]; being late costs no throughput,
//! because everything happens at the time at which it was due, not at the time at which it was noticed.

use std::time::Duration;

use super::Parameters;
use super::controller::{ControllerCache, Due};
use super::disk::{Command, Disk, DiskCounters};
use super::gathering::{GATHERING_TIME, Gathered, Gathering};
use super::layout::{Layout, Piece, StripeWrite};
use super::mechanics::{Access, Mechanics};
use super::timeline::{Event, Timeline, WorkId};
use crate::{ByteRange, Instant};

/// What the controller and the transport add to every answer.
const TRANSPORT: Duration = Duration::from_micros(50);

/// The most by which a driver that woke up late may date back the requests that it submits next.
const CATCH_UP_MAX: Duration = Duration::from_millis(2);

/// Stripes per disk that the controller cache brings to the disks at the same time.
const DESTAGES_PER_DISK: usize = 4;

/// Names a request, for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// What the host asks of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayRequest {
    Read(ByteRange),
    Write(ByteRange),
    /// Everything acknowledged before it reaches the platters (or non-volatile memory).
    Flush,
    /// Takes no more than the way to the array and back.
    Discard,
}

/// An answer, and when it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub request: RequestId,
    pub at: Instant,
}

/// The emulated array, without its data.
#[derive(Debug)]
pub struct ArrayModel {
    layout: Layout,
    disks: Vec<Disk>,
    gathering: Gathering,
    controller: Option<ControllerCache>,
    destages: usize,
    /// An `Event::Destage` is scheduled.
    destage_planned: bool,
    timeline: Timeline,
    works: Works,
    /// Answers that are due and not fetched.
    answers: Vec<Answer>,
    /// The virtual time: nothing happens before it any more.
    clock: Instant,
    /// How late the driver noticed the last answer.
    lateness: Duration,
    requests: u64,
}

impl ArrayModel {
    pub fn new(parameters: &Parameters) -> Self {
        let layout = Layout::new(parameters.level, parameters.disks, parameters.chunk_bytes);
        let mechanics = Mechanics::new(
            parameters.rpm,
            parameters.seek_min_us * 1000,
            parameters.seek_max_us * 1000,
            parameters.rate,
            parameters.disk_bytes(),
        );
        let cached_by_controller = parameters.controller_cache_bytes > 0;
        let disk_cache_bytes = if cached_by_controller { 0 } else { parameters.disk_cache_bytes };
        let queue_depth = usize::try_from(parameters.ncq).expect("a queue depth fits the address space");
        let disk_numbers = 0..usize::try_from(parameters.disks).expect("a number of disks fits the address space");
        let disks = disk_numbers.map(|number| Disk::new(number, mechanics.clone(), queue_depth, disk_cache_bytes));
        Self {
            layout,
            disks: disks.collect(),
            gathering: Gathering::default(),
            controller: cached_by_controller
                .then(|| ControllerCache::new(parameters.controller_cache_bytes, layout.stripe_bytes())),
            destages: 0,
            destage_planned: false,
            timeline: Timeline::default(),
            works: Works::default(),
            answers: Vec::new(),
            clock: Instant(0),
            lateness: Duration::ZERO,
            requests: 0,
        }
    }

    /// Takes a request in at `now`, or somewhat before if the driver was late to deliver the answer that it follows.
    pub fn submit(&mut self, now: Instant, request: ArrayRequest) -> RequestId {
        let arrived = Instant(now.0.saturating_sub(Instant(0).plus(self.lateness).0)).max(self.clock);
        self.run_until(arrived);
        self.requests += 1;
        let id = RequestId(self.requests);
        match request {
            ArrayRequest::Read(range) | ArrayRequest::Write(range) if range.is_empty() => self.answer(arrived, id),
            ArrayRequest::Read(range) => self.read(arrived, id, range),
            ArrayRequest::Write(range) => self.write(arrived, id, range),
            ArrayRequest::Flush => self.flush(arrived, id),
            ArrayRequest::Discard => self.answer(arrived, id),
        }
        id
    }

    /// When something happens next, if nothing is submitted before.
    pub fn next_event(&self) -> Option<Instant> {
        self.answers.first().map(|answer| answer.at).or_else(|| self.timeline.next())
    }

    /// Lets everything happen that was due until `now`; the answers come in the order of their times.
    pub fn advance(&mut self, now: Instant) -> Vec<Answer> {
        self.run_until(now);
        if let Some(last) = self.answers.last() {
            self.lateness = now.since(last.at).min(CATCH_UP_MAX);
        }
        std::mem::take(&mut self.answers)
    }

    fn run_until(&mut self, now: Instant) {
        while let Some((at, event)) = self.timeline.pop_due(now) {
            self.clock = at;
            match event {
                Event::CommandDone(work) => self.command_done(at, work),
                Event::DiskFree(disk) => self.disks[disk].freed(at, &mut self.timeline),
                Event::Gathered(stripe) => {
                    if let Some(gathered) = self.gathering.take(stripe) {
                        self.write_gathered(at, stripe, gathered);
                    }
                }
                Event::Destage => {
                    self.destage_planned = false;
                    self.destage(at);
                }
                Event::Answer(request) => self.answers.push(Answer { request, at }),
            }
        }
    }

    /// What the disks' heads have done so far, all disks together.
    pub fn counters(&self) -> DiskCounters {
        self.disks.iter().fold(DiskCounters::default(), |sum, disk| sum.plus(disk.counters))
    }

    fn read(&mut self, now: Instant, request: RequestId, range: ByteRange) {
        if self.controller.as_ref().is_some_and(|cache| cache.holds(range)) {
            return self.answer(now, request);
        }
        let pieces = self.layout.pieces(range).into_iter().map(|piece| self.idler_mirror(piece)).collect();
        self.start(now, Access::Read, pieces, Next::Answer(request));
    }

    fn write(&mut self, now: Instant, request: RequestId, range: ByteRange) {
        if let Some(cache) = &mut self.controller {
            cache.submit(request, range);
            return self.admit_and_destage(now);
        }
        let parts = self.by_stripe(range);
        let parent = self.works.add(Work { outstanding: parts.len(), next: Next::Answer(request) });
        for (stripe, part) in parts {
            self.write_part(now, stripe, part, parent);
        }
    }

    /// Writes a stripe as soon as it is whole; else, where that matters, after it has waited for its other parts.
    fn write_part(&mut self, now: Instant, stripe: u64, part: ByteRange, parent: WorkId) {
        let whole = self.layout.stripe(stripe);
        if part == whole || !self.layout.has_parity() {
            return self.write_gathered(now, stripe, Gathered { ranges: vec![part], parents: vec![parent] });
        }
        if self.gathering.add(stripe, part, parent) {
            self.timeline.schedule(now.plus(GATHERING_TIME), Event::Gathered(stripe));
        }
        if let Some(gathered) = self.gathering.take_whole(stripe, whole) {
            self.write_gathered(now, stripe, gathered);
        }
    }

    fn write_gathered(&mut self, now: Instant, stripe: u64, gathered: Gathered) {
        let plan = self.layout.write(stripe, &gathered.ranges);
        self.write_stripe(now, plan, Next::Parts(gathered.parents));
    }

    /// Without a controller cache, every disk empties its own.
    fn flush(&mut self, now: Instant, request: RequestId) {
        if self.controller.is_some() {
            return self.answer(now, request);
        }
        let work = self.works.add(Work { outstanding: self.disks.len(), next: Next::Answer(request) });
        for disk in &mut self.disks {
            disk.flush(now, work, &mut self.timeline);
        }
    }

    fn answer(&mut self, now: Instant, request: RequestId) {
        self.timeline.schedule(now.plus(TRANSPORT), Event::Answer(request));
    }

    /// Reads what parity needs, if anything, then writes.
    fn write_stripe(&mut self, now: Instant, plan: StripeWrite, then: Next) {
        if plan.reads.is_empty() {
            self.start(now, Access::Write, plan.writes, then);
        } else {
            self.start(now, Access::Read, plan.reads, Next::Write { pieces: plan.writes, then: Box::new(then) });
        }
    }

    fn start(&mut self, now: Instant, access: Access, pieces: Vec<Piece>, next: Next) {
        let work = self.works.add(Work { outstanding: pieces.len(), next });
        for piece in pieces {
            let command = Command { work, access, range: piece.range, arrived: now };
            self.disks[piece.disk].submit(command, &mut self.timeline);
        }
    }

    fn command_done(&mut self, now: Instant, work: WorkId) {
        let Some(next) = self.works.count_down(work) else { return };
        match next {
            Next::Answer(request) => self.answer(now, request),
            Next::Parts(parents) => parents.into_iter().for_each(|parent| self.command_done(now, parent)),
            Next::Write { pieces, then } => self.start(now, Access::Write, pieces, *then),
            Next::Destaged { bytes } => {
                self.destages -= 1;
                if let Some(cache) = &mut self.controller {
                    cache.destaged(bytes);
                }
                self.admit_and_destage(now);
            }
        }
    }

    fn admit_and_destage(&mut self, now: Instant) {
        let Some(cache) = &mut self.controller else { return };
        for request in cache.admit(now) {
            self.timeline.schedule(now.plus(TRANSPORT), Event::Answer(request));
        }
        self.destage(now);
    }

    /// Starts what the controller cache has due, as far as the disks may be loaded with it.
    fn destage(&mut self, now: Instant) {
        while self.destages < DESTAGES_PER_DISK * self.disks.len() {
            let Some(cache) = &mut self.controller else { return };
            match cache.take_due(now) {
                Due::Nothing => return,
                Due::At(at) => return self.plan_destage(at),
                Due::Stripe(stripe, ranges) => {
                    self.destages += 1;
                    let bytes = ranges.iter().map(|range| range.length()).sum();
                    let plan = self.layout.write(stripe, &ranges);
                    self.write_stripe(now, plan, Next::Destaged { bytes });
                }
            }
        }
    }

    fn plan_destage(&mut self, at: Instant) {
        if !self.destage_planned {
            self.destage_planned = true;
            self.timeline.schedule(at, Event::Destage);
        }
    }

    fn by_stripe(&self, range: ByteRange) -> Vec<(u64, ByteRange)> {
        let stripe_bytes = self.layout.stripe_bytes();
        let stripes = range.start / stripe_bytes..range.end.div_ceil(stripe_bytes);
        let part = |stripe| range.intersection(self.layout.stripe(stripe));
        stripes.filter_map(|stripe| part(stripe).map(|part| (stripe, part))).collect()
    }

    /// Of a mirrored pair, the disk with less to do.
    fn idler_mirror(&self, piece: Piece) -> Piece {
        let backlog = |piece: Piece| self.disks[piece.disk].backlog();
        self.layout.mirror(piece).filter(|mirror| backlog(*mirror) < backlog(piece)).unwrap_or(piece)
    }
}

/// Commands that belong together, and what follows when the last of them is done.
#[derive(Debug)]
struct Work {
    outstanding: usize,
    next: Next,
}

#[derive(Debug)]
enum Next {
    Answer(RequestId),
    /// One part of each of these larger works is done.
    Parts(Vec<WorkId>),
    /// The old contents are read: write the new ones.
    Write {
        pieces: Vec<Piece>,
        then: Box<Next>,
    },
    /// So many bytes of the controller cache have reached the disks.
    Destaged {
        bytes: u64,
    },
}

/// The works under way. Their ids are used again.
#[derive(Debug, Default)]
struct Works {
    slots: Vec<Option<Work>>,
    free: Vec<usize>,
}

impl Works {
    fn add(&mut self, work: Work) -> WorkId {
        assert!(work.outstanding > 0, "work without commands would never end");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(work);
        WorkId(slot)
    }

    /// One command less; what follows if it was the last.
    fn count_down(&mut self, id: WorkId) -> Option<Next> {
        let work = self.slots[id.0].as_mut().expect("a work lasts as long as its commands");
        work.outstanding -= 1;
        if work.outstanding > 0 {
            return None;
        }
        self.free.push(id.0);
        self.slots[id.0].take().map(|work| work.next)
    }
}
