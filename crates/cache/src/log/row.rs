//! A row of the write log: its segments, how far it is filled, what lives in it, and who reads it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use hotset_block::sync::Event;
use hotset_block::{PAGE_BYTES, RealInstant};
use smallvec::SmallVec;

use crate::address::{SsdIndex, VolumeIndex, at};
use crate::format::log::{Payload, SegmentHeader, Summary, SummaryDraft, summary_pages};
use crate::format::rows::{RowRecord, SegmentCopy};
use crate::log::overlay::{Content, LivePage, Place};
use crate::log::row_life::{RowChange, RowLife};
use crate::log::segment_copy::{Mirror, MirrorCell, PresentCopy};
use crate::members::segments::Purpose;

/// In which order the copies of a segment are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CopyOrder {
    #[default]
    FirstFirst,
    SecondFirst,
}

impl CopyOrder {
    pub(crate) fn other(self) -> Self {
        match self {
            Self::FirstFirst => Self::SecondFirst,
            Self::SecondFirst => Self::FirstFirst,
        }
    }
}

/// What a row is to the log.
enum RowStanding {
    InLog(Cell<RowLife>),
    /// It is set aside: out of the log, as what was listed of it.
    Aside(Listed),
}

/// What is listed of a row in the losses record.
#[derive(Default)]
struct Listed {
    pages: RefCell<BTreeSet<(VolumeIndex, u64)>>,
    /// So many pages were set aside here before they were flushed.
    unflushed: Cell<u64>,
    /// So many of them, the first ones, are durable since.
    durable: Cell<u64>,
    /// The record names pages here that are somewhere else by now, or lacks some.
    is_behind: Cell<bool>,
}

/// What a row holds dirty of one volume, in two ages: where hosts write and the cleaner follows, there is never nothing dirty,
/// and the oldest is not as old as that. A segment fills from its start on, so places tell the ages apart.
#[derive(Clone, Copy, Default)]
struct DirtyOf {
    older: DirtyOfVolume,
    newer: DirtyOfVolume,
    /// From this page of each segment on it is newer.
    newer_from: u32,
    /// Behind the last page of any segment where something was dirty.
    end: u32,
}

#[derive(Clone, Copy, Default)]
struct DirtyOfVolume {
    pages: u32,
    /// None of them has been dirty for longer.
    since: RealInstant,
}

impl DirtyOf {
    fn pages(&self) -> u32 {
        self.older.pages + self.newer.pages
    }

    fn add(&mut self, page: u32, since: RealInstant) {
        self.end = self.end.max(page + 1);
        if self.older.pages == 0 {
            assert_eq!(self.newer.pages, 0, "a row has newer dirty pages of a volume, and none that are older");
            *self = Self {
                older: DirtyOfVolume { pages: 1, since },
                newer: DirtyOfVolume::default(),
                newer_from: self.end,
                end: self.end,
            };
            return;
        }
        let dirty = self.of(page);
        dirty.since = if dirty.pages == 0 { since } else { dirty.since.min(since) };
        dirty.pages += 1;
    }

    fn remove(&mut self, page: u32) {
        let dirty = self.of(page);
        assert!(dirty.pages > 0, "a page of a row is clean now, and none was dirty");
        dirty.pages -= 1;
        if self.older.pages == 0 {
            *self = Self { older: self.newer, newer: DirtyOfVolume::default(), newer_from: self.end, end: self.end };
        }
    }

    fn of(&mut self, page: u32) -> &mut DirtyOfVolume {
        if page < self.newer_from { &mut self.older } else { &mut self.newer }
    }

    fn since(&self) -> Option<RealInstant> {
        let ages = [self.older, self.newer].into_iter().filter(|dirty| dirty.pages > 0);
        ages.map(|dirty| dirty.since).min()
    }
}

/// Where in a row a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchPlaceInRow {
    pub(crate) segment: u32,
    /// Its number in the row.
    pub(crate) index: u32,
    /// Of the segment.
    pub(crate) first_page: u32,
}

