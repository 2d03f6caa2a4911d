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
    // Of others, what is clean is listed alone, as long as something older is in the log.
    for group in losses.groups.iter().filter(|group| group.what == Loss::Clean) {
        let lacks = log.rows_live().iter().any(|row| row.number == group.row && row.has_lost_segment());
        let is_newest = log.rows_live().iter().all(|row| row.number >= group.row);
        if !lacks && !is_newest && log.aside_of(group.row).is_none() {
            add_aside_row(log, |slot| Row::new_aside(slot, group.row, 0, 1, segment_pages, now));
        }
    }
}

/// `None`: there is no place in memory for one more.
pub(super) fn add_aside_row(log: &WriteLog, row: impl FnOnce(u32) -> Row) -> Option<Rc<Row>> {
    let row = Rc::new(row(log.free_row_slot()?));
    log.add_aside(&row);
    Some(row)
}

/// The segments that rows which are set aside have on an SSD are used for nothing else. Before it has slots.
pub(crate) async fn hold_segments<E: Env>(ssd: ReadSsd<'_, E>, rows: &[Rc<Row>]) {
    for row in rows {
        for (position, pair) in (0..).zip(&row.segments) {
            let places = pair.iter().filter_map(|mirror| mirror.get().place());
            for (_, segment) in places.filter(|(ssd_uuid, _)| *ssd_uuid == ssd.uuid()) {
                hold_segment(ssd, row, position, segment).await;
            }
        }
    }
}

/// False: it was used for something else since.
pub(crate) async fn hold_segment<E: Env>(ssd: ReadSsd<'_, E>, row: &Row, position: u32, segment: u32) -> bool {
    is_own_segment(ssd, row, position, segment).await && ssd.take_for_log(segment, row.incarnation)
}

/// The segment has the header of this row: it was not used for anything else.
async fn is_own_segment<E: Env>(ssd: ReadSsd<'_, E>, row: &Row, position: u32, segment: u32) -> bool {
    if u64::from(segment) >= ssd.layout().segment_count() {
        return false;
    }
    let read = ssd.read(ssd.layout().segment_offset(segment), PAGE_BYTES).await;
    read.is_ok_and(|page| SegmentHeader::decode(&page) == Ok(row.header(position)))
}

/// Copies of the row that are on this SSD count from now on.
pub(crate) async fn find_copies<E: Env>(ssd: ReadSsd<'_, E>, row: &Row) {
    for (position, pair) in (0..).zip(&row.segments) {
        for cell in pair {
            let Mirror::Away { ssd_uuid, segment } = cell.get() else { continue };
            let is_there =
                ssd_uuid == ssd.uuid() && ssd.is_of_log(segment) && is_own_segment(ssd, row, position, segment).await;
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
