//! How long requests took in the last seconds, for those who watch: the percentiles of the history, without its 30 s.
//!
//! Made of the looks that the observer takes anyway, on its thread: the data plane does nothing for it.

use std::collections::{BTreeMap, VecDeque};

use hotset_api::RecentLatency;

use super::bucket::{Classes, add_classes, percentiles};
use super::sampler::{Latencies, classes_between};

/// Looks, one second apart, whose requests count: long enough for percentiles, short enough to be now.
const LOOKS: usize = 5;

/// Reads and writes that were timed between two looks, by volume; only of volumes that had any.
type Between = BTreeMap<String, (Classes, Classes)>;

/// The last looks.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    last: Option<Latencies>,
    betweens: VecDeque<Between>,
}

impl Recent {
    /// A look, about a second after the one before.
    pub(crate) fn add(&mut self, now: Latencies) {
        if let Some(before) = &self.last {
            let mut between = Between::new();
            for (volume, (reads, writes)) in &now {
                let old = before.get(volume);
                let reads = classes_between(old.map(|old| &old.0), reads);
                let writes = classes_between(old.map(|old| &old.1), writes);
                if !reads.is_empty() || !writes.is_empty() {
                    between.insert(volume.clone(), (reads, writes));
                }
            }
            self.betweens.push_back(between);
            if self.betweens.len() > LOOKS {
                self.betweens.pop_front();
            }
        }
        self.last = Some(now);
    }

    /// Of one volume.
    pub(crate) fn of(&self, volume: &str) -> RecentLatency {
        latency(self.betweens.iter().filter_map(|between| between.get(volume)))
    }

    /// Of all volumes together.
    pub(crate) fn of_all(&self) -> RecentLatency {
        latency(self.betweens.iter().flat_map(BTreeMap::values))
    }
}

fn latency<'a>(parts: impl Iterator<Item = &'a (Classes, Classes)>) -> RecentLatency {
    let (mut reads, mut writes) = (Classes::new(), Classes::new());
    for (of_reads, of_writes) in parts {
        add_classes(&mut reads, of_reads);
        add_classes(&mut writes, of_writes);
    }
    RecentLatency { reads: percentiles(&reads), writes: percentiles(&writes) }
}

#[cfg(test)]
mod tests {
    use hotset_cache::{LATENCY_CLASSES, LatencyCounts, class_end_ns};

    use super::*;
    use crate::daemon::history::bucket::ratio;

    fn look(volume: &str, class: usize, count: u64) -> Latencies {
        let mut reads = LatencyCounts { classes: vec![0; LATENCY_CLASSES], total_ns: 0 };
        let writes = reads.clone();
        reads.classes[class] = count;
        Latencies::from([(volume.to_owned(), (reads, writes))])
    }

    // proves: S3
    #[test]
    fn what_was_slow_is_forgotten_after_a_few_looks_and_what_was_before_the_first_never_counts() {
        let mut recent = Recent::default();
        recent.add(look("v", 80, 1000));
        assert_eq!(recent.of("v"), RecentLatency::default(), "one look is no difference");
        recent.add(look("v", 80, 1100));
        let slow = recent.of("v").reads.expect("100 reads were timed");
        assert_eq!(slow.p50_microseconds, ratio(class_end_ns(80), 1000));
        assert_eq!((recent.of("v").writes, recent.of("other").reads), (None, None));
        for _ in 0..LOOKS {
            assert_eq!(recent.of_all().reads, Some(slow));
            recent.add(look("v", 80, 1100));
        }
        assert_eq!(recent.of_all(), RecentLatency::default(), "nothing was read for {LOOKS} looks");
    }

    #[test]
    fn all_volumes_together_are_one_crowd() {
        let mut recent = Recent::default();
        recent.add(Latencies::new());
        let mut both = look("fast", 10, 99);
        both.extend(look("slow", 120, 1));
        recent.add(both);
        let all = recent.of_all().reads.expect("100 reads were timed");
        assert_eq!(all.p99_microseconds, ratio(class_end_ns(10), 1000));
        assert!(recent.of("slow").reads.expect("it was read").p50_microseconds > all.p99_microseconds);
    }
}
