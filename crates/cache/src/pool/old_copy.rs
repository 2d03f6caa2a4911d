//! SSDs that hold less of the write log than they had when it went on: copies of what they were at an earlier time, put
//! in their place (rule `membership`).
//!
//! A row record is written when what it says is durable on the SSDs that it names: segment headers before a row is in it,
//! summaries before it calls a row sealed, copies before it names them. It may be missing on an SSD, for power may fail
//! while the members get it; but then what it says of that SSD is there. Where both are missing, the SSD is an old copy.

use std::cmp::Reverse;

use hotset_block::{Buf, Env, PAGE_BYTES};

use crate::config::{PAGE, limits};
use crate::error::{Error, ErrorKind};
use crate::format::Unreadable;
use crate::format::log::{SegmentHeader, Summary, summary_pages};
use crate::format::rows::{Rows, SegmentCopy};
use crate::pool::Missing;
use crate::pool::survey::{Survey, SurveyedSsd, read_at};
use crate::time_limit::within;

impl<E: Env> Survey<E> {
    /// Takes old copies out of what was found: they are not believed, and count as missing. Where an administrator
    /// accepts a loss, the only copy of something is better than none, and of several the newest.
    pub(crate) async fn set_aside_old_copies(&mut self, env: &E, missing: Missing) -> Result<(), Error> {
        let mut aside = Vec::new();
        for (uuid, why) in self.old_copies(env).await? {
            let place = self.found.iter().position(|ssd| ssd.superblock.ssd_uuid == uuid);
            aside.push((self.found.remove(place.expect("it was just found")), why));
        }
        aside.sort_by_key(|(ssd, _)| Reverse(ssd.rows.as_ref().map(|record| record.number)));
        for (old, why) in aside {
            let uuid = old.superblock.ssd_uuid;
            if missing == Missing::AcceptLoss && self.misses(&[uuid]) {
                self.found.push(old);
            } else {
                let path = self.records.members.value.member(uuid).map_or(old.named.path, |member| member.path.clone());
                self.left_out.push((path, why));
            }
        }
        Ok(())
    }

    /// The members that are old copies, and what shows it.
    pub(crate) async fn old_copies(&self, env: &E) -> Result<Vec<(u128, Error)>, Error> {
        let mut old = Vec::new();
        for ssd in self.found.iter().filter(|ssd| ssd.is_in(&self.records.members.value)) {
            let number = ssd.rows.as_ref().map(|record| record.number);
            if number.is_some_and(|number| number >= self.records.rows_newest) {
                continue;
            }
            // One that does not answer shows nothing.
            let missed = within(env, limits::SSD_TIMEOUT, self.missed_row(env, ssd)).await;
            if let Some(row) = missed.transpose()?.flatten() {
                let message = format!(
                    "SSD {} is an old copy of what it was: it lacks what it had of row {row} of the write log, which the pool's \
                     newest record names",
                    ssd.named.path
                );
                old.push((ssd.superblock.ssd_uuid, Error::new(ErrorKind::Gone, message)));
            }
        }
        Ok(old)
    }

    /// A row that is not on this SSD as the newest record says, though it was there before that was written.
    async fn missed_row(&self, env: &E, ssd: &SurveyedSsd<E::Device>) -> Result<Option<u64>, Error> {
        let own =
            ssd.rows.as_ref().and_then(|record| Rows::decode(record.version, &record.payload).ok()).unwrap_or_default();
        for row in &self.records.rows.value.rows {
            let known =
                own.rows.iter().find(|known| (known.number, known.incarnation) == (row.number, row.incarnation));
            for (position, pair) in (0..).zip(&row.segments) {
                let is_own = |copy: &&SegmentCopy| copy.ssd_uuid == ssd.superblock.ssd_uuid && !copy.lost;
                let Some(copy) = pair.iter().find(is_own) else { continue };
                let named = known.and_then(|known| known.segments.get(usize::try_from(position).ok()?));
                let had = named.is_some_and(|pair| pair.contains(copy));
                // Of a sealed row, a copy that was made again has a summary if one could be read.
                let sealed_since = row.sealed && !known.is_some_and(|known| known.sealed);
                let header = SegmentHeader { row: row.number, incarnation: row.incarnation, position };
                let misses = (!had && misses_header(env, ssd, copy, &header).await?)
                    || (sealed_since && misses_summary(env, ssd, copy, &header).await?);
                if misses {
                    return Ok(Some(row.number));
                }
            }
        }
        Ok(None)
    }
}

/// What stands there was read, and is not the header. What cannot be read proves nothing.
async fn misses_header<E: Env>(
    env: &E,
    ssd: &SurveyedSsd<E::Device>,
    copy: &SegmentCopy,
    header: &SegmentHeader,
) -> Result<bool, Error> {
    let page = read_segment(env, ssd, copy, 0, PAGE_BYTES).await;
    page.map_or(Ok(false), |page| is_other(ssd, SegmentHeader::decode(&page), header))
}

/// What was decoded is damaged, or belongs to something else.
fn is_other<D>(
    ssd: &SurveyedSsd<D>,
    decoded: Result<SegmentHeader, Unreadable>,
    header: &SegmentHeader,
) -> Result<bool, Error> {
    match decoded {
        Ok(found) => Ok(found != *header),
        Err(Unreadable::Corrupt(_)) => Ok(true),
        Err(other @ Unreadable::OtherStream(_)) => Err(Error::unreadable(&format!("SSD {}", ssd.named.path), &other)),
    }
}

/// What stands there was read, and is not the summary.
async fn misses_summary<E: Env>(
    env: &E,
    ssd: &SurveyedSsd<E::Device>,
    copy: &SegmentCopy,
    header: &SegmentHeader,
) -> Result<bool, Error> {
    let segment_pages = ssd.superblock.layout.segment_bytes / PAGE;
    let kept = u64::from(summary_pages(u32::try_from(segment_pages).expect("a segment has fewer than 2^32 pages")));
    let first = segment_pages - kept;
    let Some(head) = read_segment(env, ssd, copy, first, PAGE_BYTES).await else { return Ok(false) };
    let Some(pages) = Summary::peek(&head).filter(|pages| u64::try_from(*pages).is_ok_and(|pages| pages <= kept))
    else {
        return Ok(true);
    };
    let summary = read_segment(env, ssd, copy, first, pages * PAGE_BYTES).await;
    let decoded = summary.map(|bytes| Summary::decode(&bytes).map(|summary| summary.header));
    decoded.map_or(Ok(false), |decoded| is_other(ssd, decoded, header))
}

/// Reads from this page of a segment on; `None` if there is nothing to read.
async fn read_segment<E: Env>(
    env: &E,
    ssd: &SurveyedSsd<E::Device>,
    copy: &SegmentCopy,
    page: u64,
    bytes: usize,
) -> Option<Buf> {
    let layout = &ssd.superblock.layout;
    if u64::from(copy.segment) >= layout.segment_count() {
        return None;
    }
    read_at::<E>(env, &ssd.named.device, layout.segment_offset(copy.segment) + page * PAGE, bytes).await
}
