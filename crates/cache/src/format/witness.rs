//! The witness record: what a member saw of the others. An SSD that loses what it had flushed cannot know it: another
//! member says how far its slot index had come.

use super::OLDEST_VERSION;
use super::codec::{Corrupt, Reader, Unreadable, Writer};
use super::layout::WITNESS_AREA_BYTES;
use super::record::HEADER_BYTES;
use crate::config::limits;
use crate::status::{FailedSsd, ScrubState, ScrubStatus};

/// SSDs that are gone and on record, the first ones.
const GONE_MAX: usize = 12;
/// Longer paths and reasons are cut off.
const TEXT_BYTES_MAX: usize = 256;
// However many SSDs there are and have gone, the record fits into its area.
const _: () = assert!(MOST_BYTES <= 12 << 10);
const _: () = assert!(WITNESS_AREA_BYTES == 12 << 10);
const MOST_BYTES: usize =
    HEADER_BYTES + limits::SSDS_MAX * (16 + 4 * 8) + GONE_MAX * (16 + 8 + 1 + 2 * (2 + TEXT_BYTES_MAX)) + 128;

/// What a member knows of the others at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) ssds: Vec<SeenSsd>,
    /// Every batch of the write log before this one was flushed on all its copies: its row, and its index in it.
    pub(crate) log_flushed: (u64, u32),
    /// SSDs that failed or were missing, until they are replaced or removed.
    pub(crate) gone: Vec<GoneSsd>,
    /// The last scrub that ended.
    pub(crate) scrub: Option<ScrubStatus>,
}

/// An SSD that failed, or was missing at a start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GoneSsd {
    pub(crate) ssd: FailedSsd,
    pub(crate) size_bytes: u64,
    /// It failed; else it was missing.
    pub(crate) failed: bool,
}

/// What was seen of one SSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenSsd {
    pub(crate) uuid: u128,
    /// Of its slot index: what is said of another one means nothing.
    pub(crate) incarnation: u64,
    /// Every sector of its journal below this number was flushed.
    pub(crate) journal_end: u64,
    /// How often it was found to have lost what it had flushed.
    pub(crate) losses: u64,
    /// Reads that failed or brought wrong bytes.
    pub(crate) read_errors: u64,
}

