//! What the write log holds after a start (rule `recovery`): the summaries of sealed rows, and row by row, batch by batch,
//! what the others hold, each batch from whichever copy is whole. Then both copies are brought into line, flushed, and
//! the end that was found is recorded; only then does the pool serve. A crash at any moment of this changes nothing.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::{join_all, try_join_all};
use hotset_block::{Env, PAGE_BYTES};

use crate::address::{VolumeIndex, at};
use crate::config::PAGE;
use crate::error::{Error, ErrorKind};
use crate::format::log::{Batch, Entry, Payload, SegmentHeader, Summary};
use crate::format::losses::{AsidePage, Loss, Losses};
use crate::format::rows::{Row as RowRecord, Rows};
use crate::format::{Unreadable, crc32c};
use crate::log::append::has_lost_segment;
use crate::log::overlay::{Content, Live, PAGES_MAX, Place};
use crate::log::write_log::{Known, Log, Mirror, Row, RowState, StreamMark};
use crate::members::segments::Purpose;
use crate::planted::{Planted, planted};
use crate::pool::PoolInner;

/// Pages of a copy that are read at a time.
const READ_PAGES: u32 = 64;

/// A page as an entry of the log describes it.
struct Found {
    volume: VolumeIndex,
    page: u64,
    version: u64,
    place: Place,
    content: Content,
    /// It is on the backing device.
    clean: bool,
}

/// Pages that are zeroes, or lost, by one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FoundRange {
    volume: VolumeIndex,
    pages: Range<u64>,
    version: u64,
    place: Place,
    content: Content,
    clean: bool,
}

impl FoundRange {
    fn page(&self, page: u64) -> Found {
        let Self { volume, version, place, content, clean, .. } = *self;
        Found { volume, page, version, place, content, clean }
    }
}

/// What was read of one copy of a segment, in order: each page once.
struct Window {
    /// The page of the segment with which `bytes` begins.
    first: u32,
    bytes: Vec<u8>,
    /// The first page that may be asked for again.
    wanted: u32,
    /// The SSD did not answer: this copy is not asked again.
    failed: bool,
}

impl Window {
    /// Batches begin behind the segment's header.
    fn new() -> Self {
        Self { first: 1, bytes: Vec::new(), wanted: 1, failed: false }
    }

    fn end(&self) -> u32 {
        self.first + u32::try_from(self.bytes.len() / PAGE_BYTES).expect("a segment is small")
    }

    /// Nothing before this page is asked for again.
    fn advance(&mut self, page: u32) {
        self.wanted = page;
        // The other copy may have brought what this one was not read for.
        if page > self.end() {
            self.bytes.clear();
            self.first = page;
        }
    }

    /// The pages from `page` on, if they were read.
    fn pages(&self, page: u32, count: u32) -> Option<&[u8]> {
        let start = at(page.checked_sub(self.first)?) * PAGE_BYTES;
        self.bytes.get(start..start + at(count) * PAGE_BYTES)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..at(self.wanted - self.first) * PAGE_BYTES);
        self.first = self.wanted;
        self.bytes.extend_from_slice(bytes);
    }
}

/// For each segment of a row, what was read of its copies.
type Windows = Vec<[Window; 2]>;

/// What was gathered so far.
#[derive(Default)]
struct Gathered {
    found: Vec<Found>,
    /// Many pages by few bytes: they are told apart when it is known which of them are the newest.
    ranges: Vec<FoundRange>,
    /// They have no more pages than this.
    range_pages_max: u64,
    /// Pages of each volume.
    volume_pages: Vec<u64>,
    /// Row number, position, count.
    hints: Vec<(u64, u32, u32)>,
    /// What batches claimed to be flushed before them, or another member saw.
    flushed: StreamMark,
    /// The first batch that is missing, if a row ends before what was flushed would show.
    cuts: Vec<StreamMark>,
    /// The checksum of the last batch; `None`: of a row that is free by now.
    previous: Option<u32>,
    /// Where a sealed row was found to end that has room for more: the row behind it has to say that this is its end.
    unproven: Option<StreamMark>,
}

impl Gathered {
    /// The pages of these that the volume has. No host could have written to others: a volume's size is recorded before it
    /// grows.
    fn inside(&self, volume: VolumeIndex, pages: Range<u64>) -> Range<u64> {
        let end = self.volume_pages[usize::from(volume.0)];
        pages.start.min(end)..pages.end.min(end)
    }
}

/// What the row record says of a row that is walked.
#[derive(Clone, Copy)]
struct Recorded {
    sealed: bool,
    /// No row was opened after it: it may have been dropped again, and its segments be headed for the next one, which is
    /// not on record yet.
    newest: bool,
}

/// What lies in a row behind the end of its chain.
#[derive(Default)]
struct Behind {
    flushed: StreamMark,
    /// Batches of the row that do not follow the chain, on all copies together.
    batches: u32,
}

