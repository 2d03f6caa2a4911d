//! One SSD as clean copies see it: its slots that are ready or wait to be, and its slot index.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;

use hotset_block::Env;

use crate::address::{SlotIndex, low_half};
use crate::clean::grace::{Epoch, Grace};
use crate::clean::index_journal::Journal;
use crate::members::ssd::Ssd;

/// Places that the list of ready slots keeps however few they are.
const READY_KEPT: usize = 1024;

/// An SSD with its slots; of the SSD itself it knows what [`Ssd`] says.
pub(crate) struct SlotSsd<E: Env> {
    pub(crate) ssd: Rc<Ssd<E>>,
    /// The pool-wide index of its first slot.
    first_slot: Cell<SlotIndex>,
    /// Slots that can be filled.
    ready: RefCell<Vec<u32>>,
    grace: Grace,
    /// Fills so far; the next one's generation are its low 32 bits.
    fills: Cell<u64>,
    fill_ceiling: Cell<u64>,
    slots_used: Cell<u32>,
    pub(super) journal: Journal,
}

impl<E: Env> Deref for SlotSsd<E> {
    type Target = Ssd<E>;

    fn deref(&self) -> &Ssd<E> {
        &self.ssd
    }
}

impl<E: Env> SlotSsd<E> {
    /// One that joins: it has no slots yet ([`Self::has_slots_from`]).
    pub(crate) fn new(ssd: Rc<Ssd<E>>) -> Self {
        Self {
            ssd,
            first_slot: Cell::new(SlotIndex(0)),
            ready: RefCell::default(),
            grace: Grace::default(),
            fills: Cell::new(0),
            fill_ceiling: Cell::new(0),
            slots_used: Cell::new(0),
            journal: Journal::default(),
        }
    }

    pub(super) fn has_slots_from(&self, first: SlotIndex) {
        self.first_slot.set(first);
    }

    /// Its slots among all of the pool.
    pub(super) fn slots(&self) -> Range<u32> {
        let first = self.first_slot.get().0;
        first..first + self.layout.slot_count()
    }

    /// The slot's index on this SSD.
    pub(super) fn local(&self, slot: SlotIndex) -> u32 {
        slot.0 - self.first_slot.get().0
    }

    pub(super) fn slot_index(&self, local: u32) -> SlotIndex {
        SlotIndex(self.first_slot.get().0 + local)
    }

    /// The segment that the slot is in is for slots, and is not on its way to the log.
    pub(super) fn is_for_slots(&self, local: u32) -> bool {
        let segments = self.segments.borrow();
        segments.is_for_slots(segments.of(local))
    }

    /// Where a page of a slot lies on the SSD.
    pub(super) fn page_offset(&self, local: u32, page: u32) -> u64 {
        self.layout.slot_offset(local) + self.layout.header_bytes() + u64::from(page) * crate::config::PAGE
    }
}

/// Slots that can be filled.
impl<E: Env> SlotSsd<E> {
    pub(super) fn ready_count(&self) -> usize {
        self.ready.borrow().len()
    }

    /// How many of its slots are ready, in millionths.
    pub(super) fn ready_share(&self) -> u64 {
        let ready = u64::try_from(self.ready_count()).expect("slots fit in memory");
        ready * 1_000_000 / u64::from(self.layout.slot_count())
    }

    pub(super) fn add_ready(&self, slots: impl IntoIterator<Item = u32>) {
        self.ready.borrow_mut().extend(slots);
    }

    /// Every slot is free, as its slot index is empty.
    pub(super) fn all_are_ready(&self) {
        let segments = self.segments.borrow();
        let free = (0..self.layout.slot_count()).rev().filter(|local| segments.is_for_slots(segments.of(*local)));
        *self.ready.borrow_mut() = free.collect();
    }

    /// Whether a block can be filled into it now: it takes writes, and has a slot and a generation for it.
    pub(super) fn can_be_filled(&self) -> bool {
        let has_generation = self.fills.get() < self.fill_ceiling.get();
        self.life().may_take_batches() && self.ready_count() > 0 && has_generation
    }

