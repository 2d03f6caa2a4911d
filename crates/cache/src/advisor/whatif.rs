//! Several pools at once, over the same requests: what each would have done.
//!
//! How many blocks are watched for each is planned from what a look over all requests found ([`Footprint`]): as many as the time allows, and
//! never so few that the answer would be a guess.

use hotset_block::ByteRange;

use crate::config::BlockBytes;

use super::access::{Access, Accesses, Direction, Passage};
use super::miniature::{Miniature, Outcome, Room, Setup};
use super::reuse::ReuseDistances;
use super::sample::{Rate, Sampled};

/// Blocks that are watched at least, of those that are accessed.
const WATCHED_BLOCKS_MIN: u64 = 8192;
/// Slots that a miniature has at least.
const SLOTS_MIN: u64 = 1024;
/// Slots that all miniatures have together at most, and so each: memory is bounded, whatever is asked.
pub const SLOTS_MAX: u64 = 1 << 24;
/// Blocks that the look over all requests watches for each block size.
const FOOTPRINT_BLOCKS: u32 = 4096;

/// A pool to be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    pub setup: Setup,
    /// What it caches: rounded down to whole blocks, at least one.
    pub size_bytes: u64,
}

impl Case {
    fn blocks(&self) -> u64 {
        super::curve::blocks_in(self.size_bytes, self.setup.block_bytes)
    }
}

/// How much there is to go through, for one block size.
pub struct Footprint {
    block_bytes: BlockBytes,
    reuse: ReuseDistances,
}

impl Footprint {
    pub fn new(block_bytes: BlockBytes) -> Self {
        Self { block_bytes, reuse: ReuseDistances::new(FOOTPRINT_BLOCKS, Rate::ALL) }
    }

    /// Takes note of a request.
    pub fn request(&mut self, range: ByteRange, direction: Direction) {
        Access::of(range, self.block_bytes, direction, Passage::Counted).for_each(|access| self.reuse.access(&access));
    }

    pub fn block_bytes(&self) -> BlockBytes {
        self.block_bytes
    }

    pub fn accesses(&self) -> Accesses {
        self.reuse.accesses()
    }

    /// What was accessed at all, each block once, about.
    pub fn bytes(&self) -> u64 {
        self.reuse.footprint_blocks().saturating_mul(self.block_bytes.get())
    }

    /// Of all reads, those that LRU would miss that takes everything: 0 to 1.
    pub fn lru_misses(&self, size_bytes: u64) -> f64 {
        let blocks = super::curve::blocks_in(size_bytes, self.block_bytes);
        self.reuse.curve(&[blocks]).at(blocks).map_or(1.0, |point| point.misses)
    }

    /// How many slots a case would use of which `accesses_max` accesses may be gone through, if it has them.
    pub fn slots(&self, case: &Case, accesses_max: u64) -> u64 {
        self.rate(case, accesses_max, SLOTS_MAX).share_of(self.used_blocks(case))
    }

    /// More than what is accessed fills no cache.
    fn used_blocks(&self, case: &Case) -> u64 {
        case.blocks().min(self.reuse.footprint_blocks())
    }

    /// How many blocks to watch for a case of which `accesses_max` accesses may be gone through, and which may use `slots_max` slots.
    fn rate(&self, case: &Case, accesses_max: u64, slots_max: u64) -> Rate {
        let in_time = Rate::of(accesses_max, self.accesses().all());
        let enough_blocks = Rate::of(WATCHED_BLOCKS_MIN, self.reuse.footprint_blocks());
        let enough_slots = Rate::of(SLOTS_MIN, case.blocks());
        let in_memory = Rate::of(SLOTS_MAX, case.blocks()).min(Rate::of(slots_max, self.used_blocks(case)));
        in_time.max(enough_blocks).max(enough_slots).min(in_memory)
    }
}

