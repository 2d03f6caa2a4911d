//! A cache of watched blocks alone: as much smaller as fewer blocks are watched, it does to them what a whole one would do.
//!
//! It is made of the engine's own [`Map`], [`Policy`] and [`Counters`], and goes through a request as `volume/read.rs`, `volume/write.rs` and
//! `clean/` do: a read hits if all of its pages are there; what it misses is counted, and at the threshold the whole block is
//! filled. In a read pool a write takes its pages out, and fills the block at its own threshold. In a read-write pool what is written
//! stays: here in the block's slot, where the engine has it in the write log. Nothing takes time: a fill is there at once,
//! and there is always room for one.

use std::collections::BTreeMap;

use crate::address::{BlockIndex, BlockKey, SlotIndex, VolumeIndex, at};
use crate::clean::counters::Counters;
use crate::clean::map::Map;
use crate::clean::policy::{Enters, Policy};
use crate::config::{BlockBytes, PAGE, PolicyKind, PoolKind, check_thresholds};
use crate::error::Error;
use crate::format::Corrupt;
use crate::format::codec::{Reader, Writer};

use super::access::{Access, Accesses, Direction, Passage};
use super::figures::{number, ratio, weight};
use super::sample::{GROUPS, Rate, Sampled};
use super::tallies::SizeTally;

/// All blocks are of one volume.
const VOLUME: VolumeIndex = VolumeIndex(0);

/// How much memory counters may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// What those of the pool take.
    Ample,
    /// 32 KiB for a miniature, 16 where blocks are larger than 64 KiB: of small pools, less is remembered than there would be.
    Scarce,
}

impl Room {
    fn bits_max(self, pages_per_block: u32) -> usize {
        match self {
            Self::Ample => usize::MAX,
            Self::Scarce if pages_per_block <= 16 => 1 << 18,
            Self::Scarce => 1 << 17,
        }
    }
}

/// What a pool would be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    pub kind: PoolKind,
    pub block_bytes: BlockBytes,
    pub policy: PolicyKind,
    /// 1 to 4.
    pub populate_on_read: u8,
    /// 1 to 4; 0: never, in a read pool.
    pub populate_on_write: u8,
}

impl Setup {
    /// # Errors
    /// No pool is like that.
    pub fn check(&self) -> Result<(), Error> {
        check_thresholds(self.kind, self.populate_on_read, self.populate_on_write)
    }
}

/// What a miniature counted; each watched block stands for as many as its rate says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct MiniatureTally {
    /// By group of blocks.
    read_misses: [f64; GROUPS],
    /// Writes that went to the backing device.
    write_misses: f64,
    written_pages: f64,
    filled_blocks: f64,
}

/// What a pool would have done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub accesses: Accesses,
    /// Of the parts of blocks that were read, those that were not in the cache: 0 to 1.
    pub read_misses: f64,
    /// How far that may be off: two standard deviations.
    pub read_error: f64,
    /// Of the parts of blocks that were written, those that went to the backing device before the host was answered: 0 to 1, and 1 in a
    /// read pool.
    pub write_misses: f64,
    /// Bytes written to all SSDs together: by fills, and, in a read-write pool, by hosts, twice.
    pub ssd_written_bytes: f64,
}

/// A cache in miniature.
pub struct Miniature {
    setup: Setup,
    blocks: u64,
    rate: Rate,
    slots_max: u32,
    map: Map,
    policy: Policy,
    /// None where every miss is worth a slot.
    counters: Option<Counters>,
    free: Vec<SlotIndex>,
    tally: MiniatureTally,
    /// What is counted and not cached, for a larger size to begin with: a sketch cannot be made smaller.
    pending: Option<Pending>,
}

/// Blocks that were counted, and how often.
#[derive(Default)]
struct Pending {
    counts: BTreeMap<u32, Counts>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    reads: u8,
    writes: u8,
}

impl Pending {
    /// Of more blocks nothing is remembered.
    const BLOCKS_MAX: usize = 2048;

    fn count(&mut self, block: BlockIndex, direction: Direction) {
        if self.counts.len() >= Self::BLOCKS_MAX && !self.counts.contains_key(&block.0) {
            return;
        }
        let counts = self.counts.entry(block.0).or_default();
        let count = match direction {
            Direction::Read => &mut counts.reads,
            Direction::Write => &mut counts.writes,
        };
        *count = count.saturating_add(1).min(4);
    }

