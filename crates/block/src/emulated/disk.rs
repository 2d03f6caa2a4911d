//! One spindle at work: its command queue, the order in which it serves it, and its volatile write cache.
//!
//! The disk serves what its head reaches soonest (shortest access first), among the oldest commands that its native
//! command queue holds and the writes in its cache. Waiting makes a command count as nearer, so that none is overtaken
//! for ever.

use std::collections::VecDeque;

use super::mechanics::{Access, Head, Mechanics};
use super::timeline::{Event, Timeline, WorkId};
use crate::{ByteRange, Instant};

/// A command counts as nearer by its age divided by this. Firmware weighs fairness against throughput; the divisor is
/// calibrated: with it, 8 commands per disk give the read rate of the vendors' arrays (see `Preset`).
const COMMAND_AGE_DIVISOR: u64 = 6;

/// The same for a write in the cache, for which nobody waits.
const CACHED_AGE_DIVISOR: u64 = 32;

/// What a waiting flush adds to the distance of everything else, in nanoseconds: several of the longest accesses.
const FLUSH_PREFERENCE_NS: u64 = 100_000_000;

/// The most that the head transfers before it looks at the queue again, in bytes.
const TRANSFER_BYTES_MAX: u64 = 1 << 20;

/// The stretches that a disk's write cache tracks at most. Firmware sorts a bounded list, whatever the size of the
/// buffer: data sheets do not give it; 96 lies in the range that measurements of nearline disks suggest.
const CACHED_WRITES_MAX: usize = 96;

/// Larger than any distance and any age, in nanoseconds: keeps the difference of the two positive.
const FAR_NS: u64 = 1 << 62;

#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) work: WorkId,
    pub(super) access: Access,
    pub(super) range: ByteRange,
    pub(super) arrived: Instant,
}

/// What the disk's head has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
}

#[derive(Debug)]
pub(super) struct Disk {
    number: usize,
    mechanics: Mechanics,
    queue_depth: usize,
    head: Head,
    /// What the head transfers now, if anything.
    transfer: Option<Transfer>,
    queue: VecDeque<Command>,
    cache: WriteCache,
    flushes: Vec<Flush>,
    pub(super) counters: DiskCounters,
}

#[derive(Clone, Copy, Debug)]
struct Transfer {
    /// The bytes that leave the cache when it ends, and their number there.
    cached: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    work: WorkId,
    /// Cached writes with this number or a lower one must reach the platter.
    through: u64,
}

#[derive(Clone, Copy, Debug)]
enum Choice {
    Queued(usize),
    Cached(usize),
}

impl Disk {
    /// A disk at rest. A `cache_bytes` of zero: writes are acknowledged from the platter.
    pub(super) fn new(number: usize, mechanics: Mechanics, queue_depth: usize, cache_bytes: u64) -> Self {
        Self {
            number,
            mechanics,
            queue_depth,
            head: Head { address: 0, since: Instant(0), access: Access::Write },
            transfer: None,
            queue: VecDeque::new(),
            cache: WriteCache::new(cache_bytes),
            flushes: Vec::new(),
            counters: DiskCounters::default(),
        }
    }

    /// Commands that wait for the head, to choose between mirrors.
    pub(super) fn backlog(&self) -> usize {
        self.queue.len() + self.cache.writes.len() + usize::from(self.transfer.is_some())
    }

    pub(super) fn submit(&mut self, command: Command, timeline: &mut Timeline) {
        let now = command.arrived;
        match command.access {
            Access::Read if self.cache.holds(command.range) => timeline.schedule(now, Event::CommandDone(command.work)),
            Access::Write if self.cache.capacity_bytes > 0 => {
                self.cache.blocked.push_back(command);
                self.cache.admit(now, timeline);
            }
            Access::Read | Access::Write => self.queue.push_back(command),
        }
        self.start(now, timeline);
    }

