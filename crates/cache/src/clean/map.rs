//! What each slot holds, in as little memory as it takes.
//!
//! A struct of arrays, indexed by [`SlotIndex`]: the block, the generation, the valid pages, the links and flags, and
//! the page checksums if the pool has them. A used slot is found by its block; no two used slots hold the same block.
//! Knows nothing of SSDs, of what is durable, or of which slot is evicted next.

use std::iter::repeat;
use std::ops::Range;

use crate::address::{BlockIndex, BlockKey, SlotIndex, VolumeIndex, at, vec_bytes};
use crate::clean::links::{Flag, Links, List, SLOTS_MAX};
use crate::clean::pages::{PageBits, PageChecksums};
use crate::clean::table::{self, Table};

/// In place of the volume: the slot holds nothing.
const FREE: u16 = u16::MAX;

/// A block as it is stored: volume, lower and upper half of the block index. Together, so that a comparison touches
/// one cache line; 6 bytes, so that nothing is padded.
type PackedKey = [u16; 3];

fn pack(key: BlockKey) -> PackedKey {
    let [low, high] =
        [key.block.0 & 0xffff, key.block.0 >> 16].map(|half| u16::try_from(half).expect("16 bits are left"));
    [key.volume.0, low, high]
}

fn unpack([volume, low, high]: PackedKey) -> BlockKey {
    let block = BlockIndex(u32::from(low) | (u32::from(high) << 16));
    BlockKey { volume: VolumeIndex(volume), block }
}

/// The bytes of memory that a slot takes in the map, beside its pages: key, generation, links, its place in the table.
pub(crate) const BYTES_PER_SLOT: f64 = 6.0 + 4.0 + 8.0 + table::BYTES_PER_SLOT;
/// Of a page of a slot: whether it is valid.
pub(crate) const BYTES_PER_PAGE: f64 = 1.0 / 8.0;
/// Of the checksum of a page of a slot, and whether the page came back there from the log.
pub(crate) const BYTES_PER_CHECKSUM: f64 = 4.0 + 1.0 / 8.0;

/// All slots of a pool.
pub struct Map {
    pages_per_block: u32,
    keys: Vec<PackedKey>,
    generations: Vec<u32>,
    links: Links,
    valid: PageBits,
    checksums: Option<PageChecksums>,
    /// Valid pages that came back from the log: the slot's header and the index on the SSD do not know of them. None without checksums.
    reinserted: Option<PageBits>,
    table: Table,
    /// For more slots.
    growth: Option<Growth>,
    slots: u32,
    slots_used: u32,
    used_pages: u64,
    volume_pages: Vec<u64>,
    volume_slots: Vec<u32>,
}

/// Slots that room is made for: what takes time in proportion to all slots is done step by step, while the map is used.
struct Growth {
    slots: u32,
    table: Table,
    /// The used slots before this one are in it, too.
    next: u32,
}

/// Slots, or cells of the table, that are seen to in one step.
const STEP: u32 = if cfg!(test) { 4 } else { 1 << 14 };

impl Map {
    /// A map without slots. `pages_per_block` is a power of two from 16 to 1,024.
    pub fn new(pages_per_block: u32, checksums: bool) -> Self {
        assert!(pages_per_block.is_power_of_two() && (16..=1024).contains(&pages_per_block));
        Self {
            pages_per_block,
            keys: Vec::new(),
            generations: Vec::new(),
            links: Links::default(),
            valid: PageBits::new(pages_per_block),
            checksums: checksums.then(|| PageChecksums::new(pages_per_block)),
            reinserted: checksums.then(|| PageBits::new(pages_per_block)),
            table: Table::new(0),
            growth: None,
            slots: 0,
            slots_used: 0,
            used_pages: 0,
            volume_pages: Vec::new(),
            volume_slots: Vec::new(),
        }
    }

