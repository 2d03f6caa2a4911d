//! How long reads take here: those that hit and those that miss, told apart by their share of the latencies that are counted together.

use hotset_cache::advisor::figures::number;
use hotset_cache::{LatencyCounts, class_end_ns};

/// Mean latencies in microseconds; `None`: there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ReadLatencies {
    pub(super) hit: Option<f64>,
    pub(super) miss: Option<f64>,
}

impl ReadLatencies {
    /// Of reads of which a part hit: a hit is nearly always faster than a miss, so they are the fastest ones.
    pub(super) fn of(counts: &LatencyCounts, hit_ratio: f64) -> Self {
        let total = counts.classes.iter().copied().map(number).sum::<f64>();
        if total == 0.0 {
            return Self::default();
        }
        let hits = total * hit_ratio.clamp(0.0, 1.0);
        let (mut passed, mut of_hits, mut of_all) = (0.0, 0.0, 0.0);
        for (class, count) in counts.classes.iter().copied().map(number).enumerate() {
            // The ends of classes are an eighth apart: the middle is a sixteenth below.
            let microseconds = number(class_end_ns(class)) / 1000.0 * 15.0 / 16.0;
            let among_hits = (hits - passed).clamp(0.0, count);
            of_hits += among_hits * microseconds;
            of_all += count * microseconds;
            passed += count;
        }
        let mean = |sum: f64, count: f64| (count >= 1.0).then(|| sum / count);
        Self { hit: mean(of_hits, hits), miss: mean(of_all - of_hits, total - hits) }
    }

    /// What a read would take on average; `None`: nothing is known of misses. Hits of which nothing is known take no time.
    pub(super) fn mean(self, hit_ratio: f64) -> Option<f64> {
        self.miss.map(|miss| hit_ratio * self.hit.unwrap_or(0.0) + (1.0 - hit_ratio) * miss)
    }
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

    // proves: A3
    #[test]
    fn the_fastest_reads_are_the_hits_and_a_size_has_its_part_of_both() {
        let known = ReadLatencies::of(&counts(&[(40, 80), (120, 20)]), 0.8);
        let middle = |class| number(class_end_ns(class)) / 1000.0 * 15.0 / 16.0;
        let (hit, miss) = (known.hit.unwrap(), known.miss.unwrap());
        assert!((hit - middle(40)).abs() < 1e-6 && (miss - middle(120)).abs() < 1e-6, "{hit} {miss}");
        assert!((known.mean(0.5).unwrap() - (hit + miss) / 2.0).abs() < 1e-6);
        let uncached = ReadLatencies::of(&counts(&[(120, 20)]), 0.0);
        assert_eq!((uncached.hit, uncached.miss), (None, Some(middle(120))));
        assert_eq!(ReadLatencies::of(&counts(&[]), 0.5), ReadLatencies::default());
    }
}
