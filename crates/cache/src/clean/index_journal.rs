//! The journal of one SSD's slot index as it is now: what waits to be written, what is flushed, where the ring begins.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use hotset_block::sync::Event;

use crate::format::index::Entry;

/// Stands for an entry: durable when [`Journal::is_flushed`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

#[derive(Default)]
pub(crate) struct Journal {
    pending: RefCell<VecDeque<Entry>>,
    /// Entries ever pushed, taken, and flushed.
    pushed: Cell<u64>,
    flushed: Cell<u64>,
    /// A task writes batches.
    pub(crate) writing: Cell<bool>,
    /// A task writes a checkpoint.
    pub(crate) checkpointing: Cell<bool>,
    /// The number of the next sector.
    pub(crate) next_number: Cell<u64>,
    /// The first sector that is needed beside the newest checkpoint.
    pub(crate) start: Cell<u64>,
    pub(crate) checkpoint_number: Cell<u64>,
    /// Sectors of the first lap that a torn batch left unwritten, and behind which the journal goes on.
    pub(crate) holes: RefCell<Vec<u64>>,
    event: Event,
}

impl Journal {
    pub(crate) fn push(&self, entry: Entry) -> Ticket {
        self.pending.borrow_mut().push_back(entry);
        self.pushed.set(self.pushed.get() + 1);
        Ticket(self.pushed.get())
    }

    pub(crate) fn next(&self) -> Option<Entry> {
        self.pending.borrow_mut().pop_front()
    }

    pub(crate) fn peek_fits(&self, fits: impl FnOnce(&Entry) -> bool) -> bool {
        self.pending.borrow().front().is_some_and(fits)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    /// Everything that was taken out so far is flushed.
    pub(crate) fn taken_is_flushed(&self, count: u64) {
        self.flushed.set(self.flushed.get() + count);
        self.event.wake_all();
    }

    pub(crate) fn is_flushed(&self, ticket: Ticket) -> bool {
        self.flushed.get() >= ticket.0
    }

    pub(crate) fn last_ticket(&self) -> Ticket {
        Ticket(self.pushed.get())
    }

    /// Completes at the next flush, checkpoint or failure.
    pub(crate) fn changed(&self) -> hotset_block::sync::Wait<'_> {
        self.event.wait()
    }

    pub(crate) fn wake_all(&self) {
        self.event.wake_all();
    }
}
