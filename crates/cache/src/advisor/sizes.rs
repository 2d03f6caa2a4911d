//! One setup at many sizes: a miniature for each, from which a curve is made.
//!
//! Each size watches as many blocks as give its miniature the same number of slots: small sizes all blocks, large ones few. So each is
//! as exact as its memory allows. Sizes are begun as more blocks come to be accessed: one that holds them all does what every larger one would.
//! When all of them together take more than was agreed, the smallest size is left out: a cache of a hundredth of what is accessed is the
//! least interesting.

use crate::address::at;
use crate::format::Corrupt;
use crate::format::codec::{Reader, Writer};

use super::access::{Access, Accesses};
use super::curve::Curve;
use super::figures::count_of;
use super::miniature::{Miniature, Room, Setup};
use super::sample::{Rate, Sampled};
use super::tallies::{SIZES_MAX, SizeTally, read_curve};

/// A miniature of less slots says nothing.
const SLOTS_MIN: u32 = 32;

/// A setup at many sizes.
pub struct Sizes {
    /// From the smallest to the first that holds all that was accessed.
    miniatures: Vec<Miniature>,
    /// Of all sizes, those that are not begun yet.
    rest: Vec<u64>,
    slots: u32,
    rate: Rate,
    memory_max_bytes: u64,
    accesses: Accesses,
}

impl Sizes {
    /// With about `slots` slots for each of the sizes `blocks`, in ascending order and not none, watching no more than `rate` of all
    /// blocks, in `memory_max_bytes` bytes.
    pub fn new(setup: Setup, blocks: &[u64], slots: u32, rate: Rate, memory_max_bytes: u64) -> Self {
        assert!(blocks.is_sorted(), "sizes are tried from the smallest on: {blocks:?}");
        let first = *blocks.first().expect("there is a size");
        let rest = larger_than(first, blocks);
        let accesses = Accesses::default();
        let mut sizes = Self { miniatures: Vec::new(), rest, slots, rate, memory_max_bytes, accesses };
        sizes.miniatures.push(Miniature::new(setup, first, sizes.rate_of(first), Room::Scarce).prepared_to_grow());
        sizes
    }

    fn rate_of(&self, blocks: u64) -> Rate {
        Rate::of(u64::from(self.slots), blocks).min(self.rate)
    }

    /// Takes note of an access, of a block that is watched or not.
    pub fn access(&mut self, access: &Access) {
        self.accesses.count(access.direction, access.passage);
        self.note(access);
        // Tables grow by doubling, seldom: so it is enough to look now and then.
        if self.accesses.all().is_multiple_of(256) {
            self.keep_within_memory();
        }
    }

    /// So many accesses were made, of blocks that are watched or not.
    pub(crate) fn counted(&mut self, accesses: Accesses) {
        self.accesses = self.accesses.plus(accesses);
        self.keep_within_memory();
    }

    /// Takes note of an access that was counted already.
    pub(crate) fn note(&mut self, access: &Access) {
        let sampled = Sampled::new(access.block);
        for miniature in &mut self.miniatures {
            miniature.access(access, sampled);
        }
        while self.miniatures.last().is_some_and(Miniature::is_nearly_full)
            && let Some(blocks) = self.rest.pop()
        {
            let rate = self.rate_of(blocks);
            let larger = self.miniatures.last_mut().map(|largest| largest.grown(blocks, rate, Room::Scarce));
            self.miniatures.extend(larger);
            self.drop_guesses();
            self.keep_within_memory();
        }
    }

    /// Sizes of which too little is watched are left out, but for the largest, from which larger ones are made.
    fn drop_guesses(&mut self) {
        let largest = self.miniatures.last().map(Miniature::blocks);
        let says_something = |size: &Miniature| size.rate() == Rate::ALL || size.slots() >= SLOTS_MIN;
        self.miniatures.retain(|size| says_something(size) || Some(size.blocks()) == largest);
    }

