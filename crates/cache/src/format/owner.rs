//! The owner mark: which daemon on which machine uses an SSD, and that it is still there. Refreshed while the pool is open.

use super::codec::{Corrupt, Reader, Writer, crc32c};

pub(crate) const MAGIC: [u8; 8] = *b"HOTSETow";
/// Of the mark alone. A later one only adds behind what this one knows.
const VERSION: u32 = 1;
/// Bytes of the mark and the zeroes behind it. What counts lies in the first sector, which is written whole or not at all.
pub(crate) const OWNER_BYTES: usize = 4096;
/// Longer names are cut off.
const NAME_BYTES_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) pool_uuid: u128,
    pub(crate) ssd_uuid: u128,
    pub(crate) daemon: u128,
    pub(crate) machine: u128,
    pub(crate) boot: u128,
    /// One opening of the pool, at random: two are never the same.
    pub(crate) opening: u64,
    /// Rises with every refresh.
    pub(crate) counter: u64,
    /// The wall clock of the last refresh, for people.
    pub(crate) unix_seconds: u64,
    /// The wall clock of the opening, for people.
    pub(crate) since_unix_seconds: u64,
    /// Not stopped cleanly, so far.
    pub(crate) in_use: bool,
    /// The machine, for people.
    pub(crate) name: String,
}

impl Owner {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Writer::new();
        body.u128(self.pool_uuid).u128(self.ssd_uuid).u128(self.daemon).u128(self.machine).u128(self.boot);
        body.u64(self.opening).counter(self.counter).u64(self.unix_seconds).u64(self.since_unix_seconds);
        body.flag(self.in_use).text(self.name.get(..self.name.floor_char_boundary(NAME_BYTES_MAX)).unwrap_or_default());
        let mut bytes = Writer::new();
        bytes.bytes(&MAGIC).u32(VERSION).u32(0).bytes(body.as_bytes());
        let mut bytes = bytes.into_bytes();
        bytes.resize(OWNER_BYTES, 0);
        let checksum = crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// `Ok(None)`: there is no mark.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Self>, Corrupt> {
        let mut reader = Reader::new(bytes, "owner mark");
        if reader.bytes(8)? != MAGIC {
            return Ok(None);
        }
        let (version, checksum) = (reader.u32()?, reader.u32()?);
        let covered = bytes.get(16..OWNER_BYTES).ok_or_else(|| reader.corrupt("it ends too early"))?;
        reader.require(crc32c(covered) == checksum, "its checksum does not match")?;
        reader.require(version >= VERSION, "it has no version")?;
        let (pool_uuid, ssd_uuid) = (reader.u128()?, reader.u128()?);
        let (daemon, machine, boot) = (reader.u128()?, reader.u128()?, reader.u128()?);
        let (opening, counter) = (reader.u64()?, reader.counter()?);
        let (unix_seconds, since_unix_seconds) = (reader.u64()?, reader.u64()?);
        let in_use = reader.flag()?;
        let name = reader.text(NAME_BYTES_MAX)?.to_owned();
        Ok(Some(Self {
            pool_uuid,
            ssd_uuid,
            daemon,
            machine,
            boot,
            opening,
            counter,
            unix_seconds,
            since_unix_seconds,
            in_use,
            name,
        }))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Owner {
        Owner {
            pool_uuid: 1,
            ssd_uuid: 2,
            daemon: 3,
            machine: 4,
            boot: 5,
            opening: 6,
            counter: 7,
            unix_seconds: 1_700_000_000,
            since_unix_seconds: 1_600_000_000,
            in_use: true,
            name: "left".to_owned(),
        }
    }

    #[test]
    fn a_mark_survives_the_round_trip_and_lies_in_one_sector() {
        let bytes = sample().encode();
        assert_eq!(Owner::decode(&bytes), Ok(Some(sample())));
        let long = Owner { name: "ä".repeat(100), ..sample() }.encode();
        assert_eq!(Owner::decode(&long).unwrap().unwrap().name, "ä".repeat(32));
        assert!(long[512..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let bytes = sample().encode();
        for bit in (8 * 8)..(bytes.len() * 8) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            // The version alone is not covered: a later one says as much.
            let good = Owner::decode(&bad).is_ok();
            assert!(!good || (64..96).contains(&bit), "bit {bit}");
        }
    }

    #[test]
    fn its_bytes_are_what_they_were() {
        let bytes = sample().encode();
        assert_eq!(&bytes[..12], b"HOTSETow\x01\0\0\0");
        assert_eq!(
            (bytes[16], bytes[32], bytes[48], bytes[64], bytes[80], bytes[96], bytes[104]),
            (1, 2, 3, 4, 5, 6, 7)
        );
        assert_eq!((bytes[128], &bytes[129..135]), (1, &b"\x04\0left"[..]));
        assert_eq!(crc32c(&bytes), GOLDEN, "the whole page");
    }

    /// Of the page as the first version wrote it.
    const GOLDEN: u32 = 449_389_808;

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known_and_foreign_bytes_are_nothing() {
        let mut later = sample().encode();
        later[8] = 2;
        assert_eq!(Owner::decode(&later), Ok(Some(sample())));
        assert_eq!(Owner::decode(&[0; OWNER_BYTES]), Ok(None));
        assert!(Owner::decode(&[]).is_err());
    }
}
