//! Counts reads and writes of blocks that are not cached, until they are worth a slot (REQUIREMENTS D4).
//!
//! Bounded: the blocks counted first are forgotten first. Ageing: every counter is halved once per 64 counts per place
//! of the table; a hand goes round and halves one set at a time, from the time when the first counts are that old. A wrong match of two blocks' tags (at worst 1 in 250
//! for a new block, in large pools of 64 KiB blocks) populates a block somewhat early, nothing else.

use crate::address::{BlockKey, at, low_half};
use crate::clean::sets::{Set, Sets};

/// Counters never have fewer places than this, unless 4 per slot are fewer.
const PLACES_MIN: usize = 4096;
/// Places per slot at most (DESIGN §4).
const PLACES_PER_SLOT_MAX: usize = 4;
/// Places of a set: one or half a cache line.
const WAYS: usize = 16;
/// Counts after which one set is halved: 64 per place of a set.
const COUNTS_PER_AGEING: u64 = 64 * 16;

/// The low bits of an entry: two counters of two bits. Above them is the block's tag.
const COUNT_BITS: u32 = 4;
const COUNTS_MASK: u32 = (1 << COUNT_BITS) - 1;
const COUNT_MAX: u32 = 3;
/// The counters' lower bits: what is left of the upper ones when both are halved.
const HALVES_MASK: u32 = 0b0101;

/// The bytes of memory per slot of a pool that is not small.
pub(crate) fn bytes_per_slot(pages_per_block: u32) -> f64 {
    if is_narrow(pages_per_block) { 1.0 } else { 16.0 }
}

/// Blocks of 64 KiB leave a byte per slot for counters; larger blocks leave room for all that may ever be useful.
fn is_narrow(pages_per_block: u32) -> bool {
    pages_per_block <= 16
}

/// Where an entry keeps which counter.
#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

impl Direction {
    fn shift(self) -> u32 {
        match self {
            Self::Read => 0,
            Self::Write => 2,
        }
    }
}

enum Table {
    /// Entries with tags of 28 bits.
    Wide(Sets<u32>),
    /// Entries with tags of 12 bits.
    Narrow(Sets<u16>),
}

/// The read and write counters of blocks that are not cached.
pub struct Counters {
    table: Table,
    counts_until_ageing: u64,
    /// The set that is halved next.
    hand: usize,
}

impl Counters {
    /// Counters for a pool of `slots` slots.
    pub fn new(slots: u32, pages_per_block: u32) -> Self {
        let places_max = (at(slots) * PLACES_PER_SLOT_MAX).max(1);
        let table = if !is_narrow(pages_per_block) {
            Table::Wide(Sets::new(places_max, WAYS))
        } else if at(slots) <= 4 * PLACES_MIN {
            Table::Wide(Sets::new(places_max.min(PLACES_MIN), WAYS))
        } else {
            Table::Narrow(Sets::new(at(slots) / 2, WAYS))
        };
        let mut counters = Self { table, counts_until_ageing: 0, hand: 0 };
        counters.counts_until_ageing =
            COUNTS_PER_AGEING * u64::try_from(counters.set_count()).expect("an address has 64 bits at most");
        counters
    }

    /// Counts a read of `key`; answers how many there were of late, this one included: 1 to 4.
    pub fn count_read(&mut self, key: BlockKey) -> u8 {
        self.count(key, Direction::Read)
    }

    /// Counts a write to `key`; answers how many there were of late, this one included: 1 to 4.
    pub fn count_write(&mut self, key: BlockKey) -> u8 {
        self.count(key, Direction::Write)
    }

    /// Starts again from nothing for `key`.
    pub fn forget(&mut self, key: BlockKey) {
        match &mut self.table {
            Table::Wide(sets) => forget(&mut sets.set_of(key.hash()), key.hash()),
            Table::Narrow(sets) => forget(&mut sets.set_of(key.hash()), key.hash()),
        }
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match &self.table {
            Table::Wide(sets) => sets.memory_bytes(),
            Table::Narrow(sets) => sets.memory_bytes(),
        }
    }

    fn count(&mut self, key: BlockKey, direction: Direction) -> u8 {
        self.counts_until_ageing -= 1;
        if self.counts_until_ageing == 0 {
            self.counts_until_ageing = COUNTS_PER_AGEING;
            self.age();
        }
        match &mut self.table {
            Table::Wide(sets) => count(&mut sets.set_of(key.hash()), key.hash(), direction),
            Table::Narrow(sets) => count(&mut sets.set_of(key.hash()), key.hash(), direction),
        }
    }