    /// No more blocks are watched than this rate takes.
    pub(crate) fn lower_to(&mut self, rate: Rate) {
        if rate >= self.rate {
            return;
        }
        self.rate = rate;
        for miniature in self.miniatures.iter_mut().filter(|miniature| miniature.rate() > rate) {
            *miniature = miniature.thinned(rate, Room::Scarce);
        }
        self.drop_guesses();
        assert!(!self.miniatures.is_empty(), "no size is left, and the largest stays always");
    }

    /// The highest rate at which any size watches.
    pub(crate) fn rate(&self) -> Rate {
        self.miniatures.iter().map(Miniature::rate).max().unwrap_or(self.rate)
    }

    /// What each size would have missed and written until now.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = SizeTally> {
        self.miniatures.iter().map(Miniature::tally)
    }

    /// From now on these sizes are tried, as far as they are larger than those that are: the volume has grown.
    pub(crate) fn grown_to(&mut self, blocks: &[u64]) {
        let largest = self.miniatures.last().map_or(0, Miniature::blocks);
        self.rest = larger_than(largest, blocks);
    }

    // ---- what outlives a restart

    pub(crate) fn encode(&self, to: &mut Writer) {
        to.u64(self.rate.bits());
        self.accesses.encode(to);
        to.u32(count_of(self.miniatures.len()));
        self.miniatures.iter().for_each(|miniature| miniature.encode(to));
    }

    /// # Errors
    /// The bytes are not what [`Self::encode`] makes of the same setup. A volume that has grown has sizes that are not in `blocks`, which
    /// are those that would be tried now.
    pub(crate) fn decode(
        from: &mut Reader<'_>,
        setup: Setup,
        blocks: &[u64],
        slots: u32,
        memory_max_bytes: u64,
    ) -> Result<Self, Corrupt> {
        let rate = Rate::of_bits(from.u64()?).ok_or_else(|| from.corrupt("a rate is not one"))?;
        let accesses = Accesses::decode(from)?;
        let count = from.u32()?;
        from.require((1..=SIZES_MAX).contains(&count), "the number of sizes is wrong")?;
        let blocks_max = blocks.last().copied().unwrap_or_default();
        let mut miniatures: Vec<Miniature> = Vec::with_capacity(at(count));
        for _ in 0..count {
            let miniature = Miniature::decode(from, setup, Room::Scarce, slots.saturating_add(1))?;
            let grows = miniatures.last().is_none_or(|before| before.blocks() < miniature.blocks());
            from.require(grows && miniature.blocks() <= blocks_max, "a size is not one that can be tried")?;
            miniatures.push(miniature);
        }
        let largest = miniatures.pop().expect("there is one").prepared_to_grow();
        let rest = larger_than(largest.blocks(), blocks);
        miniatures.push(largest);
        let mut sizes = Self { miniatures, rest, slots, rate, memory_max_bytes, accesses };
        // What is kept may be of a time when more was watched.
        sizes.drop_guesses();
        sizes.keep_within_memory();
        Ok(sizes)
    }

    fn keep_within_memory(&mut self) {
        while self.memory_bytes() > self.memory_max_bytes && self.miniatures.len() > 1 {
            self.miniatures.remove(0);
        }
    }

    pub fn accesses(&self) -> Accesses {
        self.accesses
    }

    /// Reads that miss, by size.
    pub fn curve(&self) -> Curve {
        read_curve(self.tallies(), self.accesses)
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.miniatures.iter().map(Miniature::memory_bytes).sum()
    }
}

/// The sizes of `blocks` that are larger than one of so many: the largest first.
fn larger_than(least: u64, blocks: &[u64]) -> Vec<u64> {
    blocks.iter().rev().copied().filter(|size| *size > least).collect()
}

