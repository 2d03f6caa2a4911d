//! The row records: the rows of the write log, oldest first. A read pool has none; the shape is fixed here so that
//! the log can be added without changing what is on the SSDs.
//!
//! Each row says to which stream of the pool it belongs. Rows are numbered over all streams.

use super::OLDEST_VERSION;
use super::codec::{BrokenRule, Corrupt, Reader, Unreadable, Writer, assert_sound};

/// Rows that may live at once.
pub(crate) const ROWS_MAX: u32 = 4096;
/// Segment pairs of one row.
const SEGMENTS_MAX: u16 = 32;

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Rows {
    /// Rows below this number are free.
    pub(crate) oldest_live: u64,
    pub(crate) rows: Vec<RowRecord>,
    /// The losses record that says what lay in segments of which both copies are lost; 0 if there are none.
    pub(crate) losses: u64,
    /// Attachments of which that record says something; `None`: not told, by an older version.
    pub(crate) with_loss: Option<Vec<u64>>,
    /// Attachments that lost nobody knows what, because a losses record was lost, too.
    pub(crate) with_unknown_loss: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowRecord {
    pub(crate) number: u64,
    pub(crate) incarnation: u64,
    /// No entry of this row has a higher version.
    pub(crate) version_ceiling: u64,
    /// All its batches are complete and flushed on both copies.
    pub(crate) sealed: bool,
    pub(crate) segments: Vec<[SegmentCopy; 2]>,
}

/// One copy of a log segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentCopy {
    pub(crate) ssd_uuid: u128,
    pub(crate) segment: u32,
    /// It was lost, and not re-mirrored yet.
    pub(crate) lost: bool,
}

impl Rows {
    fn broken_rule(&self) -> BrokenRule {
        let rising = self.rows.windows(2).all(|pair| pair[0].number < pair[1].number);
        if !rising || self.rows.iter().any(|row| row.number < self.oldest_live) {
            return Some("its rows are out of order");
        }
        if self.rows.len() > usize::try_from(ROWS_MAX).expect("a usize has 32 bits at least") {
            return Some("there are more rows than allowed");
        }
        self.rows.iter().find_map(RowRecord::broken_rule)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        assert_sound("row records", self.broken_rule());
        let mut writer = Writer::new();
        writer.counter(self.oldest_live).u32(u32::try_from(self.rows.len()).expect("a pool has at most ROWS_MAX rows"));
        for row in &self.rows {
            writer.stream().counter(row.number).u64(row.incarnation).u64(row.version_ceiling).flag(row.sealed);
            writer.u16(u16::try_from(row.segments.len()).expect("a row has at most 32 segments"));
            for copy in row.segments.iter().flatten() {
                writer.u128(copy.ssd_uuid).u32(copy.segment).flag(copy.lost);
            }
        }
        if self.losses > 0 || self.with_loss.is_some() || !self.with_unknown_loss.is_empty() {
            writer.counter(self.losses);
            encode_attachments(&mut writer, self.with_loss.as_deref().unwrap_or_default());
            encode_attachments(&mut writer, &self.with_unknown_loss);
        }
        writer.into_bytes()
    }

    /// `version`: of the record.
    pub(crate) fn decode(version: u32, payload: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader::new(payload, "row records");
        let oldest_live = reader.counter()?;
        let count = reader.u32()?;
        reader.require(count <= ROWS_MAX, "there are more rows than allowed")?;
        let mut rows = Vec::new();
        for _ in 0..count {
            rows.push(decode_row(version, &mut reader)?);
        }
        let losses = if reader.is_at_end() { 0 } else { reader.counter()? };
        let lists = !reader.is_at_end();
        let with_loss = if lists { Some(decode_attachments(&mut reader)?) } else { None };
        let with_unknown_loss = if lists { decode_attachments(&mut reader)? } else { Vec::new() };
        reader.end()?;
        let decoded = Self { oldest_live, rows, losses, with_loss, with_unknown_loss };
        reader.require_sound(decoded.broken_rule())?;
        Ok(decoded)
    }

    /// Of some segment both copies are lost: they were the last ones of what lay there.
    pub(crate) fn lack_segments(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.segments).any(|pair| pair.iter().all(|copy| copy.lost))
    }
}

impl RowRecord {
    fn broken_rule(&self) -> BrokenRule {
        if self.segments.len() > usize::from(SEGMENTS_MAX) {
            return Some("a row has more segments than allowed");
        }
        let alike = |pair: &[SegmentCopy; 2]| pair[0].ssd_uuid == pair[1].ssd_uuid;
        self.segments.iter().any(alike).then_some("both copies of a segment are on one SSD")
    }
}

fn encode_attachments(writer: &mut Writer, attachments: &[u64]) {
    writer.u16(u16::try_from(attachments.len()).expect("a pool has at most VOLUMES_MAX volumes"));
    for attachment in attachments {
        writer.u64(*attachment);
    }
}

fn decode_attachments(reader: &mut Reader<'_>) -> Result<Vec<u64>, Corrupt> {
    let count = reader.u16()?;
    (0..count).map(|_| reader.u64()).collect()
}

