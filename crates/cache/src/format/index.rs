//! Sectors of the slot index: the records that say which slots are believed, in the journal ring and in checkpoints.

use crate::config::BlockBytes;

use super::codec::{BrokenRule, Corrupt, Reader, Unreadable, Writer, assert_sound, crc32c};

const MAGIC: u32 = u32::from_le_bytes(*b"HSix");
const HEADER_BYTES: usize = 44;
/// Tag, mask words, slot, generation, attachment, block.
const PUBLISH_BYTES: usize = 1 + 1 + 4 + 4 + 8 + 8;

/// One statement about a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexEntry {
    /// These pages of the slot may be believed. An empty mask stands for all pages of the block.
    Publish { slot: u32, generation: u32, attachment: u64, block: u64, mask: Vec<u64> },
    /// These pages of the slot may not be believed any more.
    Drop { slot: u32, generation: u32, first_page: u16, page_count: u16 },
}

const TAG_PUBLISH: u8 = 1;
const TAG_DROP: u8 = 2;

impl IndexEntry {
    pub(crate) fn is_drop(&self) -> bool {
        match self {
            Self::Drop { .. } => true,
            Self::Publish { .. } => false,
        }
    }

    fn broken_rule(&self) -> BrokenRule {
        match self {
            Self::Publish { mask, .. } => (mask.len() > 16).then_some("a mask has more words than a block has pages"),
            Self::Drop { .. } => None,
        }
    }

    fn encoded_bytes(&self) -> usize {
        match self {
            Self::Publish { mask, .. } => PUBLISH_BYTES + 8 * mask.len(),
            Self::Drop { .. } => 1 + 4 + 4 + 2 + 2,
        }
    }

    fn encode(&self, writer: &mut Writer) {
        assert_sound("an index entry", self.broken_rule());
        match self {
            Self::Publish { slot, generation, attachment, block, mask } => {
                let words = u8::try_from(mask.len()).expect("a mask has at most 16 words");
                writer.u8(TAG_PUBLISH).u8(words).u32(*slot).u32(*generation).u64(*attachment).u64(*block);
                for word in mask {
                    writer.u64(*word);
                }
            }
            Self::Drop { slot, generation, first_page, page_count } => {
                writer.u8(TAG_DROP).u32(*slot).u32(*generation).u16(*first_page).u16(*page_count);
            }
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Corrupt> {
        match reader.u8()? {
            TAG_PUBLISH => {
                let words = reader.u8()?;
                reader.require(words <= 16, "a mask has more words than a block has pages")?;
                let (slot, generation) = (reader.u32()?, reader.u32()?);
                let (attachment, block) = (reader.u64()?, reader.u64()?);
                let mask = (0..words).map(|_| reader.u64()).collect::<Result<_, _>>()?;
                Ok(Self::Publish { slot, generation, attachment, block, mask })
            }
            TAG_DROP => Ok(Self::Drop {
                slot: reader.u32()?,
                generation: reader.u32()?,
                first_page: reader.u16()?,
                page_count: reader.u16()?,
            }),
            other => Err(reader.corrupt(&format!("there is no entry of kind {other}"))),
        }
    }
}

/// The least number of entries that fit in a sector, however long their masks are.
pub(crate) fn entries_per_sector_min(sector_bytes: u32, block_bytes: BlockBytes) -> u64 {
    let words = u64::from(block_bytes.pages().div_ceil(64));
    let longest = u64::try_from(PUBLISH_BYTES).expect("an address has 64 bits at most") + 8 * words;
    (u64::from(sector_bytes) - u64::try_from(HEADER_BYTES).expect("an address has 64 bits at most")) / longest
}

/// Where a sector belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SectorPlace {
    Journal,
    Checkpoint,
}

/// A sector and the entries in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sector {
    pub(crate) place: SectorPlace,
    /// The incarnation of the SSD's index; others are not believed.
    pub(crate) incarnation: u64,
    /// Journal: rises by one with every sector, never reused; the sector's place in the ring is its number modulo
    /// the ring's length. Checkpoint: the position in the checkpoint.
    pub(crate) number: u64,
    /// Journal: everything below this number was flushed when this sector was written. Checkpoint: its number.
    pub(crate) flushed_below: u64,
    pub(crate) entries: Vec<IndexEntry>,
}

