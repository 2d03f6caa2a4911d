//! The losses record: pages whose newest copies were lost with SSDs while the pool ran (REQUIREMENTS F5), by the row of
//! the write log in which they lay. Only the state directory has it, for there may be no SSD left.

use std::collections::BTreeSet;
use std::ops::Range;

use super::codec::{Corrupt, Reader, Writer};

/// Above every page of a volume.
const PAGES_MAX: u64 = 1 << 46;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    pub(crate) groups: Vec<Group>,
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

/// What became of a page whose newest copy is gone.
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
        writer.u32(u32::try_from(self.groups.len()).expect("rows and volumes are bounded"));
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
        writer.into_bytes()
    }

    /// Whose pages these are, each once.
    pub(crate) fn attachments(&self) -> Vec<u64> {
        let all: BTreeSet<u64> = self.groups.iter().map(|group| group.attachment).collect();
        all.into_iter().collect()
    }

    pub(crate) fn decode(payload: &[u8]) -> Result<Self, Corrupt> {
        let mut reader = Reader::new(payload, "losses record");
        let count = reader.u32()?;
        let mut groups = Vec::new();
        for _ in 0..count {
            groups.push(decode_group(&mut reader)?);
        }
        reader.end()?;
        Ok(Self { groups })
    }
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
        };
        let bytes = losses.encode();
        assert_eq!(Losses::decode(&bytes), Ok(losses));
        for length in 0..bytes.len() {
            assert!(Losses::decode(&bytes[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn ranges_behind_every_volume_and_empty_ones_are_corrupt() {
        for pages in [PAGES_MAX..PAGES_MAX + 1, 4..4] {
            let losses = Losses { groups: vec![Group { row: 1, attachment: 1, what: Loss::Lost, pages: vec![pages] }] };
            assert!(Losses::decode(&losses.encode()).is_err());
        }
    }
}