impl Witness {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u16(u16::try_from(self.ssds.len()).expect("a pool has at most SSDS_MAX SSDs"));
        for ssd in &self.ssds {
            writer
                .u128(ssd.uuid)
                .u64(ssd.incarnation)
                .counter(ssd.journal_end)
                .counter(ssd.losses)
                .counter(ssd.read_errors);
        }
        // So many streams.
        writer.u16(1).stream().counter(self.log_flushed.0).u32(self.log_flushed.1);
        let gone = &self.gone[..self.gone.len().min(GONE_MAX)];
        writer.u16(u16::try_from(gone.len()).expect("a pool has few SSDs, however many have gone"));
        for gone in gone {
            let (path, reason) = (shortened(&gone.ssd.path), shortened(&gone.ssd.reason));
            writer.u128(gone.ssd.uuid).u64(gone.size_bytes).flag(gone.failed).text(path).text(reason);
        }
        writer.flag(self.scrub.is_some());
        if let Some(scrub) = &self.scrub {
            writer.flag(scrub.state == ScrubState::Cancelled);
            for number in numbers_of(scrub) {
                writer.u64(number);
            }
        }
        writer.into_bytes()
    }

    /// `version`: of the record.
    pub(crate) fn decode(version: u32, payload: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader::new(payload, "witness record");
        let count = usize::from(reader.u16()?);
        reader.require(count <= limits::SSDS_MAX, "it has more SSDs than allowed")?;
        let mut ssds = Vec::new();
        for _ in 0..count {
            let (uuid, incarnation) = (reader.u128()?, reader.u64()?);
            let (journal_end, losses, read_errors) = (reader.counter()?, reader.counter()?, reader.counter()?);
            ssds.push(SeenSsd { uuid, incarnation, journal_end, losses, read_errors });
        }
        let log_flushed = decode_log_flushed(version, &mut reader)?;
        let count = usize::from(reader.u16()?);
        reader.require(count <= GONE_MAX, "it has more SSDs that are gone than allowed")?;
        let mut gone = Vec::new();
        for _ in 0..count {
            let (uuid, size_bytes, failed) = (reader.u128()?, reader.u64()?, reader.flag()?);
            let (path, reason) = (reader.text(TEXT_BYTES_MAX)?.to_owned(), reader.text(TEXT_BYTES_MAX)?.to_owned());
            gone.push(GoneSsd { ssd: FailedSsd { path, uuid, reason }, size_bytes, failed });
        }
        let scrub = if reader.flag()? { Some(decode_scrub(&mut reader)?) } else { None };
        reader.end()?;
        Ok(Self { ssds, log_flushed, gone, scrub })
    }

    /// What several members know together, the newest record last.
    pub(crate) fn merged(records: impl IntoIterator<Item = Self>) -> Self {
        records.into_iter().fold(Self::default(), |mut all, newer| {
            for seen in newer.ssds {
                all.add(seen);
            }
            let (log_flushed, gone, scrub) = (newer.log_flushed, newer.gone, newer.scrub);
            Self { log_flushed, gone, scrub, ..all }
        })
    }

    fn add(&mut self, seen: SeenSsd) {
        match self.ssds.iter_mut().find(|ssd| (ssd.uuid, ssd.incarnation) == (seen.uuid, seen.incarnation)) {
            Some(ssd) => {
                ssd.journal_end = ssd.journal_end.max(seen.journal_end);
                ssd.losses = ssd.losses.max(seen.losses);
                ssd.read_errors = ssd.read_errors.max(seen.read_errors);
            }
            None => self.ssds.push(seen),
        }
    }

    /// How far the slot index of an SSD had come for certain; 0: nobody saw it.
    pub(crate) fn journal_end_of(&self, uuid: u128, incarnation: u64) -> u64 {
        let seen = self.ssds.iter().find(|ssd| (ssd.uuid, ssd.incarnation) == (uuid, incarnation));
        seen.map_or(0, |ssd| ssd.journal_end)
    }

    /// How often an SSD lost what it had flushed, whatever its incarnation was.
    pub(crate) fn losses_of(&self, uuid: u128) -> u64 {
        self.ssds.iter().filter(|ssd| ssd.uuid == uuid).map(|ssd| ssd.losses).max().unwrap_or(0)
    }

    /// Reads of an SSD that failed or brought wrong bytes, in all runs.
    pub(crate) fn read_errors_of(&self, uuid: u128) -> u64 {
        self.ssds.iter().filter(|ssd| ssd.uuid == uuid).map(|ssd| ssd.read_errors).max().unwrap_or(0)
    }
}