fn decode_row(version: u32, reader: &mut Reader<'_>) -> Result<RowRecord, Unreadable> {
    if version > OLDEST_VERSION {
        reader.stream()?;
    }
    let (number, incarnation, version_ceiling) = (reader.counter()?, reader.u64()?, reader.u64()?);
    let sealed = reader.flag()?;
    let count = reader.u16()?;
    reader.require(count <= SEGMENTS_MAX, "a row has more segments than allowed")?;
    let mut segments = Vec::new();
    for _ in 0..count {
        let pair = [decode_copy(reader)?, decode_copy(reader)?];
        segments.push(pair);
    }
    Ok(RowRecord { number, incarnation, version_ceiling, sealed, segments })
}

fn decode_copy(reader: &mut Reader<'_>) -> Result<SegmentCopy, Corrupt> {
    Ok(SegmentCopy { ssd_uuid: reader.u128()?, segment: reader.u32()?, lost: reader.flag()? })
}

#[cfg(test)]
mod tests {
    use super::super::FORMAT_VERSION;
    use super::super::codec::OtherStream;
    use super::*;

    #[test]
    fn row_records_survive_the_round_trip() {
        let copy = |ssd_uuid| SegmentCopy { ssd_uuid, segment: 5, lost: false };
        let row = |number| RowRecord {
            number,
            incarnation: 9,
            version_ceiling: 1000,
            sealed: number == 3,
            segments: vec![[copy(1), copy(2)], [copy(3), copy(1)]],
        };
        let rows = Rows { oldest_live: 3, rows: vec![row(3), row(4)], ..Rows::default() };
        assert_eq!(decoded(&rows.encode()), Ok(rows.clone()));
        let with_losses = Rows { losses: 9, with_loss: Some(vec![4, 7]), with_unknown_loss: vec![2], ..rows.clone() };
        assert!(with_losses.encode().starts_with(&rows.encode()), "what was there before stays where it was");
        assert_eq!(decoded(&with_losses.encode()), Ok(with_losses));
        let mut older = rows.encode();
        older.extend(9_u64.to_le_bytes());
        assert_eq!(decoded(&older), Ok(Rows { losses: 9, ..rows }), "whose they are was not told once");
    }

    fn row(number: u64, ssds: [u128; 2]) -> RowRecord {
        let copy = |ssd_uuid| SegmentCopy { ssd_uuid, segment: 5, lost: false };
        RowRecord { number, incarnation: 9, version_ceiling: 7, sealed: true, segments: vec![ssds.map(copy)] }
    }

    fn rows(numbers: [u64; 2]) -> Rows {
        let rows = numbers.map(|number| row(number, [1, 2]));
        Rows { oldest_live: 3, rows: rows.to_vec(), ..Rows::default() }
    }

    /// The same with another number in the second row.
    fn renumbered(number: u64) -> Result<Rows, Unreadable> {
        let mut bytes = rows([3, 4]).encode();
        let row_bytes = (bytes.len() - 12) / 2;
        bytes[12 + row_bytes + 2..][..8].copy_from_slice(&number.to_le_bytes());
        decoded(&bytes)
    }

    #[test]
    fn rows_out_of_order_and_numbers_without_a_next_one_are_corrupt() {
        assert!(renumbered(5).is_ok());
        assert!(renumbered(3).is_err() && renumbered(2).is_err() && renumbered(u64::MAX).is_err());
    }

    #[test]
    #[should_panic(expected = "its rows are out of order")]
    fn rows_out_of_order_are_not_written() {
        rows([4, 3]).encode();
    }

    #[test]
    #[should_panic(expected = "both copies of a segment are on one SSD")]
    fn a_row_with_both_copies_on_one_ssd_is_not_written() {
        Rows { oldest_live: 3, rows: vec![row(3, [1, 1])], ..Rows::default() }.encode();
    }

    #[test]
    fn rows_of_the_first_version_are_of_the_one_stream_and_those_of_another_stream_are_refused() {
        let copy = |ssd_uuid| SegmentCopy { ssd_uuid, segment: 5, lost: false };
        let row = RowRecord {
            number: 3,
            incarnation: 9,
            version_ceiling: 7,
            sealed: true,
            segments: vec![[copy(1), copy(2)]],
        };
        let rows = Rows { oldest_live: 3, rows: vec![row], ..Rows::default() };
        let bytes = rows.encode();
        let stream_at = 8 + 4;
        let first: Vec<u8> = bytes[..stream_at].iter().chain(&bytes[stream_at + 2..]).copied().collect();
        assert_eq!(Rows::decode(OLDEST_VERSION, &first), Ok(rows));
        let mut split = bytes;
        split[stream_at] = 3;
        assert_eq!(decoded(&split), Err(Unreadable::OtherStream(OtherStream(3))));
    }

    fn decoded(payload: &[u8]) -> Result<Rows, Unreadable> {
        Rows::decode(FORMAT_VERSION, payload)
    }
}
