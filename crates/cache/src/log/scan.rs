//! What the write log holds, as far as it can be read: the summaries of sealed rows, and row by row, batch by batch, what the others
//! hold, each batch from whichever copy is intact. Nothing is written: what is to be mended is a list in the end.
//!
//! A start has one, and so has who looks at a pool's SSDs without a daemon.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::try_join_all;
use hotset_block::{Env, Instant, PAGE_BYTES, RealInstant};

use crate::address::at;
use crate::config::{PAGE, PoolName};
use crate::error::{Error, ErrorKind, Remedy};
use crate::format::log::{Batch, Summary};
use crate::format::losses::Losses;
use crate::format::rows::{RowRecord, Rows, SegmentCopy};
use crate::log::gathered::{Gathered, corrupt};
use crate::log::read_summary::good_summary;
use crate::log::row::Row;
use crate::log::row_life::RowChange;
use crate::log::scan_aside::list_set_aside;
use crate::log::segment_copy::{Mirror, MirrorCell, PresentCopy};
use crate::log::stream::StreamMark;
use crate::log::window::Window;
use crate::log::write_log::WriteLog;
use crate::members::newest::Records;
use crate::members::reading::{ReadSsd, ReadSsds};
use crate::members::segments::Purpose;

/// What is done where a part of the log is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingPart {
    /// The pool is not opened: it may come back.
    Refuse,
    /// The rest is looked at.
    GoOn,
}

/// A scan of a write log.
pub(crate) struct LogScan<'a, E: Env> {
    pub(super) ssds: ReadSsds<'a, E>,
    /// Gets the rows, and what is found in them.
    pub(super) log: &'a WriteLog,
    pub(super) pool: &'a PoolName,
    pub(super) missing_part: MissingPart,
    pub(super) segment_pages: u32,
    pub(super) now: RealInstant,
    pub(super) found: RefCell<Scanned>,
    /// Since when SSDs answer with errors, and when one did the last time.
    pub(super) failing: Cell<Option<(Instant, Instant)>>,
}

/// What a scan found beside what the log holds.
#[derive(Default)]
pub(crate) struct Scanned {
    /// Pages that the log holds.
    pub(crate) pages: usize,
    /// Rows that were followed batch by batch: they get their headers, and a summary.
    pub(crate) walked: Vec<Rc<Row>>,
    /// Copies that lack a batch.
    pub(crate) repairs: Vec<Repair>,
    /// Bytes of them that are kept.
    kept_bytes: usize,
    /// What is missing.
    pub(crate) notes: Vec<String>,
}

/// A batch that is intact on one copy of a segment, and not on the other.
#[derive(Debug)]
pub(crate) struct Repair {
    /// Of its row.
    pub(crate) purpose: Purpose,
    pub(crate) from: PresentCopy,
    pub(crate) to: PresentCopy,
    /// The page of the segment at which it begins.
    pub(crate) page: u32,
    pub(crate) header_pages: u32,
    pub(crate) data_pages: u32,
    /// Of its header.
    pub(crate) checksum: u32,
    /// All of it, as it was read: the copy that has it may not bring it a second time. `None` beyond [`KEPT_BYTES_MAX`].
    pub(crate) bytes: Option<Vec<u8>>,
}

/// Bytes of batches that a scan keeps until they are on both copies.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// What the row record says of a row that is walked.
#[derive(Clone, Copy)]
pub(super) struct RecordedRow {
    pub(super) sealed: bool,
    /// No row was opened after it: it may have been dropped again, and its segments be meant for the next one, which is
    /// not on record yet.
    pub(super) newest: bool,
}

impl<'a, E: Env> LogScan<'a, E> {
    pub(crate) fn new(
        ssds: ReadSsds<'a, E>,
        log: &'a WriteLog,
        pool: &'a PoolName,
        missing_part: MissingPart,
        now: RealInstant,
    ) -> Self {
        // Of all SSDs of a pool alike.
        let segment_bytes = ssds.iter().next().map_or(PAGE, |ssd| ssd.layout().segment_bytes);
        let segment_pages = u32::try_from(segment_bytes / PAGE).expect("a segment has fewer than 2^32 pages");
        Self { ssds, log, pool, missing_part, segment_pages, now, found: RefCell::default(), failing: Cell::default() }
    }

