//! The slot index of each SSD, which says what of its slots is believed: what is published, and what is dropped. It is written as
//! batches of journal sectors, each flushed before the next, and checkpoints.
//!
//! One batch is in flight at a time, so a torn batch can only be the last one: recovery takes a gap in it for a cut and
//! a gap anywhere else for damage.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use hotset_block::Env;

use crate::address::{BlockKey, SlotIndex, SsdIndex, VolumeIndex};
use crate::attachment_ids::AttachmentIds;
use crate::clean::fills::Fills;
use crate::clean::index_journal::{JournalBatch, Ticket};
use crate::clean::pending_drops::{Drops, PendingDrops};
use crate::clean::slot_ssd::SlotSsd;
use crate::clean::slot_ssds::SlotSsds;
use crate::clean::slots::Slots;
use crate::error::Error;
use crate::format::checkpoint::CheckpointHeader;
use crate::format::index::{IndexEntry, Sector, SectorPlace};
use crate::members::Members;
use crate::members::pool_life::PoolLife;
use crate::members::segments::Purpose;
use crate::members::ssd::Fault;

/// Sectors of one batch at most.
const BATCH_SECTORS: u64 = 64;
/// Bytes of one write of a checkpoint.
const CHECKPOINT_CHUNK_BYTES: usize = 64 << 10;
/// Fills that a checkpoint allows for before the next one.
const FILLS_AHEAD: u64 = 1 << 24;
/// Bytes of one write where an index is made empty.
const EMPTY_CHUNK_BYTES: u64 = 256 << 10;

/// What is believed of the slots of a pool.
pub(crate) struct Index<E: Env> {
    env: E,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    ids: Rc<AttachmentIds>,
    ssds: Rc<SlotSsds<E>>,
    slots: Rc<RefCell<Slots>>,
    fills: Rc<Fills>,
    drops: RefCell<PendingDrops>,
}

impl<E: Env> Index<E> {
    pub(super) fn new(
        env: E,
        life: Rc<PoolLife>,
        members: Rc<Members<E>>,
        ids: Rc<AttachmentIds>,
        tables: (Rc<SlotSsds<E>>, Rc<RefCell<Slots>>, Rc<Fills>),
    ) -> Self {
        let (ssds, slots, fills) = tables;
        Self { env, life, members, ids, ssds, slots, fills, drops: RefCell::default() }
    }

    // ---- entries

    /// A filled slot is believed, as soon as the entry for it is durable: answers that.
    pub(super) fn publish(self: &Rc<Self>, slot: SlotIndex) -> Option<(SsdIndex, Ticket)> {
        let ssd = Rc::clone(self.ssds.of(slot));
        if !ssd.is_online() {
            return None;
        }
        // Of a volume that is being forgotten there is none.
        let entry = self.publish_entry(slot, ssd.local(slot))?;
        self.slots.borrow_mut().publish(slot);
        Some((ssd.index, self.push(&ssd, entry)))
    }

    /// Pages of a slot are not believed any more, as soon as the entry for that is durable: answers that.
    pub(super) fn record_drop(self: &Rc<Self>, slot: SlotIndex, key: BlockKey, pages: &Range<u32>) -> Ticket {
        let ssd = Rc::clone(self.ssds.of(slot));
        let generation = self.slots.borrow().generation(slot);
        let small = |page: u32| u16::try_from(page).expect("a block has at most 1024 pages");
        let (first_page, page_count) = (small(pages.start), small(pages.end - pages.start));
        let ticket = self.push(&ssd, IndexEntry::Drop { slot: ssd.local(slot), generation, first_page, page_count });
        self.drops.borrow_mut().queued(key, ssd.index, ticket);
        ticket
    }

    /// What has to be durable before pages of a block may change.
    pub(super) fn add_drops_of(&self, key: BlockKey, drops: &mut Drops) {
        drops.extend_from_slice(self.drops.borrow().of(key));
    }

    /// Of the slot indexes of all SSDs in use: whoever waits for these waits for all that is queued by now.
    pub(crate) fn last_tickets(&self) -> Drops {
        let online = self.ssds.iter().filter(|ssd| ssd.is_online());
        online.map(|ssd| (ssd.index, ssd.journal.last_ticket())).collect()
    }

