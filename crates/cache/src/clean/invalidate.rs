//! Pages leave the cache: because a host writes them, because a slot is evicted, or because what a slot holds is bad.
//!
//! Out of sight at once, but believed after a crash until the drop is flushed (rule `believed-until-dropped`): who is
//! about to change the backing device waits for that, and a slot is filled again only after that.

use std::ops::Range;
use std::rc::Rc;

use hotset_block::Env;

use crate::address::{BlockIndex, BlockKey, SlotIndex, SsdIndex, VolumeIndex};
use crate::clean::index_journal::Ticket;
use crate::clean::slot_ssd::SlotSsd;
use crate::config::PAGE;
use crate::error::Error;
use crate::format::index::Entry;
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;

/// Drops that have to be flushed before something may happen.
pub(crate) type Drops = Vec<(SsdIndex, Ticket)>;

/// A freed slot that waits for its drop.
pub(crate) struct Freed {
    pub(crate) ssd: SsdIndex,
    local: u32,
    ticket: Ticket,
}

/// Blocks that one turn looks at, so that a trim of terabytes does not stop everybody else.
const BLOCKS_PER_TURN: u64 = 1024;

/// Slots that the pool keeps ready for fills: a 64th, within these bounds, and at most an eighth.
const READY_MIN: usize = 8;
const READY_MAX: usize = 256;

impl<E: Env> PoolInner<E> {
    /// Splits pages of a volume into blocks: the block, and the pages within it.
    pub(crate) fn blocks_of(&self, pages: Range<u64>) -> impl Iterator<Item = (BlockIndex, Range<u32>)> + use<E> {
        let per_block = u64::from(self.pages_per_block);
        let blocks = pages.start / per_block..pages.end.div_ceil(per_block);
        blocks.map(move |block| {
            let first = block * per_block;
            let start = pages.start.max(first) - first;
            let end = pages.end.min(first + per_block) - first;
            let small = |page: u64| u32::try_from(page).expect("a block has at most 1024 pages");
            (BlockIndex(u32::try_from(block).expect("volumes are checked at attach")), small(start)..small(end))
        })
    }

    /// Takes pages out of the cache and returns when nothing believes them any more.
    pub(crate) async fn invalidate_durably(
        self: &Rc<Self>,
        volume: VolumeIndex,
        pages: Range<u64>,
    ) -> Result<(), Error> {
        let stride = BLOCKS_PER_TURN * u64::from(self.pages_per_block);
        let mut start = pages.start;
        while start < pages.end {
            let end = pages.end.min((start / stride + 1) * stride);
            let drops = self.invalidate(volume, start..end);
            self.drops_settled(drops).await?;
            start = end;
            if start < pages.end {
                self.env.sleep(std::time::Duration::ZERO).await;
            }
        }
        Ok(())
    }

    /// Takes pages out of sight, of running fills too; answers what has to be flushed before they may change.
    pub(crate) fn invalidate(self: &Rc<Self>, volume: VolumeIndex, pages: Range<u64>) -> Drops {
        let mut drops = Vec::new();
        for (block, in_block) in self.blocks_of(pages) {
            let key = BlockKey { volume, block };
            if !planted(Planted::FillIgnoresWrite) && !planted(Planted::FillIgnoresDiscard) {
                self.fills.exclude(key, &in_block);
            }
            let slot = self.map.borrow().find(key);
            if let Some(slot) = slot {
                self.hide_slot_pages(slot, key, &in_block);
            }
            if let Some(pending) = self.drops.borrow().get(&key) {
                drops.extend(pending.iter().copied());
            }
        }
        drops
    }

    /// Takes pages of one slot out of sight and queues their drop; frees the slot if nothing is left in it.
    pub(crate) fn hide_slot_pages(self: &Rc<Self>, slot: SlotIndex, key: BlockKey, pages: &Range<u32>) {
        let (hidden, published, left) = {
            let mut map = self.map.borrow_mut();
            let hidden = map.clear_valid(slot, pages.clone());
            (hidden, map.published(slot), map.valid_count(slot))
        };
        if hidden == 0 {
            return;
        }
        if left == 0 {
            self.free_slot(slot, Why::Emptied);
        } else if published {
            self.queue_drop(slot, key, pages);
        }
    }

    fn queue_drop(self: &Rc<Self>, slot: SlotIndex, key: BlockKey, pages: &Range<u32>) -> Ticket {
        let ssd = Rc::clone(self.ssd_of(slot));
        let generation = self.map.borrow().generation(slot);
        let small = |page: u32| u16::try_from(page).expect("a block has at most 1024 pages");
        let (first_page, page_count) = (small(pages.start), small(pages.end - pages.start));
        let ticket = self.push_entry(&ssd, Entry::Drop { slot: ssd.local(slot), generation, first_page, page_count });
        self.drops.borrow_mut().entry(key).or_default().push((ssd.index, ticket));
        ticket
    }

