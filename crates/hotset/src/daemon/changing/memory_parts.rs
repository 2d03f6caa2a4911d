//! What each thread of the data plane has of the memory cache: by shares that change seldom, for another size costs a thread time, and
//! pages that it had.
//!
//! Those who begin together have equal parts. Who comes later begins with a small one, unless the others hardly use theirs. A thread whose pages
//! make room for each other gets more, as long as there is a thread that does not use what it has.

use std::time::{Duration, Instant};

use crate::plane::ThreadMemory;

/// The largest share of a thread, and the smallest of one that has volumes.
const SHARE_MAX: u64 = 16;
const SHARE_MIN: u64 = 1;
/// Between two changes of shares: for each of them every thread moves what it knows of its pages.
const ROUND: Duration = Duration::from_secs(300);
/// A thread whose pages have made room for this part of its size in a round needs more.
const TURNED_OVER_PART: u64 = 16;

/// See the file's summary.
#[derive(Debug, Default)]
pub(crate) struct MemoryParts {
    /// Of each thread; 0: it has no volumes.
    shares: Vec<u64>,
    /// How the threads were when the round began.
    before: Vec<ThreadMemory>,
    round_began: Option<Instant>,
}

impl MemoryParts {
    /// What each thread is to have of `size_bytes`, as they are now.
    pub(crate) fn divide(&mut self, size_bytes: u64, threads: &[ThreadMemory], now: Instant) -> Vec<u64> {
        self.shares.resize(threads.len(), 0);
        self.note_volumes(threads);
        if self.round_began.is_none_or(|began| now.duration_since(began) >= ROUND) {
            self.change_shares(threads);
            (self.before, self.round_began) = (threads.to_vec(), Some(now));
        }
        let all: u64 = self.shares.iter().sum();
        self.shares.iter().map(|share| size_bytes / all.max(1) * share).collect()
    }

    fn note_volumes(&mut self, threads: &[ThreadMemory]) {
        let others = || threads.iter().zip(&self.shares).filter(|(_, share)| **share > 0).map(|(thread, _)| thread);
        let are_needed = others().any(|thread| !thread.hardly_uses_its_part());
        let first_share = if are_needed { SHARE_MIN } else { SHARE_MAX };
        for (thread, share) in threads.iter().zip(&mut self.shares) {
            *share = match (thread.has_volumes, *share) {
                (false, _) => 0,
                (true, 0) => first_share,
                (true, share) => share,
            };
        }
    }

    /// Threads that need more get it from those that do not use what they have.
    fn change_shares(&mut self, threads: &[ThreadMemory]) {
        if self.before.len() != threads.len() {
            return;
        }
        let demands: Vec<Demand> = threads.iter().zip(&self.before).map(|(now, before)| now.demand(before)).collect();
        if !demands.contains(&Demand::More) {
            return;
        }
        for (share, demand) in self.shares.iter_mut().zip(demands).filter(|(share, _)| **share > 0) {
            *share = match demand {
                Demand::More => SHARE_MAX.min(*share * 2),
                Demand::AsItIs => *share,
                Demand::Less => SHARE_MIN.max(*share / 2),
            };
        }
    }
}

/// What a thread needs of the memory cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    More,
    AsItIs,
    Less,
}

impl ThreadMemory {
    fn demand(&self, before: &Self) -> Demand {
        let evicted_bytes = self.memory.evicted_bytes.saturating_sub(before.memory.evicted_bytes);
        if self.has_volumes && evicted_bytes > self.memory.size_bytes / TURNED_OVER_PART {
            return Demand::More;
        }
        let is_idle = self.memory.pages_used == before.memory.pages_used;
        if is_idle || self.hardly_uses_its_part() { Demand::Less } else { Demand::AsItIs }
    }

