//! How far a scrub is, and what it found.

use std::cell::Cell;

use crate::status::{ScrubState, ScrubStatus};

/// The scrub that runs, or the last one that ended.
#[derive(Default)]
pub(crate) struct Scrub {
    status: Cell<ScrubStatus>,
    ended: Cell<Option<ScrubStatus>>,
    cancelled: Cell<bool>,
}

impl Scrub {
    /// With what is on record of the last one.
    pub(crate) fn opened(last: Option<ScrubStatus>) -> Self {
        Self { status: Cell::new(last.unwrap_or_default()), ended: Cell::new(last), cancelled: Cell::new(false) }
    }

    /// The last one that ended.
    pub(crate) fn ended(&self) -> Option<ScrubStatus> {
        self.ended.get()
    }

    /// It is over.
    pub(crate) fn end(&self) {
        self.ended.set(Some(self.status.get()));
    }

    pub(crate) fn status(&self) -> ScrubStatus {
        self.status.get()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.status.get().state == ScrubState::Running
    }

    pub(crate) fn begin(&self, total_bytes: u64) {
        self.cancelled.set(false);
        self.status.set(ScrubStatus { state: ScrubState::Running, total_bytes, ..ScrubStatus::default() });
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.set(true);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.get()
    }

    /// Adds to what was found.
    pub(crate) fn found(&self, change: impl FnOnce(&mut ScrubStatus)) {
        let mut status = self.status.get();
        change(&mut status);
        self.status.set(status);
    }
}
