//! What is cached, slot by slot, and what is evicted next: the map and the policy, which always change together.
//!
//! *Visible* is what the map says. Whether a slot is *published*, that is believed after a crash, is a flag of it; what of it has to be
//! dropped first is known elsewhere (`pending_drops.rs`). Knows nothing of SSDs.

use std::ops::Range;

use crate::address::{BlockKey, SlotIndex, VolumeIndex};
use crate::clean::map::Map;
use crate::clean::page_set::PageSet;
use crate::clean::policy::{Enters, Policy};
use crate::config::{PAGE, PolicyKind};
use crate::status::PolicySwitch;

/// Why a slot is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Evicted,
    /// None of its pages is valid any more.
    Emptied,
    /// Its block was filled anew into another slot.
    Replaced,
}

/// What became of pages that were to be hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hidden {
    /// The slot did not have them.
    Nothing,
    /// It has others still. Of those that are hidden, a start would believe some, or none.
    Some { believed: bool },
    /// They were all that it had.
    All,
}

/// How a block stands of which a read missed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It has a slot, without these pages.
    Cached,
    /// It had one, and made room for others. Only policies with a ghost remember that, and of blocks that were not hit much.
    Evicted,
    Unknown,
}

/// What a slot held at a moment: a later fill of the same slot has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotContent {
    pub(crate) slot: SlotIndex,
    pub(crate) key: BlockKey,
    pub(super) generation: u32,
}

/// Why a start does not believe what a slot held that is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotDrop {
    /// It was not published, or its attachment is dead.
    NotNeeded,
    /// Its drop is recorded: as soon as that is durable.
    Recorded,
    /// Its SSD has left durably.
    SsdLeft,
}

/// See the file's summary.
pub(crate) struct Slots {
    map: Map,
    policy: Policy,
}

impl Slots {
    /// The slots of `map`, all of them free.
    pub(super) fn new(map: Map, policy: PolicyKind) -> Self {
        let policy = Policy::new(policy, map.slot_count());
        Self { map, policy }
    }

    /// Room is made for more slots, step by step ([`Self::grow`]).
    pub(super) fn begin_growth(&mut self, count: u32) {
        self.map.begin_growth(count);
    }

    /// One step; false: there is nothing left to do.
    pub(super) fn grow(&mut self) -> bool {
        self.map.grow()
    }

    /// The slots that room was made for are there, or do not come.
    pub(super) fn end_growth(&mut self) {
        self.map.end_growth();
    }

    /// More free slots; answers the first. The policy reckons with them from [`Self::capacity_changed`] on.
    pub(super) fn add_slots(&mut self, count: u32) -> SlotIndex {
        self.map.add_slots(count)
    }

    /// The policy reckons with all slots that there are.
    pub(super) fn capacity_changed(&mut self) {
        self.policy.set_capacity(self.map.slot_count());
    }

    pub(super) fn set_policy(&mut self, kind: PolicyKind) {
        if self.policy.kind() != kind {
            self.policy.set_kind(kind);
        }
    }

    // ---- what is visible

    pub(super) fn find(&self, key: BlockKey) -> Option<SlotIndex> {
        self.map.find(key)
    }

    /// How a block stands of which something was missed.
    pub(crate) fn standing(&self, key: BlockKey) -> Standing {
        match self.map.find(key) {
            Some(_) => Standing::Cached,
            None if self.policy.remembers_evicted(key) => Standing::Evicted,
            None => Standing::Unknown,
        }
    }

    /// The block that the slot holds; `None` if it is free.
    pub(super) fn key(&self, slot: SlotIndex) -> Option<BlockKey> {
        self.map.key(slot)
    }

    pub(super) fn is_used(&self, slot: SlotIndex) -> bool {
        self.map.is_used(slot)
    }

    pub(crate) fn content(&self, slot: SlotIndex) -> Option<SlotContent> {
        let key = self.map.key(slot)?;
        Some(SlotContent { slot, key, generation: self.map.generation(slot) })
    }

    /// Whether a slot has this page, and how many from it on, at most so many, are alike. `None`: it holds something else by now.
    pub(crate) fn run_of(&self, content: SlotContent, page: u32, max: u32) -> Option<(bool, u32)> {
        (self.content(content.slot) == Some(content)).then(|| self.run(content.slot, page, max))
    }

    pub(super) fn generation(&self, slot: SlotIndex) -> u32 {
        self.map.generation(slot)
    }

