//! Segments of the write log are mirrored again (rule `membership`): where a copy was lost with its SSD, or lies on an SSD
//! that is to be removed, a third SSD gets one. The copy is written and flushed, then the row record names it, durably;
//! only then is it relied on. Whatever fails meanwhile, the row is as it was.
//!
//! Only sealed rows are copied: nothing is written to them any more. They may be freed meanwhile, which waits until the
//! copy is discarded.

pub(crate) mod ssd_copies;
mod unsummarised;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::at;
use crate::clean::Clean;
use crate::config::{FlushRate, PAGE};
use crate::format::crc32c;
use crate::format::log::Entry;
use crate::log::log_segments::LogSegments;
use crate::log::mirrors::RebuildSpace;
use crate::log::read_log::LogReader;
use crate::log::row::{Row, RowReading};
use crate::log::rows::RowKeeper;
use crate::log::segment_copy::{Mirror, MirrorCell, MirrorChange, PresentCopy};
use crate::log::shared::Shared;
use crate::log::signals::Signals;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::life::LifeChange;
use crate::members::pool_life::PoolLife;
use crate::members::ssd::{Fault, Ssd};
use crate::status::Rebuild;
use crate::time_limit::within;

/// Pages of one transfer of a copy: 512 KiB.
const CHUNK_PAGES: u32 = 128;
/// How often the task looks by itself while copies are wanted.
const INTERVAL: Duration = Duration::from_secs(1);

/// Transfers at once, and how many times its own length one pauses while hosts work.
fn pace(rate: FlushRate) -> (usize, u32) {
    match rate {
        FlushRate::Low => (1, 8),
        FlushRate::Medium => (2, 2),
        FlushRate::High => (4, 0),
    }
}

/// A copy that is to be made: one side of a pair of segments of a row.
struct WantedCopy {
    row: Rc<Row>,
    segment: u32,
    side: usize,
}

impl WantedCopy {
    fn cell(&self) -> &MirrorCell {
        &self.row.segments[at(self.segment)][self.side]
    }

    fn other(&self) -> Mirror {
        self.row.segments[at(self.segment)][1 - self.side].get()
    }
}

/// What of a segment is to be copied.
struct SegmentPlan {
    /// Batches end before this page.
    end: u32,
    /// By page: of data, its checksum.
    checksums: Vec<Option<u32>>,
    summary: Option<Buf>,
}

impl SegmentPlan {
    /// Of a page of which nothing is known, any bytes are.
    fn is_good(&self, page: u32, bytes: &[u8]) -> bool {
        self.checksums[at(page)].is_none_or(|checksum| crc32c(bytes) == checksum)
    }
}

/// Who sees to it that each segment has two copies.
pub(crate) struct Mirrorer<E: Env> {
    env: E,
    life: Rc<PoolLife>,
    members: Rc<Members<E>>,
    clean: Rc<Clean<E>>,
    state: Rc<WriteLog>,
    signals: Rc<Signals>,
    segments: Rc<LogSegments<E>>,
    rows: Rc<RowKeeper<E>>,
    reader: Rc<LogReader<E>>,
}

impl<E: Env> Mirrorer<E> {
    pub(super) fn new(
        shared: &Shared<E>,
        segments: &Rc<LogSegments<E>>,
        rows: &Rc<RowKeeper<E>>,
        reader: &Rc<LogReader<E>>,
    ) -> Self {
        Self {
            env: shared.env.clone(),
            life: Rc::clone(&shared.life),
            members: Rc::clone(&shared.members),
            clean: Rc::clone(&shared.clean),
            state: Rc::clone(&shared.state),
            signals: Rc::clone(&shared.signals),
            segments: Rc::clone(segments),
            rows: Rc::clone(rows),
            reader: Rc::clone(reader),
        }
    }

    fn flush_rate(&self) -> FlushRate {
        self.members.record().settings.cleaning.flush_rate
    }