    /// Waits until the drops are flushed, or their SSDs have left the pool; and for any SSD that is just leaving,
    /// because whatever it holds is believed until it has left.
    pub(crate) async fn drops_settled(&self, drops: Drops) -> Result<(), Error> {
        for (index, ticket) in drops {
            let ssd = self.slot_ssd(index);
            while ssd.is_online() && !ssd.journal.is_flushed(ticket) {
                ssd.journal.changed().await;
            }
        }
        for ssd in self.members.ssds().filter(|ssd| !ssd.is_online()) {
            while !ssd.life().has_left() {
                self.life.check_open()?;
                ssd.left_event.wait().await;
            }
        }
        Ok(())
    }

    /// Frees a used slot. It is ready again when its drop is flushed and no read of it is in flight.
    pub(crate) fn free_slot(self: &Rc<Self>, slot: SlotIndex, why: Why) {
        let ssd = Rc::clone(self.ssd_of(slot));
        let local = ssd.local(slot);
        let key = self.map.borrow().key(slot).expect("only a used slot is freed");
        let published = self.map.borrow().published(slot) && !planted(Planted::EvictWithoutDrop);
        let ticket = published.then(|| self.queue_drop(slot, key, &(0..self.pages_per_block)));
        self.unlist(slot, why);
        ssd.slots_used.set(ssd.slots_used.get() - 1);
        match ticket.filter(|_| !planted(Planted::ReuseBeforeDropFlushed)) {
            Some(ticket) => self.freed.borrow_mut().push(Freed { ssd: ssd.index, local, ticket }),
            None => self.reclaim_slot(&ssd, local),
        }
    }

    fn unlist(&self, slot: SlotIndex, why: Why) {
        let (mut map, mut policy) = (self.map.borrow_mut(), self.policy.borrow_mut());
        match why {
            Why::Evicted => policy.evicted(&mut map, slot),
            Why::Emptied | Why::Replaced => policy.removed(&mut map, slot),
        }
        map.remove(slot);
    }

    /// Forgets a slot of an SSD that is offline.
    pub(crate) fn forget_slot(&self, slot: SlotIndex) {
        if self.map.borrow().is_used(slot) {
            self.unlist(slot, Why::Emptied);
        }
    }

    /// The slot is ready when the reads that may have found it have ended.
    fn reclaim_slot(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>, local: u32) {
        if planted(Planted::ReuseUnderRead) {
            if !ssd.segments.borrow_mut().release_slot(local) {
                ssd.ready.borrow_mut().push(local);
            }
        } else {
            ssd.grace.free(local);
        }
        self.collect_ready(ssd);
    }

    /// Takes over the slots that no read can see any more.
    pub(crate) fn collect_ready(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>) {
        let mut ready = ssd.grace.take_ready();
        if self.log.is_some() {
            let before = ready.len();
            ready.retain(|local| !ssd.segments.borrow_mut().release_slot(*local));
            if ready.len() < before {
                ssd.wake_for_segments();
            }
        }
        if ssd.is_online() && !ready.is_empty() {
            ssd.ready.borrow_mut().append(&mut ready);
            self.fill_pump_wanted.wake_all();
        }
    }

    /// A batch of the SSD's journal was flushed: forgets the drops in it, and frees the slots that waited for them.
    pub(crate) fn drops_flushed(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>) {
        let flushed = |index: SsdIndex, ticket| index == ssd.index && ssd.journal.is_flushed(ticket);
        self.drops.borrow_mut().retain(|_, pending| {
            pending.retain(|(index, ticket)| !flushed(*index, *ticket));
            !pending.is_empty()
        });
        let mut freed = Vec::new();
        self.freed.borrow_mut().retain(|slot| {
            let done = flushed(slot.ssd, slot.ticket);
            if done {
                freed.push(slot.local);
            }
            !done
        });
        for local in freed {
            self.reclaim_slot(ssd, local);
        }
    }

    /// Evicts until enough slots are ready, or on their way to be.
    pub(crate) fn make_room(self: &Rc<Self>) {
        let wanted = ready_wanted(u64::from(self.map.borrow().slot_count()));
        let coming = self.freed.borrow().len();
        let mut free: usize =
            self.serving_slot_ssds().map(|ssd| ssd.ready.borrow().len() + ssd.grace.in_limbo()).sum::<usize>() + coming;
        while free < wanted {
            let victim = self.policy.borrow_mut().victim(&mut self.map.borrow_mut(), |_| false);
            let Some(slot) = victim else { return };
            self.count_eviction(slot);
            self.free_slot(slot, Why::Evicted);
            free += 1;
        }
    }

    /// The pages that a byte range touches.
    pub(crate) fn pages_of(range: hotset_block::ByteRange) -> Range<u64> {
        range.start / PAGE..range.end.div_ceil(PAGE)
    }
}

/// Slots that a pool with so many keeps ready.
pub(crate) fn ready_wanted(slots: u64) -> usize {
    let slots = crate::address::at_u64(slots);
    (slots / 64).clamp(READY_MIN, READY_MAX).min(slots / 8).max(1)
}

/// Why a slot is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Evicted,
    /// None of its pages is valid any more.
    Emptied,
    /// Its block was filled anew into another slot.
    Replaced,
}