    /// Room for so many slots more is made, step by step ([`Self::grow`]).
    ///
    /// # Panics
    /// If there are more than [`SLOTS_MAX`] slots then.
    pub(super) fn begin_growth(&mut self, count: u32) {
        let slots = self.slots_with(count);
        if self.table.is_for(slots) {
            return;
        }
        self.reserve(slots);
        self.growth = Some(Growth { slots, table: Table::begun(slots), next: 0 });
    }

    /// One step; false: there is nothing left to do.
    pub(super) fn grow(&mut self) -> bool {
        let Some(growth) = &mut self.growth else { return false };
        let made = u32::try_from(self.keys.len()).expect("a pool has at most SLOTS_MAX slots");
        if made < growth.slots {
            let slots = growth.slots.min(made + STEP);
            self.grow_to(slots);
            return true;
        }
        if growth.table.make_some(at(STEP)) {
            return true;
        }
        let (first, end) = (growth.next, self.slots.min(growth.next + STEP));
        for slot in used_slots(&self.keys, first..end) {
            growth.table.insert(unpack(self.keys[at(slot.0)]).hash(), slot);
        }
        growth.next = end;
        end > first
    }

    /// The slots that room was made for are there, or do not come.
    pub(super) fn end_growth(&mut self) {
        self.growth = None;
    }

    /// Adds `count` free slots behind those that are there; answers the index of the first. Takes time in proportion
    /// to all slots, where room for them was not made before.
    ///
    /// # Panics
    /// If there are more than [`SLOTS_MAX`] slots then.
    pub fn add_slots(&mut self, count: u32) -> SlotIndex {
        let (first, slots) = (self.slots, self.slots_with(count));
        self.grow_to(slots);
        if !self.table.is_for(slots) {
            let is_made = |growth: &Growth| growth.slots >= slots && growth.next == first && growth.table.is_made();
            let made = self.growth.take().filter(is_made);
            self.table = made.map_or_else(|| self.table_for(slots), |growth| growth.table);
        }
        self.growth = self.growth.take().filter(|growth| growth.slots >= slots);
        self.slots = slots;
        SlotIndex(first)
    }

    fn slots_with(&self, count: u32) -> u32 {
        self.slots.checked_add(count).filter(|slots| *slots <= SLOTS_MAX).expect("a pool is planned to fit")
    }

    /// What is known of each slot has a place for so many.
    fn grow_to(&mut self, slots: u32) {
        let more = at(slots).saturating_sub(self.keys.len());
        if more == 0 {
            return;
        }
        self.reserve(slots);
        self.keys.resize(at(slots), [FREE; 3]);
        self.generations.resize(at(slots), 0);
        self.links.grow(more);
        self.valid.grow_to(slots);
        if let Some(checksums) = &mut self.checksums {
            checksums.grow_to(slots);
        }
        if let Some(reinserted) = &mut self.reinserted {
            reinserted.grow_to(slots);
        }
    }

    /// What takes no other place when there are so many slots: nothing is moved more than once.
    fn reserve(&mut self, slots: u32) {
        let more = at(slots).saturating_sub(self.keys.len());
        self.keys.reserve_exact(more);
        self.generations.reserve_exact(more);
        self.links.reserve(more);
        self.valid.reserve_for(slots);
        if let Some(reinserted) = &mut self.reinserted {
            reinserted.reserve_for(slots);
        }
    }

    fn table_for(&self, slots: u32) -> Table {
        let mut table = Table::new(slots);
        for slot in used_slots(&self.keys, 0..self.slots) {
            table.insert(unpack(self.keys[at(slot.0)]).hash(), slot);
        }
        table
    }

    pub fn slot_count(&self) -> u32 {
        self.slots
    }

    pub fn slots_used(&self) -> u32 {
        self.slots_used
    }

