//! Addresses within a pool: of slots, SSDs, volumes and cache blocks; and how they become indices of tables in memory.

use std::ops::Range;

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

/// In place of an attachment id: what is still on its way under it is of nobody. Ids begin at 1.
pub(crate) const DETACHED: u64 = 0;

/// The bytes of a request for these pages of a volume.
pub(crate) fn bytes_of(pages: &Range<u64>) -> usize {
    usize::try_from((pages.end - pages.start) * PAGE).expect("a request fits in memory")
}