    pub(super) fn holds_all(&self, slot: SlotIndex, pages: &Range<u32>) -> bool {
        let length = pages.end - pages.start;
        self.map.valid_run(slot, pages.start, length) == (true, length)
    }

    /// Whether the slot has this page, and how many from it on, at most so many, are alike.
    pub(super) fn run(&self, slot: SlotIndex, page: u32, max: u32) -> (bool, u32) {
        self.map.valid_run(slot, page, max)
    }

    /// Pages that the slot has.
    pub(crate) fn pages_in(&self, slot: SlotIndex) -> u32 {
        self.map.valid_count(slot)
    }

    /// A host has read from the slot.
    pub(super) fn touch(&mut self, slot: SlotIndex) {
        self.policy.touched(&mut self.map, slot);
    }

    /// A host has asked for a block, and missed it.
    pub(super) fn missed(&mut self, key: BlockKey, enters: Enters) {
        self.policy.missed(&self.map, key, enters);
    }

    /// The policy that is followed now, and what made `auto` follow it.
    pub(crate) fn followed(&self) -> (PolicyKind, Option<PolicySwitch>) {
        (self.policy.follows(), self.policy.last_switch())
    }

    /// A free slot was filled, and shows these pages from now on: not published, its header known. Its block is in no other slot.
    pub(super) fn show(&mut self, content: SlotContent, pages: &PageSet, checksums: &[u32]) {
        assert!(!pages.is_empty(), "{content:?} has no pages, and would take a slot");
        let SlotContent { slot, key, generation } = content;
        self.map.insert(slot, key, generation);
        for run in pages.runs() {
            self.map.set_valid(slot, run);
        }
        self.map.set_checksums(slot, 0, checksums);
        self.map.set_header_loaded(slot, true);
        self.policy.inserted(&mut self.map, slot);
    }

    /// The slot index believes that a free slot holds these pages; false: it holds none, or its block is in another slot.
    pub(super) fn believe(&mut self, content: SlotContent, pages: &[u64]) -> bool {
        let SlotContent { slot, key, generation } = content;
        if pages.iter().all(|word| *word == 0) || self.map.find(key).is_some() {
            return false;
        }
        self.map.insert(slot, key, generation);
        self.map.set_valid_words(slot, pages.iter().copied());
        self.map.set_published(slot, true);
        self.policy.inserted(&mut self.map, slot);
        true
    }

    /// Pages of a used slot are out of sight. If they were all that it had, the slot is to be freed.
    pub(super) fn hide(&mut self, slot: SlotIndex, pages: Range<u32>) -> Hidden {
        let believed = self.map.published(slot) && self.map.believes_any(slot, pages.clone());
        if self.map.clear_valid(slot, pages) == 0 {
            return Hidden::Nothing;
        }
        if self.map.valid_count(slot) == 0 { Hidden::All } else { Hidden::Some { believed } }
    }

    /// A used slot holds nothing any more.
    ///
    /// # Panics
    /// If a start would still believe that it holds what it did.
    pub(super) fn free(&mut self, slot: SlotIndex, why: Why, dropped: SlotDrop) {
        let is_believed = dropped == SlotDrop::NotNeeded && self.is_published(slot);
        assert!(!is_believed, "{slot:?} is believed, and is freed without a drop");
        match why {
            Why::Evicted => self.policy.evicted(&mut self.map, slot),
            Why::Emptied | Why::Replaced => self.policy.removed(&mut self.map, slot),
        }
        self.map.remove(slot);
    }

    // ---- headers

    pub(super) fn header_is_known(&self, slot: SlotIndex) -> bool {
        self.map.header_loaded(slot)
    }

    /// The slot's header says what the map does, and brought the checksums (none, if the pool has none).
    pub(super) fn header_confirmed(&mut self, slot: SlotIndex, checksums: &[u32]) {
        assert!(self.is_used(slot), "{slot:?} holds nothing, and its header is believed");
        for (page, checksum) in (0..).zip(checksums) {
            if !self.map.is_reinserted(slot, page) {
                self.map.set_checksums(slot, page, std::slice::from_ref(checksum));
            }
        }
        self.map.set_header_loaded(slot, true);
    }

    /// Whether so many pages from this one on have the checksums that the header says; true if the pool has none.
    pub(super) fn checksums_match(&self, slot: SlotIndex, first_page: u32, found: impl Iterator<Item = u32>) -> bool {
        let Some(checksums) = self.map.checksums(slot) else { return true };
        let expected = &checksums[crate::address::at(first_page)..];
        found.zip(expected).all(|(found, expected)| found == *expected)
    }