    pub fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }

    /// The slot that holds `key`.
    pub fn find(&self, key: BlockKey) -> Option<SlotIndex> {
        let packed = pack(key);
        self.table.find(key.hash(), |slot| self.keys[at(slot.0)] == packed).map(|(_, slot)| slot)
    }

    /// Makes a free slot hold `key`, with no valid page yet, not published, its header not loaded.
    pub fn insert(&mut self, slot: SlotIndex, key: BlockKey, generation: u32) {
        assert!(key.volume.0 != FREE, "volume {FREE} means a free slot");
        assert!(!self.is_used(slot), "slot {} is in use", slot.0);
        assert!(self.find(key).is_none(), "{key:?} has a slot already");
        self.keys[at(slot.0)] = pack(key);
        self.generations[at(slot.0)] = generation;
        self.table.insert(key.hash(), slot);
        if let Some(growth) = self.growth.as_mut().filter(|growth| slot.0 < growth.next) {
            growth.table.insert(key.hash(), slot);
        }
        self.slots_used += 1;
        if self.volume_pages.len() <= usize::from(key.volume.0) {
            self.volume_pages.resize(usize::from(key.volume.0) + 1, 0);
            self.volume_slots.resize(usize::from(key.volume.0) + 1, 0);
        }
        self.volume_slots[usize::from(key.volume.0)] += 1;
    }

    /// Frees a slot that the policy does not list any more. Its generation stays.
    pub fn remove(&mut self, slot: SlotIndex) {
        assert!(!self.is_listed(slot), "slot {} is freed while the policy lists it", slot.0);
        self.clear_valid(slot, 0..self.pages_per_block);
        let key = self.key(slot).expect("only a used slot is freed");
        let hash_of = |other: SlotIndex| unpack(self.keys[at(other.0)]).hash();
        self.table.remove_slot(key.hash(), slot, hash_of);
        if let Some(growth) = self.growth.as_mut().filter(|growth| slot.0 < growth.next) {
            growth.table.remove_slot(key.hash(), slot, hash_of);
        }
        self.keys[at(slot.0)] = [FREE; 3];
        self.set_published(slot, false);
        self.set_header_loaded(slot, false);
        let of_volume = &mut self.volume_slots[usize::from(key.volume.0)];
        assert!(self.slots_used > 0 && *of_volume > 0, "slot {} is freed, and none is used", slot.0);
        self.slots_used -= 1;
        *of_volume -= 1;
    }

    /// The block that the slot holds; `None` if it is free.
    pub fn key(&self, slot: SlotIndex) -> Option<BlockKey> {
        let packed = self.keys[at(slot.0)];
        (packed[0] != FREE).then(|| unpack(packed))
    }

    pub fn is_used(&self, slot: SlotIndex) -> bool {
        self.keys[at(slot.0)][0] != FREE
    }

    /// The generation of the last insert: the low bits of the one on the SSD.
    pub fn generation(&self, slot: SlotIndex) -> u32 {
        self.generations[at(slot.0)]
    }

    /// Sets the generation of a free slot, as it was found on the SSD.
    pub fn set_generation(&mut self, slot: SlotIndex, generation: u32) {
        assert!(!self.is_used(slot), "slot {} gets another generation while it is used", slot.0);
        self.generations[at(slot.0)] = generation;
    }

    /// The first slot from `from` on that holds a block of `volume`. Looks at every slot in between.
    pub fn next_slot_of(&self, volume: VolumeIndex, from: SlotIndex) -> Option<SlotIndex> {
        let mut rest = self.keys.iter().skip(at(from.0));
        let skipped = rest.position(|key| key[0] == volume.0)?;
        Some(SlotIndex(from.0 + u32::try_from(skipped).expect("a pool has at most SLOTS_MAX slots")))
    }

    /// The slots that hold blocks of `volume`, in order of their index.
    pub fn slots_of(&self, volume: VolumeIndex) -> impl Iterator<Item = SlotIndex> {
        used_slots(&self.keys, 0..self.slots).filter(move |slot| self.keys[at(slot.0)][0] == volume.0)
    }

    pub fn valid(&self, slot: SlotIndex, page: u32) -> bool {
        self.valid.get(slot, page)
    }

    /// Whether `from_page` is valid, and how many pages from there on, at most `max`, are alike.
    pub fn valid_run(&self, slot: SlotIndex, from_page: u32, max: u32) -> (bool, u32) {
        self.valid.run(slot, from_page, max)
    }

    pub fn valid_count(&self, slot: SlotIndex) -> u32 {
        self.valid.count(slot)
    }

    /// The valid pages, 64 a word, the first page in the lowest bit.
    pub fn valid_words(&self, slot: SlotIndex) -> impl Iterator<Item = u64> {
        self.valid.words_of(slot)
    }

    /// As [`Map::valid_words`], of the pages that the slot's header and the index on the SSD know.
    pub fn believed_words(&self, slot: SlotIndex) -> impl Iterator<Item = u64> {
        let reinserted = self.reinserted.iter().flat_map(move |reinserted| reinserted.words_of(slot)).chain(repeat(0));
        self.valid.words_of(slot).zip(reinserted).map(|(valid, other)| valid & !other)
    }

    /// Pages that the slot's header and the index on the SSD know.
    pub fn believed_count(&self, slot: SlotIndex) -> u32 {
        self.believed_words(slot).map(u64::count_ones).sum()
    }

    /// Whether the slot's header and the index on the SSD know some of these pages.
    pub fn believes_any(&self, slot: SlotIndex, pages: Range<u32>) -> bool {
        self.valid.any_but(self.reinserted.as_ref(), slot, pages)
    }

    /// Whether a valid page came back from the log.
    pub fn is_reinserted(&self, slot: SlotIndex, page: u32) -> bool {
        self.reinserted.as_ref().is_some_and(|reinserted| reinserted.get(slot, page))
    }

    /// Marks pages of a used slot as held that came back from the log, with these checksums: the slot's header has others for them.
    ///
    /// # Panics
    /// If the pool has no checksums.
    pub fn reinsert(&mut self, slot: SlotIndex, first_page: u32, checksums: &[u32]) {
        let pages = first_page..first_page + u32::try_from(checksums.len()).expect("a block has at most 1024 pages");
        self.set_valid(slot, pages.clone());
        self.set_checksums(slot, first_page, checksums);
        let reinserted =
            self.reinserted.as_mut().expect("pages come back where there are checksums to tell whose they are");
        reinserted.set(slot, pages);
    }

    /// Marks pages of a used slot as held.
    pub fn set_valid(&mut self, slot: SlotIndex, pages: Range<u32>) {
        let volume = self.key(slot).expect("only a used slot has valid pages").volume;
        assert!(pages.end <= self.pages_per_block, "pages {pages:?} of slot {} are those of the next one", slot.0);
        let added = u64::from(self.valid.set(slot, pages));
        self.used_pages += added;
        self.volume_pages[usize::from(volume.0)] += added;
    }

    /// Marks the pages whose bits are set in `words` (as [`Map::valid_words`] gives them) as held.
    pub fn set_valid_words(&mut self, slot: SlotIndex, words: impl IntoIterator<Item = u64>) {
        for (first, mut word) in (0..).step_by(64).zip(words) {
            while word != 0 {
                let start = word.trailing_zeros();
                let length = (word >> start).trailing_ones();
                self.set_valid(slot, first + start..first + start + length);
                word &= (!0_u64).checked_shl(start + length).unwrap_or(0);
            }
        }
    }

    /// Marks pages of a used slot as not held; answers how many of them were.
    pub fn clear_valid(&mut self, slot: SlotIndex, pages: Range<u32>) -> u32 {
        let volume = self.key(slot).expect("only a used slot has valid pages").volume;
        assert!(pages.end <= self.pages_per_block, "pages {pages:?} of slot {} are those of the next one", slot.0);
        if let Some(reinserted) = &mut self.reinserted {
            reinserted.clear(slot, pages.clone());
        }
        let removed = self.valid.clear(slot, pages);
        let of_volume = &mut self.volume_pages[usize::from(volume.0)];
        let (left, removed_pages) = (self.used_pages.min(*of_volume), u64::from(removed));
        assert!(removed_pages <= left, "{removed} pages of slot {} are hidden, and {left} count", slot.0);
        self.used_pages -= removed_pages;
        *of_volume -= removed_pages;
        removed
    }

    /// Valid pages of the whole pool.
    pub fn used_pages(&self) -> u64 {
        self.used_pages
    }

    pub fn used_pages_of(&self, volume: VolumeIndex) -> u64 {
        self.volume_pages.get(usize::from(volume.0)).copied().unwrap_or(0)
    }

    /// Slots that hold blocks of `volume`.
    pub fn slots_used_by(&self, volume: VolumeIndex) -> u32 {
        self.volume_slots.get(usize::from(volume.0)).copied().unwrap_or(0)
    }

    /// Whether the index on the SSD says what this slot holds.
    pub fn published(&self, slot: SlotIndex) -> bool {
        self.links.has(slot, Flag::PUBLISHED)
    }

    pub fn set_published(&mut self, slot: SlotIndex, published: bool) {
        assert!(!published || self.is_used(slot), "slot {} is published, and holds nothing", slot.0);
        self.links.set(slot, Flag::PUBLISHED, published);
    }

    /// Whether the slot's header was verified, and its checksums are here.
    pub fn header_loaded(&self, slot: SlotIndex) -> bool {
        self.links.has(slot, Flag::HEADER_LOADED)
    }

    pub fn set_header_loaded(&mut self, slot: SlotIndex, loaded: bool) {
        assert!(!loaded || self.is_used(slot), "slot {} has the header of a block, and holds none", slot.0);
        self.links.set(slot, Flag::HEADER_LOADED, loaded);
    }

    /// The checksums of the slot's pages, those of pages that are not valid without meaning; `None` if the pool has
    /// none.
    pub fn checksums(&self, slot: SlotIndex) -> Option<&[u32]> {
        self.checksums.as_ref().map(|checksums| checksums.of(slot))
    }

    pub fn checksum(&self, slot: SlotIndex, page: u32) -> Option<u32> {
        self.checksums(slot).map(|checksums| checksums[at(page)])
    }

    /// Stores the checksums of the pages from `first_page` on; nothing if the pool has none.
    pub fn set_checksums(&mut self, slot: SlotIndex, first_page: u32, sums: &[u32]) {
        if let Some(checksums) = &mut self.checksums {
            checksums.of_mut(slot)[at(first_page)..][..sums.len()].copy_from_slice(sums);
        }
    }

    /// The memory that the map takes now, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        vec_bytes(&self.keys)
            + vec_bytes(&self.generations)
            + self.links.memory_bytes()
            + self.valid.memory_bytes()
            + self.checksums.as_ref().map_or(0, PageChecksums::memory_bytes)
            + self.reinserted.as_ref().map_or(0, PageBits::memory_bytes)
            + self.table.memory_bytes()
            + self.growth.as_ref().map_or(0, |growth| growth.table.memory_bytes())
            + vec_bytes(&self.volume_pages)
            + vec_bytes(&self.volume_slots)
    }
}

