//! The oldest row is emptied and freed (rule `free-oldest-first`): its dirty pages go to the head of the log, with the
//! versions that they have; clean ones go back to the slots of their blocks, or are dropped.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use hotset_block::sync::Promised;
use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::VolumeIndex;
use crate::attachment_ids::AttachmentIds;
use crate::clean::Clean;
use crate::clean::reinsert::Vacancy;
use crate::config::PAGE;
use crate::error::Error;
use crate::log::append::Appends;
use crate::log::data_loss::DataLoss;
use crate::log::log_segments::LogSegments;
use crate::log::mirror::Mirrorer;
use crate::log::overlay::{Content, LivePage, Place};
use crate::log::queue::Body;
use crate::log::read_log::{LogReader, Unread};
use crate::log::row::Row;
use crate::log::rows::RowKeeper;
use crate::log::run::LogRun;
use crate::log::shared::Shared;
use crate::log::signals::Signals;
use crate::log::turn::{PAGES_CHANGED, Turn};
use crate::log::write_log::WriteLog;
use crate::members::pool_life::PoolLife;
use crate::time_limit::within;

/// Pages that are moved in one piece.
const MOVE_PAGES: u64 = 16;
/// Pieces on their way while more are read.
const MOVES_IN_FLIGHT: usize = 64;
/// Pages of a row that are read at once, dead ones between those that are moved included.
const STRETCH_PAGES: u32 = 64;
/// So many dead pages on end are not read with the others: an SSD takes as long for them as for one request more.
const GAP_PAGES: u32 = 8;
/// Stretches of pages that go back to their slots, at once.
const REINSERTS_AT_ONCE: usize = 8;
/// Entries of a row that are looked at, or made visible, in one turn.
const REINSERTS_A_TURN: usize = 128;
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
pub(super) fn positions(position: u32, count: u32, data: bool) -> Range<u32> {
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

/// Clean pages of a row that were written to the slot of their block, too.
struct Reinserted {
    run: LogRun,
    vacancy: Vacancy,
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
            // One that is cancelled comes again.
            outcome = outcome.and(oldest.await.unwrap_or(Ok(())));
        }
        outcome
    }
}

/// Who empties rows and frees them.
pub(crate) struct Mover<E: Env> {
    env: E,
    life: Rc<PoolLife>,
    clean: Rc<Clean<E>>,
    ids: Rc<AttachmentIds>,
    state: Rc<WriteLog>,
    signals: Rc<Signals>,
    segments: Rc<LogSegments<E>>,
    appends: Rc<Appends<E>>,
    rows: Rc<RowKeeper<E>>,
    reader: Rc<LogReader<E>>,
    data_loss: Rc<DataLoss<E>>,
    mirrorer: Rc<Mirrorer<E>>,
}

impl<E: Env> Mover<E> {
    pub(super) fn new(
        shared: &Shared<E>,
        segments: &Rc<LogSegments<E>>,
        appends: &Rc<Appends<E>>,
        rows: &Rc<RowKeeper<E>>,
        reader: &Rc<LogReader<E>>,
        data_loss: &Rc<DataLoss<E>>,
        mirrorer: &Rc<Mirrorer<E>>,
    ) -> Self {
        Self {
            env: shared.env.clone(),
            life: Rc::clone(&shared.life),
            clean: Rc::clone(&shared.clean),
            ids: Rc::clone(&shared.ids),
            state: Rc::clone(&shared.state),
            signals: Rc::clone(&shared.signals),
            segments: Rc::clone(segments),
            appends: Rc::clone(appends),
            rows: Rc::clone(rows),
            reader: Rc::clone(reader),
            data_loss: Rc::clone(data_loss),
            mirrorer: Rc::clone(mirrorer),
        }
    }

