//! What is set aside is looked for on the SSDs: segments that have the header of its row.

use std::rc::Rc;

use hotset_block::{Env, PAGE_BYTES, RealInstant};

use crate::address::at;
use crate::format::log::SegmentHeader;
use crate::format::losses::{AsideRow, AsideSegment, Loss, Losses};
use crate::format::rows::{Rows, SegmentCopy};
use crate::log::row::Row;
use crate::log::segment_copy::{Mirror, MirrorChange};
use crate::log::write_log::WriteLog;
use crate::members::reading::{ReadSsd, ReadSsds};

/// The rows that the losses record sets aside, with the copies that are there. Before any slot is listed.
pub(super) async fn list_set_aside<E: Env>(
    ssds: ReadSsds<'_, E>,
    log: &WriteLog,
    rows: &Rows,
    losses: &Losses,
    segment_pages: u32,
    now: RealInstant,
) {
    log.losses.note_paths(losses.ssds.iter().cloned());
    for listed in &losses.rows {
        // More of the row may be lost yet.
        let in_log = rows.rows.iter().find(|row| row.number == listed.number).map_or(0, |row| row.segments.len());
        let named = listed.segments.iter().map(|segment| at(segment.position) + 1).max().unwrap_or(0);
        let aside = |slot| {
            let (number, incarnation, segment_pages) = (listed.number, listed.incarnation, listed.segment_pages);
            Row::new_aside(slot, number, incarnation, in_log.max(named), segment_pages, now)
        };
        let Some(row) = add_aside_row(log, aside) else { continue };
        for segment in listed.segments.iter().filter(|segment| !is_in_log(rows, listed, segment)) {
            for (cell, (ssd_uuid, number)) in row.segments[at(segment.position)].iter().zip(segment.copies) {
                if ssd_uuid != 0 {
                    cell.change(MirrorChange::Named { ssd_uuid, segment: number });
                }
            }
        }
        for ssd in ssds.iter() {
            hold_segments(ssd, std::slice::from_ref(&row)).await;
            find_copies(ssd, &row).await;
        }
        let is_here = |uuid: u128| ssds.iter().any(|ssd| ssd.uuid() == uuid);
        let copies = row.segments.iter().flatten().filter_map(|copy| copy.get().ssd_uuid());
        copies.filter(|uuid| !is_here(*uuid)).for_each(|uuid| log.losses.wait_for(uuid));
    }
    // Of others, what is clean is listed alone, as long as the row itself or an older one is in the log.
    for group in losses.groups.iter().filter(|group| group.what == Loss::Clean) {
        let lacks = log.rows_live().iter().any(|row| row.number == group.row && row.has_lost_segment());
        if !lacks && !log.nothing_is_older_than(group.row) && log.aside_of(group.row).is_none() {
            // What else of the row will be set aside goes to the same twin.
            let in_log = rows.rows.iter().find(|row| row.number == group.row);
            let (incarnation, segments) = in_log.map_or((0, 1), |row| (row.incarnation, row.segments.len()));
            add_aside_row(log, |slot| Row::new_aside(slot, group.row, incarnation, segments, segment_pages, now));
        }
    }
}

/// `None`: there is no place in memory for one more.
pub(super) fn add_aside_row(log: &WriteLog, row: impl FnOnce(u32) -> Row) -> Option<Rc<Row>> {
    let row = Rc::new(row(log.free_row_slot()?));
    log.add_aside(&row);
    Some(row)
}

/// A segment of an SSD that is kept for a row.
pub(crate) struct HeldSegment {
    pub(crate) row: u64,
    pub(crate) incarnation: u64,
    /// Of the SSD.
    pub(crate) segment: u32,
}

/// The segments that rows which are set aside have on an SSD are used for nothing else. Before it has slots.
pub(crate) async fn hold_segments<E: Env>(ssd: ReadSsd<'_, E>, rows: &[Rc<Row>]) -> Vec<HeldSegment> {
    let mut held = Vec::new();
    for row in rows {
        for (position, pair) in (0..).zip(&row.segments) {
            let places = pair.iter().filter_map(|mirror| mirror.get().place());
            for (_, segment) in places.filter(|(ssd_uuid, _)| *ssd_uuid == ssd.uuid()) {
                if hold_segment(ssd, row, position, segment).await {
                    held.push(HeldSegment { row: row.number, incarnation: row.incarnation, segment });
                }
            }
        }
    }
    held
}

/// False: it was used for something else since. What cannot be read may be all that there is of the row: it is held, too.
pub(crate) async fn hold_segment<E: Env>(ssd: ReadSsd<'_, E>, row: &Row, position: u32, segment: u32) -> bool {
    is_own_segment(ssd, row, position, segment).await != Some(false) && ssd.take_for_log(segment, row.incarnation)
}