impl Sector {
    /// Whether one more entry fits.
    pub(crate) fn fits(&self, entry: &IndexEntry, sector_bytes: u32) -> bool {
        let used: usize = self.entries.iter().map(IndexEntry::encoded_bytes).sum();
        HEADER_BYTES + used + entry.encoded_bytes() <= usize::try_from(sector_bytes).expect("512 or 4096")
    }

    /// Writes the sector into `bytes`, which is exactly one sector long.
    pub(crate) fn encode_into(&self, bytes: &mut [u8]) {
        let mut body = Writer::new();
        let place = match self.place {
            SectorPlace::Journal => 1,
            SectorPlace::Checkpoint => 2,
        };
        body.u16(place).u16(u16::try_from(self.entries.len()).expect("entries of a sector fit in it"));
        body.u64(self.incarnation).counter(self.number).counter(self.flushed_below).stream().u16(0).u32(0);
        for entry in &self.entries {
            entry.encode(&mut body);
        }
        let body = body.into_bytes();
        bytes.fill(0);
        bytes[8..8 + body.len()].copy_from_slice(&body);
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        let checksum = crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Gives any bytes a valid magic and checksum, for the fuzz target. False: there are too few of them.
    pub(crate) fn sign(bytes: &mut [u8]) -> bool {
        if bytes.len() < HEADER_BYTES || bytes.len() > 4096 {
            return false;
        }
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        let checksum = crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        true
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader::new(bytes, "index sector");
        let magic = reader.u32()?;
        reader.require(magic == MAGIC, "its magic is missing")?;
        let checksum = reader.u32()?;
        reader.require(crc32c(bytes.get(8..).unwrap_or_default()) == checksum, "its checksum does not match")?;
        let place = match reader.u16()? {
            1 => SectorPlace::Journal,
            2 => SectorPlace::Checkpoint,
            _ => return Err(reader.corrupt("it is neither of the journal nor of a checkpoint").into()),
        };
        let count = reader.u16()?;
        let (incarnation, number, flushed_below) = (reader.u64()?, reader.counter()?, reader.counter()?);
        reader.stream()?;
        let reserved = (reader.u16()?, reader.u32()?);
        reader.require(reserved == (0, 0), "a reserved field is not zero")?;
        let mut entries = Vec::new();
        for _ in 0..count {
            entries.push(IndexEntry::decode(&mut reader)?);
        }
        reader.zeroes()?;
        Ok(Self { place, incarnation, number, flushed_below, entries })
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::OtherStream;
    use super::*;

    fn sample() -> Sector {
        let publish = IndexEntry::Publish { slot: 3, generation: 1 << 30, attachment: 7, block: 9, mask: vec![5; 16] };
        let drop = IndexEntry::Drop { slot: 4, generation: 8, first_page: 1, page_count: 15 };
        let entries = vec![publish, drop];
        Sector { place: SectorPlace::Journal, incarnation: 2, number: 10, flushed_below: 9, entries }
    }

    #[test]
    fn a_sector_survives_the_round_trip_and_no_flipped_bit_does() {
        let mut bytes = vec![1; 512];
        sample().encode_into(&mut bytes);
        assert_eq!(Sector::decode(&bytes), Ok(sample()));
        for bit in 0..(512 * 8) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Sector::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_sector_of_another_stream_is_refused_and_not_taken_for_damage() {
        let mut bytes = vec![1; 512];
        sample().encode_into(&mut bytes);
        bytes[36] = 3;
        assert!(Sector::sign(&mut bytes));
        assert_eq!(Sector::decode(&bytes), Err(Unreadable::OtherStream(OtherStream(3))));
    }

    #[test]
    #[should_panic(expected = "a mask has more words")]
    fn an_entry_that_nobody_could_read_is_not_written() {
        let entry = IndexEntry::Publish { slot: 3, generation: 1, attachment: 7, block: 9, mask: vec![5; 17] };
        Sector { entries: vec![entry], ..sample() }.encode_into(&mut [0; 4096]);
    }

    #[test]
    fn what_fits_is_what_is_promised() {
        let block_bytes = BlockBytes::new(4 << 20).expect("a valid value of the test");
        let entry = IndexEntry::Publish { slot: 0, generation: 0, attachment: 0, block: 0, mask: vec![0; 16] };
        let mut sector = Sector { entries: Vec::new(), ..sample() };
        let mut count = 0;
        while sector.fits(&entry, 512) {
            sector.entries.push(entry.clone());
            count += 1;
        }
        assert_eq!(count, entries_per_sector_min(512, block_bytes));
    }
}
