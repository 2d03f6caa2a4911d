//! One SSD as clean copies see it: its slots that are ready or wait to be, and its slot index.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;

use hotset_block::Env;

use crate::address::{SlotIndex, low_half};
use crate::clean::grace::{Epoch, Grace, ReadsSoFar};
use crate::clean::index_journal::Journal;
use crate::clean::pending_drops::DropDurable;
use crate::format::layout::SlotPlaces;
use crate::members::ssd::Ssd;

/// Places that the list of ready slots keeps however few they are.
const READY_KEPT: usize = 1024;

/// An SSD with its slots; of the SSD itself it knows what [`Ssd`] says.
pub(crate) struct SlotSsd<E: Env> {
    pub(crate) ssd: Rc<Ssd<E>>,
    /// The pool-wide index of its first slot.
    first_slot: Cell<SlotIndex>,
    places: SlotPlaces,
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
            first_slot: Cell::new(SlotIndex(0)),
            places: ssd.layout.slot_places(),
            ready: RefCell::default(),
            grace: Grace::default(),
            fills: Cell::new(0),
            fill_ceiling: Cell::new(0),
            slots_used: Cell::new(0),
            journal: Journal::default(),
            ssd,
        }
    }

    pub(super) fn has_slots_from(&self, first: SlotIndex) {
        assert_eq!(self.slots_used(), 0, "SSD {} gets other slots while blocks are in those that it has", self.path);
        self.first_slot.set(first);
    }

    /// Its slots among all of the pool.
    pub(super) fn slots(&self) -> Range<u32> {
        let first = self.first_slot.get().0;
        first..first + self.layout.slot_count()
    }

    /// The slot's index on this SSD.
    pub(super) fn local(&self, slot: SlotIndex) -> u32 {
        let first = self.first_slot.get();
        assert!(slot >= first, "{slot:?} is of another SSD than {}, whose slots begin at {first:?}", self.path);
        slot.0 - first.0
    }

    pub(super) fn slot_index(&self, local: u32) -> SlotIndex {
        SlotIndex(self.first_slot.get().0 + local)
    }

    /// The segment that the slot is in is for slots, and is not on its way to the log.
    pub(super) fn is_for_slots(&self, local: u32) -> bool {
        let segments = &self.segments;
        segments.is_for_slots(segments.of(local))
    }

    /// Where a page of a slot lies on the SSD.
    pub(super) fn page_offset(&self, local: u32, page: u32) -> u64 {
        self.places.offset(local) + self.layout.header_bytes() + u64::from(page) * crate::config::PAGE
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
        self.assert_ready();
    }

    /// A slot that were ready twice would be given to two blocks.
    fn assert_ready(&self) {
        let (ready, all) = (self.ready_count(), crate::address::at(self.layout.slot_count()));
        assert!(ready <= all, "SSD {}: {ready} slots are ready of {all}", self.path);
    }

    /// Every slot is free, as its slot index is empty.
    pub(super) fn all_are_ready(&self) {
        assert_eq!(self.slots_used(), 0, "SSD {}: its index is emptied, and blocks are in its slots", self.path);
        let segments = &self.segments;
        let free = (0..self.layout.slot_count()).rev().filter(|local| segments.is_for_slots(segments.of(*local)));
        *self.ready.borrow_mut() = free.collect();
    }

    /// Whether a block can be filled into it now: it takes writes, and has a slot and a generation for it.
    pub(super) fn can_be_filled(&self) -> bool {
        let has_generation = self.fills.get() < self.fill_ceiling.get();
        self.life().may_take_batches() && self.ready_count() > 0 && has_generation
    }

    /// Fills that there may be until a checkpoint raises the ceiling.
    pub(super) fn generations_left(&self) -> u64 {
        self.fill_ceiling.get().saturating_sub(self.fills.get())
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
        self.segments.begin_fill(local, low_half(fills));
        self.fills.set(fills + 1);
        if ready.capacity() > READY_KEPT && ready.capacity() / 4 > ready.len() {
            let half = ready.capacity() / 2;
            ready.shrink_to(half);
        }
        Some((local, low_half(fills)))
    }

    /// The fill with this generation, which has the slot, writes to it from here on.
    pub(super) fn begin_fill_write(&self, local: u32, generation: u32) {
        self.segments.begin_fill_write(local, generation);
    }

    /// Nothing more is written to the slot by the fill with this generation: it is used from here on, or reclaimed.
    pub(super) fn fill_ended(&self, local: u32, generation: u32) {
        self.segments.end_fill(local, generation);
    }

    /// Takes the slots of this range that are ready.
    pub(super) fn take_ready_of(&self, slots: &Range<u32>) -> Vec<u32> {
        self.ready.borrow_mut().extract_if(.., |local| slots.contains(local)).collect()
    }

    /// The slot holds a block from now on.
    pub(super) fn slot_is_used(&self) {
        let used = self.slots_used.get() + 1;
        assert!(used <= self.layout.slot_count(), "SSD {}: more slots are used than it has", self.path);
        self.slots_used.set(used);
    }

    /// A slot holds nothing any more.
    pub(super) fn slot_is_freed(&self) {
        let used = self.slots_used.get();
        assert!(used > 0, "SSD {}: a slot is freed, and none is used", self.path);
        self.slots_used.set(used - 1);
    }

    /// Slots that hold blocks.
    pub(super) fn slots_used(&self) -> u32 {
        self.slots_used.get()
    }

    /// Generations begin here, as a start found: nothing on the SSD has one from here on.
    pub(super) fn fills_begin_at(&self, generation: u64) {
        let before = self.fills.get();
        assert!(generation >= before, "SSD {}: generation {generation} would be used after {before}", self.path);
        self.fills.set(generation);
    }

    /// So many fills were begun in all of its life.
    pub(super) fn fills(&self) -> u64 {
        self.fills.get()
    }

    /// A checkpoint is durable that says so: fills below this may begin.
    pub(super) fn raise_ceiling(&self, ceiling: u64) {
        assert!(ceiling >= self.fills.get(), "SSD {}: a checkpoint is behind the fills that there were", self.path);
        let before = self.fill_ceiling.replace(ceiling);
        assert!(ceiling >= before, "SSD {}: fills below {before} may begin, and a checkpoint denies it", self.path);
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

    /// The reads that are in flight now.
    pub(super) fn reads_so_far(&self) -> ReadsSoFar {
        self.grace.so_far()
    }

    /// Whether these reads have ended, and whether more slots can be filled now.
    pub(super) fn have_ended(&self, reads: ReadsSoFar) -> (bool, bool) {
        let more_ready = self.collect_ready();
        (self.grace.have_ended(reads), more_ready)
    }

    /// The drop of a freed slot is durable: nothing believes it any more. True: more slots can be filled now.
    pub(super) fn reclaim(&self, freed: &DropDurable) -> bool {
        let is_flushed = freed.ssd() == self.index && self.journal.is_flushed(freed.ticket());
        assert!(is_flushed, "SSD {}: slot {} is freed before its drop is durable", self.path, freed.local());
        self.reclaim_unpublished(freed.local())
    }

    /// Nothing ever believed what was in a freed slot, or was on its way there. It is ready when the reads that may have found it
    /// have ended. True: more slots can be filled now.
    pub(super) fn reclaim_unpublished(&self, local: u32) -> bool {
        self.grace.free(local);
        self.collect_ready()
    }

    /// Takes over the slots that no read can see any more.
    fn collect_ready(&self) -> bool {
        let mut ready = self.grace.take_ready();
        let before = ready.len();
        ready.retain(|local| !self.segments.release_slot(*local));
        if ready.len() < before {
            self.wake_for_segments();
        }
        if !self.is_online() || ready.is_empty() {
            return false;
        }
        self.ready.borrow_mut().append(&mut ready);
        self.assert_ready();
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

#[cfg(test)]
mod tests {
    use hotset_block::{Executor, ExecutorOptions, HostEnv};

    use super::*;
    use crate::address::{BlockIndex, BlockKey, SsdIndex, VolumeIndex};
    use crate::clean::pending_drops::PendingDrops;
    use crate::format::index::IndexEntry;
    use crate::members::ssd::tests::new_ssd;
    use crate::refused::assert_refused;

    /// An SSD of which every slot is ready.
    fn with_ssd(test: impl FnOnce(&SlotSsd<HostEnv>)) {
        Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring").run(async |env| {
            let ssd = SlotSsd::new(Rc::new(new_ssd(env)));
            ssd.raise_ceiling(100);
            ssd.all_are_ready();
            test(&ssd);
        });
    }

    /// What stands for the freed slot `local`, whose drop is not flushed yet, where `is_flushed` says that it is.
    fn freed(ssd: &SlotSsd<HostEnv>, local: u32) -> DropDurable {
        let entry = IndexEntry::Drop { slot: local, generation: 0, first_page: 0, page_count: 16 };
        let ticket = ssd.journal.push(entry);
        let mut pending = PendingDrops::default();
        pending.queued(BlockKey { volume: VolumeIndex(0), block: BlockIndex(0) }, SsdIndex(0), ticket);
        pending.free_after(ssd.index, local, ticket);
        pending.flushed(ssd.index, |_| true).pop().expect("it waited")
    }

    fn filled(ssd: &SlotSsd<HostEnv>) -> u32 {
        let (local, generation) = ssd.take_ready().expect("every slot is ready");
        ssd.begin_fill_write(local, generation);
        ssd.fill_ended(local, generation);
        ssd.slot_is_used();
        local
    }

    #[test]
    fn a_freed_slot_is_ready_when_its_drop_is_durable_and_its_reads_have_ended() {
        with_ssd(|ssd| {
            let (local, ready) = (filled(ssd), ssd.ready_count());
            let reading = ssd.begin_read();
            let freed = freed(ssd, local);
            ssd.slot_is_freed();
            ssd.journal.taken_is_flushed(ssd.journal.take_batch(0, 512, 1).entries);
            assert!(!ssd.reclaim(&freed) && ssd.ready_count() == ready);
            assert!(ssd.end_read(reading) && ssd.ready_count() == ready + 1);
        });
    }

    #[test]
    #[should_panic(expected = "is freed before its drop is durable")]
    fn a_slot_is_not_ready_before_its_drop_is_durable() {
        with_ssd(|ssd| {
            let freed = freed(ssd, filled(ssd));
            ssd.reclaim(&freed);
        });
    }

    #[test]
    #[should_panic(expected = "slots are ready of")]
    fn a_slot_is_not_ready_twice() {
        with_ssd(|ssd| {
            let local = filled(ssd);
            ssd.reclaim_unpublished(local);
            ssd.reclaim_unpublished(local);
        });
    }

    #[test]
    #[should_panic(expected = "a slot is freed, and none is used")]
    fn a_slot_is_not_freed_when_none_is_used() {
        with_ssd(|ssd| ssd.slot_is_freed());
    }

    #[test]
    #[should_panic(expected = "a checkpoint is behind the fills that there were")]
    fn a_ceiling_is_never_below_the_fills_that_there_were() {
        with_ssd(|ssd| {
            filled(ssd);
            ssd.raise_ceiling(0);
        });
    }

    #[test]
    fn generations_rise_and_slots_are_the_ssds_own() {
        with_ssd(|ssd| {
            ssd.has_slots_from(SlotIndex(8));
            assert_refused("SlotIndex(7) is of another SSD", || ssd.local(SlotIndex(7)));
            assert_refused("fills below 100 may begin, and a checkpoint denies it", || ssd.raise_ceiling(99));
            filled(ssd);
            assert_refused("its index is emptied, and blocks are in its slots", || ssd.all_are_ready());
            assert_refused("gets other slots while blocks are in those that it has", || {
                ssd.has_slots_from(SlotIndex(0))
            });
            assert_refused("generation 0 would be used after 1", || ssd.fills_begin_at(0));
        });
    }
}