/// Lists through the slots: the policy's queues of used slots; free slots may hang in lists of their owner too.
impl Map {
    pub fn push_newest(&mut self, list: &mut List, slot: SlotIndex) {
        self.links.push_newest(list, slot);
    }

    /// Takes `slot` out of `list`, in which it must be.
    pub fn unlink(&mut self, list: &mut List, slot: SlotIndex) {
        self.links.unlink(list, slot);
    }

    /// The next slot of its list towards the newest.
    pub fn newer(&self, slot: SlotIndex) -> Option<SlotIndex> {
        self.links.newer(slot)
    }

    pub fn is_listed(&self, slot: SlotIndex) -> bool {
        self.links.has(slot, Flag::LISTED)
    }

    pub(super) fn is_in_small(&self, slot: SlotIndex) -> bool {
        self.links.has(slot, Flag::IN_SMALL)
    }

    pub(super) fn set_in_small(&mut self, slot: SlotIndex, in_small: bool) {
        self.links.set(slot, Flag::IN_SMALL, in_small);
    }

    /// How often the slot was touched of late: 0 to 3.
    pub(crate) fn frequency(&self, slot: SlotIndex) -> u32 {
        self.links.frequency(slot)
    }

    pub(crate) fn set_frequency(&mut self, slot: SlotIndex, frequency: u32) {
        self.links.set_frequency(slot, frequency);
    }
}

