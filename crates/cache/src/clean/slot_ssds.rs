//! The SSDs of a pool with their slots: whose slots lie where among all of the pool.

use std::cell::RefCell;
use std::rc::Rc;

use hotset_block::Env;

use crate::address::{SlotIndex, SsdIndex};
use crate::clean::slot_ranges::SlotRanges;
use crate::clean::slot_ssd::SlotSsd;
use crate::config::limits;
use crate::members::roster::Roster;
use crate::members::ssd::Ssd;

/// See the file's summary.
pub(crate) struct SlotSsds<E: Env> {
    /// As the members are, in the order in which they joined.
    ssds: Roster<SlotSsd<E>>,
    ranges: RefCell<SlotRanges>,
}

impl<E: Env> SlotSsds<E> {
    /// These, with their slots one behind the other.
    pub(super) fn new<'a>(members: impl Iterator<Item = &'a Rc<Ssd<E>>>) -> Self {
        let mut ranges = SlotRanges::default();
        let mut next = SlotIndex(0);
        let with_slots = |ssd: &Rc<Ssd<E>>| {
            let count = ssd.layout.slot_count();
            ranges.push(next, count, ssd.index);
            let ssd = SlotSsd::new(Rc::clone(ssd));
            ssd.has_slots_from(next);
            next.0 += count;
            Rc::new(ssd)
        };
        let ssds = members.map(with_slots).collect();
        Self { ssds: Roster::new(ssds, limits::JOINS_MAX), ranges: RefCell::new(ranges) }
    }

    /// All that have been in the pool in this run, in the order in which they joined.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<SlotSsd<E>>> {
        self.ssds.iter()
    }

    /// The SSDs that have their share of what is new.
    pub(super) fn serving(&self) -> impl Iterator<Item = &Rc<SlotSsd<E>>> {
        self.iter().filter(|ssd| ssd.life().is_serving())
    }

    pub(super) fn get(&self, index: SsdIndex) -> &Rc<SlotSsd<E>> {
        &self.ssds[usize::from(index.0)]
    }

    /// The SSD that has this slot.
    pub(super) fn of(&self, slot: SlotIndex) -> &Rc<SlotSsd<E>> {
        self.get(self.ranges.borrow().ssd_of(slot))
    }

    /// Slots of one that left, for one that joins: of those of which nothing is in use. Answers the first.
    pub(super) fn take_over(&self, newcomer: &Ssd<E>) -> Option<SlotIndex> {
        let count = newcomer.layout.slot_count();
        self.ranges.borrow_mut().take_over(newcomer.index, count, |index| self.gives_away(index))
    }

    /// Whether [`Self::take_over`] would find some.
    pub(super) fn has_range_for(&self, newcomer: &Ssd<E>) -> bool {
        self.ranges.borrow().has_free(newcomer.layout.slot_count(), |index| self.gives_away(index))
    }

    /// It left, and nothing is being filled on it any more.
    fn gives_away(&self, index: SsdIndex) -> bool {
        let former = self.get(index);
        former.gives_slots_away() && !former.segments.fills_any()
    }

    /// New slots for one that joins, behind all others.
    pub(super) fn add_slots(&self, newcomer: &Ssd<E>, first: SlotIndex) {
        self.ranges.borrow_mut().push(first, newcomer.layout.slot_count(), newcomer.index);
    }

    /// It joined, with the slots from `first` on that were found for it.
    pub(super) fn push(&self, ssd: &Rc<SlotSsd<E>>, first: SlotIndex) {
        ssd.has_slots_from(first);
        self.push_next(Rc::clone(ssd));
    }

    /// Under the index that it has among the members.
    fn push_next(&self, ssd: Rc<SlotSsd<E>>) {
        let (index, next) = (usize::from(ssd.index.0), self.ssds.len());
        assert_eq!(index, next, "SSD {} has another place among the members than among the slots", ssd.path);
        self.ssds.push(ssd);
    }

    /// A member that is only read joined: it has no slots.
    pub(crate) fn push_without_slots(&self, ssd: &Rc<Ssd<E>>) {
        self.push_next(Rc::new(SlotSsd::new(Rc::clone(ssd))));
    }

    /// An SSD is out of use: nothing is filled there any more, and nobody waits for its index.
    pub(crate) fn went_out_of_use(&self, index: SsdIndex) {
        self.get(index).went_out_of_use();
    }

    /// The pool has stopped: nobody waits for any SSD.
    pub(crate) fn end(&self) {
        self.iter().for_each(|ssd| ssd.went_out_of_use());
    }

    /// Slots of an SSD that hold blocks.
    pub(crate) fn slots_used_on(&self, index: SsdIndex) -> u32 {
        self.get(index).slots_used()
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.iter().map(|ssd| ssd.memory_bytes()).sum()
    }
}