    /// The task that frees rows while there are more than needed.
    pub(crate) async fn run_mover(self: Rc<Self>) {
        while !self.life.is_ending_log() {
            let wanted = self.signals.mover_wanted.wait();
            while self.state.is_long() && !self.life.is_ending_log() {
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
        let entries = if row.live() == 0 { Vec::new() } else { self.reader.entries_of(&row).await };
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
    pub(crate) async fn move_some(&self, row: &Row, entries: &[RowPages]) -> Result<(), Error> {
        let (mut stretch, mut moves) = (Stretch::default(), Moves::default());
        let mut turn = Turn::of(PAGES_CHANGED);
        for entry in entries {
            turn.visited(&self.env, 1).await;
            if !row.may_live_at(entry.positions()) {
                continue;
            }
            let pages = entry.page..entry.page + u64::from(entry.count);
            // Of an older entry of the same row the page is not: it would be moved with a version that is too low.
            let here = |live: &LivePage| {
                let offset = u32::try_from(live.page - entry.page).expect("an entry has fewer than 2^32 pages");
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
                turn.visited(&self.env, end - start).await;
                start = end;
            }
        }
        self.move_stretch(stretch, &mut moves).await;
        moves.wait_until_left(0).await
    }

    async fn move_stretch(&self, stretch: Stretch, moves: &mut Moves) {
        let read = self.read_together(&stretch).await;
        for ((version, run), data) in stretch.runs.into_iter().zip(read) {
            match data {
                Some(data) => self.submit_move(&run, Body::Move { data, from: run.first.place, version }, moves),
                None => self.move_run(version, &run, moves).await,
            }
        }
    }

    /// Reads what lies close together at once: run by run, and none of what has to be read by itself.
    async fn read_together(&self, stretch: &Stretch) -> Vec<Option<Buf>> {
        let mut rest = None;
        if let [(_, first), .., (_, last)] = &stretch.runs[..] {
            let positions = first.positions().start..last.positions().end;
            let bytes = self.reader.read_stretch(first.row(), positions.clone()).await;
            rest = bytes.map(|bytes| (positions.start, bytes));
        }
        let mut read = Vec::new();
        for (_, run) in &stretch.runs {
            let mut data = None;
            if let Some((start, bytes)) = rest.take() {
                let at = |position: u32| {
                    usize::try_from(position - start).expect("an address has 64 bits at most") * PAGE_BYTES
                };
                let positions = run.positions();
                let (before, behind) = bytes.split_at(at(positions.end));
                rest = Some((positions.end, behind));
                data = Some(before.narrow(at(positions.start), run.bytes())).filter(|data| run.is(data));
            }
            read.push(data);
        }
        read
    }

    async fn move_run(&self, version: u64, run: &LogRun, moves: &mut Moves) {
        let (from, count) = (run.first.place, run.pages.end - run.pages.start);
        let mark = |content, spread| Body::Mark { content, from, spread, version, count };
        let body = match run.first.content {
            Content::Zeroes | Content::Lost | Content::Unavailable { .. } => mark(run.first.content, false),
            Content::Data { .. } => {
                let buf = self.env.buffers().take(run.bytes());
                match self.reader.read_run(run, buf).await {
                    Some(data) => Body::Move { data, from, version },
                    // Page by page, what can be read is moved, and the rest is lost, or waits for an SSD.
                    None => return self.move_pages(version, run, moves).await,
                }
            }
        };
        self.submit_move(run, body, moves);
    }

    async fn move_pages(&self, version: u64, run: &LogRun, moves: &mut Moves) {
        for (page, offset) in run.pages.clone().zip(0..) {
            // What a host wrote meanwhile is newer, and in a row that comes later.
            let from = run.first.place.at(offset, true);
            let is_same = |live: &LivePage| live.dirty && live.place == from;
            for single in self.state.runs(run.first.volume, page..page + 1, is_same) {
                let body = match self.reader.read_or_expire(&single).await {
                    Ok(data) => Body::Move { data, from, version },
                    // It stays where it is.
                    Err(Unread::Failing) => continue,
                    Err(Unread::Lost) if self.data_loss.is_set_aside(&single.first) => continue,
                    Err(Unread::Lost) => Body::Mark { content: Content::Lost, from, spread: true, version, count: 1 },
                };
                self.submit_move(&single, body, moves);
            }
        }
    }

    fn submit_move(&self, run: &LogRun, body: Body, moves: &mut Moves) {
        let volume = run.first.volume;
        if let Some(attachment) = self.ids.of(volume) {
            moves.0.push_back(self.appends.submit_for(volume, attachment, run.pages.start, body));
        }
    }

    // ---- clean pages go back to the slots of their blocks

    /// Writes the clean pages of a row to the slots of their blocks, as far as those have places for them. The slot indexes know that
    /// they have no such pages.
    async fn write_vacancies(&self, row: &Row, entries: &[RowPages]) -> Vec<Reinserted> {
        // Whoever waits for this row waits for nothing else.
        let may = self.clean.vacancies().are_used() && self.mirrorer.may_cache_writes() && !self.state.is_out_of_rows();
        if row.live() == 0 || !may || self.life.is_ending_log() {
            return Vec::new();
        }
        let stretches = self.vacancies_of(row, entries).await;
        if stretches.is_empty() || !self.clean.vacancies().reads_have_ended().await {
            return Vec::new();
        }
        let written = stretches.into_iter().map(|stretch| self.write_stretch_back(stretch));
        stream::iter(written).buffer_unordered(REINSERTS_AT_ONCE).concat().await
    }

    /// What of a row has a place in the slot of its block.
    async fn vacancies_of(&self, row: &Row, entries: &[RowPages]) -> Vec<Stretch> {
        let mut stretches: Vec<Stretch> = Vec::new();
        let entries = entries.iter().filter(|entry| entry.data && row.may_live_at(entry.positions()));
        for (turn, entry) in entries.enumerate() {
            if turn % REINSERTS_A_TURN == REINSERTS_A_TURN - 1 {
                self.env.sleep(std::time::Duration::ZERO).await;
            }
            let is_wanted = |live: &LivePage| {
                let offset = u32::try_from(live.page - entry.page).expect("an entry has fewer than 2^32 pages");
                let is_here = live.place == entry.place_of(row, offset) && matches!(live.content, Content::Data { .. });
                is_here && !live.dirty && self.clean.vacancies().of(entry.volume, &(live.page..live.page + 1)).is_some()
            };
            let (mut start, end) = (entry.page, entry.page + u64::from(entry.count));
            while start < end {
                let next = end.min(start + MOVE_PAGES).min(self.clean.vacancies().end_of_block(start));
                for run in self.state.runs(entry.volume, start..next, is_wanted) {
                    match stretches.last_mut().filter(|stretch| stretch.goes_on_with(&run)) {
                        Some(stretch) => stretch.runs.push((entry.version, run)),
                        None => stretches.push(Stretch { runs: vec![(entry.version, run)] }),
                    }
                }
                start = next;
            }
        }
        stretches
    }

    /// Answers what was written.
    async fn write_stretch_back(&self, stretch: Stretch) -> Vec<Reinserted> {
        let read = self.read_together(&stretch).await;
        let written = stretch.runs.into_iter().zip(read).map(async |((_, run), data)| {
            let data = match data {
                Some(data) => data,
                None => self.reader.read_run(&run, self.env.buffers().take(run.bytes())).await?,
            };
            let vacancy = self.clean.vacancies().of(run.first.volume, &run.pages)?;
            self.clean.vacancies().write(&vacancy, data).await.then_some(Reinserted { run, vacancy })
        });
        join_all(written).await.into_iter().flatten().collect()
    }

    /// The log forgets these pages, if they are still the newest, and their slots have them.
    fn reinsert(&self, written: &Reinserted) {
        let Reinserted { run, vacancy } = written;
        let volume = run.first.volume;
        for (((page, place), checksum), offset) in run.places().zip(&run.checksums).zip(0..) {
            let is_newest = self.state.overlay.borrow().get(volume, page).is_some_and(|live| live.place == place);
            if is_newest {
                self.state.remove_at(volume, page, place);
                let is_back = self.clean.vacancies().reinsert(&vacancy.one(offset), std::slice::from_ref(checksum));
                self.state.tallies.count_reinserted(volume, if is_back { PAGE } else { 0 });
            }
        }
    }

    /// Frees the oldest row, in which nothing is dirty any more. What supersedes its pages is flushed, the slot indexes
    /// know, and the row's end is recorded; only then are its pages forgotten and its segments used again.
    pub(crate) async fn free_oldest(
        &self,
        row: &Rc<Row>,
        pages: &[crate::log::move_row::RowPages],
    ) -> Result<(), Error> {
        self.rows.flush().await?;
        self.clean.index().wait_durable(self.clean.index().last_tickets()).await?;
        self.rows.until_no_orphans().await;
        // It may name what this row supersedes, or lack what was here.
        self.data_loss.bring_list_up_to_date().await?;
        let reinserted = self.write_vacancies(row, pages).await;
        self.life.check_open()?;
        // Without any SSD, rows may be forgotten that are not even sealed: they stay so.
        let is_oldest = self.state.oldest().is_some_and(|oldest| Rc::ptr_eq(&oldest, row));
        assert!(is_oldest, "row {} is declared free, and is not the oldest", row.number);
        assert_eq!(row.dirty(), 0, "row {} is declared free, and something of it is dirty", row.number);
        let freed = self.state.numbers.declare_free(row.number);
        if let Err(error) = self.rows.record_rows().await {
            self.state.numbers.withdraw_free(freed);
            return Err(error);
        }
        for (turn, written) in reinserted.into_iter().enumerate() {
            self.reinsert(&written);
            if turn % REINSERTS_A_TURN == REINSERTS_A_TURN - 1 {
                self.env.sleep(std::time::Duration::ZERO).await;
            }
        }
        self.forget_pages(row, pages).await;
        if row.live() > 0 {
            // Of a volume that is just being forgotten: its id is dead, so the entries do not name it.
            let rest = self.reader.living_in(row).await;
            self.forget_pages(row, &rest).await;
        }
        assert_eq!(row.live(), 0, "row {} is freed while pages live in it", row.number);
        while row.is_read() {
            row.changed.wait().await;
        }
        self.state.remove_oldest();
        self.segments.release_segments(row);
        self.signals.room.wake_all();
        self.signals.wanted.wake_all();
        Ok(())
    }

    /// The log forgets these pages of a row that is declared free, as far as they live there: nothing comes to life in it any more.
    async fn forget_pages(&self, row: &Row, entries: &[RowPages]) {
        let mut turn = Turn::of(PAGES_CHANGED);
        for entry in entries {
            for offset in 0..entry.count {
                if row.live() == 0 {
                    return;
                }
                self.state.remove_at(entry.volume, entry.page + u64::from(offset), entry.place_of(row, offset));
                turn.visited(&self.env, 1).await;
            }
        }
    }

    // ---- rows that are set aside end

    /// What is back goes to the head of the log, where it has two copies, if there is room; rows of which nothing is wanted
    /// any more are forgotten.
    pub(crate) async fn tend_set_aside(&self) -> Result<(), Error> {
        for row in self.state.rows_aside() {
            let has_room =
                self.mirrorer.may_cache_writes() && self.state.rows_available() > self.state.capacity.reserved() + 1;
            if has_room && row.has_copies() && !self.life.is_ending_log() {
                let entries = self.entries_back(&row);
                self.move_some(&row, &entries).await?;
            }
            if row.dirty() == 0 && self.state.nothing_is_older(&row) {
                self.free_aside(&row).await?;
            }
        }
        Ok(())
    }

    /// What of a row is dirty and there.
    fn entries_back(&self, row: &Row) -> Vec<RowPages> {
        let back = self.data_loss.lives_of(row).into_iter().filter(|live| live.dirty && !live.is_lost());
        let entry = |live: LivePage| RowPages {
            volume: live.volume,
            page: live.page,
            count: 1,
            position: live.place.position(),
            version: row.version_ceiling(),
            data: true,
        };
        back.map(entry).collect()
    }

    async fn free_aside(&self, row: &Rc<Row>) -> Result<(), Error> {
        self.rows.flush().await?;
        self.clean.index().wait_durable(self.clean.index().last_tickets()).await?;
        // It leaves out what is clean here, for nothing is older.
        assert!(self.state.nothing_is_older(row), "row {} is on no list any more, and older rows are", row.number);
        self.data_loss.write_list_anew().await?;
        for live in self.data_loss.lives_of(row) {
            self.state.remove_at(live.volume, live.page, live.place);
        }
        while row.is_read() {
            row.changed.wait().await;
        }
        self.state.remove_aside(row);
        self.segments.release_segments(row);
        self.signals.room.wake_all();
        // From here on rows do not ask for the list, if nothing is on it.
        if self.state.rows_aside().is_empty() { self.rows.record_rows().await } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use hotset_block::{HostEnv, RealInstant};

    use super::*;
    use crate::log::Log;
    use crate::log::row_life::RowChange;
    use crate::log::segment_copy::Mirror;
    use crate::log::tests::{open_row, with_log};
    use crate::log::turn::PAGES_LOOKED_AT;

    const NO_COPIES: [Mirror; 2] = [Mirror::Nowhere; 2];

    async fn free(log: &Log<HostEnv>, row: &Rc<Row>) {
        log.mover.free_oldest(row, &[]).await.expect("the SSDs take the record");
    }

    #[test]
    #[should_panic(expected = "row 2 is declared free, and is not the oldest")]
    fn a_row_is_not_freed_before_an_older_one() {
        with_log(async |log| {
            open_row(log, NO_COPIES);
            free(log, &open_row(log, NO_COPIES)).await;
        });
    }

    #[test]
    #[should_panic(expected = "row 1 is declared free, and something of it is dirty")]
    fn a_row_is_not_freed_while_something_of_it_is_dirty() {
        with_log(async |log| {
            let row = open_row(log, NO_COPIES);
            let (place, content) = (Place::new(row.slot, 1), Content::Data { checksum: 1 });
            log.state.supersede(&LivePage { volume: VolumeIndex(0), page: 9, place, content, dirty: true });
            free(log, &row).await;
        });
    }

    /// Zero entries of a row that is sealed, of each of which the last page alone lives, and is clean.
    fn zeroes(log: &Log<HostEnv>, row: &Row) -> Vec<RowPages> {
        let (volume, count) = (VolumeIndex(0), 4096);
        let entry = |position: u32| RowPages {
            volume,
            page: u64::from(position) << 20,
            count,
            position,
            version: 1,
            data: false,
        };
        let entries: Vec<RowPages> = (1..17).map(entry).collect();
        for entry in &entries {
            let (page, place) = (entry.page + u64::from(count) - 1, entry.place_of(row, 0));
            log.state.supersede(&LivePage { volume, page, place, content: Content::Zeroes, dirty: false });
        }
        row.change(RowChange::Closed);
        row.change(RowChange::BatchesEnded);
        entries
    }

    /// How often others run while something is done.
    async fn turns_of_others(env: &HostEnv, work: impl Future<Output = ()>) -> u64 {
        let turns = Rc::new(Cell::new(0));
        let (counted, other) = (Rc::clone(&turns), env.clone());
        env.spawn(async move {
            // Whoever holds the count is working.
            while Rc::strong_count(&counted) > 1 {
                counted.set(counted.get() + 1);
                other.sleep(Duration::ZERO).await;
            }
        });
        work.await;
        turns.get()
    }

    #[test]
    fn others_run_while_zeroes_of_many_pages_are_looked_through_and_forgotten() {
        with_log(async |log| {
            let row = open_row(log, NO_COPIES);
            let entries = zeroes(log, &row);
            let moved = turns_of_others(&log.env, async {
                log.mover.move_some(&row, &entries).await.expect("nothing is dirty");
            })
            .await;
            let freed = turns_of_others(&log.env, async {
                log.mover.free_oldest(&row, &entries).await.expect("the SSDs take the record");
            })
            .await;
            assert!([moved, freed].iter().all(|turns| (60..100).contains(turns)), "{moved} and {freed} turns");
            assert_eq!((log.total().live, log.rows_live().len()), (0, 0));
        });
    }

    #[test]
    fn others_run_while_it_is_looked_up_what_lives_in_a_row() {
        with_log(async |log| {
            let (row, other) = (open_row(log, NO_COPIES), open_row(log, NO_COPIES));
            let volume = log.ids.free_index();
            let set = |row: &Row, page| {
                let (place, content) = (Place::new(row.slot, 1), Content::Zeroes);
                log.state.supersede(&LivePage { volume, page, place, content, dirty: false });
            };
            let last = 5 * PAGES_LOOKED_AT;
            (0..last).for_each(|page| set(&other, page));
            set(&row, last);
            let found = Cell::new(Vec::new());
            let turns = turns_of_others(&log.env, async { found.set(log.reader.living_in(&row).await) }).await;
            let pages: Vec<u64> = found.take().iter().map(|entry| entry.page).collect();
            assert_eq!(pages, [last]);
            assert!((4..8).contains(&turns), "{turns} turns");
        });
    }

    #[test]
    #[should_panic(expected = "row 9 is on no list any more, and older rows are")]
    fn a_row_that_is_set_aside_is_not_forgotten_before_older_rows() {
        with_log(async |log| {
            open_row(log, NO_COPIES);
            let slot = log.state.free_row_slot().expect("there are few rows");
            let aside = Rc::new(Row::new_aside(slot, 9, 7, 1, 256, RealInstant(0)));
            log.state.add_aside(&aside);
            log.mover.free_aside(&aside).await.expect("the SSDs take the record");
        });
    }
}
