//! Doubly linked lists through the slots, and the flags of each slot in the spare bits of its two links.
//!
//! Owns the links; does not know what the lists mean. A slot is in one list at most.

use crate::address::{SlotIndex, at, vec_bytes};

const INDEX_BITS: u32 = 29;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
/// No slot: one past the largest index.
const NONE: u32 = INDEX_MASK;

/// Slots that a pool has at most: what fits into a link beside its flags.
pub const SLOTS_MAX: u32 = INDEX_MASK;

/// The link towards newer slots, and its place in a slot's pair.
const NEWER: usize = 0;
/// The link towards older slots.
const OLDER: usize = 1;

/// One bit of a slot: which link carries it, and where.
#[derive(Clone, Copy)]
pub(super) struct Flag(usize, u32);

impl Flag {
    pub(super) const IN_SMALL: Self = Self(NEWER, 1 << 29);
    pub(super) const LISTED: Self = Self(NEWER, 1 << 30);
    pub(super) const PUBLISHED: Self = Self(NEWER, 1 << 31);
    pub(super) const HEADER_LOADED: Self = Self(OLDER, 1 << 31);
}

/// The two bits of [`OLDER`] that hold the frequency.
const FREQUENCY_SHIFT: u32 = 29;
const FREQUENCY_MASK: u32 = 3 << FREQUENCY_SHIFT;
// An index and its flags share a link, and no two flags a bit.
const _: () = assert!(FREQUENCY_MASK & (INDEX_MASK | Flag::HEADER_LOADED.1) == 0);
const _: () = assert!((Flag::IN_SMALL.1 | Flag::LISTED.1 | Flag::PUBLISHED.1) & INDEX_MASK == 0);

/// The ends of a list. The slots between them hang together by their links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    newest: u32,
    oldest: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

impl List {
    pub const fn new() -> Self {
        Self { newest: NONE, oldest: NONE, len: 0 }
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn newest(&self) -> Option<SlotIndex> {
        slot(self.newest)
    }

    pub fn oldest(&self) -> Option<SlotIndex> {
        slot(self.oldest)
    }
}

fn slot(index: u32) -> Option<SlotIndex> {
    (index != NONE).then_some(SlotIndex(index))
}

/// The links and flags of all slots.
#[derive(Default)]
pub(super) struct Links {
    pairs: Vec<[u32; 2]>,
}

impl Links {
    /// So many more will follow.
    pub(super) fn reserve(&mut self, count: usize) {
        self.pairs.reserve_exact(count);
    }

    pub(super) fn grow(&mut self, count: usize) {
        self.reserve(count);
        self.pairs.resize(self.pairs.len() + count, [NONE; 2]);
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        vec_bytes(&self.pairs)
    }

    pub(super) fn push_newest(&mut self, list: &mut List, slot: SlotIndex) {
        assert!(!self.has(slot, Flag::LISTED), "slot {} is in a list already", slot.0);
        self.set(slot, Flag::LISTED, true);
        self.link(slot.0, NEWER, NONE);
        self.link(slot.0, OLDER, list.newest);
        match list.newest {
            NONE => list.oldest = slot.0,
            newest => self.link(newest, NEWER, slot.0),
        }
        list.newest = slot.0;
        list.len += 1;
    }

    /// Takes `slot` out of `list`, which must be the one that it is in.
    pub(super) fn unlink(&mut self, list: &mut List, slot: SlotIndex) {
        assert!(self.has(slot, Flag::LISTED), "slot {} is in no list", slot.0);
        assert!(list.len > 0, "slot {} is in another list: this one is empty", slot.0);
        self.set(slot, Flag::LISTED, false);
        let (newer, older) = (self.linked(slot.0, NEWER), self.linked(slot.0, OLDER));
        let is_in_list = (newer != NONE || list.newest == slot.0) && (older != NONE || list.oldest == slot.0);
        assert!(is_in_list, "slot {} is at an end of another list than the one that it leaves", slot.0);
        match newer {
            NONE => list.newest = older,
            newer => self.link(newer, OLDER, older),
        }
        match older {
            NONE => list.oldest = newer,
            older => self.link(older, NEWER, newer),
        }
        list.len -= 1;
    }

    /// The next slot towards the newest of the list that `slot` is in.
    pub(super) fn newer(&self, slot_index: SlotIndex) -> Option<SlotIndex> {
        slot(self.linked(slot_index.0, NEWER))
    }

    pub(super) fn has(&self, slot: SlotIndex, flag: Flag) -> bool {
        self.pairs[at(slot.0)][flag.0] & flag.1 != 0
    }

    pub(super) fn set(&mut self, slot: SlotIndex, flag: Flag, on: bool) {
        let word = &mut self.pairs[at(slot.0)][flag.0];
        *word = if on { *word | flag.1 } else { *word & !flag.1 };
    }