    fn hardly_uses_its_part(&self) -> bool {
        self.memory.used_bytes <= self.memory.size_bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use hotset_cache::MemoryCacheStatus;

    use super::*;

    const GIB: u64 = 1 << 30;

    /// Threads as the data plane would have them.
    struct Threads {
        parts: MemoryParts,
        threads: Vec<ThreadMemory>,
        now: Instant,
    }

    impl Threads {
        fn new(count: usize) -> Self {
            let threads = vec![ThreadMemory { has_volumes: false, memory: MemoryCacheStatus::default() }; count];
            Self { parts: MemoryParts::default(), threads, now: Instant::now() }
        }

        /// A second passes; answers the parts in hundredths of all.
        fn second(&mut self) -> Vec<u64> {
            self.now += Duration::from_secs(1);
            let given = self.parts.divide(4 * GIB, &self.threads, self.now);
            assert!(given.iter().sum::<u64>() <= 4 * GIB);
            for (thread, size_bytes) in self.threads.iter_mut().zip(&given) {
                thread.memory.size_bytes = *size_bytes;
                thread.memory.used_bytes = thread.memory.used_bytes.min(*size_bytes);
            }
            given.iter().map(|bytes| (bytes * 100).div_ceil(4 * GIB)).collect()
        }

        /// Hosts ask for so many bytes of this thread again and again, for some rounds.
        fn rounds(&mut self, count: u64, asked: &[(usize, u64)]) -> Vec<u64> {
            for _ in 0..count * ROUND.as_secs() {
                for (thread, bytes) in asked {
                    let memory = &mut self.threads[*thread].memory;
                    memory.pages_used += 1;
                    memory.used_bytes = memory.size_bytes.min(*bytes);
                    if *bytes > memory.size_bytes {
                        memory.evicted_bytes += memory.size_bytes / 100;
                    }
                }
                self.second();
            }
            self.second()
        }
    }

    // proves: M3
    #[test]
    fn those_who_begin_together_have_equal_parts() {
        let mut threads = Threads::new(3);
        assert_eq!(threads.second(), [0, 0, 0]);
        threads.threads[1].has_volumes = true;
        assert_eq!(threads.second(), [0, 100, 0]);
        threads.threads[2].has_volumes = true;
        assert_eq!(threads.second(), [0, 50, 50], "nothing is in memory yet");
        assert_eq!(threads.rounds(30, &[(1, 9 * GIB), (2, 9 * GIB)]), [0, 50, 50]);
        threads.threads[1].has_volumes = false;
        assert_eq!(threads.second(), [0, 0, 100]);
    }

    // proves: M3
    #[test]
    fn a_volume_that_is_made_beside_a_busy_pool_takes_little_of_its_memory_until_it_needs_more() {
        let mut threads = Threads::new(2);
        threads.threads[1].has_volumes = true;
        threads.rounds(3, &[(1, 9 * GIB)]);
        threads.threads[0].has_volumes = true;
        assert_eq!(threads.second(), [6, 95]);
        assert_eq!(threads.rounds(60, &[(1, 9 * GIB)]), [6, 95], "nobody asks for it");
        assert_eq!(threads.rounds(10, &[(0, 9 * GIB), (1, 9 * GIB)]), [50, 50], "both need all that they can get");
        assert_eq!(threads.rounds(10, &[(1, 9 * GIB)]), [6, 95], "it was idle, and the other one was not");
        assert_eq!(threads.rounds(60, &[]), [6, 95], "nobody needs more");
    }

    // proves: M3
    #[test]
    fn what_a_thread_does_not_fill_another_one_gets() {
        let mut threads = Threads::new(2);
        threads.threads.iter_mut().for_each(|thread| thread.has_volumes = true);
        let parts = threads.rounds(20, &[(0, GIB / 2), (1, 9 * GIB)]);
        assert!(parts[0] <= 25 && parts[1] >= 75, "{parts:?}");
        assert_eq!(threads.rounds(60, &[(0, GIB / 2), (1, 9 * GIB)]), parts, "they stay so");
    }
}
