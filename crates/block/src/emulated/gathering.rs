//! Writes of parts of stripes that wait for a moment for their neighbours, as they do in the stripe cache of Linux md:
//! a sequential writer fills whole stripes, whatever the size of its requests.

use std::collections::BTreeMap;
use std::time::Duration;

use super::timeline::WorkId;
use crate::ByteRange;

/// How long the first part of a stripe waits for the others: the time in which a host sends what it has ready.
pub(super) const GATHERING_TIME: Duration = Duration::from_millis(1);

/// What came together of one stripe.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Gathered {
    /// Ascending, with gaps between them.
    pub(super) ranges: Vec<ByteRange>,
    /// The works that wait for these ranges.
    pub(super) parents: Vec<WorkId>,
}

#[derive(Debug, Default)]
pub(super) struct Gathering {
    stripes: BTreeMap<u64, Gathered>,
}

impl Gathering {
    /// Whether this is the first part of its stripe.
    pub(super) fn add(&mut self, stripe: u64, part: ByteRange, parent: WorkId) -> bool {
        let gathered = self.stripes.entry(stripe).or_default();
        gathered.parents.push(parent);
        insert(&mut gathered.ranges, part);
        gathered.parents.len() == 1
    }

    /// The stripe, if all of `whole` is there.
    pub(super) fn take_whole(&mut self, stripe: u64, whole: ByteRange) -> Option<Gathered> {
        let complete = self.stripes.get(&stripe).is_some_and(|gathered| gathered.ranges == [whole]);
        if complete { self.take(stripe) } else { None }
    }

    /// What there is of the stripe.
    pub(super) fn take(&mut self, stripe: u64) -> Option<Gathered> {
        self.stripes.remove(&stripe)
    }
}

/// Joins `range` with those that it overlaps or touches. What these touched has been joined to them before.
fn insert(ranges: &mut Vec<ByteRange>, range: ByteRange) {
    let touches = |other: &mut ByteRange| other.start <= range.end && range.start <= other.end;
    let joined = ranges
        .extract_if(.., touches)
        .fold(range, |all, other| ByteRange { start: all.start.min(other.start), end: all.end.max(other.end) });
    let place = ranges.partition_point(|other| other.start < joined.start);
    ranges.insert(place, joined);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stripe_is_whole_when_its_parts_are_there_in_any_order() {
        let mut gathering = Gathering::default();
        let whole = ByteRange::at(4096, 4096);
        assert!(gathering.add(1, ByteRange::at(6144, 2048), WorkId(1)));
        assert_eq!(gathering.take_whole(1, whole), None);
        assert!(!gathering.add(1, ByteRange::at(4096, 2048), WorkId(2)));
        let gathered = gathering.take_whole(1, whole).expect("both halves are there");
        assert_eq!(gathered, Gathered { ranges: vec![whole], parents: vec![WorkId(1), WorkId(2)] });
        assert_eq!(gathering.take(1), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

        #[test]
        fn joined_ranges_cover_what_a_set_of_bytes_would(parts in prop::collection::vec((0_u64..60, 1_u64..20), 1..12)) {
            let mut ranges = Vec::new();
            let mut bytes = std::collections::BTreeSet::new();
            for (start, length) in parts {
                insert(&mut ranges, ByteRange::at(start, length));
                bytes.extend(start..start + length);
            }
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            let covered: Vec<u64> = ranges.iter().flat_map(|range| range.start..range.end).collect();
            prop_assert_eq!(covered, bytes.into_iter().collect::<Vec<u64>>());
        }
    }
}
