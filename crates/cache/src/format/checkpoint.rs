//! The first sector of a checkpoint: which journal records it stands for. It is written last, so that a checkpoint
//! with a valid header is whole.

use super::codec::{Unreadable, Writer, seal_into, unseal};

pub(crate) const MAGIC: [u8; 8] = *b"HOTSETcp";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckpointHeader {
    pub(crate) incarnation: u64,
    /// Rises with every checkpoint; the area is the number modulo 2.
    pub(crate) number: u64,
    /// The session of the pool in which it was written.
    pub(crate) session: u64,
    /// The first journal record that is not contained in it.
    pub(crate) journal_start: u64,
    /// No slot has this generation or a higher one, until a later checkpoint raises it.
    pub(crate) generation_ceiling: u64,
    /// Index sectors that follow this one.
    pub(crate) sectors: u64,
}

impl CheckpointHeader {
    /// Writes the header into `bytes`, which is exactly one sector long.
    pub(crate) fn encode_into(&self, bytes: &mut [u8]) {
        let mut body = Writer::new();
        body.u64(self.incarnation).counter(self.number).counter(self.session).counter(self.journal_start);
        body.counter(self.generation_ceiling).counter(self.sectors).stream();
        seal_into(bytes, MAGIC, &body.into_bytes());
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = unseal(bytes, MAGIC, "checkpoint")?;
        let header = Self {
            incarnation: reader.u64()?,
            number: reader.counter()?,
            session: reader.counter()?,
            journal_start: reader.counter()?,
            generation_ceiling: reader.counter()?,
            sectors: reader.counter()?,
        };
        reader.stream()?;
        reader.zeroes()?;
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::{OtherStream, crc32c};
    use super::*;

    #[test]
    fn a_header_survives_the_round_trip_and_no_flipped_bit_does() {
        let header = CheckpointHeader {
            incarnation: 1,
            number: 2,
            session: 3,
            journal_start: 4,
            generation_ceiling: 5,
            sectors: 6,
        };
        let mut bytes = vec![9; 512];
        header.encode_into(&mut bytes);
        assert_eq!(CheckpointHeader::decode(&bytes), Ok(header));
        for bit in 0..(512 * 8) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(CheckpointHeader::decode(&bad).is_err(), "bit {bit}");
        }
        bytes[64] = 3;
        let checksum = crc32c(&bytes[16..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(CheckpointHeader::decode(&bytes), Err(Unreadable::OtherStream(OtherStream(3))));
    }
}
