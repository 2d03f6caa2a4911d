//! What of a segment can be checked that is copied without its summary: what lives in it, and what the headers of its batches say, each
//! of them from whichever copy has it whole.

use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::at;
use crate::format::crc32c;
use crate::format::log::{Batch, Entry};
use crate::log::mirror::Mirrorer;
use crate::log::overlay::Content;
use crate::log::row::Row;
use crate::log::segment_copy::PresentCopy;

impl<E: Env> Mirrorer<E> {
    /// By page: its checksum, if that is known.
    pub(super) async fn known_checksums(&self, row: &Row, segment: u32) -> Vec<Option<u32>> {
        let mut checksums = vec![None; at(row.segment_pages)];
        for entry in self.reader.living_in(row).await {
            let (segment_of_entry, page) = row.locate(entry.position);
            let live = self.state.overlay.borrow().get(entry.volume, entry.page);
            let live = live.filter(|live| segment_of_entry == segment && live.place == entry.place_of(row, 0));
            if let Some(Content::Data { checksum }) = live.map(|live| live.content) {
                checksums[at(page)] = Some(checksum);
            }
        }
        self.follow_batches(row, segment, &mut checksums).await;
        checksums
    }

    /// Notes the checksums of headers and data of the segment's batches, as far as they follow one another.
    async fn follow_batches(&self, row: &Row, segment: u32, checksums: &mut [Option<u32>]) {
        let (mut page, mut index) = (1, segment);
        while let Some((batch, header)) = self.read_header(row, segment, page, index).await {
            let of_header = header.chunks_exact(PAGE_BYTES).map(crc32c);
            let of_data = batch.entries.iter().flat_map(|entry| match entry {
                Entry::Pages { checksums, .. } => checksums.as_slice(),
                Entry::Zeroes { .. } | Entry::Lost { .. } | Entry::Cleaned { .. } => &[],
            });
            for checksum in of_header.chain(of_data.copied()) {
                checksums[at(page)] = Some(checksum);
                page += 1;
            }
            index += u32::try_from(row.segments.len()).expect("a row has at most 32 segments");
        }
    }

    /// The batch with this index of the row, which begins at this page, and the bytes of its header.
    async fn read_header(&self, row: &Row, segment: u32, page: u32, index: u32) -> Option<(Batch, Buf)> {
        for (_, mirror) in row.copies_one_by_one(segment) {
            let Some(header) = self.read_header_of(row, mirror, page).await else { continue };
            let fits = |batch: &Batch| {
                let pages = batch.header_pages.checked_add(batch.data_pages);
                batch.place.index == index && pages.is_some_and(|pages| pages <= row.batches_end() - page)
            };
            if let Some(batch) = Batch::decode(&header).ok().filter(fits) {
                return Some((batch, header));
            }
        }
        None
    }

    /// What this copy has there, if it looks like the header of a batch of the row.
    async fn read_header_of(&self, row: &Row, mirror: PresentCopy, page: u32) -> Option<Buf> {
        if page >= row.batches_end() {
            return None;
        }
        let first = self.read_copy(mirror, page, PAGE_BYTES).await.ok()?;
        match Batch::peek(&first, row.number, row.incarnation)? {
            1 => Some(first),
            pages if pages <= row.batches_end() - page => {
                self.read_copy(mirror, page, at(pages) * PAGE_BYTES).await.ok()
            }
            _ => None,
        }
    }
}
