//! The operations in flight on one SSD: since when, and whom to wake when it has to leave; and what its silence means.

use std::cell::RefCell;
use std::task::Waker;

use std::time::Duration;

use hotset_block::Instant;

use crate::config::limits;

/// What is known of an SSD that may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Silence {
    /// Since its oldest operation began.
    pub(crate) lasts: Duration,
    /// Its pool has a write log.
    pub(crate) holds_log: bool,
    /// Another SSD of the pool answers.
    pub(crate) another_answers: bool,
    /// Something in the log has no copy on an SSD that answers.
    pub(crate) holds_last_copy: bool,
    /// Something is dirty, or about to be.
    pub(crate) dirty: bool,
}

/// What is done about an SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Answers,
    /// It is waited for.
    Suspect,
    Leaves,
}

impl Silence {
    /// A pool without a write log loses nothing with any SSD.
    pub(crate) fn verdict(self) -> Verdict {
        if self.lasts <= limits::SSD_TIMEOUT {
            return Verdict::Answers;
        }
        let can_do_without = self.another_answers && !self.holds_last_copy;
        let is_gone = !self.dirty && self.lasts > limits::SSD_GONE_TIMEOUT;
        if !self.holds_log || can_do_without || is_gone { Verdict::Leaves } else { Verdict::Suspect }
    }
}

/// The operations that did not complete at once.
#[derive(Default)]
pub(crate) struct Watch {
    waiters: RefCell<Waiters>,
}

#[derive(Default)]
struct Waiters {
    taken: Vec<Option<(Instant, Waker)>>,
    free: Vec<usize>,
}

/// An operation; it is watched no more when this is dropped.
pub(crate) struct InflightOp<'a> {
    watch: &'a Watch,
    index: usize,
}

impl Watch {
    pub(crate) fn register(&self, since: Instant, waker: Waker) -> InflightOp<'_> {
        let mut waiters = self.waiters.borrow_mut();
        let index = waiters.free.pop().unwrap_or(waiters.taken.len());
        if index == waiters.taken.len() {
            waiters.taken.push(None);
        }
        let other = waiters.taken[index].replace((since, waker));
        assert!(other.is_none(), "operation {index} of an SSD is watched in the place of another one");
        InflightOp { watch: self, index }
    }

    /// When the operation that is in flight for longest began.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.waiters.borrow().taken.iter().flatten().map(|(since, _)| *since).min()
    }

    /// Wakes every operation's task, to look whether the SSD is still there.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> = self.waiters.borrow().taken.iter().flatten().map(|(_, waker)| waker.clone()).collect();
        for waker in wakers {
            waker.wake();
        }
    }
}

impl InflightOp<'_> {
    /// The task may be polled with another waker than before.
    pub(crate) fn refresh(&self, waker: &Waker) {
        if let Some((_, waiting)) = &mut self.watch.waiters.borrow_mut().taken[self.index] {
            waiting.clone_from(waker);
        }
    }
}

impl Drop for InflightOp<'_> {
    fn drop(&mut self) {
        let mut waiters = self.watch.waiters.borrow_mut();
        let ended = waiters.taken[self.index].take();
        assert!(ended.is_some(), "operation {} of an SSD ends, and was not watched", self.index);
        waiters.free.push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn a_silent_ssd_leaves_only_where_nothing_is_lost_with_it() {
        let silence = |lasts_s: u64, bits: u32| Silence {
            lasts: Duration::from_secs(lasts_s),
            holds_log: bits & 1 != 0,
            another_answers: bits & 2 != 0,
            holds_last_copy: bits & 4 != 0,
            dirty: bits & 8 != 0,
        };
        for bits in 0..16 {
            assert_eq!(silence(10, bits).verdict(), Verdict::Answers, "{bits:04b}");
            let silent = silence(11, bits);
            let lossless = !silent.holds_log || (silent.another_answers && !silent.holds_last_copy);
            assert_eq!(silent.verdict() == Verdict::Leaves, lossless, "{bits:04b}");
            let long = silence(151, bits);
            assert_eq!(long.verdict() == Verdict::Leaves, lossless || !long.dirty, "{bits:04b}");
        }
    }

    #[test]
    fn an_operation_is_watched_until_it_ends() {
        let watch = Watch::default();
        let operation = watch.register(Instant(1), Waker::noop().clone());
        watch.waiters.borrow_mut().free.push(operation.index);
        assert_refused("operation 0 of an SSD is watched in the place of another one", || {
            std::mem::forget(watch.register(Instant(2), Waker::noop().clone()));
        });
        watch.waiters.borrow_mut().taken[0] = None;
        assert_refused("operation 0 of an SSD ends, and was not watched", || drop(operation));
    }
}
