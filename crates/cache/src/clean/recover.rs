//! What one SSD's slot index says after a start (rule `recovery`): the newest whole checkpoint, then the journal.
//!
//! Whatever cannot be explained by a cut in the last batch makes the SSD cold: a sector that is neither a record nor
//! empty, a gap before a record that was written after what is missing had been flushed, a checkpoint of an older
//! session.

use std::collections::BTreeMap;

use hotset_block::Env;

use crate::address::{BlockIndex, BlockKey, at, at_u64};
use crate::clean::Clean;
use crate::clean::page_set::PageSet;
use crate::clean::slot_ssd::SlotSsd;
use crate::clean::slots::SlotContent;
use crate::format::checkpoint::CheckpointHeader;
use crate::format::index::{IndexEntry, Sector, SectorPlace};
use crate::format::members::Member;
use crate::format::{OtherStream, Unreadable};
use crate::members::reading::ReadSsd;
use crate::members::ssd::Fault;

/// Bytes that recovery reads at a time.
const CHUNK_BYTES: u64 = 256 << 10;

/// See [`Unbelieved::LostTail`].
pub(crate) const LOST_TAIL: &str =
    "it lost the end of its slot index, which it had flushed, as another member of the pool knows";

/// What the index believes of one slot.
struct Believed {
    generation: u32,
    attachment: u64,
    block: u64,
    /// Empty: all pages.
    mask: Vec<u64>,
}

/// Why an SSD's index brings nothing.
pub(crate) enum Unbelieved {
    /// The SSD is gone: it leaves. Or the index cannot be read, and the SSD starts cold.
    Fault(Fault),
    /// The index is damaged or old: the SSD starts cold.
    Cold(String),
    /// Another member saw more of it than it has: the SSD starts cold, and lost what it had flushed.
    LostTail,
    /// A later Hotset wrote it.
    OtherStream(OtherStream),
}

impl From<Fault> for Unbelieved {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn cold<T>(reason: impl Into<String>) -> Result<T, Unbelieved> {
    Err(Unbelieved::Cold(reason.into()))
}

/// What a slot index says, found by a scan, and not in use yet.
pub(crate) struct FoundIndex {
    /// By slot of the SSD.
    slots: Vec<Option<Believed>>,
    checkpoint: CheckpointHeader,
    /// The first number that its journal does not have.
    end: u64,
    /// The number with which the journal goes on.
    next_number: u64,
    /// Sectors of the journal that were never written.
    unwritten: Vec<u64>,
}

/// Reads the slot index of an SSD, of which another member `seen` so much. Nothing is written, and nothing is in use by this.
pub(crate) async fn scan_index<E: Env>(
    ssd: ReadSsd<'_, E>,
    member: &Member,
    seen: u64,
) -> Result<FoundIndex, Unbelieved> {
    let checkpoint = newest_checkpoint(ssd).await?;
    let Some(checkpoint) = checkpoint else { return cold("its slot index has no valid checkpoint") };
    if checkpoint.session < member.session {
        return cold("its slot index is older than the pool: an old copy of the SSD");
    }
    let mut slots: Vec<Option<Believed>> = Vec::new();
    slots.resize_with(at(ssd.layout().slot_count()), || None);
    read_checkpoint(ssd, &checkpoint, &mut slots).await?;
    let (journal, unwritten) = read_journal(ssd).await?;
    let highest = journal.keys().next_back().copied();
    let end = replay(journal, checkpoint.journal_start, &mut slots)?;
    // Recorded by a clean stop, erased when the next session has begun: between the two nothing writes the journal.
    if member.journal_end.is_some_and(|expected| expected != end) {
        return cold("its slot index does not end where the clean stop left it: an old copy of the SSD");
    }
    if end < seen {
        return Err(Unbelieved::LostTail);
    }
    let next_number = end.max(highest.map_or(0, |number| number + 1));
    Ok(FoundIndex { slots, checkpoint, end, next_number, unwritten })
}

impl<E: Env> Clean<E> {
    /// Makes visible what a scan of the SSD's index found of its slots; answers their number. Every other slot of it is ready.
    pub(crate) fn install_index(&self, ssd: &SlotSsd<E>, found: FoundIndex) -> u64 {
        ssd.journal.opened(found.checkpoint.number, found.next_number, found.unwritten);
        ssd.has_flushed_index(found.end);
        ssd.fills_begin_at(found.checkpoint.generation_ceiling);
        self.take_over(ssd, found.slots)
    }

