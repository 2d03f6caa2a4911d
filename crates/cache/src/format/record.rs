//! The envelope of a member record: every kind has two areas that are written in turn, the newest valid one counts.

use super::FORMAT_VERSION;
use super::codec::{Newer, Reader, Unusable, Writer, crc32c, knows_version};
use super::layout::{CATALOGUE_AREA_BYTES_MAX, MEMBERS_AREA_BYTES, ROWS_AREA_BYTES, WITNESS_AREA_BYTES, records_bytes};

const MAGIC: [u8; 8] = *b"HOTSETmr";
/// Bytes of the envelope before the payload.
pub(crate) const HEADER_BYTES: usize = 64;
/// Of one of the two areas for losses: what is left of the state directory's member file.
pub(crate) const LOSSES_AREA_BYTES: u64 = 3904 << 10;

/// Which record. The order is that of the areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// Epoch, session, members, clean mark.
    Members,
    /// The rows of the write log (read-write pools).
    Rows,
    /// Attachments, volumes, settings, identities.
    Catalogue,
    /// Pages that were lost while the pool ran. Of the state directory alone.
    Losses,
    /// What a member saw of the others. Each member has its own.
    Witness,
}

impl RecordKind {
    fn code(self) -> u32 {
        match self {
            Self::Members => 1,
            Self::Rows => 2,
            Self::Catalogue => 3,
            Self::Losses => 4,
            Self::Witness => 5,
        }
    }

    /// Offset (from the start of the records) and length of one of the two areas.
    pub(crate) fn area(self, which: u64, catalogue_area_bytes: u64) -> (u64, u64) {
        // Behind each area of the members record lies one of the witness record.
        let stride = MEMBERS_AREA_BYTES + WITNESS_AREA_BYTES;
        let rows_offset = 2 * stride;
        let (offset, stride, bytes) = match self {
            Self::Members => (0, stride, MEMBERS_AREA_BYTES),
            Self::Witness => (MEMBERS_AREA_BYTES, stride, WITNESS_AREA_BYTES),
            Self::Rows => (rows_offset, ROWS_AREA_BYTES, ROWS_AREA_BYTES),
            Self::Catalogue => (rows_offset + 2 * ROWS_AREA_BYTES, catalogue_area_bytes, catalogue_area_bytes),
            Self::Losses => (records_bytes(CATALOGUE_AREA_BYTES_MAX), LOSSES_AREA_BYTES, LOSSES_AREA_BYTES),
        };
        (offset + which * stride, bytes)
    }
}

/// A record as it lies in its area.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Of the format: it says how the payload is laid out.
    pub(crate) version: u32,
    pub(crate) pool_uuid: u128,
    /// Rises with every change of this kind of record; the newest wins.
    pub(crate) number: u64,
    pub(crate) payload: Vec<u8>,
}

impl Record {
    /// One that is about to be written.
    pub(crate) fn new(pool_uuid: u128, number: u64, payload: Vec<u8>) -> Self {
        Self { version: FORMAT_VERSION, pool_uuid, number, payload }
    }

