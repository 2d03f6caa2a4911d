//! Rows of the write log: opened on pairs of SSDs, sealed, freed (rules `free-oldest-first`, `reserves`), and how
//! segments come to the log from the slots and go back.

use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::Env;

use crate::config::limits;
use crate::error::Error;
use crate::format::log::summary_pages;
use crate::format::record::RecordKind;
use crate::log::Log;
use crate::log::mirrors::RebuildSpace;
use crate::log::row::Row;
use crate::log::row_life::RowChange;
use crate::log::segment_copy::{Mirror, PresentCopy};
use crate::log::write_log::ROWS_RESERVED;
use crate::members::records::to_buf;
use crate::members::segments::Purpose;
use crate::members::ssd::{Fault, Ssd};

/// What a row record says of rows, whatever the pool: its header and its two lists of attachments have their own room.
const RECORD_BYTES: u64 = crate::format::layout::ROWS_AREA_BYTES - 4096 - LISTS_BYTES;
const LISTS_BYTES: u64 = 2 * (2 + 8 * 1024);
const _: () = assert!(limits::VOLUMES_MAX == 1024);
// Those of the first version had no stream: as many as fitted then fit with two bytes more each.
const _: () = assert!(2 * (RECORD_BYTES / (27 + 42)) + 64 < 4096);
/// Rows that a pool must have room for, to be of use.
pub(crate) const ROWS_MIN: usize = 6;
/// How many times what is dirty the log is long, if there is room: of pages written at random e^-3 are then still the
/// newest when their row becomes the oldest, and have to be moved.
const LENGTH: u64 = 3;
/// Rows that the log has at any time, however little is dirty.
const ROWS_KEPT: u64 = 4;
/// Pause before a row that could not be opened is tried again.
const RETRY: std::time::Duration = std::time::Duration::from_millis(10);

/// How large a write log can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogSize {
    pub(crate) rows: usize,
    /// Of data, in all rows together.
    pub(crate) pages: u64,
    /// Of all SSDs together, both copies.
    pub(crate) segments: usize,
}

/// How large the log can be when the SSDs give so many segments each: every row takes one segment from each SSD of as
/// many disjoint pairs as there are, those with the most left first.
pub(crate) fn capacity(segments: Vec<usize>, segment_pages: u32) -> LogSize {
    capacity_beside(segments, segment_pages, &[])
}

/// The same beside rows that there are, of so many pairs each.
fn capacity_beside(mut segments: Vec<usize>, segment_pages: u32, rows: &[usize]) -> LogSize {
    let single = segments.len() == 1;
    let mut size = LogSize::default();
    let recorded = |pairs: usize| 29 + 42 * u64::try_from(pairs).expect("an address has 64 bits at most");
    let mut record_bytes = 64 + rows.iter().map(|pairs| recorded(*pairs)).sum::<u64>();
    let data_pages = u64::from(segment_pages.saturating_sub(summary_pages(segment_pages) + 1));
    loop {
        segments.sort_unstable_by(|a, b| b.cmp(a));
        let there = segments.iter().filter(|left| **left > 0).count();
        let pairs = if single { there } else { (there / 2).min(32) };
        record_bytes += recorded(pairs);
        if pairs == 0 || rows.len() + size.rows >= 4000 || record_bytes > RECORD_BYTES {
            return size;
        }
        let taken = if single { 1 } else { 2 * pairs };
        for left in segments.iter_mut().take(taken) {
            *left -= 1;
        }
        size.rows += 1;
        size.pages += data_pages * u64::try_from(pairs).expect("an address has 64 bits at most");
        size.segments += taken;
    }
}

impl<E: Env> Log<E> {
    /// Computes how large the log can be with the SSDs that are there.
    pub(crate) fn measure(&self) {
        let segments = self.members.serving_ssds().map(|ssd| ssd.segments.borrow().log_max()).collect();
        let size = capacity(segments, self.segment_pages());
        self.state.rows_max.set(size.rows);
        self.state.data_pages_max.set(size.pages);
        self.state.segments_max.set(size.segments);
        self.count_openable();
    }

    /// Counts the rows that can be opened beside those that there are.
    pub(crate) fn count_openable(&self) {
        let left: Vec<usize> = self.members.serving_ssds().map(|ssd| ssd.log_segments_left()).collect();
        // Of the next row: small SSDs may have nothing left.
        let pairs = (left.iter().filter(|left| **left > 0).count() / 2).clamp(1, 32);
        let rows: Vec<usize> = self.state.rows_live().iter().map(|row| row.segments.len()).collect();
        let widest = rows.iter().copied().max().unwrap_or(pairs);
        self.state.rows_reserved.set(ROWS_RESERVED * widest.div_ceil(pairs));
        self.state.rows_openable.set(capacity_beside(left, self.segment_pages(), &rows).rows);
    }

    /// Has the next row made ready, if there may be one.
    pub(crate) fn spawn_prepare(self: &Rc<Self>) {
        let there = self.state.prepared.borrow().is_some();
        if there || self.life.has_stopped() || self.state.rows_openable.get() == 0 || self.state.preparing.replace(true)
        {
            return;
        }
        let log = Rc::clone(self);
        self.env.spawn(async move {
            match log.prepare_row().await {
                Ok(Some(row)) => *log.state.prepared.borrow_mut() = Some(row),
                Ok(None) if log.members.online_ssds().next().is_some() => log.env.sleep(RETRY).await,
                Ok(None) | Err(_) => {
                    log.until_no_orphans().await;
                    log.refuse_appends();
                }
            }
            log.state.preparing.set(false);
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
        let number = self.state.next_number.get();
        self.state.next_number.set(number + 1);
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
        self.state.remove_newest(row);
        self.state.record_names_dropped.set(true);
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
        self.state.record_names_dropped.set(false);
        let payload = self.state.record().encode();
        self.members.write_record(RecordKind::Rows, payload).await
    }

    /// There are more rows than what is dirty needs: the oldest are to be freed.
    pub(crate) fn is_long(&self) -> bool {
        if self.state.rows_available() <= self.state.rows_reserved.get() + 1 {
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
        self.state.pages_held() > needed.min(self.state.data_pages_max.get().saturating_sub(reserved))
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
        let before = self.state.oldest_live.get();
        let free = before.max(row.number + 1);
        self.state.oldest_live.set(free);
        if let Err(error) = self.record_rows().await {
            if self.state.oldest_live.get() == free {
                self.state.oldest_live.set(before);
            }
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
        let current_lost = self.state.current.borrow().as_ref().is_some_and(was_on_it);
        let prepared = self.state.prepared.borrow_mut().take();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_of_a_larger_ssd_is_lost_as_long_as_others_mirror_it() {
        let data = u64::from(100 - summary_pages(100) - 1);
        let size = |rows, pages, segments| LogSize { rows, pages, segments };
        assert_eq!(capacity(vec![10, 10], 100), size(10, 10 * data, 20));
        assert_eq!(capacity(vec![10, 5, 5], 100), size(10, 10 * data, 20));
        assert_eq!(capacity(vec![10, 10, 10, 10], 100), size(10, 20 * data, 40));
        assert_eq!(capacity(vec![10, 10, 10], 100), size(15, 15 * data, 30));
        assert_eq!(capacity(vec![9], 100), size(9, 9 * data, 9));
        assert_eq!(capacity(vec![], 100), size(0, 0, 0));
    }
}
