//! Whose slots lie where in the map: one range for each SSD, one behind the other. An SSD that left gives its range to
//! one that joins, so that the tables do not grow while SSDs come and go.

use crate::address::{SlotIndex, SsdIndex};

struct Range {
    first: SlotIndex,
    count: u32,
    ssd: SsdIndex,
}

impl Range {
    /// It has room for so many slots, and its SSD gives it away.
    fn fits(&self, count: u32, is_free: impl Fn(SsdIndex) -> bool) -> bool {
        self.count >= count && is_free(self.ssd)
    }
}

/// See the file's summary.
#[derive(Default)]
pub(crate) struct SlotRanges(Vec<Range>);

impl SlotRanges {
    /// The range behind all others.
    pub(crate) fn push(&mut self, first: SlotIndex, count: u32, ssd: SsdIndex) {
        assert!(self.0.last().is_none_or(|last| last.first.0 + last.count == first.0), "ranges leave no gap");
        self.0.push(Range { first, count, ssd });
    }

    pub(crate) fn ssd_of(&self, slot: SlotIndex) -> SsdIndex {
        let behind = self.0.partition_point(|range| range.first <= slot);
        let range = &self.0[behind.checked_sub(1).expect("every slot is of an SSD")];
        assert!(slot.0 - range.first.0 < range.count, "slot {} is beyond those of all SSDs", slot.0);
        range.ssd
    }

    /// Gives an SSD with so many slots the smallest range that has room for them, of those that `is_free`; answers where
    /// it begins, if there is one.
    pub(crate) fn take_over(
        &mut self,
        ssd: SsdIndex,
        count: u32,
        is_free: impl Fn(SsdIndex) -> bool,
    ) -> Option<SlotIndex> {
        let fits = |range: &&mut Range| range.fits(count, &is_free);
        let range = self.0.iter_mut().filter(fits).min_by_key(|range| range.count)?;
        range.ssd = ssd;
        Some(range.first)
    }

    /// Whether there is one.
    pub(crate) fn has_free(&self, count: u32, is_free: impl Fn(SsdIndex) -> bool) -> bool {
        self.0.iter().any(|range| range.fits(count, &is_free))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_goes_to_the_one_that_takes_it_over_if_it_fits() {
        let mut ranges = SlotRanges::default();
        ranges.push(SlotIndex(0), 10, SsdIndex(0));
        ranges.push(SlotIndex(10), 30, SsdIndex(1));
        ranges.push(SlotIndex(40), 20, SsdIndex(2));
        let of = |ranges: &SlotRanges| [0, 9, 10, 39, 40, 59].map(|slot| ranges.ssd_of(SlotIndex(slot)).0);
        assert_eq!(of(&ranges), [0, 0, 1, 1, 2, 2]);
        let free = |ssd: SsdIndex| ssd != SsdIndex(2);
        assert_eq!(ranges.take_over(SsdIndex(3), 31, free), None);
        assert_eq!(ranges.take_over(SsdIndex(3), 15, free), Some(SlotIndex(10)));
        assert_eq!(of(&ranges), [0, 0, 3, 3, 2, 2]);
    }

    #[test]
    #[should_panic(expected = "ranges leave no gap")]
    fn a_range_begins_where_the_one_before_ends() {
        let mut ranges = SlotRanges::default();
        ranges.push(SlotIndex(0), 10, SsdIndex(0));
        ranges.push(SlotIndex(11), 10, SsdIndex(1));
    }

    #[test]
    #[should_panic(expected = "slot 10 is beyond those of all SSDs")]
    fn a_slot_beyond_all_is_of_no_ssd() {
        let mut ranges = SlotRanges::default();
        ranges.push(SlotIndex(0), 10, SsdIndex(0));
        ranges.ssd_of(SlotIndex(10));
    }
}
