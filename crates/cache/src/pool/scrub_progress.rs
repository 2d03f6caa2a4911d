//! How far a scrub is, and what it found.

use std::cell::Cell;

use crate::status::{ScrubState, ScrubStatus, UnfinishedScrub};

/// The scrub that runs, or the last one that ended.
#[derive(Default)]
pub(crate) struct Scrub {
    status: Cell<ScrubStatus>,
    ended: Cell<Option<ScrubStatus>>,
    unfinished: Cell<Option<UnfinishedScrub>>,
    cancelled: Cell<bool>,
}

impl Scrub {
    /// With what is on record of the last one.
    pub(crate) fn opened(last: Option<ScrubStatus>) -> Self {
        Self { status: Cell::new(last.unwrap_or_default()), ended: Cell::new(last), ..Self::default() }
    }

    /// The last one that ended.
    pub(crate) fn ended(&self) -> Option<ScrubStatus> {
        self.ended.get()
    }

    /// It is over.
    pub(crate) fn end(&self) {
        self.unfinished.set(None);
        self.ended.set(Some(self.status.get()));
    }

    /// It is cut off: what is known is the last one that ended.
    pub(crate) fn cut_off(&self) {
        self.unfinished.set(None);
        self.status.set(self.ended.get().unwrap_or_default());
    }

    pub(crate) fn status(&self) -> ScrubStatus {
        self.status.get()
    }

    /// How far the one is that runs.
    pub(crate) fn unfinished(&self) -> Option<UnfinishedScrub> {
        self.unfinished.get()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.status.get().state == ScrubState::Running
    }

    /// `from`: where it begins, with what was found before.
    pub(crate) fn begin(&self, from: UnfinishedScrub) {
        self.cancelled.set(false);
        self.status.set(ScrubStatus { state: ScrubState::Running, seconds: 0, ..from.found });
        self.unfinished.set(Some(from));
    }

    /// The slots up to this one are checked, after so many seconds in all.
    pub(crate) fn checked_slots(&self, slots_checked: u32, seconds: u64) {
        let found = ScrubStatus { seconds, ..self.status.get() };
        let reached = |unfinished| UnfinishedScrub { found, slots_checked, ..unfinished };
        self.unfinished.set(self.unfinished.get().map(reached));
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
