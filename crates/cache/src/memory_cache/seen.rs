//! What the memory cache remembers of pages that it does not have: those read once, and those that left it unread.
//!
//! Fingerprints in sets, the newest first; the oldest of a set is forgotten for a new one. A wrong "seen" (1 in 30 million) admits
//! a page a read too early, nothing else.

use crate::address::{at, bucket, low_half};

/// Pages remembered for each that there is room for: a page that is read again after four times as many others comes in.
const PER_PAGE: usize = 4;
/// Places of a set: two cache lines.
const WAYS: usize = 32;
/// The bytes of memory for each page that there is room for.
pub(super) const BYTES_PER_PAGE: u64 = 16;

/// What is known of a page that is not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// It was read once.
    Read,
    /// It was in memory, and left it without having been read there.
    Resident,
}

pub(super) struct Seen {
    /// A fingerprint of 31 bits, never 0, and whether it was resident in the lowest; 0: an empty place.
    places: Vec<u32>,
    /// The places before they were made anew, and how many of the new sets have been filled from them.
    before: Option<(Vec<u32>, usize)>,
    /// How many sets it is to have.
    sets_wanted: usize,
}

impl Seen {
    /// For a cache of `pages` pages.
    pub(super) fn new(pages: u32) -> Self {
        let sets = sets_for(pages);
        Self { places: vec![0; sets * WAYS], before: None, sets_wanted: sets }
    }

    /// For so many pages: [`Self::fit_some`] follows until nothing is left to do.
    pub(super) fn resize(&mut self, pages: u32) {
        self.sets_wanted = sets_for(pages);
    }

    /// Fills so many sets of the size that it is to have; answers whether there may be more to do.
    pub(super) fn fit_some(&mut self, count: usize) -> bool {
        if let Some((before, filled)) = &mut self.before {
            let end = (self.places.len() / WAYS).min(*filled + count);
            for set in *filled..end {
                fill_set(&mut self.places, set, before);
            }
            *filled = end;
            if end * WAYS == self.places.len() {
                self.before = None;
            }
            return true;
        }
        if self.places.len() == self.sets_wanted * WAYS {
            return false;
        }
        let before = std::mem::replace(&mut self.places, vec![0; self.sets_wanted * WAYS]);
        self.before = (!before.is_empty()).then_some((before, 0));
        true
    }

    pub(super) fn past_of(&mut self, hash: u64) -> Option<Past> {
        let set = self.set_of(hash)?;
        let place = position(set, fingerprint(hash))?;
        Some(if set[place] & 1 == 0 { Past::Read } else { Past::Resident })
    }

    /// Remembers a page of which nothing is known.
    pub(super) fn note(&mut self, hash: u64, past: Past) {
        let Some(set) = self.set_of(hash) else { return };
        let resident = match past {
            Past::Read => 0,
            Past::Resident => 1,
        };
        set.copy_within(..WAYS - 1, 1);
        set[0] = (fingerprint(hash) << 1) | resident;
    }

    pub(super) fn forget(&mut self, hash: u64) {
        let Some(set) = self.set_of(hash) else { return };
        if let Some(place) = position(set, fingerprint(hash)) {
            set.copy_within(place + 1.., place);
            set[WAYS - 1] = 0;
        }
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> u64 {
        crate::address::vec_bytes(&self.places)
    }

    /// Sets still to be filled.
    #[cfg(test)]
    pub(super) fn left_to_fit(&self) -> usize {
        self.before.as_ref().map_or(0, |(_, filled)| self.places.len() / WAYS - filled)
    }

    fn set_of(&mut self, hash: u64) -> Option<&mut [u32]> {
        let set = bucket(hash, self.places.len() / WAYS);
        let places = match &mut self.before {
            Some((before, filled)) if set >= *filled => before,
            Some(_) | None => &mut self.places,
        };
        let sets = places.len() / WAYS;
        (sets > 0).then(|| &mut places[bucket(hash, sets) * WAYS..][..WAYS])
    }
}

/// Fills a set with the newest of what was known. Sets lie in the order of hashes, so those of the size before that share hashes with one of
/// the new size lie side by side. Of many, some are enough to fill it.
fn fill_set(places: &mut [u32], set: usize, before: &[u32]) {
    let (sets_before, sets) = (before.len() / WAYS, places.len() / WAYS);
    let first = set * sets_before / sets;
    let from = first..((set + 1) * sets_before).div_ceil(sets).min(first + WAYS);
    let newest_first = (0..WAYS).flat_map(|age| from.clone().map(move |set| set * WAYS + age));
    let known = newest_first.map(|place| before[place]).filter(|known| *known != 0);
    places[set * WAYS..][..WAYS].iter_mut().zip(known).for_each(|(held, known)| *held = known);
}

fn sets_for(pages: u32) -> usize {
    (at(pages) * PER_PAGE).div_ceil(WAYS)
}

/// 31 bits of the half of the hash that does not choose the set.
fn fingerprint(hash: u64) -> u32 {
    (low_half(hash) >> 1).max(1)
}

/// Looks at all places without a branch for each, so that the compiler compares many at once: most often it is in none.
fn position(set: &[u32], fingerprint: u32) -> Option<usize> {
    let is_there = set.iter().fold(false, |found, held| found | (held >> 1 == fingerprint));
    if is_there { set.iter().position(|held| held >> 1 == fingerprint) } else { None }
}

#[cfg(test)]
mod tests {
    use crate::address::mixed;

