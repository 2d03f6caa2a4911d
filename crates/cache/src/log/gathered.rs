//! What a scan finds in the write log: pages and ranges of pages as its entries describe them, in whatever order; and in the end the newest
//! of each, which alone counts.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::address::{VolumeIndex, at};
use crate::config::PAGE;
use crate::error::{Error, ErrorKind};
use crate::format::catalogue::Catalogue;
use crate::format::log::Entry;
use crate::format::losses::{AsidePage, Loss, Losses};
use crate::log::overlay::{Content, LivePage, PAGES_MAX, Place};
use crate::log::row::Row;
use crate::log::segment_copy::MirrorCell;
use crate::log::stream::StreamMark;
use crate::log::write_log::WriteLog;

/// A page as an entry of the log describes it.
struct PageInLog {
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
struct RangeInLog {
    volume: VolumeIndex,
    pages: Range<u64>,
    version: u64,
    place: Place,
    content: Content,
    clean: bool,
}

impl RangeInLog {
    fn page(&self, page: u64) -> PageInLog {
        let Self { volume, version, place, content, clean, .. } = *self;
        PageInLog { volume, page, version, place, content, clean }
    }
}

/// What was gathered so far.
#[derive(Default)]
pub(crate) struct Gathered {
    found: Vec<PageInLog>,
    /// Many pages by few bytes: they are told apart when it is known which of them are the newest.
    ranges: Vec<RangeInLog>,
    /// They have no more pages than this.
    range_pages_max: u64,
    /// By [`VolumeIndex`]: the attachment, and the pages that the catalogue gives it.
    volumes: Vec<(u64, u64)>,
    /// Row number, position, count.
    hints: Vec<(u64, u32, u32)>,
    /// What batches claimed to be flushed before them, or another member saw.
    pub(super) flushed: StreamMark,
    /// The first batch that is missing, if a row ends before what was flushed would show.
    pub(super) cuts: Vec<StreamMark>,
    /// The checksum of the last batch; `None`: of a row that is free by now.
    pub(super) previous: Option<u32>,
    /// Where a sealed row was found to end that has room for more: the row behind it has to say that this is its end.
    pub(super) unproven: Option<StreamMark>,
}

impl Gathered {
    /// Nothing yet. `ssd_bytes`: of all SSDs that are there; `flushed`: what another member saw.
    pub(super) fn new(catalogue: &Catalogue, ssd_bytes: u64, flushed: StreamMark) -> Self {
        let pages = |size_bytes: u64| size_bytes.div_ceil(PAGE);
        let volumes = catalogue.volumes.iter().map(|volume| (volume.attachment, pages(volume.backing.size_bytes)));
        // Zeroes and losses take the place of what lay in the log, on SSDs of which some may have left since.
        let range_pages_max = ssd_bytes / PAGE * 4;
        Self { range_pages_max, volumes: volumes.collect(), flushed, ..Self::default() }
    }

    fn index_of(&self, attachment: u64) -> Option<VolumeIndex> {
        let place = self.volumes.iter().position(|(of, _)| *of == attachment)?;
        Some(VolumeIndex(u16::try_from(place).expect("a pool has at most VOLUMES_MAX volumes")))
    }

    /// The pages of these that the volume has. No host could have written to others: a volume's size is recorded before it
    /// grows.
    fn inside(&self, volume: VolumeIndex, pages: Range<u64>) -> Range<u64> {
        let end = self.volumes[usize::from(volume.0)].1;
        pages.start.min(end)..pages.end.min(end)
    }

    /// Notes what a batch's entries say; its header begins at `position` of the row.
    pub(super) fn gather(&mut self, row: &Row, position: u32, header_pages: u32, entries: &[Entry]) {
        let mut next = position + header_pages;
        let nowhere = Place::new(row.slot, position);
        for entry in entries {
            match entry {
                Entry::Cleaned { row, position, count } => self.hints.push((*row, *position, *count)),
                Entry::Pages { attachment, page, version, checksums } => {
                    self.gather_pages(*attachment, *page, *version, checksums, Place::new(row.slot, next));
                    next += u32::try_from(checksums.len()).expect("a 16-bit count");
                }
                Entry::Zeroes { attachment, page, version, count } => {
                    self.gather_range(*attachment, *page, *version, *count, nowhere, Content::Zeroes);
                }
                Entry::Lost { attachment, page, version, count } => {
                    self.gather_range(*attachment, *page, *version, *count, nowhere, Content::Lost);
                }
            }
        }
        row.assert_holds(position, next - position);
    }