    pub(super) fn frequency(&self, slot: SlotIndex) -> u32 {
        (self.pairs[at(slot.0)][OLDER] & FREQUENCY_MASK) >> FREQUENCY_SHIFT
    }

    /// `frequency` is 3 at most.
    pub(super) fn set_frequency(&mut self, slot: SlotIndex, frequency: u32) {
        assert!(frequency <= 3, "slot {} was touched {frequency} times, and two bits count", slot.0);
        let word = &mut self.pairs[at(slot.0)][OLDER];
        *word = (*word & !FREQUENCY_MASK) | (frequency << FREQUENCY_SHIFT);
    }

    fn linked(&self, index: u32, side: usize) -> u32 {
        self.pairs[at(index)][side] & INDEX_MASK
    }

    fn link(&mut self, index: u32, side: usize, target: u32) {
        assert!(target <= INDEX_MASK, "slot {target} has more bits than a link, and would be flags of slot {index}");
        let word = &mut self.pairs[at(index)][side];
        *word = (*word & !INDEX_MASK) | target;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::refused::assert_refused;

    const FLAGS: [Flag; 3] = [Flag::IN_SMALL, Flag::PUBLISHED, Flag::HEADER_LOADED];

    fn in_order(links: &Links, list: &List) -> Vec<u32> {
        let mut slots = Vec::new();
        let mut at = list.oldest();
        while let Some(slot) = at {
            slots.push(slot.0);
            at = links.newer(slot);
        }
        slots
    }

    proptest! {
        #[test]
        fn lists_keep_their_order_and_flags_stay_apart(steps in prop::collection::vec((0_u32..16, 0_u32..12), 1..400)) {
            let mut links = Links::default();
            links.grow(16);
            let mut list = List::new();
            let mut model = VecDeque::new();
            let mut flags = [[false; 3]; 16];
            let mut frequencies = [0; 16];
            for (slot, action) in steps {
                match action {
                    0..4 => match model.iter().position(|&held| held == slot) {
                        None => {
                            links.push_newest(&mut list, SlotIndex(slot));
                            model.push_back(slot);
                        }
                        Some(place) => {
                            links.unlink(&mut list, SlotIndex(slot));
                            model.remove(place);
                        }
                    },
                    4..8 => {
                        links.set_frequency(SlotIndex(slot), action - 4);
                        frequencies[at(slot)] = action - 4;
                    }
                    flag => {
                        let which = at(flag % 3);
                        let on = !flags[at(slot)][which];
                        links.set(SlotIndex(slot), FLAGS[which], on);
                        flags[at(slot)][which] = on;
                    }
                }
                prop_assert_eq!(in_order(&links, &list), model.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(at(list.len()), model.len());
                for slot in 0..16 {
                    prop_assert_eq!(links.frequency(SlotIndex(slot)), frequencies[at(slot)]);
                    for (flag, on) in FLAGS.iter().zip(flags[at(slot)]) {
                        prop_assert_eq!(links.has(SlotIndex(slot), *flag), on);
                    }
                }
            }
        }
    }

    fn with_a_listed_slot() -> (Links, List) {
        let (mut links, mut list) = (Links::default(), List::new());
        links.grow(2);
        links.push_newest(&mut list, SlotIndex(0));
        (links, list)
    }

    #[test]
    #[should_panic(expected = "slot 0 is in a list already")]
    fn a_slot_is_in_one_list() {
        let (mut links, _) = with_a_listed_slot();
        links.push_newest(&mut List::new(), SlotIndex(0));
    }

    #[test]
    #[should_panic(expected = "slot 1 is in no list")]
    fn a_slot_is_not_taken_out_of_a_list_that_it_is_not_in() {
        let (mut links, mut list) = with_a_listed_slot();
        links.unlink(&mut list, SlotIndex(1));
    }

    #[test]
    #[should_panic(expected = "slot 0 is in another list")]
    fn a_slot_is_not_taken_out_of_an_empty_list() {
        let (mut links, _) = with_a_listed_slot();
        links.unlink(&mut List::new(), SlotIndex(0));
    }

    #[test]
    #[should_panic(expected = "was touched 4 times")]
    fn what_counts_touches_does_not_reach_into_the_flags() {
        with_a_listed_slot().0.set_frequency(SlotIndex(0), 4);
    }

    #[test]
    fn a_slot_is_an_end_of_its_own_list_and_no_link_is_a_flag() {
        let (mut links, _) = with_a_listed_slot();
        let mut other = List::new();
        links.push_newest(&mut other, SlotIndex(1));
        assert_refused("slot 0 is at an end of another list", || links.unlink(&mut other, SlotIndex(0)));
        assert_refused("has more bits than a link", || links.link(0, NEWER, INDEX_MASK + 1));
    }
}
