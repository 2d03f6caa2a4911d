//! The losses record: pages of which no copy can be had (REQUIREMENTS F5), by the row of the write log in which they lie: where
//! that is, so that they are found again when an SSD with a copy is back. Only the state directory has it, for there may be no
//! SSD left.

use std::collections::BTreeSet;
use std::ops::Range;

use super::codec::{Corrupt, Reader, Writer};

/// Above every page of a volume.
pub(crate) const PAGES_MAX: u64 = 1 << 46;
/// Above every position in a row.
pub(crate) const POSITIONS_MAX: u32 = 1 << 20;
/// The longest path that is remembered for an SSD; a longer one is not remembered.
const PATH_BYTES_MAX: usize = 512;
/// Segments of a row.
const SEGMENTS_MAX: u32 = 32;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) groups: Vec<Group>,
    pub(crate) rows: Vec<AsideRow>,
    /// The SSDs on which these lie: UUID, and the path at which it was last.
    pub(crate) ssds: Vec<(u128, String)>,
}

/// A row of which pages are unavailable: it is out of the log, and its segments are not used again while it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AsideRow {
    pub(crate) number: u64,
    pub(crate) incarnation: u64,
    pub(crate) segment_pages: u32,
    /// Of the segments that are needed.
    pub(crate) segments: Vec<AsideSegment>,
    pub(crate) volumes: Vec<AsidePages>,
}

impl AsideRow {
    /// A copy of it lies on this SSD.
    pub(crate) fn names(&self, ssd_uuid: u128) -> bool {
        self.segments.iter().flat_map(|segment| &segment.copies).any(|(uuid, _)| *uuid == ssd_uuid)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AsideSegment {
    /// Which one of the row's it is.
    pub(crate) position: u32,
    /// The UUID of the SSD (0: none) and the segment there, of each copy.
    pub(crate) copies: [(u128, u32); 2],
}

/// What is unavailable of a volume in such a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AsidePages {
    pub(crate) attachment: u64,
    /// In rising order of pages.
    pub(crate) pages: Vec<AsidePage>,
}

/// A place in an incarnation of a row is written once: it stands for one version of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AsidePage {
    pub(crate) page: u64,
    /// Where in the row it lies.
    pub(crate) position: u32,
    pub(crate) checksum: u32,
}

/// Pages of one volume that lay in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) row: u64,
    pub(crate) attachment: u64,
    pub(crate) what: Loss,
    /// In rising order, none of them empty, none touching the next.
    pub(crate) pages: Vec<Range<u64>>,
}

/// What became of a page whose newest copy is gone, and of which nothing can come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// Nobody has it: it answers errors until it is written again.
    Lost,
    /// It reads as zeroes, and the backing device does not know that yet.
    Zeroes,
    /// The backing device has it; what older rows hold of it is superseded.
    Clean,
}

impl Loss {
    fn code(self) -> u8 {
        match self {
            Self::Lost => 1,
            Self::Zeroes => 2,
            Self::Clean => 3,
        }
    }
}