/// How many slots each case may use, so that cases that would use these have no more than [`SLOTS_MAX`] together: those that need less leave what
/// they do not use to the others.
pub fn slots_each(mut used: Vec<u64>) -> u64 {
    used.sort_unstable();
    let mut left = SLOTS_MAX;
    for (slots, cases) in used.iter().zip((1..=used.len()).rev()) {
        let each = left / u64::try_from(cases).expect("they are in memory");
        if *slots > each {
            return each;
        }
        left -= slots;
    }
    SLOTS_MAX
}

/// Pools that are tried together.
pub struct WhatIf {
    block_bytes: BlockBytes,
    accesses: Accesses,
    miniatures: Vec<Miniature>,
}

impl WhatIf {
    /// Tries `cases` over what `footprint` looked at, which has their block size, going through about `accesses_max` accesses for each, of which each
    /// may use `slots_max` slots.
    pub fn new(cases: &[Case], footprint: &Footprint, accesses_max: u64, slots_max: u64) -> Self {
        let miniature = |case: &Case| {
            assert!(case.setup.block_bytes == footprint.block_bytes, "a footprint is of one block size");
            Miniature::new(case.setup, case.blocks(), footprint.rate(case, accesses_max, slots_max), Room::Ample)
        };
        let miniatures = cases.iter().map(miniature).collect();
        Self { block_bytes: footprint.block_bytes, accesses: Accesses::default(), miniatures }
    }

    /// Goes through a request.
    pub fn request(&mut self, range: ByteRange, direction: Direction, passage: Passage) {
        for access in Access::of(range, self.block_bytes, direction, passage) {
            self.accesses.count(direction, passage);
            let sampled = Sampled::new(access.block);
            for miniature in &mut self.miniatures {
                miniature.access(&access, sampled);
            }
        }
    }

    /// What each case would have done, in their order, and the part of all blocks that was watched for it.
    pub fn outcomes(&self) -> impl Iterator<Item = (Outcome, Rate)> {
        self.miniatures.iter().map(|miniature| (miniature.outcome(self.accesses), miniature.rate()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PolicyKind, PoolKind};

    #[test]
    fn all_cases_together_have_no_more_slots_than_memory_allows() {
        assert_eq!(slots_each(vec![]), SLOTS_MAX);
        assert_eq!(slots_each(vec![SLOTS_MAX]), SLOTS_MAX);
        assert_eq!(slots_each(vec![SLOTS_MAX; 4]), SLOTS_MAX / 4);
        assert_eq!(
            slots_each(vec![SLOTS_MAX, 0, SLOTS_MAX / 4]),
            SLOTS_MAX * 3 / 4,
            "what one leaves, another one has"
        );
        for used in [vec![SLOTS_MAX; 1024], vec![SLOTS_MAX / 100; 1000], (0..1024).map(|case| case << 14).collect()] {
            let each = slots_each(used.clone());
            assert!(
                used.iter().map(|slots| (*slots).min(each)).sum::<u64>() <= SLOTS_MAX && each >= SLOTS_MIN,
                "{each}"
            );
        }
    }

    #[test]
    fn a_case_that_may_use_fewer_slots_watches_fewer_blocks() {
        let block_bytes = BlockBytes::new(64 << 10).unwrap();
        let mut footprint = Footprint::new(block_bytes);
        (0..100_000).for_each(|block| footprint.request(ByteRange::at(block << 16, 4096), Direction::Read));
        let setup = Setup {
            kind: PoolKind::Read,
            block_bytes,
            policy: PolicyKind::Lru,
            populate_on_read: 1,
            populate_on_write: 0,
        };
        let case = Case { setup, size_bytes: 50_000 << 16 };
        assert_eq!(footprint.slots(&case, u64::MAX), 50_000);
        let part = |slots_max| footprint.rate(&case, u64::MAX, slots_max).part();
        assert!(part(SLOTS_MAX) == 1.0 && part(50_000) == 1.0 && (part(5000) - 0.1).abs() < 0.01);
    }
}
