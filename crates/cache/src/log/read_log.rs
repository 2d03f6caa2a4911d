//! Pages are read from the write log, from either copy; only bytes with the checksums that the overlay knows are
//! believed (rule `checked-or-not-served`). A bad copy is repaired from the other one.

mod entries;

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use hotset_block::{Buf, DeviceError, Env, PAGE_BYTES};

use crate::address::VolumeIndex;
use crate::attachment_ids::AttachmentIds;
use crate::config::PAGE;
use crate::format::crc32c;
use crate::log::Shared;
use crate::log::log_segments::LogSegments;
use crate::log::overlay::{Content, Live, Place};
use crate::log::read_copies::{read_page, read_pages};
use crate::log::row::{CopiesOneByOne, CopyOrder, Row, RowReading};
use crate::log::segment_copy::PresentCopy;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::segments::Purpose;
use crate::members::ssd::{Fault, Ssd, is_gone};

/// Consecutive pages of a volume that lie together in the log; or that read as zeroes, or are lost, together.
pub(crate) struct LogRun {
    pub(crate) pages: Range<u64>,
    pub(crate) first: Live,
    /// Of data, page by page.
    pub(crate) checksums: Vec<u32>,
    /// Nothing of it is dirty.
    pub(crate) clean: bool,
    row: Rc<Row>,
    /// Keeps its segments from being used again.
    reading: RefCell<Option<RowReading>>,
}

impl LogRun {
    fn new(log: &WriteLog, live: &Live) -> Self {
        let mut run = Self {
            pages: live.page..live.page,
            first: *live,
            checksums: Vec::new(),
            clean: true,
            row: log.row(live.place.row()),
            reading: RefCell::default(),
        };
        run.hold();
        run.add(live);
        run
    }

    fn hold(&self) {
        *self.reading.borrow_mut() = Some(RowReading::new(&self.row));
    }

    /// Whoever waits with a run lets go of it, so that its row can be freed meanwhile.
    pub(crate) fn release(&self) {
        self.reading.take();
    }

    /// Keeps it from being used again from here on. False: its row is free by now.
    pub(crate) fn hold_again(&self, log: &WriteLog) -> bool {
        let lives = self.lives(log);
        if lives {
            self.hold();
        }
        lives
    }

    /// Its row is not free: places in it still mean what they meant.
    pub(crate) fn lives(&self, log: &WriteLog) -> bool {
        log.row_at(self.row.slot).is_some_and(|row| Rc::ptr_eq(&row, &self.row))
    }

    pub(crate) fn row(&self) -> &Rc<Row> {
        &self.row
    }

    /// It is bytes: neither zeroes nor lost.
    pub(crate) fn is_data(&self) -> bool {
        matches!(self.first.content, Content::Data { .. })
    }

    /// Where its pages lie in the row, of data.
    pub(crate) fn positions(&self) -> Range<u32> {
        let start = self.first.place.position();
        start..start + u32::try_from(self.checksums.len()).expect("a run is short")
    }

    /// Each of its pages, and where it lies.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, Place)> {
        let data = matches!(self.first.content, Content::Data { .. });
        self.pages.clone().zip(0..).map(move |(page, offset)| (page, self.first.place.at(offset, data)))
    }

    /// Whether these are its pages.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.bytes() && matches(bytes, &self.checksums)
    }

    fn add(&mut self, live: &Live) {
        self.pages.end += 1;
        self.clean &= !live.dirty;
        if let Content::Data { checksum } = live.content {
            self.checksums.push(checksum);
        }
    }

    /// Whether this page goes on where the run ends.
    fn goes_on_with(&self, live: &Live) -> bool {
        let offset = u32::try_from(self.pages.end - self.pages.start).expect("a run is short");
        // What is no data lies at one place, if one batch brought it.
        let (data, same_kind) = match (self.first.content, live.content) {
            (Content::Data { .. }, Content::Data { .. }) => (true, true),
            (Content::Zeroes, Content::Zeroes) | (Content::Lost, Content::Lost) => (false, true),
            (Content::Data { .. } | Content::Zeroes | Content::Lost | Content::Unavailable { .. }, _) => (false, false),
        };
        let row = &self.row;
        let next = self.first.place.at(offset, data);
        let same_segment = row.locate(live.place.position()).0 == row.locate(self.first.place.position()).0;
        live.page == self.pages.end && same_kind && same_segment && next == live.place
    }

    pub(crate) fn bytes(&self) -> usize {
        usize::try_from((self.pages.end - self.pages.start) * PAGE).expect("a run fits in memory")
    }
}

