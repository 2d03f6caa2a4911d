//! The oldest row is emptied and freed (rule `free-oldest-first`): its dirty pages go to the head of the log, with the
//! versions that they have; clean ones are dropped.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use hotset_block::sync::Promised;
use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::VolumeIndex;
use crate::error::Error;
use crate::format::log::{self, Summary};
use crate::log::Log;
use crate::log::overlay::{Content, Live, PAGES_MAX, Place};
use crate::log::queue::Body;
use crate::log::read_log::LogRun;
use crate::log::read_summary::good_summary;
use crate::log::row::Row;
use crate::time_limit::within;

/// Pages that are moved in one piece.
const MOVE_PAGES: u64 = 16;
/// Pieces on their way while more are read.
const MOVES_IN_FLIGHT: usize = 64;
/// Pages of a row that are read at once, dead ones between those that are moved included.
const STRETCH_PAGES: u32 = 64;
/// So many dead pages on end are not read with the others: an SSD takes as long for them as for one request more.
const GAP_PAGES: u32 = 8;
/// How often the task looks by itself.
const INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// Pages that a row's batches brought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowPages {
    pub(crate) volume: VolumeIndex,
    pub(crate) page: u64,
    pub(crate) count: u32,
    pub(crate) position: u32,
    pub(crate) version: u64,
    /// Each page has a position of its own.
    pub(crate) data: bool,
}

impl RowPages {
    fn positions(&self) -> Range<u32> {
        positions(self.position, self.count, self.data)
    }

    pub(crate) fn place_of(&self, row: &Row, offset: u32) -> Place {
        Place::new(row.slot, self.position).at(offset, self.data)
    }
}

/// Where `count` pages lie from `position` on: each at one of its own, or all there.
fn positions(position: u32, count: u32, data: bool) -> Range<u32> {
    position..position + if data { count } else { 1 }
}

/// Runs of data that lie close together in a segment, in order, with their versions; or a single one of any kind.
#[derive(Default)]
struct Stretch {
    runs: Vec<(u64, LogRun)>,
}

impl Stretch {
    fn goes_on_with(&self, run: &LogRun) -> bool {
        let Some((_, first)) = self.runs.first() else { return true };
        let is_data = |run: &LogRun| matches!(run.first.content, Content::Data { .. });
        let (own, new) = (first.positions().start, run.positions());
        let row = run.row();
        is_data(first)
            && is_data(run)
            && Rc::ptr_eq(first.row(), row)
            && row.locate(own).0 == row.locate(new.start).0
            && self
                .runs
                .last()
                .is_some_and(|(_, last)| (last.positions().end..last.positions().end + GAP_PAGES).contains(&new.start))
            && new.end - own <= STRETCH_PAGES
    }
}

/// Moves that wait for their place in the log.
#[derive(Default)]
struct Moves(VecDeque<Promised<Result<(), Error>>>);

impl Moves {
    /// Waits until only so many are left; after one that failed, until none is.
    async fn wait_until_left(&mut self, left: usize) -> Result<(), Error> {
        let mut outcome = Ok(());
        while self.0.len() > if outcome.is_ok() { left } else { 0 } {
            let oldest = self.0.pop_front().expect("there are more");
            // One that is given up comes again.
            outcome = outcome.and(oldest.await.unwrap_or(Ok(())));
        }
        outcome
    }
}

impl<E: Env> Log<E> {
    /// The task that frees rows while there are more than needed.
    pub(crate) async fn run_mover(self: Rc<Self>) {
        while !self.life.is_ending_log() {
            let wanted = self.signals.mover_wanted.wait();
            while self.is_long() && !self.life.is_ending_log() {
                match self.move_oldest().await {
                    Ok(true) => {}
                    Ok(false) | Err(_) => break,
                }
            }
            // What cannot be done now has its turn again.
            let _ = self.tend_set_aside().await;
            within(&self.env, INTERVAL, wanted).await;
        }
        self.state.mover_ended.set(true);
        self.signals.room.wake_all();
    }

    /// Empties and frees the oldest row; false if that has to wait.
    async fn move_oldest(&self) -> Result<bool, Error> {
        let Some(row) = self.state.oldest() else { return Ok(false) };
        if !row.life().has_ended() {
            return Ok(false);
        }
        // Nothing comes to life in a row that is sealed.
        let entries = if row.live() == 0 { Vec::new() } else { self.entries_of(&row).await };
        loop {
            let before = row.dirty();
            if before == 0 {
                break;
            }
            self.move_some(&row, &entries).await?;
            if row.dirty() == before || self.life.is_ending_log() {
                // Somebody is just writing those pages, or there is no room: the next turn will find them elsewhere.
                return Ok(false);
            }
        }
        self.free_oldest(&row, &entries).await?;
        Ok(true)
    }