/// Sizes for a curve: two for each doubling, from `least` to `most` blocks.
pub fn half_octaves(least: u64, most: u64) -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut size = least.max(2);
    while size < most {
        sizes.push(size);
        // The square root of two is 1.41 421.
        let between = size.saturating_mul(141_421) / 100_000;
        if between > size && between < most {
            sizes.push(between);
        }
        size = size.saturating_mul(2);
    }
    sizes.push(most.max(1));
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::BlockIndex;
    use crate::advisor::access::{Direction, Passage};
    use crate::config::{BlockBytes, PolicyKind, PoolKind};

    #[test]
    fn sizes_ascend_to_the_largest() {
        assert_eq!(half_octaves(64, 300), [64, 90, 128, 181, 256, 300]);
        assert_eq!((half_octaves(5, 5), half_octaves(9, 1)), (vec![5], vec![1]));
    }

    fn setup() -> Setup {
        Setup {
            kind: PoolKind::Read,
            block_bytes: BlockBytes::new(1 << 20).unwrap(),
            policy: PolicyKind::S3Fifo,
            populate_on_read: 2,
            populate_on_write: 0,
        }
    }

    fn read(sizes: &mut Sizes, blocks: impl Iterator<Item = u32>) {
        for block in blocks.map(BlockIndex) {
            sizes.access(&Access { block, pages: 0..1, direction: Direction::Read, passage: Passage::Counted });
        }
    }

    fn blocks_and_slots(sizes: &Sizes) -> Vec<(u64, u32)> {
        sizes.miniatures.iter().map(|size| (size.blocks(), size.slots())).collect()
    }

    // proves: A1
    #[test]
    fn at_a_low_rate_no_size_is_told_of_which_hardly_anything_is_watched() {
        let mut sizes = Sizes::new(setup(), &half_octaves(2, 1 << 20), 512, Rate::ALL, 1 << 20);
        sizes.lower_to(Rate::of(1, 64));
        read(&mut sizes, (0..20_000).chain(0..20_000));
        let known = blocks_and_slots(&sizes);
        assert!(known.len() > 5 && known.iter().all(|(_, slots)| *slots >= SLOTS_MIN), "{known:?}");
        // What is watched wholly is no guess, however small it is.
        let mut whole = Sizes::new(setup(), &half_octaves(2, 1 << 20), 512, Rate::ALL, 1 << 20);
        read(&mut whole, 0..100);
        assert_eq!(blocks_and_slots(&whole).first(), Some(&(2, 2)));
    }

    // proves: A1
    #[test]
    fn sizes_of_which_hardly_anything_is_watched_are_not_gone_on_with_after_a_restart() {
        let blocks = half_octaves(2, 1 << 20);
        let rate = Rate::of(1, 64);
        let mut sizes = Sizes::new(setup(), &blocks, 512, rate, 1 << 20);
        let of = |size: u64| Miniature::new(setup(), size, rate, Room::Scarce);
        sizes.miniatures = [2, 1024, 4096, 8192].map(of).into();
        let mut to = Writer::new();
        sizes.encode(&mut to);
        let bytes = to.into_bytes();
        let mut from = Reader::new(&bytes, "sizes");
        let again = Sizes::decode(&mut from, setup(), &blocks, 512, 1 << 20).unwrap();
        assert_eq!(blocks_and_slots(&again), [(4096, 64), (8192, 128)]);
    }

    #[test]
    fn what_takes_too_much_memory_loses_its_smallest_sizes() {
        let blocks = half_octaves(64, 1 << 20);
        let mut sizes = Sizes::new(setup(), &blocks, 512, Rate::ALL, 700 << 10);
        read(&mut sizes, (0..300_000).chain(0..300_000));
        assert!(sizes.memory_bytes() <= 700 << 10, "{}", sizes.memory_bytes());
        let curve = sizes.curve();
        let [first, last] = [curve.points().first(), curve.points().last()].map(|point| point.expect("it has points"));
        assert!((512..4096).contains(&first.blocks), "{first:?}");
        assert!((300_000..=600_000).contains(&last.blocks), "{last:?}");
        assert!(last.misses > 0.8, "each block was read twice, and hardly any enters before: {last:?}");
    }
}
