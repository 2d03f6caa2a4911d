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
    /// No SSD has room for one of them.
    pub(crate) stuck: Cell<bool>,
    /// Bytes copied since the first of them was wanted.
    done_bytes: Cell<u64>,
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
        if left == 0 {
            self.done_bytes.set(0);
            self.since.set(None);
        } else if self.since.get().is_none() {
            self.since.set(Some(now));
        }
        self.left.set(left);
    }

    pub(crate) fn copied(&self, bytes: u64) {
        self.done_bytes.set(self.done_bytes.get() + bytes);
    }

    /// Bytes copied, and since when; `None` while nothing is to be copied.
    pub(crate) fn progress(&self) -> Option<(u64, Instant)> {
        self.since.get().map(|since| (self.done_bytes.get(), since))
    }
}
