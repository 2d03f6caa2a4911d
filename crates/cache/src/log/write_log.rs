//! The write log of a pool as it is now: its rows, which pages have their newest copy where, what waits and is in flight, and how much
//! room there is.

use std::cell::{Cell, Ref, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use hotset_block::RealInstant;

use crate::address::{SsdIndex, VolumeIndex, at};
use crate::format::rows::{self, RowRecord, Rows};
use crate::log::capacity::Capacity;
use crate::log::loss_list::LossList;
use crate::log::mirrors::{Mirrors, RebuildSpace};
use crate::log::open_rows::OpenRows;
use crate::log::overlay::{LivePage, Overlay, OverlayCounts, PAGES_MAX, Place, SOME_PAGES};
use crate::log::pace::Pace;
use crate::log::queue::Queue;
use crate::log::row::Row;
use crate::log::row_numbers::RowNumbers;
use crate::log::segment_copy::{MirrorCell, MirrorChange, PresentCopy};
use crate::log::stream::{FlushHabit, Stream};
use crate::log::tallies::LogTallies;

/// Rows that may live at once: what a [`Place`] can name.
const ROWS_MAX: usize = 4096;
const _: () = assert!(ROWS_MAX == 1 << 12 && rows::ROWS_MAX == 1 << 12);

/// How many times what is dirty the log is long, if there is room: of pages written at random e^-3 are then still the
/// newest when their row becomes the oldest, and have to be moved.
const LENGTH: u64 = 3;
/// Rows that the log has at any time, however little is dirty.
const ROWS_KEPT: u64 = 4;

pub(crate) struct WriteLog {
    pub(super) overlay: RefCell<Overlay>,
    rows: RefCell<Vec<Option<Rc<Row>>>>,
    /// Live rows, oldest first.
    order: RefCell<VecDeque<Rc<Row>>>,
    /// Rows that are set aside: out of the log, for nobody has their pages now, or nobody had.
    aside: RefCell<Vec<Rc<Row>>>,
    pub(crate) open: OpenRows,
    pub(crate) numbers: RowNumbers,
    pub(crate) capacity: Capacity,
    /// Pages of data that all rows together have place for.
    pages_held: Cell<u64>,
    /// The newest row record names rows that were closed before they took a batch.
    record_names_dropped: Cell<bool>,
    pub(crate) queue: Queue,
    pub(crate) stream: Stream,
    pub(crate) flush_habit: FlushHabit,
    pub(super) mover_ended: Cell<bool>,
    pub(crate) mirrors: Mirrors,
    pub(crate) losses: LossList,
    /// Decides which writes go past a log that is nearly full.
    pub(crate) pace: Pace,
    pub(super) recovered_bytes: Cell<u64>,
    pub(super) recovery_milliseconds: Cell<u64>,
    pub(crate) tallies: LogTallies,
}

impl WriteLog {
    /// Where the newest version of each page lies that the log has.
    pub(crate) fn overlay(&self) -> Ref<'_, Overlay> {
        self.overlay.borrow()
    }

    pub(crate) fn new() -> Self {
        Self {
            overlay: RefCell::default(),
            rows: RefCell::default(),
            order: RefCell::default(),
            aside: RefCell::default(),
            open: OpenRows::default(),
            numbers: RowNumbers::default(),
            capacity: Capacity::default(),
            pages_held: Cell::new(0),
            record_names_dropped: Cell::new(false),
            queue: Queue::default(),
            stream: Stream::default(),
            flush_habit: FlushHabit::default(),
            mover_ended: Cell::new(false),
            mirrors: Mirrors::default(),
            losses: LossList::default(),
            pace: Pace::default(),
            recovered_bytes: Cell::new(0),
            recovery_milliseconds: Cell::new(0),
            tallies: LogTallies::default(),
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
        assert!(!row.is_aside(), "row {} is out of the log, and comes into it", row.number);
        self.take_row_slot(row);
        let mut order = self.order.borrow_mut();
        let is_newest = order.back().is_none_or(|newest| newest.number < row.number);
        assert!(is_newest, "row {} comes after rows that are newer", row.number);
        order.push_back(Rc::clone(row));
        self.pages_held.set(self.pages_held.get() + row.data_pages());
    }

    /// A row that is set aside: it takes no room of the log.
    pub(crate) fn add_aside(&self, row: &Rc<Row>) {
        assert!(row.is_aside(), "row {} is of the log, and is listed as set aside", row.number);
        assert!(self.aside_of(row.number).is_none(), "row {} is set aside twice", row.number);
        self.take_row_slot(row);
        self.aside.borrow_mut().push(Rc::clone(row));
    }

    fn take_row_slot(&self, row: &Rc<Row>) {
        let other = self.rows.borrow_mut()[at(row.slot)].replace(Rc::clone(row));
        assert!(other.is_none(), "row {} takes the place of another one in memory", row.number);
    }

    fn leave_row_slot(&self, row: &Row) {
        let left = self.rows.borrow_mut()[at(row.slot)].take();
        let is_it = left.is_some_and(|left| std::ptr::eq(&*left, row));
        assert!(is_it, "row {} leaves a place in memory that is not its own", row.number);
    }

    pub(crate) fn rows_aside(&self) -> Vec<Rc<Row>> {
        self.aside.borrow().clone()
    }

    /// What is set aside of the row with this number.
    pub(crate) fn aside_of(&self, number: u64) -> Option<Rc<Row>> {
        self.aside.borrow().iter().find(|row| row.number == number).cloned()
    }

    /// The page lay at this place, and is set aside and dirty since.
    pub(crate) fn is_set_aside_from(&self, live: &LivePage, place: Place) -> bool {
        let is_of_row = |twin: &Row| self.row_at(place.row()).is_some_and(|row| row.number == twin.number);
        live.dirty
            && live.place.position() == place.position()
            && self.with_row(live.place.row(), |twin| twin.is_aside() && is_of_row(twin))
    }

    /// The row with this number, or what is set aside of it, has this segment of an SSD.
    pub(crate) fn names_segment(&self, row: u64, ssd_uuid: u128, segment: u32) -> bool {
        let (rows, aside) = (self.order.borrow(), self.aside.borrow());
        let mut named_so = rows.iter().chain(aside.iter()).filter(|other| other.number == row);
        named_so.any(|row| row.names_segment(ssd_uuid, segment))
    }

    /// Something of a row that is set aside is dirty, and there.
    pub(crate) fn has_dirty_data(&self, row: &Row) -> bool {
        let overlay = self.overlay.borrow();
        let mut lives = row.listed().into_iter().filter_map(|(volume, page)| overlay.get(volume, page));
        lives.any(|live| live.dirty && !live.is_lost())
    }

    /// Nothing of it is live or listed any more.
    pub(crate) fn remove_aside(&self, row: &Rc<Row>) {
        assert_eq!(row.dirty(), 0, "row {} is set aside no more, and something of it is dirty", row.number);
        self.aside.borrow_mut().retain(|other| !Rc::ptr_eq(other, row));
        self.leave_row_slot(row);
    }

    /// The losses record names pages that are somewhere else by now, or lacks some.
    pub(crate) fn list_is_behind(&self) -> bool {
        self.aside.borrow().iter().any(|row| row.list_is_behind())
    }

    /// The oldest row is gone.
    pub(crate) fn remove_oldest(&self) {
        let row = self.order.borrow_mut().pop_front().expect("there is an oldest row");
        assert!(row.life().has_ended(), "row {} is {:?} and is freed", row.number, row.life());
        assert!(!self.numbers.is_live(row.number), "row {} is freed, and was not declared free", row.number);
        self.forget_row(&row);
    }

    /// A row that took no batch and is no more wanted.
    pub(crate) fn remove_newest(&self, row: &Rc<Row>) {
        self.order.borrow_mut().retain(|other| !Rc::ptr_eq(other, row));
        self.forget_row(row);
    }

    fn forget_row(&self, row: &Row) {
        self.leave_row_slot(row);
        let (held, pages) = (self.pages_held.get(), row.data_pages());
        self.pages_held.set(held.checked_sub(pages).expect("a row's pages count as long as it lives"));
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
        let oldest_live = self.numbers.oldest_live();
        let rows = self.order.borrow();
        let live = rows.iter().filter(|row| self.numbers.is_live(row.number) && row.life().may_be_on_record());
        let rows: Vec<RowRecord> = live.map(|row| row.record()).collect();
        let record = Rows { oldest_live, rows, with_unknown_loss: self.losses.with_unknown_loss(), ..Rows::default() };
        if !record.lack_segments() && self.aside.borrow().is_empty() {
            return record;
        }
        Rows { losses: self.losses.number(), with_loss: Some(self.losses.with_loss()), ..record }
    }

    /// Pages that hosts may have dirty at once (rule `reserves`).
    pub(crate) fn dirty_max(&self) -> u64 {
        self.capacity.dirty_pages()
    }

    /// Whether a host's append of so many pages finds room now.
    pub(crate) fn has_room(&self, pages: u64) -> bool {
        let Some(for_hosts) = self.capacity.openable().checked_sub(self.capacity.reserved()) else { return false };
        let row_pages = self.row_pages();
        let in_rows = u64::try_from(for_hosts).expect("an address has 64 bits at most") * row_pages;
        // Headers take up to half of the pages, if every batch brings a single page. Writes longer than a
        // row go in piece by piece: more than two free rows are not made for anybody (`is_long`).
        let wanted = 2 * (self.queue.pages() + pages.min(row_pages));
        in_rows >= wanted || in_rows + self.open.pages_left() >= wanted
    }

    /// Pages of data that a row holds, about.
    pub(crate) fn row_pages(&self) -> u64 {
        self.capacity.row_pages()
    }

    /// A host wrote a page: its newest copy is `live`.
    pub(crate) fn supersede(&self, live: &LivePage) {
        let before = self.overlay.borrow_mut().set(live);
        self.note_place(live, before.as_ref(), |row| row.batched_at());
    }

    /// What a page's newest copy is told to be, or where it lies, is another now, and it has been dirty as long as before.
    pub(crate) fn set(&self, live: &LivePage) -> Option<LivePage> {
        let before = self.overlay.borrow_mut().set(live);
        let before_in = before.filter(|before| before.dirty).and_then(|before| self.row_at(before.place.row()));
        let since = before_in.and_then(|row| row.dirty_since(live.volume));
        self.note_place(live, before.as_ref(), |row| since.unwrap_or_else(|| row.batched_at()));
        before
    }

    fn note_place(&self, live: &LivePage, before: Option<&LivePage>, since: impl FnOnce(&Row) -> RealInstant) {
        if let Some(before) = before {
            if before.place.row() != live.place.row() {
                self.note_superseded(before);
            }
            self.uncount(before);
        }
        self.with_row(live.place.row(), |row| row.add_live(live, since(row)));
    }

    fn note_superseded(&self, live: &LivePage) {
        self.with_row(live.place.row(), |row| row.list_changed());
    }

    fn uncount(&self, live: &LivePage) {
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

    /// Some pages of a volume from this one on are dirty, if they were clean: what was written to the backing device that it had is to be written
    /// to another one. Answers where to go on; `None`: there is no page more.
    pub(crate) fn make_some_dirty(&self, volume: VolumeIndex, from: u64) -> Option<u64> {
        let some: Vec<LivePage> = self.overlay.borrow().range(volume, from..PAGES_MAX).take(SOME_PAGES).collect();
        for live in some.iter().filter(|live| !live.dirty) {
            self.set(&LivePage { dirty: true, ..*live });
        }
        some.last().map(|last| last.page + 1)
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

    pub(crate) fn counts(&self, volume: VolumeIndex) -> OverlayCounts {
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

    /// The newest record names rows that were closed before they took a batch.
    pub(crate) fn record_names_dropped(&self) -> bool {
        self.record_names_dropped.get()
    }

    /// What the record says that is about to be written.
    pub(crate) fn next_record(&self) -> Rows {
        self.record_names_dropped.set(false);
        self.losses.record_begins();
        self.record()
    }

    /// This record is durable.
    pub(crate) fn is_recorded(&self, record: &Rows) {
        self.numbers.are_recorded(record.oldest_live);
        self.losses.are_recorded(record);
    }

    /// It may have taken effect, or the one before: that one may name what was dropped.
    pub(crate) fn is_not_recorded(&self) {
        self.record_names_dropped.set(true);
    }

    /// A start that finds the newest losses record believes it, and one that does not find it knows whom it concerns.
    pub(crate) fn losses_are_on_record(&self) -> bool {
        self.record().losses == 0 || self.losses.are_on_record()
    }

    /// # Panics
    /// If something wants a row still whose segments are about to be used again: a page whose newest copy it has, or a read; or a
    /// start, because no durable record says that the row is free. A row that took no batch has nothing to be wanted; what is set
    /// aside is wanted as the list of losses says.
    pub(crate) fn assert_unused(&self, row: &Row) {
        let number = row.number;
        assert_eq!(row.live(), 0, "row {number} is freed while pages live in it");
        if row.batches() == 0 {
            return;
        }
        assert!(!row.is_read(), "row {number} is freed while it is read");
        let is_free = row.is_aside() || self.numbers.is_free_on_record(number);
        assert!(is_free, "row {number} is freed, and no durable record says so");
    }

    /// A row that took no batch is closed; its record, if there is one, says so at the next change.
    pub(crate) fn drop_row(&self, row: &Rc<Row>) {
        assert_eq!(row.batches(), 0, "row {} is closed, and has taken batches", row.number);
        let is_current = self.open.is_current(|current| Rc::ptr_eq(current, row));
        assert!(!is_current, "row {} is dropped while it takes batches", row.number);
        self.remove_newest(row);
        self.record_names_dropped.set(true);
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

    /// This copy lacks something, and its SSD takes no more: the other one, if it is there, is the only one. The last copy is lost
    /// only by its SSD's leaving, which puts that on record.
    pub(crate) fn commit_other_copy(&self, lacking: PresentCopy) {
        for pair in self.order.borrow().iter().flat_map(|row| &row.segments) {
            let lacks = |cell: &&MirrorCell| cell.get().present() == Some(lacking);
            if pair.iter().all(|cell| cell.get().is_there())
                && let Some(cell) = pair.iter().find(lacks)
            {
                cell.change(MirrorChange::Left);
            }
        }
    }

    /// Rows that can still be opened, or wait to be used.
    pub(crate) fn rows_available(&self) -> usize {
        self.capacity.openable() + usize::from(self.open.has_prepared())
    }

    /// No row can be opened, and none is on its way: there are more than the SSDs that are left have room for.
    pub(crate) fn is_out_of_rows(&self) -> bool {
        self.open.current().is_none() && !self.open.is_preparing() && self.rows_available() == 0
    }

    /// There are more rows than what is dirty needs: the oldest are to be freed.
    pub(crate) fn is_long(&self) -> bool {
        if self.rows_available() <= self.capacity.reserved() + 1 {
            return true;
        }
        let dirty = self.overlay.borrow().total().cleanable() + self.queue.pages();
        let space = self.mirrors.space();
        if space == RebuildSpace::Compact || (space == RebuildSpace::Insufficient && dirty == 0) {
            // Copies have no place: what is dirty gets two in a new row, or is nowhere but here.
            return true;
        }
        let needed = LENGTH * dirty + ROWS_KEPT * self.row_pages().max(self.newest_pages());
        self.pages_held() > needed.min(self.capacity.pages_for(dirty))
    }

    /// Hosts leave over what is reserved (rule `reserves`).
    pub(crate) fn hosts_may_append(&self) -> bool {
        self.rows_available() >= self.capacity.reserved()
    }

    /// No row of the log is older: what is superseded here does not come back.
    pub(crate) fn nothing_is_older(&self, row: &Row) -> bool {
        self.nothing_is_older_than(row.number)
    }

    /// The same of what is set aside of the row with this number, which is of the log itself as long as it lives there.
    pub(crate) fn nothing_is_older_than(&self, number: u64) -> bool {
        self.oldest().is_none_or(|oldest| oldest.number > number)
    }

    /// Unavailable pages of a volume, as far as they follow each other.
    pub(crate) fn unavailable_runs(&self, volume: VolumeIndex) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for live in self.overlay.borrow().range(volume, 0..PAGES_MAX).filter(LivePage::is_unavailable) {
            match runs.last_mut() {
                Some(run) if run.end == live.page => run.end += 1,
                Some(_) | None => runs.push(live.page..live.page + 1),
            }
        }
        runs
    }

    /// Nothing waits and nothing is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.len() == 0 && self.stream.is_idle()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::format::log::Payload;
    use crate::log::overlay::Content;
    use crate::log::row::RowReading;
    use crate::log::row_life::RowChange;
    use crate::log::segment_copy::Mirror;
    use crate::refused::assert_refused;

    /// Their headers are not durable yet.
    fn log_with_new_rows(count: u64) -> (WriteLog, Vec<Rc<Row>>) {
        let log = WriteLog::new();
        let add = |_| {
            let number = log.numbers.take();
            let slot = log.free_row_slot().unwrap();
            let row = Rc::new(Row::new(slot, number, 7, vec![[Mirror::Nowhere; 2]], 256, RealInstant(0)));
            log.add_row(&row);
            row
        };
        let rows = (1..=count).map(add).collect();
        (log, rows)
    }

    fn log_with_rows(count: u64) -> (WriteLog, Vec<Rc<Row>>) {
        let (log, rows) = log_with_new_rows(count);
        rows.iter().for_each(|row| row.change(RowChange::HeadersDurable));
        (log, rows)
    }

    /// Before its SSD leaves, a copy that lacks something is none; and the last copy stays one, for its loss is on record first.
    #[test]
    fn a_copy_that_lacks_something_is_none_while_there_is_another() {
        let copy = |ssd: u16| PresentCopy { ssd_uuid: ssd.into(), ssd: SsdIndex(ssd), segment: 3 };
        let log = WriteLog::new();
        let mirrors = vec![[Mirror::There(copy(1)), Mirror::There(copy(2))]];
        let row = Rc::new(Row::new(log.free_row_slot().unwrap(), 1, 7, mirrors, 256, RealInstant(0)));
        log.add_row(&row);
        let copies = || row.segments[0].each_ref().map(|cell| cell.get().is_there());
        log.commit_other_copy(PresentCopy { segment: 4, ..copy(1) });
        assert_eq!(copies(), [true, true], "another segment is meant");
        log.commit_other_copy(copy(1));
        assert_eq!(copies(), [false, true]);
        log.commit_other_copy(copy(2));
        assert_eq!(copies(), [false, true], "it is the last");
    }

    fn data(volume: u16, page: u64, row: &Row) -> LivePage {
        let place = Place::new(row.slot, u32::try_from(page).unwrap());
        LivePage { volume: VolumeIndex(volume), page, place, content: Content::Data { checksum: 1 }, dirty: true }
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
                        row.begin_batch(1, &Payload::default(), now);
                        log.supersede(&data(volume, page, row));
                        dirty.insert((volume, page), now);
                    }
                    (1, Some(there)) => {
                        row.begin_batch(1, &Payload::default(), now);
                        log.set(&LivePage { dirty: there.dirty, ..data(volume, page, row) });
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

    fn content(kind: u8) -> Content {
        match kind {
            0 | 1 => Content::Data { checksum: 1 },
            2 => Content::Zeroes,
            3 => Content::Lost,
            _ => Content::Unavailable { checksum: 1 },
        }
    }

    /// A log with three rows, and one that is set aside.
    fn log_with_aside() -> (WriteLog, Vec<Rc<Row>>) {
        let (log, mut rows) = log_with_rows(3);
        let slot = log.free_row_slot().unwrap();
        let aside = Rc::new(Row::new_aside(slot, 9, 7, 1, 256, RealInstant(0)));
        log.add_aside(&aside);
        rows.push(aside);
        (log, rows)
    }

    /// What is known of rows and volumes, against what each page is.
    fn check_against(log: &WriteLog, rows: &[Rc<Row>], pages: &BTreeMap<(u16, u64), LivePage>) {
        for row in rows {
            let here: Vec<&LivePage> = pages.values().filter(|live| live.place.row() == row.slot).collect();
            assert_eq!(at(row.live()), here.len());
            assert!(here.iter().all(|live| row.may_live_at(live.place.position()..live.place.position() + 1)));
            let dirty_of = |volume| here.iter().filter(|live| live.volume == volume && live.dirty).count();
            assert!([0, 1].map(VolumeIndex).iter().all(|volume| at(row.dirty_of(*volume)) == dirty_of(*volume)));
            assert_eq!(at(row.dirty()), here.iter().filter(|live| live.dirty).count());
            let listed: Vec<(VolumeIndex, u64)> = here.iter().map(|live| (live.volume, live.page)).collect();
            assert_eq!(row.listed(), if row.is_aside() { listed } else { Vec::new() });
        }
        for volume in [0, 1] {
            let of_volume: Vec<&LivePage> = pages.values().filter(|live| live.volume.0 == volume).collect();
            let count =
                |is: fn(&LivePage) -> bool| u64::try_from(of_volume.iter().filter(|live| is(live)).count()).unwrap();
            let counts = OverlayCounts {
                live: count(|_| true),
                dirty: count(|live| live.dirty),
                lost: count(LivePage::is_lost),
                stored: count(|live| matches!(live.content, Content::Data { .. })),
            };
            assert_eq!(log.counts(VolumeIndex(volume)), counts);
            let runs = log.runs(VolumeIndex(volume), 0..100, |_| true);
            let places: Vec<(u64, Place)> = runs.iter().flat_map(|run| run.places().collect::<Vec<_>>()).collect();
            assert_eq!(places, of_volume.iter().map(|live| (live.page, live.place)).collect::<Vec<_>>());
            let unavailable: Vec<u64> = log.unavailable_runs(VolumeIndex(volume)).into_iter().flatten().collect();
            let expected = of_volume.iter().filter(|live| live.is_unavailable()).map(|live| live.page);
            assert_eq!(unavailable, expected.collect::<Vec<_>>());
        }
    }

    proptest! {
        /// Against a map of what each page is: pages are written, moved, lost, set aside, cleaned and forgotten, also where they no
        /// longer lie.
        #[test]
        fn the_log_equals_a_map_of_pages(
            steps in prop::collection::vec((0_u8..8, 0_u16..2, 0_u64..8, 0_usize..4, 0_u8..5, any::<bool>()), 1..150),
        ) {
            let (log, rows) = log_with_aside();
            let mut pages: BTreeMap<(u16, u64), LivePage> = BTreeMap::new();
            let mut list_is_behind = false;
            for (action, volume, page, row, kind, dirty) in steps {
                let key = (volume, page);
                let there = pages.get(&key).copied();
                let place = Place::new(rows[row].slot, u32::from(volume) * 8 + u32::try_from(page).unwrap());
                let live = LivePage { volume: VolumeIndex(volume), page, place, content: content(kind), dirty };
                let was_listed = there.is_some_and(|there| there.place.row() == rows[3].slot);
                match action {
                    0 if row < 3 => {
                        let written = data(volume, page, &rows[row]);
                        let written = LivePage { place, ..written };
                        log.supersede(&written);
                        list_is_behind |= was_listed;
                        pages.insert(key, written);
                    }
                    0..=2 => {
                        prop_assert_eq!(log.set(&live), there);
                        list_is_behind |= was_listed && row != 3;
                        pages.insert(key, live);
                    }
                    3 | 4 => {
                        let is_cleaned = there.is_some_and(|there| there.place == place && there.dirty && !there.is_lost());
                        prop_assert_eq!(log.set_clean_at(VolumeIndex(volume), page, place), is_cleaned);
                        if let Some(live) = pages.get_mut(&key).filter(|_| is_cleaned) {
                            live.dirty = false;
                        }
                    }
                    5 => {
                        log.remove_at(VolumeIndex(volume), page, place);
                        if there.is_some_and(|there| there.place == place) {
                            list_is_behind |= was_listed;
                            pages.remove(&key);
                        }
                    }
                    6 => {
                        log.list_is_recorded();
                        list_is_behind = false;
                    }
                    _ if kind == 0 => {
                        while log.forget_some_of(VolumeIndex(volume)) {}
                        pages.retain(|(of, _), _| *of != volume);
                    }
                    _ => {}
                }
                check_against(&log, &rows, &pages);
                prop_assert_eq!(log.list_is_behind(), list_is_behind);
            }
        }
    }

    #[test]
    fn what_is_cleaned_as_fast_as_it_is_written_does_not_become_older() {
        let (log, rows) = log_with_rows(1);
        let row = &rows[0];
        let page_at = |time: u64| LivePage {
            place: Place::new(row.slot, u32::try_from(time).unwrap()),
            ..data(0, time % 50, row)
        };
        for now in 1..250 {
            row.begin_batch(1, &Payload::default(), RealInstant(now));
            log.supersede(&page_at(now));
            if let Some(written) = now.checked_sub(10) {
                let LivePage { volume, page, place, .. } = page_at(written);
                log.set_clean_at(volume, page, place);
            }
            let told = log.dirty_since(VolumeIndex(0)).expect("something is dirty");
            assert!(now - told.0 <= 20, "{told:?} at {now}");
        }
    }

    #[test]
    fn what_is_written_through_is_not_as_old_as_what_lies_beside_it() {
        let (log, rows) = log_with_rows(1);
        rows[0].begin_batch(1, &Payload::default(), RealInstant(1));
        log.supersede(&data(0, 1, &rows[0]));
        rows[0].begin_batch(1, &Payload::default(), RealInstant(100));
        let through = data(1, 2, &rows[0]);
        log.supersede(&through);
        let ages = || [0, 1].map(|volume| log.dirty_since(VolumeIndex(volume)));
        assert_eq!(ages(), [Some(RealInstant(1)), Some(RealInstant(100))]);
        assert!(log.set_clean_at(through.volume, through.page, through.place));
        assert_eq!(ages(), [Some(RealInstant(1)), None]);
    }

    #[test]
    fn a_row_is_not_on_record_before_its_headers_are_durable() {
        let (log, rows) = log_with_new_rows(1);
        assert_eq!(log.record().rows.len(), 0);
        rows[0].change(RowChange::HeadersDurable);
        assert_eq!(log.record().rows.len(), 1);
    }

    /// A row that took a batch, of which nothing is live, and for which `record` says which rows are free.
    fn used_row(record: impl FnOnce(&WriteLog)) -> (WriteLog, Rc<Row>) {
        let (log, rows) = log_with_rows(2);
        rows[0].begin_batch(1, &Payload::default(), RealInstant(1));
        rows[0].batch_ended();
        log.numbers.declare_free(rows[0].number);
        record(&log);
        (log, Rc::clone(&rows[0]))
    }

    #[test]
    fn a_row_is_used_again_when_a_durable_record_leaves_it_out_or_it_took_no_batch() {
        let (log, row) = used_row(|log| log.numbers.are_recorded(log.record().oldest_live));
        log.assert_unused(&row);
        let (log, rows) = log_with_rows(2);
        log.assert_unused(&rows[1]);
    }

    #[test]
    #[should_panic(expected = "and no durable record says so")]
    fn a_row_is_not_used_again_before_a_record_says_that_it_is_free() {
        let (log, row) = used_row(|_| {});
        log.assert_unused(&row);
    }

    #[test]
    #[should_panic(expected = "is freed while it is read")]
    fn a_row_is_not_used_again_under_a_read() {
        let (log, row) = used_row(|log| log.numbers.are_recorded(log.record().oldest_live));
        let _reading = RowReading::new(&row);
        log.assert_unused(&row);
    }

    #[test]
    #[should_panic(expected = "is freed while pages live in it")]
    fn a_row_is_not_used_again_while_a_page_lives_in_it() {
        let (log, row) = used_row(|log| log.numbers.are_recorded(log.record().oldest_live));
        log.supersede(&data(0, 1, &row));
        log.assert_unused(&row);
    }

    #[test]
    #[should_panic(expected = "is Open and is freed")]
    fn a_row_that_takes_batches_is_not_the_oldest_to_go() {
        log_with_rows(1).0.remove_oldest();
    }

    #[test]
    #[should_panic(expected = "is closed, and has taken batches")]
    fn a_row_with_batches_is_not_dropped() {
        let (log, row) = used_row(|_| {});
        log.drop_row(&row);
    }

    #[test]
    #[should_panic(expected = "leaves a place in memory that is not its own")]
    fn a_row_is_not_dropped_twice() {
        let (log, rows) = log_with_rows(1);
        log.drop_row(&rows[0]);
        log.drop_row(&rows[0]);
    }

    #[test]
    #[should_panic(expected = "comes after rows that are newer")]
    fn rows_come_in_the_order_of_their_numbers() {
        let (log, _) = log_with_rows(2);
        let slot = log.free_row_slot().unwrap();
        log.add_row(&Rc::new(Row::new(slot, 1, 7, vec![[Mirror::Nowhere; 2]], 256, RealInstant(0))));
    }

    #[test]
    #[should_panic(expected = "takes the place of another one in memory")]
    fn a_row_does_not_take_the_place_of_another_one() {
        let (log, rows) = log_with_rows(2);
        log.add_row(&Rc::new(Row::new(rows[0].slot, 9, 7, vec![[Mirror::Nowhere; 2]], 256, RealInstant(0))));
    }

    fn open_row() -> Rc<Row> {
        Rc::clone(&log_with_rows(1).1[0])
    }

    #[test]
    #[should_panic(expected = "and room for")]
    fn a_batch_does_not_reach_into_the_summary() {
        let row = open_row();
        row.begin_batch(row.room() + 1, &Payload::default(), RealInstant(1));
    }

    #[test]
    #[should_panic(expected = "is Sealing and gets a batch")]
    fn a_row_that_is_closed_gets_no_batch() {
        let row = open_row();
        row.change(RowChange::Closed);
        row.begin_batch(1, &Payload::default(), RealInstant(1));
    }

    #[test]
    #[should_panic(expected = "would not say all that it holds")]
    fn a_row_is_not_summarised_while_batches_are_in_flight() {
        let row = open_row();
        row.begin_batch(1, &Payload::default(), RealInstant(1));
        row.encode_summary(0);
    }

    #[test]
    #[should_panic(expected = "a batch ends, and none is in flight")]
    fn a_batch_ends_once() {
        let row = open_row();
        row.begin_batch(1, &Payload::default(), RealInstant(1));
        row.batch_ended();
        row.batch_ended();
    }

    #[test]
    #[should_panic(expected = "a read of row 1 ends that did not begin")]
    fn a_read_of_a_row_ends_once() {
        let row = open_row();
        // As if it had ended before.
        drop(RowReading::of_nobody(&row));
    }

    #[test]
    fn what_a_row_cannot_be_ends_the_process() {
        let (log, rows) = log_with_rows(1);
        let row = &rows[0];
        let aside = || Rc::new(Row::new_aside(log.free_row_slot().unwrap(), 9, 7, 1, 256, RealInstant(0)));
        assert_refused("row 1 is Open, and forgets what its summaries are to say", || row.forget_drafts());
        assert_refused("a page lives at position 256, and it has 256", || {
            row.add_live(&data(0, 256, row), RealInstant(0))
        });
        assert_refused("row 9 is out of the log, and comes into it", || log.add_row(&aside()));
        assert_refused("row 1 is of the log, and is listed as set aside", || log.add_aside(row));
        let first = aside();
        log.add_aside(&first);
        assert_refused("row 9 is set aside twice", || log.add_aside(&aside()));
        first.add_live(&data(0, 3, &first), RealInstant(0));
        assert_refused("row 9: page 3 is set aside twice", || first.add_live(&data(0, 3, &first), RealInstant(0)));
        assert_refused("row 9: page 4 leaves it, and was not set aside", || first.remove_live(&data(0, 4, &first)));
        assert_refused("row 9 is set aside no more, and something of it is dirty", || log.remove_aside(&first));
        assert!(log.open.begin_preparing());
        log.open.is_ready(Rc::clone(row));
        log.open.use_prepared();
        assert_refused("row 1 is dropped while it takes batches", || log.drop_row(row));
        row.change(RowChange::Closed);
        row.change(RowChange::BatchesEnded);
        assert_refused("row 1 is freed, and was not declared free", || log.remove_oldest());
    }

    /// A start believes batches that no writer makes: of such a row there are no summaries.
    #[test]
    fn a_row_of_batches_that_its_summaries_have_no_room_for_gets_none() {
        let (_, rows) = log_with_rows(1);
        let mut payload = Payload::default();
        (0..130).for_each(|page| payload.push_pages(1, page, 1, &[0]));
        let mut fits = Vec::new();
        for _ in 0..4 {
            rows[0].found_batch(2, &payload);
            fits.push(rows[0].fits_summaries());
        }
        assert_eq!(fits, [true, true, true, false], "three pages are kept for the summary");
        assert_refused("would reach into the next segment", || rows[0].encode_summary(0));
    }
}