    fn memory_bytes(&self) -> u64 {
        // A node of a B-tree has room for eleven entries and is two thirds full on average.
        u64::try_from(self.counts.len() * size_of::<(u32, Counts)>() * 3 / 2).expect("they are in memory")
    }
}

impl Miniature {
    /// Of a pool that has `blocks` slots. At most 2^29 slots are left at `rate`.
    pub fn new(setup: Setup, blocks: u64, rate: Rate, room: Room) -> Self {
        let slots = u32::try_from(rate.share_of(blocks.max(1))).expect("a miniature is planned to fit");
        let pages_per_block = setup.block_bytes.pages();
        let counts = setup.populate_on_read > 1 || setup.populate_on_write > 1;
        let whole = u32::try_from(blocks.min(u64::from(u32::MAX))).expect("it is no more");
        Self {
            setup,
            blocks,
            rate,
            slots_max: slots,
            map: Map::new(pages_per_block, false),
            policy: Policy::new(setup.policy, slots),
            counters: counts.then(|| {
                Counters::sampled(whole, pages_per_block, room.bits_max(pages_per_block), |count| rate.share_of(count))
            }),
            free: Vec::new(),
            tally: MiniatureTally::default(),
            pending: None,
        }
    }

    /// Remembers what a larger size needs to begin with ([`Self::grown`]).
    pub(crate) fn prepared_to_grow(mut self) -> Self {
        self.pending = self.counters.is_some().then(Pending::default);
        self
    }

    /// One of a larger size, which watches no more blocks, as it would be now: this one has never evicted anything. It can be done
    /// once, if this one was prepared for it; the larger one is.
    pub(crate) fn grown(&mut self, blocks: u64, rate: Rate, room: Room) -> Self {
        let mut larger = Self::new(self.setup, blocks, rate, room).prepared_to_grow();
        for slot in self.policy.oldest_first(&self.map) {
            let key = self.map.key(slot).expect("what is listed is used");
            if !rate.takes(Sampled::new(key.block)) {
                continue;
            }
            let taken = larger.take_slot();
            larger.map.insert(taken, key, 0);
            larger.policy.inserted(&mut larger.map, taken);
            larger.map.set_frequency(taken, self.map.frequency(slot));
            larger.map.set_valid_words(taken, self.map.valid_words(slot));
        }
        for (block, counts) in self.pending.take().into_iter().flat_map(|pending| pending.counts) {
            let block = BlockIndex(block);
            if rate.takes(Sampled::new(block)) {
                let key = BlockKey { volume: VOLUME, block };
                (0..counts.reads).for_each(|_| {
                    larger.counted(key, Direction::Read);
                });
                (0..counts.writes).for_each(|_| {
                    larger.counted(key, Direction::Write);
                });
            }
        }
        larger.tally = self.tally;
        larger
    }

    /// The same size with less blocks watched, as it would be now, but for what it has counted of blocks that are not cached.
    pub(crate) fn thinned(&mut self, rate: Rate, room: Room) -> Self {
        let was_prepared = self.pending.is_some();
        let mut thinned = self.grown(self.blocks, rate, room);
        if !was_prepared {
            thinned.pending = None;
        }
        thinned
    }

    /// The slots that it has: less, and it is no sample but a guess.
    pub(crate) fn slots(&self) -> u32 {
        self.slots_max
    }

    // ---- what outlives a restart

    /// What it has cached and counted. What it has counted of blocks that are not cached is forgotten by a restart, and which pages of a
    /// block were overwritten.
    pub(crate) fn encode(&self, to: &mut Writer) {
        to.u64(self.blocks).u64(self.rate.bits()).u32(self.map.slots_used());
        for slot in self.policy.oldest_first(&self.map) {
            let frequency = u8::try_from(self.map.frequency(slot)).expect("it is 3 at most");
            to.u32(self.map.key(slot).expect("what is listed is used").block.0).u8(frequency);
        }
        let MiniatureTally { read_misses, write_misses, written_pages, filled_blocks } = &self.tally;
        for weight in read_misses.iter().chain([write_misses, written_pages, filled_blocks]) {
            to.u64(weight.to_bits());
        }
    }

