//! What an SSD has of the log, for whoever sees to SSDs that join, come back, leave or do not answer.
//!
//! Copies on an SSD that is back are relied on again once a row record says so.

use std::rc::Rc;

use hotset_block::Env;

use crate::format::log::Summary;
use crate::log::mirror::Mirrorer;
use crate::log::read_summary::read_summary_of;
use crate::log::row::Row;
use crate::log::scan_aside::hold_segment;
use crate::log::segment_copy::{Mirror, MirrorCell, MirrorChange, PresentCopy};
use crate::members::ssd::Ssd;

/// A copy of a segment that lies on an SSD that is back, and is not relied on yet.
pub(crate) struct OldCopy {
    row: Rc<Row>,
    position: u32,
    side: usize,
    /// Of the SSD.
    segment: u32,
}

impl OldCopy {
    fn cell(&self) -> &MirrorCell {
        &self.row.segments[crate::address::at(self.position)][self.side]
    }

    /// As one that is there, on the SSD that is back.
    fn on<E: Env>(&self, ssd: &Ssd<E>) -> PresentCopy {
        PresentCopy { ssd_uuid: ssd.uuid, ssd: ssd.index, segment: self.segment }
    }
}

impl<E: Env> Mirrorer<E> {
    /// Copies of log segments that rows have on an SSD, also of those that are set aside and are not elsewhere yet.
    pub(crate) fn copies_on(&self, ssd: &Ssd<E>) -> usize {
        let mut rows = self.state.rows_live();
        rows.extend(self.state.rows_aside().into_iter().filter(|row| self.state.has_dirty_data(row)));
        let mirrors = rows.iter().flat_map(|row| row.segments.iter().flatten());
        mirrors.filter(|mirror| mirror.get().is_on(ssd.index)).count()
    }

    /// A segment of the log has no copy on an SSD that `answers` but this one.
    pub(crate) fn holds_last_copy(&self, ssd: &Ssd<E>, answers: impl Fn(&Rc<Ssd<E>>) -> bool) -> bool {
        let rows = self.state.rows_live();
        let mut pairs = rows.iter().flat_map(|row| &row.segments);
        pairs.any(|pair| {
            let mut mirrors = pair.iter().filter_map(|mirror| mirror.get().ssd());
            let elsewhere = pair
                .iter()
                .filter_map(|mirror| mirror.get().ssd())
                .any(|index| index != ssd.index && answers(self.members.ssd(index)));
            mirrors.any(|index| index == ssd.index) && !elsewhere
        })
    }

    /// A copy of something dirty that is set aside lies on this SSD.
    pub(crate) fn lists_copy_on(&self, ssd_uuid: u128) -> bool {
        let rows = self.state.rows_aside();
        let dirty = rows.iter().filter(|row| row.dirty() > 0);
        dirty.flat_map(|row| row.segments.iter().flatten()).any(|mirror| mirror.get().ssd_uuid() == Some(ssd_uuid))
    }

    /// What was read from `former` is read from `ssd`, which is the same one, opened anew, from the same turn on: as far as it is held
    /// there.
    pub(crate) fn read_from_newcomer(&self, former: &Ssd<E>, ssd: &Ssd<E>) {
        ssd.takes_over_from(former);
        for row in self.state.rows_aside() {
            for cell in row.segments.iter().flatten() {
                let Some(copy) = cell.get().present().filter(|copy| copy.ssd == former.index) else { continue };
                let is_held = ssd.segments.is_of_row(copy.segment, row.incarnation);
                cell.change(if is_held { MirrorChange::Found(ssd.index) } else { MirrorChange::Left });
            }
        }
    }

    /// A row that is written still, or sealed just now, has a copy on this SSD, which is away. Whether that one is whole is known when
    /// the row is sealed; if its other copy is lost before, it is all that there is.
    pub(crate) fn seals_without(&self, ssd_uuid: u128) -> bool {
        let rows = self.state.rows_live();
        let written = rows.iter().filter(|row| !row.life().has_ended());
        written.flat_map(|row| row.segments.iter().flatten()).any(|cell| cell.get().ssd_uuid() == Some(ssd_uuid))
    }

    /// The SSD's copies of rows that live are used for nothing else. Before it has slots.
    pub(crate) async fn hold_copies(&self, ssd: &Ssd<E>) -> Vec<OldCopy> {
        let rows = self.state.rows_live();
        let sealed: Vec<Rc<Row>> = rows.into_iter().filter(|row| row.life().is_sealed()).collect();
        let mut held = Vec::new();
        for row in &sealed {
            for (position, pair) in (0..).zip(&row.segments) {
                for (side, mirror) in pair.iter().map(MirrorCell::get).enumerate() {
                    let Mirror::Away { ssd_uuid, segment } = mirror else { continue };
                    if ssd_uuid == ssd.uuid && hold_segment(ssd.to_read(), row, position, segment).await {
                        held.push(OldCopy { row: Rc::clone(row), position, side, segment });
                    }
                }
            }
        }
        held
    }