/// Those among `slots`.
fn used_slots(keys: &[PackedKey], slots: Range<u32>) -> impl Iterator<Item = SlotIndex> {
    let indexed = slots.clone().zip(&keys[at(slots.start)..at(slots.end)]);
    indexed.filter(|(_, key)| key[0] != FREE).map(|(index, _)| SlotIndex(index))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::refused::assert_refused;

    fn key(volume: u16, block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(volume), block: BlockIndex(block) }
    }

    /// What the map should say, the simple way.
    #[derive(Default)]
    struct MapModel {
        slots: HashMap<u32, (BlockKey, Vec<bool>)>,
    }

    impl MapModel {
        fn slot_of(&self, key: BlockKey) -> Option<SlotIndex> {
            self.slots.iter().find(|(_, (held, _))| *held == key).map(|(slot, _)| SlotIndex(*slot))
        }

        fn pages_of(&self, volume: Option<u16>) -> u64 {
            let of_volume = |key: &BlockKey| volume.is_none_or(|volume| key.volume.0 == volume);
            let held = self.slots.values().filter(|(key, _)| of_volume(key)).flat_map(|(_, pages)| pages);
            u64::try_from(held.filter(|page| **page).count()).unwrap()
        }
    }

    #[test]
    fn slots_that_room_was_made_for_are_added_without_a_look_at_those_that_are_there() {
        let mut map = Map::new(16, true);
        map.add_slots(100);
        (0..50).for_each(|slot| map.insert(SlotIndex(slot), key(1, slot), 1));
        map.begin_growth(30);
        let mut steps = 0;
        while map.grow() {
            steps += 1;
            // Meanwhile blocks come and go, before and behind what was looked at.
            map.remove(SlotIndex(steps % 50));
            map.insert(SlotIndex(steps % 50), key(2, steps), 2);
        }
        assert!(steps >= (30 + 130 + 100) / STEP, "{steps} steps");
        let cells = map.growth.as_ref().expect("it is ready").table.first_cell();
        assert_eq!(map.add_slots(10), SlotIndex(100));
        assert_eq!(map.add_slots(20), SlotIndex(110));
        assert_eq!(map.table.first_cell(), cells, "no other table was made");
        for slot in (0..130).map(SlotIndex) {
            assert_eq!(map.key(slot).and_then(|key| map.find(key)), map.is_used(slot).then_some(slot));
        }
    }

    proptest! {
        #[test]
        fn the_map_equals_a_hash_map(
            first_slots in 1_u32..40,
            steps in prop::collection::vec((0_u32..6, 0_u16..3, 0_u32..50, 0_u32..32, 0_u32..32), 1..300),
        ) {
            let mut map = Map::new(32, true);
            map.add_slots(first_slots);
            let mut model = MapModel::default();
            for (action, volume, block, a, b) in steps {
                let key = key(volume, block << 14);
                let free = (0..map.slot_count()).find(|slot| !model.slots.contains_key(slot));
                match (model.slot_of(key), action) {
                    (None, 0..5) => if let Some(free) = free {
                        map.insert(SlotIndex(free), key, block);
                        map.set_published(SlotIndex(free), true);
                        model.slots.insert(free, (key, vec![false; 32]));
                    },
                    (Some(slot), 0..3) => {
                        let on = action != 0;
                        let pages = a.min(b)..a.max(b);
                        if on { map.set_valid(slot, pages.clone()) } else { map.clear_valid(slot, pages.clone()); }
                        map.set_checksums(slot, a, &[b]);
                        model.slots.get_mut(&slot.0).unwrap().1[at(pages.start)..at(pages.end)].fill(on);
                    }
                    (Some(slot), 3..5) => {
                        map.remove(slot);
                        prop_assert!(!map.published(slot));
                        model.slots.remove(&slot.0);
                    }
                    (_, _) if map.slot_count() < 80 => match b % 4 {
                        0 => drop(map.add_slots(1 + a % 8)),
                        1 => map.begin_growth(a % 8),
                        2 => while map.grow() {},
                        _ => drop(map.grow()),
                    }
                    (_, _) => map.end_growth(),
                }
                prop_assert_eq!(map.find(key), model.slot_of(key));
                prop_assert_eq!(at(map.slots_used()), model.slots.len());
                prop_assert_eq!(map.used_pages(), model.pages_of(None));
                prop_assert_eq!(map.used_pages_of(VolumeIndex(volume)), model.pages_of(Some(volume)));
            }
            for slot in (0..map.slot_count()).map(SlotIndex) {
                prop_assert_eq!(map.key(slot), model.slots.get(&slot.0).map(|(key, _)| *key));
            }
            for (slot, (key, pages)) in &model.slots {
                prop_assert_eq!(map.find(*key), Some(SlotIndex(*slot)));
                let held: Vec<_> = (0..32).map(|page| map.valid(SlotIndex(*slot), page)).collect();
                prop_assert_eq!(&held, pages);
            }
            for volume in 0..3 {
                let slots = map.slots_of(VolumeIndex(volume)).collect::<Vec<_>>();
                prop_assert!(slots.is_sorted());
                prop_assert_eq!(slots.len(), model.slots.values().filter(|(key, _)| key.volume.0 == volume).count());
                prop_assert_eq!(map.next_slot_of(VolumeIndex(volume), SlotIndex(0)), slots.first().copied());
                prop_assert_eq!(at(map.slots_used_by(VolumeIndex(volume))), slots.len());
            }
        }
    }

    #[test]
    fn a_full_map_finds_every_block_and_no_other_through_many_replacements() {
        const SLOTS: u32 = 5000;
        let mut map = Map::new(16, false);
        map.add_slots(SLOTS);
        for block in 0..SLOTS {
            map.insert(SlotIndex(block), key(1, block), 1);
        }
        for block in SLOTS..10 * SLOTS {
            let slot = map.find(key(1, block - SLOTS)).expect("it was inserted");
            map.remove(slot);
            assert_eq!(map.find(key(1, block - SLOTS)), None);
            map.insert(slot, key(1, block), 2);
        }
        assert!((9 * SLOTS..10 * SLOTS).all(|block| map.find(key(1, block)).is_some()));
        assert!((0..9 * SLOTS).all(|block| map.find(key(1, block)).is_none()));
        assert!((0..10 * SLOTS).all(|block| map.find(key(2, block)).is_none()));
    }

    #[test]
    fn valid_words_give_back_the_mask_of_another_slot() {
        for pages_per_block in [16, 64, 256] {
            let mut map = Map::new(pages_per_block, false);
            map.add_slots(3);
            map.insert(SlotIndex(1), key(0, 1), 0);
            map.insert(SlotIndex(2), key(0, 2), 0);
            map.set_valid(SlotIndex(1), 2..5);
            map.set_valid(SlotIndex(1), pages_per_block - 9..pages_per_block);
            let words: Vec<_> = map.valid_words(SlotIndex(1)).collect();
            map.set_valid_words(SlotIndex(2), words);
            assert_eq!(map.valid_count(SlotIndex(2)), 12);
            assert_eq!(map.valid_run(SlotIndex(2), 2, 99), (true, 3));
            assert_eq!(map.valid_run(SlotIndex(2), pages_per_block - 9, 99), (true, 9));
            assert_eq!(map.used_pages(), 24);
        }
    }

    // proves: P14
    #[test]
    fn the_memory_counted_is_the_memory_stated() {
        let mut map = Map::new(16, true);
        map.add_slots(60_000);
        map.add_slots(40_000);
        for block in 0..100_000 {
            map.insert(SlotIndex(block), key(1, block), 0);
        }
        #[allow(clippy::as_conversions, reason = "a test of rounding size")]
        let counted = map.memory_bytes() as f64 / 100_000.0;
        let stated = BYTES_PER_SLOT + 16.0 * (BYTES_PER_PAGE + BYTES_PER_CHECKSUM);
        assert!((counted - stated).abs() < 0.01, "{counted} {stated}");
    }

    fn with_a_used_slot() -> Map {
        let mut map = Map::new(16, false);
        map.add_slots(2);
        map.insert(SlotIndex(0), key(0, 7), 1);
        map
    }

    #[test]
    #[should_panic(expected = "pages 15..17 of slot 0 are those of the next one")]
    fn no_page_of_a_slot_is_one_of_the_next_slot() {
        with_a_used_slot().set_valid(SlotIndex(0), 15..17);
    }

    #[test]
    #[should_panic(expected = "pages 15..17 of slot 0 are those of the next one")]
    fn no_page_of_the_next_slot_is_taken_away_with_those_of_a_slot() {
        with_a_used_slot().clear_valid(SlotIndex(0), 15..17);
    }

    #[test]
    #[should_panic(expected = "slot 1 is published, and holds nothing")]
    fn a_free_slot_is_not_published() {
        with_a_used_slot().set_published(SlotIndex(1), true);
    }

    #[test]
    #[should_panic(expected = "slot 0 gets another generation while it is used")]
    fn a_used_slot_keeps_its_generation() {
        with_a_used_slot().set_generation(SlotIndex(0), 2);
    }

    #[test]
    #[should_panic(expected = "slot 0 is freed, and none is used")]
    fn no_slot_is_freed_when_none_is_used() {
        let mut map = with_a_used_slot();
        map.slots_used = 0;
        map.remove(SlotIndex(0));
    }

    #[test]
    #[should_panic(expected = "slot 0 is in use")]
    fn a_used_slot_is_not_given_to_another_block() {
        with_a_used_slot().insert(SlotIndex(0), key(0, 8), 2);
    }

    #[test]
    #[should_panic(expected = "has a slot already")]
    fn a_block_is_in_one_slot() {
        with_a_used_slot().insert(SlotIndex(1), key(0, 7), 2);
    }

    #[test]
    #[should_panic(expected = "slot 0 is freed while the policy lists it")]
    fn a_slot_that_is_listed_is_not_freed() {
        let mut map = with_a_used_slot();
        map.push_newest(&mut List::default(), SlotIndex(0));
        map.remove(SlotIndex(0));
    }

    #[test]
    fn what_is_hidden_counted_and_a_free_slot_has_no_header() {
        let mut map = with_a_used_slot();
        map.set_valid(SlotIndex(0), 0..4);
        map.used_pages = 3;
        assert_refused("4 pages of slot 0 are hidden, and 3 count", || map.clear_valid(SlotIndex(0), 0..4));
        assert_refused("slot 1 has the header of a block, and holds none", || {
            map.set_header_loaded(SlotIndex(1), true)
        });
    }
}
