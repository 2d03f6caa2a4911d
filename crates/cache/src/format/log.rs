//! What lies inside a segment of the write log: its header, batches, and the summary that is written when its row is
//! sealed. Pages are counted from the start of the segment.
//!
//! Each batch says of itself whose it is, which batch came before it, and what its pages are; so a batch is believed by
//! itself, from whichever copy is whole, and the chain of batches ends where one is missing.

use smallvec::SmallVec;

use super::codec::{Corrupt, Reader, Unreadable, Writer, crc32c, seal_into, unseal};
use super::losses::PAGES_MAX;

pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"HOTSETls";
pub(crate) const BATCH_MAGIC: [u8; 8] = *b"HOTSETlb";
pub(crate) const SUMMARY_MAGIC: [u8; 8] = *b"HOTSETlm";
const PAGE_BYTES: usize = 4096;

/// Bytes of a batch header before its payload (seal and fixed fields).
const BATCH_FIXED_BYTES: usize = 16 + 64;
/// Bytes of a summary before its batches.
const SUMMARY_FIXED_BYTES: usize = 16 + 48;
/// Bytes of a summary for each batch, beside the batch's payload.
const SUMMARY_BATCH_BYTES: usize = 20;
/// Pages that a batch may bring: what the count of its checksums can name.
pub(crate) const BATCH_PAGES_MAX: u32 = 512;
/// A page of the segment for so many pages is reserved for the summary.
const PAGES_PER_SUMMARY_PAGE: u32 = 128;

const PAGES: u8 = 1;
const ZEROES: u8 = 2;
const LOST: u8 = 3;
const CLEANED: u8 = 4;

/// Pages at the end of a segment that are kept for its summary: 32 bytes for each page of the segment.
pub(crate) fn summary_pages(segment_pages: u32) -> u32 {
    segment_pages / PAGES_PER_SUMMARY_PAGE + 1
}

/// The first page of a segment: whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) row: u64,
    pub(crate) incarnation: u64,
    /// Which of the row's segments this is.
    pub(crate) position: u32,
}

impl SegmentHeader {
    /// `bytes` is one page.
    pub(crate) fn encode_into(&self, bytes: &mut [u8]) {
        let mut body = Writer::new();
        body.u64(self.row).u64(self.incarnation).u32(self.position).stream();
        seal_into(bytes, SEGMENT_MAGIC, body.as_bytes());
    }

    /// Row records say everything that it says; it is there for those who look at an SSD without them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = unseal(bytes, SEGMENT_MAGIC, "log segment header")?;
        let header = Self { row: reader.u64()?, incarnation: reader.u64()?, position: reader.u32()? };
        reader.stream()?;
        reader.zeroes()?;
        Ok(header)
    }
}

/// Of the pages of an entry. Most entries are of a few: these take no memory of their own.
pub(crate) type Checksums = SmallVec<[u32; 4]>;

/// What an entry of a batch says of pages of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// They are in this batch, with these checksums.
    Pages { attachment: u64, page: u64, version: u64, checksums: Checksums },
    /// They read as zeroes.
    Zeroes { attachment: u64, page: u64, version: u64, count: u32 },
    /// Both copies of what they held are lost: they answer errors until they are written again.
    Lost { attachment: u64, page: u64, version: u64, count: u32 },
    /// What lies at these positions of a row is on the backing device, durably. A hint.
    Cleaned { row: u64, position: u32, count: u32 },
}

/// The entries of a batch as bytes, in the making.
#[derive(Default)]
pub(crate) struct Payload {
    writer: Writer,
    entries: u16,
    data_pages: u32,
}

/// Bytes of an entry with `pages` checksums.
pub(crate) fn pages_entry_bytes(pages: usize) -> usize {
    1 + 24 + 2 + 4 * pages
}

/// Bytes of the shortest entry: of a hint.
const ENTRY_BYTES_MIN: usize = 1 + 16;

/// Bytes of the longest entry without checksums.
pub(crate) const PLAIN_ENTRY_BYTES: usize = 1 + 24 + 4;