    /// They are copies again, durably, as far as the rows live and they are whole.
    pub(crate) async fn commit_copies(&self, ssd: &Rc<Ssd<E>>, copies: Vec<OldCopy>) {
        let intact = self.intact_copies(ssd, copies).await;
        let (relied_on, others): (Vec<_>, Vec<_>) =
            intact.into_iter().partition(|copy| self.may_be_relied_on(ssd, copy));
        others.iter().for_each(|copy| self.free_old_copy(ssd, copy));
        for copy in &relied_on {
            copy.cell().change(MirrorChange::Found(ssd.index));
        }
        // Asked for in the same turn: no record of an SSD that left can come between.
        if !relied_on.is_empty() && self.rows.record_rows().await.is_err() {
            for copy in relied_on.iter().filter(|copy| copy.cell().get().is_on(ssd.index)) {
                copy.cell().change(MirrorChange::Left);
            }
        }
        self.segments.count_openable();
        self.judge_mirrors();
    }

    /// Those that are whole. None of them counts yet: the SSDs with the other copies may leave meanwhile.
    async fn intact_copies(&self, ssd: &Rc<Ssd<E>>, copies: Vec<OldCopy>) -> Vec<OldCopy> {
        let mut intact = Vec::new();
        for copy in copies {
            if self.is_sealed_copy(&copy, copy.on(ssd)).await {
                intact.push(copy);
            } else {
                self.free_old_copy(ssd, &copy);
            }
        }
        intact
    }

    /// The row lives as it was. One that lost its other copy meanwhile is set aside, and its twin has what there is of it.
    fn may_be_relied_on(&self, ssd: &Ssd<E>, copy: &OldCopy) -> bool {
        let row = &copy.row;
        let lives = self.state.row_at(row.slot).is_some_and(|other| Rc::ptr_eq(&other, row))
            && self.state.numbers.is_live(row.number)
            && row.life().is_sealed();
        let is_away = copy.cell().get() == Mirror::Away { ssd_uuid: ssd.uuid, segment: copy.segment };
        lives && is_away && ssd.is_online()
    }

    /// Its segment is used for something else, unless its row is set aside with it, or was freed with it.
    fn free_old_copy(&self, ssd: &Ssd<E>, copy: &OldCopy) {
        let is_kept = ssd.segments.is_of_row(copy.segment, copy.row.incarnation);
        if is_kept && ssd.is_online() && !self.is_set_aside_on(copy.row.number, copy.on(ssd)) {
            ssd.segments.set_free(copy.segment, Some(copy.row.incarnation));
            ssd.wake_for_segments();
        }
    }

    /// The twin of a row has this copy, there or away.
    fn is_set_aside_on(&self, row: u64, copy: PresentCopy) -> bool {
        self.state.aside_of(row).is_some_and(|twin| twin.names_segment(copy.ssd_uuid, copy.segment))
    }

    /// It says of itself what the row is known to be: it was whole before the SSD left.
    async fn is_sealed_copy(&self, copy: &OldCopy, mirror: PresentCopy) -> bool {
        let ssd = self.members.to_read().get(mirror.ssd);
        let Some(bytes) = read_summary_of(ssd, &copy.row, mirror).await else { return false };
        let row = &copy.row;
        Summary::decode(&bytes).is_ok_and(|summary| {
            summary.header == row.header(copy.position)
                && summary.fits(row.batches_end())
                && summary.row_batches == row.batches()
                && summary.last_checksum == row.last_checksum()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::SsdIndex;
    use crate::log::row_life::RowChange;
    use crate::log::tests::{copy_on, open_row, with_log};

    // proves: F5, F9
    #[test]
    fn a_copy_on_an_ssd_that_is_back_counts_in_the_turn_in_which_its_record_is_asked_for() {
        with_log(async |log| {
            let copies = [0, 1].map(|index| {
                let segments = &log.members.ssd(SsdIndex(index)).segments;
                let segment = segments.for_slots().last().expect("it has segments");
                assert!(segments.set_log(segment, 7));
                copy_on(log, index, segment)
            });
            let row = open_row(log, copies.map(Mirror::There));
            row.change(RowChange::Closed);
            log.segments.write_summaries(&row).await;
            row.change(RowChange::BatchesEnded);
            row.segments[0][0].change(MirrorChange::Left);
            let old = || vec![OldCopy { row: Rc::clone(&row), position: 0, side: 0, segment: copies[0].segment }];
            let ssd = log.members.ssd(SsdIndex(0));
            assert_eq!(log.mirrorer.intact_copies(ssd, old()).await.len(), 1);
            assert!(!row.segments[0][0].get().is_there(), "if the other SSD leaves now, the segment is lost with it");
            log.mirrorer.commit_copies(ssd, old()).await;
            assert!(row.segments[0][0].get().is_there());
        });
    }

    #[test]
    fn a_copy_of_a_row_that_is_freed_while_its_ssd_comes_back_is_freed_with_it_and_not_once_more() {
        with_log(async |log| {
            let ssd = log.members.ssd(SsdIndex(0));
            let segment = ssd.segments.for_slots().last().expect("it has segments");
            assert!(ssd.segments.set_log(segment, 7));
            let row = open_row(log, [Mirror::Away { ssd_uuid: ssd.uuid, segment }, Mirror::Nowhere]);
            let copies = vec![OldCopy { row: Rc::clone(&row), position: 0, side: 0, segment }];
            log.rows.drop_row(&row);
            assert!(!ssd.segments.is_of_row(segment, 7));
            log.mirrorer.commit_copies(ssd, copies).await;
        });
    }
}
