//! How long requests take: counts in classes that grow with the time, so that percentiles are right within an eighth.
//!
//! Reading the clock costs more than all else here, so that only every eighth request is timed, at random: the others cost
//! a decrement. The counts are shared: who wants to know them reads them on a thread of its own, and the one that serves
//! hosts copies nothing.

use std::cell::Cell;
use std::time::Duration;

use hotset_block::{RealInstant, SharedCounters};

/// Classes for each doubling of the time.
const CLASSES_PER_OCTAVE: u32 = 1 << CLASS_BITS;
const CLASS_BITS: u32 = 3;

/// Times are counted in units of 1.024 µs: a shift, where a division would cost.
const UNIT_BITS: u32 = 10;

/// Classes up to a minute and more: the first eight units have one each, then eight for each doubling.
pub const LATENCY_CLASSES: usize = 200;

/// One request in this many is timed, on average.
const TIMED_ONE_IN: u32 = 8;

/// How many of the timed requests took how long; see [`class_end_ns`] for the classes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyCounts {
    pub classes: Vec<u64>,
    /// Of all that were timed.
    pub total_ns: u64,
}

/// The same as it goes on, to be read on any thread. A handle: cloning it is cheap.
#[derive(Clone, Debug)]
pub struct LatencyCounters {
    /// The classes, then the total.
    counters: SharedCounters,
}

impl LatencyCounters {
    fn new() -> Self {
        Self { counters: SharedCounters::new(LATENCY_CLASSES + 1) }
    }

    /// What was counted until now.
    pub fn counts(&self) -> LatencyCounts {
        let mut classes = self.counters.values();
        let total_ns = classes.pop().unwrap_or(0);
        LatencyCounts { classes, total_ns }
    }

    fn count(&self, nanoseconds: u64) {
        self.counters.add(class_of(nanoseconds), 1);
        self.counters.add(LATENCY_CLASSES, nanoseconds);
    }
}

/// The end of a class, in nanoseconds: all times in it are less.
pub fn class_end_ns(class: usize) -> u64 {
    let class = u64::try_from(class).expect("an address has 64 bits at most") + 1;
    let (octave, part) = (class >> CLASS_BITS, class & u64::from(CLASSES_PER_OCTAVE - 1));
    let units = match octave.checked_sub(1) {
        None => part,
        Some(doublings) => (u64::from(CLASSES_PER_OCTAVE) + part) << doublings,
    };
    units << UNIT_BITS
}

fn class_of(nanoseconds: u64) -> usize {
    let units = nanoseconds >> UNIT_BITS;
    let Some(highest_bit) = units.checked_ilog2() else { return 0 };
    let class = match highest_bit.checked_sub(CLASS_BITS) {
        None => units,
        Some(doublings) => (u64::from(doublings) << CLASS_BITS) + (units >> doublings),
    };
    usize::try_from(class).map_or(LATENCY_CLASSES - 1, |class| class.min(LATENCY_CLASSES - 1))
}

/// Counts the requests of one kind.
#[derive(Debug)]
pub(crate) struct Latencies {
    counts: LatencyCounters,
    /// Requests until one is timed.
    until_timed: Cell<u32>,
    random: Cell<u32>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self { counts: LatencyCounters::new(), until_timed: Cell::new(0), random: Cell::new(1) }
    }
}

impl From<LatencyCounters> for Latencies {
    /// Goes on counting there.
    fn from(counts: LatencyCounters) -> Self {
        Self { counts, ..Self::default() }
    }
}

impl Latencies {
    /// A request begins: the time, if it is one that is timed.
    pub(crate) fn begin(&self, now: impl FnOnce() -> RealInstant) -> Option<RealInstant> {
        match self.until_timed.get().checked_sub(1) {
            Some(left) => {
                self.until_timed.set(left);
                None
            }
            None => {
                self.until_timed.set(self.next_distance());
                Some(now())
            }
        }
    }

    /// It was answered.
    pub(crate) fn end(&self, began: Option<RealInstant>, now: impl FnOnce() -> RealInstant) {
        let Some(began) = began else { return };
        self.count(now().since(began));
    }

    fn count(&self, took: Duration) {
        self.counts.count(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// From 0 to twice the mean, so that no rhythm of a host is always met at the same beat (Marsaglia's xorshift).
    fn next_distance(&self) -> u32 {
        let mut random = self.random.get();
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        self.random.set(random);
        random % (2 * TIMED_ONE_IN - 1)
    }

    pub(crate) fn counters(&self) -> LatencyCounters {
        self.counts.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_class_that_ends_after_it() {
        for nanoseconds in (0..100_000).chain((17..36).map(|bit| (1 << bit) - 1)).chain((17..36).map(|bit| 1 << bit)) {
            let class = class_of(nanoseconds);
            assert!(nanoseconds < class_end_ns(class), "{nanoseconds} ns in class {class}");
            assert!(class == 0 || nanoseconds >= class_end_ns(class - 1), "{nanoseconds} ns in class {class}");
        }
    }

    #[test]
    fn a_class_is_an_eighth_wide_at_most_and_the_last_one_takes_all() {
        for class in 8..LATENCY_CLASSES {
            let (start, end) = (class_end_ns(class - 1), class_end_ns(class));
            assert!((end - start) * 8 <= start, "class {class}: {start} to {end}");
        }
        assert!(class_end_ns(LATENCY_CLASSES - 1) > 60_000_000_000, "a minute has a class");
        assert_eq!(class_of(u64::MAX), LATENCY_CLASSES - 1);
    }

    #[test]
    fn one_request_in_eight_is_timed() {
        let latencies = Latencies::default();
        let mut timed = 0;
        for _ in 0..80_000 {
            let began = latencies.begin(RealInstant::default);
            timed += u32::from(began.is_some());
            latencies.end(began, || RealInstant::default().plus(Duration::from_micros(100)));
        }
        assert!((9_000..11_000).contains(&timed), "{timed}");
        let counts = latencies.counters().counts();
        assert_eq!(counts.classes.iter().sum::<u64>(), u64::from(timed));
        assert_eq!(counts.classes[class_of(100_000)], u64::from(timed));
        assert_eq!(counts.total_ns, u64::from(timed) * 100_000);
    }
}
