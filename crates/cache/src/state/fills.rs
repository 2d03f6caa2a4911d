//! The blocks that are being filled, and those that wait for their turn.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use hotset_block::Buf;
use hotset_block::sync::Event;

use super::page_set::PageSet;
use super::sweep::Sweep;
use super::{BlockKey, SlotIndex, VolumeIndex};
use crate::config::limits;

/// Fills of a volume that wait for their turn to read: as many as it takes to have the next one ready.
const WAITING_MAX: usize = 2;

/// A block on its way into a slot.
pub(crate) struct Fill {
    pub(crate) key: BlockKey,
    pub(crate) attachment: u64,
    pub(crate) slot: SlotIndex,
    pub(crate) generation: u32,
    /// The pages that may still become visible (rule `fill-clean-only`): only ever shrinks.
    pub(crate) pages: Cell<PageSet>,
    /// No read of it has begun yet.
    pub(crate) waits: Cell<bool>,
    /// Pages that a host's miss has read already, with the index of the first.
    pub(crate) offered: RefCell<Vec<(u32, Buf)>>,
}

impl Fill {
    pub(crate) fn exclude(&self, pages: &Range<u32>) {
        let mut left = self.pages.get();
        left.remove(pages);
        self.pages.set(left);
    }
}

/// What happened to a wish for a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Queued,
    /// It runs, or waits, already.
    Known,
    /// There is no room in the queue: the next access may ask again.
    Refused,
}

#[derive(Default)]
pub(crate) struct Fills {
    running: RefCell<BTreeMap<BlockKey, Rc<Fill>>>,
    queue: RefCell<Sweep>,
    pub(crate) ended: Event,
}

impl Fills {
    pub(crate) fn running(&self) -> usize {
        self.running.borrow().len()
    }

    pub(crate) fn is_running(&self, key: BlockKey) -> bool {
        !self.running.borrow().is_empty() && self.running.borrow().contains_key(&key)
    }

    pub(crate) fn is_running_for(&self, volume: VolumeIndex) -> bool {
        self.running.borrow().keys().any(|key| key.volume == volume)
    }

    /// Fills of a volume that run.
    pub(crate) fn running_for(&self, volume: VolumeIndex) -> u32 {
        let count = self.running.borrow().keys().filter(|key| key.volume == volume).count();
        u32::try_from(count).expect("fills that run are bounded")
    }

    /// A fill brings a block into one of these slots: how long it takes is up to a backing device.
    pub(crate) fn any_into(&self, slots: &Range<u32>) -> bool {
        self.running.borrow().values().any(|fill| slots.contains(&fill.slot.0))
    }

    pub(crate) fn is_known(&self, key: BlockKey) -> bool {
        self.is_running(key) || self.queue.borrow().contains(key)
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.borrow().len()
    }

    pub(crate) fn wish(&self, key: BlockKey) -> Wish {
        if self.is_known(key) {
            return Wish::Known;
        }
        if self.queued() >= limits::FILL_QUEUE_MAX {
            return Wish::Refused;
        }
        self.queue.borrow_mut().insert(key);
        Wish::Queued
    }

    /// The next block to be filled, of the volumes of which few fills wait for their turn: the later it is chosen, the
    /// more of its neighbours are known. Volumes do not wait for one another's backing device.
    pub(crate) fn next_queued(&self) -> Option<BlockKey> {
        self.queue.borrow_mut().take_next(|volume| self.may_wait_for(volume))
    }

    /// Whether one more fill of the volume may wait for its turn.
    pub(crate) fn may_wait_for(&self, volume: VolumeIndex) -> bool {
        let running = self.running.borrow();
        running.values().filter(|fill| fill.key.volume == volume && fill.waits.get()).count() < WAITING_MAX
    }

    pub(crate) fn begin(&self, fill: Rc<Fill>) {
        let before = self.running.borrow_mut().insert(fill.key, fill);
        assert!(before.is_none(), "a block is filled once at a time");
    }

    pub(crate) fn end(&self, key: BlockKey) {
        self.running.borrow_mut().remove(&key);
        self.ended.wake_all();
    }

    /// These pages are written or discarded: a fill that runs must not bring them.
    pub(crate) fn exclude(&self, key: BlockKey, pages: &Range<u32>) {
        if let Some(fill) = self.running.borrow().get(&key) {
            fill.exclude(pages);
        }
    }

    /// Nothing of this volume may become visible any more.
    pub(crate) fn abandon(&self, volume: VolumeIndex) {
        for fill in self.running.borrow().values().filter(|fill| fill.key.volume == volume) {
            fill.pages.set(PageSet::default());
        }
        self.queue.borrow_mut().forget(volume);
        self.ended.wake_all();
    }

    pub(crate) fn forget_queue(&self) {
        self.queue.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::BlockIndex;

    fn key(volume: u16, block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(volume), block: BlockIndex(block) }
    }

    fn begin(fills: &Fills, key: BlockKey) -> Rc<Fill> {
        let fill = Rc::new(Fill {
            key,
            attachment: 1,
            slot: SlotIndex(0),
            generation: 1,
            pages: Cell::default(),
            waits: Cell::new(true),
            offered: RefCell::default(),
        });
        fills.begin(Rc::clone(&fill));
        fill
    }

    #[test]
    fn few_fills_of_a_volume_wait_for_their_turn_and_none_of_another_volume_waits_for_them() {
        let fills = Fills::default();
        for wanted in [key(1, 1), key(1, 2), key(1, 3), key(1, 9), key(2, 1)] {
            fills.wish(wanted);
        }
        let first = begin(&fills, fills.next_queued().expect("five wait"));
        assert_eq!(fills.next_queued(), Some(key(2, 1)));
        begin(&fills, fills.next_queued().expect("three wait"));
        assert_eq!(fills.next_queued(), None, "two of the volume wait already");
        first.waits.set(false);
        fills.wish(key(1, 4));
        assert_eq!(fills.next_queued(), Some(key(1, 3)));
        assert_eq!(
            fills.next_queued(),
            Some(key(1, 4)),
            "chosen as late as that, it comes before one that waits longer"
        );
    }
}
