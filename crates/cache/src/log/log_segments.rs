//! Segments of SSDs as the log uses them: where their pages lie, how many it may have, how they come from the slots and go back, and
//! what is written to them beside batches.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::join_all;
use hotset_block::Env;

use crate::clean::{Claimed, Clean};
use crate::config::PAGE;
use crate::log::capacity::{ROWS_RESERVED, capacity};
use crate::log::row::Row;
use crate::log::scan_aside::HeldSegment;
use crate::log::segment_copy::{Mirror, MirrorCell, PresentCopy};
use crate::log::shared::Shared;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::segments::{Purpose, Segments};
use crate::members::ssd::{Fault, Ssd};

/// Segments of SSDs as the log uses them.
pub(crate) struct LogSegments<E: Env> {
    env: E,
    members: Rc<Members<E>>,
    clean: Rc<Clean<E>>,
    state: Rc<WriteLog>,
    /// What the slots lost to the log, until the frame takes it.
    claims: RefCell<Vec<Claimed>>,
}

impl<E: Env> LogSegments<E> {
    pub(super) fn new(shared: &Shared<E>) -> Self {
        Self {
            env: shared.env.clone(),
            members: Rc::clone(&shared.members),
            clean: Rc::clone(&shared.clean),
            state: Rc::clone(&shared.state),
            claims: RefCell::default(),
        }
    }

    pub(crate) fn segment_pages(&self) -> u32 {
        let bytes = self.members.ssds().next().map_or(PAGE, |ssd| ssd.layout.segment_bytes);
        u32::try_from(bytes / PAGE).expect("a segment has fewer than 2^32 pages")
    }

    /// Where a page of a log segment lies on its SSD.
    pub(crate) fn log_offset(&self, copy: PresentCopy, page: u32) -> u64 {
        let layout = &self.members.ssd(copy.ssd).layout;
        let offset = u64::from(page) * PAGE;
        assert!(offset < layout.segment_bytes, "page {page} is asked for of segment {}, and lies behind", copy.segment);
        layout.segment_offset(copy.segment) + offset
    }

    /// Writes good bytes to a copy; an SSD that does not take them leaves. False: it did not.
    pub(super) async fn write_copy(&self, purpose: Purpose, mirror: PresentCopy, page: u32, bytes: &[u8]) -> bool {
        let ssd = self.members.ssd(mirror.ssd);
        match ssd.write(purpose, self.log_offset(mirror, page), self.env.buffers().copy_of(bytes)).await {
            Ok(_) => ssd.has_appended(),
            Err(fault) => {
                self.members.ssd_failed(ssd, &fault);
                return false;
            }
        }
        true
    }

    /// Computes how large the log can be with the SSDs that are there.
    pub(crate) fn measure(&self) {
        let size = |segments: fn(&Segments) -> usize| {
            capacity(self.members.serving_ssds().map(|ssd| segments(&ssd.segments)).collect(), self.segment_pages())
        };
        self.state.capacity.measured(size(Segments::log_max), size(Segments::log_usual));
        self.count_openable();
    }

    /// Counts the rows that can be opened beside those that there are.
    pub(crate) fn count_openable(&self) {
        let left: Vec<usize> = self.members.serving_ssds().map(|ssd| ssd.log_segments_left()).collect();
        let rows: Vec<usize> = self.state.rows_live().iter().map(|row| row.segments.len()).collect();
        self.state.capacity.count_openable(left, self.segment_pages(), &rows);
    }

