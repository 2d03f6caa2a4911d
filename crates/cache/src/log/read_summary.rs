//! The summary of a row's segment is read, from whichever copy is good.

use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::address::at;
use crate::config::PAGE;
use crate::error::Error;
use crate::format::Unreadable;
use crate::format::log::{Summary, summary_pages};
use crate::log::row::Row;
use crate::log::segment_copy::PresentCopy;
use crate::members::reading::{ReadSsd, ReadSsds};

/// The summary of one of the row's segments, and its bytes; an error if it is of another stream of the pool.
pub(crate) async fn good_summary<E: Env>(
    ssds: ReadSsds<'_, E>,
    row: &Row,
    segment: u32,
) -> Result<Option<(Summary, Buf)>, Error> {
    for (index, mirror) in row.copies_one_by_one(segment) {
        let Some(bytes) = read_summary_of(ssds.get(index), row, mirror).await else { continue };
        match Summary::decode(&bytes) {
            Ok(summary) if summary.header == row.header(segment) && summary.fits(row.batches_end()) => {
                return Ok(Some((summary, bytes)));
            }
            Err(other @ Unreadable::OtherStream(_)) => return Err(of_other_stream(row, &other)),
            Ok(_) | Err(Unreadable::Corrupt(_)) => {}
        }
    }
    Ok(None)
}

/// What lies where this copy has its summary, as long as that says it is.
pub(crate) async fn read_summary_of<E: Env>(ssd: ReadSsd<'_, E>, row: &Row, mirror: PresentCopy) -> Option<Buf> {
    let offset = ssd.layout().segment_offset(mirror.segment) + u64::from(row.batches_end()) * PAGE;
    let first = ssd.read(offset, PAGE_BYTES).await.ok()?;
    let pages = Summary::peek(&first)?;
    if pages > at(summary_pages(row.segment_pages)) {
        return None;
    }
    ssd.read(offset, pages * PAGE_BYTES).await.ok()
}

pub(super) fn of_other_stream(row: &Row, other: &Unreadable) -> Error {
    Error::unreadable(&format!("row {} of the write log", row.number), other)
}
