//! A set of pages of one cache block.

use std::ops::Range;

/// Pages of the largest block.
const PAGES_MAX: u32 = 1024;
const WORDS: usize = 16;
const _: () = assert!(PAGES_MAX == 64 * 16 && WORDS == 16);

/// Up to 1,024 pages, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct PageSet {
    words: [u64; WORDS],
}

/// The bits of `word` (its index) that belong to `pages`.
fn bits(word: usize, pages: &Range<u32>) -> u64 {
    let first = u32::try_from(word).expect("16 words") * 64;
    let start = pages.start.clamp(first, first + 64) - first;
    let end = pages.end.clamp(first, first + 64) - first;
    let below = |bit: u32| 1_u64.checked_shl(bit).map_or(u64::MAX, |power| power - 1);
    below(end) & !below(start)
}

impl PageSet {
    pub(crate) fn from_range(pages: Range<u32>) -> Self {
        let mut set = Self::default();
        set.insert(&pages);
        set
    }

    pub(crate) fn insert(&mut self, pages: &Range<u32>) {
        assert!(pages.end <= PAGES_MAX, "pages {pages:?} are of no block");
        for (index, word) in self.words.iter_mut().enumerate() {
            *word |= bits(index, pages);
        }
    }

    pub(crate) fn remove(&mut self, pages: &Range<u32>) {
        assert!(pages.end <= PAGES_MAX, "pages {pages:?} are taken out, and are of no block");
        for (index, word) in self.words.iter_mut().enumerate() {
            *word &= !bits(index, pages);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(crate) fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The first page at or after `from` that is (or is not) in the set.
    fn next(&self, from: u32, inside: bool) -> Option<u32> {
        let mut word = usize::try_from(from / 64).ok()?;
        let mut skip = from % 64;
        while word < WORDS {
            let value = if inside { self.words[word] } else { !self.words[word] };
            let value = value & (u64::MAX << skip);
            if value != 0 {
                return Some(u32::try_from(word).ok()? * 64 + value.trailing_zeros());
            }
            word += 1;
            skip = 0;
        }
        None
    }

    /// The stretches of pages in the set, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u32>> {
        let mut from = Some(0);
        std::iter::from_fn(move || {
            let start = self.next(from?, true)?;
            let end = self.next(start, false).unwrap_or(PAGES_MAX);
            from = (end < PAGES_MAX).then_some(end);
            Some(start..end)
        })
    }

    pub(crate) fn words(&self) -> [u64; WORDS] {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn runs_are_what_was_inserted_less_what_was_removed() {
        let mut set = PageSet::from_range(0..1024);
        set.remove(&(10..70));
        set.remove(&(1000..1024));
        assert_eq!(set.runs().collect::<Vec<_>>(), [0..10, 70..1000]);
        assert_eq!(set.count(), 940);
        set.insert(&(69..70));
        assert_eq!(set.runs().collect::<Vec<_>>(), [0..10, 69..1000]);
        set.remove(&(0..1024));
        assert!(set.is_empty());
    }

    #[test]
    fn a_full_set_is_one_run() {
        assert!(PageSet::from_range(0..1024).runs().eq([Range { start: 0, end: 1024 }]));
        assert_eq!(PageSet::default().runs().count(), 0);
    }

    #[test]
    #[should_panic(expected = "pages 1000..1025 are of no block")]
    fn no_page_beyond_the_largest_block_is_left_out_silently() {
        PageSet::from_range(1000..1025);
    }

    #[test]
    fn no_page_beyond_the_largest_block_is_taken_out_silently() {
        assert_refused("pages 0..1025 are taken out, and are of no block", || {
            PageSet::default().remove(&(0..PAGES_MAX + 1))
        });
    }
}
