//! Pages that are held, each by one at a time.
//!
//! A bit for each page: they lie in words of 64, and words of which a page is held in a small open-addressing table. Most
//! ranges are short and lie within one word: holding one costs a look at one cell, however many others are held.

use std::ops::Range;

use crate::address::{bucket, touch};

/// Pages of a word.
const WORD_PAGES: u64 = 64;
/// Longer ranges (16 MiB) are kept as they are: few are so long, and they may be as long as a volume.
const SHORT_PAGES_MAX: u64 = 64 * WORD_PAGES;
const CELLS_MIN: usize = 64;
const NOT_HELD: &str = "only what is held is released";

/// In an empty cell: above the words of every volume.
const NO_WORD: u64 = u64::MAX;

#[derive(Default)]
pub(super) struct HeldPages {
    /// A power of two; linear probing, at most half in use. Words of which nothing is held any more stay until there is no
    /// room: what was put behind them is found past them.
    cells: Vec<Cell>,
    /// Cells that are not empty.
    used: usize,
    long: Vec<Range<u64>>,
}

#[derive(Clone, Copy)]
struct Cell {
    word: u64,
    /// A bit for each of its pages.
    held: u64,
}

impl HeldPages {
    /// Holds `pages`, which are not empty; false, and nothing changes: some of them are held.
    pub(super) fn hold(&mut self, pages: &Range<u64>) -> bool {
        if let Some((word, bits)) = within_one_word(pages).filter(|_| self.long.is_empty()) {
            return self.hold_in(word, bits);
        }
        if self.is_any_held(pages) {
            return false;
        }
        if is_long(pages) {
            self.long.push(pages.clone());
            return true;
        }
        let held = words(pages).all(|(word, bits)| self.hold_in(word, bits));
        assert!(held, "pages {pages:?} were free, and some of them are held");
        true
    }

    /// # Panics
    /// If `pages` is not what is held.
    pub(super) fn release(&mut self, pages: &Range<u64>) {
        if let Some((word, bits)) = within_one_word(pages) {
            return self.release_in(word, bits);
        }
        if is_long(pages) {
            let place = self.long.iter().position(|held| held == pages).expect(NOT_HELD);
            self.long.swap_remove(place);
            return;
        }
        words(pages).for_each(|(word, bits)| self.release_in(word, bits));
    }

    /// What of `pages`, which are few, is held, in pieces.
    pub(super) fn within(&self, pages: &Range<u64>) -> Vec<Range<u64>> {
        let common = |held: &Range<u64>| held.start.max(pages.start)..held.end.min(pages.end);
        let mut found: Vec<_> = self.long.iter().filter(|held| touch(held, pages)).map(common).collect();
        for (word, bits) in words(pages) {
            let mut left = self.held_of(word) & bits;
            while left != 0 {
                let first = left.trailing_zeros();
                let count = (left >> first).trailing_ones();
                left &= !(ones(count) << first);
                let start = word * WORD_PAGES + u64::from(first);
                found.push(start..start + u64::from(count));
            }
        }
        found
    }

    fn is_any_held(&self, pages: &Range<u64>) -> bool {
        if self.long.iter().any(|held| touch(held, pages)) {
            return true;
        }
        if is_long(pages) {
            return self.cells.iter().any(|cell| cell.held != 0 && cell.held & bits_of(cell.word, pages) != 0);
        }
        words(pages).any(|(word, bits)| self.held_of(word) & bits != 0)
    }

    fn held_of(&self, word: u64) -> u64 {
        if self.cells.is_empty() { 0 } else { self.cells[self.place_of(word)].held }
    }

    /// The word's cell, or the empty one that it would get.
    fn place_of(&self, word: u64) -> usize {
        let mut place = self.home(word);
        while ![word, NO_WORD].contains(&self.cells[place].word) {
            place = (place + 1) & (self.cells.len() - 1);
        }
        place
    }