    /// `work` is done when every write that the cache holds now is on the platter.
    pub(super) fn flush(&mut self, now: Instant, work: WorkId, timeline: &mut Timeline) {
        self.flushes.push(Flush { work, through: self.cache.admitted });
        self.finish_flushes(now, timeline);
        self.start(now, timeline);
    }

    /// The head has finished what it was doing.
    pub(super) fn freed(&mut self, now: Instant, timeline: &mut Timeline) {
        let transfer = self.transfer.take().expect("only a transfer frees the head");
        if let Some((bytes, _)) = transfer.cached {
            self.cache.used_bytes -= bytes;
            self.cache.admit(now, timeline);
        }
        self.finish_flushes(now, timeline);
        self.start(now, timeline);
    }

    fn start(&mut self, now: Instant, timeline: &mut Timeline) {
        if self.transfer.is_some() {
            return;
        }
        match self.choose(now) {
            None => {}
            Some(Choice::Queued(index)) => self.start_queued(index, now, timeline),
            Some(Choice::Cached(index)) => self.start_cached(index, now, timeline),
        }
    }

    /// What the head reaches soonest, age considered.
    fn choose(&self, now: Instant) -> Option<Choice> {
        let flush_through = self.flushes.last().map(|flush| flush.through);
        let queued = self.queue.iter().take(self.queue_depth).enumerate().map(|(index, command)| {
            let far_ns = self.mechanics.positioning_ns(self.head, now, command.range.start, command.access);
            let near_ns = (now.0 - command.arrived.0) / COMMAND_AGE_DIVISOR;
            let delay_ns = flush_through.map_or(0, |_| FLUSH_PREFERENCE_NS);
            (FAR_NS + far_ns + delay_ns - near_ns, Choice::Queued(index))
        });
        let cached = self.cache.writes.iter().enumerate().map(|(index, write)| {
            let far_ns = self.mechanics.positioning_ns(self.head, now, write.range.start, Access::Write);
            let near_ns = (now.0 - write.since.0) / CACHED_AGE_DIVISOR;
            let newer = flush_through.is_some_and(|through| write.sequence > through);
            let delay_ns = u64::from(newer) * FLUSH_PREFERENCE_NS;
            (FAR_NS + far_ns + delay_ns - near_ns, Choice::Cached(index))
        });
        queued.chain(cached).min_by_key(|(score, _)| *score).map(|(_, choice)| choice)
    }

    /// Serves a queued command and those that continue it.
    fn start_queued(&mut self, index: usize, now: Instant, timeline: &mut Timeline) {
        let first = self.queue.remove(index).expect("the choice is in the queue");
        let begin = now.0 + self.mechanics.positioning_ns(self.head, now, first.range.start, first.access);
        let mut range = first.range;
        let mut next = Some(first);
        while let Some(command) = next {
            range.end = command.range.end;
            let end = Instant(begin + self.mechanics.transfer_ns(range.start, range.length()));
            timeline.schedule(end, Event::CommandDone(command.work));
            next = self.take_neighbour(range, command.access);
        }
        self.occupy(Instant(begin), range, first.access, Transfer { cached: None }, timeline);
    }

    /// A command that goes on where `range` ends.
    fn take_neighbour(&mut self, range: ByteRange, access: Access) -> Option<Command> {
        if range.length() >= TRANSFER_BYTES_MAX {
            return None;
        }
        let mut visible = self.queue.iter().take(self.queue_depth);
        let index = visible.position(|command| command.access == access && command.range.start == range.end)?;
        self.queue.remove(index)
    }

    /// Brings a cached write to the platter, a large one in parts.
    fn start_cached(&mut self, index: usize, now: Instant, timeline: &mut Timeline) {
        let write = &mut self.cache.writes[index];
        let range = ByteRange::at(write.range.start, write.range.length().min(TRANSFER_BYTES_MAX));
        let cached = Some((range.length(), write.sequence));
        write.range.start = range.end;
        if write.range.is_empty() {
            self.cache.writes.swap_remove(index);
        }
        let begin = now.0 + self.mechanics.positioning_ns(self.head, now, range.start, Access::Write);
        self.occupy(Instant(begin), range, Access::Write, Transfer { cached }, timeline);
    }