    /// The record, padded with zeroes to whole pages.
    pub(crate) fn encode(&self, kind: RecordKind) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).expect("payloads are checked against their area");
        let mut writer = Writer::new();
        writer.bytes(&MAGIC).u32(self.version).u32(kind.code()).u128(self.pool_uuid).counter(self.number);
        writer.u32(length).u32(crc32c(&self.payload));
        let checksum = crc32c(writer.as_bytes());
        writer.u32(checksum);
        let mut bytes = writer.into_bytes();
        bytes.resize(HEADER_BYTES, 0);
        bytes.extend_from_slice(&self.payload);
        bytes.resize(bytes.len().next_multiple_of(4096), 0);
        let (length, (_, most)) = (bytes.len(), kind.area(0, CATALOGUE_AREA_BYTES_MAX));
        assert!(u64::try_from(length).is_ok_and(|length| length <= most), "a {kind:?} record has {length} bytes");
        bytes
    }

    /// The number and the payload's length in the first page of an area, so that only what is needed is read.
    pub(crate) fn decode_header(kind: RecordKind, bytes: &[u8]) -> Result<RecordHeader, Unusable> {
        let mut reader = Reader::new(bytes, "member record");
        let rule = reader.bytes(8)? == MAGIC;
        reader.require(rule, "its magic is missing")?;
        let (version, code) = (reader.u32()?, reader.u32()?);
        let (pool_uuid, number) = (reader.u128()?, reader.counter()?);
        let (length, payload_checksum, checksum) = (reader.u32()?, reader.u32()?, reader.u32()?);
        reader
            .require(crc32c(bytes.get(..48).unwrap_or_default()) == checksum, "its header's checksum does not match")?;
        if version > FORMAT_VERSION {
            return Err(Unusable::Newer(Newer { version, pool_uuid }));
        }
        reader.require(knows_version(version), "it has no format version")?;
        reader.require(code == kind.code(), "it is of another kind")?;
        reader.require(u64::from(length) <= CATALOGUE_AREA_BYTES_MAX, "it is longer than an area")?;
        let length = usize::try_from(length).expect("a usize has 32 bits at least");
        Ok(RecordHeader { version, pool_uuid, number, length, payload_checksum })
    }

    /// The whole record, from bytes that hold at least the header and the payload.
    pub(crate) fn decode(kind: RecordKind, bytes: &[u8]) -> Result<Self, Unusable> {
        let header = Self::decode_header(kind, bytes)?;
        let mut reader = Reader::new(bytes, "member record");
        reader.bytes(HEADER_BYTES)?;
        let payload = reader.bytes(header.length)?.to_vec();
        reader.require(crc32c(&payload) == header.payload_checksum, "its checksum does not match")?;
        Ok(Self { version: header.version, pool_uuid: header.pool_uuid, number: header.number, payload })
    }
}

/// See [`Record::decode_header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHeader {
    version: u32,
    pub(crate) pool_uuid: u128,
    pub(crate) number: u64,
    pub(crate) length: usize,
    payload_checksum: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn a_record_survives_the_round_trip_and_no_flipped_bit_does() {
        let record = Record::new(7, 3, b"payload".to_vec());
        let bytes = record.encode(RecordKind::Catalogue);
        assert_eq!(Record::decode(RecordKind::Catalogue, &bytes), Ok(record));
        assert!(Record::decode(RecordKind::Members, &bytes).is_err(), "another kind");
        for bit in 0..(52 * 8) {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(RecordKind::Catalogue, &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn areas_do_not_overlap() {
        let all = [RecordKind::Members, RecordKind::Witness, RecordKind::Rows, RecordKind::Catalogue];
        let areas = all.into_iter().flat_map(|kind| (0..2).map(move |which| kind.area(which, 1 << 20)));
        let mut areas: Vec<_> = areas.collect();
        areas.sort_unstable();
        let mut end = 0;
        for (offset, bytes) in areas {
            assert_eq!(offset, end);
            end = offset + bytes;
        }
        assert_eq!(end, crate::format::layout::records_bytes(1 << 20));
        let (first, second) = (RecordKind::Losses.area(0, 0), RecordKind::Losses.area(1, 0));
        assert_eq!(first.0, crate::format::layout::records_bytes(CATALOGUE_AREA_BYTES_MAX));
        assert_eq!(second.0, first.0 + first.1);
        assert!(second.0 + second.1 <= crate::STATE_BYTES);
    }

    #[test]
    fn no_record_is_longer_than_its_area() {
        let long = Record::new(1, 1, vec![0; usize::try_from(WITNESS_AREA_BYTES).unwrap()]);
        assert_refused("a Witness record has 16384 bytes", || long.encode(RecordKind::Witness));
    }
}