    /// The task that makes copies while some are wanted; it goes slower while `host_requests` become more.
    pub(crate) async fn run_mirrorer(self: Rc<Self>, host_requests: impl Fn() -> u64) {
        while !self.life.is_ending_log() {
            let wanted = self.state.mirrors.wanted.wait();
            let mut failed = BTreeSet::new();
            while !self.life.is_ending_log() && self.mirror_one(&mut failed, &host_requests).await {}
            if self.state.mirrors.left() == 0 {
                wanted.await;
            } else {
                within(&self.env, INTERVAL, wanted).await;
            }
        }
        self.state.mirrors.end();
        self.signals.room.wake_all();
    }

    /// Makes one copy, or finds that it is not wanted any more; false: there is nothing that can be copied now. What comes to nothing
    /// is noted as `failed`, by row and segment, and holds up no other.
    async fn mirror_one(self: &Rc<Self>, failed: &mut BTreeSet<(u64, u32)>, host_requests: &impl Fn() -> u64) -> bool {
        self.judge_mirrors();
        self.close_degraded_row();
        let copies = self.copies_wanted().into_iter();
        let may_be_made =
            |copy: &WantedCopy| copy.row.life().has_ended() && !failed.contains(&(copy.row.number, copy.segment));
        let next = copies.filter(may_be_made);
        let next = next.map(|copy| (self.mirror_target(&copy), copy)).find(|(target, _)| target.is_some());
        let Some((Some(target), copy)) = next else { return false };
        if !copy.cell().get().is_there() {
            target.change(LifeChange::RebuildBegan);
        }
        if !self.mirror_to(&copy, &target, host_requests).await {
            if self.fails_as_a_whole(&copy) {
                return false;
            }
            failed.insert((copy.row.number, copy.segment));
        }
        self.judge_mirrors();
        !self.life.is_fenced()
    }

    /// Of half of the segment or more its SSD brings nothing: that is asked for nothing else just now.
    fn fails_as_a_whole(&self, copy: &WantedCopy) -> bool {
        2 * self.reader.failing_pages(&copy.row, copy.segment).len() >= at(copy.row.batches_end())
    }

    /// The copies that are lost or have to leave their SSDs, of rows that live: the newest first, as the oldest are the first
    /// to be freed.
    fn copies_wanted(&self) -> Vec<WantedCopy> {
        let mut wanted = Vec::new();
        for row in self.state.rows_live().into_iter().rev().filter(|row| self.state.numbers.is_live(row.number)) {
            for (segment, pair) in (0..).zip(&row.segments) {
                let readable = pair.iter().any(|mirror| mirror.get().is_there());
                for side in (0..2).filter(|side| readable && self.is_degraded(pair[*side].get())) {
                    wanted.push(WantedCopy { row: Rc::clone(&row), segment, side });
                }
            }
        }
        wanted
    }

    /// The copy is not there, or its SSD is to be removed.
    fn is_degraded(&self, mirror: Mirror) -> bool {
        mirror.ssd().is_none_or(|ssd| self.members.ssd(ssd).life().is_leaving())
    }

    /// Counts what is to be copied, and finds out whether there is room for it: without, new writes go past the cache.
    pub(crate) fn judge_mirrors(&self) {
        let wanted = self.copies_wanted();
        let placeless = wanted.iter().any(|copy| self.mirror_target(copy).is_none());
        let dirty_fits =
            self.members.has_two_ssds() && self.state.overlay.borrow().total().cleanable() <= self.state.dirty_max();
        let space = match (placeless, dirty_fits) {
            (false, _) => RebuildSpace::Enough,
            (true, true) => RebuildSpace::Compact,
            (true, false) => RebuildSpace::Insufficient,
        };
        let lost = wanted.iter().filter(|copy| !copy.cell().get().is_there()).count();
        let other_space = self.state.mirrors.counted(wanted.len(), lost, space, self.env.now());
        if lost == 0 {
            for ssd in self.members.ssds() {
                ssd.change(LifeChange::RebuildEnded);
            }
        }
        if other_space {
            self.signals.cleaner_wanted.wake_all();
            self.signals.mover_wanted.wake_all();
            self.clean.fills().wake_pump();
        }
    }

