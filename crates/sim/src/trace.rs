//! The history of a world: a hash of everything that happened, and, if asked for, the last lines in words.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::random::mix;

/// Lines kept: enough to see what led to a violation.
const LINES_MAX: usize = 20_000;

/// See the file's summary.
pub struct Trace {
    hash: Cell<u64>,
    traced: bool,
    lines: RefCell<VecDeque<String>>,
    violation: RefCell<Option<String>>,
}

impl Trace {
    pub fn new(traced: bool) -> Self {
        Self { hash: Cell::new(0), traced, lines: RefCell::default(), violation: RefCell::default() }
    }

    /// Takes a fact into the hash.
    pub fn mix(&self, fact: u64) {
        self.hash.set(mix(self.hash.get() ^ fact));
    }

    /// Two histories with the same hash are the same.
    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    /// Writes a line, if lines are wanted.
    pub fn note(&self, now: u64, line: impl FnOnce() -> String) {
        if !self.traced {
            return;
        }
        let mut lines = self.lines.borrow_mut();
        if lines.len() == LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(format!("{:>12.6} {}", std::time::Duration::from_nanos(now).as_secs_f64(), line()));
    }

    /// The last `count` lines.
    pub fn tail(&self, count: usize) -> Vec<String> {
        let lines = self.lines.borrow();
        lines.iter().skip(lines.len().saturating_sub(count)).cloned().collect()
    }

    /// Something happened that must not. The first one counts: the world has no meaning after it.
    pub fn violate(&self, now: u64, what: String) {
        self.note(now, || format!("VIOLATION {what}"));
        self.violation.borrow_mut().get_or_insert(what);
    }

    pub fn violation(&self) -> Option<String> {
        self.violation.borrow().clone()
    }
}