    // ---- what is published

    pub(super) fn is_published(&self, slot: SlotIndex) -> bool {
        self.map.published(slot)
    }

    /// Its `publish` entry is queued: it is a persistent copy from now on.
    pub(super) fn publish(&mut self, slot: SlotIndex) {
        assert!(!self.is_published(slot), "{slot:?} is published twice");
        assert!(self.pages_in(slot) > 0, "{slot:?} is published, and holds nothing");
        self.map.set_published(slot, true);
    }

    /// Whoever it was of is of nobody now: nothing believes it.
    pub(super) fn disbelieve(&mut self, slot: SlotIndex) {
        self.map.set_published(slot, false);
    }

    /// Whose slot it is, if it holds what it was filled with, and is not published.
    pub(super) fn unpublished_volume(&self, slot: SlotIndex, generation: u32) -> Option<VolumeIndex> {
        let same = self.map.generation(slot) == generation && !self.map.published(slot);
        self.map.key(slot).filter(|_| same).map(|key| key.volume)
    }

    /// The pages as a `publish` entry says them: empty if the slot has all.
    pub(super) fn mask(&self, slot: SlotIndex) -> Vec<u64> {
        let whole = self.map.believed_count(slot) == self.map.pages_per_block();
        if whole { Vec::new() } else { self.map.believed_words(slot).collect() }
    }

    /// Pages that a start would believe, if the slot is published.
    pub(super) fn believed_pages(&self, slot: SlotIndex) -> u32 {
        self.map.believed_count(slot)
    }

    // ---- pages that come back from the log

    /// Whether these pages of a block could come back to its slot: a start believes the slot and none of them, and its checksums are
    /// known.
    pub(super) fn has_vacancy(&self, content: SlotContent, pages: &Range<u32>) -> bool {
        let length = pages.end - pages.start;
        self.content(content.slot) == Some(content)
            && self.map.checksums(content.slot).is_some()
            && self.map.published(content.slot)
            && self.map.header_loaded(content.slot)
            && self.map.valid_run(content.slot, pages.start, length) == (false, length)
    }

    /// Pages that were written to the places of what they superseded are visible from now on, until the next start.
    ///
    /// # Panics
    /// If there is no vacancy for them.
    pub(super) fn reinsert(&mut self, content: SlotContent, first_page: u32, checksums: &[u32]) {
        let pages = first_page..first_page + u32::try_from(checksums.len()).expect("a block has at most 1024 pages");
        assert!(self.has_vacancy(content, &pages), "pages {pages:?} come back to {content:?}, and have no place there");
        self.map.reinsert(content.slot, first_page, checksums);
    }

    // ---- what is evicted next

    pub(super) fn victim(&mut self) -> Option<SlotIndex> {
        self.policy.victim(&mut self.map, |_| false)
    }

    pub(super) fn victim_of(&mut self, volume: VolumeIndex) -> Option<SlotIndex> {
        self.policy.victim_of_volume(&mut self.map, volume)
    }

    /// The volume has between so many slots and so many from here on; what is above that is evicted by the caller.
    pub(super) fn set_share(&mut self, volume: VolumeIndex, min_slots: u32, max_slots: u32) {
        self.policy.set_share(&self.map, volume, min_slots, max_slots);
    }

    pub(super) fn forget_share(&mut self, volume: VolumeIndex) {
        self.policy.forget_share(volume);
    }

    /// Moves slots of the volume to its own queues, after a look at so many; true: there are more.
    pub(super) fn list_by_share(&mut self, volume: VolumeIndex, count: u32) -> bool {
        self.policy.take_over(&mut self.map, volume, count)
    }

    /// Whether the volume may have so many slots, those that it has included and others that are on their way.
    pub(super) fn has_room_in_share(&self, volume: VolumeIndex, coming: u32) -> bool {
        let max = self.policy.max_slots(volume);
        max == u32::MAX || self.map.slots_used_by(volume) + coming <= max
    }

    /// How many of these slots are used, and how many of them are of volumes that have no more than was promised to them.
    pub(super) fn used_among(&self, slots: Range<SlotIndex>) -> (usize, usize) {
        let slots = (slots.start.0..slots.end.0).map(SlotIndex);
        let keys: Vec<_> = slots.filter_map(|slot| self.map.key(slot)).collect();
        (keys.iter().filter(|key| self.is_at_minimum(key.volume)).count(), keys.len())
    }

