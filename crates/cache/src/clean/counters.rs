//! Counts reads and writes of blocks that are not cached, until they are worth a slot (REQUIREMENTS D4).
//!
//! A sketch: no block has a place of its own, and none is forgotten before eight times as many others as there are slots have
//! been counted. Each count that a block has reached is a member of a Bloom filter (Bloom, CACM 1970), as a word of its
//! own: "read twice" is another word than "read once". There are two filters. The newer one takes what is counted; when as many
//! words have come to it as it is made for, the older one is emptied and takes their place. So counts age: what is not counted
//! again is forgotten, first counts first. A word that was never counted is found now and then because others set
//! its bits: its block is populated somewhat early, nothing else.

use std::ops::Range;

use crate::address::{BlockKey, at, bucket, mixed, vec_bytes};

/// Words that a filter takes for each slot: what is remembered at least.
const WORDS_PER_SLOT: usize = 8;
/// Words that a filter of a small pool takes at least, as one of 32,768 slots does: 128 KiB, or 512 where blocks are larger, are
/// not worth saving.
const WORDS_MIN: usize = 262_144;
/// A line of the processor's cache: the bits of a word lie in one.
const LINE_BITS: usize = 512;
/// Lines are made of these.
const CELL_BITS: usize = 64;
const CELLS_PER_LINE: usize = LINE_BITS / CELL_BITS;
/// Filters.
const FILTERS: usize = 2;
/// Counts go so far.
const COUNT_MAX: u8 = 4;

/// The bits of both filters for each slot of a pool that is not small. Blocks of 64 KiB leave four bytes a slot for
/// counters; larger blocks leave room for bits enough that hardly a wrong word is found.
const fn bits_per_slot(pages_per_block: u32) -> usize {
    if pages_per_block <= 16 { 32 } else { 128 }
}

/// The bytes of memory per slot of a pool that is not small.
pub(crate) fn bytes_per_slot(pages_per_block: u32) -> f64 {
    f64::from(u32::try_from(bits_per_slot(pages_per_block) / 8).expect("a slot has at most 2^32 bits of counters"))
}

/// What is known of a block that is not cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockCounts {
    pub(crate) reads: u8,
    pub(crate) writes: u8,
}

/// What is counted.
#[derive(Clone, Copy)]
enum CountedDirection {
    Read,
    Write,
}

/// The read and write counters of blocks that are not cached.
pub struct Counters {
    /// Bit sets of equal size; [`Self::newer`] says which is which.
    filters: [Vec<u64>; FILTERS],
    newer: usize,
    /// Words that the newer filter may take still.
    left: usize,
    words_max: usize,
}

impl Counters {
    /// Counters for a pool of `slots` slots.
    pub fn new(slots: u32, pages_per_block: u32) -> Self {
        Self::of((at(slots) * WORDS_PER_SLOT).max(WORDS_MIN), pages_per_block)
    }

    /// Counters for a miniature of such a pool, which is so many times smaller as `share_of` says of what it is asked, with
    /// `bits_max` bits at most.
    pub(crate) fn sampled(slots: u32, pages_per_block: u32, bits_max: usize, share_of: impl Fn(u64) -> u64) -> Self {
        let words = u64::try_from((at(slots) * WORDS_PER_SLOT).max(WORDS_MIN)).expect("an address has 64 bits at most");
        let most = bits_max / bits_per_slot(pages_per_block) * WORDS_PER_SLOT;
        let words = usize::try_from(share_of(words)).unwrap_or(most).min(most);
        Self::of(words.max(WORDS_PER_SLOT), pages_per_block)
    }

    fn of(words_max: usize, pages_per_block: u32) -> Self {
        let bits = words_max / WORDS_PER_SLOT * bits_per_slot(pages_per_block) / FILTERS;
        let cells = bits.div_ceil(LINE_BITS) * CELLS_PER_LINE;
        Self { filters: [vec![0; cells], vec![0; cells]], newer: 0, left: words_max, words_max }
    }

    /// Counts a read of `key`; answers how many there were of late, this one included: 1 to 4.
    pub fn count_read(&mut self, key: BlockKey) -> u8 {
        self.count(key, CountedDirection::Read)
    }

    /// Counts a write to `key`; answers how many there were of late, this one included: 1 to 4.
    pub fn count_write(&mut self, key: BlockKey) -> u8 {
        self.count(key, CountedDirection::Write)
    }

