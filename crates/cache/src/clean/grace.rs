//! When a freed slot may be filled again: not while a read that may have found it is in flight.
//!
//! Reads are counted in two epochs. A slot that is freed waits until every read that began before has ended; reads that
//! begin later cannot find it. This costs two counter changes a read and nothing per slot.

use std::cell::{Cell, RefCell};

/// The reads in flight on one SSD, and the slots that wait for them.
#[derive(Default)]
pub(crate) struct Grace {
    /// 0 or 1: the epoch in which reads begin now.
    current: Cell<usize>,
    reading: [Cell<u32>; 2],
    /// Freed in this epoch.
    freed: RefCell<Vec<u32>>,
    /// Freed in the epoch before; ready when its reads have ended.
    waiting: RefCell<Vec<u32>>,
    /// How often another epoch began.
    changes: Cell<u64>,
}

/// The epoch of a read; give it back with [`Grace::end`].
#[derive(Clone, Copy)]
pub(crate) struct Epoch(usize);

/// The reads that had begun at a moment; see [`Grace::have_ended`].
#[derive(Clone, Copy)]
pub(crate) struct ReadsSoFar {
    /// They have ended when epochs have changed so often.
    changes: u64,
}

impl Grace {
    pub(crate) fn begin(&self) -> Epoch {
        let current = self.current.get();
        self.reading[current].set(self.reading[current].get() + 1);
        Epoch(current)
    }

    /// Ends a read. True: slots may have become ready, call [`Grace::take_ready`].
    pub(crate) fn end(&self, epoch: Epoch) -> bool {
        let reading = self.reading[epoch.0].get();
        assert!(reading > 0, "a read ends that did not begin: slots would be filled again under others");
        let left = reading - 1;
        self.reading[epoch.0].set(left);
        left == 0 && (!self.waiting.borrow().is_empty() || !self.freed.borrow().is_empty())
    }

    pub(crate) fn free(&self, slot: u32) {
        self.freed.borrow_mut().push(slot);
    }

    /// The slots that no read can see any more.
    pub(crate) fn take_ready(&self) -> Vec<u32> {
        let mut ready = Vec::new();
        for _ in 0..2 {
            let before = 1 - self.current.get();
            if self.reading[before].get() != 0 {
                break;
            }
            ready.append(&mut self.waiting.borrow_mut());
            std::mem::swap(&mut *self.waiting.borrow_mut(), &mut *self.freed.borrow_mut());
            self.current.set(before);
            self.changes.set(self.changes.get() + 1);
        }
        ready
    }

    /// The reads that are in flight now.
    pub(crate) fn so_far(&self) -> ReadsSoFar {
        ReadsSoFar { changes: self.changes.get() + 2 }
    }

    /// Whether these reads have ended. What [`Grace::take_ready`] answered just before counts.
    pub(crate) fn have_ended(&self, reads: ReadsSoFar) -> bool {
        self.changes.get() >= reads.changes
    }

    /// No read is in flight.
    pub(crate) fn is_quiet(&self) -> bool {
        self.reading.iter().all(|reading| reading.get() == 0)
    }

    pub(crate) fn in_limbo(&self) -> usize {
        self.freed.borrow().len() + self.waiting.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list of the reads that each freed slot has to wait for: none is ready before them, each is ready once, and
        /// all are when no read is in flight.
        #[test]
        fn no_slot_is_ready_under_a_read_that_may_have_found_it(
            steps in prop::collection::vec((0_u8..3, 0_usize..8), 1..200),
        ) {
            let grace = Grace::default();
            let mut reads: BTreeMap<usize, Epoch> = BTreeMap::new();
            let mut waiting: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
            let mut marks: Vec<(ReadsSoFar, Vec<usize>)> = Vec::new();
            for ((action, which), number) in steps.into_iter().zip(0..) {
                match action {
                    0 => drop(reads.insert(number, grace.begin())),
                    1 => {
                        if let Some(read) = reads.keys().nth(which).copied() {
                            let epoch = reads.remove(&read).unwrap();
                            let may_be_ready = grace.end(epoch);
                            prop_assert!(may_be_ready || !reads.is_empty() || waiting.is_empty());
                            waiting.values_mut().for_each(|waits_for| waits_for.retain(|other| *other != read));
                        }
                    }
                    _ => {
                        let slot = u32::try_from(number).unwrap();
                        grace.free(slot);
                        waiting.insert(slot, reads.keys().copied().collect());
                        marks.push((grace.so_far(), reads.keys().copied().collect()));
                    }
                }
                for slot in grace.take_ready() {
                    prop_assert_eq!(waiting.remove(&slot), Some(Vec::new()), "slot {}", slot);
                }
                for (mark, of) in &marks {
                    let left = of.iter().any(|read| reads.contains_key(read));
                    prop_assert!(!(left && grace.have_ended(*mark)), "reads have ended that are in flight");
                    prop_assert!(grace.have_ended(*mark) || !reads.is_empty(), "no read is in flight, and some have not ended");
                }
                prop_assert_eq!(grace.is_quiet(), reads.is_empty());
                prop_assert_eq!(grace.in_limbo(), waiting.len());
                prop_assert!(!reads.is_empty() || waiting.is_empty(), "{:?} wait for nothing", waiting);
            }
        }
    }

    #[test]
    fn without_reads_a_freed_slot_is_ready_at_once() {
        let grace = Grace::default();
        grace.free(3);
        assert_eq!(grace.take_ready(), [3]);
    }

    #[test]
    fn a_slot_waits_for_reads_that_began_before_and_not_for_later_ones() {
        let grace = Grace::default();
        let early = grace.begin();
        grace.free(3);
        assert!(grace.take_ready().is_empty());
        let late = grace.begin();
        assert!(grace.take_ready().is_empty());
        assert!(grace.end(early));
        assert_eq!(grace.take_ready(), [3]);
        grace.free(4);
        assert!(grace.take_ready().is_empty());
        assert!(grace.end(late));
        assert_eq!(grace.take_ready(), [4]);
        assert_eq!(grace.in_limbo(), 0);
    }

    #[test]
    #[should_panic(expected = "a read ends that did not begin")]
    fn a_read_ends_once() {
        let grace = Grace::default();
        let epoch = grace.begin();
        grace.end(epoch);
        grace.end(epoch);
    }
}