impl Payload {
    pub(crate) fn len(&self) -> usize {
        self.writer.as_bytes().len()
    }

    /// Makes room for so many bytes of entries more.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.writer.reserve(bytes);
    }

    pub(crate) fn entries(&self) -> u16 {
        self.entries
    }

    pub(crate) fn data_pages(&self) -> u32 {
        self.data_pages
    }

    /// Pages whose checksums follow, one after the other, from `checksums`.
    pub(crate) fn push_pages(&mut self, attachment: u64, page: u64, version: u64, checksums: &[u32]) {
        let count = u16::try_from(checksums.len()).expect("a batch has at most 512 pages");
        assert_possible(page, u32::from(count));
        let mut head = [0; 1 + 24 + 2];
        head[0] = PAGES;
        head[1..9].copy_from_slice(&attachment.to_le_bytes());
        head[9..17].copy_from_slice(&page.to_le_bytes());
        head[17..25].copy_from_slice(&version.to_le_bytes());
        head[25..].copy_from_slice(&count.to_le_bytes());
        self.writer.bytes(&head);
        for checksum in checksums {
            self.writer.u32(*checksum);
        }
        self.entries += 1;
        self.data_pages += u32::from(count);
    }

    pub(crate) fn push(&mut self, entry: &Entry) {
        match entry {
            Entry::Pages { attachment, page, version, checksums } => {
                return self.push_pages(*attachment, *page, *version, checksums);
            }
            Entry::Zeroes { attachment, page, version, count } => {
                assert_possible(*page, *count);
                self.writer.u8(ZEROES).u64(*attachment).u64(*page).u64(*version).u32(*count);
            }
            Entry::Lost { attachment, page, version, count } => {
                assert_possible(*page, *count);
                self.writer.u8(LOST).u64(*attachment).u64(*page).u64(*version).u32(*count);
            }
            Entry::Cleaned { row, position, count } => {
                self.writer.u8(CLEANED).counter(*row).u32(*position).u32(*count);
            }
        }
        self.entries += 1;
    }

    /// Pages of the header with this payload.
    pub(crate) fn header_pages(&self) -> u32 {
        header_pages(self.len())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.writer.as_bytes()
    }
}

pub(crate) fn header_pages(payload_bytes: usize) -> u32 {
    let pages = (BATCH_FIXED_BYTES + payload_bytes).div_ceil(PAGE_BYTES);
    u32::try_from(pages).expect("a batch is below 4 GiB")
}

/// A batch's header: the pages of its entries follow it, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) place: BatchPlace,
    pub(crate) header_pages: u32,
    pub(crate) data_pages: u32,
    pub(crate) entries: Vec<Entry>,
    /// Of this header; what the next batch names as the one before.
    pub(crate) checksum: u32,
}

/// Where a batch stands in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchPlace {
    pub(crate) row: u64,
    pub(crate) incarnation: u64,
    /// Counted in the row, over all its segments.
    pub(crate) index: u32,
    /// The checksum of the batch before it in the stream, also across rows; 0 for the first after a start.
    pub(crate) previous: u32,
    /// Every batch before this one was flushed, on all its copies, when this one was written.
    pub(crate) flushed_row: u64,
    pub(crate) flushed_index: u32,
}

