//! The decoders of everything on an SSD, for the fuzz targets: each must answer any bytes without a panic.

use hotset_block::PAGE_BYTES;

use crate::advisor::live::{self, Live};
use crate::advisor::tallies::{self, Tallies};
use crate::format::catalogue::Catalogue;
use crate::format::checkpoint::{self, CheckpointHeader};
use crate::format::codec::crc32c;
use crate::format::index::Sector;
use crate::format::layout::SUPERBLOCK_BYTES;
use crate::format::log::{self, Batch, Payload, SegmentHeader, Summary};
use crate::format::members::MembersRecord;
use crate::format::owner::{self, OWNER_BYTES, Owner};
use crate::format::record::{Record, RecordKind};
use crate::format::rows::Rows;
use crate::format::slot_header::{self, SlotHeader};
use crate::format::superblock::{self, Superblock};
use crate::format::witness::Witness;
use crate::format::{FORMAT_VERSION, OLDEST_VERSION};
use crate::members::label::newest_superblock;

/// The start of an SSD; and a superblock and an owner mark whose magic, version and checksum are right, so that they do not hide the
/// rest.
pub fn superblock(bytes: &[u8]) {
    drop(newest_superblock(bytes));
    drop(Owner::decode(bytes));
    let mut mark = owner::MAGIC.to_vec();
    mark.extend(1_u32.to_le_bytes());
    drop(Owner::decode(&signed(&mark, 12, bytes, OWNER_BYTES)));
    let mut head = superblock::MAGIC.to_vec();
    head.extend(FORMAT_VERSION.to_le_bytes());
    let whole = usize::try_from(SUPERBLOCK_BYTES).expect("an address has 64 bits at most");
    drop(Superblock::decode(&signed(&head, 12, bytes, whole)));
}

/// Bytes 0 to 16 from `head` with the checksum of the rest at `checksum_at`; then `body`, with zeroes up to `whole`.
fn signed(head: &[u8], checksum_at: usize, body: &[u8], whole: usize) -> Vec<u8> {
    let mut bytes = head.to_vec();
    bytes.resize(16, 0);
    bytes.extend_from_slice(body);
    bytes.resize(whole, 0);
    let checksum = crc32c(&bytes[16..]);
    bytes[checksum_at..checksum_at + 4].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// A member record in its envelope, and the payloads without it, so that checksums do not hide them.
pub fn member_record(bytes: &[u8]) {
    for kind in [RecordKind::Members, RecordKind::Rows, RecordKind::Catalogue, RecordKind::Witness] {
        drop(Record::decode(kind, bytes));
    }
    drop((MembersRecord::decode(bytes), Catalogue::decode(bytes)));
    for version in OLDEST_VERSION..=FORMAT_VERSION {
        drop((Rows::decode(version, bytes), Witness::decode(version, bytes)));
    }
}

/// What the advisor keeps of a volume for the next start, and its sums; with the right version before it, too.
pub fn advisor_state(bytes: &[u8]) {
    drop((Live::decode(bytes), Tallies::decode(bytes)));
    let versioned = |version: u32| [&version.to_le_bytes(), bytes].concat();
    drop(Live::decode(&versioned(live::VERSION)));
    drop(Tallies::decode(&versioned(tallies::VERSION)));
}

/// A sector of the slot index; what is decoded encodes to the same value.
pub fn index_sector(bytes: &[u8]) {
    drop(Sector::decode(bytes));
    let mut signed = bytes.to_vec();
    if Sector::sign(&mut signed)
        && let Ok(sector) = Sector::decode(&signed)
    {
        let mut again = vec![0; signed.len()];
        sector.encode_into(&mut again);
        assert_eq!(Sector::decode(&again), Ok(sector));
    }
}

/// The first sector of a checkpoint, as it is and signed.
pub fn checkpoint(bytes: &[u8]) {
    drop(CheckpointHeader::decode(bytes));
    drop(CheckpointHeader::decode(&signed(&checkpoint::MAGIC, 8, bytes, 512)));
}

/// What lies in a segment of the write log, as it is and signed: its header, a batch whose header is one page, a summary.
pub fn log_segment(bytes: &[u8]) {
    drop((SegmentHeader::decode(bytes), Batch::decode(bytes), Summary::decode(bytes)));
    let _ = (Batch::peek(bytes, 0, 0), Summary::peek(bytes));
    for magic in [log::SEGMENT_MAGIC, log::BATCH_MAGIC, log::SUMMARY_MAGIC] {
        let mut body = bytes.get(..PAGE_BYTES - 16).unwrap_or(bytes).to_vec();
        if magic == log::BATCH_MAGIC
            && let Some(pages) = body.get_mut(36..40)
        {
            pages.copy_from_slice(&1_u32.to_le_bytes());
        }
        let page = signed(&magic, 8, &body, PAGE_BYTES);
        drop(SegmentHeader::decode(&page));
        let _ = Summary::decode(&page).is_ok_and(|summary| summary.fits(1000));
        if let Ok(batch) = Batch::decode(&page) {
            let mut payload = Payload::default();
            batch.entries.iter().for_each(|entry| payload.push(entry));
            let mut again = vec![0; PAGE_BYTES];
            Batch::encode_into(&mut again, &batch.place, &payload);
            assert_eq!(Batch::decode(&again), Ok(batch));
        }
    }
}

/// The header of a slot, as it is and signed.
pub fn slot_header(bytes: &[u8]) {
    drop(SlotHeader::decode(bytes));
    drop(SlotHeader::decode(&signed(&slot_header::MAGIC, 8, bytes, 8192)));
}
