//! Slots that were filled and are not believed yet (rule `publish-late`).

use std::cell::RefCell;
use std::ops::Range;

use hotset_block::sync::{Event, Permit, Semaphore, Wait};

use crate::address::SlotIndex;

/// So many are published before their time.
const PUBLISH_AT: usize = 512;

/// A slot as it was filled: it may hold something else by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(super) slot: SlotIndex,
    pub(super) generation: u32,
}

/// See the file's summary.
pub(crate) struct Unpublished {
    slots: RefCell<Vec<Filled>>,
    wanted: Event,
    /// One publishes at a time.
    lock: Semaphore,
}

impl Default for Unpublished {
    fn default() -> Self {
        Self { slots: RefCell::default(), wanted: Event::new(), lock: Semaphore::new(1) }
    }
}

impl Unpublished {
    pub(super) fn add(&self, filled: Filled) {
        self.slots.borrow_mut().push(filled);
        if self.slots.borrow().len() >= PUBLISH_AT {
            self.wanted.wake_all();
        }
    }

    /// It could not be published this time.
    pub(super) fn put_back(&self, filled: Filled) {
        self.slots.borrow_mut().push(filled);
    }

    /// Nothing is published, and nothing on its way to be, while somebody has this.
    pub(crate) fn hold(&self) -> impl Future<Output = Permit> {
        self.lock.acquire(1)
    }

    pub(crate) fn take(&self) -> Vec<Filled> {
        self.slots.take()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.borrow().is_empty()
    }

    /// These slots are another SSD's now.
    pub(super) fn forget(&self, slots: &Range<u32>) {
        self.slots.borrow_mut().retain(|filled| !slots.contains(&filled.slot.0));
    }

    /// Completes when so many wait that they are published before their time, or the pool stops.
    pub(crate) fn wanted(&self) -> Wait<'_> {
        self.wanted.wait()
    }

    pub(crate) fn wake(&self) {
        self.wanted.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(slot: u32) -> Filled {
        Filled { slot: SlotIndex(slot), generation: slot + 7 }
    }

    #[test]
    fn what_is_taken_and_not_published_is_there_for_the_next_time() {
        let unpublished = Unpublished::default();
        (0..3).for_each(|slot| unpublished.add(filled(slot)));
        assert_eq!(unpublished.take(), [filled(0), filled(1), filled(2)]);
        assert!(unpublished.is_empty());
        unpublished.put_back(filled(1));
        unpublished.add(filled(9));
        unpublished.forget(&(2..20));
        assert_eq!(unpublished.take(), [filled(1)], "the other's slot is another SSD's");
    }
}
