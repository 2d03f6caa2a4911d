//! Pages are read from the write log, from either copy; only bytes with the checksums that the overlay knows are
//! believed (rule `checked-or-not-served`). A bad copy is repaired from the other one.

mod entries;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use hotset_block::{Buf, DeviceError, Env, Instant, PAGE_BYTES};

use crate::attachment_ids::AttachmentIds;
use crate::config::limits;
use crate::log::log_segments::LogSegments;
use crate::log::overlay::Content;
use crate::log::read_copies::{read_page, read_pages};
use crate::log::row::{CopiesOneByOne, CopyOrder, Row};
use crate::log::run::{LogRun, matches};
use crate::log::segment_copy::PresentCopy;
use crate::log::shared::Shared;
use crate::log::write_log::WriteLog;
use crate::members::Members;
use crate::members::ssd::{Fault, Ssd, is_gone};
use crate::reasons::OutOfUse;

/// So many more pages fail before those of rows that were freed are forgotten.
const FAILING_LOOK: usize = 1024;
/// Of the time between two questions for a page so much counts as time in which its SSD answered with errors: nobody knows the rest.
const ASKED_WITHIN: Duration = Duration::from_secs(30);

/// Who reads the log.
pub(crate) struct LogReader<E: Env> {
    env: E,
    members: Rc<Members<E>>,
    ids: Rc<AttachmentIds>,
    state: Rc<WriteLog>,
    segments: Rc<LogSegments<E>>,
    /// Which copy is read first next time.
    copy_order: Cell<CopyOrder>,
    /// Pages that an SSD answers with errors, by row and position, until a read brings them.
    failing: RefCell<BTreeMap<(u64, u32), Failing>>,
}

/// For how long a page was answered with errors, and when it was the last time.
#[derive(Clone, Copy)]
struct Failing {
    last: Instant,
    lasts: Duration,
}

impl Failing {
    /// True: it has failed for no longer than an SSD may be silent until it is taken for gone.
    fn fails_again(&mut self, now: Instant) -> bool {
        self.lasts += now.since(self.last).min(ASKED_WITHIN);
        self.last = now;
        self.lasts < limits::SSD_GONE_TIMEOUT
    }
}

