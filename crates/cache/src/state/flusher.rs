//! What a device's flushes cover (rule `flush-covers-all`): a flush covers the writes that had completed when it
//! started. A request joins only a device flush that starts after it arrived.

use std::cell::Cell;

use hotset_block::sync::Event;

use crate::planted::{Planted, planted};

/// Counts the writes that completed on a device, and how many of them are flushed.
pub(crate) struct Flusher {
    completed: Cell<u64>,
    covered: Cell<u64>,
    running: Cell<bool>,
    ended: Event,
}

/// A write count: everything up to it is to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// Returns when a flush that started after `mark` was taken has succeeded, by starting one or waiting for
    /// another's; or with the error of the one that it started.
    pub(crate) async fn cover<X>(&self, mark: Mark, flush: impl AsyncFn() -> Result<(), X>) -> Result<(), X> {
        while !self.covers(mark) {
            if self.running.get() {
                self.ended.wait().await;
                if planted(Planted::FlushJoinsRunningFlush) {
                    return Ok(());
                }
                continue;
            }
            let running = Running::start(self);
            let mut covers = self.completed.get();
            flush().await?;
            if planted(Planted::FlushForgetsConcurrentWrite) {
                covers = self.completed.get();
            }
            self.covered.set(covers);
            drop(running);
        }
        Ok(())
    }
}

/// One flush at a time; ends it however the task that runs it ends.
struct Running<'a>(&'a Flusher);

impl<'a> Running<'a> {
    fn start(flusher: &'a Flusher) -> Self {
        flusher.running.set(true);
        Self(flusher)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.set(false);
        self.0.ended.wake_all();
    }
}
