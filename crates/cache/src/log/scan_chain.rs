//! A row of the write log is followed batch by batch to its end, and that end is judged: cut in the middle of what was being written, or
//! broken where something was flushed.

use std::rc::Rc;

use futures_util::future::{join_all, try_join_all};
use hotset_block::{Env, PAGE_BYTES};

use crate::address::at;
use crate::error::Error;
use crate::format::Unreadable;
use crate::format::log::{Batch, Payload, SegmentHeader};
use crate::log::gathered::Gathered;
use crate::log::read_summary::{good_summary, of_other_stream};
use crate::log::row::Row;
use crate::log::row_life::RowChange;
use crate::log::scan::{LogScan, RecordedRow};
use crate::log::segment_copy::{Mirror, MirrorCell};
use crate::log::stream::StreamMark;
use crate::log::window::Window;

/// For each segment of a row, what was read of its copies.
type Windows = Vec<[Window; 2]>;

/// What lies in a row behind the end of its chain.
#[derive(Default)]
struct Behind {
    flushed: StreamMark,
    /// Batches of the row that do not follow the chain, on all copies together.
    batches: u32,
}

impl Behind {
    fn add(&mut self, batch: &Batch, row: &Row) {
        let mark = StreamMark { row: batch.place.flushed_row, index: batch.place.flushed_index };
        self.flushed = self.flushed.max(mark);
        self.batches += u32::from(batch.place.index >= row.batches());
    }
}

