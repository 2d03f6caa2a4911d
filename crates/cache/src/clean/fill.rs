//! A block enters the cache: a ready slot is taken for it, header and data are written there, and then it is visible.
//!
//! A fill never shows a page that was written or discarded at any moment between its start and its publication (rule
//! `fill-clean-only`): whoever begins it leaves out what is just changing, writes that begin later take theirs out
//! (`invalidate`). The page positions of a slot are written once, in one transfer with the header.

use std::rc::Rc;

use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::BlockKey;
use crate::clean::Clean;
use crate::clean::fills::Fill;
use crate::clean::page_set::PageSet;
use crate::clean::slot_ssd::SlotSsd;
use crate::clean::slots::{SlotContent, Why};
use crate::clean::unpublished::Filled;
use crate::format::crc32c;
use crate::format::slot_header::SlotHeader;
use crate::members::segments::Purpose;

impl<E: Env> Clean<E> {
    /// Whether a block could be brought in now: a slot for it is ready.
    pub(crate) fn has_ready_slot(&self) -> bool {
        self.ssds.serving().any(|ssd| ssd.life().may_take_batches() && ssd.ready_count() > 0)
    }

    /// Whether a block, of which the volume has so many pages, is neither in the cache as a whole nor on its way there.
    pub(crate) fn needs_fill(&self, key: BlockKey, pages: u32) -> bool {
        let slots = self.slots.borrow();
        let has_all = slots.find(key).is_some_and(|slot| slots.pages_in(slot) >= pages);
        !has_all && !self.fills.is_running(key)
    }

    /// Reserves a slot for a block and registers the fill, so that writes from now on are seen. `None`: there is no slot.
    pub(crate) fn begin_fill(&self, key: BlockKey, attachment: u64, pages: PageSet) -> Option<Rc<Fill>> {
        let content = self.take_ready_slot(key)?;
        let fill = Rc::new(Fill::new(content, attachment, pages, self.env.now()));
        self.fills.begin(Rc::clone(&fill));
        Some(fill)
    }

    /// A ready slot, from the SSD with the largest share of them, so that all SSDs fill evenly whatever their sizes.
    fn take_ready_slot(&self, key: BlockKey) -> Option<SlotContent> {
        let usable = self.ssds.serving().filter(|ssd| ssd.can_be_filled());
        let ssd = usable.max_by_key(|ssd| ssd.ready_share())?;
        let (local, generation) = ssd.take_ready()?;
        self.index.keep_ahead_of_fills(ssd);
        Some(SlotContent { slot: ssd.slot_index(local), key, generation })
    }

    /// The bytes before the pages of a block in its slot, in one transfer with them.
    pub(crate) fn header_bytes(&self, fill: &Fill) -> usize {
        usize::try_from(self.ssds.of(fill.content.slot).layout.header_bytes()).expect("an address has 64 bits at most")
    }

    /// Writes a block that was read into its slot, and makes it visible: `header` is to be written before `data`, in one buffer with
    /// it. Answers how many of its pages came in: none, if the log took the slot meanwhile. The fill is not ended by this.
    pub(crate) async fn complete_fill(&self, fill: &Fill, mut header: Buf, data: Buf) -> u32 {
        if !fill.has_slot() {
            // Reading took too long.
            return 0;
        }
        assert_eq!(header.len(), self.header_bytes(fill), "a block is written without room for its header");
        let checksums: Vec<u32> =
            if self.checksums { data.chunks_exact(PAGE_BYTES).map(crc32c).collect() } else { Vec::new() };
        let ssd = Rc::clone(self.ssds.of(fill.content.slot));
        let described = SlotHeader {
            incarnation: ssd.incarnation(),
            slot: ssd.local(fill.content.slot),
            generation: fill.content.generation,
            attachment: fill.attachment,
            block: u64::from(fill.key().block.0),
            checksums: checksums.clone(),
        };
        described.encode_into(&mut header);
        ssd.begin_fill_write(described.slot, described.generation);
        if !fill.pages().is_empty() {
            let offset = ssd.layout.slot_offset(described.slot);
            let purpose = Purpose::Slot { slot: described.slot, generation: described.generation };
            let write = ssd.write(purpose, offset, header.join(data));
            if let Err(fault) = write.await {
                ssd.fill_ended(described.slot, described.generation);
                self.members.ssd_failed(&ssd.ssd, &fault);
                return 0;
            }
        }
        self.show(fill, &ssd, &checksums)
    }

    /// Makes the filled slot visible, in one turn: what is still in the fill's set is what the backing device holds. Answers how
    /// many pages that are.
    fn show(&self, fill: &Fill, ssd: &Rc<SlotSsd<E>>, checksums: &[u32]) -> u32 {
        let (content, pages) = (fill.content, fill.pages());
        let local = ssd.local(content.slot);
        ssd.fill_ended(local, content.generation);
        let current = self.ids.of(content.key.volume) == Some(fill.attachment);
        if !ssd.is_online() {
            return 0;
        }
        if pages.is_empty() || !current || self.life.is_stopping() || !ssd.is_for_slots(local) {
            self.index.reclaim_unpublished(ssd, local);
            return 0;
        }
        let older = self.slots.borrow().find(content.key);
        if let Some(older) = older {
            self.free_slot(older, Why::Replaced);
        }
        self.slots.borrow_mut().show(content, &pages, checksums);
        self.counters.borrow_mut().forget(content.key);
        ssd.slot_is_used();
        self.unpublished.add(Filled { slot: content.slot, generation: content.generation });
        pages.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{BlockIndex, VolumeIndex};
    use crate::pool::open::tests::with_pool;

    #[test]
    #[should_panic(expected = "a block is written without room for its header")]
    fn a_block_is_not_written_without_its_header() {
        with_pool(&[1, 2], async |pool| {
            for ssd in pool.clean.ssds().iter() {
                ssd.raise_ceiling(100);
                ssd.all_are_ready();
            }
            let key = BlockKey { volume: VolumeIndex(0), block: BlockIndex(3) };
            let fill = pool.clean.begin_fill(key, 1, PageSet::from_range(0..1)).expect("every slot is ready");
            let data = Buf::zeroed(PAGE_BYTES);
            pool.clean.complete_fill(&fill, Buf::zeroed(pool.clean.header_bytes(&fill) + 512), data).await;
        });
    }
}