/// Why no copy brings a page of dirty data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// An SSD answers with errors, which may end: a link is reset, a command is aborted. Or it went offline meanwhile, which says nothing
    /// about what it holds. What is there then is asked again.
    Failing,
    /// What the SSDs bring is not what was written, or they have answered with errors for too long.
    Lost,
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
            failing: RefCell::default(),
        }
    }

    /// Fills `buf` with the pages of a run; `None` if no copy brings them.
    pub(crate) async fn read_run(&self, run: &LogRun, buf: Buf) -> Option<Buf> {
        let bytes = match self.read_copies(run, buf).await {
            Ok(bytes) => bytes,
            Err(_) if run.checksums.len() > 1 => read_pages(self.members.to_read(), run).await?,
            Err(_) => return None,
        };
        self.forget_errors(run.row(), run.positions());
        Some(bytes)
    }

    /// A single page, as [`Self::read_run`], for who waits for it only so long.
    pub(crate) async fn read_or_expire(&self, single: &LogRun) -> Result<Buf, Unread> {
        assert_eq!(single.bytes(), PAGE_BYTES, "pages {:?} of the log expire one by one", single.pages);
        let (row, position) = (single.row(), single.first.place.position());
        match self.read_copies(single, self.env.buffers().take(PAGE_BYTES)).await {
            Err(Unread::Failing) if self.may_be_read_later(row, position) => Err(Unread::Failing),
            read => {
                // It is here, or whoever asked does so no more.
                self.forget_errors(row, position..position + 1);
                read.map_err(|_| Unread::Lost)
            }
        }
    }

    /// A read of this page failed. True: it may be read later.
    pub(super) fn may_be_read_later(&self, row: &Row, position: u32) -> bool {
        let mut failing = self.failing.borrow_mut();
        let now = self.env.now();
        let page = failing.entry((row.number, position)).or_insert(Failing { last: now, lasts: Duration::ZERO });
        let may_end = page.fails_again(now);
        if failing.len().is_multiple_of(FAILING_LOOK) {
            let is_kept = |number| self.state.numbers.is_live(number) || self.state.aside_of(number).is_some();
            failing.retain(|(number, _), _| is_kept(*number));
        }
        may_end
    }

    /// The pages of a segment that were answered with errors when they were asked for the last time.
    pub(super) fn failing_pages(&self, row: &Row, segment: u32) -> Vec<u32> {
        let of_segment = (row.number, row.position(segment, 0))..(row.number, row.position(segment + 1, 0));
        self.failing.borrow().range(of_segment).map(|((_, position), _)| row.locate(*position).1).collect()
    }

    /// What failed here is waited for no more.
    pub(super) fn forget_errors(&self, row: &Row, positions: Range<u32>) {
        let mut failing = self.failing.borrow_mut();
        if failing.is_empty() {
            return;
        }
        for position in positions {
            failing.remove(&(row.number, position));
        }
    }

    async fn read_copies(&self, run: &LogRun, mut buf: Buf) -> Result<Buf, Unread> {
        assert_eq!(buf.len(), run.bytes(), "pages {:?} of the log are read to room of another size", run.pages);
        match run.first.content {
            Content::Zeroes => {
                buf.fill(0);
                return Ok(buf);
            }
            Content::Lost | Content::Unavailable { .. } => return Err(Unread::Lost),
            Content::Data { .. } => {}
        }
        let row = run.row();
        let (segment, page) = row.locate(run.first.place.position());
        let (mut bad, mut unread) = (Vec::new(), Unread::Lost);
        for (index, mirror) in self.copies_in_turn(row, segment) {
            let ssd = self.members.ssd(index);
            let offset = self.segments.log_offset(mirror, page);
            let length = buf.len();
            let error = match ssd.read(offset, buf).await {
                Ok(bytes) if matches(&bytes, &run.checksums) => {
                    self.repair(run.row(), &bad, &bytes, page).await;
                    return Ok(bytes);
                }
                Ok(_) => None,
                Err(Fault::Offline) => {
                    unread = Unread::Failing;
                    buf = self.env.buffers().take(length);
                    continue;
                }
                Err(Fault::Device(error)) => {
                    unread = Unread::Failing;
                    Some(error)
                }
            };
            // A copy that was set aside may lack what was written when its SSD left.
            if error.is_some() || !row.is_aside() {
                self.state.tallies.count_hidden_error(run.first.volume);
                self.log_read_failed(ssd, error.as_ref());
            }
            bad.push(mirror);
            buf = self.env.buffers().take(length);
        }
        Err(unread)
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
        let bytes =
            usize::try_from(positions.end - positions.start).expect("a segment has fewer than 2^32 pages") * PAGE_BYTES;
        ssd.read(self.segments.log_offset(mirror, page), self.env.buffers().take(bytes)).await.ok()
    }

    /// A bad place costs what lies there, never the SSD: it may hold the only copy of other dirty data.
    pub(crate) fn log_read_failed(&self, ssd: &Rc<Ssd<E>>, error: Option<&DeviceError>) {
        if let Some(error) = error.filter(|error| is_gone(error)) {
            self.members.expel(ssd, OutOfUse::Failed(*error));
        }
        ssd.has_misread_log();
    }

    /// For a scrub: reads every copy of a run of data, and mends the bad ones from the good.
    pub(crate) async fn check_copies_of(&self, run: &LogRun) -> ScrubbedCopies {
        let (segment, page) = run.row().locate(run.first.place.position());
        let mut copies = ScrubbedCopies::default();
        let (mut bad, mut good, mut doubtful) = (Vec::new(), None::<Buf>, false);
        for (index, mirror) in run.row().copies_one_by_one(segment) {
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
                        if run.row().is_aside() && run.row().mirrors(segment).nth(1).is_some() {
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
                self.repair(run.row(), &bad, &bytes, page).await;
                copies.repaired_pages = copies.bad_pages;
            }
            None => copies.lost_pages = self.count_lost_pages(run).await,
        }
        copies
    }

    /// The pages of a run of which no copy is good.
    async fn count_lost_pages(&self, run: &LogRun) -> u64 {
        let (segment, first) = run.row().locate(run.first.place.position());
        let mut lost = 0;
        for (checksum, page) in run.checksums.iter().zip(first..) {
            lost += u64::from(read_page(self.members.to_read(), run, segment, page, *checksum).await.is_none());
        }
        lost
    }

    /// Writes the good bytes over a bad copy. While the run is held its segments are not used for anything else.
    async fn repair(&self, row: &Row, bad: &[PresentCopy], good: &Buf, page: u32) {
        for mirror in bad {
            let ssd = self.members.ssd(mirror.ssd);
            let copy = self.env.buffers().copy_of(good);
            match ssd.write(row.purpose(), self.segments.log_offset(*mirror, page), copy).await {
                Ok(_) => ssd.has_appended(),
                Err(fault) => self.members.ssd_failed(ssd, &fault),
            }
        }
    }
}

/// What a scrub found of a run, by copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScrubbedCopies {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::log::overlay::{LivePage, Place};
    use crate::log::segment_copy::Mirror;
    use crate::log::tests::{copy_on, open_row, with_log};
    use crate::reasons::OutOfUse;

    // When an SSD comes back as a newcomer, a read that is under way is still one of the former.
    // proves: F5, F9
    #[test]
    fn a_page_is_not_given_up_because_its_ssd_goes_offline_while_it_is_read() {
        with_log(async |log| {
            let copy = copy_on(log, 0, 3);
            let row = open_row(log, [Mirror::There(copy), Mirror::Nowhere]);
            let volume = log.ids.free_index();
            log.ids.attach(volume, 1);
            let (place, content) = (Place::new(row.slot, 2), Content::Data { checksum: 1 });
            log.state.supersede(&LivePage { volume, page: 0, place, content, dirty: true });
            let single = log.runs(volume, 0..1, |_| true).remove(0);
            log.members.expel(log.members.ssd(copy.ssd), OutOfUse::DidNotAnswer { seconds: 1 });
            assert_eq!(log.reader().read_or_expire(&single).await.err(), Some(Unread::Failing));
        });
    }

    // proves: F9
    #[test]
    fn a_page_is_asked_for_again_as_long_as_a_silent_ssd_and_is_not_given_up_for_a_few_errors() {
        let at = |seconds| Instant(0).plus(Duration::from_secs(seconds));
        let new = || Failing { last: at(10), lasts: Duration::ZERO };
        let mut page = new();
        assert!((10..160).all(|second| page.fails_again(at(second))));
        assert!(!page.fails_again(at(160)), "it failed all the time");
        let mut page = new();
        assert!([10, 130, 250, 1250, 2250].into_iter().all(|second| page.fails_again(at(second))));
        assert!(!page.fails_again(at(3250)), "it expires also for who asks seldom");
    }
}
