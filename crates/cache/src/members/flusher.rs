//! What a device's flushes cover (rule `flush-covers-all`): a flush covers the writes that had completed when it
//! started. `members/flush.rs` runs them.

use std::cell::Cell;

use hotset_block::sync::{Event, Wait};

/// Counts the writes that completed on a device, and how many of them are flushed.
pub(crate) struct Flusher {
    completed: Cell<u64>,
    covered: Cell<u64>,
    running: Cell<bool>,
    ended: Event,
}

/// A count of writes: everything up to it is to be durable, or is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

impl Flusher {
    /// Of a device that may hold unflushed writes from before it was opened: the first flush is always needed.
    pub(crate) fn new() -> Self {
        Self { completed: Cell::new(1), covered: Cell::new(0), running: Cell::new(false), ended: Event::new() }
    }

    /// A write (or discard) completed, well or not. Called before anybody is told.
    pub(crate) fn wrote(&self) {
        self.completed.set(self.completed.get() + 1);
    }

    /// Stands for every write that has completed by now.
    pub(crate) fn mark(&self) -> Mark {
        Mark(self.completed.get())
    }

    pub(crate) fn covers(&self, mark: Mark) -> bool {
        self.covered.get() >= mark.0
    }

    /// Everything up to `mark` is durable.
    pub(crate) fn set_covered(&self, mark: Mark) {
        let completed = self.completed.get();
        assert!(mark.0 <= completed, "a flush covers {} writes, and {completed} have completed", mark.0);
        self.covered.set(self.covered.get().max(mark.0));
    }

    /// The only flush at this time; `None` while another one runs.
    pub(crate) fn start(&self) -> Option<FlushInFlight<'_>> {
        (!self.running.replace(true)).then(|| FlushInFlight(self))
    }

    /// Completes when the flush that runs now has ended.
    pub(crate) fn ended(&self) -> Wait<'_> {
        self.ended.wait()
    }
}

/// A flush that runs; it ends when this is dropped, however the task that runs it ends.
pub(crate) struct FlushInFlight<'a>(&'a Flusher);

impl Drop for FlushInFlight<'_> {
    fn drop(&mut self) {
        let was_running = self.0.running.replace(false);
        assert!(was_running, "a flush ends, and none ran: two may have run at once");
        self.0.ended.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn a_flush_covers_what_completed_before_it_started_and_nothing_later() {
        let flusher = Flusher::new();
        let early = flusher.mark();
        assert!(!flusher.covers(early), "a device that was just opened may hold unflushed writes");
        let started = flusher.mark();
        flusher.wrote();
        let late = flusher.mark();
        flusher.set_covered(started);
        assert!(flusher.covers(early) && !flusher.covers(late));
    }

    #[test]
    fn one_flush_runs_at_a_time() {
        let flusher = Flusher::new();
        let running = flusher.start();
        assert!(running.is_some() && flusher.start().is_none());
        drop(running);
        assert!(flusher.start().is_some());
    }

    #[test]
    #[should_panic(expected = "a flush covers 2 writes, and 1 have completed")]
    fn a_flush_covers_no_write_that_has_not_completed() {
        let (flusher, other) = (Flusher::new(), Flusher::new());
        other.wrote();
        flusher.set_covered(other.mark());
    }

    #[test]
    fn a_flush_ends_once() {
        let flusher = Flusher::new();
        let running = flusher.start();
        flusher.running.set(false);
        assert_refused("a flush ends, and none ran", || drop(running));
    }
}
