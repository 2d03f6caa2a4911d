//! What a row of the log holds, by its summaries or by what lives in it.

use std::rc::Rc;

use hotset_block::{Buf, Env};

use crate::format::log::{self, Summary};
use crate::log::move_row::{RowPages, positions};
use crate::log::overlay::{Content, PAGES_MAX};
use crate::log::read_log::LogReader;
use crate::log::read_summary::good_summary;
use crate::log::row::Row;

impl<E: Env> LogReader<E> {
    /// What the row's batches brought, of volumes that are attached: by its summaries; if no copy of one can be read,
    /// what lives in the row.
    pub(crate) async fn entries_of(&self, row: &Rc<Row>) -> Vec<RowPages> {
        let mut entries = Vec::new();
        for segment in 0..u32::try_from(row.segments.len()).expect("a row has at most 32 segments") {
            let Some(summary) = self.read_summary(row, segment).await.filter(|_| row.life().is_intact()) else {
                return self.living_in(row);
            };
            self.list_entries(row, &summary, &mut entries);
        }
        entries
    }

    pub(crate) fn living_in(&self, row: &Row) -> Vec<RowPages> {
        let overlay = self.state.overlay.borrow();
        let mut entries = Vec::new();
        for volume in self.ids.indexes() {
            for live in overlay.range(volume, 0..PAGES_MAX).filter(|live| live.place.row() == row.slot) {
                let data = matches!(live.content, Content::Data { .. });
                let (position, version) = (live.place.position(), row.version_ceiling());
                entries.push(RowPages { volume, page: live.page, count: 1, position, version, data });
            }
        }
        entries
    }

    fn list_entries(&self, row: &Row, summary: &Summary, entries: &mut Vec<RowPages>) {
        let base = summary.header.position * row.segment_pages;
        for batch in &summary.batches {
            let mut position = base + batch.first_page + batch.header_pages;
            for entry in &batch.entries {
                let (attachment, page, version, count, data) = match entry {
                    log::Entry::Pages { attachment, page, version, checksums } => {
                        let count = u32::try_from(checksums.len()).expect("a 16-bit count");
                        (*attachment, *page, *version, count, true)
                    }
                    log::Entry::Zeroes { attachment, page, version, count }
                    | log::Entry::Lost { attachment, page, version, count } => {
                        (*attachment, *page, *version, *count, false)
                    }
                    log::Entry::Cleaned { .. } => continue,
                };
                let own = if data { position } else { base + batch.first_page };
                if data {
                    position += count;
                }
                // What is dead here stays so.
                if !row.may_live_at(positions(own, count, data)) {
                    continue;
                }
                if let Some(volume) = self.ids.index_of(attachment) {
                    entries.push(RowPages { volume, page, count, position: own, version, data });
                }
            }
        }
    }

    /// The summary of one of the row's segments, from whichever copy is good.
    pub(crate) async fn read_summary(&self, row: &Row, segment: u32) -> Option<Summary> {
        self.good_summary(row, segment).await.map(|(summary, _)| summary)
    }

    /// The same summary, and its bytes. No row of a pool that is open is of another stream: its start looked.
    pub(crate) async fn good_summary(&self, row: &Row, segment: u32) -> Option<(Summary, Buf)> {
        good_summary(self.members.to_read(), row, segment).await.ok().flatten()
    }
}
