//! Counts that one thread adds to, while any thread reads them: who wants to know them costs the one that counts nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A row of counters. A handle: cloning it is cheap, and all clones are the same counters.
#[derive(Clone, Debug)]
pub struct SharedCounters {
    counters: Arc<[AtomicU64]>,
}

impl SharedCounters {
    pub fn new(count: usize) -> Self {
        Self { counters: (0..count).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Adds to one of them, and stays at the largest number. Only one thread may, so that this need not be one step, which
    /// would cost ten times as much; an index that there is not changes nothing.
    pub fn add(&self, index: usize, amount: u64) {
        if let Some(counter) = self.counters.get(index) {
            counter.store(counter.load(Ordering::Relaxed).saturating_add(amount), Ordering::Relaxed);
        }
    }

    /// What they are now, on any thread. What is added meanwhile may be in one of them and not yet in another.
    pub fn values(&self) -> Vec<u64> {
        self.counters.iter().map(|counter| counter.load(Ordering::Relaxed)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: S2
    #[test]
    fn who_reads_on_another_thread_loses_nothing_and_sees_nothing_twice() {
        const ADDED: u64 = 100_000;
        let counters = SharedCounters::new(4);
        let seen = counters.clone();
        let reader = std::thread::spawn(move || {
            let mut last = 0;
            while last < ADDED {
                let now = seen.values().iter().sum();
                assert!((last..=ADDED).contains(&now), "{now} after {last}");
                last = now;
            }
        });
        (0..4_usize).cycle().zip(0..ADDED).for_each(|(index, _)| counters.add(index, 1));
        reader.join().expect("what it saw was right");
        assert_eq!(counters.values(), [ADDED / 4; 4]);
    }
}