    /// Pages that lie one behind the other from this place on.
    fn gather_pages(&mut self, attachment: u64, page: u64, version: u64, checksums: &[u32], place: Place) {
        let Some(volume) = self.index_of(attachment) else { return };
        let end = self.inside(volume, 0..PAGES_MAX).end;
        for ((checksum, page), position) in checksums.iter().zip(page..end).zip(place.position()..) {
            let (place, content) = (Place::new(place.row(), position), Content::Data { checksum: *checksum });
            self.found.push(PageInLog { volume, page, version, place, content, clean: false });
        }
    }

    fn gather_range(&mut self, attachment: u64, page: u64, version: u64, count: u32, place: Place, content: Content) {
        let Some(volume) = self.index_of(attachment) else { return };
        let pages = self.inside(volume, page..page + u64::from(count));
        self.ranges.push(RangeInLog { volume, pages, version, place, content, clean: false });
    }

    /// What lay in the row and was lost, as its newest entries.
    pub(super) fn gather_losses(&mut self, row: &Row, losses: &Losses) {
        let lacks = |pair: &[MirrorCell; 2]| pair.iter().all(|mirror| !mirror.get().is_there());
        let Some(segment) = row.segments.iter().position(lacks) else { return };
        let position = u32::try_from(segment).expect("a row has at most 32 segments") * row.segment_pages;
        let (version, place) = (row.version_ceiling(), Place::new(row.slot, position));
        for group in losses.groups.iter().filter(|group| group.row == row.number) {
            let Some(volume) = self.index_of(group.attachment) else { continue };
            let (content, clean) = match group.what {
                Loss::Lost => (Content::Lost, false),
                Loss::Zeroes => (Content::Zeroes, false),
                Loss::Clean => (Content::Lost, true),
            };
            for pages in &group.pages {
                let pages = self.inside(volume, pages.clone());
                self.range_pages_max += pages.end - pages.start;
                self.ranges.push(RangeInLog { volume, pages, version, place, content, clean });
            }
        }
    }

    /// What is set aside, as the newest of its row.
    pub(super) fn gather_set_aside(&mut self, log: &WriteLog, losses: &Losses) {
        for listed in &losses.rows {
            let Some(row) = log.aside_of(listed.number) else { continue };
            // Some of it may be somewhere else by now: the list must not outlive the row that says so.
            row.list_changed();
            for pages in &listed.volumes {
                let Some(volume) = self.index_of(pages.attachment) else { continue };
                let end = self.inside(volume, 0..PAGES_MAX).end;
                for entry in pages.pages.iter().filter(|entry| entry.page < end) {
                    let Some(content) = content_aside(&row, entry) else { continue };
                    let (version, place) = (row.version_ceiling(), Place::new(row.slot, entry.position));
                    self.found.push(PageInLog { volume, page: entry.page, version, place, content, clean: false });
                }
            }
        }
        for group in losses.groups.iter().filter(|group| group.what == Loss::Clean) {
            let lacks = log.rows_live().iter().any(|row| row.number == group.row && row.has_lost_segment());
            let Some(row) = log.aside_of(group.row).filter(|_| !lacks) else { continue };
            let Some(volume) = self.index_of(group.attachment) else { continue };
            let (version, place, content) = (row.version_ceiling(), Place::new(row.slot, 0), Content::Lost);
            for pages in &group.pages {
                let pages = self.inside(volume, pages.clone());
                self.range_pages_max += pages.end - pages.start;
                self.ranges.push(RangeInLog { volume, pages, version, place, content, clean: true });
            }
        }
    }