impl Behind {
    fn add(&mut self, batch: &Batch, row: &Row) {
        let mark = StreamMark { row: batch.place.flushed_row, index: batch.place.flushed_index };
        self.flushed = self.flushed.max(mark);
        self.batches += u32::from(batch.place.index >= row.batches.get());
    }
}

fn of_other_stream(row: &Row, other: &Unreadable) -> Error {
    Error::unreadable(&format!("row {} of the write log", row.number), other)
}

impl<E: Env> PoolInner<E> {
    /// Brings what the log holds into memory; answers what is told to the administrator. `losses`: what lay in segments
    /// of which both copies are lost, if that is known.
    pub(crate) async fn recover_log(
        self: &Rc<Self>,
        log: &Rc<Log>,
        rows: &Rows,
        losses: Option<&Losses>,
    ) -> Result<String, Error> {
        let started = self.env.real_now();
        self.list_rows(log, rows)?;
        if let Some(losses) = losses {
            self.list_set_aside(log, rows, losses).await;
        }
        // Zeroes and losses take the place of what lay in the log, on SSDs of which some may have left since.
        let range_pages_max = self.members.ssds().map(|ssd| ssd.layout.ssd_bytes / PAGE * 4).sum();
        let (row, index) = self.members.witnessed_log_end();
        let flushed = StreamMark { row, index };
        let mut gathered =
            Gathered { range_pages_max, volume_pages: self.volume_pages(), flushed, ..Gathered::default() };
        let mut walked = Vec::new();
        for row in log.rows_live() {
            let record = rows.rows.iter().find(|record| record.number == row.number);
            let sealed = record.is_some_and(|record| record.sealed);
            if let Some(cut) = gathered.unproven.take() {
                self.verify_end(log, &row, cut, &mut gathered).await?;
            }
            if self.is_behind_a_gap(log, rows, row.number) {
                gathered.previous = None;
            }
            if has_lost_segment(&row) {
                self.gather_rest(log, &row, &mut gathered).await?;
                match (losses, &self.offline) {
                    (Some(losses), _) => self.gather_losses(&row, losses, &mut gathered),
                    (None, Some(notes)) => notes.borrow_mut().push(lost_part(&row)),
                    (None, None) => {}
                }
                gathered.previous = None;
                continue;
            }
            if sealed && self.gather_sealed(log, &row, &mut gathered).await {
                continue;
            }
            let newest = rows.rows.last().is_some_and(|record| record.number == row.number);
            self.walk_row(log, &row, Recorded { sealed, newest }, &mut gathered).await?;
            walked.push(row);
        }
        if let Some(losses) = losses {
            self.gather_set_aside(log, losses, &mut gathered);
        }
        if planted(Planted::ReturnedWhole) {
            for row in log.rows_aside() {
                self.gather_rest(log, &row, &mut gathered).await?;
            }
        }
        if let Some(cut) = gathered.unproven {
            self.check_loss(cut)?;
        }
        self.check_cuts(&gathered)?;
        log.last_checksum.set(last_checksum(log).unwrap_or(0));
        let pages = self.show_gathered(log, gathered)?;
        log.set_known(Known::Yes);
        if self.offline.is_some() {
            return Ok(format!("{pages} pages found in {} rows", log.row_count()));
        }
        // What they hold is not needed: only now are they not waited for any more.
        self.members.dismiss_missing().await?;
        for row in &walked {
            self.repair_headers(row).await;
            if !planted(Planted::RecoverWithoutRepair) {
                self.write_summaries(row).await;
            }
        }
        for row in log.rows_live() {
            row.state.set(RowState::Sealed);
            row.drafts.borrow_mut().clear();
        }
        self.measure_log(log);
        self.record_rows(log).await?;
        let milliseconds = self.env.real_now().since(started).as_millis();
        log.recovery_milliseconds.set(u64::try_from(milliseconds).unwrap_or(u64::MAX));
        let total = log.overlay.borrow().total();
        Ok(format!(
            "write log: {} bytes dirty, {} bytes clean of {pages} pages found in {} rows, {} bytes read in \
             {milliseconds} ms",
            total.dirty * PAGE,
            (total.live - total.dirty) * PAGE,
            log.row_count(),
            log.recovered_bytes.get(),
        ))
    }

    /// Pages that the catalogue gives each volume.
    fn volume_pages(&self) -> Vec<u64> {
        let catalogue = self.attachments.catalogue();
        let pages_of = |attachment: u64| {
            let known = catalogue.volumes.iter().find(|known| known.attachment == attachment);
            known.map_or(0, |known| known.backing.size_bytes.div_ceil(PAGE))
        };
        self.ids.indexes().map(|index| self.ids.of(index).map_or(0, pages_of)).collect()
    }

    /// The row before this one could not be listed: the chain begins anew behind it.
    fn is_behind_a_gap(&self, log: &Log, record: &Rows, number: u64) -> bool {
        let before = record.rows.iter().rev().find(|row| row.number < number);
        before.is_some_and(|before| log.rows_live().iter().all(|row| row.number != before.number))
    }