    /// A slot to fill, and the generation of that fill: none before a checkpoint has raised the ceiling. The list gives its memory
    /// back while it empties, so that the free slots of a new pool take nothing once they are in use.
    pub(super) fn take_ready(&self) -> Option<(u32, u32)> {
        let fills = self.fills.get();
        if fills >= self.fill_ceiling.get() {
            return None;
        }
        let mut ready = self.ready.borrow_mut();
        let local = ready.pop()?;
        self.fills.set(fills + 1);
        if ready.capacity() > READY_KEPT && ready.capacity() / 4 > ready.len() {
            let half = ready.capacity() / 2;
            ready.shrink_to(half);
        }
        Some((local, low_half(fills)))
    }

    /// Takes the slots of this range that are ready.
    pub(super) fn take_ready_of(&self, slots: &Range<u32>) -> Vec<u32> {
        self.ready.borrow_mut().extract_if(.., |local| slots.contains(local)).collect()
    }

    /// The slot holds a block from now on.
    pub(super) fn slot_is_used(&self) {
        self.slots_used.set(self.slots_used.get() + 1);
    }

    /// A slot holds nothing any more.
    pub(super) fn slot_is_freed(&self) {
        self.slots_used.set(self.slots_used.get() - 1);
    }

    /// Slots that hold blocks.
    pub(super) fn slots_used(&self) -> u32 {
        self.slots_used.get()
    }

    /// Generations begin here, as a start found: nothing on the SSD has one from here on.
    pub(super) fn fills_begin_at(&self, generation: u64) {
        self.fills.set(generation);
    }

    /// So many fills were begun in all of its life.
    pub(super) fn fills(&self) -> u64 {
        self.fills.get()
    }

    /// A checkpoint is durable that says so: fills below this may begin.
    pub(super) fn raise_ceiling(&self, ceiling: u64) {
        self.fill_ceiling.set(ceiling);
    }
}

/// Reads in flight, and slots that wait for them.
impl<E: Env> SlotSsd<E> {
    pub(super) fn begin_read(&self) -> Epoch {
        self.grace.begin()
    }

    /// True: more slots can be filled now.
    pub(super) fn end_read(&self, epoch: Epoch) -> bool {
        self.grace.end(epoch) && self.collect_ready()
    }

    /// Nothing believes a freed slot any more: it is ready when the reads that may have found it have ended. True: more slots can
    /// be filled now.
    pub(super) fn reclaim(&self, local: u32) -> bool {
        self.grace.free(local);
        self.collect_ready()
    }

    /// Takes over the slots that no read can see any more.
    fn collect_ready(&self) -> bool {
        let mut ready = self.grace.take_ready();
        let before = ready.len();
        ready.retain(|local| !self.segments.borrow_mut().release_slot(*local));
        if ready.len() < before {
            self.wake_for_segments();
        }
        if !self.is_online() || ready.is_empty() {
            return false;
        }
        self.ready.borrow_mut().append(&mut ready);
        true
    }

    /// Freed slots that wait for reads.
    pub(super) fn slots_in_limbo(&self) -> usize {
        self.grace.in_limbo()
    }
}

/// Its life.
impl<E: Env> SlotSsd<E> {
    /// It is out of use: nothing is filled there any more, and nobody waits for its index.
    pub(super) fn went_out_of_use(&self) {
        self.ready.take();
        self.journal.wake_all();
    }

    /// Nothing of it is in use any more: another SSD may have its slots.
    pub(super) fn gives_slots_away(&self) -> bool {
        self.life().is_forgotten() && !self.is_busy() && self.grace.is_quiet()
    }

    /// The memory that grows with the number of slots that are ready.
    pub(super) fn memory_bytes(&self) -> u64 {
        crate::address::vec_bytes(&self.ready.borrow())
    }
}