pub(crate) struct Row {
    /// Its place in memory.
    pub(crate) slot: u32,
    pub(crate) number: u64,
    pub(crate) incarnation: u64,
    pub(crate) segments: Vec<[MirrorCell; 2]>,
    pub(crate) segment_pages: u32,
    standing: RowStanding,
    batches: Cell<u32>,
    /// Of its last batch.
    last_checksum: Cell<u32>,
    /// By segment: where the next batch begins.
    next_page: RefCell<Vec<u32>>,
    drafts: RefCell<Vec<SummaryDraft>>,
    in_flight: Cell<u32>,
    /// Versions given out in this row.
    versions: Cell<u32>,
    /// Pages whose newest copy is here.
    live: Cell<u32>,
    /// A bit for each position: without it, no page's newest copy is there.
    positions: RefCell<Vec<u64>>,
    /// By [`VolumeIndex`].
    dirty: RefCell<Vec<DirtyOf>>,
    /// When its newest batch got its place, or the row was found at a start.
    batched_at: Cell<RealInstant>,
    readers: Cell<u32>,
    /// Copies in whose place others are: their segments are used again when the row is freed.
    pub(super) replaced: RefCell<Vec<PresentCopy>>,
    pub(crate) changed: Event,
}

impl Row {
    pub(crate) fn new(
        slot: u32,
        number: u64,
        incarnation: u64,
        segments: Vec<[Mirror; 2]>,
        segment_pages: u32,
        now: RealInstant,
    ) -> Self {
        let count = segments.len();
        let mut drafts = Vec::new();
        drafts.resize_with(count, SummaryDraft::default);
        Self {
            slot,
            number,
            incarnation,
            segments: segments.into_iter().map(|pair| pair.map(MirrorCell::new)).collect(),
            segment_pages,
            standing: RowStanding::InLog(Cell::new(RowLife::Opening)),
            batches: Cell::new(0),
            last_checksum: Cell::new(0),
            next_page: RefCell::new(vec![1; count]),
            drafts: RefCell::new(drafts),
            in_flight: Cell::new(0),
            versions: Cell::new(0),
            live: Cell::new(0),
            positions: RefCell::new(vec![0; count * at(segment_pages.div_ceil(POSITIONS_PER_WORD))]),
            dirty: RefCell::default(),
            batched_at: Cell::new(now),
            readers: Cell::new(0),
            replaced: RefCell::default(),
            changed: Event::new(),
        }
    }

    /// One that is set aside, of this number and incarnation, with room for so many segments of which no copy is known yet.
    pub(crate) fn new_aside(
        slot: u32,
        number: u64,
        incarnation: u64,
        segments: usize,
        segment_pages: u32,
        now: RealInstant,
    ) -> Self {
        let row = Self::new(slot, number, incarnation, vec![[Mirror::Nowhere; 2]; segments], segment_pages, now);
        Self { standing: RowStanding::Aside(Listed::default()), ..row }
    }

    /// How far it is. What is set aside takes nothing more, and is believed page by page.
    pub(crate) fn life(&self) -> RowLife {
        match &self.standing {
            RowStanding::InLog(life) => life.get(),
            RowStanding::Aside(_) => RowLife::BrokenSealed,
        }
    }

    /// Something happens to a row of the log.
    pub(crate) fn change(&self, change: RowChange) {
        if let RowStanding::InLog(life) = &self.standing
            && let Some(after) = life.get().after(change)
        {
            life.set(after);
        }
    }

    fn listed_as(&self) -> Option<&Listed> {
        match &self.standing {
            RowStanding::InLog(_) => None,
            RowStanding::Aside(listed) => Some(listed),
        }
    }

    /// It is out of the log: its pages are listed one by one.
    pub(crate) fn is_aside(&self) -> bool {
        self.listed_as().is_some()
    }

    /// The pages for which it is listed, in order.
    pub(crate) fn listed(&self) -> Vec<(VolumeIndex, u64)> {
        self.listed_as().map_or_else(Vec::new, |listed| listed.pages.borrow().iter().copied().collect())
    }

    /// One more page is set aside here before it was flushed.
    pub(crate) fn add_unflushed(&self) {
        self.listed_as().inspect(|listed| listed.unflushed.set(listed.unflushed.get() + 1));
    }

    /// So many pages were set aside here before they were flushed.
    pub(crate) fn unflushed(&self) -> u64 {
        self.listed_as().map_or(0, |listed| listed.unflushed.get())
    }

    /// So many of them, the first ones, are durable.
    pub(crate) fn are_durable(&self, unflushed: u64) {
        self.listed_as().inspect(|listed| listed.durable.set(listed.durable.get().max(unflushed)));
    }