    /// Holds these pages of a word; false: some of them are held.
    fn hold_in(&mut self, word: u64, pages: u64) -> bool {
        if 2 * self.used >= self.cells.len() {
            self.make_room();
        }
        let place = self.place_of(word);
        let cell = &mut self.cells[place];
        self.used += usize::from(cell.word == NO_WORD);
        cell.word = word;
        let free = cell.held & pages == 0;
        cell.held |= if free { pages } else { 0 };
        free
    }

    fn release_in(&mut self, word: u64, pages: u64) {
        let place = self.place_of(word);
        let cell = &mut self.cells[place];
        assert!(cell.word == word && cell.held & pages == pages, "{NOT_HELD}");
        cell.held &= !pages;
    }

    /// Forgets words of which nothing is held; the table is twice as long if most are.
    fn make_room(&mut self) {
        let in_use = self.cells.iter().filter(|cell| cell.held != 0).count();
        let length = (4 * in_use).next_power_of_two().max(CELLS_MIN);
        let before = std::mem::replace(&mut self.cells, vec![Cell { word: NO_WORD, held: 0 }; length]);
        self.used = 0;
        for cell in before.into_iter().filter(|cell| cell.held != 0) {
            let held = self.hold_in(cell.word, cell.held);
            assert!(held, "word {} is held twice in a table that grows", cell.word);
        }
    }

    /// Fibonacci hashing (Knuth, The Art of Computer Programming, volume 3, section 6.4).
    fn home(&self, word: u64) -> usize {
        bucket(word.wrapping_mul(0x9e37_79b9_7f4a_7c15), self.cells.len())
    }
}

fn is_long(pages: &Range<u64>) -> bool {
    pages.end - pages.start > SHORT_PAGES_MAX
}

/// The word in which all of a range lies, and the bits of its pages.
fn within_one_word(pages: &Range<u64>) -> Option<(u64, u64)> {
    let (word, place, count) = (pages.start / WORD_PAGES, pages.start % WORD_PAGES, pages.end - pages.start);
    (place + count <= WORD_PAGES).then(|| (word, ones(u32::try_from(count).expect("64 at most")) << place))
}

/// A bit for each word that a range touches, of 64 words that come round again and again: ranges that have no bit in common
/// do not touch.
pub(super) fn words_in_short(pages: &Range<u64>) -> u64 {
    let (first, last) = (pages.start / WORD_PAGES, (pages.end - 1) / WORD_PAGES);
    let count = u32::try_from(last - first + 1).unwrap_or(u32::MAX);
    ones(count).rotate_left(u32::try_from(first % 64).expect("below 64"))
}

/// The words that a range touches, each with the bits of its pages.
fn words(pages: &Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let pages = pages.clone();
    (pages.start / WORD_PAGES..pages.end.div_ceil(WORD_PAGES)).map(move |word| (word, bits_of(word, &pages)))
}

/// The bits of a range's pages in a word.
fn bits_of(word: u64, pages: &Range<u64>) -> u64 {
    let first = word * WORD_PAGES;
    let place = |page: u64| u32::try_from(page.clamp(first, first + WORD_PAGES) - first).expect("64 at most");
    ones(place(pages.end)) & !ones(place(pages.start))
}

/// The lowest `count` bits; all, if there are no more.
fn ones(count: u32) -> u64 {
    1_u64.checked_shl(count).map_or(u64::MAX, |power| power - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Of more words than there are bits.
    const PAGES: u64 = 70 * WORD_PAGES;

    proptest! {
        #[test]
        fn ranges_that_touch_have_a_word_in_common(
            start in 0..PAGES, length in 1..=PAGES, other in 0..PAGES, other_length in 1_u64..=100,
        ) {
            let (one, other) = (start..start + length, other..other + other_length);
            prop_assert!(!touch(&one, &other) || words_in_short(&one) & words_in_short(&other) != 0);
        }
    }

    #[test]
    fn few_words_leave_most_others_alone() {
        assert_eq!(words_in_short(&(60..70)).count_ones(), 2);
        assert_eq!(words_in_short(&(64 * 64..64 * 64 + 1)), words_in_short(&(0..1)), "they come round again");
        assert_eq!(words_in_short(&(0..1 << 46)), u64::MAX);
    }
}