    /// How often `key` was read of late, and written: 0 to 3, for what comes next is counted as one more.
    pub(crate) fn counts_of(&self, key: BlockKey) -> BlockCounts {
        let count = |direction| {
            let reached = (1..COUNT_MAX).take_while(|count| self.has(Word::new(key, direction, *count)));
            u8::try_from(reached.count()).expect("COUNT_MAX fits in 8 bits")
        };
        BlockCounts { reads: count(CountedDirection::Read), writes: count(CountedDirection::Write) }
    }

    /// Starts again from nothing for `key`. A word whose bit it shares is forgotten with it.
    pub fn forget(&mut self, key: BlockKey) {
        for direction in [CountedDirection::Read, CountedDirection::Write] {
            for word in (1..COUNT_MAX).map(|count| Word::new(key, direction, count)) {
                if !self.has(word) {
                    break;
                }
                let (line, [(cell, bit), _]) = (self.line(word), word.bits());
                self.filters.iter_mut().for_each(|filter| filter[line.start + cell] &= !bit);
            }
        }
    }

    /// The cells of either filter that the word's bits are in.
    fn line(&self, word: Word) -> Range<usize> {
        let first = bucket(word.0, self.filters[0].len() / CELLS_PER_LINE) * CELLS_PER_LINE;
        first..first + CELLS_PER_LINE
    }

    fn has(&self, word: Word) -> bool {
        let line = self.line(word);
        self.filters.iter().any(|filter| word.is_in(&filter[line.clone()]))
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.filters.iter().map(vec_bytes).sum()
    }

    /// What the block has reached already is said again, so that it is remembered as long as what is new.
    fn count(&mut self, key: BlockKey, direction: CountedDirection) -> u8 {
        let mut count = 1;
        while count < COUNT_MAX && self.say(Word::new(key, direction, count)) {
            count += 1;
        }
        count
    }

    /// Puts a word into the newer filter; answers whether one of the two had it.
    fn say(&mut self, word: Word) -> bool {
        let (known, line) = (self.has(word), self.line(word));
        let cells = &mut self.filters[self.newer][line];
        if !word.is_in(cells) {
            word.put_into(cells);
            assert!(self.left > 0, "a filter takes a word more than it has room for");
            self.left -= 1;
        }
        if self.left == 0 {
            let older = 1 - self.newer;
            self.filters[older].fill(0);
            (self.newer, self.left) = (older, self.words_max);
        }
        known
    }
}

