//! The write log of a pool as it is now: its rows, what waits to be appended, what is in flight, and how much room
//! there is.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

use hotset_block::sync::{Event, Promise};
use hotset_block::{Buf, RealInstant};
use smallvec::SmallVec;

use crate::address::{SsdIndex, VolumeIndex, at};
use crate::error::Error;
use crate::format::log::{SegmentHeader, SummaryDraft, summary_pages};
use crate::format::losses::Losses;
use crate::format::rows::{Row as RowRecord, Rows, SegmentCopy};
use crate::log::mirrors::Mirrors;
use crate::log::overlay::{Content, Counts, Live, Overlay, PAGES_MAX, Place};
use crate::log::row_life::{RowChange, RowLife};
use crate::log::segment_copy::{Mirror, MirrorCell, MirrorChange, PresentCopy};
use crate::members::newest::Records;

/// Rows that may live at once: what a [`Place`] can name.
const ROWS_MAX: usize = 4096;
/// Rows that hosts' appends leave over: one to move the oldest row into, one on its way to be free.
pub(crate) const ROWS_RESERVED: usize = 2;

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
enum Standing {
    InLog(Cell<RowLife>),
    /// It is set aside: out of the log, as what was listed of it.
    Aside(Listed),
}

/// What is listed of a row in the losses record.
#[derive(Default)]
struct Listed {
    pages: RefCell<BTreeSet<(VolumeIndex, u64)>>,
    /// It was set aside before all of it was flushed.
    is_unflushed: Cell<bool>,
    /// The record names pages here that are somewhere else by now, or lacks some.
    is_behind: Cell<bool>,
}

/// What a row holds dirty of one volume, in two ages: where hosts write and the cleaner follows, there is never nothing dirty,
/// and the oldest is not as old as that. A segment fills from its start on, so places tell the ages apart.
#[derive(Clone, Copy, Default)]
struct DirtyOf {
    older: Dirty,
    newer: Dirty,
    /// From this page of each segment on it is newer.
    newer_from: u32,
    /// Behind the last page of any segment where something was dirty.
    end: u32,
}

#[derive(Clone, Copy, Default)]
struct Dirty {
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
            *self =
                Self { older: Dirty { pages: 1, since }, newer: Dirty::default(), newer_from: self.end, end: self.end };
            return;
        }
        let dirty = self.of(page);
        dirty.since = if dirty.pages == 0 { since } else { dirty.since.min(since) };
        dirty.pages += 1;
    }

    fn remove(&mut self, page: u32) {
        self.of(page).pages -= 1;
        if self.older.pages == 0 {
            *self = Self { older: self.newer, newer: Dirty::default(), newer_from: self.end, end: self.end };
        }
    }

    fn of(&mut self, page: u32) -> &mut Dirty {
        if page < self.newer_from { &mut self.older } else { &mut self.newer }
    }

    fn since(&self) -> Option<RealInstant> {
        let ages = [self.older, self.newer].into_iter().filter(|dirty| dirty.pages > 0);
        ages.map(|dirty| dirty.since).min()
    }
}

