//! What a row of the log holds, by its summaries or by what lives in it.

use std::rc::Rc;

use hotset_block::{Buf, Env};

use crate::address::VolumeIndex;
use crate::format::log::{self, Summary};
use crate::log::move_row::{RowPages, positions};
use crate::log::overlay::{Content, PAGES_MAX};
use crate::log::read_log::LogReader;
use crate::log::read_summary::good_summary;
use crate::log::row::Row;
use crate::log::turn::{PAGES_LOOKED_AT, Turn};

impl<E: Env> LogReader<E> {
    /// What the row's batches brought, of volumes that are attached: by its summaries; if no copy of one can be read,
    /// what lives in the row.
    pub(crate) async fn entries_of(&self, row: &Rc<Row>) -> Vec<RowPages> {
        let mut entries = Vec::new();
        for segment in 0..u32::try_from(row.segments.len()).expect("a row has at most 32 segments") {
            let Some(summary) = self.read_summary(row, segment).await.filter(|_| row.life().is_intact()) else {
                return self.living_in(row).await;
            };
            self.list_entries(row, &summary, &mut entries);
        }
        entries
    }

    /// What lives in a row to which nothing comes any more; some of it may be gone when this answers.
    pub(crate) async fn living_in(&self, row: &Row) -> Vec<RowPages> {
        let mut entries = Vec::new();
        let mut turn = Turn::of(PAGES_LOOKED_AT);
        for volume in self.ids.indexes() {
            let mut next = Some(0);
            while let Some(from) = next {
                let looked_at: u64;
                (looked_at, next) = self.list_living(row, volume, from, &mut entries);
                turn.visited(&self.env, looked_at).await;
            }
        }
        entries
    }

    /// Lists what lives in the row among some pages of the volume from this one on. Answers how many they were, and from where on it has
    /// more.
    fn list_living(
        &self,
        row: &Row,
        volume: VolumeIndex,
        from: u64,
        entries: &mut Vec<RowPages>,
    ) -> (u64, Option<u64>) {
        let overlay = self.state.overlay.borrow();
        let mut looked_at = 0;
        for live in overlay.range(volume, from..PAGES_MAX) {
            if looked_at == PAGES_LOOKED_AT {
                return (looked_at, Some(live.page));
            }
            looked_at += 1;
            if live.place.row() == row.slot {
                let data = matches!(live.content, Content::Data { .. });
                let (position, version) = (live.place.position(), row.version_ceiling());
                entries.push(RowPages { volume, page: live.page, count: 1, position, version, data });
            }
        }
        (looked_at, None)
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