    /// # Errors
    /// The bytes are not what [`Self::encode`] makes of a miniature with that setup.
    pub(crate) fn decode(from: &mut Reader<'_>, setup: Setup, room: Room, slots_max: u32) -> Result<Self, Corrupt> {
        let blocks = from.counter()?;
        let rate = Rate::of_bits(from.u64()?).ok_or_else(|| from.corrupt("a rate is not one"))?;
        from.require(blocks > 0 && rate.share_of(blocks) <= u64::from(slots_max), "a miniature is too large")?;
        let mut miniature = Self::new(setup, blocks, rate, room);
        let count = from.u32()?;
        from.require(count <= miniature.slots_max, "more is cached than there are slots")?;
        for _ in 0..count {
            let key = BlockKey { volume: VOLUME, block: BlockIndex(from.u32()?) };
            let frequency = u32::from(from.u8()?);
            from.require(miniature.map.find(key).is_none(), "a block is cached twice")?;
            from.require(frequency <= 3, "a frequency is too high")?;
            let slot = miniature.take_slot();
            miniature.map.insert(slot, key, 0);
            miniature.policy.inserted(&mut miniature.map, slot);
            miniature.map.set_frequency(slot, frequency);
            miniature.map.set_valid(slot, 0..miniature.map.pages_per_block());
        }
        let MiniatureTally { read_misses, write_misses, written_pages, filled_blocks } = &mut miniature.tally;
        for sum in read_misses.iter_mut().chain([write_misses, written_pages, filled_blocks]) {
            *sum = weight(from)?;
        }
        Ok(miniature)
    }

    /// What it would have missed and written until now.
    pub(crate) fn tally(&self) -> SizeTally {
        let MiniatureTally { read_misses, write_misses, .. } = self.tally;
        SizeTally {
            blocks: self.blocks,
            rate: self.rate,
            reads_missed: read_misses.iter().sum(),
            reads_missed_by_group: read_misses,
            writes_missed: write_misses,
            ssd_written_bytes: self.written_bytes(),
        }
    }

    fn written_bytes(&self) -> f64 {
        let MiniatureTally { written_pages, filled_blocks, .. } = self.tally;
        filled_blocks * number(self.setup.block_bytes.get()) + 2.0 * written_pages * number(PAGE)
    }

