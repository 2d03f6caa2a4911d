//! The slot index of one SSD is written: batches of journal sectors, each flushed before the next, and checkpoints.
//!
//! One batch is in flight at a time, so a torn batch can only be the last one: recovery takes a gap in it for a cut and
//! a gap anywhere else for damage.

use std::rc::Rc;

use hotset_block::Env;

use crate::clean::index_journal::Ticket;
use crate::clean::slot_ssd::SlotSsd;
use crate::format::checkpoint::CheckpointHeader;
use crate::format::index::{Entry, Place, Sector};
use crate::members::segments::Purpose;
use crate::members::ssd::Fault;
use crate::pool::PoolInner;

/// Sectors of one batch at most.
const BATCH_SECTORS: u64 = 64;
/// Bytes of one write of a checkpoint.
const CHECKPOINT_CHUNK_BYTES: usize = 64 << 10;
/// Fills that a checkpoint allows for before the next one.
const FILLS_AHEAD: u64 = 1 << 24;

impl<E: Env> PoolInner<E> {
    /// Queues an entry and sees to it that somebody writes it.
    pub(crate) fn push_entry(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>, entry: Entry) -> Ticket {
        let ticket = ssd.journal.push(entry);
        if !ssd.journal.writing.replace(true) {
            let (pool, ssd) = (Rc::clone(self), Rc::clone(ssd));
            self.env.spawn(async move { pool.write_journal(&ssd).await });
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
            let used = ssd.journal.next_number.get() - ssd.journal.start.get();
            if used > ssd.layout.journal_sectors() / 2 {
                self.spawn_checkpoint(ssd);
            }
        }
        ssd.journal.writing.set(false);
    }

    /// Writes and flushes one batch.
    async fn write_batch(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>) -> Result<(), Fault> {
        let journal = &ssd.journal;
        let ring = ssd.layout.journal_sectors();
        // A batch never wraps: it ends with the ring.
        let to_the_end = ring - journal.next_number.get() % ring;
        let room = BATCH_SECTORS.min(to_the_end);
        while journal.next_number.get() + room - journal.start.get() > ring {
            self.spawn_checkpoint(ssd);
            let changed = journal.changed();
            if !ssd.is_online() {
                return Err(Fault::Offline);
            }
            changed.await;
        }
        let (sectors, entries) = take_batch(ssd, room);
        let drops = sectors.iter().flat_map(|sector| &sector.entries).any(Entry::is_drop);
        let bytes = usize::try_from(ssd.layout.sector_bytes).expect("512 or 4096");
        let mut buf = self.env.buffers().take(sectors.len() * bytes);
        for (sector, chunk) in sectors.iter().zip(buf.chunks_exact_mut(bytes)) {
            sector.encode_into(chunk);
        }
        let position = journal.next_number.get() % ring * u64::from(ssd.layout.sector_bytes);
        journal
            .next_number
            .set(journal.next_number.get() + u64::try_from(sectors.len()).expect("an address has 64 bits at most"));
        ssd.write(Purpose::Index, ssd.layout.journal_offset() + position, buf).await?;
        ssd.flush().await?;
        ssd.has_flushed_index(journal.next_number.get());
        if drops {
            self.members.witness_drops(ssd).await;
        }
        journal.taken_is_flushed(entries);
        Ok(())
    }

    pub(crate) fn spawn_checkpoint(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>) {
        if ssd.journal.checkpointing.replace(true) {
            return;
        }
        let (pool, ssd) = (Rc::clone(self), Rc::clone(ssd));
        self.env.spawn(async move {
            let session = pool.members.record().session;
            if let Err(fault) = pool.write_checkpoint(&ssd, session).await {
                pool.members.ssd_failed(&ssd.ssd, &fault);
            }
            ssd.journal.checkpointing.set(false);
            ssd.journal.wake_all();
            pool.fill_pump_wanted.wake_all();
        });
    }