    use super::*;

    #[test]
    fn what_is_noted_is_known_until_it_is_forgotten() {
        let mut seen = Seen::new(8);
        assert_eq!(seen.past_of(mixed(1)), None);
        seen.note(mixed(1), Past::Read);
        seen.note(mixed(2), Past::Resident);
        assert_eq!((seen.past_of(mixed(1)), seen.past_of(mixed(2))), (Some(Past::Read), Some(Past::Resident)));
        seen.forget(mixed(1));
        assert_eq!((seen.past_of(mixed(1)), seen.past_of(mixed(2))), (None, Some(Past::Resident)));
    }

    #[test]
    fn about_four_times_as_many_pages_are_remembered_as_there_is_room_for_and_the_oldest_are_forgotten() {
        const PAGES: u32 = 10_000;
        let mut seen = Seen::new(PAGES);
        (0..u64::from(4 * PAGES)).for_each(|page| seen.note(mixed(page), Past::Read));
        let known = |seen: &mut Seen, pages: std::ops::Range<u64>| {
            pages.filter(|page| seen.past_of(mixed(*page)).is_some()).count()
        };
        let newest = known(&mut seen, 20_000..40_000);
        assert!(newest > 19_000, "{newest} of the newest 20,000");
        (40_000..80_000).for_each(|page| seen.note(mixed(page), Past::Read));
        let oldest = known(&mut seen, 0..20_000);
        assert!(oldest < 1000, "{oldest} of the oldest 20,000");
        assert!(seen.memory_bytes() <= u64::from(PAGES) * BYTES_PER_PAGE + 256);
    }

    #[test]
    fn what_is_known_outlives_another_size() {
        for (before, after) in [(10_000, 5000), (10_000, 9411), (5000, 10_000), (5000, 7777)] {
            let mut seen = Seen::new(before);
            (0..8000).for_each(|page| seen.note(mixed(page), Past::Resident));
            seen.resize(after);
            let mut left = usize::MAX;
            while seen.fit_some(100) {
                let known = (0..8000).filter(|page| seen.past_of(mixed(*page)) == Some(Past::Resident)).count();
                assert!(known > 7800, "{known} of 8,000 from {before} to {after}");
                assert!(left == usize::MAX || left - seen.left_to_fit() <= 100, "{left}");
                left = seen.left_to_fit();
            }
            seen.note(mixed(9000), Past::Read);
            let wrong = (1_000_000..1_010_000).filter(|page| seen.past_of(mixed(*page)).is_some()).count();
            assert_eq!(wrong, 0);
        }
        let mut seen = Seen::new(100);
        for pages in [0, 100] {
            seen.resize(pages);
            while seen.fit_some(1) {
                assert_eq!(seen.past_of(mixed(1)), None);
            }
        }
        seen.note(mixed(1), Past::Read);
        assert_eq!(seen.past_of(mixed(1)), Some(Past::Read));
    }

    #[test]
    fn a_cache_without_room_remembers_nothing() {
        let mut seen = Seen::new(0);
        seen.note(mixed(1), Past::Read);
        seen.forget(mixed(1));
        assert_eq!(seen.past_of(mixed(1)), None);
    }
}
