//! Pages of a volume that lie together in the log, and are read and written out together.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use hotset_block::PAGE_BYTES;

use crate::address::VolumeIndex;
use crate::config::PAGE;
use crate::format::crc32c;
use crate::log::overlay::{Content, LivePage, Place};
use crate::log::row::{Row, RowReading};
use crate::log::write_log::WriteLog;

/// Consecutive pages of a volume that lie together in the log; or that read as zeroes, or are lost, together.
pub(crate) struct LogRun {
    pub(crate) pages: Range<u64>,
    pub(crate) first: LivePage,
    /// Of data, page by page.
    pub(crate) checksums: Vec<u32>,
    /// Nothing of it is dirty.
    pub(crate) clean: bool,
    row: Rc<Row>,
    /// Keeps its segments from being used again.
    reading: RefCell<Option<RowReading>>,
}

impl LogRun {
    fn new(log: &WriteLog, live: &LivePage) -> Self {
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
        start..start + u32::try_from(self.checksums.len()).expect("a run has fewer than 2^32 pages")
    }

    /// Each of its pages, and where it lies.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, Place)> {
        self.pages.clone().zip(0..).map(move |(page, offset)| (page, self.place_at(offset)))
    }

    /// Where a page of it lies; `None`: it is none of them.
    pub(crate) fn place_of(&self, page: u64) -> Option<Place> {
        let offset = page.checked_sub(self.pages.start).filter(|_| page < self.pages.end)?;
        Some(self.place_at(u32::try_from(offset).expect("a run has fewer than 2^32 pages")))
    }

    fn place_at(&self, offset: u32) -> Place {
        self.first.place.at(offset, self.is_data())
    }

    /// Whether these are its pages.
    pub(crate) fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.bytes() && matches(bytes, &self.checksums)
    }

    fn add(&mut self, live: &LivePage) {
        self.pages.end += 1;
        self.clean &= !live.dirty;
        if let Content::Data { checksum } = live.content {
            self.checksums.push(checksum);
        }
    }

    /// Whether this page goes on where the run ends.
    fn goes_on_with(&self, live: &LivePage) -> bool {
        let offset = u32::try_from(self.pages.end - self.pages.start).expect("a run has fewer than 2^32 pages");
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
    pub(crate) fn runs(
        &self,
        volume: VolumeIndex,
        pages: Range<u64>,
        wanted: impl Fn(&LivePage) -> bool,
    ) -> Vec<LogRun> {
        let mut runs: Vec<LogRun> = Vec::new();
        for live in self.overlay.borrow().range(volume, pages).filter(|live| wanted(live)) {
            match runs.last_mut() {
                Some(run) if run.goes_on_with(&live) => run.add(&live),
                _ => runs.push(LogRun::new(self, &live)),
            }
        }
        runs
    }

    /// A page of data alone, as what was written, whether a copy of it can be had or not.
    pub(crate) fn run_of_data(&self, live: &LivePage) -> Option<LogRun> {
        let (Content::Data { checksum } | Content::Unavailable { checksum }) = live.content else { return None };
        Some(LogRun::new(self, &LivePage { content: Content::Data { checksum }, ..*live }))
    }
}

/// Whether these pages have these checksums.
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
                log.set(&LivePage { volume, page, place: Place::new(slot, position), content, dirty: true });
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