    /// The SSD that is to have the copy: the one with the most room, and not the one of the other copy. What is reserved for
    /// rows is left (rule `reserves`), and as much again for hosts, that they need not wait for every row.
    fn mirror_target(&self, copy: &WantedCopy) -> Option<Rc<Ssd<E>>> {
        let (other, reserved) = (copy.other().ssd(), self.state.capacity.reserved());
        let left_over = match self.flush_rate() {
            FlushRate::Low | FlushRate::Medium => 2 * reserved,
            FlushRate::High => reserved,
        };
        let free = |ssd: &&Rc<Ssd<E>>| {
            ssd.life().may_take_batches() && Some(ssd.index) != other && ssd.log_segments_left() > left_over
        };
        self.members.online_ssds().filter(free).max_by_key(|ssd| ssd.log_segments_left()).cloned()
    }

    /// No more batches to a row with a copy too few, once there are SSDs for two.
    fn close_degraded_row(self: &Rc<Self>) {
        let is_degraded = |row: &Row| row.segments.iter().flatten().any(|mirror| self.is_degraded(mirror.get()));
        if !self.members.has_two_ssds() {
            return;
        }
        if self.state.open.is_current(|row| is_degraded(row)) {
            self.rows.close_row();
        }
        let prepared = self.state.open.withdraw_prepared(is_degraded);
        if let Some(row) = prepared {
            self.rows.drop_row(&row);
        }
    }

    /// True: the copy is relied on. What came to nothing leaves the row as it was.
    async fn mirror_to(&self, copy: &WantedCopy, target: &Rc<Ssd<E>>, host_requests: &impl Fn() -> u64) -> bool {
        let Some(segment) = self.segments.take_segment(target).await else { return false };
        self.segments.count_openable();
        target.segments.give_to_row(segment, copy.row.incarnation);
        let new = PresentCopy { ssd_uuid: target.uuid, ssd: target.index, segment };
        let made = self.copy_segment(copy, new, host_requests).await && self.commit_copy(copy, new).await;
        if !made && target.is_online() {
            target.segments.set_free(segment, Some(copy.row.incarnation));
            self.segments.count_openable();
            target.wake_for_segments();
        }
        made
    }

    /// The row lives, and nobody is about to free it.
    fn may_be_mirrored(&self, copy: &WantedCopy) -> bool {
        let row = &copy.row;
        let lives = self.state.row_at(row.slot).is_some_and(|other| Rc::ptr_eq(&other, row));
        lives
            && self.state.numbers.is_live(row.number)
            && self.is_degraded(copy.cell().get())
            && !self.life.is_ending_log()
    }

    /// Writes the copy, flushed. False: it came to nothing.
    async fn copy_segment(&self, copy: &WantedCopy, new: PresentCopy, host_requests: &impl Fn() -> u64) -> bool {
        if !self.may_be_mirrored(copy) {
            return false;
        }
        let _reading = RowReading::new(&copy.row);
        let plan = self.plan_copy(copy).await;
        if self.is_failing(copy, &plan).await {
            return false;
        }
        let (next, intact) = (Cell::new(1), Cell::new(true));
        let (at_once, _) = pace(self.flush_rate());
        let workers = (0..at_once).map(async |_| {
            while let Some(first) = take_chunk(&next, plan.end) {
                if !self.may_be_mirrored(copy) {
                    return intact.set(false);
                }
                let (began, requests) = (self.env.now(), host_requests());
                self.copy_chunk(copy, new, &plan, first, &intact).await;
                let (_, pauses) = pace(self.flush_rate());
                if pauses > 0 && host_requests() != requests {
                    self.env.sleep(self.env.now().since(began) * pauses).await;
                }
            }
        });
        // Each of them ends by itself: nothing is in flight to the segment afterwards.
        join_all(workers).await;
        if !intact.get() || !self.copy_ends(copy, new, &plan).await {
            return false;
        }
        let target = self.ssd_at(new);
        match target.flush().await {
            Ok(()) => true,
            Err(fault) => {
                self.members.ssd_failed(&target, &fault);
                false
            }
        }
    }