    /// The rows of the record, with the copies that are there.
    fn list_rows(&self, log: &Log, record: &Rows) -> Result<(), Error> {
        log.oldest_live.set(record.oldest_live.max(1));
        for row in &record.rows {
            let slot = log.free_row_slot().ok_or_else(|| corrupt("its row records name too many rows"))?;
            let mut segments = Vec::new();
            for pair in &row.segments {
                segments.push([self.mirror(&pair[0])?, self.mirror(&pair[1])?]);
            }
            if segments.is_empty() || segments.len() > 32 {
                return Err(corrupt("a row of its write log has no segments"));
            }
            let missed = |(pair, copies): (&[Mirror; 2], &[crate::format::rows::Copy; 2])| {
                pair.iter().all(|mirror| mirror.ssd.is_none()) && !copies.iter().all(|copy| copy.lost)
            };
            if segments.iter().zip(&row.segments).any(missed) {
                let error = self.no_copy(row);
                if self.may_go_on(&error) {
                    continue;
                }
                return Err(error);
            }
            let row = Row::new(slot, row.number, row.incarnation, segments, self.segment_pages(), self.env.real_now());
            row.state.set(RowState::Sealing);
            row.headers_durable.set(true);
            row.intact.set(!has_lost_segment(&row));
            log.add_row(&Rc::new(row));
        }
        let next = record.rows.last().map_or(1, |row| row.number + 1);
        log.next_number.set(next.max(log.oldest_live.get()));
        Ok(())
    }

    /// Without a daemon, what is wrong is noted, and the rest is looked at; and an administrator may have accepted it.
    fn may_go_on(&self, error: &Error) -> bool {
        if let Some(notes) = &self.offline {
            notes.borrow_mut().push(error.to_string());
        }
        self.offline.is_some() || self.accepts_loss
    }

    fn mirror(&self, copy: &crate::format::rows::Copy) -> Result<Mirror, Error> {
        let ssd = self.members.ssds().find(|ssd| ssd.uuid == copy.ssd_uuid && !copy.lost && ssd.life().is_readable());
        if let Some(ssd) = ssd
            && !ssd.segments.borrow_mut().set_log(copy.segment)
        {
            return Err(corrupt("its row records name a segment that is not there, or name one twice"));
        }
        Ok(Mirror { ssd_uuid: copy.ssd_uuid, ssd: ssd.map(|ssd| ssd.index), segment: copy.segment })
    }

    /// What `Survey::check_copies` refused before, if nobody accepted it.
    fn no_copy(&self, row: &RowRecord) -> Error {
        let message = format!("pool {}: no copy of row {} of its write log is there", self.name, row.number);
        Error::new(ErrorKind::Gone, message)
    }

    /// Takes what a sealed row's summaries say. False: one of them cannot be read, and the row is to be walked.
    async fn gather_sealed(self: &Rc<Self>, log: &Log, row: &Rc<Row>, gathered: &mut Gathered) -> bool {
        let segments = u32::try_from(row.segments.len()).expect("segments of a row are bounded");
        let reads = (0..segments).map(async |segment| {
            let (summary, bytes) = self.good_summary(row, segment).await?;
            // Its first page was read before, to learn how long it is.
            let read = u64::try_from(bytes.len() + PAGE_BYTES).expect("a segment is small");
            log.recovered_bytes.set(log.recovered_bytes.get() + read);
            Some(summary)
        });
        let summaries: Option<Vec<Summary>> = join_all(reads).await.into_iter().collect();
        let Some(summaries) = summaries else { return false };
        row.batches.set(summaries[0].row_batches);
        // An empty one says what was known of the one before it then, which may have been nothing.
        if summaries[0].row_batches > 0 {
            gathered.previous = Some(summaries[0].last_checksum);
        }
        row.last_checksum.set(summaries[0].last_checksum);
        for summary in summaries {
            let base = summary.header.position * row.segment_pages;
            for batch in summary.batches {
                self.gather(row, base + batch.first_page, batch.header_pages, &batch.entries, gathered);
            }
        }
        true
    }