    pub(super) fn is_at_minimum(&self, volume: VolumeIndex) -> bool {
        self.policy.is_at_minimum(&self.map, volume)
    }

    // ---- sums

    pub(crate) fn slot_count(&self) -> u32 {
        self.map.slot_count()
    }

    pub(crate) fn slots_used(&self) -> u32 {
        self.map.slots_used()
    }

    pub(crate) fn slots_used_by(&self, volume: VolumeIndex) -> u32 {
        self.map.slots_used_by(volume)
    }

    pub(crate) fn used_pages(&self) -> u64 {
        self.map.used_pages()
    }

    pub(crate) fn used_bytes_of(&self, volume: VolumeIndex) -> u64 {
        self.map.used_pages_of(volume) * PAGE
    }

    /// The first slot from this one on that holds a block of the volume. Looks at every slot between.
    pub(super) fn next_slot_of(&self, volume: VolumeIndex, from: SlotIndex) -> Option<SlotIndex> {
        self.map.next_slot_of(volume, from)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.map.memory_bytes() + self.policy.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::address::BlockIndex;
    use crate::refused::assert_refused;

    const PAGES: u32 = 32;

    /// A used slot, the simple way.
    #[derive(Clone)]
    struct HeldBlock {
        content: SlotContent,
        pages: [bool; 32],
        published: bool,
        header_known: bool,
        /// Pages that came back.
        reinserted: [bool; 32],
    }

    impl HeldBlock {
        fn is_believed(&self, page: usize) -> bool {
            self.pages[page] && !self.reinserted[page]
        }

        fn count(&self) -> u32 {
            u32::try_from(self.pages.iter().filter(|page| **page).count()).unwrap()
        }

        fn mask(&self) -> Vec<u64> {
            let bits = (0..32).map(|page| u64::from(self.is_believed(page)) << page);
            if (0..32).all(|page| self.is_believed(page)) { Vec::new() } else { vec![bits.sum()] }
        }
    }

    fn range(pages: &Range<u32>) -> [bool; 32] {
        let mut there = [false; 32];
        there[crate::address::at(pages.start)..crate::address::at(pages.end)].fill(true);
        there
    }

    #[derive(Default)]
    struct SlotsModel(BTreeMap<SlotIndex, HeldBlock>);

    impl SlotsModel {
        fn of(&self, key: BlockKey) -> Option<&HeldBlock> {
            self.0.values().find(|held| held.content.key == key)
        }

        fn hide(&mut self, slot: SlotIndex, pages: &Range<u32>) -> Hidden {
            let held = self.0.get_mut(&slot).unwrap();
            let before = held.count();
            let believed =
                held.published && (pages.start..pages.end).any(|page| held.is_believed(crate::address::at(page)));
            for (page, gone) in
                held.pages.iter_mut().chain(&mut held.reinserted).zip(range(pages).into_iter().chain(range(pages)))
            {
                *page &= !gone;
            }
            match held.count() {
                count if count == before => Hidden::Nothing,
                0 => Hidden::All,
                _ => Hidden::Some { believed },
            }
        }

        fn check(&self, slots: &Slots) -> Result<(), TestCaseError> {
            let mut used_pages = 0;
            for slot in (0..slots.slot_count()).map(SlotIndex) {
                let held = self.0.get(&slot);
                prop_assert_eq!(slots.content(slot), held.map(|held| held.content));
                prop_assert_eq!(slots.is_used(slot), held.is_some());
                let Some(held) = held else { continue };
                prop_assert_eq!(slots.find(held.content.key), Some(slot));
                prop_assert_eq!(slots.pages_in(slot), held.count());
                prop_assert_eq!(slots.mask(slot), held.mask());
                prop_assert_eq!(slots.is_published(slot), held.published);
                prop_assert_eq!(slots.header_is_known(slot), held.header_known);
                let generation = held.content.generation;
                let unpublished = (!held.published).then_some(held.content.key.volume);
                prop_assert_eq!(slots.unpublished_volume(slot, generation), unpublished);
                prop_assert_eq!(slots.unpublished_volume(slot, generation + 1), None, "it was filled anew");
                used_pages += u64::from(held.count());
            }
            prop_assert_eq!(slots.used_pages(), used_pages);
            prop_assert_eq!(crate::address::at(slots.slots_used()), self.0.len());
            for volume in (0..3).map(VolumeIndex) {
                let own = || self.0.values().filter(|held| held.content.key.volume == volume);
                prop_assert_eq!(crate::address::at(slots.slots_used_by(volume)), own().count());
                prop_assert_eq!(
                    slots.used_bytes_of(volume),
                    own().map(|held| u64::from(held.count())).sum::<u64>() * PAGE
                );
            }
            Ok(())
        }
    }

    proptest! {
        /// What is visible, published and known of headers, whatever is filled, found at a start, hidden, evicted and published.
        #[test]
        fn slots_equal_a_list_of_what_each_holds(
            kind in 0_usize..3,
            steps in prop::collection::vec((0_u32..11, 0_u16..3, 0_u32..8, 0_u32..33, 0_u32..33), 1..200),
        ) {
            let mut map = Map::new(PAGES, true);
            map.add_slots(12);
            let mut slots = Slots::new(map, PolicyKind::ALL[kind].0);
            let mut model = SlotsModel::default();
            for (generation, (action, volume, block, a, b)) in (1..).zip(steps) {
                let (key, pages) = (BlockKey { volume: VolumeIndex(volume), block: BlockIndex(block) }, a.min(b)..a.max(b));
                let found = model.of(key).map(|held| held.content);
                prop_assert_eq!(slots.find(key), found.map(|content| content.slot));
                let free = (0..12).map(SlotIndex).find(|slot| !model.0.contains_key(slot));
                match (action, found, free) {
                    (0..3, None, Some(slot)) if !pages.is_empty() => {
                        let content = SlotContent { slot, key, generation };
                        slots.show(content, &PageSet::from_range(pages.clone()), &[]);
                        let (pages, reinserted) = (range(&pages), [false; 32]);
                        model.0.insert(slot, HeldBlock { content, pages, published: false, header_known: true, reinserted });
                    }
                    (3, _, Some(slot)) => {
                        let content = SlotContent { slot, key, generation };
                        let believed = slots.believe(content, &PageSet::from_range(pages.clone()).words());
                        prop_assert_eq!(believed, found.is_none() && !pages.is_empty());
                        if believed {
                            let (pages, reinserted) = (range(&pages), [false; 32]);
                            let held = HeldBlock { content, pages, published: true, header_known: false, reinserted };
                            model.0.insert(slot, held);
                        }
                    }
                    (4..6, Some(SlotContent { slot, .. }), _) => {
                        let hidden = slots.hide(slot, pages.clone());
                        prop_assert_eq!(hidden, model.hide(slot, &pages));
                        if hidden == Hidden::All {
                            slots.free(slot, Why::Emptied, SlotDrop::Recorded);
                            model.0.remove(&slot);
                        }
                    }
                    (6, Some(SlotContent { slot, .. }), _) if !slots.is_published(slot) => {
                        slots.publish(slot);
                        model.0.get_mut(&slot).unwrap().published = true;
                    }
                    (7, Some(content), _) => {
                        slots.touch(content.slot);
                        slots.header_confirmed(content.slot, &[]);
                        let held = model.0.get_mut(&content.slot).unwrap();
                        held.header_known = true;
                        if !pages.is_empty() {
                            let alike = held.pages[crate::address::at(pages.start)..crate::address::at(pages.end)].to_vec();
                            prop_assert_eq!(slots.holds_all(content.slot, &pages), alike.iter().all(|there| *there));
                        }
                    }
                    (8, Some(SlotContent { slot, .. }), _) => {
                        slots.disbelieve(slot);
                        model.0.get_mut(&slot).unwrap().published = false;
                    }
                    (10, Some(content), _) => {
                        let held = model.0.get_mut(&content.slot).unwrap();
                        let (known, within) = (held.published && held.header_known, crate::address::at(pages.start)..crate::address::at(pages.end));
                        let vacant = known && !pages.is_empty() && held.pages[within.clone()].iter().all(|there| !*there);
                        prop_assert_eq!(!pages.is_empty() && slots.has_vacancy(content, &pages), vacant);
                        if vacant {
                            slots.reinsert(content, pages.start, &vec![generation; within.len()]);
                            held.pages[within.clone()].fill(true);
                            held.reinserted[within].fill(true);
                        }
                    }
                    (9, _, _) => {
                        let victim = slots.victim();
                        prop_assert_eq!(victim.is_none(), model.0.is_empty());
                        if let Some(slot) = victim {
                            prop_assert!(model.0.remove(&slot).is_some(), "only a used slot is evicted");
                            slots.free(slot, Why::Evicted, SlotDrop::Recorded);
                        }
                    }
                    _ => {}
                }
                model.check(&slots)?;
            }
        }
    }

    #[test]
    fn a_slot_that_was_filled_anew_is_not_taken_for_what_it_held() {
        let mut map = Map::new(PAGES, false);
        map.add_slots(1);
        let mut slots = Slots::new(map, PolicyKind::Lru);
        let key = BlockKey { volume: VolumeIndex(0), block: BlockIndex(7) };
        let first = SlotContent { slot: SlotIndex(0), key, generation: 1 };
        slots.show(first, &PageSet::from_range(4..8), &[]);
        assert_eq!(slots.run_of(first, 4, 28), Some((true, 4)));
        slots.free(SlotIndex(0), Why::Evicted, SlotDrop::NotNeeded);
        assert_eq!(slots.run_of(first, 4, 28), None);
        slots.show(SlotContent { generation: 2, ..first }, &PageSet::from_range(0..8), &[]);
        assert_eq!(slots.run_of(first, 4, 28), None, "the same block in the same slot, filled later");
    }

    #[test]
    fn a_volume_has_room_in_its_share_up_to_its_maximum_with_what_is_coming() {
        let mut map = Map::new(PAGES, false);
        map.add_slots(8);
        let mut slots = Slots::new(map, PolicyKind::S3Fifo);
        let volume = VolumeIndex(1);
        assert!(slots.has_room_in_share(volume, 100), "without a share it may have everything");
        slots.set_share(volume, 1, 3);
        for slot in 0..2 {
            let key = BlockKey { volume, block: BlockIndex(slot) };
            let content = SlotContent { slot: SlotIndex(slot), key, generation: 1 };
            slots.show(content, &PageSet::from_range(0..1), &[]);
        }
        assert!(slots.has_room_in_share(volume, 1) && !slots.has_room_in_share(volume, 2));
        assert_eq!(slots.used_among(SlotIndex(1)..SlotIndex(8)), (0, 1), "it has more than was promised");
        slots.free(SlotIndex(0), Why::Evicted, SlotDrop::NotNeeded);
        assert_eq!(slots.used_among(SlotIndex(1)..SlotIndex(8)), (1, 1));
    }

    /// A slot that holds a block.
    fn with_a_used_slot() -> (Slots, SlotIndex) {
        let mut map = Map::new(PAGES, false);
        map.add_slots(2);
        let mut slots = Slots::new(map, PolicyKind::S3Fifo);
        let content = SlotContent {
            slot: SlotIndex(1),
            key: BlockKey { volume: VolumeIndex(0), block: BlockIndex(3) },
            generation: 1,
        };
        slots.show(content, &PageSet::from_range(0..PAGES), &[]);
        (slots, content.slot)
    }

    #[test]
    #[should_panic(expected = "is believed, and is freed without a drop")]
    fn a_slot_that_is_believed_is_not_freed_without_a_drop() {
        let (mut slots, slot) = with_a_used_slot();
        slots.publish(slot);
        slots.free(slot, Why::Evicted, SlotDrop::NotNeeded);
    }

    #[test]
    fn a_slot_that_nobody_believes_is_freed_without_a_drop() {
        let (mut slots, slot) = with_a_used_slot();
        slots.publish(slot);
        slots.disbelieve(slot);
        slots.free(slot, Why::Evicted, SlotDrop::NotNeeded);
        assert!(!slots.is_used(slot));
    }

    #[test]
    #[should_panic(expected = "is published, and holds nothing")]
    fn a_slot_that_holds_nothing_is_not_published() {
        let (mut slots, _) = with_a_used_slot();
        slots.publish(SlotIndex(0));
    }

    #[test]
    fn a_slot_is_published_once_and_has_pages() {
        let (mut slots, slot) = with_a_used_slot();
        let none = SlotContent { slot: SlotIndex(0), ..slots.content(slot).unwrap() };
        assert_refused("has no pages, and would take a slot", || slots.show(none, &PageSet::default(), &[]));
        assert_refused("holds nothing, and its header is believed", || slots.header_confirmed(SlotIndex(0), &[]));
        slots.publish(slot);
        assert_refused("is published twice", || slots.publish(slot));
    }
}
