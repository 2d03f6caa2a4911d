//! Why a read was not answered from the cache: decided where it missed, counted once for each read.

use std::cell::RefCell;
use std::ops::Range;

use crate::address::{bucket, mixed};
use crate::members::io::add;
use crate::volume::stats::Stats;

/// Why a read was not answered from the cache. A read that is under way is counted already when that is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// Nobody had asked for the block of late.
    FirstTouch,
    /// It had not been read as often as the threshold says.
    BelowThreshold,
    /// It was in the cache, and made room for others.
    Evicted,
    /// Its block is in the cache, but hosts have written to these pages since.
    Overwritten,
    /// A stream past the cut-off.
    Stream,
    /// It is to be populated, and there is no free slot.
    NoRoom,
    /// It is to be populated, and waits for its turn or is on its way.
    FetchRate,
    /// It is to be populated, and its volume has all of its share.
    Share,
    /// It is to be populated, and the SSDs have taken what they may in a day.
    WearLimit,
    /// Something is wrong: with the SSD that had it, with the pool, with the request.
    Degraded,
    /// The volume has no cache, or its reads do not use it.
    Off,
}

impl Missed {
    pub const ALL: [Self; 11] = [
        Self::FirstTouch,
        Self::BelowThreshold,
        Self::Evicted,
        Self::Overwritten,
        Self::Stream,
        Self::NoRoom,
        Self::FetchRate,
        Self::Share,
        Self::WearLimit,
        Self::Degraded,
        Self::Off,
    ];
}

impl Stats {
    /// A read is not answered from the cache.
    pub(crate) fn count_missed(&self, missed: Missed) {
        let counter = match missed {
            Missed::FirstTouch => &self.missed_first_touch,
            Missed::BelowThreshold => &self.missed_below_threshold,
            Missed::Evicted => &self.missed_evicted,
            Missed::Overwritten => &self.missed_overwritten,
            Missed::Stream => &self.missed_stream,
            Missed::NoRoom => &self.missed_no_room,
            Missed::FetchRate => &self.missed_fetch_rate,
            Missed::Share => &self.missed_share,
            Missed::WearLimit => &self.missed_wear_limit,
            Missed::Degraded => &self.missed_degraded,
            Missed::Off => &self.missed_off,
        };
        add(counter, 1);
    }
}

/// Places whose last reason is remembered: 32 KiB for a volume.
const REMEMBERED: usize = 4096;
/// What is remembered is of so many pages together.
const PAGES_TOGETHER: u64 = 16;
/// The bits of an entry that say the reason; the place is above them. No reason is 0.
const REASON_BITS: u32 = 4;
const _: () = assert!(Missed::ALL.len() < 1 << REASON_BITS);

/// The reasons of the last misses, by place: a new one takes the room of whichever has the same entry.
#[derive(Default)]
pub(crate) struct LastMisses {
    /// Made at the first miss.
    entries: RefCell<Vec<u64>>,
}

impl LastMisses {
    /// A read of these pages missed.
    pub(crate) fn note(&self, pages: &Range<u64>, missed: Missed) {
        let mut entries = self.entries.borrow_mut();
        if entries.is_empty() {
            entries.resize(REMEMBERED, 0);
        }
        for place in pages.start / PAGES_TOGETHER..pages.end.div_ceil(PAGES_TOGETHER) {
            entries[entry_of(place)] = (place << REASON_BITS) | number_of(missed);
        }
    }

    /// Why a read of this page, or of one beside it, missed last; `None`: that is not remembered.
    pub(crate) fn of(&self, page: u64) -> Option<Missed> {
        let place = page / PAGES_TOGETHER;
        let entry = *self.entries.borrow().get(entry_of(place))?;
        let is_of_place = |missed: &Missed| entry == (place << REASON_BITS) | number_of(*missed);
        Missed::ALL.into_iter().find(is_of_place)
    }
}

/// Hashed, so that places which are asked for together, and lie at even distances, do not take one entry.
fn entry_of(place: u64) -> usize {
    bucket(mixed(place), REMEMBERED)
}

/// From 1.
fn number_of(missed: Missed) -> u64 {
    let index = Missed::ALL.iter().position(|other| *other == missed).expect("all reasons are in the list");
    u64::try_from(index).expect("there are fewer reasons than 2^4") + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: A6
    #[test]
    fn each_reason_has_a_counter_of_its_own() {
        for missed in Missed::ALL {
            let stats = Stats::default();
            stats.count_missed(missed);
            let counted = stats.snapshot();
            assert_eq!(counted.missed(), 1, "{missed:?} is one of the sum");
        }
        let stats = Stats::default();
        Missed::ALL.into_iter().for_each(|missed| stats.count_missed(missed));
        assert_eq!(stats.snapshot().missed(), 11);
        assert_eq!(stats.snapshot().missed_off, 1);
    }

    // proves: A6
    #[test]
    fn the_last_reason_of_a_place_is_remembered_for_all_pages_of_the_read() {
        let last = LastMisses::default();
        assert_eq!(last.of(7), None);
        last.note(&(7..8), Missed::FirstTouch);
        last.note(&(9..10), Missed::BelowThreshold);
        assert_eq!((last.of(0), last.of(16)), (Some(Missed::BelowThreshold), None));
        last.note(&(1000..1256), Missed::Stream);
        assert!((1000..1256).all(|page| last.of(page) == Some(Missed::Stream)), "a request of 1 MiB");
        let end = (1 << 42) - 1;
        for missed in Missed::ALL {
            last.note(&(end - 1..end), missed);
            assert_eq!(last.of(end - 1), Some(missed));
        }
    }

    // proves: A6
    #[test]
    fn reads_at_even_distances_do_not_make_each_other_forgotten() {
        for distance in [4096, 65_536, 1 << 20] {
            let last = LastMisses::default();
            let pages = || (0..256).map(|number| number * distance);
            pages().for_each(|page| last.note(&(page..page + 1), Missed::FirstTouch));
            let known = pages().filter(|page| last.of(*page).is_some()).count();
            assert!(known > 230, "{known} of 256, {distance} pages apart");
        }
    }
}
