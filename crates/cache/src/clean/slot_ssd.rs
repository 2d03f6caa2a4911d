//! One SSD as clean copies see it: its slots that are ready or wait to be, and its slot index.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;

use hotset_block::Env;

use crate::address::SlotIndex;
use crate::clean::grace::Grace;
use crate::clean::index_journal::Journal;
use crate::members::ssd::Ssd;

/// Places that the list of ready slots keeps however few they are.
const READY_KEPT: usize = 1024;

/// An SSD with its slots; of the SSD itself it knows what [`Ssd`] says.
pub(crate) struct SlotSsd<E: Env> {
    pub(crate) ssd: Rc<Ssd<E>>,
    /// The pool-wide index of its first slot.
    pub(crate) first_slot: Cell<SlotIndex>,
    /// Slots that can be filled.
    pub(crate) ready: RefCell<Vec<u32>>,
    pub(crate) grace: Grace,
    /// Fills so far; the next one's generation are its low 32 bits.
    pub(crate) fills: Cell<u64>,
    pub(crate) fill_ceiling: Cell<u64>,
    pub(crate) journal: Journal,
    pub(crate) slots_used: Cell<u32>,
}

impl<E: Env> Deref for SlotSsd<E> {
    type Target = Ssd<E>;

    fn deref(&self) -> &Ssd<E> {
        &self.ssd
    }
}

impl<E: Env> SlotSsd<E> {
    pub(crate) fn new(ssd: Rc<Ssd<E>>, first_slot: SlotIndex) -> Self {
        Self {
            ssd,
            first_slot: Cell::new(first_slot),
            ready: RefCell::default(),
            grace: Grace::default(),
            fills: Cell::new(0),
            fill_ceiling: Cell::new(0),
            journal: Journal::default(),
            slots_used: Cell::new(0),
        }
    }

    /// Its slots among all of the pool.
    pub(crate) fn slots(&self) -> Range<u32> {
        let first = self.first_slot.get().0;
        first..first + self.layout.slot_count()
    }

    /// The slot's index on this SSD.
    pub(crate) fn local(&self, slot: SlotIndex) -> u32 {
        slot.0 - self.first_slot.get().0
    }

    pub(crate) fn slot_index(&self, local: u32) -> SlotIndex {
        SlotIndex(self.first_slot.get().0 + local)
    }

    /// A slot to fill. The list gives its memory back while it empties, so that the free slots of a new pool take
    /// nothing once they are in use.
    pub(crate) fn take_ready(&self) -> Option<u32> {
        let mut ready = self.ready.borrow_mut();
        let local = ready.pop()?;
        if ready.capacity() > READY_KEPT && ready.capacity() / 4 > ready.len() {
            let half = ready.capacity() / 2;
            ready.shrink_to(half);
        }
        Some(local)
    }

    /// Takes the slots of this range that are ready.
    pub(crate) fn take_ready_of(&self, slots: &Range<u32>) -> Vec<u32> {
        let mut ready = self.ready.borrow_mut();
        let taken = ready.iter().copied().filter(|local| slots.contains(local)).collect();
        ready.retain(|local| !slots.contains(local));
        taken
    }

    /// The generation of the next fill; `None` until a checkpoint has raised the ceiling.
    pub(crate) fn next_generation(&self) -> Option<u32> {
        let fills = self.fills.get();
        (fills < self.fill_ceiling.get()).then(|| {
            self.fills.set(fills + 1);
            crate::address::low_half(fills)
        })
    }

    /// The memory that grows with the number of slots that are ready.
    pub(crate) fn memory_bytes(&self) -> u64 {
        crate::address::vec_bytes(&self.ready.borrow())
    }

    /// It is out of use: nothing is filled there any more, and nobody waits for its index.
    pub(crate) fn went_out_of_use(&self) {
        self.ready.take();
        self.journal.wake_all();
    }

    /// Nothing of it is in use any more: another SSD may have its slots.
    pub(crate) fn gives_slots_away(&self) -> bool {
        self.life().is_forgotten() && !self.is_busy() && self.grace.is_quiet()
    }
}
