//! The decoders of everything on an SSD, for the fuzz targets: each must answer any bytes without a panic.

use crate::format::catalogue::Catalogue;
use crate::format::checkpoint::CheckpointHeader;
use crate::format::index::Sector;
use crate::format::members::Members;
use crate::format::record::{Record, RecordKind};
use crate::format::rows::Rows;
use crate::format::slot_header::SlotHeader;
use crate::pool::newest_superblock;

/// The start of an SSD.
pub fn superblock(bytes: &[u8]) {
    drop(newest_superblock(bytes));
}

/// A member record in its envelope, and the three payloads without it, so that checksums do not hide them.
pub fn member_record(bytes: &[u8]) {
    for kind in [RecordKind::Members, RecordKind::Rows, RecordKind::Catalogue] {
        drop(Record::decode(kind, bytes));
    }
    drop((Members::decode(bytes), Catalogue::decode(bytes), Rows::decode(bytes)));
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

/// The first sector of a checkpoint.
pub fn checkpoint(bytes: &[u8]) {
    drop(CheckpointHeader::decode(bytes));
}

/// The header of a slot.
pub fn slot_header(bytes: &[u8]) {
    drop(SlotHeader::decode(bytes));
}
