//! Latencies in buckets of about 1.6 %, counted by one thread and read by any.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets per power of two, as a power of two itself: a bucket is 1/64 of its value wide.
const FINENESS: u32 = 6;
const PER_POWER: u64 = 1 << FINENESS;
/// Latencies of 2^40 ns (18 minutes) and more share the last bucket.
const POWERS: u64 = 40;
const BUCKETS: usize = 2240;
// Values below 64 have a bucket each; each power of two from 64 on has 64.
const _: () = assert!(2240 == PER_POWER * (POWERS - 5));

/// Counts that one writer raises while others look. See [`Histogram::snapshot`].
pub(super) struct LiveHistogram {
    counts: Box<[AtomicU64]>,
}

impl LiveHistogram {
    pub(super) fn new() -> Self {
        Self { counts: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect() }
    }

    pub(super) fn record(&self, nanoseconds: u64) {
        raise(&self.counts[bucket_of(nanoseconds)], 1);
    }

    pub(super) fn snapshot(&self) -> Histogram {
        Histogram { counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect() }
    }
}

/// Adds to a counter that has one writer: cheaper than an atomic addition.
pub(super) fn raise(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

fn bucket_of(nanoseconds: u64) -> usize {
    let value = nanoseconds.min((1 << POWERS) - 1);
    let Some(power) = value.checked_ilog2().filter(|power| *power >= FINENESS) else {
        return usize::try_from(value).expect("below 64");
    };
    let shift = power - FINENESS;
    let index = u64::from(shift) * PER_POWER + (value >> shift);
    usize::try_from(index).expect("below BUCKETS")
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).expect("below BUCKETS");
    if bucket < PER_POWER {
        return bucket;
    }
    let shift = bucket / PER_POWER - 1;
    ((bucket % PER_POWER + PER_POWER + 1) << shift) - 1
}

/// Latencies as they were at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
}

impl Histogram {
    /// The latency that `per_mille` of a thousand requests do not exceed (500 = median); zero without requests.
    pub fn quantile(&self, per_mille: u64) -> Duration {
        let total: u64 = self.counts.iter().sum();
        let rank = (total * per_mille.min(1000)).div_ceil(1000).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(top_of(bucket));
            }
        }
        Duration::ZERO
    }

    pub fn max(&self) -> Duration {
        self.counts.iter().rposition(|count| *count > 0).map_or(Duration::ZERO, |top| Duration::from_nanos(top_of(top)))
    }

    /// What was counted since `earlier`, a snapshot of the same load.
    pub fn since(&self, earlier: &Self) -> Self {
        let counts = self.counts.iter().zip(&earlier.counts).map(|(now, then)| now.saturating_sub(*then));
        Self { counts: counts.collect() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_bucket_is_at_most_two_percent_wide(value in 0_u64..1 << POWERS) {
            let top = top_of(bucket_of(value));
            prop_assert!(top >= value);
            prop_assert!(top - value <= value / 50, "{value} in a bucket up to {top}");
            prop_assert_eq!(bucket_of(top), bucket_of(value));
        }
    }

    #[test]
    fn quantiles_and_maximum_come_from_the_counts() {
        let live = LiveHistogram::new();
        (1..=1000_u64).for_each(|micros| live.record(micros * 1000));
        let before = live.snapshot();
        let median = before.quantile(500).as_nanos();
        assert!((500_000..=510_000).contains(&median), "{median}");
        assert!((1_000_000..1_020_000).contains(&before.max().as_nanos()));
        live.record(u64::MAX);
        assert_eq!(live.snapshot().since(&before).quantile(1), Duration::from_nanos((1 << POWERS) - 1));
        assert_eq!(LiveHistogram::new().snapshot().quantile(500), Duration::ZERO);
    }
}
