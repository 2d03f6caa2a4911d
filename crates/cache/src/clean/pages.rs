//! One bit per page of every slot: does the slot hold this page?

use std::ops::Range;

use crate::address::{SlotIndex, at, at_u64, vec_bytes};

/// The bits of all slots, packed. A block has 16 to 1,024 pages, a power of two, so a word holds whole slots or a slot
/// whole words.
pub(super) struct PageBits {
    words: Vec<u64>,
    pages_per_block: u32,
}

impl PageBits {
    pub(super) fn new(pages_per_block: u32) -> Self {
        Self { words: Vec::new(), pages_per_block }
    }

    /// Makes room for `slots` slots in all, those that are new without pages.
    pub(super) fn grow_to(&mut self, slots: u32) {
        self.reserve_for(slots);
        self.words.resize(self.words_for(slots), 0);
    }

    /// There will be so many slots in all.
    pub(super) fn reserve_for(&mut self, slots: u32) {
        self.words.reserve_exact(self.words_for(slots).saturating_sub(self.words.len()));
    }

    fn words_for(&self, slots: u32) -> usize {
        let bits = u64::from(slots) * u64::from(self.pages_per_block);
        at_u64(bits.div_ceil(64))
    }

    pub(super) fn get(&self, slot: SlotIndex, page: u32) -> bool {
        let bit = self.bit(slot, page);
        self.words[at_u64(bit / 64)] >> (bit % 64) & 1 != 0
    }

    /// Whether `from` is there, and how many pages from there on are alike, at most `max`.
    pub(super) fn run(&self, slot: SlotIndex, from: u32, max: u32) -> (bool, u32) {
        assert!(from < self.pages_per_block, "page {from} of slot {} is one of the next slot", slot.0);
        let there = self.get(slot, from);
        let max = max.min(self.pages_per_block - from);
        let first = self.bit(slot, from);
        let mut length = 0;
        while length < max {
            let bit = first + u64::from(length);
            let word = self.words[at_u64(bit / 64)];
            let alike = (if there { word } else { !word }) >> (bit % 64);
            length += alike.trailing_ones();
            if bit % 64 + u64::from(alike.trailing_ones()) < 64 {
                break;
            }
        }
        (there, length.min(max))
    }

    /// Whether some page is there that `other` does not have; `None` has none.
    pub(super) fn any_but(&self, other: Option<&Self>, slot: SlotIndex, pages: Range<u32>) -> bool {
        let others = |word: usize| other.map_or(0, |other| other.words[word]);
        self.masks(slot, pages).any(|(word, mask)| self.words[word] & mask & !others(word) != 0)
    }

    /// Adds pages; answers how many of them were not there.
    #[inline]
    pub(super) fn set(&mut self, slot: SlotIndex, pages: Range<u32>) -> u32 {
        let mut added = 0;
        for (word, mask) in self.masks(slot, pages) {
            added += (mask & !self.words[word]).count_ones();
            self.words[word] |= mask;
        }
        added
    }

    /// Takes pages away; answers how many of them were there.
    pub(super) fn clear(&mut self, slot: SlotIndex, pages: Range<u32>) -> u32 {
        let mut removed = 0;
        for (word, mask) in self.masks(slot, pages) {
            removed += (mask & self.words[word]).count_ones();
            self.words[word] &= !mask;
        }
        removed
    }

    pub(super) fn count(&self, slot: SlotIndex) -> u32 {
        self.words_of(slot).map(u64::count_ones).sum()
    }

    /// The slot's bits, 64 pages a word, the first page lowest.
    pub(super) fn words_of(&self, slot: SlotIndex) -> impl Iterator<Item = u64> {
        self.masks(slot, 0..self.pages_per_block).map(|(word, mask)| (self.words[word] & mask) >> mask.trailing_zeros())
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        vec_bytes(&self.words)
    }

    fn bit(&self, slot: SlotIndex, page: u32) -> u64 {
        u64::from(slot.0) * u64::from(self.pages_per_block) + u64::from(page)
    }

    /// The words that hold `pages`, each with a mask of the bits meant. Does not borrow `self`.
    fn masks(&self, slot: SlotIndex, pages: Range<u32>) -> impl Iterator<Item = (usize, u64)> + use<> {
        assert!(pages.start <= pages.end && pages.end <= self.pages_per_block, "pages {pages:?} of a block");
        let (first, end) = (self.bit(slot, pages.start), self.bit(slot, pages.end));
        let words = if first == end { 0..0 } else { first / 64..end.div_ceil(64) };
        words.map(move |word| {
            let low = first.saturating_sub(word * 64);
            let high = (end - word * 64).min(64);
            (at_u64(word), (!0 << low) & (!0 >> (64 - high)))
        })
    }
}

/// Pages whose checksums lie together: when there are more slots, no more than these are copied.
const PART_PAGES: u32 = 1 << 18;

/// The CRC-32C of every page of every slot. Untouched memory of it costs nothing: it comes zeroed from the system.
pub(super) struct PageChecksums {
    /// Of so many slots each, but for the last one.
    parts: Vec<Vec<u32>>,
    /// The binary logarithm of that number: a slot is found without a division.
    part_shift: u32,
    pages_per_block: u32,
}

impl PageChecksums {
    pub(super) fn new(pages_per_block: u32) -> Self {
        Self { parts: Vec::new(), part_shift: (PART_PAGES / pages_per_block).ilog2(), pages_per_block }
    }