    /// Something was set aside here before it was flushed, and may not be durable yet.
    pub(crate) fn is_unflushed(&self) -> bool {
        self.listed_as().is_some_and(|listed| listed.durable.get() < listed.unflushed.get())
    }

    /// From here on the losses record names pages that are somewhere else, or lacks some.
    pub(crate) fn list_changed(&self) {
        self.listed_as().inspect(|listed| listed.is_behind.set(true));
    }

    /// The losses record names pages that are somewhere else by now, or lacks some.
    pub(crate) fn list_is_behind(&self) -> bool {
        self.listed_as().is_some_and(|listed| listed.is_behind.get())
    }

    /// The losses record says what is listed now.
    pub(crate) fn list_is_recorded(&self) {
        self.listed_as().inspect(|listed| listed.is_behind.set(false));
    }

    /// A segment of it has no copy left.
    pub(crate) fn has_lost_segment(&self) -> bool {
        self.segments.iter().any(|pair| pair.iter().all(|mirror| !mirror.get().is_there()))
    }

    /// This segment of an SSD has, or had, a copy of it, wherever the SSD is.
    pub(crate) fn names_segment(&self, ssd_uuid: u128, segment: u32) -> bool {
        let copies = self.segments.iter().flatten().filter_map(|mirror| mirror.get().place());
        let replaced = self.replaced.borrow();
        let replaced = replaced.iter().map(|copy| (copy.ssd_uuid, copy.segment));
        copies.chain(replaced).any(|place| place == (ssd_uuid, segment))
    }

    /// A copy of some segment is there.
    pub(crate) fn has_copies(&self) -> bool {
        self.segments.iter().flatten().any(|mirror| mirror.get().is_there())
    }

    /// Of one of its segments.
    pub(crate) fn header(&self, position: u32) -> SegmentHeader {
        SegmentHeader { row: self.number, incarnation: self.incarnation, position }
    }

    /// What is written to its segments is for this row, and for none that had them before.
    pub(crate) fn purpose(&self) -> Purpose {
        Purpose::Log { incarnation: self.incarnation }
    }

    /// # Panics
    /// If these pages are not all between the header and the summary of one of its segments: what was decoded was checked, so
    /// whoever says that they are a batch is wrong.
    pub(crate) fn assert_holds(&self, position: u32, pages: u32) {
        let (segment, first) = self.locate(position);
        let inside = first > 0 && u64::from(first) + u64::from(pages) <= u64::from(self.batches_end());
        let holds = inside && usize::try_from(segment).is_ok_and(|segment| segment < self.segments.len());
        assert!(holds, "{pages} pages at position {position} of row {} are no batch of it", self.number);
    }

    /// Batches end before this page of each segment.
    pub(crate) fn batches_end(&self) -> u32 {
        self.segment_pages - summary_pages(self.segment_pages)
    }

    /// Pages of data that it has place for, about.
    pub(super) fn data_pages(&self) -> u64 {
        u64::try_from(self.segments.len()).expect("an address has 64 bits at most")
            * u64::from(self.batches_end().saturating_sub(1))
    }

    /// The segment that takes the next batch.
    pub(crate) fn next_segment(&self) -> u32 {
        self.batches.get() % self.segment_count()
    }

    fn segment_count(&self) -> u32 {
        u32::try_from(self.segments.len()).expect("a row has at most 32 segments")
    }

    /// Where the next batch goes.
    pub(crate) fn next_place(&self) -> BatchPlaceInRow {
        let segment = self.next_segment();
        BatchPlaceInRow { segment, index: self.batches.get(), first_page: self.next_page.borrow()[at(segment)] }
    }

    /// The next batch has so many pages and is in its place, on its way to the SSDs.
    pub(crate) fn begin_batch(&self, pages: u32, payload: &Payload, now: RealInstant) {
        assert!(self.life().takes_batches(), "row {} is {:?} and gets a batch", self.number, self.life());
        self.add_batch(pages, payload);
        self.in_flight.set(self.in_flight.get() + 1);
        let (in_flight, batches) = (self.in_flight.get(), self.batches.get());
        assert!(in_flight <= batches, "row {}: {in_flight} batches are in flight of {batches}", self.number);
        self.batched_at.set(now);
    }

    /// The next batch was found by a start.
    pub(crate) fn found_batch(&self, pages: u32, payload: &Payload) {
        self.add_batch(pages, payload);
    }

