//! The header of a slot: whose block it holds, and the checksums of its pages. It confirms what the index says; it is
//! never believed alone.

use crate::config::{BlockBytes, PAGE};

use super::codec::{Corrupt, Writer, seal_into, unseal};

pub(crate) const MAGIC: [u8; 8] = *b"HOTSETsl";
/// Bytes before the checksums.
const FIXED_BYTES: usize = 64;

/// Bytes of a slot's header: the fixed part and a checksum a page, in whole pages.
pub(crate) fn bytes_for(block_bytes: BlockBytes) -> u64 {
    let fixed = u64::try_from(FIXED_BYTES).expect("an address has 64 bits at most");
    (fixed + 4 * u64::from(block_bytes.pages())).next_multiple_of(PAGE)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SlotHeader {
    pub(crate) incarnation: u64,
    pub(crate) slot: u32,
    /// The low 32 bits of the SSD's count of fills; the same number comes again after 2^32 fills of the SSD.
    pub(crate) generation: u32,
    pub(crate) attachment: u64,
    pub(crate) block: u64,
    /// CRC-32C of each page of the block; what stands for a page that the slot does not hold means nothing.
    pub(crate) checksums: Vec<u32>,
}

impl SlotHeader {
    /// Writes the header into `bytes`, which is exactly [`bytes_for`] long.
    pub(crate) fn encode_into(&self, bytes: &mut [u8]) {
        let mut body = Writer::new();
        body.u64(self.incarnation).u64(self.attachment).u64(self.block).u32(self.slot).u32(self.generation);
        body.u32(u32::try_from(self.checksums.len()).expect("a block has at most 1024 pages")).u32(0).u64(0);
        for checksum in &self.checksums {
            body.u32(*checksum);
        }
        seal_into(bytes, MAGIC, &body.into_bytes());
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut reader = unseal(bytes, MAGIC, "slot header")?;
        let (incarnation, attachment, block) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (slot, generation, pages) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let reserved = (reader.u32()?, reader.u64()?);
        reader.require(pages <= 1024 && reserved == (0, 0), "it has more pages than a block")?;
        let checksums = (0..pages).map(|_| reader.u32()).collect::<Result<_, _>>()?;
        reader.zeroes()?;
        Ok(Self { incarnation, slot, generation, attachment, block, checksums })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_the_round_trip_for_every_block_size() {
        for shift in 16..=22 {
            let block_bytes = BlockBytes::new(1 << shift).expect("a valid value of the test");
            let checksums = (0..block_bytes.pages()).collect();
            let header = SlotHeader { incarnation: 1, slot: 2, generation: 3, attachment: 4, block: 5, checksums };
            let mut bytes =
                vec![7; usize::try_from(bytes_for(block_bytes)).expect("what lies in memory has an address")];
            header.encode_into(&mut bytes);
            assert_eq!(SlotHeader::decode(&bytes), Ok(header));
            bytes[100] ^= 1;
            assert!(SlotHeader::decode(&bytes).is_err());
        }
    }
}