impl Losses {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.u32(
            u32::try_from(self.groups.len())
                .expect("there are at most ROWS_MAX rows, each of at most VOLUMES_MAX volumes"),
        );
        for group in &self.groups {
            writer.u64(group.row).u64(group.attachment).u8(group.what.code());
            writer.u32(u32::try_from(group.pages.len()).expect("a row has fewer than 2^20 pages"));
            let mut end = 0;
            for pages in &group.pages {
                short(&mut writer, pages.start - end);
                short(&mut writer, pages.end - pages.start);
                end = pages.end;
            }
        }
        if !self.rows.is_empty() {
            writer.u32(u32::try_from(self.rows.len()).expect("a pool has at most ROWS_MAX rows"));
            self.rows.iter().for_each(|row| encode_row(&mut writer, row));
            writer.u16(u16::try_from(self.ssds.len()).expect("a pool has at most SSDS_MAX SSDs"));
            for (ssd_uuid, path) in &self.ssds {
                writer.u128(*ssd_uuid).text(if path.len() <= PATH_BYTES_MAX { path } else { "" });
            }
        }
        writer.into_bytes()
    }

    /// Whose pages these are, each once.
    pub(crate) fn attachments(&self) -> Vec<u64> {
        let aside = self.rows.iter().flat_map(|row| &row.volumes).map(|volume| volume.attachment);
        let all: BTreeSet<u64> = self.groups.iter().map(|group| group.attachment).chain(aside).collect();
        all.into_iter().collect()
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, Corrupt> {
        let mut reader = Reader::new(payload, "losses record");
        let count = reader.u32()?;
        let mut groups = Vec::new();
        for _ in 0..count {
            groups.push(decode_group(&mut reader)?);
        }
        // Older versions end here.
        let (mut rows, mut ssds) = (Vec::new(), Vec::new());
        if !reader.is_at_end() {
            for _ in 0..reader.u32()? {
                rows.push(decode_row(&mut reader)?);
            }
            for _ in 0..reader.u16()? {
                ssds.push((reader.u128()?, reader.text(PATH_BYTES_MAX)?.to_owned()));
            }
        }
        reader.end()?;
        Ok(Self { groups, rows, ssds })
    }

    /// A copy of something that is unavailable lies on this SSD.
    pub(crate) fn names(&self, ssd_uuid: u128) -> bool {
        self.rows.iter().any(|row| row.names(ssd_uuid))
    }
}

fn encode_row(writer: &mut Writer, row: &AsideRow) {
    writer.counter(row.number).u64(row.incarnation).u32(row.segment_pages);
    writer.u16(u16::try_from(row.segments.len()).expect("a row has at most 32 segments"));
    for segment in &row.segments {
        writer.u16(u16::try_from(segment.position).expect("a row has at most 32 segments"));
        for (ssd_uuid, number) in segment.copies {
            writer.u128(ssd_uuid).u32(number);
        }
    }
    writer.u16(u16::try_from(row.volumes.len()).expect("a pool has at most VOLUMES_MAX volumes"));
    for volume in &row.volumes {
        writer.u64(volume.attachment);
        writer.u32(u32::try_from(volume.pages.len()).expect("a row has fewer than 2^20 pages"));
        let mut next = 0;
        for entry in &volume.pages {
            short(writer, entry.page - next);
            short(writer, u64::from(entry.position));
            writer.u32(entry.checksum);
            next = entry.page + 1;
        }
    }
}

fn decode_row(reader: &mut Reader<'_>) -> Result<AsideRow, Corrupt> {
    let (number, incarnation, segment_pages) = (reader.counter()?, reader.u64()?, reader.u32()?);
    reader.require((1..POSITIONS_MAX).contains(&segment_pages), "a row of it has no segments, or too large ones")?;
    let count = reader.u16()?;
    let mut segments = Vec::new();
    for _ in 0..count {
        let position = u32::from(reader.u16()?);
        reader.require(position < SEGMENTS_MAX, "a row of it has more segments than allowed")?;
        let copies = [(reader.u128()?, reader.u32()?), (reader.u128()?, reader.u32()?)];
        segments.push(AsideSegment { position, copies });
    }
    let count = reader.u16()?;
    let mut volumes = Vec::new();
    for _ in 0..count {
        let attachment = reader.u64()?;
        let count = reader.u32()?;
        let (mut pages, mut next) = (Vec::new(), 0_u64);
        for _ in 0..count {
            let (gap, position) = (read_short(reader)?, read_short(reader)?);
            let page = next.saturating_add(gap);
            reader.require(page < PAGES_MAX, "a page of it lies behind every volume")?;
            let position = u32::try_from(position).ok().filter(|position| *position < POSITIONS_MAX);
            let position = position.ok_or_else(|| reader.corrupt("a page of it lies behind every row"))?;
            pages.push(AsidePage { page, position, checksum: reader.u32()? });
            next = page + 1;
        }
        volumes.push(AsidePages { attachment, pages });
    }
    Ok(AsideRow { number, incarnation, segment_pages, segments, volumes })
}

