//! The row records: the rows of the write log, oldest first. A read pool has none; the shape is fixed here so that
//! the log can be added without changing what is on the SSDs.
//!
//! Each row says to which stream of the pool it belongs. Rows are numbered over all streams.

use super::OLDEST_VERSION;
use super::codec::{Corrupt, Reader, Unreadable, Writer};

/// Rows that may live at once.
const ROWS_MAX: u32 = 4096;
/// Segment pairs of one row.
const SEGMENTS_MAX: u16 = 32;

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Rows {
    /// Rows below this number are free.
    pub(crate) oldest_live: u64,
    pub(crate) rows: Vec<Row>,
    /// The losses record that says what lay in segments of which both copies are lost; 0 if there are none.
    pub(crate) losses: u64,
    /// Attachments of which that record says something; `None`: not told, by an older version.
    pub(crate) with_loss: Option<Vec<u64>>,
    /// Attachments that lost nobody knows what, because a losses record was lost, too.
    pub(crate) with_unknown_loss: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) number: u64,
    pub(crate) incarnation: u64,
    /// No entry of this row has a higher version.
    pub(crate) version_ceiling: u64,
    /// All its batches are complete and flushed on both copies.
    pub(crate) sealed: bool,
    pub(crate) segments: Vec<[Copy; 2]>,
}

/// One copy of a log segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) ssd_uuid: u128,
    pub(crate) segment: u32,
    /// It was lost, and not re-mirrored yet.
    pub(crate) lost: bool,
}

impl Rows {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u64(self.oldest_live).u32(u32::try_from(self.rows.len()).expect("rows are bounded"));
        for row in &self.rows {
            writer.stream().u64(row.number).u64(row.incarnation).u64(row.version_ceiling).flag(row.sealed);
            writer.u16(u16::try_from(row.segments.len()).expect("segments of a row are bounded"));
            for copy in row.segments.iter().flatten() {
                writer.u128(copy.ssd_uuid).u32(copy.segment).flag(copy.lost);
            }
        }
        if self.losses > 0 || self.with_loss.is_some() || !self.with_unknown_loss.is_empty() {
            writer.u64(self.losses);
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
        let rising = rows.windows(2).all(|pair| pair[0].number < pair[1].number);
        reader.require(rising && rows.iter().all(|row| row.number >= oldest_live), "its rows are out of order")?;
        Ok(Self { oldest_live, rows, losses, with_loss, with_unknown_loss })
    }

    /// Of some segment both copies are lost: they were the last ones of what lay there.
    pub(crate) fn lack_segments(&self) -> bool {
        self.rows.iter().flat_map(|row| &row.segments).any(|pair| pair.iter().all(|copy| copy.lost))
    }
}

fn encode_attachments(writer: &mut Writer, attachments: &[u64]) {
    writer.u16(u16::try_from(attachments.len()).expect("volumes of a pool are bounded"));
    for attachment in attachments {
        writer.u64(*attachment);
    }
}

fn decode_attachments(reader: &mut Reader<'_>) -> Result<Vec<u64>, Corrupt> {
    let count = reader.u16()?;
    (0..count).map(|_| reader.u64()).collect()
}

fn decode_row(version: u32, reader: &mut Reader<'_>) -> Result<Row, Unreadable> {
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
        reader.require(pair[0].ssd_uuid != pair[1].ssd_uuid, "both copies of a segment are on one SSD")?;
        segments.push(pair);
    }
    Ok(Row { number, incarnation, version_ceiling, sealed, segments })
}

fn decode_copy(reader: &mut Reader<'_>) -> Result<Copy, Corrupt> {
    Ok(Copy { ssd_uuid: reader.u128()?, segment: reader.u32()?, lost: reader.flag()? })
}

#[cfg(test)]
mod tests {
    use super::super::FORMAT_VERSION;
    use super::super::codec::OtherStream;
    use super::*;

    #[test]
    fn row_records_survive_the_round_trip() {
        let copy = |ssd_uuid| Copy { ssd_uuid, segment: 5, lost: false };
        let row = |number| Row {
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
        assert_eq!(decoded(&older), Ok(Rows { losses: 9, ..rows }), "who is concerned was not told once");
        let unordered = Rows { oldest_live: 3, rows: vec![row(4), row(3)], ..Rows::default() };
        assert!(decoded(&unordered.encode()).is_err());
        let endless = Rows { oldest_live: 3, rows: vec![row(u64::MAX)], ..Rows::default() };
        assert!(decoded(&endless.encode()).is_err(), "there is no next row");
    }

    #[test]
    fn rows_of_the_first_version_are_of_the_one_stream_and_those_of_another_stream_are_refused() {
        let copy = |ssd_uuid| Copy { ssd_uuid, segment: 5, lost: false };
        let row =
            Row { number: 3, incarnation: 9, version_ceiling: 7, sealed: true, segments: vec![[copy(1), copy(2)]] };
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
