//! How long reads take here: those from memory, those from SSDs and those that miss, told apart by their share of the latencies that are
//! counted together.

use hotset_cache::advisor::figures::number;
use hotset_cache::{LatencyCounts, class_end_ns};

/// What a hit on an SSD is taken for where there was none yet.
pub(super) const ASSUMED_HIT_MICROSECONDS: f64 = 100.0;

/// Mean latencies in microseconds; `None`: there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ReadLatencies {
    pub(super) memory: Option<f64>,
    /// Of hits on SSDs.
    pub(super) hit: Option<f64>,
    pub(super) miss: Option<f64>,
    /// The part of all reads that memory answers, whatever the SSDs have: 0 to 1.
    pub(super) memory_ratio: f64,
}

impl ReadLatencies {
    /// Of reads of which a part hit, and a part of those in memory. Memory is nearly always faster than an SSD, and that than a miss: so
    /// the fastest ones came from memory, and the slowest ones missed.
    pub(super) fn of(counts: &LatencyCounts, hit_ratio: f64, memory_ratio: f64) -> Self {
        let total = counts.classes.iter().copied().map(number).sum::<f64>();
        if total == 0.0 {
            return Self::default();
        }
        let hit_ratio = hit_ratio.clamp(0.0, 1.0);
        let memory_ratio = memory_ratio.clamp(0.0, hit_ratio);
        let mean = |from: f64, to: f64| {
            let microseconds = microseconds_between(counts, total * from, total * to);
            (total * (to - from) >= 1.0).then(|| microseconds / (total * (to - from)))
        };
        Self {
            memory: mean(0.0, memory_ratio),
            hit: mean(memory_ratio, hit_ratio),
            miss: mean(hit_ratio, 1.0),
            memory_ratio,
        }
    }

    /// What a read would take on average with SSDs of this hit ratio, in microseconds; `None`: nothing is known of misses. Hits on SSDs are
    /// taken for [`ASSUMED_HIT_MICROSECONDS`] if nothing is known of them.
    pub(super) fn mean(self, hit_ratio: f64) -> Option<f64> {
        let on_ssds = (hit_ratio - self.memory_ratio).max(0.0);
        let missed = 1.0 - hit_ratio.max(self.memory_ratio);
        let hits =
            self.memory_ratio * self.memory.unwrap_or(0.0) + on_ssds * self.hit.unwrap_or(ASSUMED_HIT_MICROSECONDS);
        self.miss.map(|miss| hits + missed * miss)
    }
}

/// What the reads from the `from`th to the `to`th took together, the fastest one first.
fn microseconds_between(counts: &LatencyCounts, from: f64, to: f64) -> f64 {
    let (mut passed, mut sum) = (0.0, 0.0);
    for (class, count) in counts.classes.iter().copied().map(number).enumerate() {
        // The ends of classes are an eighth apart: the middle is a sixteenth below.
        let microseconds = number(class_end_ns(class)) / 1000.0 * 15.0 / 16.0;
        let among = (to.min(passed + count) - from.max(passed)).max(0.0);
        sum += among * microseconds;
        passed += count;
    }
    sum
}

#[cfg(test)]
mod tests {
    use hotset_cache::LATENCY_CLASSES;

    use super::*;

    fn counts(of: &[(usize, u64)]) -> LatencyCounts {
        let mut counts = LatencyCounts { classes: vec![0; LATENCY_CLASSES], total_ns: 0 };
        of.iter().for_each(|(class, count)| counts.classes[*class] = *count);
        counts
    }

    fn middle(class: usize) -> f64 {
        number(class_end_ns(class)) / 1000.0 * 15.0 / 16.0
    }

    fn assert_near(told: Option<f64>, expected: f64) {
        assert!(told.is_some_and(|told| (told - expected).abs() < 1e-6), "{told:?} is not {expected}");
    }

    // proves: A3
    #[test]
    fn the_fastest_reads_are_the_hits_and_a_size_has_its_part_of_both() {
        let known = ReadLatencies::of(&counts(&[(40, 80), (120, 20)]), 0.8, 0.0);
        assert_near(known.hit, middle(40));
        assert_near(known.miss, middle(120));
        assert_near(known.mean(0.5), f64::midpoint(middle(40), middle(120)));
        let uncached = ReadLatencies::of(&counts(&[(120, 20)]), 0.0, 0.0);
        assert_eq!((uncached.hit, uncached.miss), (None, Some(middle(120))));
        assert_near(uncached.mean(0.5), f64::midpoint(ASSUMED_HIT_MICROSECONDS, middle(120)));
        assert_eq!(ReadLatencies::of(&counts(&[]), 0.5, 0.0), ReadLatencies::default());
    }

    // proves: A3
    #[test]
    fn what_memory_answers_is_no_hit_of_an_ssd_and_stays_with_any_size() {
        let known = ReadLatencies::of(&counts(&[(8, 50), (40, 30), (120, 20)]), 0.8, 0.5);
        assert_near(known.hit, middle(40));
        assert_near(known.mean(0.8), 0.5 * middle(8) + 0.3 * middle(40) + 0.2 * middle(120));
        // SSDs that would have less than memory has bring nothing, and take nothing away.
        assert_near(known.mean(0.1), 0.5 * middle(8) + 0.5 * middle(120));
    }
}
