//! Pages leave the cache: because a host writes them, because a slot is evicted, or because what a slot holds is bad.
//!
//! Out of sight at once, but believed after a crash until the drop is flushed (rule `believed-until-dropped`): who is
//! about to change the backing device waits for that, and a slot is filled again only after that.

use std::ops::Range;
use std::time::Duration;

use hotset_block::Env;

use crate::address::{BlockKey, SlotIndex, SsdIndex, VolumeIndex};
use crate::clean::Clean;
use crate::clean::pending_drops::Drops;
use crate::clean::slots::{Hidden, SlotDrop, Why};
use crate::error::Error;

/// Blocks that one turn looks at, so that a trim of terabytes does not stop everybody else.
const BLOCKS_PER_TURN: u64 = 1024;

/// Slots that are forgotten in one turn.
const SLOTS_PER_TURN: u32 = 4096;

/// Slots of a volume that are freed in one turn.
const FREED_PER_TURN: u32 = 1024;

impl<E: Env> Clean<E> {
    /// Takes pages out of the cache and returns when nothing believes them any more.
    pub(crate) async fn invalidate_durably(&self, volume: VolumeIndex, pages: Range<u64>) -> Result<(), Error> {
        let stride = BLOCKS_PER_TURN * u64::from(self.blocks.pages_per_block);
        let mut start = pages.start;
        while start < pages.end {
            let end = pages.end.min((start / stride + 1) * stride);
            self.index.wait_durable(self.invalidate(volume, start..end)).await?;
            start = end;
            if start < pages.end {
                self.env.sleep(Duration::ZERO).await;
            }
        }
        // Last: a read that finds a slot until then brings nothing into memory that stays there.
        if let Some(memory) = self.in_memory.pages_of(volume) {
            memory.supersede_in_turns(&pages, || self.env.sleep(Duration::ZERO)).await;
        }
        Ok(())
    }

    /// Takes pages out of slots and of running fills; answers what has to be flushed before they may change.
    pub(crate) fn invalidate(&self, volume: VolumeIndex, pages: Range<u64>) -> Drops {
        let mut drops = Vec::new();
        for (block, in_block) in self.blocks.of(pages) {
            let key = BlockKey { volume, block };
            self.fills.exclude(key, &in_block);
            self.invalidate_in_block(key, &in_block);
            self.index.add_drops_of(key, &mut drops);
        }
        drops
    }

    /// Takes pages out of memory and out of the slots, whose content is superseded by the write log now. Their drops are flushed before their row is
    /// freed.
    pub(crate) fn supersede(&self, volume: VolumeIndex, pages: Range<u64>) {
        self.in_memory.supersede(volume, &pages);
        if self.fills.running() == 0 && self.slots.borrow().used_bytes_of(volume) == 0 {
            return;
        }
        for (block, in_block) in self.blocks.of(pages) {
            let key = BlockKey { volume, block };
            self.fills.exclude(key, &in_block);
            self.invalidate_in_block(key, &in_block);
        }
    }

    fn invalidate_in_block(&self, key: BlockKey, pages: &Range<u32>) {
        let slot = self.slots.borrow().find(key);
        if let Some(slot) = slot {
            self.hide_slot_pages(slot, key, pages);
        }
    }

    /// Takes pages of one slot out of sight and queues their drop; frees the slot if nothing is left in it.
    pub(super) fn hide_slot_pages(&self, slot: SlotIndex, key: BlockKey, pages: &Range<u32>) {
        let hidden = self.slots.borrow_mut().hide(slot, pages.clone());
        match hidden {
            Hidden::Nothing | Hidden::Some { believed: false } => {}
            Hidden::Some { believed: true } => {
                self.index.record_drop(slot, key, pages);
            }
            Hidden::All => self.free_slot(slot, Why::Emptied),
        }
    }

    // ---- slots are freed

    /// Frees a used slot. It is ready again when its drop is flushed and no read of it is in flight.
    pub(super) fn free_slot(&self, slot: SlotIndex, why: Why) {
        let ssd = self.ssds.of(slot);
        let key = self.slots.borrow().key(slot).expect("only a used slot is freed");
        let published = self.slots.borrow().is_published(slot);
        let dropped = published.then(|| self.index.record_drop(slot, key, &(0..self.blocks.pages_per_block)));
        let drop = if dropped.is_some() { SlotDrop::Recorded } else { SlotDrop::NotNeeded };
        self.slots.borrow_mut().free(slot, why, drop);
        ssd.slot_is_freed();
        self.index.free(ssd, ssd.local(slot), dropped);
    }

    // ---- whose slots they were is gone

    /// An SSD has left durably: takes its slots out of the map, some at a time.
    pub(crate) async fn forget_ssd(&self, index: SsdIndex) {
        let ssd = self.ssds.get(index);
        for local in 0..ssd.layout.slot_count() {
            let slot = ssd.slot_index(local);
            if self.slots.borrow().is_used(slot) {
                self.slots.borrow_mut().free(slot, Why::Emptied, SlotDrop::SsdLeft);
            }
            if local % SLOTS_PER_TURN == SLOTS_PER_TURN - 1 {
                self.env.sleep(Duration::ZERO).await;
            }
        }
        self.index.forget_ssd(index);
        self.fills.wake_pump();
    }

    /// Frees the slots of an attachment whose id is dead: nothing believes them, so no drop is recorded. Waits for fills of it that
    /// run, which bring nothing any more.
    pub(crate) async fn forget_volume(&self, index: VolumeIndex) {
        self.fills.abandon(index);
        while self.fills.is_running_for(index) {
            self.fills.ended().await;
        }
        let mut from = SlotIndex(0);
        let mut turn = 0;
        loop {
            let found = self.slots.borrow().next_slot_of(index, from);
            let Some(slot) = found else { break };
            self.slots.borrow_mut().disbelieve(slot);
            self.free_slot(slot, Why::Emptied);
            from = slot;
            turn += 1;
            if turn % FREED_PER_TURN == 0 {
                self.env.sleep(Duration::ZERO).await;
            }
        }
        let left = self.slots.borrow().slots_used_by(index);
        assert_eq!(left, 0, "volume {} is forgotten, and blocks of it are still in slots", index.0);
        self.index.forget_volume(index);
    }

    /// Forgets the slots of a volume that no flush of its backing device vouches for, and has fills that run bring nothing.
    /// The caller holds the publisher off.
    pub(crate) fn forget_unpublished_of(&self, index: VolumeIndex) {
        self.fills.abandon(index);
        for filled in self.unpublished.take() {
            let of = self.slots.borrow().unpublished_volume(filled.slot, filled.generation);
            match of {
                Some(volume) if volume == index => self.free_slot(filled.slot, Why::Emptied),
                Some(_) => self.unpublished.put_back(filled),
                None => {}
            }
        }
    }
}