impl WriteLog {
    /// The runs of `pages` that have a live copy and of which `wanted` holds, in order.
    pub(crate) fn runs(&self, volume: VolumeIndex, pages: Range<u64>, wanted: impl Fn(&Live) -> bool) -> Vec<LogRun> {
        let mut runs: Vec<LogRun> = Vec::new();
        for live in self.overlay.borrow().range(volume, pages).filter(|live| wanted(live)) {
            match runs.last_mut() {
                Some(run) if run.goes_on_with(&live) => run.add(&live),
                _ => runs.push(LogRun::new(self, &live)),
            }
        }
        runs
    }
}

/// Who reads the log.
pub(crate) struct LogReader<E: Env> {
    env: E,
    members: Rc<Members<E>>,
    ids: Rc<AttachmentIds>,
    state: Rc<WriteLog>,
    segments: Rc<LogSegments<E>>,
    /// Which copy is read first next time.
    copy_order: Cell<CopyOrder>,
}

impl<E: Env> LogReader<E> {
    pub(super) fn new(shared: &Shared<E>, segments: &Rc<LogSegments<E>>) -> Self {
        Self {
            env: shared.env.clone(),
            members: Rc::clone(&shared.members),
            ids: Rc::clone(&shared.ids),
            state: Rc::clone(&shared.state),
            segments: Rc::clone(segments),
            copy_order: Cell::default(),
        }
    }

    /// Fills `buf` with the pages of a run; `None` if no copy brings them.
    pub(crate) async fn read_run(&self, run: &LogRun, mut buf: Buf) -> Option<Buf> {
        match run.first.content {
            Content::Zeroes => {
                buf.fill(0);
                return Some(buf);
            }
            Content::Lost | Content::Unavailable { .. } => return None,
            Content::Data { .. } => {}
        }
        let row = &run.row;
        let (segment, page) = row.locate(run.first.place.position());
        let mut bad = Vec::new();
        for (index, mirror) in self.copies_in_turn(row, segment) {
            let ssd = self.members.ssd(index);
            let offset = self.segments.log_offset(mirror, page);
            let length = buf.len();
            let error = match ssd.read(offset, buf).await {
                Ok(bytes) if matches(&bytes, &run.checksums) => {
                    self.repair(&bad, &bytes, page).await;
                    return Some(bytes);
                }
                Ok(_) => None,
                Err(Fault::Offline) => {
                    buf = self.env.buffers().take(length);
                    continue;
                }
                Err(Fault::Device(error)) => Some(error),
            };
            // A copy that was set aside may lack what was written when its SSD left.
            if error.is_some() || !row.is_aside() {
                self.state.tally_hidden_error(run.first.volume);
                self.log_read_failed(ssd, error.as_ref());
            }
            bad.push(mirror);
            buf = self.env.buffers().take(length);
        }
        if run.checksums.len() > 1 { read_pages(self.members.to_read(), run).await } else { None }
    }