    /// Of a row that lacks segments: what the others hold, by their summaries, or batch by batch, without the chain that
    /// runs through all of them. Batches of other rows have another number and incarnation. What is believed is brought to
    /// both copies.
    async fn gather_rest(self: &Rc<Self>, log: &Log, row: &Rc<Row>, gathered: &mut Gathered) -> Result<(), Error> {
        let segments = u32::try_from(row.segments.len()).expect("segments of a row are bounded");
        for segment in 0..segments {
            let base = segment * row.segment_pages;
            if let Some(summary) = self.read_summary(row, segment).await {
                for batch in summary.batches {
                    self.gather(row, base + batch.first_page, batch.header_pages, &batch.entries, gathered);
                }
                continue;
            }
            let mirrors = row.segments[at(segment)].each_ref().map(Cell::get);
            let mut windows = [Window::new(), Window::new()];
            let mut page = 1;
            while page + 2 <= row.batches_end() {
                let reads = mirrors.iter().zip(windows.iter_mut());
                let reads = reads.map(|(mirror, window)| self.read_batch(log, row, *mirror, window, page));
                let copies: Vec<Option<Batch>> = try_join_all(reads).await?;
                let ours = |batch: &Batch| batch.place.index % segments == segment;
                let Some(good) = copies.iter().position(|copy| copy.as_ref().is_some_and(ours)) else { break };
                let Some(batch) = &copies[good] else { break };
                let pages = batch.header_pages + batch.data_pages;
                let Some(bytes) = windows[good].pages(page, pages) else { break };
                self.repair_copies(&mirrors, &copies, batch, page, bytes).await;
                self.gather(row, base + page, batch.header_pages, &batch.entries, gathered);
                page += pages;
                windows.iter_mut().for_each(|window| window.advance(page));
            }
        }
        Ok(())
    }

    /// What lay in the row and was lost, as its newest entries.
    fn gather_losses(&self, row: &Row, losses: &Losses, gathered: &mut Gathered) {
        let lacks = |pair: &[std::cell::Cell<Mirror>; 2]| pair.iter().all(|mirror| mirror.get().ssd.is_none());
        let Some(segment) = row.segments.iter().position(lacks) else { return };
        let position = u32::try_from(segment).expect("segments of a row are bounded") * row.segment_pages;
        let (version, place) = (row.version_ceiling(), Place::new(row.slot, position));
        for group in losses.groups.iter().filter(|group| group.row == row.number) {
            let Some(volume) = self.ids.index_of(group.attachment) else { continue };
            let (content, clean) = match group.what {
                Loss::Lost => (Content::Lost, false),
                Loss::Zeroes => (Content::Zeroes, false),
                Loss::Clean => (Content::Lost, true),
            };
            for pages in &group.pages {
                let pages = gathered.inside(volume, pages.clone());
                gathered.range_pages_max += pages.end - pages.start;
                gathered.ranges.push(FoundRange { volume, pages, version, place, content, clean });
            }
        }
    }

    /// What is set aside, as the newest of its row.
    fn gather_set_aside(&self, log: &Log, losses: &Losses, gathered: &mut Gathered) {
        for listed in &losses.rows {
            let Some(row) = log.aside_of(listed.number) else { continue };
            for pages in &listed.volumes {
                let Some(volume) = self.ids.index_of(pages.attachment) else { continue };
                let end = gathered.inside(volume, 0..PAGES_MAX).end;
                for entry in pages.pages.iter().filter(|entry| entry.page < end) {
                    let Some(content) = content_aside(&row, entry) else { continue };
                    let (version, place) = (row.version_ceiling(), Place::new(row.slot, entry.position));
                    gathered.found.push(Found { volume, page: entry.page, version, place, content, clean: false });
                }
            }
        }
        for group in losses.groups.iter().filter(|group| group.what == Loss::Clean) {
            let lacks = log.rows_live().iter().any(|row| row.number == group.row && has_lost_segment(row));
            let Some(row) = log.aside_of(group.row).filter(|_| !lacks) else { continue };
            let Some(volume) = self.ids.index_of(group.attachment) else { continue };
            let (version, place, content) = (row.version_ceiling(), Place::new(row.slot, 0), Content::Lost);
            for pages in &group.pages {
                let pages = gathered.inside(volume, pages.clone());
                gathered.range_pages_max += pages.end - pages.start;
                gathered.ranges.push(FoundRange { volume, pages, version, place, content, clean: true });
            }
        }
    }

    /// Notes what a batch's entries say; its header begins at `position` of the row.
    fn gather(&self, row: &Row, position: u32, header_pages: u32, entries: &[Entry], gathered: &mut Gathered) {
        let mut next = position + header_pages;
        for entry in entries {
            let (attachment, page, version) = match entry {
                Entry::Cleaned { row, position, count } => {
                    gathered.hints.push((*row, *position, *count));
                    continue;
                }
                Entry::Pages { attachment, page, version, .. }
                | Entry::Zeroes { attachment, page, version, .. }
                | Entry::Lost { attachment, page, version, .. } => (*attachment, *page, *version),
            };
            let volume = self.ids.index_of(attachment);
            let mut note = |count: u32, content: Content| {
                if let Some(volume) = volume {
                    let pages = gathered.inside(volume, page..page + u64::from(count));
                    let place = Place::new(row.slot, position);
                    gathered.ranges.push(FoundRange { volume, pages, version, place, content, clean: false });
                }
            };
            match entry {
                Entry::Pages { checksums, .. } => {
                    let first = next;
                    next += u32::try_from(checksums.len()).expect("a 16-bit count");
                    let Some(volume) = volume else { continue };
                    let end = gathered.inside(volume, 0..PAGES_MAX).end;
                    for ((checksum, page), position) in checksums.iter().zip(page..end).zip(first..) {
                        let (place, content) = (Place::new(row.slot, position), Content::Data { checksum: *checksum });
                        gathered.found.push(Found { volume, page, version, place, content, clean: false });
                    }
                }
                Entry::Zeroes { count, .. } => note(*count, Content::Zeroes),
                Entry::Lost { count, .. } => note(*count, Content::Lost),
                Entry::Cleaned { .. } => {}
            }
        }
    }