/// Whether the segment has the header of this row: then it was not used for anything else. `None`: that cannot be read.
async fn is_own_segment<E: Env>(ssd: ReadSsd<'_, E>, row: &Row, position: u32, segment: u32) -> Option<bool> {
    if u64::from(segment) >= ssd.layout().segment_count() {
        return Some(false);
    }
    let page = ssd.read(ssd.layout().segment_offset(segment), PAGE_BYTES).await.ok()?;
    Some(SegmentHeader::decode(&page) == Ok(row.header(position)))
}

/// Copies of the row that are on this SSD count from now on, also where nobody can say whether they are whole: each page is compared
/// with what is listed.
pub(crate) async fn find_copies<E: Env>(ssd: ReadSsd<'_, E>, row: &Row) {
    for (position, pair) in (0..).zip(&row.segments) {
        for cell in pair {
            let Mirror::Away { ssd_uuid, segment } = cell.get() else { continue };
            let is_there = ssd_uuid == ssd.uuid()
                && ssd.is_of_row(segment, row.incarnation)
                && is_own_segment(ssd, row, position, segment).await != Some(false);
            if is_there && ssd.is_readable() {
                cell.change(MirrorChange::Found(ssd.index()));
            }
        }
    }
}

/// The row record still has a copy that the list sets aside: the record of the losses was written, and that of the rows without
/// them was not.
fn is_in_log(rows: &Rows, listed: &AsideRow, segment: &AsideSegment) -> bool {
    let row = rows.rows.iter().find(|row| (row.number, row.incarnation) == (listed.number, listed.incarnation));
    let pair = row.and_then(|row| row.segments.get(at(segment.position)));
    let is_listed = |copy: &SegmentCopy| !copy.lost && segment.copies.contains(&(copy.ssd_uuid, copy.segment));
    pair.is_some_and(|pair| pair.iter().any(is_listed))
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use hotset_block::HostEnv;

    use super::*;
    use crate::address::SsdIndex;
    use crate::format::losses::Group;
    use crate::format::rows::RowRecord;
    use crate::log::segment_copy::PresentCopy;
    use crate::members::roster::Roster;
    use crate::members::ssd::Ssd;

    /// What a start with these rows sets aside of a row of which something is clean.
    fn twin_of_clean(rows: [u64; 2], row: u64) -> Option<Rc<Row>> {
        let record = |number| RowRecord {
            number,
            incarnation: 10 + number,
            version_ceiling: 0,
            sealed: true,
            segments: vec![[1, 2].map(|ssd_uuid| SegmentCopy { ssd_uuid, segment: 3, lost: false }); 3],
        };
        let rows = Rows { oldest_live: rows[0], rows: rows.map(record).to_vec(), ..Rows::default() };
        let log = WriteLog::new();
        let there = |ssd: u16| Mirror::There(PresentCopy { ssd_uuid: ssd.into(), ssd: SsdIndex(ssd), segment: 3 });
        for RowRecord { number, incarnation, .. } in &rows.rows {
            let slot = log.free_row_slot().unwrap();
            let mirrors = vec![[there(1), there(2)]; 3];
            log.add_row(&Rc::new(Row::new(slot, *number, *incarnation, mirrors, 256, RealInstant(0))));
        }
        let clean = Group { row, attachment: 1, what: Loss::Clean, pages: vec![3..4, 8..9] };
        let losses = Losses { groups: vec![clean], ..Losses::default() };
        let none = Roster::<Ssd<HostEnv>>::new(Vec::new(), 0);
        let listed = list_set_aside(ReadSsds::new(&none), &log, &rows, &losses, 256, RealInstant(0));
        listed.now_or_never().expect("there is no SSD to be asked");
        log.aside_of(row)
    }

    /// What is set aside later of the same row goes to the same twin, whatever segment it lies in.
    #[test]
    fn what_is_clean_of_a_row_of_the_log_is_set_aside_with_all_segments_of_the_row() {
        let twin = twin_of_clean([1, 2], 2).expect("something of it is listed");
        assert_eq!((twin.segments.len(), twin.incarnation), (3, 12));
    }

    // proves: F5, F7
    #[test]
    fn what_is_clean_is_set_aside_as_long_as_its_row_or_an_older_one_is_in_the_log() {
        let is_set_aside = |row| twin_of_clean([3, 4], row).is_some();
        assert_eq!([2, 3, 4, 5].map(is_set_aside), [false, true, true, true]);
    }
}
