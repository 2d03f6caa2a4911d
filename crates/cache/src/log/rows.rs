//! Rows of the write log: opened on pairs of SSDs, sealed, freed (rules `free-oldest-first`, `reserves`), and how
//! segments come to the log from the slots and go back.

use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::Env;

use crate::error::Error;
use crate::format::record::RecordKind;
use crate::log::Log;
use crate::log::capacity::{ROWS_RESERVED, capacity};
use crate::log::mirrors::RebuildSpace;
use crate::log::row::Row;
use crate::log::row_life::RowChange;
use crate::log::segment_copy::{Mirror, PresentCopy};
use crate::members::records::to_buf;
use crate::members::segments::Purpose;
use crate::members::ssd::{Fault, Ssd};

/// How many times what is dirty the log is long, if there is room: of pages written at random e^-3 are then still the
/// newest when their row becomes the oldest, and have to be moved.
const LENGTH: u64 = 3;
/// Rows that the log has at any time, however little is dirty.
const ROWS_KEPT: u64 = 4;
/// Pause before a row that could not be opened is tried again.
const RETRY: std::time::Duration = std::time::Duration::from_millis(10);

impl<E: Env> Log<E> {
    /// Computes how large the log can be with the SSDs that are there.
    pub(crate) fn measure(&self) {
        let segments = self.members.serving_ssds().map(|ssd| ssd.segments.borrow().log_max()).collect();
        let size = capacity(segments, self.segment_pages());
        self.state.capacity.measured(size);
        self.count_openable();
    }

    /// Counts the rows that can be opened beside those that there are.
    pub(crate) fn count_openable(&self) {
        let left: Vec<usize> = self.members.serving_ssds().map(|ssd| ssd.log_segments_left()).collect();
        let rows: Vec<usize> = self.state.rows_live().iter().map(|row| row.segments.len()).collect();
        self.state.capacity.count_openable(left, self.segment_pages(), &rows);
    }

    /// Has the next row made ready, if there may be one.
    pub(crate) fn spawn_prepare(self: &Rc<Self>) {
        if self.life.has_stopped() || self.state.capacity.openable() == 0 || !self.state.open.begin_preparing() {
            return;
        }
        let log = Rc::clone(self);
        self.env.spawn(async move {
            match log.prepare_row().await {
                Ok(Some(row)) => log.state.open.is_ready(row),
                Ok(None) if log.members.online_ssds().next().is_some() => log.env.sleep(RETRY).await,
                Ok(None) | Err(_) => {
                    log.until_no_orphans().await;
                    log.refuse_appends();
                }
            }
            log.state.open.end_preparing();
            log.signals.room.wake_all();
            log.signals.wanted.wake_all();
        });
    }

    /// Opens a row: segments on pairs of SSDs, their headers durable on both copies, then the row's record. `Ok(None)`:
    /// an SSD failed meanwhile, or there are no segments; it is tried again when it is wanted again.
    async fn prepare_row(&self) -> Result<Option<Rc<Row>>, Error> {
        // At most two rows are not sealed: this one, and the one that is written now.
        while let Some(row) = self.state.row_being_sealed() {
            row.changed.wait().await;
        }
        let Some(pairs) = self.take_segments().await else { return Ok(None) };
        let Some(slot) = self.state.free_row_slot() else { return Ok(None) };
        let number = self.state.take_number();
        let row = Row::new(slot, number, self.env.random(), pairs, self.segment_pages(), self.env.real_now());
        let row = Rc::new(row);
        self.state.add_row(&row);
        self.count_openable();
        if !self.write_segment_headers(&row).await {
            self.drop_row(&row);
            return Ok(None);
        }
        row.change(RowChange::HeadersDurable);
        if let Err(error) = self.record_rows().await {
            self.drop_row(&row);
            return Err(error);
        }
        // Some may have left meanwhile.
        let is_lost = |mirror: Mirror| match mirror {
            Mirror::There(copy) => !self.members.ssd(copy.ssd).is_online(),
            Mirror::Away { .. } => true,
            Mirror::Nowhere => false,
        };
        if row.segments.iter().flatten().any(|mirror| is_lost(mirror.get())) {
            self.drop_row(&row);
            return Ok(None);
        }
        Ok(Some(row))
    }

    /// Gives up a row that took no batch. Its record, if there is one, says so at the next change.
    pub(crate) fn drop_row(&self, row: &Rc<Row>) {
        self.state.drop_row(row);
        self.release_segments(row);
    }