    /// Moves what is dirty in the row, a bounded number of pages at a time.
    pub(super) async fn move_some(&self, row: &Row, entries: &[RowPages]) -> Result<(), Error> {
        let (mut stretch, mut moves) = (Stretch::default(), Moves::default());
        for entry in entries {
            if !row.may_live_at(entry.positions()) {
                continue;
            }
            let pages = entry.page..entry.page + u64::from(entry.count);
            // Of an older entry of the same row the page is not: it would be moved with a version that is too low.
            let here = |live: &Live| {
                let offset = u32::try_from(live.page - entry.page).expect("an entry is short");
                live.dirty && !live.is_unavailable() && live.place == entry.place_of(row, offset)
            };
            let mut start = pages.start;
            while start < pages.end && row.live() > 0 {
                let end = pages.end.min(start + MOVE_PAGES);
                for run in self.state.runs(entry.volume, start..end, here) {
                    if !stretch.goes_on_with(&run) {
                        self.move_stretch(std::mem::take(&mut stretch), &mut moves).await;
                        moves.wait_until_left(MOVES_IN_FLIGHT).await?;
                    }
                    stretch.runs.push((entry.version, run));
                }
                start = end;
            }
        }
        self.move_stretch(stretch, &mut moves).await;
        moves.wait_until_left(0).await
    }

    /// Reads what lies close together at once.
    async fn move_stretch(&self, stretch: Stretch, moves: &mut Moves) {
        let mut rest = None;
        if let [(_, first), .., (_, last)] = &stretch.runs[..] {
            let positions = first.positions().start..last.positions().end;
            let bytes = self.read_stretch(first.row(), positions.clone()).await;
            rest = bytes.map(|bytes| (positions.start, bytes));
        }
        for (version, run) in stretch.runs {
            let mut data = None;
            if let Some((start, bytes)) = rest.take() {
                let at = |position: u32| usize::try_from(position - start).expect("a stretch is short") * PAGE_BYTES;
                let positions = run.positions();
                let (before, behind) = bytes.split_at(at(positions.end));
                rest = Some((positions.end, behind));
                data = Some(before.narrow(at(positions.start), run.bytes())).filter(|data| run.is(data));
            }
            match data {
                Some(data) => self.submit_move(&run, Body::Move { data, from: run.first.place, version }, moves),
                None => self.move_run(version, &run, moves).await,
            }
        }
    }

    async fn move_run(&self, version: u64, run: &LogRun, moves: &mut Moves) {
        let (from, count) = (run.first.place, run.pages.end - run.pages.start);
        let mark = |content, spread| Body::Mark { content, from, spread, version, count };
        let body = match run.first.content {
            Content::Zeroes | Content::Lost | Content::Unavailable { .. } => mark(run.first.content, false),
            Content::Data { .. } => {
                let buf = self.env.buffers().take(run.bytes());
                match self.read_run(run, buf).await {
                    Some(data) => Body::Move { data, from, version },
                    // Page by page, what can be read is moved, and the rest is lost, or waits for an SSD.
                    None => return self.move_pages(version, run, moves).await,
                }
            }
        };
        self.submit_move(run, body, moves);
    }

    async fn move_pages(&self, version: u64, run: &LogRun, moves: &mut Moves) {
        for page in run.pages.clone() {
            for single in self.state.runs(run.first.volume, page..page + 1, |live| live.dirty) {
                let from = single.first.place;
                let buf = self.env.buffers().take(single.bytes());
                let body = match self.read_run(&single, buf).await {
                    Some(data) => Body::Move { data, from, version },
                    None if self.is_set_aside(&single.first) => continue,
                    None => Body::Mark { content: Content::Lost, from, spread: true, version, count: 1 },
                };
                self.submit_move(&single, body, moves);
            }
        }
    }

    fn submit_move(&self, run: &LogRun, body: Body, moves: &mut Moves) {
        let volume = run.first.volume;
        if let Some(attachment) = self.ids.of(volume) {
            moves.0.push_back(self.submit_for(volume, attachment, run.pages.start, body));
        }
    }

    /// What the row's batches brought, of volumes that are attached: by its summaries; if no copy of one can be read,
    /// what lives in the row.
    pub(crate) async fn entries_of(&self, row: &Rc<Row>) -> Vec<RowPages> {
        let mut entries = Vec::new();
        for segment in 0..u32::try_from(row.segments.len()).expect("segments of a row are bounded") {
            let Some(summary) = self.read_summary(row, segment).await.filter(|_| row.life().is_whole()) else {
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