    /// Follows the chain of batches of a row to its end.
    async fn walk_row(
        self: &Rc<Self>,
        log: &Log,
        row: &Rc<Row>,
        recorded: Recorded,
        gathered: &mut Gathered,
    ) -> Result<(), Error> {
        let mut windows: Windows = row.segments.iter().map(|_| [Window::new(), Window::new()]).collect();
        while let Some((batch, first_page)) = self.next_of_chain(log, row, &mut windows, gathered.previous).await? {
            let segment = row.next_segment();
            let position = segment * row.segment_pages + first_page;
            self.gather(row, position, batch.header_pages, &batch.entries, gathered);
            let mark = StreamMark { row: batch.place.flushed_row, index: batch.place.flushed_index };
            gathered.flushed = gathered.flushed.max(mark);
            gathered.previous = Some(batch.checksum);
            let mut payload = Payload::default();
            batch.entries.iter().for_each(|entry| payload.push(entry));
            row.drafts.borrow_mut()[at(segment)].push(batch.place.index, first_page, &payload);
            row.next_page.borrow_mut()[at(segment)] = first_page + batch.header_pages + batch.data_pages;
            row.batches.set(row.batches.get() + 1);
        }
        // Of an empty row, the one before it.
        row.last_checksum.set(gathered.previous.unwrap_or(0));
        let cut = StreamMark { row: row.number, index: row.batches.get() };
        gathered.cuts.push(cut);
        let behind = self.behind(log, row, windows).await?;
        gathered.flushed = gathered.flushed.max(behind.flushed);
        // Of a sealed row every batch was flushed; of another one, what a later batch says.
        let broken = (recorded.sealed && behind.batches > 0)
            || (behind.flushed.row == cut.row && behind.flushed.index > cut.index);
        // Its headers were durable before it took a batch: what lies here is from before that.
        let segment = row.next_segment();
        let is_empty = row.next_page.borrow()[at(segment)] == 1;
        let old = !recorded.newest && is_empty && !self.has_durable_headers(row, segment).await;
        if broken || old {
            self.check_loss(cut)?;
            gathered.previous = None;
        } else if recorded.sealed && row.room() >= 2 {
            // Its summary said where it ends.
            gathered.unproven = Some(cut);
        }
        Ok(())
    }

    /// A copy of this segment has the row's own header.
    async fn has_durable_headers(&self, row: &Row, segment: u32) -> bool {
        let reads = row.segments[at(segment)].iter().map(async |mirror| {
            let mirror = mirror.get();
            let Some(index) = mirror.ssd else { return false };
            let page = self.env.buffers().take(PAGE_BYTES);
            let read = self.members.ssd(index).read(self.log_offset(mirror, 0), page).await;
            read.is_ok_and(|page| SegmentHeader::decode(&page) == Ok(row.header(segment)))
        });
        join_all(reads).await.contains(&true)
    }

    /// The row before this one was walked to its end, although it is sealed: this one has to begin where that one ends.
    async fn verify_end(
        self: &Rc<Self>,
        log: &Log,
        row: &Rc<Row>,
        cut: StreamMark,
        gathered: &mut Gathered,
    ) -> Result<(), Error> {
        let before = self.before(log, row).await?;
        if before.is_none() || before != gathered.previous {
            self.check_loss(cut)?;
            gathered.previous = None;
        }
        Ok(())
    }

    /// The checksum of the batch before this row, as the row itself says, if it can be read.
    async fn before(self: &Rc<Self>, log: &Log, row: &Row) -> Result<Option<u32>, Error> {
        let summary = self.read_summary(row, 0).await;
        if let Some(summary) = summary.filter(|summary| summary.row_batches == 0) {
            return Ok(Some(summary.last_checksum));
        }
        let reads = row.segments[0].iter().map(async |mirror| {
            let first = self.read_batch(log, row, mirror.get(), &mut Window::new(), 1).await?;
            Ok(first.filter(|first| first.place.index == 0).map(|first| first.place.previous))
        });
        Ok(try_join_all(reads).await?.into_iter().flatten().next())
    }