impl Batch {
    /// Writes the header into `bytes`, which is exactly its pages long; answers its checksum.
    pub(crate) fn encode_into(bytes: &mut [u8], place: &BatchPlace, payload: &Payload) -> u32 {
        let mut body = Writer::new();
        body.counter(place.row).u64(place.incarnation).u32(place.index).u32(place.previous);
        body.counter(place.flushed_row).u32(place.flushed_index);
        body.u32(payload.header_pages()).u32(payload.data_pages()).u16(payload.entries).stream();
        body.u32(u32::try_from(payload.len()).expect("a batch is below 4 GiB")).u64(0);
        assert_eq!(body.as_bytes().len() + 16, BATCH_FIXED_BYTES - 4);
        body.u32(0);
        let fixed = body.into_bytes();
        let pages = usize::try_from(payload.header_pages()).expect("a usize has 32 bits at least");
        assert!(bytes.len() == pages * PAGE_BYTES, "a batch's header of {pages} pages in {} bytes", bytes.len());
        bytes[16..16 + fixed.len()].copy_from_slice(&fixed);
        let end = BATCH_FIXED_BYTES + payload.len();
        bytes[BATCH_FIXED_BYTES..end].copy_from_slice(payload.as_bytes());
        bytes[end..].fill(0);
        bytes[..8].copy_from_slice(&BATCH_MAGIC);
        bytes[12..16].fill(0);
        let checksum = crc32c(&bytes[16..]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    /// Pages of the header that begins with `first_page`, if it looks like one of this row and incarnation. To be
    /// believed only after [`Batch::decode`] of them all.
    pub(crate) fn peek(first_page: &[u8], row: u64, incarnation: u64) -> Option<u32> {
        let mut reader = Reader::new(first_page, "batch");
        let magic = reader.bytes(8).ok()?;
        reader.bytes(8).ok()?;
        let (found_row, found_incarnation) = (reader.u64().ok()?, reader.u64().ok()?);
        reader.bytes(20).ok()?;
        let pages = reader.u32().ok()?;
        let ours = magic == BATCH_MAGIC && (found_row, found_incarnation) == (row, incarnation);
        (ours && (1..=BATCH_PAGES_MAX).contains(&pages)).then_some(pages)
    }

    /// `bytes`: the pages of the header.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = unseal(bytes, BATCH_MAGIC, "batch")?;
        let checksum = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        let (row, incarnation) = (reader.counter()?, reader.u64()?);
        let (index, previous) = (reader.u32()?, reader.u32()?);
        let (flushed_row, flushed_index) = (reader.counter()?, reader.u32()?);
        let (header_pages, data_pages) = (reader.u32()?, reader.u32()?);
        let entry_count = reader.u16()?;
        reader.stream()?;
        let length = usize::try_from(reader.u32()?).expect("a usize has 32 bits at least");
        let reserved = (reader.u64()?, reader.u32()?);
        reader.require(reserved == (0, 0), "a reserved field is not zero")?;
        let fits = usize::try_from(header_pages).is_ok_and(|pages| pages * PAGE_BYTES == bytes.len());
        reader.require(fits, "its length does not match")?;
        let payload = reader.bytes(length)?;
        reader.zeroes()?;
        let entries = decode_entries(payload, entry_count, data_pages)?;
        let place = BatchPlace { row, incarnation, index, previous, flushed_row, flushed_index };
        Ok(Self { place, header_pages, data_pages, entries, checksum })
    }
}

fn decode_entries(payload: &[u8], count: u16, data_pages: u32) -> Result<Vec<Entry>, Corrupt> {
    let mut reader = Reader::new(payload, "batch entries");
    let mut entries = Vec::with_capacity(usize::from(count).min(payload.len() / ENTRY_BYTES_MIN));
    let mut pages = 0_u32;
    for _ in 0..count {
        let entry = decode_entry(&mut reader)?;
        if let Entry::Pages { checksums, .. } = &entry {
            pages += u32::try_from(checksums.len()).expect("a 16-bit count");
        }
        entries.push(entry);
    }
    reader.end()?;
    reader.require(pages == data_pages, "it has another number of pages than its entries")?;
    Ok(entries)
}

/// So many pages from this one on are some pages of a volume.
fn are_possible(page: u64, count: u32) -> bool {
    count > 0 && page.checked_add(u64::from(count)).is_some_and(|end| end <= PAGES_MAX)
}

/// # Panics
/// If no start would read the entry again: what a host is told of would be gone with the whole batch.
fn assert_possible(page: u64, count: u32) {
    assert!(are_possible(page, count), "an entry of a batch is of {count} pages from {page} on");
}

fn decode_entry(reader: &mut Reader<'_>) -> Result<Entry, Corrupt> {
    let kind = reader.u8()?;
    if kind == CLEANED {
        let (row, position, count) = (reader.counter()?, reader.u32()?, reader.u32()?);
        return Ok(Entry::Cleaned { row, position, count });
    }
    let [attachment, page, version] = reader.u64s()?;
    let checked =
        |reader: &Reader<'_>, count: u32| reader.require(are_possible(page, count), "an entry's pages are impossible");
    match kind {
        PAGES => {
            let count = reader.u16()?;
            checked(reader, u32::from(count))?;
            let checksums = reader.u32s(usize::from(count))?.collect();
            Ok(Entry::Pages { attachment, page, version, checksums })
        }
        ZEROES | LOST => {
            let count = reader.u32()?;
            checked(reader, count)?;
            Ok(if kind == ZEROES {
                Entry::Zeroes { attachment, page, version, count }
            } else {
                Entry::Lost { attachment, page, version, count }
            })
        }
        other => Err(reader.corrupt(&format!("an entry is of the unknown kind {other}"))),
    }
}

/// The batches of one segment, as they are noted while the row is open.
#[derive(Default)]
pub(crate) struct SummaryDraft {
    writer: Writer,
    batches: u32,
}

impl SummaryDraft {
    /// Bytes that the summary would have with one more batch of this payload.
    pub(crate) fn bytes_with(&self, payload_bytes: usize) -> usize {
        self.bytes() + SUMMARY_BATCH_BYTES + payload_bytes
    }

