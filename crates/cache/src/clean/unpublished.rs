//! Slots that were filled and are not believed yet (rule `publish-late`).

use std::cell::{Cell, RefCell};
use std::ops::Range;

use hotset_block::sync::{Event, Permit, Semaphore, Wait};

use crate::address::{SlotIndex, SsdIndex};
use crate::clean::index_journal::Ticket;
use crate::clean::pending_drops::Drops;

/// So many new ones are published before their time.
const PUBLISH_AT: usize = 512;

/// As many new ones as are this part of all: those of a volume whose backing device does not flush are looked through each time.
const PUBLISH_SHARE: usize = 4;

/// A slot as it was filled: it may hold something else by now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(super) slot: SlotIndex,
    pub(super) generation: u32,
}

/// See the file's summary.
pub(crate) struct Unpublished {
    slots: RefCell<Vec<Filled>>,
    /// So many of them came since some were last taken to be published.
    new: Cell<usize>,
    /// So many were taken to be published, and are flushed meanwhile.
    taken: Cell<usize>,
    /// Published: believed as soon as these entries are durable.
    entries: RefCell<Drops>,
    wanted: Event,
    /// One publishes at a time.
    lock: Semaphore,
}

impl Default for Unpublished {
    fn default() -> Self {
        let (slots, entries) = Default::default();
        let (new, taken) = (Cell::new(0), Cell::new(0));
        Self { slots, new, taken, entries, wanted: Event::new(), lock: Semaphore::new(1) }
    }
}

impl Unpublished {
    pub(super) fn add(&self, filled: Filled) {
        self.slots.borrow_mut().push(filled);
        self.new.set(self.new.get() + 1);
        if self.new.get() >= PUBLISH_AT.max(self.slots.borrow().len() / PUBLISH_SHARE) {
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

    /// Those that are published next. [`Self::published`] says that they were.
    pub(crate) fn take_to_publish(&self) -> Vec<Filled> {
        let batch = self.take();
        self.new.set(0);
        self.taken.set(batch.len());
        batch
    }

    /// What was taken is published, but for what was put back.
    pub(super) fn published(&self, new: &[(SsdIndex, Ticket)], is_durable: impl Fn(SsdIndex, Ticket) -> bool) {
        self.taken.set(0);
        let mut entries = self.entries.borrow_mut();
        entries.retain(|(ssd, ticket)| !is_durable(*ssd, *ticket));
        entries.extend_from_slice(new);
    }

    /// How many slots a crash now would leave out, at most: one that holds something else by now counts until it would be published.
    pub(super) fn count(&self, is_durable: impl Fn(SsdIndex, Ticket) -> bool) -> usize {
        let entries = self.entries.borrow();
        let believed_soon = entries.iter().filter(|(ssd, ticket)| !is_durable(*ssd, *ticket)).count();
        self.slots.borrow().len() + self.taken.get() + believed_soon
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
    use std::pin::pin;

    use futures_util::FutureExt;

    use super::*;
    use crate::clean::index_journal::Journal;
    use crate::format::index::IndexEntry;

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

    #[test]
    fn what_cannot_be_published_brings_no_other_before_its_time() {
        let unpublished = Unpublished::default();
        (0..6000).for_each(|slot| unpublished.add(filled(slot)));
        unpublished.take_to_publish().into_iter().for_each(|filled| unpublished.put_back(filled));
        let mut wanted = pin!(unpublished.wanted());
        let mut is_wanted = || wanted.as_mut().now_or_never().is_some();
        assert!(!is_wanted());
        (6000..7900).for_each(|slot| unpublished.add(filled(slot)));
        assert!(!is_wanted(), "most of what would be looked through has been before");
        (7900..8002).for_each(|slot| unpublished.add(filled(slot)));
        assert!(is_wanted());
    }

    #[test]
    fn a_slot_counts_from_its_fill_until_its_entry_is_durable() {
        let (unpublished, journal) = (Unpublished::default(), Journal::default());
        let entry = || journal.push(IndexEntry::Drop { slot: 0, generation: 1, first_page: 0, page_count: 1 });
        let (one, other) = ((SsdIndex(0), entry()), (SsdIndex(1), entry()));
        let count = |durable: &[SsdIndex]| unpublished.count(|ssd, _| durable.contains(&ssd));
        (0..3).for_each(|slot| unpublished.add(filled(slot)));
        assert_eq!(count(&[]), 3);
        assert_eq!(unpublished.take_to_publish().len(), 3);
        unpublished.add(filled(3));
        assert_eq!(count(&[]), 4);
        unpublished.put_back(filled(2));
        unpublished.published(&[one, other], |_, _| false);
        assert_eq!(count(&[]), 4);
        assert_eq!(count(&[SsdIndex(1)]), 3);
        unpublished.published(&[], |ssd, _| ssd == SsdIndex(1));
        assert_eq!(count(&[SsdIndex(0)]), 2);
    }
}