    /// The next batch of the chain and the page at which it begins, from whichever copy is whole; the other is brought
    /// into line.
    async fn next_of_chain(
        self: &Rc<Self>,
        log: &Log,
        row: &Rc<Row>,
        windows: &mut Windows,
        previous: Option<u32>,
    ) -> Result<Option<(Batch, u32)>, Error> {
        let segment = row.next_segment();
        let first_page = row.next_page.borrow()[at(segment)];
        if row.room() < 2 {
            return Ok(None);
        }
        let mirrors = row.segments[at(segment)].each_ref().map(Cell::get);
        let windows = &mut windows[at(segment)];
        let reads = mirrors.iter().zip(windows.iter_mut());
        let reads = reads.map(|(mirror, window)| self.read_batch(log, row, *mirror, window, first_page));
        let copies: Vec<Option<Batch>> = try_join_all(reads).await?;
        let expected = |batch: &Batch| {
            (batch.place.index == row.batches.get() && previous.is_none_or(|previous| batch.place.previous == previous))
                || planted(Planted::RecoverBehindCut)
        };
        let good = copies.iter().position(|copy| copy.as_ref().is_some_and(expected));
        let Some((good, batch)) = good.and_then(|good| Some((good, copies[good].clone()?))) else { return Ok(None) };
        let pages = batch.header_pages + batch.data_pages;
        let Some(bytes) = windows[good].pages(first_page, pages) else { return Ok(None) };
        self.repair_copies(&mirrors, &copies, &batch, first_page, bytes).await;
        windows.iter_mut().for_each(|window| window.advance(first_page + pages));
        Ok(Some((batch, first_page)))
    }

    /// Writes the bytes of a batch to the copies that have another one there, or none.
    async fn repair_copies(
        self: &Rc<Self>,
        mirrors: &[Mirror; 2],
        copies: &[Option<Batch>],
        batch: &Batch,
        page: u32,
        bytes: &[u8],
    ) {
        for (mirror, copy) in mirrors.iter().zip(copies) {
            let same = copy.as_ref().is_some_and(|other| other.checksum == batch.checksum);
            if !same && !planted(Planted::RecoverWithoutRepair) {
                self.write_copy(*mirror, page, bytes).await;
            }
        }
    }

    /// One copy of the batch at this page, if it is whole: its header and every page. One of another stream is an error: it is no end
    /// of the chain.
    async fn read_batch(
        self: &Rc<Self>,
        log: &Log,
        row: &Row,
        mirror: Mirror,
        window: &mut Window,
        page: u32,
    ) -> Result<Option<Batch>, Error> {
        match self.read_batch_header(log, row, mirror, window, page).await {
            Some(Ok(batch)) => Ok(self.with_good_pages(log, row, mirror, window, page, batch).await),
            Some(Err(other @ Unreadable::OtherStream(_))) => Err(of_other_stream(row, &other)),
            Some(Err(Unreadable::Corrupt(_))) | None => Ok(None),
        }
    }

    /// What decodes at this page, if a header of the row is there.
    async fn read_batch_header(
        self: &Rc<Self>,
        log: &Log,
        row: &Row,
        mirror: Mirror,
        window: &mut Window,
        page: u32,
    ) -> Option<Result<Batch, Unreadable>> {
        self.read_on(log, row, mirror, window, page + 1).await?;
        let header_pages = Batch::peek(window.pages(page, 1)?, row.number, row.incarnation)?;
        if header_pages > row.batches_end() - page {
            return None;
        }
        self.read_on(log, row, mirror, window, page + header_pages).await?;
        Some(Batch::decode(window.pages(page, header_pages)?))
    }

    /// The batch, if its pages have their checksums.
    async fn with_good_pages(
        self: &Rc<Self>,
        log: &Log,
        row: &Row,
        mirror: Mirror,
        window: &mut Window,
        page: u32,
        batch: Batch,
    ) -> Option<Batch> {
        let (header_pages, room) = (batch.header_pages, row.batches_end() - page);
        let whole_pages = header_pages.checked_add(batch.data_pages).filter(|pages| *pages <= room)?;
        self.read_on(log, row, mirror, window, page + whole_pages).await?;
        let checksums = batch.entries.iter().flat_map(|entry| match entry {
            Entry::Pages { checksums, .. } => checksums.as_slice(),
            Entry::Zeroes { .. } | Entry::Lost { .. } | Entry::Cleaned { .. } => &[],
        });
        let data = window.pages(page + header_pages, batch.data_pages)?;
        let good = data.chunks_exact(PAGE_BYTES).zip(checksums).all(|(page, sum)| crc32c(page) == *sum);
        good.then_some(batch)
    }

    /// Reads on in a copy until the window ends at `end` at least; `None` if the SSD does not bring it.
    async fn read_on(
        self: &Rc<Self>,
        log: &Log,
        row: &Row,
        mirror: Mirror,
        window: &mut Window,
        end: u32,
    ) -> Option<()> {
        let ssd = self.members.ssd(mirror.ssd?);
        let read = async |page: u32, count: u32| {
            let buf = self.env.buffers().take(at(count) * PAGE_BYTES);
            ssd.read(self.log_offset(mirror, page), buf).await.ok()
        };
        while window.end() < end {
            if window.failed {
                return None;
            }
            let from = window.end();
            let count = READ_PAGES.min(row.batches_end() - from);
            log.recovered_bytes.set(log.recovered_bytes.get() + u64::from(count) * PAGE);
            if let Some(bytes) = read(from, count).await {
                window.push(&bytes);
                continue;
            }
            // One page cannot be read, perhaps: no batch is believed with zeroes in its place.
            let pages = join_all((from..from + count).map(|page| read(page, 1))).await;
            window.failed = pages.iter().all(Option::is_none);
            for page in pages {
                window.push(page.as_deref().unwrap_or(&[0; PAGE_BYTES]));
            }
        }
        Some(())
    }

