//! One copy of a batch is read, and believed if it is whole.

use std::time::Duration;

use futures_util::future::join_all;
use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::at;
use crate::config::PAGE;
use crate::error::Error;
use crate::format::log::{Batch, Entry};
use crate::format::{Unreadable, crc32c};
use crate::log::read_summary::of_other_stream;
use crate::log::row::Row;
use crate::log::scan::LogScan;
use crate::log::segment_copy::Mirror;
use crate::log::window::Window;
use crate::members::ssd::{Fault, is_gone};

/// Pages of a copy that are read at a time.
const READ_PAGES: u32 = 64;
/// How long a scan asks SSDs again that answer with errors, from the first one on: a link that is reset is up by then. After as long
/// without any it does so again: it takes twice its time at most.
const READ_RETRY_LIMIT: Duration = Duration::from_secs(10);
/// Between two such questions.
const ASK_AGAIN: Duration = Duration::from_secs(1);

impl<E: Env> LogScan<'_, E> {
    /// One copy of the batch at this page, if it is whole: its header and every page. One of another stream is an error: it is no end
    /// of the chain.
    pub(super) async fn read_batch(
        &self,
        row: &Row,
        mirror: Mirror,
        window: &mut Window,
        page: u32,
    ) -> Result<Option<Batch>, Error> {
        match self.read_batch_header(row, mirror, window, page).await {
            Some(Ok(batch)) => Ok(self.with_good_pages(row, mirror, window, page, batch).await),
            Some(Err(other @ Unreadable::OtherStream(_))) => Err(of_other_stream(row, &other)),
            Some(Err(Unreadable::Corrupt(_))) | None => Ok(None),
        }
    }

    /// What decodes at this page, if a header of the row is there.
    pub(super) async fn read_batch_header(
        &self,
        row: &Row,
        mirror: Mirror,
        window: &mut Window,
        page: u32,
    ) -> Option<Result<Batch, Unreadable>> {
        self.read_on(row, mirror, window, page + 1).await?;
        let header_pages = Batch::peek(window.pages(page, 1)?, row.number, row.incarnation)?;
        if header_pages > row.batches_end() - page {
            return None;
        }
        self.read_on(row, mirror, window, page + header_pages).await?;
        Some(Batch::decode(window.pages(page, header_pages)?))
    }

    /// The batch, if its pages have their checksums.
    async fn with_good_pages(
        &self,
        row: &Row,
        mirror: Mirror,
        window: &mut Window,
        page: u32,
        batch: Batch,
    ) -> Option<Batch> {
        let (header_pages, room) = (batch.header_pages, row.batches_end() - page);
        let whole_pages = header_pages.checked_add(batch.data_pages).filter(|pages| *pages <= room)?;
        self.read_on(row, mirror, window, page + whole_pages).await?;
        let data = window.pages(page + header_pages, batch.data_pages)?;
        has_good_pages(&batch.entries, data).then_some(batch)
    }

    /// Reads on in a copy until the window ends at `end` at least; `None` if the SSD does not bring it.
    pub(super) async fn read_on(&self, row: &Row, mirror: Mirror, window: &mut Window, end: u32) -> Option<()> {
        let batches_end = row.batches_end();
        assert!(end <= batches_end, "row {} is read up to page {end}, and batches end at {batches_end}", row.number);
        mirror.present()?;
        while window.end() < end {
            if window.failed {
                return None;
            }
            let from = window.end();
            let count = READ_PAGES.min(row.batches_end() - from);
            self.has_read(at(count) * PAGE_BYTES);
            if let Some(bytes) = self.read_copy(mirror, from, at(count) * PAGE_BYTES).await {
                window.push(&bytes);
                continue;
            }
            // One page cannot be read, perhaps: no batch is believed with zeroes in its place.
            let pages = (from..from + count).map(|page| self.read_page_patiently(mirror, page));
            let pages = join_all(pages).await;
            window.failed = pages.iter().all(Option::is_none);
            for page in pages {
                window.push(page.as_deref().unwrap_or(&[0; PAGE_BYTES]));
            }
        }
        Some(())
    }

    /// What an SSD answers with errors for a moment is no end of the chain: it is asked again, for [`READ_RETRY_LIMIT`].
    async fn read_page_patiently(&self, mirror: Mirror, page: u32) -> Option<Buf> {
        loop {
            match self.ask_for_copy(mirror, page, PAGE_BYTES).await? {
                Ok(bytes) => return Some(bytes),
                Err(Fault::Device(error)) if !is_gone(&error) => {}
                Err(Fault::Device(_) | Fault::Offline) => return None,
            }
            let env = self.ssds.get(mirror.present()?.ssd).env();
            let now = env.now();
            let (since, last) = self.failing.get().unwrap_or((now, now));
            let since = if now.since(last) < READ_RETRY_LIMIT { since } else { now };
            self.failing.set(Some((since, now)));
            if now.since(since) >= READ_RETRY_LIMIT {
                return None;
            }
            env.sleep(ASK_AGAIN).await;
        }
    }

    /// Reads a copy of a segment from this page on; `None` if it is not there, or cannot be read.
    pub(super) async fn read_copy(&self, mirror: Mirror, page: u32, bytes: usize) -> Option<Buf> {
        self.ask_for_copy(mirror, page, bytes).await?.ok()
    }

    /// `None`: it is not there.
    async fn ask_for_copy(&self, mirror: Mirror, page: u32, bytes: usize) -> Option<Result<Buf, Fault>> {
        let copy = mirror.present()?;
        let ssd = self.ssds.get(copy.ssd);
        Some(ssd.read(ssd.layout().segment_offset(copy.segment) + u64::from(page) * PAGE, bytes).await)
    }
}

/// The pages of these entries have their checksums.
pub(super) fn has_good_pages(entries: &[Entry], data: &[u8]) -> bool {
    let checksums = entries.iter().flat_map(|entry| match entry {
        Entry::Pages { checksums, .. } => checksums.as_slice(),
        Entry::Zeroes { .. } | Entry::Lost { .. } | Entry::Cleaned { .. } => &[],
    });
    data.chunks_exact(PAGE_BYTES).zip(checksums).all(|(page, sum)| crc32c(page) == *sum)
}