    fn ssd_at(&self, copy: PresentCopy) -> Rc<Ssd<E>> {
        Rc::clone(self.members.ssd(copy.ssd))
    }

    /// What is to be copied, by the segment's summary; without one everything, and what is known of it can be checked.
    async fn plan_copy(&self, copy: &WantedCopy) -> SegmentPlan {
        let row = &copy.row;
        let Some((summary, bytes)) =
            self.reader.good_summary(row, copy.segment).await.filter(|_| row.life().is_intact())
        else {
            let checksums = self.known_checksums(row, copy.segment).await;
            return SegmentPlan { end: row.batches_end(), checksums, summary: None };
        };
        let mut checksums = vec![None; at(row.segment_pages)];
        let mut end = 1;
        for batch in &summary.batches {
            end = batch.first_page + batch.header_pages;
            for entry in &batch.entries {
                let Entry::Pages { checksums: sums, .. } = entry else { continue };
                for sum in sums {
                    checksums[at(end)] = Some(*sum);
                    end += 1;
                }
            }
        }
        assert!(end <= row.batches_end(), "batches of row {} end at page {end}, in its summary", row.number);
        SegmentPlan { end, checksums, summary: Some(bytes) }
    }

    /// A page of the segment that failed before fails again, and may be read later. Before nothing is written in vain.
    async fn is_failing(&self, copy: &WantedCopy, plan: &SegmentPlan) -> bool {
        let (at_once, _) = pace(self.flush_rate());
        let pages = self.reader.failing_pages(&copy.row, copy.segment).into_iter();
        let reads = pages.map(|page| self.read_good_page(copy, plan, page));
        let reads: Vec<_> = stream::iter(reads).buffer_unordered(at_once).collect().await;
        reads.iter().any(Option::is_none)
    }

    /// Copies the pages from `first` on, each from a copy where it is good. What no copy has is not there afterwards
    /// either. If an SSD fails, the copy is not `intact`: what is left of it is only read, so that all pages that fail are waited for
    /// at the same time.
    async fn copy_chunk(
        &self,
        copy: &WantedCopy,
        new: PresentCopy,
        plan: &SegmentPlan,
        first: u32,
        intact: &Cell<bool>,
    ) {
        let pages = first..plan.end.min(first + CHUNK_PAGES);
        let end = copy.row.batches_end();
        assert!(0 < first && pages.end <= end, "pages {pages:?} are copied, and batches lie between 0 and {end}");
        let Some(bytes) = self.read_chunk(copy, plan, pages.clone()).await else { return intact.set(false) };
        if !intact.get() {
            return;
        }
        let target = self.ssd_at(new);
        if let Err(fault) = target.write(copy.row.purpose(), self.segments.log_offset(new, first), bytes).await {
            self.members.ssd_failed(&target, &fault);
            intact.set(false);
        }
    }

