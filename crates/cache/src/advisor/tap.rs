//! Accesses on their way from a volume that serves to whoever makes curves of them.
//!
//! What a request costs is this: it is counted, its block is hashed, and the hash is compared. Those of watched blocks are kept in a
//! bounded ring, which is taken from again and again on another thread. When it is full, less blocks are watched from then on, and of those
//! that are no longer watched everything in the ring is forgotten: what is taken is always a whole sample of some rate.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use crate::address::BlockIndex;
use crate::config::BlockBytes;

use super::access::{Access, Accesses, Direction, Passage};
use super::sample::{Rate, Sampled};

/// Accesses that are kept at most: 64 KiB, as long as they are not taken.
pub const KEPT_MAX: usize = 1 << 13;

/// An access in eight bytes: its block; where its pages begin, and how many more than one there are, ten bits each; the direction and
/// the passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept(u64);

const PAGE_BITS: u32 = 10;
const PAGE_MASK: u64 = (1 << PAGE_BITS) - 1;
const COUNT_SHIFT: u32 = 32 + PAGE_BITS;
const WRITE: u64 = 1 << (32 + 2 * PAGE_BITS);
const PAST: u64 = WRITE << 1;

impl Kept {
    /// Of these pages of a block, which are not none.
    pub fn new(block: BlockIndex, pages: &Range<u64>, direction: Direction, passage: Passage) -> Self {
        let write = match direction {
            Direction::Read => 0,
            Direction::Write => WRITE,
        };
        let past = match passage {
            Passage::Counted => 0,
            Passage::Past => PAST,
        };
        let fits = pages.start < pages.end && pages.end <= 1 << PAGE_BITS;
        assert!(fits, "pages {pages:?} of a block are none, or too many");
        let count = pages.end - pages.start - 1;
        Self(u64::from(block.0) | pages.start << 32 | count << COUNT_SHIFT | write | past)
    }

    fn block(self) -> BlockIndex {
        BlockIndex(crate::address::low_half(self.0))
    }

    pub fn access(self) -> Access {
        let bits = |shift: u32| u32::try_from((self.0 >> shift) & PAGE_MASK).expect("ten bits");
        let (first, count) = (bits(32), bits(COUNT_SHIFT) + 1);
        Access {
            block: self.block(),
            pages: first..first + count,
            direction: if self.0 & WRITE == 0 { Direction::Read } else { Direction::Write },
            passage: if self.0 & PAST == 0 { Passage::Counted } else { Passage::Past },
        }
    }
}

/// What is to be kept from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub block_bytes: BlockBytes,
    /// `None`: nothing.
    pub rate: Option<Rate>,
}

/// What was kept since the last time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// In blocks of so many bytes.
    pub block_bytes: BlockBytes,
    /// The part of all blocks whose accesses are here; `None`: nothing was asked for yet.
    pub rate: Option<Rate>,
    /// All there were, of whatever blocks.
    pub accesses: Accesses,
    /// Those of watched blocks, in their order.
    pub kept: Vec<Kept>,
}

/// The tap of one volume. Nothing is kept until somebody asks for it.
#[derive(Default)]
pub(crate) struct Tap {
    rate: Cell<Option<Rate>>,
    /// Pages of a block, as a power of two.
    pages_log2: Cell<u32>,
    accesses: Cell<Accesses>,
    kept: RefCell<Vec<Kept>>,
}

impl Tap {
    /// Takes note of a request for these pages, which are not none.
    pub(crate) fn note(&self, pages: &Range<u64>, direction: Direction, passage: Passage) {
        let Some(rate) = self.rate.get() else { return };
        let shift = self.pages_log2.get();
        for block in pages.start >> shift..=(pages.end - 1) >> shift {
            let mut accesses = self.accesses.get();
            accesses.count(direction, passage);
            self.accesses.set(accesses);
            // A volume with more blocks than have numbers is watched up to there.
            let Ok(number) = u32::try_from(block) else { return };
            if rate.takes(Sampled::new(BlockIndex(number))) {
                let first = block << shift;
                let within = pages.start.max(first) - first..pages.end.min(first + (1 << shift)) - first;
                self.keep(Kept::new(BlockIndex(number), &within, direction, passage));
            }
        }
    }

    fn keep(&self, access: Kept) {
        let mut kept = self.kept.borrow_mut();
        while kept.len() >= KEPT_MAX {
            let Some(rate) = self.rate.get().and_then(Rate::halved) else {
                // A single block is all that is watched.
                kept.clear();
                break;
            };
            self.rate.set(Some(rate));
            kept.retain(|kept| rate.takes(Sampled::new(kept.block())));
        }
        if self.rate.get().is_some_and(|rate| rate.takes(Sampled::new(access.block()))) {
            kept.push(access);
        }
    }

    /// The memory that it takes, in bytes.
    #[cfg(test)]
    pub(crate) fn memory_bytes(&self) -> u64 {
        crate::address::vec_bytes(&self.kept.borrow())
    }