fn decode_group(reader: &mut Reader<'_>) -> Result<Group, Corrupt> {
    let (row, attachment) = (reader.u64()?, reader.u64()?);
    let what = match reader.u8()? {
        1 => Loss::Lost,
        2 => Loss::Zeroes,
        3 => Loss::Clean,
        other => return Err(reader.corrupt(&format!("a loss is of kind {other}"))),
    };
    let count = reader.u32()?;
    let (mut pages, mut end) = (Vec::new(), 0_u64);
    for _ in 0..count {
        let (gap, length) = (read_short(reader)?, read_short(reader)?);
        let start = end.saturating_add(gap);
        end = start.saturating_add(length);
        reader.require(length > 0 && end <= PAGES_MAX, "a range of it is empty or ends behind every volume")?;
        pages.push(start..end);
    }
    Ok(Group { row, attachment, what, pages })
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
fn short(writer: &mut Writer, mut value: u64) {
    while value >= 0x80 {
        writer.u8(u8::try_from(value & 0x7f).expect("seven bits") | 0x80);
        value >>= 7;
    }
    writer.u8(u8::try_from(value).expect("seven bits"));
}

fn read_short(reader: &mut Reader<'_>) -> Result<u64, Corrupt> {
    let mut value = 0;
    for shift in (0..49).step_by(7) {
        let byte = reader.u8()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(reader.corrupt("a number in it is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_survive_the_round_trip_and_no_cut_does() {
        let group = |row, what, pages: &[Range<u64>]| Group { row, attachment: 7, what, pages: pages.to_vec() };
        let losses = Losses {
            groups: vec![
                group(3, Loss::Lost, &[0..1, 5..300, 1 << 40..(1 << 40) + 1]),
                group(3, Loss::Zeroes, &[1..2, 8..10]),
                group(4, Loss::Clean, &[7..8, PAGES_MAX - 1..PAGES_MAX]),
            ],
            ..Losses::default()
        };
        let older = losses.encode();
        assert_eq!(Losses::decode(&older), Ok(losses.clone()), "rows that are set aside were not told once");
        let page = |page, position, checksum| AsidePage { page, position, checksum };
        let rows = vec![AsideRow {
            number: 3,
            incarnation: u64::MAX,
            segment_pages: 256,
            segments: vec![AsideSegment { position: 31, copies: [(u128::MAX, 7), (0, 0)] }],
            volumes: vec![AsidePages {
                attachment: 7,
                pages: vec![page(0, POSITIONS_MAX - 1, 4), page(1, 2, u32::MAX), page(PAGES_MAX - 1, 900, 0)],
            }],
        }];
        let with_rows = Losses { rows, ssds: vec![(u128::MAX, "/dev/ssd".to_owned()), (7, String::new())], ..losses };
        let bytes = with_rows.encode();
        assert_eq!(Losses::decode(&bytes), Ok(with_rows.clone()));
        assert!(with_rows.names(u128::MAX) && !with_rows.names(7), "where a copy lies, not what is known");
        for length in (0..bytes.len()).filter(|length| *length != older.len()) {
            assert!(Losses::decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn the_bytes_of_a_row_that_is_set_aside_stay_what_they_are() {
        let page = AsidePage { page: 300, position: 260, checksum: 0x0102_0304 };
        let row = AsideRow {
            number: 2,
            incarnation: 3,
            segment_pages: 256,
            segments: vec![AsideSegment { position: 1, copies: [(5, 6), (0, 0)] }],
            volumes: vec![AsidePages { attachment: 7, pages: vec![page] }],
        };
        let losses = Losses { groups: Vec::new(), rows: vec![row], ssds: vec![(5, "s".to_owned())] };
        let mut bytes = vec![0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
        bytes.extend([1, 0, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0]);
        bytes.extend([0; 20]);
        bytes.extend([1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0xAC, 2, 0x84, 2, 4, 3, 2, 1]);
        bytes.extend([1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, b's']);
        assert_eq!(losses.encode(), bytes);
        assert_eq!(Losses::decode(&bytes), Ok(losses));
    }

    #[test]
    fn ranges_behind_every_volume_and_empty_ones_are_corrupt() {
        for pages in [PAGES_MAX..PAGES_MAX + 1, 4..4] {
            let groups = vec![Group { row: 1, attachment: 1, what: Loss::Lost, pages: vec![pages] }];
            let losses = Losses { groups, ..Losses::default() };
            assert!(Losses::decode(&losses.encode()).is_err());
        }
    }
}
