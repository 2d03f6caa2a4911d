//! The members record: which SSDs make up the pool, in which epoch and session, and whether it was stopped cleanly.

use std::collections::BTreeSet;

use crate::config::{BlockBytes, Cleaning, PoolKind, PoolName, PoolSettings, limits};

use super::codec::{BrokenRule, Corrupt, Reader, Writer, assert_sound};
use super::layout::MEMBERS_AREA_BYTES;
use super::record::HEADER_BYTES;

/// The longest path that is remembered for an SSD; a longer one is not remembered.
const PATH_BYTES_MAX: usize = 512;
// However many SSDs and spares there are, the record fits into its area.
const _: () = assert!(MOST_BYTES <= 52 << 10);
const _: () = assert!(MEMBERS_AREA_BYTES == 52 << 10);
const MOST_BYTES: usize = HEADER_BYTES
    + limits::SSDS_MAX * (16 + 8 + 2 + PATH_BYTES_MAX + 8 + 8 + 1 + 8)
    + limits::SPARES_MAX * (16 + 8 + 2 + PATH_BYTES_MAX)
    + 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MembersRecord {
    pub(crate) name: PoolName,
    pub(crate) kind: PoolKind,
    pub(crate) settings: PoolSettings,
    /// Rises when an SSD leaves or joins (rule `membership`).
    pub(crate) epoch: u64,
    /// Rises at every open.
    pub(crate) session: u64,
    /// The pool was stopped cleanly after this record; erased before anything else is written at the next open.
    pub(crate) clean: bool,
    /// The members. An SSD that is not in the list is not believed, whatever it says.
    pub(crate) ssds: Vec<Member>,
    /// Those that take over, in this order.
    pub(crate) spares: Vec<SpareMember>,
    /// What was written to the SSDs of late; recorded where the settings limit it.
    pub(crate) written: Written,
}

/// The hours of a day.
pub(crate) const HOURS: usize = 24;

/// Bytes written to a pool's SSDs, by the hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// The last of the hours, counted from 1970.
    pub(crate) hour: u64,
    /// Those of hour `n` at `n mod 24`.
    pub(crate) bytes: [u64; HOURS],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpareMember {
    pub(crate) uuid: u128,
    pub(crate) size_bytes: u64,
    /// Where it was found last.
    pub(crate) path: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) ssd_uuid: u128,
    pub(crate) size_bytes: u64,
    /// Where it was found last; a hint for people and for the next start.
    pub(crate) path: String,
    /// Only index sectors and slot headers of this incarnation are believed; raising it makes the SSD cold.
    pub(crate) incarnation: u64,
    /// The session of the newest checkpoint that is known to be durable: an older one is an old copy of the SSD.
    pub(crate) session: u64,
    /// After a clean stop: the number of the journal record after the last one.
    pub(crate) journal_end: Option<u64>,
}

impl MembersRecord {
    pub(crate) fn member(&self, ssd_uuid: u128) -> Option<&Member> {
        self.ssds.iter().find(|member| member.ssd_uuid == ssd_uuid)
    }

    pub(crate) fn member_mut(&mut self, ssd_uuid: u128) -> Option<&mut Member> {
        self.ssds.iter_mut().find(|member| member.ssd_uuid == ssd_uuid)
    }