    /// Shows in the log, of each page, the entry with the highest version, which is its newest copy; answers how many pages the log
    /// has.
    pub(super) fn show(self, log: &WriteLog) -> Result<usize, Error> {
        let Gathered { mut found, ranges, hints, range_pages_max, .. } = self;
        let ranges = newest_ranges(log, ranges);
        if ranges.iter().map(|range| range.pages.end - range.pages.start).sum::<u64>() > range_pages_max {
            return Err(corrupt("its write log names more zeroes, or lost pages, than its SSDs could have held"));
        }
        for range in &ranges {
            found.extend(range.pages.clone().map(|page| range.page(page)));
        }
        found.sort_by_key(|entry| (entry.volume, entry.page, age(log, entry.version, entry.place)));
        let hints = Hints::new(hints);
        let mut pages = 0;
        for entry in found.chunk_by(|one, next| (one.volume, one.page) == (next.volume, next.page)) {
            let entry = newest_of(log, entry);
            let row = log.row(entry.place.row());
            // What is listed as unavailable was dirty then, and its position in the row may be named by hints of before.
            let may_be_hinted = matches!(entry.content, Content::Data { .. }) && !row.is_aside();
            let is_hinted = may_be_hinted && hints.name(row.number, entry.place.position());
            let PageInLog { volume, page, place, content, .. } = *entry;
            log.set(&LivePage { volume, page, place, content, dirty: !entry.clean && !is_hinted });
            pages += 1;
        }
        let live = log.overlay().total().live;
        assert_eq!(u64::try_from(pages), Ok(live), "a start shows each page of the log once, and {live} live there");
        Ok(pages)
    }
}

/// By what entries of one page are ordered: of two of one version the later one counts.
fn age(log: &WriteLog, version: u64, place: Place) -> (u64, u64, u32) {
    (version, log.row(place.row()).number, place.position())
}

/// Of all that was found of a page, the newest last: that, but where it is listed as unavailable and a later row has it. It was moved there
/// while its copies left, with the version that it had, and the list is from before that took effect.
fn newest_of<'f>(log: &WriteLog, found: &'f [PageInLog]) -> &'f PageInLog {
    let newest = found.last().expect("something was found of each page");
    let row = log.row(newest.place.row());
    if newest.clean || !row.is_aside() {
        return newest;
    }
    let is_later = |entry: &&PageInLog| log.row(entry.place.row()).number > row.number;
    found.iter().rev().find(is_later).unwrap_or(newest)
}

/// What hints say is on the backing device.
struct Hints(Vec<(u64, u32, u32)>);

impl Hints {
    fn new(mut hints: Vec<(u64, u32, u32)>) -> Self {
        hints.sort_unstable();
        Self(hints)
    }

    /// A hint names this position of a row.
    fn name(&self, row: u64, position: u32) -> bool {
        let after = self.0.partition_point(|hint| (hint.0, hint.1) <= (row, position));
        let before = after.checked_sub(1).map(|index| self.0[index]);
        before.is_some_and(|(hint_row, first, count)| hint_row == row && position - first < count)
    }
}

fn newest_ranges(log: &WriteLog, mut ranges: Vec<RangeInLog>) -> Vec<RangeInLog> {
    ranges.sort_by_key(|range| age(log, range.version, range.place));
    newest_parts(ranges)
}

/// Of ranges, the oldest first, the parts of which no later one says anything.
fn newest_parts(ranges: Vec<RangeInLog>) -> Vec<RangeInLog> {
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
            parts.push(RangeInLog { pages: last.min(end)..end, ..range.clone() });
            whole = whole.start.min(first)..whole.end.max(last);
            end = end.min(first);
        }
        parts.push(RangeInLog { pages: range.pages.start.min(end)..end, ..range });
        covered.insert((volume, whole.start), whole.end);
    }
    parts.retain(|part| !part.pages.is_empty());
    parts
}

/// What a page is that is set aside; `None`: it is not, or it lies nowhere.
fn content_aside(row: &Row, entry: &AsidePage) -> Option<Content> {
    let (segment, _) = row.locate(entry.position);
    let pair = row.segments.get(at(segment))?;
    if pair.iter().all(|copy| copy.get().place().is_none()) {
        return None;
    }
    let checksum = entry.checksum;
    let is_there = row.mirrors(segment).next().is_some();
    Some(if is_there { Content::Data { checksum } } else { Content::Unavailable { checksum } })
}