/// That a block was read or written so many times.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    fn new(key: BlockKey, direction: CountedDirection, count: u8) -> Self {
        let direction = match direction {
            CountedDirection::Read => 0,
            CountedDirection::Write => 4,
        };
        Self(mixed(key.hash() ^ u64::from(direction + count)))
    }

    /// Cell and bit, twice: the lowest eighteen bits of the word.
    fn bits(self) -> [(usize, u64); 2] {
        let bit = |from: u32| {
            let position = usize::try_from((self.0 >> from) & 511).expect("nine bits");
            (position / CELL_BITS, 1 << (position % CELL_BITS))
        };
        [bit(0), bit(9)]
    }

    fn is_in(self, line: &[u64]) -> bool {
        self.bits().iter().all(|(cell, bit)| line[*cell] & bit != 0)
    }

    fn put_into(self, line: &mut [u64]) {
        self.bits().iter().for_each(|(cell, bit)| line[*cell] |= bit);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    use crate::address::{BlockIndex, VolumeIndex};

    fn key(block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(3), block: BlockIndex(block) }
    }

    /// How many of these blocks are taken for known.
    fn known(counters: &mut Counters, blocks: std::ops::Range<u32>) -> usize {
        blocks.filter(|block| counters.count_read(key(*block)) > 1).count()
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
            assert_eq!([0; 5].map(|_| counters.count_write(key(7))), [1, 2, 3, 4, 4]);
            assert_eq!([0; 5].map(|_| counters.count_read(key(7))), [1, 2, 3, 4, 4]);
            assert_eq!(counters.count_read(key(8)), 2);
        }
    }

    // proves: D4
    #[test]
    fn eight_times_as_many_blocks_as_there_are_slots_are_remembered() {
        for (slots, pages_per_block) in [(16_384, 16), (100_000, 16), (10_000, 256)] {
            let mut counters = Counters::new(slots, pages_per_block);
            known(&mut counters, 0..8 * slots);
            for first in [0, 4 * slots, 8 * slots - 1000] {
                assert_eq!(known(&mut counters, first..first + 1000), 1000, "{slots} slots, from {first} on");
            }
        }
    }

    // proves: D4
    #[test]
    fn a_set_as_large_as_the_pool_is_worth_its_slots_when_it_is_read_again() {
        let mut counters = Counters::new(5136, 16);
        assert!(known(&mut counters, 0..4800) < 48, "what nobody read before is hardly ever taken for known");
        let filled = (0..4800).filter(|block| {
            let is_known = counters.count_read(key(*block)) > 1;
            if is_known {
                counters.forget(key(*block));
            }
            is_known
        });
        let filled = filled.count();
        assert!(filled >= 4800 * 97 / 100, "{filled}: few are forgotten with those that got their slots");
    }

    // proves: D4
    #[test]
    fn counts_age_while_other_blocks_are_counted() {
        let mut counters = Counters::new(32_768, 256);
        for _ in 0..3 {
            counters.count_read(key(1));
        }
        known(&mut counters, 1000..1000 + 8 * 32_768);
        assert_eq!(counters.count_read(key(1)), 4, "as many others are no reason to forget it");
        // Its words are in the newer filter again: what that takes has to come twice, and some share all their bits with others.
        known(&mut counters, 10_000_000..10_000_000 + 20 * 32_768);
        assert_eq!(counters.count_read(key(1)), 1);
    }

    #[test]
    fn few_blocks_are_taken_for_known_that_are_not() {
        let wrong = |slots: u32, pages_per_block, times: u32| {
            let mut counters = Counters::new(slots, pages_per_block);
            known(&mut counters, 0..times * slots);
            f64::from(u32::try_from(known(&mut counters, 2_000_000_000..2_000_010_000)).unwrap()) / 10_000.0
        };
        let figures = [
            (wrong(100_000, 16, 1), 0.02),
            (wrong(100_000, 16, 2), 0.07),
            (wrong(100_000, 16, 4), 0.20),
            (wrong(100_000, 256, 4), 0.02),
            (wrong(100_000, 256, 8), 0.06),
        ];
        println!("{figures:?}");
        assert!(figures.iter().all(|(found, most)| found <= most), "{figures:?}");
    }

    fn word_of(block: u32, is_write: bool, count: u8) -> Word {
        let direction = if is_write { CountedDirection::Write } else { CountedDirection::Read };
        Word::new(key(block), direction, count)
    }

    /// The bits by which all that is known of a block is forgotten.
    fn bits_forgotten_with(counters: &Counters, block: u32) -> Vec<(usize, u64)> {
        let words = [false, true].into_iter().flat_map(|is_write| (1..COUNT_MAX).map(move |count| (is_write, count)));
        words.map(|(is_write, count)| bits_of(counters, word_of(block, is_write, count))[0]).collect()
    }

    fn bits_of(counters: &Counters, word: Word) -> [(usize, u64); 2] {
        word.bits().map(|(cell, bit)| (counters.line(word).start + cell, bit))
    }

    proptest! {
        /// Against exact counters, of which each word is forgotten when as many have been said since as a filter takes, and with a block
        /// whatever shares a bit with it.
        #[test]
        fn no_count_is_below_what_exact_counters_remember(
            accesses in prop::collection::vec((0_u32..3000, any::<bool>(), 0_u8..100), 0..6000),
        ) {
            const WORDS: usize = 1024;
            let mut counters = Counters::of(WORDS, 16);
            let mut said: HashMap<(u32, bool, u8), usize> = HashMap::new();
            let mut clock = 0;
            for (block, is_write, percent) in accesses {
                if percent < 3 {
                    counters.forget(key(block));
                    let counts = counters.counts_of(key(block));
                    prop_assert_eq!((counts.reads, counts.writes), (0, 0), "block {} begins from nothing", block);
                    let gone = bits_forgotten_with(&counters, block);
                    said.retain(|(other, is_write, count), _| {
                        let bits = bits_of(&counters, word_of(*other, *is_write, *count));
                        *other != block && !bits.iter().any(|bit| gone.contains(bit))
                    });
                    continue;
                }
                let remembered = |count: u8| said.get(&(block, is_write, count)).is_some_and(|at| clock - at < WORDS);
                let least = 1 + (1..COUNT_MAX).take_while(|count| remembered(*count)).count();
                let count = if is_write { counters.count_write(key(block)) } else { counters.count_read(key(block)) };
                prop_assert!(usize::from(count) >= least, "{count} of block {block}, and {least} are remembered");
                for count in 1..=count.min(COUNT_MAX - 1) {
                    clock += 1;
                    said.insert((block, is_write, count), clock);
                }
            }
        }
    }
}