    fn age(&mut self) {
        match &mut self.table {
            Table::Wide(sets) => sets.set_at(self.hand).rewrite(halved),
            Table::Narrow(sets) => sets.set_at(self.hand).rewrite(halved),
        }
        self.hand = (self.hand + 1) % self.set_count();
    }

    fn set_count(&self) -> usize {
        match &self.table {
            Table::Wide(sets) => sets.set_count(),
            Table::Narrow(sets) => sets.set_count(),
        }
    }
}

/// An entry of a table: `u32` or `u16`. Never 0 but for an empty place, because a counter of it is not.
trait Entry: Copy + Default + PartialEq + Into<u32> {
    /// The bits of the tag in an entry.
    const TAG_MASK: u32;

    fn from_bits(bits: u32) -> Self;
}

impl Entry for u32 {
    const TAG_MASK: u32 = !COUNTS_MASK;

    fn from_bits(bits: u32) -> Self {
        bits
    }
}

impl Entry for u16 {
    const TAG_MASK: u32 = 0xffff & !COUNTS_MASK;

    fn from_bits(bits: u32) -> Self {
        u16::try_from(bits).expect("an entry has 16 bits")
    }
}

fn position<T: Entry>(set: &Set<'_, T>, hash: u64) -> Option<usize> {
    let tag = low_half(hash) & T::TAG_MASK;
    set.position(|entry| entry.into() & T::TAG_MASK == tag)
}

fn count<T: Entry>(set: &mut Set<'_, T>, hash: u64, direction: Direction) -> u8 {
    let one = 1 << direction.shift();
    let Some(way) = position(set, hash) else {
        set.push(T::from_bits((low_half(hash) & T::TAG_MASK) | one));
        return 1;
    };
    let entry = set.get_mut(way);
    let bits: u32 = (*entry).into();
    let before = (bits >> direction.shift()) & COUNT_MAX;
    if before < COUNT_MAX {
        *entry = T::from_bits(bits + one);
    }
    u8::try_from(before + 1).expect("at most 4")
}

fn forget<T: Entry>(set: &mut Set<'_, T>, hash: u64) {
    if let Some(way) = position(set, hash) {
        set.remove(way);
    }
}

fn halved<T: Entry>(entry: T) -> T {
    let bits: u32 = entry.into();
    let counts = ((bits & COUNTS_MASK) >> 1) & HALVES_MASK;
    if counts == 0 { T::default() } else { T::from_bits((bits & T::TAG_MASK) | counts) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{BlockIndex, VolumeIndex};

    fn key(block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(3), block: BlockIndex(block) }
    }

    // proves: D4
    #[test]
    fn reads_and_writes_are_counted_apart_up_to_four_until_forgotten() {
        for pages_per_block in [16, 256] {
            let mut counters = Counters::new(100_000, pages_per_block);
            assert_eq!([0; 6].map(|_| counters.count_read(key(7))), [1, 2, 3, 4, 4, 4]);
            assert_eq!([0; 5].map(|_| counters.count_write(key(7))), [1, 2, 3, 4, 4]);
            assert_eq!(counters.count_read(key(8)), 1);
            counters.forget(key(7));
            assert_eq!((counters.count_write(key(7)), counters.count_read(key(7))), (1, 1));
            assert_eq!(counters.count_read(key(8)), 2);
        }
    }

    #[test]
    fn a_thousand_blocks_in_a_small_pool_are_counted_without_error() {
        let mut counters = Counters::new(1024, 16);
        assert!((0..1000).all(|block| counters.count_read(key(block)) == 1));
        assert!((0..1000).all(|block| counters.count_read(key(block)) == 2));
    }

    #[test]
    fn the_blocks_counted_first_are_forgotten_first() {
        let mut counters = Counters::new(16_384, 16);
        for block in 0..40_960 {
            counters.count_read(key(block));
        }
        let remembered = |counters: &mut Counters, blocks: std::ops::Range<u32>| {
            blocks.filter(|block| counters.count_read(key(*block)) > 1).count()
        };
        assert!(remembered(&mut counters, 40_900..40_960) >= 58);
        assert_eq!(remembered(&mut counters, 0..1000), 0);
    }

    // proves: D4
    #[test]
    fn counts_age_while_other_blocks_are_counted() {
        let mut counters = Counters::new(1024, 16);
        for _ in 0..3 {
            counters.count_read(key(1));
        }
        for _ in 0..2 * 64 * 4096 {
            counters.count_read(key(2));
        }
        assert_eq!(counters.count_read(key(1)), 2, "3 was halved to 1");
        for _ in 0..2 * 64 * 4096 {
            counters.count_read(key(2));
        }
        assert_eq!(counters.count_read(key(1)), 1, "halved to nothing");
    }
}