    /// Finds what the log holds; `flushed`: what another member saw.
    pub(crate) async fn run(self, records: &Records, flushed: StreamMark) -> Result<Scanned, Error> {
        // What lay in segments of which both copies are lost, if that is known.
        let (rows, losses) = (&records.rows.value, records.known_losses());
        self.list_rows(rows)?;
        if let Some(losses) = losses {
            list_set_aside(self.ssds, self.log, rows, losses, self.segment_pages, self.now).await;
        }
        let ssd_bytes = self.ssds.iter().map(|ssd| ssd.layout().ssd_bytes).sum();
        let mut gathered = Gathered::new(&records.catalogue.value, ssd_bytes, flushed);
        for row in self.log.rows_live() {
            self.scan_row(&row, rows, losses, &mut gathered).await?;
        }
        if let Some(losses) = losses {
            gathered.gather_set_aside(self.log, losses);
        }
        if let Some(cut) = gathered.unproven {
            self.check_loss(cut)?;
        }
        self.check_cuts(&gathered)?;
        self.log.stream.goes_on_behind(last_checksum(self.log).unwrap_or(0));
        let pages = gathered.show(self.log)?;
        Ok(Scanned { pages, ..self.found.into_inner() })
    }

    async fn scan_row(
        &self,
        row: &Rc<Row>,
        rows: &Rows,
        losses: Option<&Losses>,
        gathered: &mut Gathered,
    ) -> Result<(), Error> {
        let record = rows.rows.iter().find(|record| record.number == row.number);
        let sealed = record.is_some_and(|record| record.sealed);
        if let Some(cut) = gathered.unproven.take() {
            self.verify_end(row, cut, gathered).await?;
        }
        if self.is_behind_a_gap(rows, row.number) {
            gathered.previous = None;
        }
        if row.has_lost_segment() {
            self.gather_rest(row, gathered).await?;
            match losses {
                Some(losses) => gathered.gather_losses(row, losses),
                None => self.note(lost_part(row)),
            }
            gathered.previous = None;
            return Ok(());
        }
        if sealed && self.gather_sealed(row, gathered).await? {
            return Ok(());
        }
        let newest = rows.rows.last().is_some_and(|record| record.number == row.number);
        self.walk_row(row, RecordedRow { sealed, newest }, gathered).await?;
        self.found.borrow_mut().walked.push(Rc::clone(row));
        Ok(())
    }

    /// The row before this one could not be listed: the chain begins anew behind it.
    fn is_behind_a_gap(&self, record: &Rows, number: u64) -> bool {
        let before = record.rows.iter().rev().find(|row| row.number < number);
        before.is_some_and(|before| self.log.rows_live().iter().all(|row| row.number != before.number))
    }

    /// The rows of the record, with the copies that are there.
    fn list_rows(&self, record: &Rows) -> Result<(), Error> {
        self.log.numbers.go_on_behind(record.oldest_live, record.rows.last().map(|row| row.number));
        for row in &record.rows {
            let slot = self.log.free_row_slot().ok_or_else(|| corrupt("its row records name too many rows"))?;
            let mut segments = Vec::new();
            for pair in &row.segments {
                segments.push([self.mirror(row, &pair[0])?, self.mirror(row, &pair[1])?]);
            }
            if segments.is_empty() {
                return Err(corrupt("a row of its write log has no segments"));
            }
            let missed = |(pair, copies): (&[Mirror; 2], &[SegmentCopy; 2])| {
                pair.iter().all(|mirror| !mirror.is_there()) && !copies.iter().all(|copy| copy.lost)
            };
            if segments.iter().zip(&row.segments).any(missed) {
                self.go_on_without(self.no_copy(row))?;
                continue;
            }
            let row = Row::new(slot, row.number, row.incarnation, segments, self.segment_pages, self.now);
            // Whatever it was: nothing comes to it any more.
            row.change(RowChange::HeadersDurable);
            row.change(RowChange::Closed);
            if row.has_lost_segment() {
                row.change(RowChange::Broke);
            }
            self.log.add_row(&Rc::new(row));
        }
        Ok(())
    }