/// As much of it as the record has room for.
fn shortened(text: &str) -> &str {
    let end = (0..=TEXT_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.get(..end.min(text.len())).unwrap_or(text)
}

fn numbers_of(scrub: &ScrubStatus) -> [u64; 8] {
    [
        scrub.checked_bytes,
        scrub.total_bytes,
        scrub.bad_pages,
        scrub.repaired_pages,
        scrub.dropped_pages,
        scrub.lost_pages,
        scrub.seconds,
        scrub.ended_unix_seconds,
    ]
}

fn decode_scrub(reader: &mut Reader<'_>) -> Result<ScrubStatus, Corrupt> {
    let state = if reader.flag()? { ScrubState::Cancelled } else { ScrubState::Finished };
    Ok(ScrubStatus {
        state,
        checked_bytes: reader.u64()?,
        total_bytes: reader.u64()?,
        bad_pages: reader.u64()?,
        repaired_pages: reader.u64()?,
        dropped_pages: reader.u64()?,
        lost_pages: reader.u64()?,
        seconds: reader.u64()?,
        ended_unix_seconds: reader.u64()?,
    })
}

fn decode_log_flushed(version: u32, reader: &mut Reader<'_>) -> Result<(u64, u32), Unreadable> {
    if version > OLDEST_VERSION {
        let streams = reader.u16()?;
        reader.stream()?;
        reader.require(streams == 1, "it has one stream several times")?;
    }
    Ok((reader.counter()?, reader.u32()?))
}

#[cfg(test)]
mod tests {
    use super::super::FORMAT_VERSION;
    use super::super::codec::OtherStream;
    use super::*;

    fn decoded(payload: &[u8]) -> Result<Witness, Unreadable> {
        Witness::decode(FORMAT_VERSION, payload)
    }

    fn seen(uuid: u128, incarnation: u64, journal_end: u64) -> SeenSsd {
        SeenSsd { uuid, incarnation, journal_end, losses: 1, read_errors: journal_end }
    }

    #[test]
    fn the_witness_record_survives_the_round_trip() {
        let mut witness =
            Witness { ssds: vec![seen(1, 2, 3), seen(4, 5, 6)], log_flushed: (7, 8), ..Witness::default() };
        assert_eq!(decoded(&witness.encode()), Ok(witness.clone()));
        witness.gone = vec![gone(9, "/dev/disk", "it did not answer for 11 s")];
        let status = ScrubStatus { bad_pages: 3, repaired_pages: 2, seconds: 5, ..ScrubStatus::default() };
        for state in [ScrubState::Finished, ScrubState::Cancelled] {
            witness.scrub = Some(ScrubStatus { state, ..status });
            assert_eq!(decoded(&witness.encode()), Ok(witness.clone()));
        }
    }

    #[test]
    fn a_record_of_the_first_version_is_of_the_one_stream_and_one_of_another_stream_is_refused() {
        let witness = Witness { ssds: vec![seen(1, 2, 3)], log_flushed: (7, 8), ..Witness::default() };
        let bytes = witness.encode();
        let streams_at = 2 + 48;
        let first: Vec<u8> = bytes[..streams_at].iter().chain(&bytes[streams_at + 4..]).copied().collect();
        assert_eq!(Witness::decode(OLDEST_VERSION, &first), Ok(witness));
        let mut split = bytes.clone();
        split[streams_at + 2] = 3;
        assert_eq!(decoded(&split), Err(Unreadable::OtherStream(OtherStream(3))));
        let mut twice = bytes;
        twice[streams_at] = 2;
        assert!(matches!(decoded(&twice), Err(Unreadable::Corrupt(_))));
    }

    fn gone(uuid: u128, path: &str, reason: &str) -> GoneSsd {
        let ssd = FailedSsd { path: path.to_owned(), uuid, reason: reason.to_owned() };
        GoneSsd { ssd, size_bytes: 1 << 30, failed: true }
    }

    #[test]
    fn a_full_pool_with_the_longest_texts_fits_its_area() {
        let long = "ä".repeat(500);
        let witness = Witness {
            ssds: (0..64).map(|uuid| seen(uuid, 2, 3)).collect(),
            gone: (0..64).map(|uuid| gone(100 + uuid, &long, &long)).collect(),
            scrub: Some(ScrubStatus { state: ScrubState::Finished, ..ScrubStatus::default() }),
            ..Witness::default()
        };
        let area =
            usize::try_from(crate::format::layout::WITNESS_AREA_BYTES).expect("what lies in memory has an address");
        assert!(witness.encode().len() + crate::format::record::HEADER_BYTES <= area);
        let found = decoded(&witness.encode()).expect("it is whole");
        assert_eq!((found.gone.len(), found.gone[0].ssd.path.as_str()), (12, "ä".repeat(128).as_str()));
    }

    #[test]
    fn of_several_members_the_one_that_saw_most_counts_and_another_incarnation_says_nothing() {
        let older = Witness { ssds: vec![seen(1, 2, 9), seen(4, 5, 6)], log_flushed: (7, 8), ..Witness::default() };
        let newer = Witness { ssds: vec![seen(1, 2, 3), seen(4, 6, 1)], log_flushed: (8, 0), ..Witness::default() };
        let all = Witness::merged([older, newer]);
        assert_eq!((all.journal_end_of(1, 2), all.journal_end_of(4, 6), all.journal_end_of(4, 7)), (9, 1, 0));
        assert_eq!((all.losses_of(4), all.losses_of(9), all.log_flushed), (1, 0, (8, 0)));
        assert_eq!((all.read_errors_of(1), all.read_errors_of(4)), (9, 6), "in all incarnations");
    }
}