    /// `None`: an SSD with a copy is there no more, which says nothing about what it held, or a page may be read later.
    async fn read_chunk(&self, copy: &WantedCopy, plan: &SegmentPlan, pages: Range<u32>) -> Option<Buf> {
        for (_, mirror) in copy.row.copies_one_by_one(copy.segment) {
            let length = at(pages.end - pages.start) * PAGE_BYTES;
            let read = self.read_copy(mirror, pages.start, length).await;
            if let Ok(bytes) = read
                && bytes.chunks_exact(PAGE_BYTES).zip(pages.clone()).all(|(bytes, page)| plan.is_good(page, bytes))
            {
                return Some(bytes);
            }
        }
        let mut whole = self.env.buffers().take_zeroed(at(pages.end - pages.start) * PAGE_BYTES);
        let mut is_known = true;
        for (chunk, page) in whole.chunks_exact_mut(PAGE_BYTES).zip(pages) {
            match self.read_good_page(copy, plan, page).await {
                Some(Some(bytes)) => chunk.copy_from_slice(&bytes),
                Some(None) => {}
                None => is_known = false,
            }
        }
        is_known.then_some(whole)
    }

    /// `Some(None)`: no copy of this page is good. `None`: one may be.
    async fn read_good_page(&self, copy: &WantedCopy, plan: &SegmentPlan, page: u32) -> Option<Option<Buf>> {
        let (mut failed, position) = (false, copy.row.position(copy.segment, page));
        for (_, mirror) in copy.row.copies_one_by_one(copy.segment) {
            match self.read_copy(mirror, page, PAGE_BYTES).await {
                Ok(bytes) if plan.is_good(page, &bytes) => {
                    self.reader.forget_errors(&copy.row, position..position + 1);
                    return Some(Some(bytes));
                }
                Ok(_) => {}
                Err(Fault::Device(_)) => failed = true,
                Err(Fault::Offline) => return None,
            }
        }
        let may_be_read_later = failed && self.reader.may_be_read_later(&copy.row, position);
        (!may_be_read_later).then_some(None)
    }

    async fn read_copy(&self, mirror: PresentCopy, page: u32, length: usize) -> Result<Buf, Fault> {
        let ssd = self.ssd_at(mirror);
        let read = ssd.read(self.segments.log_offset(mirror, page), self.env.buffers().take(length)).await;
        if let Err(Fault::Device(error)) = &read {
            self.reader.log_read_failed(&ssd, Some(error));
        }
        read
    }

    /// Writes the segment's header and its summary.
    async fn copy_ends(&self, copy: &WantedCopy, new: PresentCopy, plan: &SegmentPlan) -> bool {
        let row = &copy.row;
        let mut header = self.env.buffers().take(PAGE_BYTES);
        row.header(copy.segment).encode_into(&mut header);
        let target = self.ssd_at(new);
        let mut ends = vec![(0, header)];
        if let Some(summary) = &plan.summary {
            ends.push((row.batches_end(), self.env.buffers().copy_of(summary)));
        }
        for (page, bytes) in ends {
            if let Err(fault) = target.write(row.purpose(), self.segments.log_offset(new, page), bytes).await {
                self.members.ssd_failed(&target, &fault);
                return false;
            }
        }
        true
    }

    /// The row record names the copy from here on, durably; what it replaces is used again when the row is freed.
    async fn commit_copy(&self, copy: &WantedCopy, new: PresentCopy) -> bool {
        let target = self.ssd_at(new);
        let source_is_there = copy.row.mirrors(copy.segment).any(|mirror| self.ssd_at(mirror).is_online());
        let apart = copy.other().ssd() != Some(new.ssd);
        if !self.may_be_mirrored(copy) || !source_is_there || !apart || !target.life().may_take_batches() {
            return false;
        }
        let old = copy.cell().change(MirrorChange::Replaced(new));
        // Asked for in the same turn: no record of an SSD that left can come between.
        if self.rows.record_rows().await.is_err() {
            copy.cell().change(MirrorChange::Withdrawn(old));
            if old.present().is_some_and(|old| !self.ssd_at(old).is_online()) {
                copy.cell().change(MirrorChange::Left);
            }
            return false;
        }
        if let Some(old) = old.present() {
            let mut replaced = copy.row.replaced.borrow_mut();
            assert!(!replaced.contains(&old), "row {}: {old:?} is replaced twice", copy.row.number);
            replaced.push(old);
        }
        copy.cell().get() == Mirror::There(new)
    }