    /// Bytes of the summary as it is now.
    pub(crate) fn bytes(&self) -> usize {
        SUMMARY_FIXED_BYTES + self.writer.as_bytes().len()
    }

    /// `first_page`: where the batch's header begins in the segment.
    pub(crate) fn push(&mut self, index: u32, first_page: u32, payload: &Payload) {
        self.writer.u32(index).u32(first_page).u32(payload.data_pages()).u16(payload.entries).u16(0);
        self.writer.u32(u32::try_from(payload.len()).expect("a batch is below 4 GiB")).bytes(payload.as_bytes());
        self.batches += 1;
    }

    /// The summary, in whole pages.
    pub(crate) fn encode(&self, header: &SegmentHeader, row_batches: u32, last_checksum: u32) -> Vec<u8> {
        let mut body = Writer::new();
        body.counter(header.row).u64(header.incarnation).u32(header.position).u32(row_batches).u32(last_checksum);
        body.u32(self.batches).u32(u32::try_from(self.writer.as_bytes().len()).expect("a segment is below 4 GiB"));
        body.stream().u16(0).u64(0);
        assert_eq!(body.as_bytes().len() + 16, SUMMARY_FIXED_BYTES);
        body.bytes(self.writer.as_bytes());
        let mut bytes = vec![0; (16 + body.as_bytes().len()).next_multiple_of(PAGE_BYTES)];
        seal_into(&mut bytes, SUMMARY_MAGIC, body.as_bytes());
        bytes
    }
}

/// What a sealed segment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) header: SegmentHeader,
    /// Batches of the whole row, and the checksum of the last one.
    pub(crate) row_batches: u32,
    pub(crate) last_checksum: u32,
    pub(crate) batches: Vec<SummaryBatch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SummaryBatch {
    pub(crate) index: u32,
    pub(crate) first_page: u32,
    pub(crate) header_pages: u32,
    pub(crate) entries: Vec<Entry>,
}

impl SummaryBatch {
    /// The page behind it.
    fn end(&self) -> u64 {
        let data = self.entries.iter().map(|entry| match entry {
            Entry::Pages { checksums, .. } => checksums.len(),
            Entry::Zeroes { .. } | Entry::Lost { .. } | Entry::Cleaned { .. } => 0,
        });
        let data = u64::try_from(data.sum::<usize>()).expect("an address has 64 bits at most");
        u64::from(self.first_page) + u64::from(self.header_pages) + data
    }
}

impl Summary {
    /// Its batches lie behind the segment's header and end before this page of the segment.
    pub(crate) fn fits(&self, batches_end: u32) -> bool {
        self.batches.iter().all(|batch| batch.first_page > 0 && batch.end() <= u64::from(batches_end))
    }