    fn add_batch(&self, pages: u32, payload: &Payload) {
        let BatchPlaceInRow { segment, index, first_page } = self.next_place();
        let room = self.room();
        assert!(pages > 0 && pages <= room, "row {}: a batch of {pages} pages, and room for {room}", self.number);
        self.next_page.borrow_mut()[at(segment)] = first_page + pages;
        self.drafts.borrow_mut()[at(segment)].push(index, first_page, payload);
        self.batches.set(index + 1);
    }

    /// A batch is complete, or no start finds it any more.
    pub(crate) fn batch_ended(&self) {
        let in_flight = self.in_flight.get();
        assert!(in_flight > 0, "row {}: a batch ends, and none is in flight", self.number);
        self.in_flight.set(in_flight - 1);
        self.changed.wake_all();
    }

    pub(crate) fn has_batches_in_flight(&self) -> bool {
        self.in_flight.get() > 0
    }

    pub(crate) fn batches(&self) -> u32 {
        self.batches.get()
    }

    /// Of its last batch; of an empty row, of the one before it.
    pub(crate) fn last_checksum(&self) -> u32 {
        self.last_checksum.get()
    }

    /// Its last batch, or if it has none the one before it, has this checksum.
    pub(crate) fn ends_with(&self, checksum: u32) {
        self.last_checksum.set(checksum);
    }

    /// Its summaries say that it has so many batches, and which is the last one.
    pub(crate) fn is_as_summarised(&self, summary: &Summary) {
        assert_eq!(self.batches.get(), 0, "row {}: its summaries are believed beside its batches", self.number);
        assert!(!self.has_batches_in_flight(), "row {}: its summaries are believed while it is written", self.number);
        self.batches.set(summary.row_batches);
        self.last_checksum.set(summary.last_checksum);
    }

    /// Bytes of the draft of the summary of the segment that takes the next batch.
    pub(crate) fn draft_bytes(&self) -> usize {
        self.drafts.borrow()[at(self.next_segment())].bytes_with(0)
    }

    /// The summary of one of its segments.
    pub(crate) fn encode_summary(&self, position: u32) -> Vec<u8> {
        assert!(!self.has_batches_in_flight(), "row {}: its summary would not say all that it holds", self.number);
        let header = self.header(position);
        let summary = self.drafts.borrow()[at(position)].encode(&header, self.batches.get(), self.last_checksum.get());
        let (length, room) = (summary.len(), at(summary_pages(self.segment_pages)) * PAGE_BYTES);
        assert!(length <= room, "row {}: a summary of {length} bytes would reach into the next segment", self.number);
        summary
    }

    /// Its summaries have room for what they are to say. Batches are made so; those that a start finds may be anything.
    pub(crate) fn fits_summaries(&self) -> bool {
        let room = at(summary_pages(self.segment_pages)) * PAGE_BYTES;
        self.drafts.borrow().iter().all(|draft| draft.bytes() <= room)
    }

    /// Its summaries are written, or will not be.
    pub(crate) fn forget_drafts(&self) {
        let life = self.life();
        assert!(!life.takes_batches(), "row {} is {life:?}, and forgets what its summaries are to say", self.number);
        self.drafts.borrow_mut().clear();
    }

    /// Pages that the next batch may have, header included.
    pub(crate) fn room(&self) -> u32 {
        self.batches_end().saturating_sub(self.next_page.borrow()[at(self.next_segment())])
    }

    /// Pages of data, about, for which it has place still.
    pub(crate) fn pages_left(&self) -> u64 {
        let next = self.next_page.borrow();
        next.iter().map(|page| u64::from(self.batches_end().saturating_sub(*page))).sum()
    }

    /// A quarter of it is full.
    pub(crate) fn is_quarter_full(&self) -> bool {
        self.next_page.borrow()[0] >= self.batches_end() / 4
    }

    /// Pages whose newest copy is here.
    pub(crate) fn live(&self) -> u32 {
        self.live.get()
    }

    /// The position of a page of a segment.
    pub(crate) fn position(&self, segment: u32, page: u32) -> u32 {
        segment * self.segment_pages + page
    }

    /// The segment in which a position lies, and the page in it.
    pub(crate) fn locate(&self, position: u32) -> (u32, u32) {
        (position / self.segment_pages, position % self.segment_pages)
    }