    /// Segments for one row, a pair for every two SSDs; `None` if there are none.
    pub(super) async fn take_segments(&self) -> Option<Vec<[Mirror; 2]>> {
        let mut ssds: Vec<Rc<Ssd<E>>> = self.members.serving_ssds().cloned().collect();
        ssds.retain(|ssd| ssd.log_segments_left() > 0);
        ssds.sort_by_key(|ssd| std::cmp::Reverse(ssd.log_segments_left()));
        if ssds.len() == 1 && self.members.serving_ssds().count() > 1 {
            return None;
        }
        let pairs = (ssds.len() / 2).min(32);
        ssds.truncate(if pairs == 0 { 1 } else { 2 * pairs });
        let take = async |ssd: &Rc<Ssd<E>>| {
            let segment = self.take_segment(ssd).await?;
            Some(Mirror::There(PresentCopy { ssd_uuid: ssd.uuid, ssd: ssd.index, segment }))
        };
        let taken: Vec<Mirror> = join_all(ssds.iter().map(take)).await.into_iter().flatten().collect();
        let second = |pair: &[Mirror]| pair.get(1).copied().unwrap_or(Mirror::Nowhere);
        let row: Vec<[Mirror; 2]> = taken.chunks(2).map(|pair| [pair[0], second(pair)]).collect();
        if taken.len() < ssds.len() || taken.is_empty() {
            self.give_back(&row);
            return None;
        }
        Some(row)
    }

    /// Segments that no row has after all.
    pub(super) fn give_back(&self, pairs: &[[Mirror; 2]]) {
        for copy in pairs.iter().flatten().filter_map(|mirror| mirror.present()) {
            self.members.ssd(copy.ssd).segments.set_free(copy.segment, None);
        }
        self.count_openable();
    }

    /// The segments that were taken for this row are its own from here on.
    pub(super) fn give_to_row(&self, row: &Row) {
        for copy in row.segments.iter().flatten().filter_map(|mirror| mirror.get().present()) {
            self.members.ssd(copy.ssd).segments.give_to_row(copy.segment, row.incarnation);
        }
    }