    /// Writes good bytes to a copy; an SSD that does not take them leaves.
    async fn write_copy(self: &Rc<Self>, mirror: Mirror, page: u32, bytes: &[u8]) {
        let Some(index) = mirror.ssd.filter(|_| self.offline.is_none()) else { return };
        let ssd = self.members.ssd(index);
        let copy = crate::members::records::to_buf(self.env.buffers(), bytes);
        match ssd.write(Purpose::Log, self.log_offset(mirror, page), copy).await {
            Ok(_) => ssd.has_appended(),
            Err(fault) => self.members.ssd_failed(ssd, &fault),
        }
    }

    /// Segment headers of a row that may have been cut while it was opened. Not before the row is believed: without its
    /// own header, an old copy looks like one.
    async fn repair_headers(self: &Rc<Self>, row: &Row) {
        for (position, pair) in (0..).zip(&row.segments) {
            let mut page = self.env.buffers().take(PAGE_BYTES);
            row.header(position).encode_into(&mut page);
            for mirror in pair.iter().map(Cell::get) {
                self.write_copy(mirror, 0, &page).await;
            }
        }
    }

    /// What lies behind the end of the chain: if a batch there says that more was flushed than the chain has, it did not
    /// end, it was broken.
    async fn behind(self: &Rc<Self>, log: &Log, row: &Row, windows: Windows) -> Result<Behind, Error> {
        let mut behind = Behind::default();
        for (pair, windows) in row.segments.iter().zip(windows) {
            for (mirror, window) in pair.iter().zip(windows) {
                self.look_behind(log, row, mirror.get(), window, &mut behind).await?;
            }
        }
        Ok(behind)
    }

    async fn look_behind(
        self: &Rc<Self>,
        log: &Log,
        row: &Row,
        mirror: Mirror,
        mut window: Window,
        behind: &mut Behind,
    ) -> Result<(), Error> {
        let mut page = window.wanted;
        while page < row.batches_end() && self.read_on(log, row, mirror, &mut window, page + 1).await.is_some() {
            match self.read_batch_header(log, row, mirror, &mut window, page).await {
                Some(Ok(batch)) => behind.add(&batch, row),
                Some(Err(other @ Unreadable::OtherStream(_))) => return Err(of_other_stream(row, &other)),
                Some(Err(Unreadable::Corrupt(_))) | None => {}
            }
            page += 1;
            window.advance(page);
        }
        Ok(())
    }

    /// A chain that ends before what was flushed is a loss, not a cut; also where only a later row says so.
    fn check_cuts(&self, gathered: &Gathered) -> Result<(), Error> {
        let lost =
            gathered.cuts.iter().find(|cut| gathered.flushed.row == cut.row && gathered.flushed.index > cut.index);
        lost.map_or(Ok(()), |cut| self.check_loss(*cut))
    }

    fn check_loss(&self, cut: StreamMark) -> Result<(), Error> {
        let error = Error::new(
            ErrorKind::Corrupt,
            format!(
                "pool {}: row {} of its write log is damaged, or of an old copy, on every SSD that is here, from batch {} on, \
                 and what is missing there was flushed: its volumes are not served. Bring back SSDs that are missing, as \
                 they were; or `hotset recover` shows what can be read, and with --write --force writes it to the backing \
                 devices",
                self.name, cut.row, cut.index
            ),
        );
        if self.may_go_on(&error) { Ok(()) } else { Err(error) }
    }

    /// Of each page the entry with the highest version is its newest copy; answers how many pages the log has.
    fn show_gathered(&self, log: &Log, gathered: Gathered) -> Result<usize, Error> {
        let Gathered { mut found, mut ranges, mut hints, range_pages_max, .. } = gathered;
        hints.sort_unstable();
        let number = |place: Place| log.row(place.row()).number;
        let age = |version: u64, place: Place| {
            let version = if planted(Planted::RecoverByPosition) { 0 } else { version };
            (version, number(place), place.position())
        };
        ranges.sort_by_key(|range| age(range.version, range.place));
        let ranges = newest_parts(ranges);
        if ranges.iter().map(|range| range.pages.end - range.pages.start).sum::<u64>() > range_pages_max {
            return Err(corrupt("its write log names more zeroes, or lost pages, than its SSDs could have held"));
        }
        for range in &ranges {
            found.extend(range.pages.clone().map(|page| range.page(page)));
        }
        found.sort_by_key(|entry| (entry.volume, entry.page, age(entry.version, entry.place)));
        let hinted = |place: Place| {
            let (row, position) = (number(place), place.position());
            let after = hints.partition_point(|hint| (hint.0, hint.1) <= (row, position));
            let before = after.checked_sub(1).map(|index| hints[index]);
            before.is_some_and(|(hint_row, first, count)| hint_row == row && position - first < count)
        };
        let mut pages = 0;
        let mut entries = found.iter().peekable();
        while let Some(entry) = entries.next() {
            if entries.peek().is_some_and(|next| (next.volume, next.page) == (entry.volume, entry.page)) {
                continue;
            }
            let data = matches!(entry.content, Content::Data { .. });
            let dirty = !(entry.clean || (data && hinted(entry.place)));
            let Found { volume, page, place, content, .. } = *entry;
            log.set(&Live { volume, page, place, content, dirty });
            pages += 1;
        }
        Ok(pages)
    }