    /// What was kept since the last time; from now on it is what is wanted, at a rate that was lowered meanwhile if that is less.
    pub(crate) fn take(&self, wanted: Wanted) -> Taken {
        let pages = 1_u32 << self.pages_log2.get();
        let block_bytes = BlockBytes::of_pages(pages).unwrap_or(wanted.block_bytes);
        let rate = self.rate.get();
        let is_same = rate.is_none() || wanted.block_bytes == block_bytes;
        self.rate.set(if is_same {
            wanted.rate.map(|wanted| rate.map_or(wanted, |now| now.min(wanted)))
        } else {
            wanted.rate
        });
        self.pages_log2.set(wanted.block_bytes.pages().trailing_zeros());
        Taken { block_bytes, rate, accesses: self.accesses.take(), kept: self.kept.take() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::refused::assert_refused;

    fn wanted(kib: u64, rate: Option<Rate>) -> Wanted {
        Wanted { block_bytes: BlockBytes::new(kib << 10).unwrap(), rate }
    }

    fn tap(kib: u64, rate: Rate) -> Tap {
        let tap = Tap::default();
        tap.take(wanted(kib, Some(rate)));
        tap
    }

    #[test]
    fn nothing_is_kept_until_somebody_asks() {
        let tap = Tap::default();
        tap.note(&(0..4), Direction::Read, Passage::Counted);
        let taken = tap.take(wanted(64, None));
        assert_eq!((taken.rate, taken.accesses, taken.kept.len()), (None, Accesses::default(), 0));
        assert_eq!(taken.block_bytes, BlockBytes::new(64 << 10).unwrap());
        tap.note(&(0..4), Direction::Read, Passage::Counted);
        assert_eq!(tap.take(wanted(64, Some(Rate::ALL))).accesses.all(), 0);
        tap.note(&(0..4), Direction::Read, Passage::Counted);
        assert_eq!(tap.take(wanted(64, Some(Rate::ALL))).accesses.all(), 1);
    }

    #[test]
    fn a_volume_with_more_blocks_than_have_numbers_is_watched_up_to_there() {
        let tap = tap(64, Rate::ALL);
        tap.note(&(1 << 40..(1 << 40) + 1), Direction::Read, Passage::Counted);
        let taken = tap.take(wanted(64, Some(Rate::ALL)));
        assert_eq!((taken.accesses.reads, taken.kept.len()), (1, 0));
    }

    #[test]
    fn blocks_of_another_size_are_told_apart() {
        let tap = tap(64, Rate::ALL);
        tap.note(&(16..17), Direction::Write, Passage::Past);
        let before = tap.take(wanted(1024, Some(Rate::ALL)));
        assert_eq!(before.block_bytes, BlockBytes::new(64 << 10).unwrap());
        assert_eq!(before.kept[0].access().block, BlockIndex(1));
        tap.note(&(16..17), Direction::Write, Passage::Past);
        let after = tap.take(wanted(1024, Some(Rate::ALL)));
        assert_eq!(after.block_bytes, BlockBytes::new(1 << 20).unwrap());
        assert_eq!(after.kept[0].access().block, BlockIndex(0));
    }

    // proves: A1
    #[test]
    fn when_the_ring_is_full_it_is_a_whole_sample_of_a_lower_rate() {
        let tap = tap(64, Rate::ALL);
        let all: Vec<u64> = (0..80_000).map(|index| (index * 7919) % 39_989).collect();
        for block in &all {
            tap.note(&(block * 16..block * 16 + 1), Direction::Read, Passage::Counted);
        }
        let taken = tap.take(wanted(64, Some(Rate::ALL)));
        let rate = taken.rate.unwrap();
        assert!(taken.kept.len() <= KEPT_MAX && rate < Rate::ALL && taken.accesses.reads == 80_000);
        let index = |block: &u64| BlockIndex(u32::try_from(*block).unwrap());
        let expected: Vec<BlockIndex> =
            all.iter().map(index).filter(|block| rate.takes(Sampled::new(*block))).collect();
        let kept: Vec<BlockIndex> = taken.kept.iter().map(|kept| kept.access().block).collect();
        assert_eq!(kept, expected);
        tap.note(&(0..16), Direction::Read, Passage::Counted);
        assert_eq!(tap.take(wanted(64, Some(Rate::ALL))).rate, Some(rate), "a rate that was lowered stays");
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_was_accessed(
            requests in prop::collection::vec((0_u64..5000, 1_u64..200, any::<bool>(), any::<bool>()), 1..60),
            mib in prop_oneof![Just(64_u64), Just(1024), Just(4096)],
        ) {
            let tap = tap(mib, Rate::ALL);
            let block_bytes = BlockBytes::new(mib << 10).unwrap();
            let mut expected = Vec::new();
            for (start, length, is_write, is_past) in requests {
                let direction = if is_write { Direction::Write } else { Direction::Read };
                let passage = if is_past { Passage::Past } else { Passage::Counted };
                tap.note(&(start..start + length), direction, passage);
                let range = hotset_block::ByteRange { start: start * 4096, end: (start + length) * 4096 };
                expected.extend(Access::of(range, block_bytes, direction, passage));
            }
            let taken = tap.take(wanted(mib, Some(Rate::ALL)));
            let kept: Vec<Access> = taken.kept.iter().map(|kept| kept.access()).collect();
            prop_assert_eq!(taken.accesses.all(), u64::try_from(expected.len()).unwrap());
            prop_assert_eq!(kept, expected);
        }
    }

    #[test]
    fn an_access_has_pages_of_one_block() {
        let keep = |pages: &Range<u64>| Kept::new(BlockIndex(0), pages, Direction::Read, Passage::Counted);
        assert_refused("pages 4..4 of a block are none", || keep(&(4..4)));
        assert_refused("pages 0..1025 of a block are none, or too many", || keep(&(0..1025)));
    }
}
