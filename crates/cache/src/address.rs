//! Addresses within a pool: of slots, SSDs, volumes and cache blocks; and how they become indices of tables in memory.

use std::ops::Range;

use hotset_block::ByteRange;

use crate::config::PAGE;

/// A slot, counted over all SSDs of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlotIndex(pub u32);

/// An SSD among those of the pool, in the order in which it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SsdIndex(pub(crate) u16);

/// A volume among those attached to the pool; below `limits::VOLUMES_MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeIndex(pub u16);

/// A cache block of a volume: its offset divided by the pool's block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockIndex(pub u32);

/// A cache block anywhere in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockKey {
    pub volume: VolumeIndex,
    pub block: BlockIndex,
}

impl BlockKey {
    /// 64 well mixed bits (the finalizer of SplitMix64, Steele et al., OOPSLA'14). Tables take disjoint bits of it.
    pub(crate) fn hash(self) -> u64 {
        mixed((u64::from(self.volume.0) << 32) | u64::from(self.block.0))
    }
}

/// All of its bits depend on all bits of `key`.
pub(crate) fn mixed(key: u64) -> u64 {
    let mut mixed = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// How the pages of volumes make the cache blocks of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// A power of two from 16 to 1,024.
    pub(crate) pages_per_block: u32,
}

impl Blocks {
    /// Of one block.
    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.pages_per_block) * PAGE
    }

    /// The first page of a block in its volume.
    pub(crate) fn first_page(self, block: BlockIndex) -> u64 {
        u64::from(block.0) << self.page_bits()
    }

    /// Of a page's number, those that say where it is in its block. The others say which block: a shift, because a division is a
    /// noticeable part of a hit.
    fn page_bits(self) -> u32 {
        self.pages_per_block.trailing_zeros()
    }

    /// Splits pages of a volume into blocks: the block, and the pages within it.
    pub(crate) fn of(self, pages: Range<u64>) -> impl Iterator<Item = (BlockIndex, Range<u32>)> {
        let per_block = u64::from(self.pages_per_block);
        let bits = self.page_bits();
        let blocks = pages.start >> bits..(pages.end + per_block - 1) >> bits;
        blocks.map(move |block| {
            let first = block << bits;
            let start = pages.start.max(first) - first;
            let end = pages.end.min(first + per_block) - first;
            let small = |page: u64| u32::try_from(page).expect("a block has at most 1024 pages");
            (BlockIndex(u32::try_from(block).expect("volumes are checked at attach")), small(start)..small(end))
        })
    }

    /// The one block that has all of these pages, which are not none.
    pub(crate) fn one_of(self, pages: &Range<u64>) -> Option<BlockIndex> {
        let block = pages.start >> self.page_bits();
        let is_one = block == (pages.end - 1) >> self.page_bits();
        is_one.then(|| BlockIndex(u32::try_from(block).expect("volumes are checked at attach")))
    }

    /// The pages' places in their block; they are all in one.
    pub(crate) fn within(self, pages: &Range<u64>) -> Range<u32> {
        let first = pages.start >> self.page_bits() << self.page_bits();
        let end = first + u64::from(self.pages_per_block);
        assert!(pages.end <= end, "pages {pages:?} are of more blocks than the one that ends at {end}");
        let small = |page: u64| u32::try_from(page - first).expect("a block has at most 1024 pages");
        small(pages.start)..small(pages.end)
    }
}

/// The pages that a byte range touches.
pub(crate) fn pages_of(range: ByteRange) -> Range<u64> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

/// An index into a table in memory.
pub(crate) fn at(index: u32) -> usize {
    usize::try_from(index).expect("a usize has 32 bits at least")
}

/// An index into a table in memory.
pub(crate) fn at_u64(index: u64) -> usize {
    usize::try_from(index).expect("what lies in memory has an address")
}

/// The number of bytes that a vector holds in memory, used or not.
pub(crate) fn vec_bytes<T>(items: &Vec<T>) -> u64 {
    let bytes = items.capacity() * size_of::<T>();
    u64::try_from(bytes).expect("an address has 64 bits at most")
}

/// The lower half of `bits`.
pub(crate) fn low_half(bits: u64) -> u32 {
    u32::try_from(bits & 0xffff_ffff).expect("32 bits are left")
}

/// Maps the upper half of `hash` evenly onto `0 .. buckets`, in order (Lemire's multiply-and-shift).
pub(crate) fn bucket(hash: u64, buckets: usize) -> usize {
    let buckets = u64::try_from(buckets).expect("an address has 64 bits at most");
    at_u64(((hash >> 32) * buckets) >> 32)
}

/// The bytes of a request for these pages of a volume.
pub(crate) fn bytes_of(pages: &Range<u64>) -> usize {
    usize::try_from((pages.end - pages.start) * PAGE).expect("a request fits in memory")
}

/// Whether some pages are in both.
pub(crate) fn touch(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Where the bytes of some pages are among those of others.
pub(crate) fn bytes_within(wide: &Range<u64>, pages: &Range<u64>) -> Range<usize> {
    let is_within = wide.start <= pages.start && pages.end <= wide.end;
    assert!(is_within, "pages {pages:?} are looked for among {wide:?}");
    let start = bytes_of(&(wide.start..pages.start));
    start..start + bytes_of(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn pages_are_split_at_the_ends_of_blocks() {
        let blocks = Blocks { pages_per_block: 16 };
        let split: Vec<_> = blocks.of(14..49).map(|(block, pages)| (block.0, pages)).collect();
        assert_eq!(split, [(0, 14..16), (1, 0..16), (2, 0..16), (3, 0..1)]);
        assert_eq!((blocks.one_of(&(16..32)), blocks.one_of(&(16..33))), (Some(BlockIndex(1)), None));
        assert_eq!((blocks.within(&(17..32)), blocks.first_page(BlockIndex(3)), blocks.bytes()), (1..16, 48, 65_536));
    }

    #[test]
    fn a_range_touches_the_pages_that_have_a_byte_of_it() {
        assert_eq!(pages_of(ByteRange { start: 4095, end: 8193 }), 0..3);
        assert_eq!(pages_of(ByteRange { start: 4096, end: 8192 }), 1..2);
    }

    #[test]
    fn pages_of_two_blocks_have_no_places_in_one() {
        let blocks = Blocks { pages_per_block: 16 };
        assert_refused("pages 15..17 are of more blocks than the one that ends at 16", || blocks.within(&(15..17)));
        assert_refused("pages 3..5 are looked for among 4..9", || bytes_within(&(4..9), &(3..5)));
    }
}