    /// Segments for one row, a pair for every two SSDs; `None` if there are none.
    async fn take_segments(&self) -> Option<Vec<[Mirror; 2]>> {
        let mut ssds: Vec<Rc<Ssd<E>>> = self.members.serving_ssds().cloned().collect();
        ssds.retain(|ssd| ssd.log_segments_left() > 0);
        ssds.sort_by_key(|ssd| std::cmp::Reverse(ssd.log_segments_left()));
        if ssds.len() == 1 && self.members.serving_ssds().count() > 1 {
            return None;
        }
        let pairs = (ssds.len() / 2).min(32);
        ssds.truncate(if pairs == 0 { 1 } else { 2 * pairs });
        let taken = join_all(ssds.iter().map(async |ssd| self.take_segment(ssd).await)).await;
        if taken.iter().any(Option::is_none) || taken.is_empty() {
            for (ssd, segment) in ssds.iter().zip(taken) {
                if let Some(segment) = segment {
                    ssd.segments.borrow_mut().set_free(segment);
                }
            }
            self.count_openable();
            return None;
        }
        let mirrors: Vec<Mirror> = ssds
            .iter()
            .zip(taken.into_iter().flatten())
            .map(|(ssd, segment)| Mirror::There(PresentCopy { ssd_uuid: ssd.uuid, ssd: ssd.index, segment }))
            .collect();
        if pairs == 0 {
            return Some(vec![[mirrors[0], Mirror::Nowhere]]);
        }
        Some(mirrors.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect())
    }

    /// A segment of this SSD for the log, from those that are ready, or from the slots; `None` if the SSD went offline.
    pub(crate) async fn take_segment(&self, ssd: &Rc<Ssd<E>>) -> Option<u32> {
        loop {
            if !ssd.is_online() {
                return None;
            }
            if let Some(segment) = ssd.segments.borrow_mut().take_free() {
                return Some(segment);
            }
            if !ssd.segments.borrow().is_draining() {
                self.claim_segment(ssd)?;
                continue;
            }
            ssd.segments_change().await;
        }
    }

    /// Takes a segment from the slots; `None` if none is left.
    fn claim_segment(&self, ssd: &Ssd<E>) -> Option<()> {
        let claimed = self.clean.claim_segment(ssd.index, self.env.random())?;
        self.claims.borrow_mut().push(claimed);
        self.clean.fills().wake_pump();
        Some(())
    }

    /// Writes the first page of every segment of a new row, on both copies, and flushes it. False: an SSD failed.
    async fn write_segment_headers(&self, row: &Row) -> bool {
        let mut writes = Vec::new();
        for (position, pair) in (0..).zip(&row.segments) {
            let mut page = self.env.buffers().take(hotset_block::PAGE_BYTES);
            row.header(position).encode_into(&mut page);
            for mirror in pair.iter().filter_map(|mirror| mirror.get().present()) {
                let copy = to_buf(self.env.buffers(), &page);
                writes.push(self.write_flushed(self.members.ssd(mirror.ssd), self.log_offset(mirror, 0), copy));
            }
        }
        // Each of them ends by itself: the segments may be used for something else at once.
        join_all(writes).await.iter().all(Result::is_ok)
    }