    fn note(&self, note: String) {
        self.found.borrow_mut().notes.push(note);
    }

    /// What is missing is noted, and the rest is looked at, if that was asked for.
    fn go_on_without(&self, error: Error) -> Result<(), Error> {
        match self.missing_part {
            MissingPart::Refuse => Err(error),
            MissingPart::GoOn => {
                self.note(error.to_string());
                Ok(())
            }
        }
    }

    fn mirror(&self, row: &RowRecord, copy: &SegmentCopy) -> Result<Mirror, Error> {
        let is_there = |ssd: &ReadSsd<'_, E>| ssd.uuid() == copy.ssd_uuid && !copy.lost && ssd.is_readable();
        let ssd = self.ssds.iter().find(is_there);
        if let Some(ssd) = ssd
            && !ssd.take_for_log(copy.segment, row.incarnation)
        {
            return Err(corrupt("its row records name a segment that is not there, or name one twice"));
        }
        let SegmentCopy { ssd_uuid, segment, .. } = *copy;
        Ok(match ssd.map(|ssd| ssd.index()) {
            Some(ssd) => Mirror::There(PresentCopy { ssd_uuid, ssd, segment }),
            None if ssd_uuid == 0 => Mirror::Nowhere,
            None => Mirror::Away { ssd_uuid, segment },
        })
    }

    /// What `Survey::check_copies` refused before, if nobody accepted it.
    fn no_copy(&self, row: &RowRecord) -> Error {
        let message = format!("pool {}: no copy of row {} of its write log is there", self.pool, row.number);
        Error::new(ErrorKind::Gone, message)
    }

    /// Takes what a sealed row's summaries say. False: one of them cannot be read, and the row is to be walked.
    async fn gather_sealed(&self, row: &Rc<Row>, gathered: &mut Gathered) -> Result<bool, Error> {
        let segments = u32::try_from(row.segments.len()).expect("a row has at most 32 segments");
        let reads = (0..segments).map(async |segment| {
            let good = good_summary(self.ssds, row, segment).await?;
            // Its first page was read before, to learn how long it is.
            let read = good.as_ref().map_or(0, |(_, bytes)| bytes.len() + PAGE_BYTES);
            self.has_read(read);
            Ok(good.map(|(summary, _)| summary))
        });
        let summaries: Option<Vec<Summary>> = try_join_all(reads).await?.into_iter().collect();
        let Some(summaries) = summaries else { return Ok(false) };
        row.is_as_summarised(&summaries[0]);
        // An empty one says what was known of the one before it then, which may have been nothing.
        if summaries[0].row_batches > 0 {
            gathered.previous = Some(summaries[0].last_checksum);
        }
        for summary in summaries {
            gather_summary(row, &summary, gathered);
        }
        Ok(true)
    }