    fn broken_rule(&self) -> BrokenRule {
        if self.ssds.len() > limits::SSDS_MAX {
            return Some("it has more SSDs than allowed");
        }
        if self.spares.len() > limits::SPARES_MAX {
            return Some("it has more spares than allowed");
        }
        let mut known = BTreeSet::new();
        if !self.ssds.iter().all(|ssd| known.insert(ssd.ssd_uuid)) {
            return Some("an SSD is in it twice");
        }
        (!self.spares.iter().all(|spare| known.insert(spare.uuid))).then_some("a spare is in it twice")
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        assert_sound("members record", self.broken_rule());
        let wrong = self.settings.check(self.kind).err();
        assert!(wrong.is_none(), "settings of a pool that are to be written: {wrong:?}");
        let mut writer = Writer::new();
        writer.text(self.name.as_str()).text(self.kind.word());
        encode_settings(&mut writer, &self.settings);
        writer.counter(self.epoch).counter(self.session).flag(self.clean);
        writer.u16(u16::try_from(self.ssds.len()).expect("a pool has at most SSDS_MAX SSDs"));
        for ssd in &self.ssds {
            let path = if ssd.path.len() <= PATH_BYTES_MAX { ssd.path.as_str() } else { "" };
            writer.u128(ssd.ssd_uuid).u64(ssd.size_bytes).text(path).u64(ssd.incarnation).counter(ssd.session);
            writer.option_u64(ssd.journal_end);
        }
        if self.kind == PoolKind::ReadWrite {
            encode_cleaning(&mut writer, self.settings.cleaning);
        }
        let limit = self.settings.ssd_writes_per_day_bytes;
        if !self.spares.is_empty() || limit.is_some() {
            writer.u16(u16::try_from(self.spares.len()).expect("a pool has at most SPARES_MAX spares"));
        }
        for spare in &self.spares {
            let path = if spare.path.len() <= PATH_BYTES_MAX { spare.path.as_str() } else { "" };
            writer.u128(spare.uuid).u64(spare.size_bytes).text(path);
        }
        if let Some(limit) = limit {
            writer.u64(limit).counter(self.written.hour);
            self.written.bytes.iter().for_each(|bytes| {
                writer.counter(*bytes);
            });
        }
        writer.into_bytes()
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, Corrupt> {
        let mut reader = Reader::new(payload, "members record");
        let (name, kind) = (reader.parse(16)?, reader.parse(16)?);
        let mut settings = decode_settings(&mut reader)?;
        let (epoch, session, clean) = (reader.counter()?, reader.counter()?, reader.flag()?);
        let count = usize::from(reader.u16()?);
        reader.require(count <= limits::SSDS_MAX, "it has more SSDs than allowed")?;
        let mut ssds: Vec<Member> = Vec::new();
        for _ in 0..count {
            ssds.push(decode_member(&mut reader)?);
        }
        if kind == PoolKind::ReadWrite {
            settings.cleaning = decode_cleaning(&mut reader)?;
        }
        let spares = decode_spares(&mut reader)?;
        let mut written = Written::default();
        if !reader.is_at_end() {
            settings.ssd_writes_per_day_bytes = Some(reader.u64()?);
            written.hour = reader.counter()?;
            for bytes in &mut written.bytes {
                *bytes = reader.counter()?;
            }
        }
        reader.end()?;
        settings.check(kind).map_err(|error| reader.corrupt(&error.to_string()))?;
        let decoded = Self { name, kind, settings, epoch, session, clean, ssds, spares, written };
        reader.require_sound(decoded.broken_rule())?;
        Ok(decoded)
    }
}

fn decode_member(reader: &mut Reader<'_>) -> Result<Member, Corrupt> {
    Ok(Member {
        ssd_uuid: reader.u128()?,
        size_bytes: reader.u64()?,
        path: reader.text(PATH_BYTES_MAX)?.to_owned(),
        incarnation: reader.u64()?,
        session: reader.counter()?,
        journal_end: reader.option_u64()?,
    })
}

/// Left out where there are none.
fn decode_spares(reader: &mut Reader<'_>) -> Result<Vec<SpareMember>, Corrupt> {
    let mut spares: Vec<SpareMember> = Vec::new();
    if reader.is_at_end() {
        return Ok(spares);
    }
    let count = usize::from(reader.u16()?);
    reader.require(count <= limits::SPARES_MAX, "it has more spares than allowed")?;
    for _ in 0..count {
        let (uuid, size_bytes) = (reader.u128()?, reader.u64()?);
        let path = reader.text(PATH_BYTES_MAX)?.to_owned();
        spares.push(SpareMember { uuid, size_bytes, path });
    }
    Ok(spares)
}

fn encode_settings(writer: &mut Writer, settings: &PoolSettings) {
    writer.text(settings.io_type.word()).u64(settings.block_bytes.get());
    writer.u8(settings.populate_on_read).u8(settings.populate_on_write);
    writer.text(settings.policy.word()).text(settings.fetch_rate.word()).flag(settings.checksums);
}

fn decode_settings(reader: &mut Reader<'_>) -> Result<PoolSettings, Corrupt> {
    let io_type = reader.parse(16)?;
    let block = reader.u64()?;
    Ok(PoolSettings {
        io_type,
        block_bytes: BlockBytes::new(block).map_err(|error| reader.corrupt(&error.to_string()))?,
        populate_on_read: reader.u8()?,
        populate_on_write: reader.u8()?,
        policy: reader.parse(16)?,
        fetch_rate: reader.parse(16)?,
        checksums: reader.flag()?,
        cleaning: Cleaning::default(),
        ssd_writes_per_day_bytes: None,
    })
}

fn encode_cleaning(writer: &mut Writer, cleaning: Cleaning) {
    writer.text(cleaning.flush_rate.word()).u8(cleaning.dirty_watermark_percent).u32(cleaning.dirty_age_max_seconds);
}

fn decode_cleaning(reader: &mut Reader<'_>) -> Result<Cleaning, Corrupt> {
    Ok(Cleaning {
        flush_rate: reader.parse(16)?,
        dirty_watermark_percent: reader.u8()?,
        dirty_age_max_seconds: reader.u32()?,
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::IoType;

    pub(crate) fn sample() -> MembersRecord {
        let member = |ssd_uuid| Member {
            ssd_uuid,
            size_bytes: 1 << 30,
            path: "/dev/disk".into(),
            incarnation: 4,
            session: 5,
            journal_end: Some(77),
        };
        MembersRecord {
            name: "tank".parse().expect("a valid value of the test"),
            kind: PoolKind::Read,
            settings: PoolSettings::preset(PoolKind::Read, IoType::FileSystem),
            epoch: 2,
            session: 5,
            clean: true,
            ssds: vec![member(1), member(2)],
            spares: Vec::new(),
            written: Written::default(),
        }
    }

    #[test]
    fn the_members_record_survives_the_round_trip() {
        assert_eq!(MembersRecord::decode(&sample().encode()), Ok(sample()));
    }

    #[test]
    fn a_read_write_pool_records_how_it_cleans() {
        let mut members = sample();
        members.kind = PoolKind::ReadWrite;
        members.settings.populate_on_write = 1;
        members.settings.cleaning.dirty_watermark_percent = 33;
        assert_eq!(MembersRecord::decode(&members.encode()), Ok(members));
    }

    #[test]
    fn spares_are_recorded_and_none_of_them_is_an_ssd_too() {
        let mut members = sample();
        members.spares = vec![SpareMember { uuid: 3, size_bytes: 1 << 30, path: "/dev/spare".into() }];
        assert_eq!(MembersRecord::decode(&members.encode()), Ok(members.clone()));
        assert!(MembersRecord::decode(&renamed(members.encode(), 3, 2)).is_err());
    }

    /// The record with another UUID in the place of one.
    fn renamed(mut bytes: Vec<u8>, from: u128, to: u128) -> Vec<u8> {
        let place = bytes.windows(16).position(|bytes| bytes == from.to_le_bytes()).expect("it is in the record");
        bytes[place..place + 16].copy_from_slice(&to.to_le_bytes());
        bytes
    }

    #[test]
    #[should_panic(expected = "an SSD is in it twice")]
    fn an_ssd_is_not_written_twice() {
        let mut members = sample();
        members.ssds[1].ssd_uuid = 1;
        members.encode();
    }

    #[test]
    #[should_panic(expected = "a spare is in it twice")]
    fn a_spare_that_is_an_ssd_is_not_written() {
        let mut members = sample();
        members.spares = vec![SpareMember { uuid: 2, size_bytes: 1 << 30, path: "/dev/spare".into() }];
        members.encode();
    }

    #[test]
    #[should_panic(expected = "it has more SSDs than allowed")]
    fn more_ssds_than_a_pool_may_have_are_not_written() {
        let mut members = sample();
        let count = u128::try_from(limits::SSDS_MAX).expect("a count fits in 128 bits") + 1;
        members.ssds = (0..count).map(|ssd_uuid| Member { ssd_uuid, ..sample().ssds[0].clone() }).collect();
        members.encode();
    }

    #[test]
    #[should_panic(expected = "it has more spares than allowed")]
    fn more_spares_than_a_pool_may_have_are_not_written() {
        let mut members = sample();
        let count = u128::try_from(limits::SPARES_MAX).expect("a count fits in 128 bits");
        let spare = |uuid| SpareMember { uuid, size_bytes: 1, path: String::new() };
        members.spares = (10..=10 + count).map(spare).collect();
        members.encode();
    }

    #[test]
    #[should_panic(expected = "populate-on-read 9")]
    fn settings_that_no_pool_may_have_are_not_written() {
        let mut members = sample();
        members.settings.populate_on_read = 9;
        members.encode();
    }

    #[test]
    fn what_was_written_is_recorded_where_it_is_limited() {
        let mut members = sample();
        members.written = Written { hour: 9, bytes: [7; HOURS] };
        assert_eq!(MembersRecord::decode(&members.encode()), Ok(sample()), "without a limit nobody wants to know");
        members.settings.ssd_writes_per_day_bytes = Some(1 << 40);
        assert_eq!(MembersRecord::decode(&members.encode()), Ok(members.clone()));
        members.spares = vec![SpareMember { uuid: 3, size_bytes: 1 << 30, path: "/dev/spare".into() }];
        assert_eq!(MembersRecord::decode(&members.encode()), Ok(members));
    }

    #[test]
    fn an_ssd_that_is_listed_twice_is_corrupt() {
        assert!(MembersRecord::decode(&renamed(sample().encode(), 2, 1)).is_err());
    }

    #[test]
    fn a_full_pool_with_the_longest_paths_fits_its_area() {
        let mut members = sample();
        members.ssds =
            (0..64).map(|n| Member { ssd_uuid: n, path: "x".repeat(512), ..sample().ssds[0].clone() }).collect();
        let spare = |n: u128| SpareMember { uuid: 100 + n, size_bytes: 1, path: "x".repeat(512) };
        members.spares = (0..16).map(spare).collect();
        let area =
            usize::try_from(crate::format::layout::MEMBERS_AREA_BYTES).expect("what lies in memory has an address");
        assert!(members.encode().len() + crate::format::record::HEADER_BYTES < area);
    }
}
