//! What belongs to ranges of pages, found by a page: however much there is, only what lies around the page is looked at.

use std::collections::BTreeMap;
use std::ops::Range;

/// See the file's summary. Ranges may overlap, and are not empty.
pub(crate) struct ByPages<T> {
    /// By the first page, and by what tells those from each other that begin there.
    entries: BTreeMap<(u64, u64), (Range<u64>, T)>,
    added: u64,
    /// No range has more pages.
    longest: u64,
}

impl<T> Default for ByPages<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), added: 0, longest: 0 }
    }
}

impl<T> ByPages<T> {
    pub(super) fn add(&mut self, pages: Range<u64>, value: T) {
        self.longest = self.longest.max(pages.end - pages.start);
        self.entries.insert((pages.start, self.added), (pages, value));
        self.added += 1;
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|(_, value)| value)
    }

    /// What belongs to ranges with this page.
    pub(super) fn of_page(&self, page: u64) -> impl Iterator<Item = &T> {
        self.near(page).filter(move |(pages, _)| pages.contains(&page)).map(|(_, value)| value)
    }

    /// The ranges that begin where one with this page can.
    fn near(&self, page: u64) -> impl Iterator<Item = &(Range<u64>, T)> {
        let first = (page + 1).saturating_sub(self.longest);
        self.entries.range((first, 0)..(page + 1, 0)).map(|(_, entry)| entry)
    }

    /// Takes those out for which this is so.
    pub(super) fn take(&mut self, is_taken: impl Fn(&T) -> bool) -> Vec<T> {
        let taken = self.entries.extract_if(.., |_, (_, value)| is_taken(value));
        let taken = taken.map(|(_, (_, value))| value).collect();
        if self.is_empty() {
            self.longest = 0;
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_page_finds_what_a_search_through_all_of_it_finds(
            ranges in prop::collection::vec((0_u64..40, 1_u64..9), 0..60),
            taken in 0_usize..5,
        ) {
            let mut by_pages = ByPages::default();
            let mut expected: Vec<(Range<u64>, usize)> = Vec::new();
            for (number, (start, length)) in ranges.into_iter().enumerate() {
                by_pages.add(start..start + length, number);
                expected.push((start..start + length, number));
            }
            let is_taken = |number: &usize| number % 5 < taken;
            let mut gone = by_pages.take(is_taken);
            gone.sort_unstable();
            prop_assert_eq!(gone, expected.extract_if(.., |(_, number)| is_taken(number)).map(|(_, number)| number).collect::<Vec<_>>());
            prop_assert_eq!((by_pages.len(), by_pages.is_empty()), (expected.len(), expected.is_empty()));
            for page in 0..50 {
                let mut found: Vec<usize> = by_pages.of_page(page).copied().collect();
                found.sort_unstable();
                let there = expected.iter().filter(|(pages, _)| pages.contains(&page)).map(|(_, number)| *number);
                prop_assert_eq!(found, there.collect::<Vec<_>>());
            }
        }
    }

    // For each dirty page the cleaner went through all that waited for a flush.
    #[test]
    fn of_thousands_of_ranges_a_few_are_looked_at() {
        let mut by_pages = ByPages::default();
        (0..4096).for_each(|number| by_pages.add(number * 8..number * 8 + 4, number));
        assert!((0..32_768).all(|page| by_pages.near(page).count() <= 1));
        assert_eq!(by_pages.take(|_| true).len(), 4096);
        by_pages.add(7..8, 0);
        assert_eq!([6, 7, 8].map(|page| by_pages.near(page).count()), [0, 1, 0]);
    }
}