    pub(super) fn has_read(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).expect("a length fits in 64 bits");
        self.log.recovered_bytes.set(self.log.recovered_bytes.get() + bytes);
    }

    /// Of a row that lacks segments: what the others hold, by their summaries, or batch by batch, without the chain that
    /// runs through all of them. Batches of other rows have another number and incarnation. What is believed is to be on both
    /// copies.
    async fn gather_rest(&self, row: &Rc<Row>, gathered: &mut Gathered) -> Result<(), Error> {
        for segment in 0..u32::try_from(row.segments.len()).expect("a row has at most 32 segments") {
            match good_summary(self.ssds, row, segment).await? {
                Some((summary, _)) => gather_summary(row, &summary, gathered),
                None => self.gather_segment(row, segment, gathered).await?,
            }
        }
        Ok(())
    }

    /// Batch by batch, as far as they are intact on one copy.
    async fn gather_segment(&self, row: &Rc<Row>, segment: u32, gathered: &mut Gathered) -> Result<(), Error> {
        let segments = u32::try_from(row.segments.len()).expect("a row has at most 32 segments");
        let base = segment * row.segment_pages;
        let mirrors = row.segments[at(segment)].each_ref().map(MirrorCell::get);
        let mut windows = [Window::new(), Window::new()];
        let mut page = 1;
        while page + 2 <= row.batches_end() {
            let reads = mirrors.iter().zip(windows.iter_mut());
            let reads = reads.map(|(mirror, window)| self.read_batch(row, *mirror, window, page));
            let copies: Vec<Option<Batch>> = try_join_all(reads).await?;
            let ours = |batch: &Batch| batch.place.index % segments == segment;
            let Some(good) = copies.iter().position(|copy| copy.as_ref().is_some_and(ours)) else { break };
            let Some(batch) = &copies[good] else { break };
            self.note_repairs(&mirrors, &copies, good, &windows, page);
            gathered.gather(row, base + page, batch.header_pages, &batch.entries);
            page += batch.header_pages + batch.data_pages;
            windows.iter_mut().for_each(|window| window.advance(page));
        }
        Ok(())
    }

    /// Notes the copies that have another batch at this page than the good one, or none.
    pub(super) fn note_repairs(
        &self,
        mirrors: &[Mirror; 2],
        copies: &[Option<Batch>],
        good: usize,
        windows: &[Window; 2],
        page: u32,
    ) {
        let (Some(from), Some(batch)) = (mirrors[good].present(), &copies[good]) else { return };
        let Batch { header_pages, data_pages, checksum, .. } = *batch;
        for (mirror, copy) in mirrors.iter().zip(copies) {
            let same = copy.as_ref().is_some_and(|other| other.checksum == checksum);
            if let Some(to) = mirror.present().filter(|_| !same) {
                assert!(to != from, "a copy that is good is not mended from itself");
                let purpose = Purpose::Log { incarnation: batch.place.incarnation };
                let bytes =
                    windows[good].pages(page, header_pages + data_pages).expect("a batch that is good was read");
                let mut found = self.found.borrow_mut();
                let bytes = (found.kept_bytes + bytes.len() <= KEPT_BYTES_MAX).then(|| bytes.to_vec());
                found.kept_bytes += bytes.as_ref().map_or(0, Vec::len);
                found.repairs.push(Repair { purpose, from, to, page, header_pages, data_pages, checksum, bytes });
            }
        }
    }

    /// A chain that ends before what was flushed is a loss, not a cut; also where only a later row says so.
    fn check_cuts(&self, gathered: &Gathered) -> Result<(), Error> {
        let lost =
            gathered.cuts.iter().find(|cut| gathered.flushed.row == cut.row && gathered.flushed.index > cut.index);
        lost.map_or(Ok(()), |cut| self.check_loss(*cut))
    }

    pub(super) fn check_loss(&self, cut: StreamMark) -> Result<(), Error> {
        let message = format!(
            "pool {}: row {} of its write log is damaged, or of an old copy, on every SSD that is here, from batch {} on, \
                 and what is missing there was flushed: its volumes are not served. Bring back SSDs that are missing, as \
                 they were; or have what can be read written to the backing devices",
            self.pool, cut.row, cut.index
        );
        self.go_on_without(Error::new(ErrorKind::Corrupt, message).with_remedy(Remedy::RecoverByHand))
    }
}

fn gather_summary(row: &Row, summary: &Summary, gathered: &mut Gathered) {
    let base = summary.header.position * row.segment_pages;
    for batch in &summary.batches {
        gathered.gather(row, base + batch.first_page, batch.header_pages, &batch.entries);
    }
}

/// The checksum that the next start takes for that of the batch before the first new one; `None`: any.
fn last_checksum(log: &WriteLog) -> Option<u32> {
    log.rows_live().iter().fold(None, |before, row| match row.batches() {
        _ if row.has_lost_segment() => None,
        0 => before,
        _ => Some(row.last_checksum()),
    })
}

fn lost_part(row: &Row) -> String {
    format!(
        "row {} of the write log lacks a part of which both copies are lost; what it was, only the state directory knows",
        row.number
    )
}
