//! Clean copies: what is cached, what is evicted, how blocks come in, when they are believed, and how they are dropped.
//!
//! [`Clean`] knows neither backing devices nor the write log, nor what they hold: whoever brings a block says which of its pages are
//! what the backing device has, and whoever publishes, whose backing device was flushed.

// Nouns: what is true now.
pub(crate) mod counters;
pub(crate) mod fills;
pub(crate) mod ghost;
mod grace;
mod in_memory;
mod index_journal;
pub(crate) mod links;
pub(crate) mod map;
pub(crate) mod page_set;
mod pages;
pub(crate) mod pending_drops;
pub(crate) mod policy;
pub(crate) mod rivals;
mod sets;
mod shares;
mod slot_ranges;
pub(crate) mod slots;
mod sweep;
mod table;
pub(crate) mod unpublished;

// Verbs: what happens.
mod evict;
mod fill;
pub(crate) mod index;
mod invalidate;
mod publish;
pub(crate) mod read_slot;
pub(crate) mod recover;
pub(crate) mod reinsert;
pub(crate) mod slot_ssd;
pub(crate) mod slot_ssds;

pub(crate) use counters::BlockCounts;
pub(crate) use evict::{Claimed, ready_wanted};

use std::cell::{Cell, Ref, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::Env;

use crate::address::{BlockKey, Blocks, SlotIndex, VolumeIndex};
use crate::attachment_ids::AttachmentIds;
use crate::clean::counters::Counters;
use crate::clean::fills::Fills;
use crate::clean::in_memory::InMemory;
use crate::clean::index::Index;
use crate::clean::map::Map;
use crate::clean::policy::Enters;
use crate::clean::slot_ssd::SlotSsd;
use crate::clean::slot_ssds::SlotSsds;
use crate::clean::slots::{Slots, Standing};
use crate::clean::unpublished::Unpublished;
use crate::config::PoolSettings;
use crate::members::Members;
use crate::members::pool_life::PoolLife;

/// The clean copies of a pool.
pub(crate) struct Clean<E: Env> {
    env: E,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    ids: Rc<AttachmentIds>,
    blocks: Blocks,
    checksums: bool,
    ssds: Rc<SlotSsds<E>>,
    /// What is visible.
    slots: Rc<RefCell<Slots>>,
    /// What is believed.
    index: Rc<Index<E>>,
    /// What is on its way to be visible.
    fills: Rc<Fills>,
    /// What is on its way to be believed.
    unpublished: Unpublished,
    in_memory: InMemory,
    /// What is not worth a slot yet.
    counters: RefCell<Counters>,
    /// Bytes that the SSDs may take in a day, after which nothing more comes in.
    ssd_writes_per_day: Cell<Option<u64>>,
}

/// Where the pages of one block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockLookup {
    /// The block is not in the cache.
    Nothing,
    /// All of them are in this slot, which can be read; the policy knows that it was hit.
    All(SlotIndex),
    /// Some are, or the slot cannot be read now.
    Some,
}

/// The slot of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotCopy {
    /// The path of its SSD.
    pub ssd: String,
    /// Its number on that SSD.
    pub slot: u32,
    /// It has the page that was asked about, and can be read now.
    pub has_page: bool,
    /// It is believed after a crash, too.
    pub published: bool,
}

/// What a read that missed was counted as.
pub(crate) struct CountedRead {
    /// The blocks that are worth a slot by now.
    pub(crate) hot: Vec<BlockKey>,
    /// The first block that was missed; there is one.
    pub(crate) first: Option<FirstMissed>,
}

/// A block of which pages were missed.
pub(crate) struct FirstMissed {
    pub(crate) key: BlockKey,
    /// How often it was missed of late: 1 to 4.
    pub(crate) count: u8,
}

impl<E: Env> Clean<E> {
    /// Of a pool with these members, none of whose slots is looked at yet.
    pub(crate) fn new(
        env: E,
        life: Rc<PoolLife>,
        members: Rc<Members<E>>,
        ids: Rc<AttachmentIds>,
        settings: &PoolSettings,
    ) -> Self {
        let blocks = Blocks { pages_per_block: settings.block_bytes.pages() };
        let ssds = Rc::new(SlotSsds::new(members.ssds()));
        let mut map = Map::new(blocks.pages_per_block, settings.checksums);
        for ssd in members.ssds() {
            map.add_slots(ssd.layout.slot_count());
        }
        let counters = Counters::new(map.slot_count(), blocks.pages_per_block);
        let slots = Rc::new(RefCell::new(Slots::new(map, settings.policy)));
        let fills = Rc::<Fills>::default();
        let tables = (Rc::clone(&ssds), Rc::clone(&slots), Rc::clone(&fills));
        let index = Index::new(env.clone(), Rc::clone(&life), Rc::clone(&members), Rc::clone(&ids), tables);
        Self {
            env,
            life,
            members,
            ids,
            blocks,
            checksums: settings.checksums,
            ssds,
            slots,
            index: Rc::new(index),
            fills,
            unpublished: Unpublished::default(),
            in_memory: InMemory::default(),
            counters: RefCell::new(counters),
            ssd_writes_per_day: Cell::new(settings.ssd_writes_per_day_bytes),
        }
    }