    /// What the slots hold of pages that have a live copy is superseded. After the session has begun.
    pub(crate) async fn hide_all_superseded(self: &Rc<Self>, log: &Log) {
        for volume in self.ids.indexes() {
            let mut from = 0;
            loop {
                let live: Vec<u64> =
                    log.overlay.borrow().range(volume, from..PAGES_MAX).take(1024).map(|live| live.page).collect();
                let Some(last) = live.last() else { break };
                from = last + 1;
                for page in live {
                    self.clean.supersede(volume, page..page + 1);
                }
                self.env.sleep(std::time::Duration::ZERO).await;
            }
        }
    }
}

/// Of ranges, the oldest first, the parts of which no later one says anything.
fn newest_parts(ranges: Vec<FoundRange>) -> Vec<FoundRange> {
    let mut parts = Vec::new();
    // What later ones say something of: no two of these ranges touch.
    let mut covered: BTreeMap<(VolumeIndex, u64), u64> = BTreeMap::new();
    for range in ranges.into_iter().rev() {
        let (volume, mut whole) = (range.volume, range.pages.clone());
        // From the end of the range down: nothing is said yet of what lies before this page.
        let mut end = range.pages.end;
        while let Some((&(of, first), &last)) = covered.range(..=(volume, range.pages.end)).next_back() {
            if of != volume || last < range.pages.start {
                break;
            }
            covered.remove(&(volume, first));
            parts.push(FoundRange { pages: last.min(end)..end, ..range.clone() });
            whole = whole.start.min(first)..whole.end.max(last);
            end = end.min(first);
        }
        parts.push(FoundRange { pages: range.pages.start.min(end)..end, ..range });
        covered.insert((volume, whole.start), whole.end);
    }
    parts.retain(|part| !part.pages.is_empty());
    parts
}

/// The checksum that the next start takes for that of the batch before the first new one; `None`: any.
fn last_checksum(log: &Log) -> Option<u32> {
    log.rows_live().iter().fold(None, |before, row| match row.batches.get() {
        _ if has_lost_segment(row) => None,
        0 => before,
        _ => Some(row.last_checksum.get()),
    })
}

/// What a page is that is set aside; `None`: it is not, or it lies nowhere.
fn content_aside(row: &Row, entry: &AsidePage) -> Option<Content> {
    let (segment, _) = row.locate(entry.position);
    let pair = row.segments.get(at(segment))?;
    if pair.iter().all(|copy| copy.get().ssd_uuid == 0) {
        return None;
    }
    let checksum = entry.checksum;
    let is_there = row.mirrors(segment).next().is_some();
    Some(if is_there { Content::Data { checksum } } else { Content::Unavailable { checksum } })
}

fn lost_part(row: &Row) -> String {
    format!(
        "row {} of the write log lacks a part of which both copies are lost; what it was, only the state directory knows",
        row.number
    )
}

fn corrupt(rule: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the pool cannot be opened: {rule}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn of_each_page_the_newest_range_counts(
            ranges in prop::collection::vec((0_u16..2, 0_u64..100, 0_u64..20), 0..40),
        ) {
            let range = |(version, (volume, start, count)): (u64, (u16, u64, u64))| FoundRange {
                volume: VolumeIndex(volume),
                pages: start..start + count,
                version,
                place: Place::new(0, 1),
                content: Content::Zeroes,
                clean: false,
            };
            let mut newest: BTreeMap<(u16, u64), u64> = BTreeMap::new();
            for (version, (volume, start, count)) in (0..).zip(ranges.iter().copied()) {
                newest.extend((start..start + count).map(|page| ((volume, page), version)));
            }
            let parts = newest_parts((0..).zip(ranges).map(range).collect());
            let pages = parts.iter().flat_map(|part| part.pages.clone().map(|page| ((part.volume.0, page), part.version)));
            let mut found: Vec<_> = pages.collect();
            found.sort_unstable();
            prop_assert_eq!(found, newest.into_iter().collect::<Vec<_>>(), "each page once, as its newest");
        }
    }
}
