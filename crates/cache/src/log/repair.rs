//! What a scan of the write log found is brought into line: batches that are whole on one copy only are written to the other, rows
//! that were followed batch by batch get their headers and summaries, all flushed. A crash in the middle of this changes nothing: the
//! next scan finds what is still to be done.

use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::at;
use crate::error::{Error, ErrorKind};
use crate::format::log::Batch;
use crate::log::Log;
use crate::log::row::Row;
use crate::log::scan::{Repair, Scanned};
use crate::log::scan_batch::has_good_pages;
use crate::members::ssd::Fault;

impl<E: Env> Log<E> {
    pub(crate) async fn repair_log(&self, scanned: &Scanned) -> Result<(), Error> {
        for repair in &scanned.repairs {
            self.repair_batch(repair).await?;
        }
        for row in &scanned.walked {
            self.repair_headers(row).await;
            if row.life().is_intact() {
                self.segments.write_summaries(row).await;
            }
        }
        Ok(())
    }

    /// Writes a batch to the copy that lacks it, as the scan believed it.
    async fn repair_batch(&self, repair: &Repair) -> Result<(), Error> {
        let again: Buf;
        let bytes: &[u8] = match &repair.bytes {
            Some(bytes) => bytes,
            None => {
                again = self.read_again(repair).await?;
                &again
            }
        };
        if !self.segments.write_copy(repair.purpose, repair.to, repair.page, bytes).await {
            // The SSD that has the whole may leave before the one that lacks it: it takes the last copy with it.
            self.state.commit_other_copy(repair.to);
        }
        Ok(())
    }

    /// A batch that was not kept. Without it this start believes what nobody can read: the next one follows the log as far as
    /// it can be read then.
    async fn read_again(&self, repair: &Repair) -> Result<Buf, Error> {
        let ssd = self.members.ssd(repair.from.ssd);
        let bytes = at(repair.header_pages + repair.data_pages) * PAGE_BYTES;
        let read = ssd.read(self.segments.log_offset(repair.from, repair.page), self.env.buffers().take(bytes)).await;
        match read {
            Ok(bytes) if is_same(repair, &bytes) => return Ok(bytes),
            Ok(_) | Err(Fault::Offline) => self.reader.log_read_failed(ssd, None),
            Err(Fault::Device(error)) => self.reader.log_read_failed(ssd, Some(&error)),
        }
        let message = format!(
            "pool {}: SSD {} alone has a part of the write log, and did not bring it a second time: open the pool again",
            self.pool_name, ssd.path
        );
        Err(Error::new(ErrorKind::Gone, message))
    }

    /// Segment headers of a row that may have been cut while it was opened. Not before the row is believed: without its
    /// own header, an old copy looks like one.
    async fn repair_headers(&self, row: &Row) {
        for (position, pair) in (0..).zip(&row.segments) {
            let mut page = self.env.buffers().take(PAGE_BYTES);
            row.header(position).encode_into(&mut page);
            for mirror in pair.iter().filter_map(|mirror| mirror.get().present()) {
                self.segments.write_copy(row.purpose(), mirror, 0, &page).await;
            }
        }
    }
}

/// These bytes are the batch that the scan believed.
fn is_same(repair: &Repair, bytes: &[u8]) -> bool {
    let (header, data) = bytes.split_at(at(repair.header_pages) * PAGE_BYTES);
    let batch = Batch::decode(header);
    batch.is_ok_and(|batch| batch.checksum == repair.checksum && has_good_pages(&batch.entries, data))
}