pub(super) fn corrupt(rule: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the pool cannot be opened: {rule}"))
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use hotset_block::RealInstant;
    use proptest::prelude::*;

    use super::*;
    use crate::format::losses::AsideRow;
    use crate::log::segment_copy::Mirror;

    /// Gathers a batch with a header of one page and two pages of data that begins at a position of a row of two segments, of 256 pages
    /// each with their summaries of three.
    fn gather_at(position: u32) -> usize {
        let row = Rc::new(Row::new(0, 1, 7, vec![[Mirror::Nowhere; 2]; 2], 256, RealInstant(0)));
        let mut gathered = Gathered { volumes: vec![(7, 100)], ..Gathered::default() };
        let checksums = [1, 2].into_iter().collect();
        gathered.gather(&row, position, 1, &[Entry::Pages { attachment: 7, page: 98, version: 1, checksums }]);
        gathered.found.len()
    }

    #[test]
    fn a_batch_lies_between_the_header_and_the_summary_of_a_segment() {
        assert_eq!([1, 250, 257, 506].map(gather_at), [2; 4]);
    }

    #[test]
    #[should_panic(expected = "3 pages at position 251 of row 1")]
    fn a_batch_that_reaches_into_a_summary_is_not_believed() {
        gather_at(251);
    }

    #[test]
    #[should_panic(expected = "3 pages at position 256 of row 1")]
    fn a_batch_in_the_place_of_a_header_is_not_believed() {
        gather_at(256);
    }

    #[test]
    #[should_panic(expected = "3 pages at position 513 of row 1")]
    fn a_batch_behind_its_row_is_not_believed() {
        gather_at(513);
    }

    // proves: F5, F7
    #[test]
    fn what_a_start_found_listed_is_listed_anew_before_a_row_is_freed() {
        let log = WriteLog::new();
        let slot = log.free_row_slot().expect("there are none yet");
        log.add_aside(&Rc::new(Row::new_aside(slot, 3, 7, 1, 256, RealInstant(0))));
        assert!(!log.list_is_behind());
        let (number, incarnation, segment_pages) = (3, 7, 256);
        let row = AsideRow { number, incarnation, segment_pages, segments: Vec::new(), volumes: Vec::new() };
        Gathered::default().gather_set_aside(&log, &Losses { rows: vec![row], ..Losses::default() });
        assert!(log.list_is_behind(), "newer entries of its pages may be in rows that are freed first");
    }

    // proves: F5, F7
    #[test]
    fn what_was_moved_on_before_the_list_says_so_lies_where_it_was_moved_to() {
        let log = WriteLog::new();
        let now = RealInstant(0);
        let in_log = |number| {
            let slot = log.free_row_slot().expect("there are few rows");
            let row = Rc::new(Row::new(slot, number, 7, vec![[Mirror::Nowhere; 2]], 256, now));
            log.add_row(&row);
            row
        };
        let [before, later] = [2, 5].map(in_log);
        let twin = Rc::new(Row::new_aside(log.free_row_slot().expect("there are few rows"), 3, 7, 1, 256, now));
        log.add_aside(&twin);
        let found = |page, row: &Rc<Row>, version, content| {
            let (volume, place) = (VolumeIndex(0), Place::new(row.slot, 9));
            PageInLog { volume, page, version, place, content, clean: false }
        };
        let (data, unavailable) = (Content::Data { checksum: 1 }, Content::Unavailable { checksum: 1 });
        let listed = |page| found(page, &twin, twin.version_ceiling(), unavailable);
        let replaced = PageInLog { clean: true, content: Content::Lost, ..listed(3) };
        let moved = |page| found(page, &later, 7, data);
        let found = vec![found(1, &before, 6, data), listed(1), listed(2), moved(2), replaced, moved(3)];
        let gathered = Gathered { volumes: vec![(7, 100)], found, ..Gathered::default() };
        assert_eq!(gathered.show(&log).expect("the log is sound"), 3);
        let rows = [1, 2, 3].map(|page| log.overlay().get(VolumeIndex(0), page).expect("it is there").place.row());
        assert_eq!(rows, [twin.slot, later.slot, twin.slot]);
    }

    proptest! {
        #[test]
        fn of_each_page_the_newest_range_counts(
            ranges in prop::collection::vec((0_u16..2, 0_u64..100, 0_u64..20), 0..40),
        ) {
            let range = |(version, (volume, start, count)): (u64, (u16, u64, u64))| RangeInLog {
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
