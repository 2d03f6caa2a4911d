//! Why a read was not answered from the cache: decided where it missed, counted once for each read.

use std::cell::RefCell;

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

/// Places whose last reason is remembered.
const REMEMBERED: usize = 256;
/// What is remembered is of so many pages together.
const PAGES_TOGETHER: u64 = 16;

/// The reasons of the last misses, by place: a new one takes the room of whichever has the same place in the table.
#[derive(Default)]
pub(crate) struct LastMisses {
    /// Made at the first miss.
    reasons: RefCell<Vec<Option<(u64, Missed)>>>,
}

impl LastMisses {
    pub(crate) fn note(&self, page: u64, missed: Missed) {
        let mut reasons = self.reasons.borrow_mut();
        if reasons.is_empty() {
            reasons.resize(REMEMBERED, None);
        }
        let place = page / PAGES_TOGETHER;
        reasons[index_of(place)] = Some((place, missed));
    }

    /// Why a read of this page, or of one beside it, missed last; `None`: that is not remembered.
    pub(crate) fn of(&self, page: u64) -> Option<Missed> {
        let place = page / PAGES_TOGETHER;
        let remembered = self.reasons.borrow().get(index_of(place)).copied().flatten();
        remembered.filter(|(of, _)| *of == place).map(|(_, missed)| missed)
    }
}

fn index_of(place: u64) -> usize {
    let places = u64::try_from(REMEMBERED).expect("an index of them fits in 64 bits");
    usize::try_from(place % places).expect("below the number of places")
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

    #[test]
    fn the_last_reason_of_a_place_is_remembered_until_another_needs_its_room() {
        let last = LastMisses::default();
        assert_eq!(last.of(7), None);
        last.note(7, Missed::FirstTouch);
        last.note(9, Missed::BelowThreshold);
        assert_eq!((last.of(0), last.of(16)), (Some(Missed::BelowThreshold), None));
        last.note(16 * 256, Missed::Stream);
        assert_eq!((last.of(0), last.of(16 * 256 + 1)), (None, Some(Missed::Stream)));
    }
}