    /// The copies of a segment, by turns one or the other first.
    fn copies_in_turn<'a>(&self, row: &'a Row, segment: u32) -> CopiesOneByOne<'a> {
        let order = self.copy_order.get();
        self.copy_order.set(order.other());
        row.copies_in_order(segment, order)
    }

    /// All that lies at these positions of one segment of a row, not checked, by one read of one copy; `None` if that does
    /// not bring it. The caller holds the row, and reads anew what is not as it must be.
    pub(crate) async fn read_stretch(&self, row: &Row, positions: Range<u32>) -> Option<Buf> {
        let (segment, page) = row.locate(positions.start);
        let (index, mirror) = self.copies_in_turn(row, segment).next()?;
        let ssd = self.members.ssd(index);
        let bytes = usize::try_from(positions.end - positions.start).expect("a segment is small") * PAGE_BYTES;
        ssd.read(self.segments.log_offset(mirror, page), self.env.buffers().take(bytes)).await.ok()
    }

    /// A bad place costs what lies there, never the SSD: it may hold the only copy of other dirty data.
    pub(crate) fn log_read_failed(&self, ssd: &Rc<Ssd<E>>, error: Option<&DeviceError>) {
        if let Some(error) = error.filter(|error| is_gone(error)) {
            self.members.expel(ssd, &error.to_string());
        }
        ssd.has_misread_log();
    }

    /// For a scrub: reads every copy of a run of data, and mends the bad ones from the good.
    pub(crate) async fn check_copies_of(&self, run: &LogRun) -> Copies {
        let (segment, page) = run.row.locate(run.first.place.position());
        let mut copies = Copies::default();
        let (mut bad, mut good, mut doubtful) = (Vec::new(), None::<Buf>, false);
        for (index, mirror) in run.row.copies_one_by_one(segment) {
            let ssd = self.members.ssd(index);
            let error =
                match ssd.read(self.segments.log_offset(mirror, page), self.env.buffers().take(run.bytes())).await {
                    Ok(bytes) => {
                        copies.checked += 1;
                        let wrong = count_wrong(&bytes, &run.checksums);
                        if wrong == 0 {
                            good = Some(bytes);
                            continue;
                        }
                        if run.row.is_aside() && run.row.mirrors(segment).nth(1).is_some() {
                            // It may lack what was written when its SSD left; the other copy is looked at, too.
                            doubtful = true;
                            continue;
                        }
                        copies.bad_pages += wrong;
                        None
                    }
                    Err(Fault::Offline) => continue,
                    Err(Fault::Device(error)) => {
                        copies.bad_pages += run.pages.end - run.pages.start;
                        Some(error)
                    }
                };
            self.log_read_failed(ssd, error.as_ref());
            bad.push(mirror);
        }
        if doubtful && good.is_none() {
            copies.lost_pages = self.count_lost_pages(run).await;
            copies.bad_pages += copies.lost_pages;
        }
        if bad.is_empty() {
            return copies;
        }
        let whole = match good {
            Some(bytes) => Some(bytes),
            None => read_pages(self.members.to_read(), run).await,
        };
        match whole {
            Some(bytes) => {
                self.repair(&bad, &bytes, page).await;
                copies.repaired_pages = copies.bad_pages;
            }
            None => copies.lost_pages = self.count_lost_pages(run).await,
        }
        copies
    }

    /// The pages of a run of which no copy is good.
    async fn count_lost_pages(&self, run: &LogRun) -> u64 {
        let (segment, first) = run.row.locate(run.first.place.position());
        let mut lost = 0;
        for (checksum, page) in run.checksums.iter().zip(first..) {
            lost += u64::from(read_page(self.members.to_read(), run, segment, page, *checksum).await.is_none());
        }
        lost
    }

    /// Writes the good bytes over a bad copy. While the run is held its segments are not used for anything else.
    async fn repair(&self, bad: &[PresentCopy], good: &Buf, page: u32) {
        for mirror in bad {
            let ssd = self.members.ssd(mirror.ssd);
            let copy = self.env.buffers().copy_of(good);
            match ssd.write(Purpose::Log, self.segments.log_offset(*mirror, page), copy).await {
                Ok(_) => ssd.has_appended(),
                Err(fault) => self.members.ssd_failed(ssd, &fault),
            }
        }
    }
}

/// What a scrub found of a run, by copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copies {
    /// Copies that could be read.
    pub(crate) checked: u64,
    pub(crate) bad_pages: u64,
    pub(crate) repaired_pages: u64,
    /// Pages of which no copy is good.
    pub(crate) lost_pages: u64,
}

fn count_wrong(bytes: &[u8], checksums: &[u32]) -> u64 {
    let pages = bytes.chunks_exact(PAGE_BYTES).zip(checksums);
    pages.map(|(page, checksum)| u64::from(!matches(page, std::slice::from_ref(checksum)))).sum()
}

pub(super) fn matches(bytes: &[u8], checksums: &[u32]) -> bool {
    bytes.chunks_exact(PAGE_BYTES).zip(checksums).all(|(page, checksum)| crc32c(page) == *checksum)
}

#[cfg(test)]
mod tests {
    use hotset_block::RealInstant;

    use super::*;
    use crate::log::overlay::Place;
    use crate::log::segment_copy::Mirror;

    #[test]
    fn a_run_of_lost_pages_or_zeroes_lies_at_one_place_and_one_of_data_at_places_in_order() {
        let log = WriteLog::new();
        let slot = log.free_row_slot().expect("there are none yet");
        log.add_row(&Rc::new(Row::new(slot, 1, 7, vec![[Mirror::Nowhere; 2]], 256, RealInstant(0))));
        let volume = VolumeIndex(0);
        let runs_of = |content: Content| {
            for (page, position) in [(10, 5), (11, 6), (12, 8), (13, 8)] {
                log.set(&Live { volume, page, place: Place::new(slot, position), content, dirty: true });
            }
            let runs = log.runs(volume, 0..100, |_| true);
            runs.iter().map(|run| run.pages.clone()).collect::<Vec<_>>()
        };
        // Those that the cleaner could not read keep their places.
        assert_eq!(runs_of(Content::Lost), [10..11, 11..12, 12..14]);
        assert_eq!(runs_of(Content::Zeroes), [10..11, 11..12, 12..14]);
        assert_eq!(runs_of(Content::Data { checksum: 1 }), [10..12, 12..13, 13..14]);
    }
}