    /// How far the copies are; `None` if none is wanted.
    pub(crate) fn rebuild_status(&self) -> Option<Rebuild> {
        let bytes = |copies: usize| {
            u64::try_from(copies).expect("an address has 64 bits at most")
                * u64::from(self.segments.segment_pages())
                * PAGE
        };
        let (done, since) = self.state.mirrors.progress()?;
        let (done_bytes, left) = (bytes(done), bytes(self.state.mirrors.left()));
        let milliseconds = u64::try_from(self.env.now().since(since).as_millis()).unwrap_or(u64::MAX);
        let bytes_per_second = done_bytes.saturating_mul(1000) / milliseconds.max(1);
        Some(Rebuild {
            done_bytes,
            total_bytes: done_bytes + left,
            bytes_per_second,
            copies_lost: self.state.mirrors.any_lost(),
            space_insufficient: self.state.mirrors.space() == RebuildSpace::Insufficient,
        })
    }

    /// Two copies of new writes can be kept at once, and what lost a copy can have another one (REQUIREMENTS F2).
    pub(crate) fn may_cache_writes(&self) -> bool {
        let no_space = self.state.mirrors.space() == RebuildSpace::Insufficient;
        !no_space && self.members.has_two_ssds_that_answer() && !self.life.is_fenced()
    }
}

/// The next chunk before `end`.
fn take_chunk(next: &Cell<u32>, end: u32) -> Option<u32> {
    let first = next.get();
    next.set(first.saturating_add(CHUNK_PAGES));
    (first < end).then_some(first)
}

#[cfg(test)]
mod tests {
    use hotset_block::RealInstant;

    use super::*;
    use crate::log::tests::{copy_on, open_row, with_log};

    #[test]
    #[should_panic(expected = "batches of row 1 end at page 1, in its summary")]
    fn a_segment_is_not_copied_whose_batches_would_end_in_its_summary() {
        with_log(async |log| {
            let segments = &log.members.ssd(copy_on(log, 0, 0).ssd).segments;
            let segment = segments.for_slots().last().expect("it has segments");
            assert!(segments.set_log(segment, 7));
            let mirrors = vec![[Mirror::There(copy_on(log, 0, segment)), Mirror::Nowhere]];
            // The summary takes all of it.
            let row = Rc::new(Row::new(0, 1, 7, mirrors, 1, RealInstant(0)));
            log.segments.write_summaries(&row).await;
            log.mirrorer.plan_copy(&WantedCopy { row, segment: 0, side: 1 }).await;
        });
    }

    #[test]
    #[should_panic(expected = "pages 0..2 are copied, and batches lie between 0 and")]
    fn the_header_of_a_segment_is_not_copied() {
        with_log(async |log| {
            let row = open_row(log, [Mirror::Nowhere; 2]);
            let plan = SegmentPlan { end: 2, checksums: vec![None; 2], summary: None };
            let copy = WantedCopy { row, segment: 0, side: 0 };
            log.mirrorer.copy_chunk(&copy, copy_on(log, 1, 3), &plan, 0, &Cell::new(true)).await;
        });
    }

    #[test]
    #[should_panic(expected = "segment: 3 } is replaced twice")]
    fn a_copy_is_not_replaced_twice() {
        with_log(async |log| {
            let [old, other, new] = [0, 1, 2].map(|ssd| copy_on(log, ssd, 3));
            let row = open_row(log, [Mirror::There(old), Mirror::There(other)]);
            let removal = LifeChange::RemovalBegan { since: log.env.now(), bytes: 0 };
            log.members.ssd(old.ssd).change(removal);
            row.replaced.borrow_mut().push(old);
            log.mirrorer.commit_copy(&WantedCopy { row, segment: 0, side: 0 }, new).await;
        });
    }
}