    /// A version that no other entry ever had: row numbers are not reused.
    pub(crate) fn next_version(&self) -> u64 {
        let version = self.versions.get();
        assert!(version < u32::MAX, "row {}: its next version would be that of what it lost", self.number);
        self.versions.set(version + 1);
        (self.number << 32) | u64::from(version)
    }

    pub(crate) fn version_ceiling(&self) -> u64 {
        (self.number << 32) | u64::from(u32::MAX)
    }

    /// The copies that are there.
    pub(crate) fn mirrors(&self, segment: u32) -> impl Iterator<Item = PresentCopy> {
        self.segments[at(segment)].iter().filter_map(|mirror| mirror.get().present())
    }

    /// The copies that are there, for a reader who tries one after the other: whatever takes another's place meanwhile
    /// included.
    pub(crate) fn copies_one_by_one(&self, segment: u32) -> CopiesOneByOne<'_> {
        self.copies_in_order(segment, CopyOrder::default())
    }

    pub(crate) fn copies_in_order(&self, segment: u32, order: CopyOrder) -> CopiesOneByOne<'_> {
        let pair = &self.segments[at(segment)];
        CopiesOneByOne { pair, order, tried: SmallVec::new() }
    }

    pub(crate) fn dirty(&self) -> u32 {
        self.dirty.borrow().iter().map(DirtyOf::pages).sum()
    }

    pub(crate) fn dirty_of(&self, volume: VolumeIndex) -> u32 {
        self.dirty.borrow().get(usize::from(volume.0)).map_or(0, DirtyOf::pages)
    }

    /// Nothing that it holds dirty of the volume has been so for longer.
    pub(super) fn dirty_since(&self, volume: VolumeIndex) -> Option<RealInstant> {
        self.dirty.borrow().get(usize::from(volume.0)).and_then(DirtyOf::since)
    }

    /// When its newest batch got its place, or the row was found at a start.
    pub(super) fn batched_at(&self) -> RealInstant {
        self.batched_at.get()
    }

    fn add_dirty(&self, volume: VolumeIndex, place: Place, since: RealInstant) {
        let mut dirty = self.dirty.borrow_mut();
        let index = usize::from(volume.0);
        if dirty.len() <= index {
            dirty.resize(index + 1, DirtyOf::default());
        }
        dirty[index].add(place.position() % self.segment_pages, since);
    }

    pub(super) fn remove_dirty(&self, volume: VolumeIndex, place: Place) {
        self.dirty.borrow_mut()[usize::from(volume.0)].remove(place.position() % self.segment_pages);
    }

    /// A page's newest copy is at this position. Of what is dirty: since when.
    pub(super) fn add_live(&self, live: &LivePage, since: RealInstant) {
        let (position, end) = (live.place.position(), self.segment_pages * self.segment_count());
        assert!(position < end, "row {}: a page lives at position {position}, and it has {end}", self.number);
        self.live.set(self.live.get() + 1);
        let (word, bit) = word_and_bit(live.place.position());
        self.positions.borrow_mut()[word] |= bit;
        if live.dirty {
            self.add_dirty(live.volume, live.place, since);
        }
        if let Some(listed) = self.listed_as() {
            let is_new = listed.pages.borrow_mut().insert((live.volume, live.page));
            assert!(is_new, "row {}: page {} is set aside twice", self.number, live.page);
        }
    }

    pub(super) fn remove_live(&self, live: &LivePage) {
        let lives = self.live.get();
        assert!(lives > 0, "row {}: a page leaves it, and none lives in it", self.number);
        self.live.set(lives - 1);
        if let Some(listed) = self.listed_as() {
            let was_listed = listed.pages.borrow_mut().remove(&(live.volume, live.page));
            assert!(was_listed, "row {}: page {} leaves it, and was not set aside", self.number, live.page);
        }
        // Other pages may be zeroes, or lost, by the same batch.
        if matches!(live.content, Content::Data { .. }) {
            let (word, bit) = word_and_bit(live.place.position());
            self.positions.borrow_mut()[word] &= !bit;
        }
        if live.dirty {
            self.remove_dirty(live.volume, live.place);
        }
    }

    /// Whether a page's newest copy may be at one of these positions; false is certain.
    pub(crate) fn may_live_at(&self, mut positions: Range<u32>) -> bool {
        let words = self.positions.borrow();
        positions.any(|position| {
            let (word, bit) = word_and_bit(position);
            words.get(word).is_some_and(|bits| bits & bit != 0)
        })
    }

    pub(crate) fn is_read(&self) -> bool {
        self.readers.get() > 0
    }

    pub(super) fn record(&self) -> RowRecord {
        let copy = |mirror: &MirrorCell| {
            let (ssd_uuid, segment) = mirror.get().place().unwrap_or_default();
            SegmentCopy { ssd_uuid, segment, lost: !mirror.get().is_there() }
        };
        RowRecord {
            number: self.number,
            incarnation: self.incarnation,
            version_ceiling: self.version_ceiling(),
            sealed: self.life().is_sealed(),
            segments: self.segments.iter().map(|pair| [copy(&pair[0]), copy(&pair[1])]).collect(),
        }
    }
}