    // ---- its parts

    pub(crate) fn ssds(&self) -> &SlotSsds<E> {
        &self.ssds
    }

    /// What is visible now; let go before anything changes.
    pub(crate) fn slots(&self) -> Ref<'_, Slots> {
        self.slots.borrow()
    }

    pub(crate) fn index(&self) -> &Index<E> {
        &self.index
    }

    pub(crate) fn fills(&self) -> &Fills {
        &self.fills
    }

    pub(crate) fn unpublished(&self) -> &Unpublished {
        &self.unpublished
    }

    pub(crate) fn in_memory(&self) -> &InMemory {
        &self.in_memory
    }

    /// Whoever waits to fill or to publish looks whether it still should.
    pub(crate) fn wake(&self) {
        self.fills.wake_pump();
        self.unpublished.wake();
    }

    /// What of the pool's settings is this room's changed.
    pub(crate) fn set(&self, settings: &PoolSettings) {
        self.slots.borrow_mut().set_policy(settings.policy);
        self.ssd_writes_per_day.set(settings.ssd_writes_per_day_bytes);
        self.fills.wake_pump();
    }

    // ---- SSDs that join

    /// The tables get room for the slots of these, which are about to join, step by step: then [`Self::take_in`] takes no time.
    pub(crate) async fn make_room_for(&self, newcomers: &[Rc<SlotSsd<E>>]) {
        // One range is for one of them. Room that is not used in the end costs nothing.
        let Some((one, others)) = newcomers.split_first() else { return };
        let of_one = if self.ssds.has_range_for(one) { 0 } else { one.layout.slot_count() };
        let count = of_one + others.iter().map(|ssd| ssd.layout.slot_count()).sum::<u32>();
        self.slots.borrow_mut().begin_growth(count);
        while self.slots.borrow_mut().grow() {
            self.env.sleep(Duration::ZERO).await;
        }
    }

    /// They have joined, or do not.
    pub(crate) fn room_is_used(&self) {
        self.slots.borrow_mut().end_growth();
    }

    /// A member that joined has slots from here on: those of one that left, or new ones. [`Self::capacity_changed`] follows.
    pub(crate) fn take_in(&self, ssd: &Rc<SlotSsd<E>>) {
        let taken = self.ssds.take_over(ssd);
        let count = ssd.layout.slot_count();
        let first = match taken {
            Some(first) => {
                let (_, used) = self.slots.borrow().used_among(first..SlotIndex(first.0 + count));
                assert_eq!(used, 0, "SSD {} gets slots of one that left, and blocks are in them", ssd.path);
                self.unpublished.forget(&(first.0..first.0 + count));
                first
            }
            None => {
                let first = self.slots.borrow_mut().add_slots(count);
                self.ssds.add_slots(ssd, first);
                first
            }
        };
        self.ssds.push(ssd, first);
    }

    /// There are more slots, or less: blocks that are not cached are counted anew.
    pub(crate) fn capacity_changed(&self) {
        let mut slots = self.slots.borrow_mut();
        slots.capacity_changed();
        *self.counters.borrow_mut() = Counters::new(slots.slot_count(), self.blocks.pages_per_block);
    }

    // ---- where pages are

    fn is_readable(&self, slot: SlotIndex) -> bool {
        self.ssds.of(slot).life().may_be_read()
    }

    /// Finds pages of one block for a host's read.
    pub(crate) fn find(&self, key: BlockKey, pages: &Range<u32>) -> BlockLookup {
        let mut slots = self.slots.borrow_mut();
        let Some(slot) = slots.find(key) else { return BlockLookup::Nothing };
        if slots.holds_all(slot, pages) && self.is_readable(slot) {
            slots.touch(slot);
            return BlockLookup::All(slot);
        }
        BlockLookup::Some
    }

    /// Tells where pages are for a host's read, run by run in their order: in which slot, with which block, or in none. The policy
    /// knows what is hit.
    pub(crate) fn find_runs(
        &self,
        volume: VolumeIndex,
        pages: Range<u64>,
        mut tell: impl FnMut(Range<u64>, Option<(SlotIndex, BlockKey)>),
    ) {
        let mut slots = self.slots.borrow_mut();
        for (block, within) in self.blocks.of(pages) {
            let first = self.blocks.first_page(block);
            let key = BlockKey { volume, block };
            let slot = slots.find(key).filter(|slot| self.is_readable(*slot));
            let mut page = within.start;
            while page < within.end {
                let left = within.end - page;
                let (valid, length) = slot.map_or((false, left), |slot| slots.run(slot, page, left));
                let run = first + u64::from(page)..first + u64::from(page + length);
                tell(run, slot.filter(|_| valid).map(|slot| (slot, key)));
                page += length;
            }
            if let Some(slot) = slot {
                slots.touch(slot);
            }
        }
    }

    /// Tells the policy that the blocks of these pages were hit elsewhere, where they are not touched here for it.
    pub(crate) fn touch(&self, volume: VolumeIndex, pages: &Range<u64>) {
        let mut slots = self.slots.borrow_mut();
        for (block, _) in self.blocks.of(pages.clone()) {
            if let Some(slot) = slots.find(BlockKey { volume, block }) {
                slots.touch(slot);
            }
        }
    }

    /// How a block stands of which a read missed something.
    pub(crate) fn standing(&self, key: BlockKey) -> Standing {
        self.slots.borrow().standing(key)
    }

    /// Which slot the block has, and whether that has this page of it.
    pub(crate) fn place_of(&self, key: BlockKey, page: u32) -> Option<SlotCopy> {
        let slots = self.slots.borrow();
        let slot = slots.find(key)?;
        let ssd = self.ssds.of(slot);
        Some(SlotCopy {
            ssd: ssd.path.clone(),
            slot: ssd.local(slot),
            has_page: slots.run(slot, page, 1).0 && self.is_readable(slot),
            published: slots.is_published(slot),
        })
    }

    // ---- what is counted

    /// How often a block that is not cached was asked for of late.
    pub(crate) fn counts_of(&self, key: BlockKey) -> BlockCounts {
        self.counters.borrow().counts_of(key)
    }

    /// Counts a read that missed these pages, once for each block; answers which blocks were missed so often of late, and how the first
    /// one stood.
    pub(crate) fn count_read<'a>(
        &self,
        volume: VolumeIndex,
        missing: impl Iterator<Item = &'a Range<u64>>,
        threshold: u8,
    ) -> CountedRead {
        let (mut slots, mut counters) = (self.slots.borrow_mut(), self.counters.borrow_mut());
        let mut last = None;
        let mut counted = CountedRead { hot: Vec::new(), first: None };
        for (block, _) in missing.flat_map(|pages| self.blocks.of(pages.clone())) {
            let key = BlockKey { volume, block };
            if last.replace(key) == Some(key) {
                continue;
            }
            let count = counters.count_read(key);
            counted.first.get_or_insert(FirstMissed { key, count });
            let is_hot = count >= threshold;
            slots.missed(key, if is_hot { Enters::AtOnce } else { Enters::NotYet });
            if is_hot {
                counted.hot.push(key);
            }
        }
        counted
    }

    /// Counts a write around the cache; answers the blocks of it that were written so often of late and are not cached.
    pub(crate) fn count_write(&self, volume: VolumeIndex, pages: Range<u64>, threshold: u8) -> Vec<BlockKey> {
        let (slots, mut counters) = (self.slots.borrow(), self.counters.borrow_mut());
        let keys = self.blocks.of(pages).map(|(block, _)| BlockKey { volume, block });
        keys.filter(|key| counters.count_write(*key) >= threshold && slots.find(*key).is_none()).collect()
    }

    /// Counts a write that is cached if all of its blocks were written so often of late; answers whether they were.
    pub(crate) fn count_to_cache(&self, volume: VolumeIndex, pages: Range<u64>, threshold: u8) -> bool {
        let mut counters = self.counters.borrow_mut();
        let mut reached = true;
        for (block, _) in self.blocks.of(pages) {
            reached &= counters.count_write(BlockKey { volume, block }) >= threshold;
        }
        reached
    }

    /// The memory of all tables of this room.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.slots.borrow().memory_bytes() + self.counters.borrow().memory_bytes() + self.ssds.memory_bytes()
    }
}