impl<E: Env> LogScan<'_, E> {
    /// Follows the chain of batches of a row to its end.
    pub(super) async fn walk_row(
        &self,
        row: &Rc<Row>,
        recorded: RecordedRow,
        gathered: &mut Gathered,
    ) -> Result<(), Error> {
        let mut windows: Windows = row.segments.iter().map(|_| [Window::new(), Window::new()]).collect();
        while let Some((batch, first_page)) = self.next_of_chain(row, &mut windows, gathered.previous).await? {
            let segment = row.next_segment();
            let position = row.position(segment, first_page);
            gathered.gather(row, position, batch.header_pages, &batch.entries);
            let mark = StreamMark { row: batch.place.flushed_row, index: batch.place.flushed_index };
            gathered.flushed = gathered.flushed.max(mark);
            gathered.previous = Some(batch.checksum);
            let mut payload = Payload::default();
            batch.entries.iter().for_each(|entry| payload.push(entry));
            row.found_batch(batch.header_pages + batch.data_pages, &payload);
        }
        // Of an empty row, the one before it.
        if !row.fits_summaries() {
            row.change(RowChange::Broke);
        }
        row.ends_with(gathered.previous.unwrap_or(0));
        let cut = StreamMark { row: row.number, index: row.batches() };
        gathered.cuts.push(cut);
        let behind = self.behind(row, windows).await?;
        gathered.flushed = gathered.flushed.max(behind.flushed);
        // Of a sealed row every batch was flushed; of another one, what a later batch says.
        let broken = (recorded.sealed && behind.batches > 0)
            || (behind.flushed.row == cut.row && behind.flushed.index > cut.index);
        // Its headers were durable before it took a batch: what lies here is from before that.
        let segment = row.next_segment();
        let is_empty = row.next_place().first_page == 1;
        let old = !recorded.newest && is_empty && !self.has_durable_headers(row, segment).await;
        if broken || old {
            self.check_loss(cut)?;
            gathered.previous = None;
        } else if recorded.sealed && row.room() >= 2 {
            // Its summary said where it ends.
            gathered.unproven = Some(cut);
        }
        Ok(())
    }

    /// A copy of this segment has the row's own header.
    async fn has_durable_headers(&self, row: &Row, segment: u32) -> bool {
        let reads = row.segments[at(segment)].iter().map(async |mirror| {
            let page = self.read_copy(mirror.get(), 0, PAGE_BYTES).await;
            page.is_some_and(|page| SegmentHeader::decode(&page) == Ok(row.header(segment)))
        });
        join_all(reads).await.contains(&true)
    }

    /// The row before this one was walked to its end, although it is sealed: this one has to begin where that one ends.
    pub(super) async fn verify_end(
        &self,
        row: &Rc<Row>,
        cut: StreamMark,
        gathered: &mut Gathered,
    ) -> Result<(), Error> {
        let before = self.before(row).await?;
        if before.is_none() || before != gathered.previous {
            self.check_loss(cut)?;
            gathered.previous = None;
        }
        Ok(())
    }

    /// The checksum of the batch before this row, as the row itself says, if it can be read.
    async fn before(&self, row: &Row) -> Result<Option<u32>, Error> {
        let summary = good_summary(self.ssds, row, 0).await?.map(|(summary, _)| summary);
        if let Some(summary) = summary.filter(|summary| summary.row_batches == 0) {
            return Ok(Some(summary.last_checksum));
        }
        let reads = row.segments[0].iter().map(async |mirror| {
            let first = self.read_batch(row, mirror.get(), &mut Window::new(), 1).await?;
            Ok(first.filter(|first| first.place.index == 0).map(|first| first.place.previous))
        });
        Ok(try_join_all(reads).await?.into_iter().flatten().next())
    }

    /// The next batch of the chain and the page at which it begins, from whichever copy is whole; the other is to
    /// be brought into line.
    async fn next_of_chain(
        &self,
        row: &Rc<Row>,
        windows: &mut Windows,
        previous: Option<u32>,
    ) -> Result<Option<(Batch, u32)>, Error> {
        let segment = row.next_segment();
        let first_page = row.next_place().first_page;
        if row.room() < 2 {
            return Ok(None);
        }
        let mirrors = row.segments[at(segment)].each_ref().map(MirrorCell::get);
        let windows = &mut windows[at(segment)];
        let reads = mirrors.iter().zip(windows.iter_mut());
        let reads = reads.map(|(mirror, window)| self.read_batch(row, *mirror, window, first_page));
        let copies: Vec<Option<Batch>> = try_join_all(reads).await?;
        let expected = |batch: &Batch| {
            batch.place.index == row.batches() && previous.is_none_or(|previous| batch.place.previous == previous)
        };
        let good = copies.iter().position(|copy| copy.as_ref().is_some_and(expected));
        let Some((good, batch)) = good.and_then(|good| Some((good, copies[good].clone()?))) else { return Ok(None) };
        let pages = batch.header_pages + batch.data_pages;
        self.note_repairs(&mirrors, &copies, good, windows, first_page);
        windows.iter_mut().for_each(|window| window.advance(first_page + pages));
        Ok(Some((batch, first_page)))
    }

    /// What lies behind the end of the chain: if a batch there says that more was flushed than the chain has, it did not
    /// end, it was broken.
    async fn behind(&self, row: &Row, windows: Windows) -> Result<Behind, Error> {
        let mut behind = Behind::default();
        for (pair, windows) in row.segments.iter().zip(windows) {
            for (mirror, window) in pair.iter().zip(windows) {
                self.look_behind(row, mirror.get(), window, &mut behind).await?;
            }
        }
        Ok(behind)
    }

    async fn look_behind(
        &self,
        row: &Row,
        mirror: Mirror,
        mut window: Window,
        behind: &mut Behind,
    ) -> Result<(), Error> {
        let mut page = window.wanted;
        while page < row.batches_end() && self.read_on(row, mirror, &mut window, page + 1).await.is_some() {
            match self.read_batch_header(row, mirror, &mut window, page).await {
                Some(Ok(batch)) => behind.add(&batch, row),
                Some(Err(other @ Unreadable::OtherStream(_))) => return Err(of_other_stream(row, &other)),
                Some(Err(Unreadable::Corrupt(_))) | None => {}
            }
            page += 1;
            window.advance(page);
        }
        Ok(())
    }
}