    fn occupy(
        &mut self,
        begin: Instant,
        range: ByteRange,
        access: Access,
        transfer: Transfer,
        timeline: &mut Timeline,
    ) {
        let end = Instant(begin.0 + self.mechanics.transfer_ns(range.start, range.length()));
        self.head = Head { address: range.end, since: end, access };
        self.transfer = Some(transfer);
        self.counters.count(access, range.length());
        timeline.schedule(end, Event::DiskFree(self.number));
    }

    fn finish_flushes(&mut self, now: Instant, timeline: &mut Timeline) {
        let in_cache = self.cache.writes.iter().map(|write| write.sequence);
        let on_the_way = self.transfer.and_then(|transfer| transfer.cached).map(|(_, sequence)| sequence);
        let oldest = in_cache.chain(on_the_way).min().unwrap_or(u64::MAX);
        for flush in self.flushes.extract_if(.., |flush| flush.through < oldest) {
            timeline.schedule(now, Event::CommandDone(flush.work));
        }
    }
}

impl DiskCounters {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            written_bytes: self.written_bytes + other.written_bytes,
        }
    }

    fn count(&mut self, access: Access, bytes: u64) {
        match access {
            Access::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
            }
            Access::Write => {
                self.writes += 1;
                self.written_bytes += bytes;
            }
        }
    }
}

/// Writes that the disk has acknowledged and not yet brought to the platter.
#[derive(Debug)]
struct WriteCache {
    capacity_bytes: u64,
    /// Bytes in `writes` and in the transfer that is under way.
    used_bytes: u64,
    writes: Vec<CachedWrite>,
    /// Writes that wait for room, in order of arrival.
    blocked: VecDeque<Command>,
    /// The number of the newest write admitted.
    admitted: u64,
}

#[derive(Clone, Copy, Debug)]
struct CachedWrite {
    range: ByteRange,
    since: Instant,
    /// The number of the oldest write in it.
    sequence: u64,
}

impl WriteCache {
    fn new(capacity_bytes: u64) -> Self {
        Self { capacity_bytes, used_bytes: 0, writes: Vec::new(), blocked: VecDeque::new(), admitted: 0 }
    }

    fn holds(&self, range: ByteRange) -> bool {
        self.writes.iter().any(|write| write.range.contains(range))
    }

    /// Acknowledges blocked writes for which there is room. One that is larger than the cache goes through it alone.
    fn admit(&mut self, now: Instant, timeline: &mut Timeline) {
        while let Some(command) = self.blocked.front().copied() {
            let touching = self.touching(command.range);
            let fits = self.used_bytes + command.range.length() <= self.capacity_bytes || self.used_bytes == 0;
            if !fits || (touching.is_none() && self.writes.len() >= CACHED_WRITES_MAX) {
                return;
            }
            self.blocked.pop_front();
            self.insert(command.range, touching, now);
            timeline.schedule(now, Event::CommandDone(command.work));
        }
    }

    fn insert(&mut self, range: ByteRange, touching: Option<usize>, now: Instant) {
        self.admitted += 1;
        let Some(index) = touching else {
            self.used_bytes += range.length();
            self.writes.push(CachedWrite { range, since: now, sequence: self.admitted });
            return;
        };
        let write = &mut self.writes[index];
        let before = write.range.length();
        write.range = ByteRange { start: write.range.start.min(range.start), end: write.range.end.max(range.end) };
        self.used_bytes += write.range.length() - before;
    }

    /// A cached write that `range` overlaps or continues, and that does not grow too large by it.
    fn touching(&self, range: ByteRange) -> Option<usize> {
        self.writes.iter().position(|write| {
            let start = write.range.start.min(range.start);
            let end = write.range.end.max(range.end);
            end - start <= (write.range.length() + range.length()).min(TRANSFER_BYTES_MAX)
        })
    }
}
