//! Copies of log segments that are to be made again: how many are left, whether there is room for them, and how far it is.

use std::cell::Cell;

use hotset_block::Instant;
use hotset_block::sync::Event;

/// See the file's summary.
#[derive(Default)]
pub(crate) struct Mirrors {
    /// Copies that are lost, or on an SSD that is to be removed.
    left: Cell<usize>,
    /// Those of them that are lost.
    lost: Cell<usize>,
    /// No SSD has room for one of them, but new rows would hold all that is dirty, twice: it is moved instead.
    pub(crate) crowded: Cell<bool>,
    /// No SSD has room for one of them, and they would not.
    pub(crate) stuck: Cell<bool>,
    /// Copies that were made, or are not wanted any more, since the first of them was wanted.
    done: Cell<usize>,
    since: Cell<Option<Instant>>,
    /// There may be something to copy.
    pub(crate) wanted: Event,
    pub(crate) ended: Cell<bool>,
}

impl Mirrors {
    pub(crate) fn left(&self) -> usize {
        self.left.get()
    }

    /// Whether any page has one copy only.
    pub(crate) fn any_lost(&self) -> bool {
        self.lost.get() > 0
    }

    /// So many copies are to be made, and so many of them are lost.
    pub(crate) fn set_left(&self, left: usize, lost: usize, now: Instant) {
        self.lost.set(lost);
        self.done.set(self.done.get() + self.left.replace(left).saturating_sub(left));
        if left == 0 {
            self.done.set(0);
            self.since.set(None);
        } else if self.since.get().is_none() {
            self.since.set(Some(now));
        }
    }

    /// Copies that are made or not wanted any more, and since when; `None` while none is wanted.
    pub(crate) fn progress(&self) -> Option<(usize, Instant)> {
        self.since.get().map(|since| (self.done.get(), since))
    }
}
