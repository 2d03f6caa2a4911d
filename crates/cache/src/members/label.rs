//! What an SSD says of itself at its start: whose it is (`format/superblock.rs`).

use crate::config::{PoolKind, PoolName};
use crate::format::Unusable;
use crate::format::layout::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS};
use crate::format::superblock::Superblock;

/// A device and the name by which people know it (its path).
pub struct Named<D> {
    pub path: String,
    pub device: D,
}

/// What an SSD's superblock says, before its pool is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdLabel {
    pub pool_name: PoolName,
    pub pool_uuid: u128,
    pub ssd_uuid: u128,
    pub kind: PoolKind,
    /// It is a spare: nothing of the pool is on it.
    pub spare: bool,
}

/// The bytes at the start of an SSD that [`inspect`] needs.
pub const LABEL_BYTES: usize = 128 << 10;

/// Whose SSD this is: `None` if it carries no Hotset superblock; an error if it carries one that cannot be used (a later
/// format in either copy, a broken checksum in both).
pub fn inspect(start_of_ssd: &[u8]) -> Result<Option<SsdLabel>, Unusable> {
    Ok(newest_superblock(start_of_ssd)?.map(|superblock| SsdLabel {
        pool_name: superblock.pool_name,
        pool_uuid: superblock.pool_uuid,
        ssd_uuid: superblock.ssd_uuid,
        kind: superblock.kind,
        spare: superblock.spare,
    }))
}

/// A whole copy of the superblock is of an older version.
pub(crate) fn has_older_superblock(start_of_ssd: &[u8]) -> bool {
    copies(start_of_ssd).any(Superblock::is_older)
}

/// The places of both copies.
fn copies(start_of_ssd: &[u8]) -> impl Iterator<Item = &[u8]> {
    SUPERBLOCK_OFFSETS.into_iter().filter_map(|offset| {
        let start = usize::try_from(offset).expect("what lies in memory has an address");
        let end = start + usize::try_from(SUPERBLOCK_BYTES).expect("what lies in memory has an address");
        start_of_ssd.get(start..end)
    })
}

/// The superblock in the first [`LABEL_BYTES`] of an SSD, from whichever copy is good. If either is of a later version, the
/// other one is what was there before.
pub(crate) fn newest_superblock(start_of_ssd: &[u8]) -> Result<Option<Superblock>, Unusable> {
    let (mut good, mut corrupt) = (None, None);
    for bytes in copies(start_of_ssd) {
        match Superblock::decode(bytes) {
            Ok(None) => {}
            Ok(superblock) => good = good.or(superblock),
            Err(Unusable::Newer(newer)) => return Err(Unusable::Newer(newer)),
            Err(Unusable::Corrupt(error)) => corrupt = Some(error),
        }
    }
    match (good, corrupt) {
        (None, Some(error)) => Err(Unusable::Corrupt(error)),
        (good, _) => Ok(good),
    }
}