    /// It has, or has counted, so many blocks that a larger size had better be begun: that would remember more.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let pending = self.pending.as_ref().map_or(0, |pending| pending.counts.len());
        (at(self.map.slots_used()) + pending) * 10 >= at(self.slots_max) * 7
    }

    /// The slots of the pool that it stands for.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Goes through an access, if its block is watched.
    pub fn access(&mut self, access: &Access, sampled: Sampled) {
        if !self.rate.takes(sampled) {
            return;
        }
        let key = BlockKey { volume: VOLUME, block: access.block };
        match access.direction {
            Direction::Read => self.read(key, access, sampled),
            Direction::Write => self.write(key, access),
        }
    }

    fn read(&mut self, key: BlockKey, access: &Access, sampled: Sampled) {
        let slot = self.map.find(key);
        let length = access.pages.end - access.pages.start;
        let has_all = |slot| self.map.valid_run(slot, access.pages.start, length) == (true, length);
        let hits = slot.is_some_and(has_all);
        if let Some(slot) = slot.filter(|_| hits || access.passage == Passage::Counted) {
            self.policy.touched(&mut self.map, slot);
        }
        if hits {
            return;
        }
        self.tally.read_misses[sampled.group()] += self.rate.weight();
        let threshold = self.setup.populate_on_read;
        if access.passage == Passage::Counted {
            let is_hot = self.counted(key, Direction::Read) >= threshold;
            self.policy.missed(&self.map, key, if is_hot { Enters::AtOnce } else { Enters::NotYet });
            if is_hot {
                self.fill(key, slot);
            }
        }
    }

    fn write(&mut self, key: BlockKey, access: &Access) {
        let slot = self.map.find(key);
        let is_taken = match self.setup.kind {
            PoolKind::Read => {
                self.write_around(key, access, slot);
                false
            }
            PoolKind::ReadWrite => self.write_back(key, access, slot),
        };
        if !is_taken {
            self.tally.write_misses += self.rate.weight();
        }
    }

    fn write_around(&mut self, key: BlockKey, access: &Access, slot: Option<SlotIndex>) {
        if let Some(slot) = slot {
            self.map.clear_valid(slot, access.pages.clone());
            if self.map.valid_count(slot) == 0 {
                self.free_slot(slot);
            }
        }
        let threshold = self.setup.populate_on_write;
        if threshold == 0 || access.passage == Passage::Past {
            return;
        }
        let reached = self.counted(key, Direction::Write) >= threshold;
        if reached && self.map.find(key).is_none() {
            self.fill(key, None);
        }
    }

    /// Whether the SSDs take it. What is there already stays, whatever wrote it.
    fn write_back(&mut self, key: BlockKey, access: &Access, slot: Option<SlotIndex>) -> bool {
        let slot = match slot {
            Some(slot) => {
                self.policy.touched(&mut self.map, slot);
                slot
            }
            None if access.passage == Passage::Past => return false,
            None if self.counted(key, Direction::Write) < self.setup.populate_on_write => return false,
            None => self.insert(key),
        };
        self.map.set_valid(slot, access.pages.clone());
        self.tally.written_pages += f64::from(access.pages.end - access.pages.start) * self.rate.weight();
        true
    }

    /// How often the block was counted, this time included.
    fn counted(&mut self, key: BlockKey, direction: Direction) -> u8 {
        let Some(counters) = &mut self.counters else { return 1 };
        if let Some(pending) = &mut self.pending {
            pending.count(key.block, direction);
        }
        match direction {
            Direction::Read => counters.count_read(key),
            Direction::Write => counters.count_write(key),
        }
    }

    /// A block enters as a whole, in another slot than the one that it may have.
    fn fill(&mut self, key: BlockKey, before: Option<SlotIndex>) {
        if let Some(before) = before {
            self.free_slot(before);
        }
        let slot = self.insert(key);
        self.map.set_valid(slot, 0..self.map.pages_per_block());
        self.tally.filled_blocks += self.rate.weight();
    }

    fn insert(&mut self, key: BlockKey) -> SlotIndex {
        if let Some(counters) = &mut self.counters {
            counters.forget(key);
        }
        if let Some(pending) = &mut self.pending {
            pending.counts.remove(&key.block.0);
        }
        let slot = self.take_slot();
        self.map.insert(slot, key, 0);
        self.policy.inserted(&mut self.map, slot);
        slot
    }

    /// A free slot. They come to be as they are needed: what is never full takes little memory.
    fn take_slot(&mut self) -> SlotIndex {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        let there = self.map.slot_count();
        if there < self.slots_max {
            let more = there.max(8).min(self.slots_max - there);
            let first = self.map.add_slots(more);
            self.free.extend((first.0..first.0 + more).rev().map(SlotIndex));
        } else {
            let slot = self.policy.victim(&mut self.map, |_| false).expect("a full cache has a victim");
            self.policy.evicted(&mut self.map, slot);
            self.map.remove(slot);
            self.free.push(slot);
        }
        self.free.pop().expect("there is one now")
    }

    fn free_slot(&mut self, slot: SlotIndex) {
        self.policy.removed(&mut self.map, slot);
        self.map.remove(slot);
        self.free.push(slot);
    }

    /// What the pool would have done, of all accesses, sampled or not.
    pub fn outcome(&self, accesses: Accesses) -> Outcome {
        let tally = self.tally();
        Outcome {
            accesses,
            read_misses: ratio(tally.reads_missed, accesses.reads),
            read_error: tally.read_error(accesses),
            write_misses: ratio(tally.writes_missed, accesses.writes),
            ssd_written_bytes: tally.ssd_written_bytes,
        }
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let free =
            u64::try_from(self.free.capacity() * size_of::<SlotIndex>()).expect("an address has 64 bits at most");
        let counters = self.counters.as_ref().map_or(0, Counters::memory_bytes);
        let pending = self.pending.as_ref().map_or(0, Pending::memory_bytes);
        self.map.memory_bytes() + self.policy.memory_bytes() + counters + pending + free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(kind: PoolKind, populate_on_read: u8, populate_on_write: u8) -> Setup {
        let block_bytes = BlockBytes::new(64 << 10).unwrap();
        Setup { kind, block_bytes, policy: PolicyKind::Lru, populate_on_read, populate_on_write }
    }

    struct Host {
        miniature: Miniature,
        accesses: Accesses,
    }

    impl Host {
        fn new(setup: Setup, blocks: u64) -> Self {
            Self { miniature: Miniature::new(setup, blocks, Rate::ALL, Room::Ample), accesses: Accesses::default() }
        }

        /// Whether it was a miss.
        fn does(&mut self, direction: Direction, block: u32, pages: std::ops::Range<u32>, passage: Passage) -> bool {
            let before = self.miniature.tally;
            self.accesses.count(direction, passage);
            let block = BlockIndex(block);
            self.miniature.access(&Access { block, pages, direction, passage }, Sampled::new(block));
            let after = self.miniature.tally;
            (after.read_misses, after.write_misses) != (before.read_misses, before.write_misses)
        }

        fn reads(&mut self, block: u32) -> bool {
            self.does(Direction::Read, block, 3..4, Passage::Counted)
        }

        fn writes(&mut self, block: u32, page: u32) -> bool {
            self.does(Direction::Write, block, page..page + 1, Passage::Counted)
        }
    }

    // proves: A4
    #[test]
    fn a_block_enters_at_its_threshold_and_with_all_of_its_pages() {
        let mut host = Host::new(setup(PoolKind::Read, 2, 0), 10);
        assert_eq!([0; 4].map(|_| host.reads(5)), [true, true, false, false]);
        assert!(!host.does(Direction::Read, 5, 0..16, Passage::Counted));
        assert!(host.writes(6, 0) && host.writes(6, 0), "writes populate nothing here");
        assert!((host.miniature.outcome(host.accesses).ssd_written_bytes - 65_536.0).abs() < 1e-6);
    }

    // proves: A4
    #[test]
    fn a_write_takes_its_pages_out_of_a_read_pool_and_a_read_write_pool_keeps_them() {
        let mut host = Host::new(setup(PoolKind::Read, 1, 0), 10);
        host.reads(5);
        assert!(host.writes(5, 3), "it goes to the backing device");
        assert!(host.reads(5), "the page is gone");
        assert!(!host.reads(5), "the block was filled anew");
        let mut host = Host::new(setup(PoolKind::ReadWrite, 1, 1), 10);
        assert!(!host.writes(5, 3), "the SSDs take it");
        assert!(!host.reads(5), "it is there");
        assert!(host.does(Direction::Read, 5, 3..5, Passage::Counted), "its neighbour is not");
        assert!(!host.does(Direction::Read, 5, 3..5, Passage::Counted));
    }

    // proves: A3, A4
    #[test]
    fn a_read_write_pool_takes_writes_at_their_threshold_whatever_its_size_and_no_streams() {
        let mut host = Host::new(setup(PoolKind::ReadWrite, 2, 1), 2);
        assert_eq!([5, 6, 7, 8, 5].map(|block| host.writes(block, 0)), [false; 5], "none is read again");
        assert!(host.does(Direction::Write, 9, 0..16, Passage::Past));
        let mut host = Host::new(setup(PoolKind::ReadWrite, 2, 2), 2);
        assert_eq!([0; 3].map(|_| host.writes(5, 0)), [true, false, false]);
        let outcome = host.miniature.outcome(host.accesses);
        assert!((outcome.write_misses - 1.0 / 3.0).abs() < 1e-9, "{outcome:?}");
    }

    #[test]
    fn a_stream_is_served_from_what_is_there_and_leaves_nothing() {
        let mut host = Host::new(setup(PoolKind::Read, 1, 1), 10);
        host.reads(5);
        assert!(!host.does(Direction::Read, 5, 0..16, Passage::Past));
        assert!(host.does(Direction::Read, 6, 0..16, Passage::Past));
        assert!(host.does(Direction::Write, 6, 0..16, Passage::Past));
        assert!(host.reads(6));
    }

    #[test]
    fn a_miniature_that_watches_one_block_of_four_tells_what_the_whole_misses() {
        let both = [Rate::ALL, Rate::of(1, 4)].map(|rate| {
            let setup = Setup { policy: PolicyKind::S3Fifo, ..setup(PoolKind::Read, 2, 0) };
            let (mut miniature, mut accesses) = (Miniature::new(setup, 2000, rate, Room::Scarce), Accesses::default());
            let mut state = 1_u64;
            for _ in 0..300_000 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                // Popular in proportion to how small it is.
                let [a, b] = [state >> 40, (state >> 20) & 0xff_ffff].map(|bits| bits % 10_000);
                let block = BlockIndex(u32::try_from(a * b / 10_000).unwrap());
                accesses.count(Direction::Read, Passage::Counted);
                let access = Access { block, pages: 0..1, direction: Direction::Read, passage: Passage::Counted };
                miniature.access(&access, Sampled::new(block));
            }
            miniature.outcome(accesses)
        });
        let [whole, part] = both;
        assert!(whole.read_error < 1e-9 && part.read_error > 0.0);
        assert!((whole.read_misses - part.read_misses).abs() < 0.02, "{} {}", whole.read_misses, part.read_misses);
        let written = part.ssd_written_bytes / whole.ssd_written_bytes;
        assert!((0.9..1.1).contains(&written), "{written}");
    }
}