    /// Makes room for `slots` slots in all; keeps what there is, also of slots that are free again: somebody may still
    /// read them.
    pub(super) fn grow_to(&mut self, slots: u32) {
        let (whole, pages) = (1 << self.part_shift, at(self.pages_per_block));
        let count = at(slots).div_ceil(whole);
        let length = |part: usize| (at(slots) - part * whole).min(whole) * pages;
        if let Some(last) = self.parts.len().checked_sub(1) {
            let mut grown = vec![0; length(last)];
            let touched = |sums: &[u32]| sums.iter().any(|sum| *sum != 0);
            for (new, old) in grown.chunks_mut(pages).zip(self.parts[last].chunks(pages)) {
                if touched(old) {
                    new.copy_from_slice(old);
                }
            }
            self.parts[last] = grown;
        }
        self.parts.extend((self.parts.len()..count).map(|part| vec![0; length(part)]));
    }

    pub(super) fn of(&self, slot: SlotIndex) -> &[u32] {
        let (part, place) = self.place(slot);
        &self.parts[part][place]
    }

    pub(super) fn of_mut(&mut self, slot: SlotIndex) -> &mut [u32] {
        let (part, place) = self.place(slot);
        &mut self.parts[part][place]
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        vec_bytes(&self.parts) + self.parts.iter().map(vec_bytes).sum::<u64>()
    }

    fn place(&self, slot: SlotIndex) -> (usize, Range<usize>) {
        let first = (at(slot.0) & ((1 << self.part_shift) - 1)) * at(self.pages_per_block);
        (at(slot.0) >> self.part_shift, first..first + at(self.pages_per_block))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::refused::assert_refused;

    fn naive_run(pages: &[bool], from: usize, max: usize) -> (bool, u32) {
        let alike = pages[from..].iter().take(max).take_while(|page| **page == pages[from]).count();
        (pages[from], u32::try_from(alike).unwrap())
    }

    proptest! {
        #[test]
        fn page_bits_equal_a_vector_of_booleans(
            shift in 4_u32..=10,
            steps in prop::collection::vec((0_u32..5, 0_u32..1024, 0_u32..1024, any::<bool>()), 1..60),
        ) {
            let pages = 1 << shift;
            let mut bits = PageBits::new(pages);
            bits.grow_to(3);
            bits.grow_to(5);
            let mut model = vec![vec![false; at(pages)]; 5];
            for (slot, a, b, on) in steps {
                let (start, end) = ((a % (pages + 1)).min(b % (pages + 1)), (a % (pages + 1)).max(b % (pages + 1)));
                let part = &mut model[at(slot)][at(start)..at(end)];
                let changed = u32::try_from(part.iter().filter(|page| **page != on).count()).unwrap();
                part.fill(on);
                let slot_index = SlotIndex(slot);
                let answer = if on { bits.set(slot_index, start..end) } else { bits.clear(slot_index, start..end) };
                prop_assert_eq!(answer, changed);
                for (index, pages_of) in model.iter().enumerate() {
                    let index = SlotIndex(u32::try_from(index).unwrap());
                    prop_assert_eq!(at(bits.count(index)), pages_of.iter().filter(|page| **page).count());
                    prop_assert_eq!(at(bits.words_of(index).map(u64::count_ones).sum::<u32>()), at(bits.count(index)));
                }
                let (from, max) = (a % pages, b % pages + 1);
                prop_assert_eq!(bits.run(slot_index, from, max), naive_run(&model[at(slot)], at(from), at(max)));
            }
        }
    }

    #[test]
    fn words_of_a_slot_start_with_its_first_page() {
        let mut bits = PageBits::new(16);
        bits.grow_to(8);
        bits.set(SlotIndex(5), 0..3);
        bits.set(SlotIndex(6), 0..16);
        assert_eq!(bits.words_of(SlotIndex(5)).collect::<Vec<_>>(), [7]);
        let mut wide = PageBits::new(128);
        wide.grow_to(2);
        wide.set(SlotIndex(1), 63..66);
        assert_eq!(wide.words_of(SlotIndex(1)).collect::<Vec<_>>(), [1 << 63, 3]);
    }

    #[test]
    fn growing_keeps_the_checksums() {
        let mut sums = PageChecksums::new(16);
        sums.grow_to(2);
        sums.of_mut(SlotIndex(1)).fill(7);
        sums.grow_to(3);
        assert_eq!(sums.of(SlotIndex(1)), [7; 16]);
        assert_eq!(sums.of(SlotIndex(2)), [0; 16]);
    }

    #[test]
    fn growing_over_the_end_of_a_part_keeps_the_checksums() {
        let mut sums = PageChecksums::new(1024);
        let slots = [0, 255, 256, 257, 600].map(SlotIndex);
        for (count, of) in [100, 256, 257, 600, 700].into_iter().zip(1..) {
            sums.grow_to(count);
            let there = || slots.iter().filter(|slot| slot.0 < count);
            for slot in there() {
                assert!(sums.of(*slot).iter().all(|sum| *sum < of), "of slot {} with {count} slots", slot.0);
                sums.of_mut(*slot).fill(of);
            }
            assert!(there().all(|slot| sums.of(*slot) == [of; 1024]));
        }
    }

    #[test]
    fn a_run_begins_in_its_own_slot() {
        let mut bits = PageBits::new(16);
        bits.grow_to(2);
        assert_refused("page 16 of slot 0 is one of the next slot", || bits.run(SlotIndex(0), 16, 1));
    }
}