    /// Writes and flushes; an SSD that cannot leaves.
    pub(crate) async fn write_flushed(
        &self,
        ssd: &Rc<Ssd<E>>,
        offset: u64,
        buf: hotset_block::Buf,
    ) -> Result<(), Fault> {
        let result = match ssd.write(Purpose::Log, offset, buf).await {
            Ok(_) => ssd.flush().await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = &result {
            self.members.ssd_failed(ssd, fault);
            self.members.until_left(ssd).await;
        }
        result
    }

    /// A row that takes no more batches: when all of them are complete and flushed on both copies, its summaries are
    /// written; the next row record says that it is sealed.
    pub(crate) async fn seal_row(&self, row: &Rc<Row>) {
        while row.has_batches_in_flight() {
            row.changed.wait().await;
        }
        if row.life().is_whole() {
            // What cannot be flushed is not of a copy any more; without any copy the row is lost, sealed or not.
            let _ = self.flush().await;
            self.write_summaries(row).await;
        }
        row.forget_drafts();
        row.change(RowChange::BatchesEnded);
        row.changed.wake_all();
        self.signals.wanted.wake_all();
        self.signals.mover_wanted.wake_all();
    }

    /// Writes the summary of every segment to both copies, flushed.
    pub(crate) async fn write_summaries(&self, row: &Row) {
        let mut writes = Vec::new();
        for (position, pair) in (0..).zip(&row.segments) {
            let bytes = row.encode_summary(position);
            for mirror in pair.iter().filter_map(|mirror| mirror.get().present()) {
                let copy = to_buf(self.env.buffers(), &bytes);
                let offset = self.log_offset(mirror, row.batches_end());
                writes.push(self.write_flushed(self.members.ssd(mirror.ssd), offset, copy));
            }
        }
        // A copy that fails is not a copy any more.
        join_all(writes).await;
    }

    /// Writes the row records as they are now; returns when they are durable.
    pub(crate) async fn record_rows(&self) -> Result<(), Error> {
        let _one_at_a_time = self.members.one_change().await;
        if let Some(error) = self.life.fence() {
            // It could not be put on record what would be lost: no record must say that it is.
            return Err(error.clone());
        }
        let payload = self.state.next_record().encode();
        self.members.write_record(RecordKind::Rows, payload).await
    }

    /// There are more rows than what is dirty needs: the oldest are to be freed.
    pub(crate) fn is_long(&self) -> bool {
        if self.state.rows_available() <= self.state.capacity.reserved() + 1 {
            return true;
        }
        let dirty = self.state.overlay.borrow().total().cleanable() + self.state.queue.pages();
        let space = self.state.mirrors.space();
        if space == RebuildSpace::Compact || (space == RebuildSpace::Insufficient && dirty == 0) {
            // Copies have no place: what is dirty gets two in a new row, or is nowhere but here.
            return true;
        }
        let needed = LENGTH * dirty + ROWS_KEPT * self.state.row_pages().max(self.state.newest_pages());
        let reserved =
            u64::try_from(2 * ROWS_RESERVED).expect("an address has 64 bits at most") * self.state.row_pages();
        self.state.pages_held() > needed.min(self.state.capacity.size().pages.saturating_sub(reserved))
    }

    /// Frees the oldest row, in which nothing is dirty any more. What supersedes its pages is flushed, the slot indexes
    /// know, and the row's end is recorded; only then are its pages forgotten and its segments used again.
    pub(crate) async fn free_oldest(
        &self,
        row: &Rc<Row>,
        pages: &[crate::log::move_row::RowPages],
    ) -> Result<(), Error> {
        self.flush().await?;
        self.clean.index().wait_durable(self.clean.index().last_tickets()).await?;
        self.until_no_orphans().await;
        // It may name what this row supersedes, or lack what was here.
        self.bring_list_up_to_date().await?;
        self.life.check_open()?;
        // Without any SSD, rows may be forgotten that are not even sealed: they stay so.
        let freed = self.state.declare_free(row.number);
        if let Err(error) = self.record_rows().await {
            self.state.withdraw_free(freed);
            return Err(error);
        }
        for (turn, entry) in pages.iter().enumerate() {
            if row.live() == 0 {
                break;
            }
            for offset in 0..entry.count {
                let place = entry.place_of(row, offset);
                self.state.remove_at(entry.volume, entry.page + u64::from(offset), place);
            }
            if turn % 1024 == 1023 {
                self.env.sleep(std::time::Duration::ZERO).await;
            }
        }
        if row.live() > 0 {
            // Of a volume that is just being forgotten: its id is dead, so the entries do not name it.
            for entry in self.living_in(row) {
                self.state.remove_at(entry.volume, entry.page, entry.place_of(row, 0));
            }
        }
        assert_eq!(row.live(), 0, "row {} is freed while pages live in it", row.number);
        while row.is_read() {
            row.changed.wait().await;
        }
        self.state.remove_oldest();
        self.release_segments(row);
        self.signals.room.wake_all();
        self.signals.wanted.wake_all();
        Ok(())
    }

    /// The row's segments are ready for the next row; those that the log does not need go back to the slots.
    pub(crate) fn release_segments(&self, row: &Row) {
        let replaced = row.replaced.take();
        for copy in row.segments.iter().flatten().filter_map(|mirror| mirror.get().present()).chain(replaced) {
            let ssd = self.members.ssd(copy.ssd);
            if !ssd.is_online() {
                continue;
            }
            ssd.segments.borrow_mut().set_free(copy.segment);
            let spare = ssd.segments.borrow().free_count() > ROWS_RESERVED;
            let returned = if spare { ssd.segments.borrow_mut().return_free() } else { None };
            if let Some(segment) = returned {
                self.clean.return_segment(copy.ssd, segment);
            }
            ssd.wake_for_segments();
        }
        self.count_openable();
        if self.state.mirrors.left() > 0 {
            self.state.mirrors.wanted.wake_all();
        }
        self.clean.fills().wake_pump();
    }

    /// An SSD has left: its copies are lost, and no row goes on with them.
    pub(crate) fn go_on_without(self: &Rc<Self>, ssd: &Ssd<E>) {
        self.state.lose_copies_on(ssd.index);
        // Where something was lost, the copies were taken out before that was put on record.
        let was_on_it =
            |row: &Rc<Row>| row.segments.iter().flatten().any(|cell| cell.get().ssd_uuid() == Some(ssd.uuid));
        let current_lost = self.state.open.is_current(was_on_it);
        let prepared = self.state.open.withdraw_prepared(|_| true);
        if let Some(row) = prepared {
            self.drop_row(&row);
        }
        if current_lost {
            self.close_row();
        }
        self.measure();
        self.judge_mirrors();
        self.state.mirrors.wanted.wake_all();
        self.signals.mover_wanted.wake_all();
        self.signals.cleaner_wanted.wake_all();
        self.signals.wanted.wake_all();
        self.signals.room.wake_all();
    }

    /// Returns when a start finds nothing of batches that were given up.
    async fn until_no_orphans(&self) {
        while self.state.stream.has_orphans() {
            self.signals.room.wait().await;
        }
    }
}