/// See [`Row::copies_one_by_one`]. An SSD takes seconds to leave: the pair is looked up anew for each copy.
pub(crate) struct CopiesOneByOne<'a> {
    pair: &'a [MirrorCell; 2],
    order: CopyOrder,
    tried: SmallVec<[PresentCopy; 2]>,
}

impl Iterator for CopiesOneByOne<'_> {
    type Item = (SsdIndex, PresentCopy);

    fn next(&mut self) -> Option<Self::Item> {
        let [first, second] = self.pair.each_ref().map(|mirror| mirror.get().present());
        let in_order = match self.order {
            CopyOrder::FirstFirst => [first, second],
            CopyOrder::SecondFirst => [second, first],
        };
        let next = in_order.into_iter().flatten().find(|copy| !self.tried.contains(copy))?;
        self.tried.push(next);
        Some((next.ssd, next))
    }
}

const POSITIONS_PER_WORD: u32 = u64::BITS;

fn word_and_bit(position: u32) -> (usize, u64) {
    (at(position / POSITIONS_PER_WORD), 1 << (position % POSITIONS_PER_WORD))
}

/// A read of a row's segments: while it lives, they are not used again.
pub(crate) struct RowReading(Rc<Row>);

impl RowReading {
    pub(crate) fn new(row: &Rc<Row>) -> Self {
        row.readers.set(row.readers.get() + 1);
        Self(Rc::clone(row))
    }
}

#[cfg(test)]
impl RowReading {
    /// One that is not counted.
    pub(crate) fn of_nobody(row: &Rc<Row>) -> Self {
        Self(Rc::clone(row))
    }
}

impl Drop for RowReading {
    fn drop(&mut self) {
        let readers = self.0.readers.get();
        assert!(readers > 0, "a read of row {} ends that did not begin", self.0.number);
        self.0.readers.set(readers - 1);
        if self.0.readers.get() == 0 {
            self.0.changed.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    fn new_row() -> Row {
        let row = Row::new(0, 1, 7, vec![[Mirror::Nowhere; 2]], 256, RealInstant(0));
        row.change(RowChange::HeadersDurable);
        row
    }

    fn summary(row: &Row) -> Summary {
        Summary { header: row.header(0), row_batches: 4, last_checksum: 9, batches: Vec::new() }
    }

    #[test]
    #[should_panic(expected = "row 1: 2 batches are in flight of 1")]
    fn no_more_batches_are_in_flight_than_there_are() {
        let row = new_row();
        row.in_flight.set(1);
        row.begin_batch(1, &Payload::default(), RealInstant(1));
    }

    #[test]
    #[should_panic(expected = "row 1: its summaries are believed beside its batches")]
    fn summaries_are_not_believed_of_a_row_whose_batches_were_read() {
        let row = new_row();
        row.found_batch(1, &Payload::default());
        row.is_as_summarised(&summary(&row));
    }

    #[test]
    #[should_panic(expected = "row 1: its summaries are believed while it is written")]
    fn summaries_are_not_believed_of_a_row_that_is_written() {
        let row = new_row();
        row.in_flight.set(1);
        row.is_as_summarised(&summary(&row));
    }

    #[test]
    fn a_row_gives_out_no_version_that_stands_for_what_it_lost() {
        let row = new_row();
        row.versions.set(u32::MAX - 1);
        assert_eq!(row.next_version(), row.version_ceiling() - 1);
        assert_refused("row 1: its next version would be that of what it lost", || row.next_version());
    }
}
