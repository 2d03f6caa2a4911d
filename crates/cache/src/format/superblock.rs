//! The superblock: what an SSD is, where its areas lie. Written when the SSD joins a pool, and again only by a later version of the
//! format.

use crate::config::{BlockBytes, PoolKind, PoolName};

use super::FORMAT_VERSION;
use super::codec::{Corrupt, Newer, Reader, Unusable, Writer, assert_sound, crc32c, knows_version};
use super::layout::{Layout, SUPERBLOCK_BYTES};

pub(crate) const MAGIC: [u8; 8] = *b"HOTSETsb";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) pool_uuid: u128,
    pub(crate) ssd_uuid: u128,
    pub(crate) pool_name: PoolName,
    pub(crate) kind: PoolKind,
    pub(crate) checksums: bool,
    /// A spare: nothing else is on it.
    pub(crate) spare: bool,
    pub(crate) layout: Layout,
}

impl Superblock {
    /// One copy, [`SUPERBLOCK_BYTES`] long.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let layout = &self.layout;
        assert_sound("a superblock", layout.check().err());
        let mut body = Writer::new();
        body.u128(self.pool_uuid).u128(self.ssd_uuid).u64(layout.ssd_bytes).u64(layout.segment_bytes);
        body.u64(layout.catalogue_area_bytes).u64(layout.checkpoint_area_bytes).u64(layout.journal_bytes);
        body.u64(layout.block_bytes.get()).u32(layout.sector_bytes);
        body.flag(self.checksums).text(self.kind.word()).text(self.pool_name.as_str()).flag(self.spare);
        let mut bytes = Writer::new();
        bytes.bytes(&MAGIC).u32(FORMAT_VERSION).u32(0).bytes(&body.into_bytes());
        let mut bytes = bytes.into_bytes();
        let (used, whole) = (bytes.len(), usize::try_from(SUPERBLOCK_BYTES).expect("an address has 64 bits at most"));
        bytes.resize(whole, 0);
        let checksum = crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        assert!(used < whole, "a superblock of {used} bytes");
        bytes
    }

    /// `Ok(None)`: these bytes are not a Hotset superblock at all.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, Unusable> {
        let mut reader = Reader::new(bytes, "superblock");
        if reader.bytes(8)? != MAGIC {
            return Ok(None);
        }
        let (version, checksum) = (reader.u32()?, reader.u32()?);
        let whole = usize::try_from(SUPERBLOCK_BYTES).expect("an address has 64 bits at most");
        let covered = bytes.get(16..whole).ok_or_else(|| reader.corrupt("it ends too early"))?;
        reader.require(crc32c(covered) == checksum, "its checksum does not match")?;
        if version > FORMAT_VERSION {
            return Err(Unusable::Newer(Newer { version, pool_uuid: reader.u128()? }));
        }
        reader.require(knows_version(version), "it has no format version")?;
        Ok(Some(Self::decode_body(covered)?))
    }

    /// These bytes are a superblock of an older version.
    pub(crate) fn is_older(bytes: &[u8]) -> bool {
        let version = bytes.get(8..12).and_then(|version| Some(u32::from_le_bytes(version.try_into().ok()?)));
        matches!(Self::decode(bytes), Ok(Some(_))) && version.is_some_and(|version| version < FORMAT_VERSION)
    }

    fn decode_body(body: &[u8]) -> Result<Self, Corrupt> {
        let mut reader = Reader::new(body, "superblock");
        let (pool_uuid, ssd_uuid) = (reader.u128()?, reader.u128()?);
        let (ssd_bytes, segment_bytes) = (reader.u64()?, reader.u64()?);
        let (catalogue_area_bytes, checkpoint_area_bytes) = (reader.u64()?, reader.u64()?);
        let (journal_bytes, block) = (reader.u64()?, reader.u64()?);
        let block_bytes = BlockBytes::new(block).map_err(|error| reader.corrupt(&error.to_string()))?;
        let sector_bytes = reader.u32()?;
        let layout = Layout {
            ssd_bytes,
            sector_bytes,
            block_bytes,
            segment_bytes,
            catalogue_area_bytes,
            checkpoint_area_bytes,
            journal_bytes,
        };
        reader.require_sound(layout.check().err())?;
        let checksums = reader.flag()?;
        let kind = reader.parse(16)?;
        let pool_name = reader.parse(16)?;
        let spare = reader.flag()?;
        reader.zeroes()?;
        Ok(Self { pool_uuid, ssd_uuid, pool_name, kind, checksums, spare, layout })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::layout::segment_bytes_for;
    use super::*;

    pub(crate) fn sample() -> Superblock {
        let block_bytes = BlockBytes::new(64 << 10).expect("a valid value of the test");
        let layout = Layout::new(64 << 20, 512, block_bytes, segment_bytes_for(block_bytes, 64 << 20))
            .expect("the SSD is large enough");
        let pool_name = "tank".parse().expect("a valid value of the test");
        Superblock { pool_uuid: 1, ssd_uuid: 2, pool_name, kind: PoolKind::Read, checksums: true, spare: false, layout }
    }

    #[test]
    fn a_superblock_survives_the_round_trip() {
        assert_eq!(Superblock::decode(&sample().encode()), Ok(Some(sample())));
    }

    #[test]
    #[should_panic(expected = "its sector size is neither 512 nor 4096")]
    fn one_that_nobody_could_read_is_not_written() {
        let mut superblock = sample();
        superblock.layout.sector_bytes = 1024;
        superblock.encode();
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = sample().encode();
        for bit in (8 * 8)..(bytes.len() * 8) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Superblock::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_newer_version_is_refused_by_name_and_foreign_bytes_are_nothing() {
        let mut newer = sample().encode();
        newer[8] = 9;
        let error = Superblock::decode(&newer).expect_err("nobody knows version 9");
        assert_eq!(error, Unusable::Newer(Newer { version: 9, pool_uuid: 1 }));
        assert!(error.to_string().contains("version 9") && error.to_string().contains("version 2"), "{error}");
        newer[100] ^= 1;
        assert!(matches!(Superblock::decode(&newer), Err(Unusable::Corrupt(_))), "nothing whole is there");
        assert_eq!(Superblock::decode(&[0; 4096]), Ok(None));
        assert!(Superblock::decode(&[]).is_err());
    }
}