    /// Waits until these are flushed, or their SSDs have left the pool; and for any SSD that is just leaving,
    /// because whatever it holds is believed until it has left.
    pub(crate) async fn wait_durable(&self, entries: Drops) -> Result<(), Error> {
        for (index, ticket) in entries {
            let ssd = self.ssds.get(index);
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

    // ---- slots that are freed

    /// A slot was freed: it is ready again when its drop is flushed, if there is one, and no read of it is in flight.
    pub(super) fn free(&self, ssd: &SlotSsd<E>, local: u32, dropped: Option<Ticket>) {
        match dropped {
            Some(ticket) => self.drops.borrow_mut().free_after(ssd.index, local, ticket),
            None => self.reclaim_unpublished(ssd, local),
        }
    }

    /// Nothing ever believed the slot: it is ready when the reads that may have found it have ended.
    pub(super) fn reclaim_unpublished(&self, ssd: &SlotSsd<E>, local: u32) {
        if ssd.reclaim_unpublished(local) {
            self.fills.wake_pump();
        }
    }

    /// A batch of the SSD's journal was flushed: forgets the drops in it, and frees the slots that waited for them.
    fn drops_flushed(&self, ssd: &SlotSsd<E>) {
        let freed = self.drops.borrow_mut().flushed(ssd.index, |ticket| ssd.journal.is_flushed(ticket));
        for freed in &freed {
            if ssd.reclaim(freed) {
                self.fills.wake_pump();
            }
        }
    }

    /// Slots that were freed and wait for their drops.
    pub(super) fn freed_count(&self) -> usize {
        self.drops.borrow().freed_count()
    }

    /// The SSD has left durably: nothing of it is believed.
    pub(super) fn forget_ssd(&self, ssd: SsdIndex) {
        self.drops.borrow_mut().forget_ssd(ssd);
    }

    /// The attachment is dead, durably: nothing of it is believed.
    pub(super) fn forget_volume(&self, volume: VolumeIndex) {
        self.drops.borrow_mut().forget_volume(volume);
    }

    // ---- the journal

    /// Queues an entry and sees to it that somebody writes it.
    fn push(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>, entry: IndexEntry) -> Ticket {
        let ticket = ssd.journal.push(entry);
        if ssd.journal.begin_writing() {
            let (index, ssd) = (Rc::clone(self), Rc::clone(ssd));
            self.env.spawn(async move { index.write_journal(&ssd).await });
        }
        ticket
    }

    /// Writes batches until nothing waits.
    async fn write_journal(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>) {
        while !ssd.journal.is_empty() {
            if let Err(fault) = self.write_batch(ssd).await {
                self.members.ssd_failed(&ssd.ssd, &fault);
                return;
            }
            self.drops_flushed(ssd);
            if ssd.journal.used() > ssd.layout.journal_sectors() / 2 {
                self.spawn_checkpoint(ssd);
            }
        }
        ssd.journal.end_writing();
    }

    /// Writes and flushes one batch.
    async fn write_batch(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>) -> Result<(), Fault> {
        let journal = &ssd.journal;
        let ring = ssd.layout.journal_sectors();
        // A batch never wraps: it ends with the ring.
        let room = BATCH_SECTORS.min(ring - journal.position(ring));
        while !journal.has_room(ring, room) {
            self.spawn_checkpoint(ssd);
            let changed = journal.changed();
            if !ssd.is_online() {
                return Err(Fault::Offline);
            }
            changed.await;
        }
        let batch = journal.take_batch(ssd.incarnation(), ssd.layout.sector_bytes, room);
        ssd.write_batch(&batch).await?;
        if batch.has_drops() {
            self.members.witness_keeper().drops_are_flushed(ssd).await;
        }
        journal.taken_is_flushed(batch.entries);
        Ok(())
    }

    /// Raises the ceiling of generations in time where fills alone use it up: what is never published brings no checkpoint.
    pub(super) fn keep_ahead_of_fills(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>) {
        if ssd.generations_left() < FILLS_AHEAD / 2 {
            self.spawn_checkpoint(ssd);
        }
    }

    fn spawn_checkpoint(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>) {
        if !ssd.journal.begin_checkpoint() {
            return;
        }
        let (index, ssd) = (Rc::clone(self), Rc::clone(ssd));
        self.env.spawn(async move {
            let session = index.members.record().session;
            if let Err(fault) = index.write_checkpoint(&ssd, session).await {
                index.members.ssd_failed(&ssd.ssd, &fault);
            }
            ssd.journal.end_checkpoint();
            index.fills.wake_pump();
        });
    }

    // ---- checkpoints

    /// A checkpoint of a session that begins; then whatever the last one left half written in the journal is made good.
    pub(crate) async fn begin_session(&self, ssd: &SlotSsd<E>, session: u64) -> Result<(), Fault> {
        self.write_first_checkpoint(ssd, session).await?;
        ssd.fill_journal_holes().await
    }

    /// Makes the index of an SSD that joins in this session empty: nothing that it said before is believed.
    pub(crate) async fn format(&self, ssd: &SlotSsd<E>, session: u64) -> Result<(), Fault> {
        ssd.empty_index().await?;
        self.write_first_checkpoint(ssd, session).await
    }

    /// Of a session, when the one that is just written, if there is one, is.
    async fn write_first_checkpoint(&self, ssd: &SlotSsd<E>, session: u64) -> Result<(), Fault> {
        loop {
            let changed = ssd.journal.changed();
            if ssd.journal.begin_checkpoint() {
                break;
            }
            changed.await;
        }
        let written = self.write_checkpoint(ssd, session).await;
        ssd.journal.end_checkpoint();
        written
    }

    /// Writes what is believed now, slot by slot, while it goes on changing: whatever changes from here on is in the
    /// journal too, and replaying it over any later state of a slot ends in the same state. The caller has begun it, alone.
    async fn write_checkpoint(&self, ssd: &SlotSsd<E>, session: u64) -> Result<(), Fault> {
        // One that begins is on record later than its first checkpoint.
        let session = session.max(ssd.journal.session());
        let (journal_start, number) = (ssd.journal.end(), ssd.journal.next_checkpoint());
        let generation_ceiling = ssd.fills() + FILLS_AHEAD;
        let offset = ssd.layout.checkpoint_offset(number % 2);
        let sectors = self.write_checkpoint_body(ssd, number, offset).await?;
        ssd.flush().await?;
        let incarnation = ssd.incarnation();
        let header = CheckpointHeader { incarnation, number, session, journal_start, generation_ceiling, sectors };
        let mut buf = self.env.buffers().take(ssd.sector_bytes());
        header.encode_into(&mut buf);
        ssd.write(Purpose::Index, offset, buf).await?;
        ssd.flush().await?;
        ssd.journal.has_checkpoint(number, journal_start, session);
        ssd.raise_ceiling(generation_ceiling);
        Ok(())
    }

    /// Writes the sectors behind the header; answers how many.
    async fn write_checkpoint_body(&self, ssd: &SlotSsd<E>, number: u64, area: u64) -> Result<u64, Fault> {
        let bytes = ssd.sector_bytes();
        let mut next_slot = 0;
        let mut written = 0;
        while next_slot < ssd.layout.slot_count() {
            let mut buf = self.env.buffers().take(CHECKPOINT_CHUNK_BYTES);
            let mut filled = 0;
            for chunk in buf.chunks_exact_mut(bytes) {
                let sector_number = written + u64::try_from(filled).expect("an address has 64 bits at most");
                let Some(sector) = self.checkpoint_sector(ssd, number, sector_number, &mut next_slot) else { break };
                sector.encode_into(chunk);
                filled += 1;
            }
            if filled == 0 {
                break;
            }
            let offset = area + (1 + written) * u64::from(ssd.layout.sector_bytes);
            let (end, area_end) = (
                offset + u64::try_from(filled * bytes).expect("an address has 64 bits at most"),
                area + ssd.layout.checkpoint_area_bytes,
            );
            assert!(end <= area_end, "SSD {}: checkpoint {number} ends at {end}, behind {area_end}", ssd.path);
            ssd.write(Purpose::Index, offset, buf.narrow(0, filled * bytes)).await?;
            written += u64::try_from(filled).expect("an address has 64 bits at most");
        }
        Ok(written)
    }

    /// The next sector of a checkpoint, from `next_slot` on; `None` if no published slot is left.
    fn checkpoint_sector(&self, ssd: &SlotSsd<E>, checkpoint: u64, number: u64, next_slot: &mut u32) -> Option<Sector> {
        let incarnation = ssd.incarnation();
        let entries = Vec::new();
        let mut sector =
            Sector { place: SectorPlace::Checkpoint, incarnation, number, flushed_below: checkpoint, entries };
        while *next_slot < ssd.layout.slot_count() {
            if let Some(entry) = self.believed_entry(ssd, *next_slot) {
                if !sector.fits(&entry, ssd.layout.sector_bytes) {
                    break;
                }
                sector.entries.push(entry);
            }
            *next_slot += 1;
        }
        (!sector.entries.is_empty()).then_some(sector)
    }

    /// What is believed of a slot now; `None` if nothing is.
    fn believed_entry(&self, ssd: &SlotSsd<E>, local: u32) -> Option<IndexEntry> {
        if !ssd.life().has_joined() {
            return None;
        }
        let slot = ssd.slot_index(local);
        let published = {
            let slots = self.slots.borrow();
            slots.is_published(slot) && slots.believed_pages(slot) > 0
        };
        published.then(|| self.publish_entry(slot, local))?
    }

    /// What the index is to say of a slot.
    fn publish_entry(&self, slot: SlotIndex, local: u32) -> Option<IndexEntry> {
        let slots = self.slots.borrow();
        let key = slots.key(slot)?;
        let (attachment, block) = (self.ids.of(key.volume)?, u64::from(key.block.0));
        let (generation, mask) = (slots.generation(slot), slots.mask(slot));
        Some(IndexEntry::Publish { slot: local, generation, attachment, block, mask })
    }

    // ---- for a stop, and for an SSD that leaves

    pub(crate) async fn finish_checkpoints(&self) {
        for ssd in self.ssds.iter() {
            while ssd.journal.is_checkpointing() && ssd.is_online() {
                ssd.journal.changed().await;
            }
        }
    }

    /// Where each SSD's slot index ends, for the clean mark.
    pub(crate) fn ends(&self) -> Vec<(u128, u64)> {
        // One that left and came back is there twice.
        self.ssds.iter().filter(|ssd| ssd.is_online()).map(|ssd| (ssd.uuid, ssd.journal.end())).collect()
    }

    /// The slot index of an SSD is being written.
    pub(crate) fn is_being_written(&self, index: SsdIndex) -> bool {
        self.ssds.get(index).journal.is_busy()
    }
}

impl<E: Env> SlotSsd<E> {
    fn sector_bytes(&self) -> usize {
        usize::try_from(self.layout.sector_bytes).expect("512 or 4096")
    }

    async fn write_batch(&self, batch: &JournalBatch) -> Result<(), Fault> {
        let bytes = self.sector_bytes();
        let mut buf = self.env.buffers().take(batch.sectors.len() * bytes);
        for (sector, chunk) in batch.sectors.iter().zip(buf.chunks_exact_mut(bytes)) {
            sector.encode_into(chunk);
        }
        let position = self.journal.position(self.layout.journal_sectors()) * u64::from(self.layout.sector_bytes);
        let (ring, sectors) = (self.layout.journal_sectors(), u64::try_from(batch.sectors.len()).unwrap_or(u64::MAX));
        let has_room = self.journal.has_room(ring, sectors);
        assert!(has_room, "SSD {}: {sectors} sectors of its journal would overwrite what is needed", self.path);
        let end = self.journal.position(ring) + sectors;
        assert!(end <= ring, "SSD {}: sectors of its journal would end at {end} of {ring}", self.path);
        self.journal.goes_on_by(batch.sectors.len());
        self.write(Purpose::Index, self.layout.journal_offset() + position, buf).await?;
        self.flush().await?;
        self.has_flushed_index(self.journal.end());
        Ok(())
    }

    /// Writes empty sectors where a batch of the first lap was torn: later laps would take the holes for sectors that
    /// were erased. The caller has written a checkpoint that begins behind them, so nothing of them is replayed.
    async fn fill_journal_holes(&self) -> Result<(), Fault> {
        let holes = self.journal.take_holes();
        if holes.is_empty() {
            return Ok(());
        }
        for number in holes {
            let ring = self.layout.journal_sectors();
            assert!(number < ring, "SSD {}: sector {number} was torn in the first lap of {ring}", self.path);
            let incarnation = self.incarnation();
            let entries = Vec::new();
            let sector = Sector { place: SectorPlace::Journal, incarnation, number, flushed_below: number, entries };
            let mut buf = self.env.buffers().take(self.sector_bytes());
            sector.encode_into(&mut buf);
            let offset = self.layout.journal_offset() + number * u64::from(self.layout.sector_bytes);
            self.write(Purpose::Index, offset, buf).await?;
        }
        self.flush().await
    }

    /// Makes the index empty, under the SSD's incarnation: nothing that it said before is believed, and every slot is ready.
    pub(crate) async fn empty_index(&self) -> Result<(), Fault> {
        let mut offset = self.layout.checkpoint_offset(0);
        let end = self.layout.journal_offset() + self.layout.journal_bytes;
        while offset < end {
            let length = EMPTY_CHUNK_BYTES.min(end - offset);
            let bytes = usize::try_from(length).expect("what lies in memory has an address");
            self.write(Purpose::Index, offset, self.env.buffers().take_zeroed(bytes)).await?;
            offset += length;
        }
        self.flush().await?;
        self.journal.emptied();
        self.has_flushed_index(0);
        self.all_are_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hotset_block::{Executor, ExecutorOptions, HostEnv};

    use super::*;
    use crate::members::ssd::tests::new_ssd;

    /// An SSD, and how many sectors the ring of its journal has.
    fn with_ring(test: impl AsyncFnOnce(&SlotSsd<HostEnv>, u64)) {
        Executor::new(ExecutorOptions::default()).expect("the kernel has io_uring").run(async |env| {
            let ssd = SlotSsd::new(Rc::new(new_ssd(env)));
            test(&ssd, ssd.layout.journal_sectors()).await;
        });
    }

    /// So many sectors were journalled.
    fn goes_on_by(ssd: &SlotSsd<HostEnv>, sectors: u64) {
        ssd.journal.goes_on_by(usize::try_from(sectors).expect("an address has 64 bits at most"));
    }

    async fn write(ssd: &SlotSsd<HostEnv>, sectors: usize) {
        let sector = Sector {
            place: SectorPlace::Journal,
            incarnation: ssd.incarnation(),
            number: ssd.journal.end(),
            flushed_below: 0,
            entries: Vec::new(),
        };
        let batch = JournalBatch { sectors: vec![sector; sectors], entries: 0 };
        ssd.write_batch(&batch).await.expect("the device takes it");
    }

    #[test]
    #[should_panic(expected = "SSD ssd: 1 sectors of its journal would overwrite what is needed")]
    fn a_journal_does_not_overwrite_what_no_checkpoint_makes_needless() {
        with_ring(async |ssd, ring| {
            goes_on_by(ssd, ring);
            write(ssd, 1).await;
        });
    }

    #[test]
    #[should_panic(expected = "SSD ssd: sectors of its journal would end at")]
    fn a_batch_of_the_journal_does_not_reach_behind_the_ring() {
        with_ring(async |ssd, ring| {
            goes_on_by(ssd, ring - 1);
            ssd.journal.has_checkpoint(1, ring - 1, 0);
            write(ssd, 2).await;
        });
    }

    #[test]
    #[should_panic(expected = "was torn in the first lap of")]
    fn a_hole_behind_the_ring_is_not_filled() {
        with_ring(async |ssd, ring| {
            ssd.journal.opened(0, ring + 1, vec![ring]);
            ssd.journal.has_checkpoint(1, ring + 1, 0);
            ssd.fill_journal_holes().await.expect("the device takes it");
        });
    }
}