    /// A segment of this SSD for the log, from those that are ready, or from the slots; `None` if the SSD went offline.
    pub(crate) async fn take_segment(&self, ssd: &Rc<Ssd<E>>) -> Option<u32> {
        loop {
            if !ssd.is_online() {
                return None;
            }
            if let Some(segment) = ssd.segments.take_free() {
                return Some(segment);
            }
            if !ssd.segments.is_draining() {
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
    pub(super) async fn write_segment_headers(&self, row: &Row) -> bool {
        let mut writes = Vec::new();
        for (position, pair) in (0..).zip(&row.segments) {
            let mut page = self.env.buffers().take(hotset_block::PAGE_BYTES);
            row.header(position).encode_into(&mut page);
            for mirror in pair.iter().filter_map(|mirror| mirror.get().present()) {
                let copy = self.env.buffers().copy_of(&page);
                writes.push(self.write_flushed(row, mirror, 0, copy));
            }
        }
        // Each of them ends by itself: the segments may be used for something else at once.
        join_all(writes).await.iter().all(Result::is_ok)
    }

    /// Writes to a copy, from this page of its segment on, and flushes; an SSD that cannot leaves.
    pub(crate) async fn write_flushed(
        &self,
        row: &Row,
        mirror: PresentCopy,
        page: u32,
        buf: hotset_block::Buf,
    ) -> Result<(), Fault> {
        let ssd = self.members.ssd(mirror.ssd);
        let result = match ssd.write(row.purpose(), self.log_offset(mirror, page), buf).await {
            Ok(_) => ssd.flush().await,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = &result {
            self.members.ssd_failed(ssd, fault);
            self.members.until_left(ssd).await;
        }
        result
    }

    /// Writes the summary of every segment to both copies, flushed.
    pub(crate) async fn write_summaries(&self, row: &Row) {
        let mut writes = Vec::new();
        for (position, pair) in (0..).zip(&row.segments) {
            let bytes = row.encode_summary(position);
            for mirror in pair.iter().filter_map(|mirror| mirror.get().present()) {
                let copy = self.env.buffers().copy_of(&bytes);
                writes.push(self.write_flushed(row, mirror, row.batches_end(), copy));
            }
        }
        // A copy that fails is not a copy any more.
        join_all(writes).await;
    }

    /// The row's segments are ready for the next row; those that the log does not need go back to the slots.
    pub(crate) fn release_segments(&self, row: &Row) {
        self.state.assert_unused(row);
        let replaced = row.replaced.take().into_iter().map(Mirror::There);
        for mirror in row.segments.iter().flatten().map(MirrorCell::get).chain(replaced) {
            if let Some((ssd, segment)) = self.kept_for(row, mirror) {
                self.free_segment(ssd, HeldSegment { row: row.number, incarnation: row.incarnation, segment });
            }
        }
        self.segments_were_freed();
    }

    /// Of what is kept on an SSD that is back, what no row has any more is ready for the next row, too.
    pub(crate) fn release_unnamed(&self, ssd: &Ssd<E>, held: Vec<HeldSegment>) {
        let is_kept = |held: &HeldSegment| ssd.segments.is_of_row(held.segment, held.incarnation);
        held.into_iter().filter(is_kept).for_each(|held| self.free_segment(ssd, held));
        self.segments_were_freed();
    }

    /// The SSD in use that keeps this copy for the row, and where. One of which nobody could say whether it is whole is kept, too.
    fn kept_for(&self, row: &Row, mirror: Mirror) -> Option<(&Rc<Ssd<E>>, u32)> {
        let (ssd, segment) = match mirror {
            Mirror::Nowhere => return None,
            Mirror::There(copy) => (self.members.ssd(copy.ssd), copy.segment),
            Mirror::Away { ssd_uuid, segment } => {
                let keeps = |ssd: &&Rc<Ssd<E>>| ssd.segments.is_of_row(segment, row.incarnation);
                (self.members.online_ssds().filter(|ssd| ssd.uuid == ssd_uuid).find(keeps)?, segment)
            }
        };
        ssd.is_online().then_some((ssd, segment))
    }

    /// Unless the row, or what is set aside of it, has it still.
    fn free_segment(&self, ssd: &Ssd<E>, HeldSegment { row, incarnation, segment }: HeldSegment) {
        if self.state.names_segment(row, ssd.uuid, segment) {
            return;
        }
        ssd.segments.set_free(segment, Some(incarnation));
        let spare = ssd.segments.free_count() > ROWS_RESERVED;
        let returned = if spare { ssd.segments.return_free() } else { None };
        if let Some(segment) = returned {
            self.clean.return_segment(ssd.index, segment);
        }
        ssd.wake_for_segments();
    }

    fn segments_were_freed(&self) {
        self.count_openable();
        if self.state.mirrors.left() > 0 {
            self.state.mirrors.wanted.wake_all();
        }
        self.clean.fills().wake_pump();
    }

    /// What became of the slots of segments that it took since this was asked last.
    pub(super) fn take_claims(&self) -> Vec<Claimed> {
        self.claims.take()
    }
}

#[cfg(test)]
mod tests {
    use hotset_block::HostEnv;

    use super::*;
    use crate::address::SsdIndex;
    use crate::log::Log;
    use crate::log::segment_copy::MirrorChange;
    use crate::log::tests::{copy_on, forget_aside, open_row, row_aside, with_log};

    /// The last segment of an SSD, that is kept for a row.
    fn kept_on(log: &Log<HostEnv>, ssd: u16) -> (PresentCopy, impl Fn() -> bool) {
        let ssd = Rc::clone(log.members.ssd(SsdIndex(ssd)));
        let segment = ssd.segments.for_slots().last().expect("it has segments");
        assert!(ssd.segments.set_log(segment, 7));
        (copy_on(log, ssd.index.0, segment), move || ssd.segments.is_of_row(segment, 7))
    }

    #[test]
    fn a_segment_that_nobody_could_look_at_is_used_again_when_nothing_is_set_aside_in_it_any_more() {
        with_log(async |log| {
            let (copy, is_kept) = kept_on(log, 0);
            let aside = row_aside(log, 9, copy.ssd_uuid, copy.segment);
            forget_aside(log, &aside);
            assert!(!is_kept());
        });
    }

    // proves: F5
    #[test]
    fn a_segment_is_not_used_again_while_something_is_set_aside_in_it() {
        with_log(async |log| {
            let (copy, is_kept) = kept_on(log, 0);
            let row = open_row(log, [Mirror::There(copy), Mirror::Nowhere]);
            let aside = row_aside(log, row.number, copy.ssd_uuid, copy.segment);
            aside.segments[0][0].change(MirrorChange::Found(copy.ssd));
            log.rows.drop_row(&row);
            assert!(is_kept(), "the row is freed, and not what is set aside of it");
            forget_aside(log, &aside);
            assert!(!is_kept());
        });
    }
}