    /// Pages of the summary that begins with this page; to be believed only after [`Summary::decode`].
    pub(crate) fn peek(first_page: &[u8]) -> Option<usize> {
        let mut reader = Reader::new(first_page, "summary");
        let magic = reader.bytes(8).ok()?;
        reader.bytes(8 + 32).ok()?;
        let length = usize::try_from(reader.u32().ok()?).ok()?;
        (magic == SUMMARY_MAGIC).then(|| (SUMMARY_FIXED_BYTES.saturating_add(length)).div_ceil(PAGE_BYTES))
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = unseal(bytes, SUMMARY_MAGIC, "log summary")?;
        let header = SegmentHeader { row: reader.counter()?, incarnation: reader.u64()?, position: reader.u32()? };
        let (row_batches, last_checksum) = (reader.u32()?, reader.u32()?);
        let (count, length) = (reader.u32()?, usize::try_from(reader.u32()?).expect("a usize has 32 bits at least"));
        reader.stream()?;
        let reserved = (reader.u16()?, reader.u64()?);
        reader.require(reserved == (0, 0), "a reserved field is not zero")?;
        let mut body = Reader::new(reader.bytes(length)?, "log summary");
        reader.zeroes()?;
        let mut batches = Vec::new();
        for _ in 0..count {
            let (index, first_page, data_pages) = (body.u32()?, body.u32()?, body.u32()?);
            let (entry_count, reserved) = (body.u16()?, body.u16()?);
            body.require(reserved == 0, "a reserved field is not zero")?;
            let payload_bytes = usize::try_from(body.u32()?).expect("a usize has 32 bits at least");
            let entries = decode_entries(body.bytes(payload_bytes)?, entry_count, data_pages)?;
            batches.push(SummaryBatch { index, first_page, header_pages: header_pages(payload_bytes), entries });
        }
        body.end()?;
        Ok(Self { header, row_batches, last_checksum, batches })
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::OtherStream;
    use super::*;
    use crate::refused::assert_refused;

    fn payload() -> (Payload, Vec<Entry>) {
        let entries = vec![
            Entry::Pages { attachment: 7, page: 100, version: 5, checksums: Checksums::from_slice(&[1, 2, 3]) },
            Entry::Zeroes { attachment: 7, page: 9, version: 6, count: 70_000 },
            Entry::Lost { attachment: 8, page: 1, version: 6, count: 1 },
            Entry::Cleaned { row: 3, position: 77, count: 9 },
        ];
        let mut payload = Payload::default();
        entries.iter().for_each(|entry| payload.push(entry));
        (payload, entries)
    }

    #[test]
    fn a_batch_survives_the_round_trip_and_no_flipped_bit_does() {
        let (payload, entries) = payload();
        let place = BatchPlace { row: 4, incarnation: 9, index: 2, previous: 11, flushed_row: 4, flushed_index: 1 };
        let mut bytes = vec![0xaa; PAGE_BYTES];
        let checksum = Batch::encode_into(&mut bytes, &place, &payload);
        let batch = Batch { place, header_pages: 1, data_pages: 3, entries, checksum };
        assert_eq!(Batch::decode(&bytes), Ok(batch));
        assert_eq!(Batch::peek(&bytes, 4, 9), Some(1));
        assert_eq!(Batch::peek(&bytes, 4, 8), None);
        for bit in 0..300 * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Batch::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_summary_survives_the_round_trip() {
        let (payload, entries) = payload();
        let mut draft = SummaryDraft::default();
        let expected = draft.bytes_with(payload.len());
        draft.push(0, 1, &payload);
        let header = SegmentHeader { row: 4, incarnation: 9, position: 1 };
        let bytes = draft.encode(&header, 3, 12);
        assert_eq!(bytes.len(), expected.next_multiple_of(PAGE_BYTES));
        assert_eq!(Summary::peek(&bytes), Some(1));
        let batch = SummaryBatch { index: 0, first_page: 1, header_pages: 1, entries };
        assert_eq!(
            Summary::decode(&bytes),
            Ok(Summary { header, row_batches: 3, last_checksum: 12, batches: vec![batch] })
        );
        let mut bad = bytes;
        bad[70] ^= 1;
        assert!(Summary::decode(&bad).is_err());
    }

    #[test]
    fn a_summary_fits_only_where_its_batches_lie_in_the_segment() {
        let (payload, _) = payload();
        let fits = |first_page| {
            let mut draft = SummaryDraft::default();
            draft.push(0, first_page, &payload);
            let bytes = draft.encode(&SegmentHeader { row: 4, incarnation: 9, position: 1 }, 3, 12);
            Summary::decode(&bytes).expect("it was encoded from a valid one").fits(100)
        };
        // A header and three pages.
        assert!(fits(1) && fits(96));
        assert!(!fits(0) && !fits(97) && !fits(100) && !fits(u32::MAX));
    }

    #[test]
    fn a_segment_header_survives_the_round_trip() {
        let header = SegmentHeader { row: 4, incarnation: 9, position: 1 };
        let mut bytes = vec![0xaa; PAGE_BYTES];
        header.encode_into(&mut bytes);
        assert_eq!(SegmentHeader::decode(&bytes), Ok(header));
        bytes[20] ^= 1;
        assert!(SegmentHeader::decode(&bytes).is_err());
    }

    #[test]
    #[should_panic(expected = "a batch's header of 1 pages in 8192 bytes")]
    fn a_header_that_nobody_could_read_is_not_written() {
        let place = BatchPlace { row: 4, incarnation: 9, index: 2, previous: 11, flushed_row: 4, flushed_index: 1 };
        Batch::encode_into(&mut [0; 2 * PAGE_BYTES], &place, &payload().0);
    }

    /// Gives it this stream number, and the checksum that goes with it.
    fn split(bytes: &[u8], stream_at: usize) -> Vec<u8> {
        let mut split = bytes.to_vec();
        split[stream_at] = 3;
        let checksum = crc32c(&split[16..]);
        split[8..12].copy_from_slice(&checksum.to_le_bytes());
        split
    }

    #[test]
    fn what_is_of_another_stream_is_refused_and_not_taken_for_damage() {
        let (payload, _) = payload();
        let place = BatchPlace { row: 4, incarnation: 9, index: 2, previous: 11, flushed_row: 4, flushed_index: 1 };
        let (mut batch, mut header) = (vec![0; PAGE_BYTES], vec![0; PAGE_BYTES]);
        Batch::encode_into(&mut batch, &place, &payload);
        let segment = SegmentHeader { row: 4, incarnation: 9, position: 1 };
        segment.encode_into(&mut header);
        let summary = SummaryDraft::default().encode(&segment, 0, 12);
        let other = Unreadable::OtherStream(OtherStream(3));
        assert_eq!(Batch::decode(&split(&batch, 62)), Err(other.clone()));
        assert_eq!(SegmentHeader::decode(&split(&header, 36)), Err(other.clone()));
        assert_eq!(Summary::decode(&split(&summary, 52)), Err(other.clone()));
        assert!(other.to_string().contains("needs a newer Hotset"), "{other}");
    }

    #[test]
    fn what_no_start_could_read_is_not_written() {
        let zeroes = |page, count| Entry::Zeroes { attachment: 1, page, version: 1, count };
        assert_refused("an entry of a batch is of 0 pages from 3 on", || Payload::default().push_pages(1, 3, 1, &[]));
        assert_refused("is of 1 pages from 70368744177664 on", || Payload::default().push(&zeroes(PAGES_MAX, 1)));
        Payload::default().push(&zeroes(PAGES_MAX - 1, 1));
    }
}
