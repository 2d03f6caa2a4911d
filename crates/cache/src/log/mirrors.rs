//! Copies of log segments that are to be made again: how many are left, whether there is room for them, and how far it is.

use std::cell::Cell;

use hotset_block::Instant;
use hotset_block::sync::Event;

/// Whether there is room for copies that are to be made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RebuildSpace {
    /// Each has an SSD with room for it, or none is wanted.
    #[default]
    Enough,
    /// No SSD has room for one of them, but new rows would hold all that is dirty, twice: it is moved instead.
    Compact,
    /// No SSD has room for one of them, and new rows would not hold all that is dirty.
    Insufficient,
}

/// See the file's summary.
#[derive(Default)]
pub(crate) struct Mirrors {
    /// Copies that are lost, or on an SSD that is to be removed.
    left: Cell<usize>,
    /// Those of them that are lost.
    lost: Cell<usize>,
    space: Cell<RebuildSpace>,
    /// Copies that were made, or are not wanted any more, since the first of them was wanted.
    done: Cell<usize>,
    since: Cell<Option<Instant>>,
    /// There may be something to copy.
    pub(crate) wanted: Event,
    pub(super) ended: Cell<bool>,
}

impl Mirrors {
    pub(crate) fn space(&self) -> RebuildSpace {
        self.space.get()
    }

    /// True: it was another one.
    pub(crate) fn set_space(&self, space: RebuildSpace) -> bool {
        self.space.replace(space) != space
    }

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