    /// Writes what is believed now, slot by slot, while it goes on changing: whatever changes from here on is in the
    /// journal too, and replaying it over any later state of a slot ends in the same state.
    pub(crate) async fn write_checkpoint(self: &Rc<Self>, ssd: &Rc<SlotSsd<E>>, session: u64) -> Result<(), Fault> {
        let journal = &ssd.journal;
        let journal_start = journal.next_number.get();
        let number = journal.checkpoint_number.get() + 1;
        let ceiling = ssd.fills.get() + FILLS_AHEAD;
        let offset = ssd.layout.checkpoint_offset(number % 2);
        let sectors = self.write_checkpoint_body(ssd, number, offset).await?;
        ssd.flush().await?;
        let header = CheckpointHeader {
            incarnation: ssd.incarnation.get(),
            number,
            session,
            journal_start,
            generation_ceiling: ceiling,
            sectors,
        };
        let mut buf = self.env.buffers().take(usize::try_from(ssd.layout.sector_bytes).expect("512 or 4096"));
        header.encode_into(&mut buf);
        ssd.write(Purpose::Index, offset, buf).await?;
        ssd.flush().await?;
        journal.checkpoint_number.set(number);
        journal.start.set(journal_start);
        ssd.fill_ceiling.set(ceiling);
        Ok(())
    }

    /// Writes empty sectors where a batch of the first lap was torn: later laps would take the holes for sectors that
    /// were erased. The caller has written a checkpoint that begins behind them, so nothing of them is replayed.
    pub(crate) async fn fill_journal_holes(&self, ssd: &SlotSsd<E>) -> Result<(), Fault> {
        let holes = ssd.journal.holes.take();
        if holes.is_empty() {
            return Ok(());
        }
        let bytes = usize::try_from(ssd.layout.sector_bytes).expect("512 or 4096");
        for number in holes {
            assert!(number < ssd.journal.start.get(), "the newest checkpoint needs nothing of a torn batch");
            let incarnation = ssd.incarnation.get();
            let entries = Vec::new();
            let sector = Sector { place: Place::Journal, incarnation, number, flushed_below: number, entries };
            let mut buf = self.env.buffers().take(bytes);
            sector.encode_into(&mut buf);
            ssd.write(Purpose::Index, ssd.layout.journal_offset() + number * u64::from(ssd.layout.sector_bytes), buf)
                .await?;
        }
        ssd.flush().await
    }

    /// Writes the sectors behind the header; answers how many.
    async fn write_checkpoint_body(
        self: &Rc<Self>,
        ssd: &Rc<SlotSsd<E>>,
        number: u64,
        area: u64,
    ) -> Result<u64, Fault> {
        let bytes = usize::try_from(ssd.layout.sector_bytes).expect("512 or 4096");
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
            ssd.write(Purpose::Index, offset, buf.narrow(0, filled * bytes)).await?;
            written += u64::try_from(filled).expect("an address has 64 bits at most");
        }
        Ok(written)
    }

    /// The next sector of a checkpoint, from `next_slot` on; `None` if no published slot is left.
    fn checkpoint_sector(&self, ssd: &SlotSsd<E>, checkpoint: u64, number: u64, next_slot: &mut u32) -> Option<Sector> {
        let incarnation = ssd.incarnation.get();
        let entries = Vec::new();
        let mut sector = Sector { place: Place::Checkpoint, incarnation, number, flushed_below: checkpoint, entries };
        while *next_slot < ssd.layout.slot_count() {
            if let Some(entry) = self.publish_entry(ssd, *next_slot) {
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
    fn publish_entry(&self, ssd: &SlotSsd<E>, local: u32) -> Option<Entry> {
        if !ssd.life().has_joined() {
            return None;
        }
        let map = self.map.borrow();
        let slot = ssd.slot_index(local);
        let published = map.published(slot) && map.valid_count(slot) > 0;
        published.then(|| self.entry_of(&map, slot, local))?
    }
}

/// Takes what waits, as far as it fits into `room` sectors; answers the sectors and how many entries they hold.
fn take_batch<E: Env>(ssd: &SlotSsd<E>, room: u64) -> (Vec<Sector>, u64) {
    let first = ssd.journal.next_number.get();
    let mut sectors = Vec::new();
    let mut taken = 0;
    for number in first..first + room {
        let incarnation = ssd.incarnation.get();
        let entries = Vec::new();
        let mut sector = Sector { place: Place::Journal, incarnation, number, flushed_below: first, entries };
        while ssd.journal.peek_fits(|entry| sector.fits(entry, ssd.layout.sector_bytes)) {
            sector.entries.extend(ssd.journal.next());
            taken += 1;
        }
        if sector.entries.is_empty() {
            break;
        }
        sectors.push(sector);
    }
    (sectors, taken)
}