pub(crate) struct Row {
    /// Its place in memory.
    pub(crate) slot: u32,
    pub(crate) number: u64,
    pub(crate) incarnation: u64,
    pub(crate) segments: Vec<[MirrorCell; 2]>,
    pub(crate) segment_pages: u32,
    standing: Standing,
    pub(crate) batches: Cell<u32>,
    /// Of its last batch.
    pub(crate) last_checksum: Cell<u32>,
    /// By segment: where the next batch begins.
    pub(crate) next_page: RefCell<Vec<u32>>,
    pub(crate) drafts: RefCell<Vec<SummaryDraft>>,
    pub(crate) in_flight: Cell<u32>,
    /// Versions given out in this row.
    pub(crate) versions: Cell<u32>,
    /// Pages whose newest copy is here.
    pub(crate) live: Cell<u32>,
    /// A bit for each position: without it, no page's newest copy is there.
    positions: RefCell<Vec<u64>>,
    /// By [`VolumeIndex`].
    dirty: RefCell<Vec<DirtyOf>>,
    /// When its newest batch got its place, or the row was found at a start.
    batched_at: Cell<RealInstant>,
    readers: Cell<u32>,
    /// Copies in whose place others are: their segments are used again when the row is freed.
    pub(crate) replaced: RefCell<Vec<PresentCopy>>,
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
            standing: Standing::InLog(Cell::new(RowLife::Opening)),
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
        Self { standing: Standing::Aside(Listed::default()), ..row }
    }

    /// How far it is. What is set aside takes nothing more, and is believed page by page.
    pub(crate) fn life(&self) -> RowLife {
        match &self.standing {
            Standing::InLog(life) => life.get(),
            Standing::Aside(_) => RowLife::BrokenSealed,
        }
    }

    /// Something happens to a row of the log.
    pub(crate) fn change(&self, change: RowChange) {
        if let Standing::InLog(life) = &self.standing
            && let Some(after) = life.get().after(change)
        {
            life.set(after);
        }
    }

    fn listed_as(&self) -> Option<&Listed> {
        match &self.standing {
            Standing::InLog(_) => None,
            Standing::Aside(listed) => Some(listed),
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

    /// It was set aside before all of it was flushed, or is durable now.
    pub(crate) fn set_unflushed(&self, is_unflushed: bool) {
        self.listed_as().inspect(|listed| listed.is_unflushed.set(is_unflushed));
    }

    /// It was set aside before all of it was flushed.
    pub(crate) fn is_unflushed(&self) -> bool {
        self.listed_as().is_some_and(|listed| listed.is_unflushed.get())
    }

    /// The losses record names pages that are somewhere else by now, or lacks some.
    pub(crate) fn list_changed(&self) {
        self.listed_as().inspect(|listed| listed.is_behind.set(true));
    }

    /// The losses record says what is listed now.
    pub(crate) fn list_is_recorded(&self) {
        self.listed_as().inspect(|listed| listed.is_behind.set(false));
    }

    /// A segment of it has no copy left.
    pub(crate) fn has_lost_segment(&self) -> bool {
        self.segments.iter().any(|pair| pair.iter().all(|mirror| !mirror.get().is_there()))
    }

    /// A copy of some segment is there.
    pub(crate) fn has_copies(&self) -> bool {
        self.segments.iter().flatten().any(|mirror| mirror.get().is_there())
    }

    /// Of one of its segments.
    pub(crate) fn header(&self, position: u32) -> SegmentHeader {
        SegmentHeader { row: self.number, incarnation: self.incarnation, position }
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
    fn data_pages(&self) -> u64 {
        u64::try_from(self.segments.len()).expect("an address has 64 bits at most")
            * u64::from(self.batches_end().saturating_sub(1))
    }

    /// The segment that takes the next batch.
    pub(crate) fn next_segment(&self) -> u32 {
        self.batches.get() % u32::try_from(self.segments.len()).expect("segments of a row are bounded")
    }

    /// Pages that the next batch may have, header included.
    pub(crate) fn room(&self) -> u32 {
        self.batches_end().saturating_sub(self.next_page.borrow()[at(self.next_segment())])
    }

    /// The segment in which a position lies, and the page in it.
    pub(crate) fn locate(&self, position: u32) -> (u32, u32) {
        (position / self.segment_pages, position % self.segment_pages)
    }

    /// A version that no other entry ever had: row numbers are not reused.
    pub(crate) fn next_version(&self) -> u64 {
        let version = self.versions.get();
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
    fn dirty_since(&self, volume: VolumeIndex) -> Option<RealInstant> {
        self.dirty.borrow().get(usize::from(volume.0)).and_then(DirtyOf::since)
    }

    /// A batch got its place here.
    pub(crate) fn note_batch(&self, now: RealInstant) {
        self.batched_at.set(now);
    }

    fn add_dirty(&self, volume: VolumeIndex, place: Place, since: RealInstant) {
        let mut dirty = self.dirty.borrow_mut();
        let index = usize::from(volume.0);
        if dirty.len() <= index {
            dirty.resize(index + 1, DirtyOf::default());
        }
        dirty[index].add(place.position() % self.segment_pages, since);
    }

    fn remove_dirty(&self, volume: VolumeIndex, place: Place) {
        self.dirty.borrow_mut()[usize::from(volume.0)].remove(place.position() % self.segment_pages);
    }

    /// A page's newest copy is at this position. Of what is dirty: since when.
    fn add_live(&self, live: &Live, since: RealInstant) {
        self.live.set(self.live.get() + 1);
        let (word, bit) = word_and_bit(live.place.position());
        self.positions.borrow_mut()[word] |= bit;
        if live.dirty {
            self.add_dirty(live.volume, live.place, since);
        }
        if let Some(listed) = self.listed_as() {
            listed.pages.borrow_mut().insert((live.volume, live.page));
        }
    }

    fn remove_live(&self, live: &Live) {
        self.live.set(self.live.get() - 1);
        if let Some(listed) = self.listed_as() {
            listed.pages.borrow_mut().remove(&(live.volume, live.page));
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

    fn record(&self) -> RowRecord {
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

/// See [`Row::copies_one_by_one`]. An SSD takes seconds to be given up: the pair is looked up anew for each copy.
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

impl Drop for RowReading {
    fn drop(&mut self) {
        self.0.readers.set(self.0.readers.get() - 1);
        if self.0.readers.get() == 0 {
            self.0.changed.wake_all();
        }
    }
}

/// What the log counts of a volume, for whoever tells it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Moved to the head.
    pub(crate) moved_bytes: u64,
    /// Copies that were bad where another one was good, or something else brought the page.
    pub(crate) read_errors_hidden: u64,
}

/// What an append brings.
pub(crate) enum Body {
    /// Whole pages.
    Data(Buf),
    Zeroes(u64),
    /// Pages that lie at this place and are moved to the head, with the version that they have, if they still are the
    /// newest when they take their place.
    Move {
        data: Buf,
        from: Place,
        version: u64,
    },
    /// Pages at this place are zeroes, or lost, as the head says again; if they still are the newest then. With
    /// `spread`, the pages lie one after the other from the place on, else all at it.
    Mark {
        content: Content,
        from: Place,
        spread: bool,
        version: u64,
        count: u64,
    },
}

/// Pages on their way into the log.
pub(crate) struct Append {
    pub(crate) volume: VolumeIndex,
    pub(crate) attachment: u64,
    pub(crate) page: u64,
    pub(crate) body: Body,
    pub(crate) done: Promise<Result<(), Error>>,
}

impl Append {
    /// Pages of data that it takes in a batch.
    pub(crate) fn data_pages(&self) -> u32 {
        match &self.body {
            Body::Data(data) | Body::Move { data, .. } => pages_in(data),
            Body::Zeroes(_) | Body::Mark { .. } => 0,
        }
    }

    pub(crate) fn pages(&self) -> Range<u64> {
        let count = match &self.body {
            Body::Data(data) | Body::Move { data, .. } => u64::from(pages_in(data)),
            Body::Zeroes(count) | Body::Mark { count, .. } => *count,
        };
        self.page..self.page + count
    }
}

fn pages_in(data: &Buf) -> u32 {
    u32::try_from(data.len() / hotset_block::PAGE_BYTES).expect("an append fits in a batch")
}

/// A batch in flight.
pub(crate) struct InflightBatch {
    pub(crate) row: Rc<Row>,
    /// Its number in the row.
    pub(crate) index: u32,
    /// Where it begins in its segment.
    pub(crate) first_page: u32,
    /// Each append with its first page's position in the row.
    pub(crate) appends: RefCell<Vec<(Append, u32)>>,
    /// Of their data, page by page.
    pub(crate) checksums: Vec<u32>,
    /// `Some(true)`: on every copy that is left.
    pub(crate) written: Cell<Option<bool>>,
}

impl InflightBatch {
    /// The segment of the row in which it lies.
    pub(crate) fn segment(&self) -> u32 {
        self.index % u32::try_from(self.row.segments.len()).expect("segments of a row are bounded")
    }
}

/// A hint: what lies there is on the backing device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CleanedHint {
    pub(crate) row: u64,
    pub(crate) position: u32,
    pub(crate) count: u32,
}

/// Marks the end of what is flushed: every batch before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamMark {
    pub(crate) row: u64,
    pub(crate) index: u32,
}

/// Batches in a row that a host flushed, one by one, from which on the next one is written durable at once.
const HABIT_BATCHES: u8 = 4;

/// Whether hosts flush after every batch, as a database's log does, or ask for a durable write. Then each copy of a batch is
/// durable when it is written, in one operation of its SSD, and the host's flush finds nothing to do.
#[derive(Default)]
pub(crate) struct FlushHabit {
    /// Batches of hosts since their last flush.
    batches: Cell<u64>,
    kept: Cell<u8>,
    /// A host's write that waits is to be durable when it is answered.
    asked: Cell<bool>,
}

impl FlushHabit {
    /// A batch of hosts is complete.
    pub(crate) fn completed(&self) {
        if self.batches.get() > 0 {
            self.kept.set(0);
        }
        self.batches.set(self.batches.get() + 1);
    }

    /// What is appended next is to be flushed at once.
    pub(crate) fn ask(&self) {
        self.asked.set(true);
    }

    /// Whether the batch that is written now is to be durable: its flush will follow. What was asked is granted with it.
    pub(crate) fn wants_durable(&self) -> bool {
        self.asked.take() || (self.kept.get() >= HABIT_BATCHES && self.batches.get() == 0)
    }

    /// A host flushes.
    pub(crate) fn flushed(&self) {
        if self.batches.take() == 1 {
            self.kept.set(HABIT_BATCHES.min(self.kept.get() + 1));
        }
    }
}

pub(crate) struct WriteLog {
    pub(crate) overlay: RefCell<Overlay>,
    rows: RefCell<Vec<Option<Rc<Row>>>>,
    /// Live rows, oldest first.
    order: RefCell<VecDeque<Rc<Row>>>,
    /// Rows that are set aside: out of the log, for nobody has their pages now, or nobody had.
    aside: RefCell<Vec<Rc<Row>>>,
    pub(crate) current: RefCell<Option<Rc<Row>>>,
    pub(crate) prepared: RefCell<Option<Rc<Row>>>,
    pub(crate) preparing: Cell<bool>,
    pub(crate) next_number: Cell<u64>,
    pub(crate) oldest_live: Cell<u64>,
    /// Rows that the pool's SSDs have room for when there are no others, and pages of data that they hold together, about.
    pub(crate) rows_max: Cell<usize>,
    /// Rows that can be opened beside those that there are. Rows of before an SSD came or left do not take what those of
    /// today take: only segments tell.
    pub(crate) rows_openable: Cell<usize>,
    /// Rows that hosts leave over (rule `reserves`): they hold what one row may hold that is to be moved.
    pub(crate) rows_reserved: Cell<usize>,
    /// Pages of data that all rows together have place for.
    pages_held: Cell<u64>,
    /// The newest row record names rows that were given up before they took a batch.
    pub(crate) record_names_dropped: Cell<bool>,
    pub(crate) data_pages_max: Cell<u64>,
    /// Segments that they take, of all SSDs together, both copies.
    pub(crate) segments_max: Cell<usize>,

    pub(crate) hosts: RefCell<VecDeque<Append>>,
    /// Moves and losses: they may use what is reserved.
    pub(crate) urgent: RefCell<VecDeque<Append>>,
    pub(crate) hints: RefCell<Vec<CleanedHint>>,
    /// Hints are worth a batch of their own.
    pub(crate) hints_wanted: Cell<bool>,
    /// Pages of data that wait or are in flight: all, and by [`VolumeIndex`].
    queued_pages: Cell<u64>,
    queued_of: RefCell<Vec<u64>>,
    pub(crate) inflight_batches: RefCell<VecDeque<Rc<InflightBatch>>>,
    /// Batches that were given up and may still be found by a start.
    pub(crate) orphaned_batches: Cell<usize>,
    pub(crate) last_checksum: Cell<u32>,
    /// The batch behind the last one that completed, with all before it.
    pub(crate) completed: Cell<StreamMark>,
    pub(crate) flushed: Cell<StreamMark>,
    pub(crate) flush_habit: FlushHabit,
    pub(crate) mover_ended: Cell<bool>,
    pub(crate) mirrors: Mirrors,
    /// Of the newest losses record.
    pub(crate) losses_number: Cell<u64>,
    /// Where the SSDs were last on which something lies that is set aside.
    pub(crate) paths_away: RefCell<BTreeMap<u128, String>>,
    /// SSDs on which something was set aside, and that are not back yet.
    pub(crate) awaited: RefCell<BTreeSet<u128>>,
    /// Pages that hosts wrote to the backing device and that the next losses record does not name any more.
    pub(crate) replaced: RefCell<Vec<(VolumeIndex, Range<u64>)>>,
    /// Attachments that lost something which the losses record names.
    pub(crate) with_loss: RefCell<Vec<u64>>,
    /// Attachments that lost nobody knows what: they are fenced until that is accepted.
    pub(crate) with_unknown_loss: RefCell<Vec<u64>>,
    /// Decides which writes go past a log that is nearly full.
    pub(crate) pace: Cell<u64>,
    pub(crate) recovered_bytes: Cell<u64>,
    pub(crate) recovery_milliseconds: Cell<u64>,
    /// By [`VolumeIndex`].
    tallies: RefCell<Vec<Tally>>,
}

impl WriteLog {
    /// What a start knows of what was lost.
    pub(crate) fn take_losses_of(&self, records: &Records) {
        let rows = &records.rows.value;
        self.losses_number.set(records.losses.number.max(rows.losses));
        let listed = || records.known_losses().map(Losses::attachments).unwrap_or_default();
        *self.with_loss.borrow_mut() = rows.with_loss.clone().unwrap_or_else(listed);
        *self.with_unknown_loss.borrow_mut() = records.unknown_losses();
    }

    pub(crate) fn new() -> Self {
        Self {
            overlay: RefCell::default(),
            rows: RefCell::default(),
            order: RefCell::default(),
            aside: RefCell::default(),
            current: RefCell::default(),
            prepared: RefCell::default(),
            preparing: Cell::new(false),
            next_number: Cell::new(1),
            oldest_live: Cell::new(1),
            rows_max: Cell::new(0),
            rows_openable: Cell::new(0),
            rows_reserved: Cell::new(ROWS_RESERVED),
            pages_held: Cell::new(0),
            record_names_dropped: Cell::new(false),
            data_pages_max: Cell::new(0),
            segments_max: Cell::new(0),
            hosts: RefCell::default(),
            urgent: RefCell::default(),
            hints: RefCell::default(),
            hints_wanted: Cell::new(false),
            queued_pages: Cell::new(0),
            queued_of: RefCell::default(),
            inflight_batches: RefCell::default(),
            orphaned_batches: Cell::new(0),
            last_checksum: Cell::new(0),
            completed: Cell::default(),
            flushed: Cell::default(),
            flush_habit: FlushHabit::default(),
            mover_ended: Cell::new(false),
            mirrors: Mirrors::default(),
            losses_number: Cell::new(0),
            paths_away: RefCell::default(),
            awaited: RefCell::default(),
            replaced: RefCell::default(),
            with_loss: RefCell::default(),
            with_unknown_loss: RefCell::default(),
            pace: Cell::new(0),
            recovered_bytes: Cell::new(0),
            recovery_milliseconds: Cell::new(0),
            tallies: RefCell::default(),
        }
    }

    pub(crate) fn row(&self, slot: u32) -> Rc<Row> {
        self.with_row(slot, Rc::clone)
    }

    fn with_row<T>(&self, slot: u32, act: impl FnOnce(&Rc<Row>) -> T) -> T {
        act(self.rows.borrow()[at(slot)].as_ref().expect("a place names a row that lives"))
    }

    pub(crate) fn row_at(&self, slot: u32) -> Option<Rc<Row>> {
        self.rows.borrow().get(at(slot)).cloned().flatten()
    }

    /// A place in memory for one more row.
    pub(crate) fn free_row_slot(&self) -> Option<u32> {
        let mut rows = self.rows.borrow_mut();
        let free = rows.iter().position(Option::is_none).unwrap_or(rows.len());
        if free == rows.len() {
            if free == ROWS_MAX {
                return None;
            }
            rows.push(None);
        }
        Some(u32::try_from(free).expect("at most 4096"))
    }

    pub(crate) fn add_row(&self, row: &Rc<Row>) {
        self.rows.borrow_mut()[at(row.slot)] = Some(Rc::clone(row));
        self.order.borrow_mut().push_back(Rc::clone(row));
        self.pages_held.set(self.pages_held.get() + row.data_pages());
    }

    /// A row that is set aside: it takes no room of the log.
    pub(crate) fn add_aside(&self, row: &Rc<Row>) {
        self.rows.borrow_mut()[at(row.slot)] = Some(Rc::clone(row));
        self.aside.borrow_mut().push(Rc::clone(row));
    }

    pub(crate) fn rows_aside(&self) -> Vec<Rc<Row>> {
        self.aside.borrow().clone()
    }

    /// What is set aside of the row with this number.
    pub(crate) fn aside_of(&self, number: u64) -> Option<Rc<Row>> {
        self.aside.borrow().iter().find(|row| row.number == number).cloned()
    }

    /// Something of a row that is set aside is dirty, and there.
    pub(crate) fn has_dirty_data(&self, row: &Row) -> bool {
        let overlay = self.overlay.borrow();
        let mut lives = row.listed().into_iter().filter_map(|(volume, page)| overlay.get(volume, page));
        lives.any(|live| live.dirty && !live.is_lost())
    }

    /// Nothing of it is live or listed any more.
    pub(crate) fn remove_aside(&self, row: &Rc<Row>) {
        self.aside.borrow_mut().retain(|other| !Rc::ptr_eq(other, row));
        self.rows.borrow_mut()[at(row.slot)] = None;
    }

    /// The losses record names pages that are somewhere else by now, or lacks some.
    pub(crate) fn list_is_behind(&self) -> bool {
        self.aside.borrow().iter().any(|row| row.listed_as().is_some_and(|listed| listed.is_behind.get()))
    }

    /// The oldest row is gone.
    pub(crate) fn remove_oldest(&self) {
        let row = self.order.borrow_mut().pop_front().expect("there is an oldest row");
        self.forget_row(&row);
    }

    /// A row that took no batch and is no more wanted.
    pub(crate) fn remove_newest(&self, row: &Rc<Row>) {
        self.order.borrow_mut().retain(|other| !Rc::ptr_eq(other, row));
        self.forget_row(row);
    }

    fn forget_row(&self, row: &Row) {
        self.rows.borrow_mut()[at(row.slot)] = None;
        self.pages_held.set(self.pages_held.get() - row.data_pages());
    }

    /// Pages of data that all rows together have place for.
    pub(crate) fn pages_held(&self) -> u64 {
        self.pages_held.get()
    }

    /// The data pages of the newest row. Where SSDs differ in size, rows are as wide as SSDs have room.
    pub(crate) fn newest_pages(&self) -> u64 {
        self.order.borrow().back().map_or(0, |row| row.data_pages())
    }

    pub(crate) fn oldest(&self) -> Option<Rc<Row>> {
        self.order.borrow().front().cloned()
    }

    pub(crate) fn rows_live(&self) -> Vec<Rc<Row>> {
        self.order.borrow().iter().cloned().collect()
    }

    pub(crate) fn row_count(&self) -> usize {
        self.order.borrow().len()
    }

    /// What the row record says.
    pub(crate) fn record(&self) -> Rows {
        let oldest_live = self.oldest_live.get();
        let rows = self.order.borrow();
        let live = rows.iter().filter(|row| row.number >= oldest_live && row.life().may_be_on_record());
        let rows: Vec<RowRecord> = live.map(|row| row.record()).collect();
        let record =
            Rows { oldest_live, rows, with_unknown_loss: self.with_unknown_loss.borrow().clone(), ..Rows::default() };
        if !record.lack_segments() && self.aside.borrow().is_empty() {
            return record;
        }
        Rows { losses: self.losses_number.get(), with_loss: Some(self.with_loss.borrow().clone()), ..record }
    }

    /// Pages of data that wait or are in flight.
    pub(crate) fn queued_pages(&self) -> u64 {
        self.queued_pages.get()
    }

    /// Pages of data of one volume that wait or are in flight.
    pub(crate) fn queued_pages_of(&self, volume: VolumeIndex) -> u64 {
        self.queued_of.borrow().get(usize::from(volume.0)).copied().unwrap_or(0)
    }

    /// An append waits from here on.
    pub(crate) fn count_queued(&self, append: &Append) {
        let pages = u64::from(append.data_pages());
        self.queued_pages.set(self.queued_pages.get() + pages);
        let mut of_volumes = self.queued_of.borrow_mut();
        let place = usize::from(append.volume.0);
        if of_volumes.len() <= place {
            of_volumes.resize(place + 1, 0);
        }
        of_volumes[place] += pages;
    }

    /// An append has taken effect, or was given up.
    pub(crate) fn uncount_queued(&self, append: &Append) {
        let pages = u64::from(append.data_pages());
        self.queued_pages.set(self.queued_pages.get() - pages);
        self.queued_of.borrow_mut()[usize::from(append.volume.0)] -= pages;
    }

    /// Pages that hosts may have dirty at once: half of the log (rule `reserves`).
    pub(crate) fn dirty_max(&self) -> u64 {
        self.data_pages_max.get() / 2
    }

    /// Whether a host's append of so many pages finds room now.
    pub(crate) fn has_room(&self, pages: u64) -> bool {
        let open: u64 = [&self.current, &self.prepared]
            .into_iter()
            .filter_map(|row| row.borrow().as_ref().map(|row| self.pages_left(row)))
            .sum();
        let rows_left = self.rows_openable.get();
        let for_hosts = rows_left.saturating_sub(self.rows_reserved.get());
        let mut room = open + u64::try_from(for_hosts).expect("an address has 64 bits at most") * self.row_pages();
        if rows_left < self.rows_reserved.get() {
            room = 0;
        }
        // Headers take up to half of the pages, if every batch brings a single page. Writes longer than a
        // row go in piece by piece: more than two free rows are not made for anybody (`is_long`).
        room / 2 >= self.queued_pages.get() + pages.min(self.row_pages())
    }

    fn pages_left(&self, row: &Row) -> u64 {
        let next = row.next_page.borrow();
        next.iter().map(|page| u64::from(row.batches_end().saturating_sub(*page))).sum()
    }

    /// Pages of data that a row holds, about.
    pub(crate) fn row_pages(&self) -> u64 {
        let rows = u64::try_from(self.rows_max.get().max(1)).expect("at most 4096");
        self.data_pages_max.get() / rows
    }

    /// A host wrote a page: its newest copy is `live`.
    pub(crate) fn supersede(&self, live: &Live) {
        let before = self.overlay.borrow_mut().set(live);
        self.note_place(live, before.as_ref(), |row| row.batched_at.get());
    }

    /// What a page's newest copy is told to be, or where it lies, is another now, and it has been dirty as long as before.
    pub(crate) fn set(&self, live: &Live) -> Option<Live> {
        let before = self.overlay.borrow_mut().set(live);
        let before_in = before.filter(|before| before.dirty).and_then(|before| self.row_at(before.place.row()));
        let since = before_in.and_then(|row| row.dirty_since(live.volume));
        self.note_place(live, before.as_ref(), |row| since.unwrap_or_else(|| row.batched_at.get()));
        before
    }

    fn note_place(&self, live: &Live, before: Option<&Live>, since: impl FnOnce(&Row) -> RealInstant) {
        if let Some(before) = before {
            if before.place.row() != live.place.row() {
                self.note_superseded(before);
            }
            self.uncount(before);
        }
        self.with_row(live.place.row(), |row| row.add_live(live, since(row)));
    }

    fn note_superseded(&self, live: &Live) {
        self.with_row(live.place.row(), |row| row.list_changed());
    }

    fn uncount(&self, live: &Live) {
        self.with_row(live.place.row(), |row| row.remove_live(live));
    }

    /// The page is clean, if its newest copy is still the one at `place`.
    pub(crate) fn set_clean_at(&self, volume: VolumeIndex, page: u64, place: Place) -> bool {
        let cleaned = self.overlay.borrow_mut().set_clean_at(volume, page, place);
        if cleaned {
            self.with_row(place.row(), |row| row.remove_dirty(volume, place));
        }
        cleaned
    }

    pub(crate) fn remove_at(&self, volume: VolumeIndex, page: u64, place: Place) {
        let removed = self.overlay.borrow_mut().remove_at(volume, page, place);
        if let Some(removed) = removed {
            self.note_superseded(&removed);
            self.uncount(&removed);
        }
    }

    /// Forgets some pages of a volume; false when none is left.
    pub(crate) fn forget_some_of(&self, volume: VolumeIndex) -> bool {
        let some = self.overlay.borrow_mut().take_some_of(volume);
        some.iter().for_each(|live| self.uncount(live));
        !some.is_empty()
    }

    pub(crate) fn counts(&self, volume: VolumeIndex) -> Counts {
        self.overlay.borrow().counts(volume)
    }

    /// Since when the oldest dirty page of the volume has been dirty. Never too young, and not more than about twice as old:
    /// those that became dirty while others were cleaned are of one age. What a start found is as old as the start.
    pub(crate) fn dirty_since(&self, volume: VolumeIndex) -> Option<RealInstant> {
        let (rows, aside) = (self.order.borrow(), self.aside.borrow());
        rows.iter().chain(aside.iter()).filter_map(|row| row.dirty_since(volume)).min()
    }

    /// Since when the oldest of what can be cleaned is dirty: what nobody has now does not count.
    pub(crate) fn cleanable_since(&self, volume: VolumeIndex) -> Option<RealInstant> {
        let (rows, aside) = (self.order.borrow(), self.aside.borrow());
        let can_be_cleaned = rows.iter().chain(aside.iter().filter(|row| row.has_copies()));
        can_be_cleaned.filter_map(|row| row.dirty_since(volume)).min()
    }

    /// The oldest row that is being sealed.
    pub(crate) fn row_being_sealed(&self) -> Option<Rc<Row>> {
        self.order.borrow().iter().find(|row| row.life().is_sealing()).cloned()
    }

    /// The losses record says what is set aside now.
    pub(crate) fn list_is_recorded(&self) {
        self.aside.borrow().iter().for_each(|row| row.list_is_recorded());
    }

    /// No row has a copy on this SSD any more.
    pub(crate) fn lose_copies_on(&self, ssd: SsdIndex) {
        for cell in self.order.borrow().iter().flat_map(|row| row.segments.iter().flatten()) {
            if cell.get().is_on(ssd) {
                cell.change(MirrorChange::Left);
            }
        }
    }

    /// Rows that can still be opened, or wait to be used.
    pub(crate) fn rows_available(&self) -> usize {
        self.rows_openable.get() + usize::from(self.prepared.borrow().is_some())
    }

    /// No row can be opened, and none is on its way: there are more than the SSDs that are left have room for.
    pub(crate) fn is_out_of_rows(&self) -> bool {
        self.current.borrow().is_none() && !self.preparing.get() && self.rows_available() == 0
    }

    /// Hosts leave over what is reserved (rule `reserves`).
    pub(crate) fn hosts_may_append(&self) -> bool {
        self.rows_available() >= self.rows_reserved.get()
    }

    /// No row of the log is older: what is superseded here does not come back.
    pub(crate) fn nothing_is_older(&self, row: &Row) -> bool {
        self.oldest().is_none_or(|oldest| oldest.number > row.number)
    }

    /// Moves can wait, and what waits for them must not: it comes again when there is room, if it is still dirty then.
    pub(crate) fn cancel_moves(&self) {
        let mut kept = VecDeque::new();
        for append in self.urgent.take() {
            match append.body {
                Body::Data(_) | Body::Zeroes(_) => kept.push_back(append),
                Body::Move { .. } | Body::Mark { .. } => {
                    self.uncount_queued(&append);
                    append.done.set(Ok(()));
                }
            }
        }
        *self.urgent.borrow_mut() = kept;
    }

    /// Unavailable pages of a volume, as far as they follow each other.
    pub(crate) fn unavailable_runs(&self, volume: VolumeIndex) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for live in self.overlay.borrow().range(volume, 0..PAGES_MAX).filter(Live::is_unavailable) {
            match runs.last_mut() {
                Some(run) if run.end == live.page => run.end += 1,
                Some(_) | None => runs.push(live.page..live.page + 1),
            }
        }
        runs
    }

    /// So much of a volume was moved to the head.
    pub(crate) fn tally_moved(&self, volume: VolumeIndex, bytes: u64) {
        self.tally(volume, |tally| tally.moved_bytes += bytes);
    }

    /// A copy of what hosts read of a volume was bad, and another one was there.
    pub(crate) fn tally_hidden_error(&self, volume: VolumeIndex) {
        self.tally(volume, |tally| tally.read_errors_hidden += 1);
    }

    fn tally(&self, volume: VolumeIndex, add: impl FnOnce(&mut Tally)) {
        let mut tallies = self.tallies.borrow_mut();
        let index = usize::from(volume.0);
        if tallies.len() <= index {
            tallies.resize(index + 1, Tally::default());
        }
        add(&mut tallies[index]);
    }

    /// What was counted of a volume since this was asked last.
    pub(crate) fn take_tally(&self, volume: VolumeIndex) -> Tally {
        self.tallies.borrow_mut().get_mut(usize::from(volume.0)).map(std::mem::take).unwrap_or_default()
    }

    /// Nothing waits and nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        let nothing_waits = self.hosts.borrow().is_empty() && self.urgent.borrow().is_empty();
        nothing_waits && self.inflight_batches.borrow().is_empty() && self.orphaned_batches.get() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn log_with_rows(count: u64) -> (WriteLog, Vec<Rc<Row>>) {
        let log = WriteLog::new();
        let add = |number| {
            let slot = log.free_row_slot().unwrap();
            let row = Rc::new(Row::new(slot, number, 7, vec![[Mirror::Nowhere; 2]], 256, RealInstant(0)));
            log.add_row(&row);
            row
        };
        let rows = (1..=count).map(add).collect();
        (log, rows)
    }

    fn data(volume: u16, page: u64, row: &Row) -> Live {
        let place = Place::new(row.slot, u32::try_from(page).unwrap());
        Live { volume: VolumeIndex(volume), page, place, content: Content::Data { checksum: 1 }, dirty: true }
    }

    proptest! {
        /// What the log tells of each volume, against the time since which each page has been dirty: never younger, none where
        /// nothing is dirty, and not from before the volume had something dirty.
        #[test]
        fn the_age_of_a_volumes_oldest_dirty_page_is_its_own(
            steps in prop::collection::vec((0_u8..4, 0_u16..2, 0_u64..8, 0_usize..3), 1..200),
        ) {
            let (log, rows) = log_with_rows(3);
            let mut dirty: BTreeMap<(u16, u64), RealInstant> = BTreeMap::new();
            let mut clean_at = [RealInstant(0); 2];
            for ((action, volume, page, row), now) in steps.into_iter().zip(1..) {
                let (now, row) = (RealInstant(now), &rows[row]);
                let there = log.overlay.borrow().get(VolumeIndex(volume), page);
                match (action, there) {
                    (0, _) => {
                        row.note_batch(now);
                        log.supersede(&data(volume, page, row));
                        dirty.insert((volume, page), now);
                    }
                    (1, Some(there)) => {
                        row.note_batch(now);
                        log.set(&Live { dirty: there.dirty, ..data(volume, page, row) });
                    }
                    (2, Some(there)) => {
                        log.set_clean_at(there.volume, page, there.place);
                        dirty.remove(&(volume, page));
                    }
                    (_, Some(there)) => {
                        log.remove_at(there.volume, page, there.place);
                        dirty.remove(&(volume, page));
                    }
                    (_, None) => {}
                }
                for of in 0..2 {
                    let oldest = dirty.iter().filter(|((volume, _), _)| *volume == of).map(|(_, since)| *since).min();
                    let told = log.dirty_since(VolumeIndex(of));
                    prop_assert_eq!(told.is_some(), oldest.is_some());
                    prop_assert!(told <= oldest);
                    match told {
                        None => clean_at[usize::from(of)] = now,
                        Some(told) => prop_assert!(told > clean_at[usize::from(of)]),
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_cleaned_as_fast_as_it_is_written_does_not_become_older() {
        let (log, rows) = log_with_rows(1);
        let row = &rows[0];
        let page_at =
            |time: u64| Live { place: Place::new(row.slot, u32::try_from(time).unwrap()), ..data(0, time % 50, row) };
        for now in 1..250 {
            row.note_batch(RealInstant(now));
            log.supersede(&page_at(now));
            if let Some(written) = now.checked_sub(10) {
                let Live { volume, page, place, .. } = page_at(written);
                log.set_clean_at(volume, page, place);
            }
            let told = log.dirty_since(VolumeIndex(0)).expect("something is dirty");
            assert!(now - told.0 <= 20, "{told:?} at {now}");
        }
    }

    #[test]
    fn what_is_written_through_is_not_as_old_as_what_lies_beside_it() {
        let (log, rows) = log_with_rows(1);
        rows[0].note_batch(RealInstant(1));
        log.supersede(&data(0, 1, &rows[0]));
        rows[0].note_batch(RealInstant(100));
        let through = data(1, 2, &rows[0]);
        log.supersede(&through);
        let ages = || [0, 1].map(|volume| log.dirty_since(VolumeIndex(volume)));
        assert_eq!(ages(), [Some(RealInstant(1)), Some(RealInstant(100))]);
        assert!(log.set_clean_at(through.volume, through.page, through.place));
        assert_eq!(ages(), [Some(RealInstant(1)), None]);
    }

    #[test]
    fn a_row_is_not_on_record_before_its_headers_are_durable() {
        let (log, rows) = log_with_rows(1);
        assert_eq!(log.record().rows.len(), 0);
        rows[0].change(RowChange::HeadersDurable);
        assert_eq!(log.record().rows.len(), 1);
    }

    #[test]
    fn a_batch_is_to_be_durable_where_every_one_was_flushed_by_itself_or_it_is_asked() {
        let habit = FlushHabit::default();
        for _ in 0..HABIT_BATCHES {
            assert!(!habit.wants_durable());
            habit.completed();
            habit.flushed();
        }
        habit.flushed();
        assert!(habit.wants_durable(), "a flush without a batch changes nothing");
        habit.completed();
        assert!(!habit.wants_durable(), "the batch before is not flushed yet");
        habit.completed();
        habit.flushed();
        assert!(!habit.wants_durable(), "the habit is to be shown anew");
        habit.ask();
        assert!(habit.wants_durable() && !habit.wants_durable(), "it is asked for one batch");
    }
}