    fn take_over(&self, ssd: &SlotSsd<E>, slots: Vec<Option<Believed>>) -> u64 {
        let count = at(ssd.layout.slot_count());
        assert_eq!(slots.len(), count, "SSD {}: what a start found is of another number of slots", ssd.path);
        let mut count = 0;
        for (local, believed) in (0..ssd.layout.slot_count()).zip(slots).filter(|(local, _)| ssd.is_for_slots(*local)) {
            if believed.is_some_and(|believed| self.take_over_slot(ssd, local, &believed)) {
                count += 1;
            } else {
                ssd.add_ready([local]);
            }
        }
        count
    }

    fn take_over_slot(&self, ssd: &SlotSsd<E>, local: u32, believed: &Believed) -> bool {
        let Some(volume) = self.ids.index_of(believed.attachment) else { return false };
        let Ok(block) = u32::try_from(believed.block) else { return false };
        let key = BlockKey { volume, block: BlockIndex(block) };
        let content = SlotContent { slot: ssd.slot_index(local), key, generation: believed.generation };
        let taken = self.slots.borrow_mut().believe(content, &believed.pages(self.blocks.pages_per_block));
        if taken {
            ssd.slot_is_used();
        }
        taken
    }
}

async fn newest_checkpoint<E: Env>(ssd: ReadSsd<'_, E>) -> Result<Option<CheckpointHeader>, Unbelieved> {
    let mut newest: Option<CheckpointHeader> = None;
    for area in 0..2 {
        let bytes = ssd.read(ssd.layout().checkpoint_offset(area), at(ssd.layout().sector_bytes)).await?;
        let header = match CheckpointHeader::decode(&bytes) {
            Ok(header) => header,
            Err(Unreadable::OtherStream(other)) => return Err(Unbelieved::OtherStream(other)),
            Err(Unreadable::Corrupt(_)) => continue,
        };
        let ours = header.incarnation == ssd.incarnation() && header.number % 2 == area;
        if ours && newest.is_none_or(|other| other.number < header.number) {
            newest = Some(header);
        }
    }
    Ok(newest)
}

async fn read_checkpoint<E: Env>(
    ssd: ReadSsd<'_, E>,
    header: &CheckpointHeader,
    slots: &mut [Option<Believed>],
) -> Result<(), Unbelieved> {
    let sector_bytes = u64::from(ssd.layout().sector_bytes);
    if (header.sectors + 1).saturating_mul(sector_bytes) > ssd.layout().checkpoint_area_bytes {
        return cold("its checkpoint is longer than its area");
    }
    let start = ssd.layout().checkpoint_offset(header.number % 2) + sector_bytes;
    let mut number = 0;
    while number < header.sectors {
        let count = (header.sectors - number).min(CHUNK_BYTES / sector_bytes);
        let bytes = ssd.read(start + number * sector_bytes, at_u64(count * sector_bytes)).await?;
        for chunk in bytes.chunks_exact(usize::try_from(sector_bytes).expect("what lies in memory has an address")) {
            let sector = match Sector::decode(chunk) {
                Ok(sector) => sector,
                Err(Unreadable::OtherStream(other)) => return Err(Unbelieved::OtherStream(other)),
                Err(Unreadable::Corrupt(_)) => return cold("a sector of its checkpoint is damaged"),
            };
            let ours = sector.place == SectorPlace::Checkpoint
                && sector.incarnation == header.incarnation
                && (sector.number, sector.flushed_below) == (number, header.number);
            if !ours {
                return cold("a sector of its checkpoint is of another one");
            }
            sector.entries.into_iter().try_for_each(|entry| apply(entry, slots))?;
            number += 1;
        }
    }
    Ok(())
}

/// Every journal record of this incarnation that is in the ring, by number; and the positions that hold nothing yet.
async fn read_journal<E: Env>(ssd: ReadSsd<'_, E>) -> Result<(BTreeMap<u64, Sector>, Vec<u64>), Unbelieved> {
    let sector_bytes = u64::from(ssd.layout().sector_bytes);
    let ring = ssd.layout().journal_sectors();
    let mut records = BTreeMap::new();
    let mut unwritten = Vec::new();
    let mut position = 0;
    while position < ring {
        let count = (ring - position).min(CHUNK_BYTES / sector_bytes);
        let offset = ssd.layout().journal_offset() + position * sector_bytes;
        let bytes = ssd.read(offset, at_u64(count * sector_bytes)).await?;
        for chunk in bytes.chunks_exact(usize::try_from(sector_bytes).expect("what lies in memory has an address")) {
            match Sector::decode(chunk) {
                Ok(sector) if sector.place == SectorPlace::Journal && sector.number % ring == position => {
                    if sector.incarnation == ssd.incarnation() {
                        records.insert(sector.number, sector);
                    }
                }
                Ok(_) => return cold("a sector of its journal is out of place"),
                Err(Unreadable::OtherStream(other)) => return Err(Unbelieved::OtherStream(other)),
                Err(Unreadable::Corrupt(_)) if chunk.iter().all(|byte| *byte == 0) => unwritten.push(position),
                Err(Unreadable::Corrupt(_)) => return cold("a sector of its journal is damaged"),
            }
            position += 1;
        }
    }
    let gone_round = records.last_key_value().is_some_and(|(number, _)| *number >= ring);
    if !unwritten.is_empty() && gone_round {
        return cold("a sector of its journal was erased");
    }
    Ok((records, unwritten))
}

/// Applies the records from `start` on, as far as they are whole; answers the number behind the last one.
fn replay(mut journal: BTreeMap<u64, Sector>, start: u64, slots: &mut [Option<Believed>]) -> Result<u64, Unbelieved> {
    let mut next = start;
    let mut rest = journal.split_off(&start);
    while let Some(sector) = rest.remove(&next) {
        sector.entries.into_iter().try_for_each(|entry| apply(entry, slots))?;
        next += 1;
    }
    // The one batch that was in flight may be torn: everything in it begins at its first record.
    if rest.values().any(|sector| sector.flushed_below > next) {
        return cold("a record of its journal is missing");
    }
    Ok(next)
}

fn apply(entry: IndexEntry, slots: &mut [Option<Believed>]) -> Result<(), Unbelieved> {
    let place = |slot: u32| usize::try_from(slot).expect("a usize has 32 bits at least");
    match entry {
        IndexEntry::Publish { slot, generation, attachment, block, mask } => {
            let Some(place) = slots.get_mut(place(slot)) else {
                return cold("its slot index names a slot that it has not");
            };
            *place = Some(Believed { generation, attachment, block, mask });
        }
        IndexEntry::Drop { slot, generation, first_page, page_count } => {
            let Some(place) = slots.get_mut(place(slot)) else {
                return cold("its slot index names a slot that it has not");
            };
            let same = place.as_ref().is_some_and(|believed| believed.generation == generation);
            if let Some(believed) = place.as_mut().filter(|_| same) {
                let first = u32::from(first_page);
                believed.disbelieve(first..(first + u32::from(page_count)).min(1024));
            }
        }
    }
    Ok(())
}

impl Believed {
    /// Of a block with so many pages, 64 a word.
    fn pages(&self, pages_per_block: u32) -> Vec<u64> {
        let block = PageSet::from_range(0..pages_per_block).words();
        if self.mask.is_empty() {
            return block.to_vec();
        }
        self.mask.iter().zip(block).map(|(word, block)| word & block).collect()
    }

    fn disbelieve(&mut self, pages: std::ops::Range<u32>) {
        let gone = PageSet::from_range(pages).words();
        if self.mask.is_empty() {
            self.mask = vec![u64::MAX; gone.len()];
        }
        for (word, gone) in self.mask.iter_mut().zip(gone) {
            *word &= !gone;
        }
    }
}
