//! The stream of batches: which are in flight, how far they have completed and are flushed, and whether hosts flush each of them.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::address::VolumeIndex;
use crate::log::queue::Append;
use crate::log::row::Row;

/// A batch in flight.
pub(crate) struct InflightBatch {
    pub(crate) row: Rc<Row>,
    /// Its number in the row.
    pub(crate) index: u32,
    /// Where it begins in its segment.
    pub(crate) first_page: u32,
    /// Each append with its first page's position in the row.
    pub(super) appends: RefCell<Vec<(Append, u32)>>,
    /// Of their data, page by page.
    pub(crate) checksums: Vec<u32>,
    /// `Some(true)`: on every copy that is left.
    pub(super) written: Cell<Option<bool>>,
}

impl InflightBatch {
    /// Where it begins in the stream.
    fn start(&self) -> StreamMark {
        StreamMark { row: self.row.number, index: self.index }
    }

    /// What follows it begins here, or in a later row.
    fn end(&self) -> StreamMark {
        StreamMark { row: self.row.number, index: self.index + 1 }
    }

    /// The segment of the row in which it lies.
    pub(crate) fn segment(&self) -> u32 {
        self.index % u32::try_from(self.row.segments.len()).expect("a row has at most 32 segments")
    }
}

/// Marks the end of what is flushed: every batch before this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamMark {
    pub(crate) row: u64,
    pub(crate) index: u32,
}

/// See the file's summary.
#[derive(Default)]
pub(crate) struct Stream {
    inflight: RefCell<VecDeque<Rc<InflightBatch>>>,
    /// Batches that were discarded and may still be found by a start.
    orphans: Cell<usize>,
    /// Of the newest batch that has its place.
    last_checksum: Cell<u32>,
    /// The batch behind the last one that completed, with all before it.
    completed: Cell<StreamMark>,
    flushed: Cell<StreamMark>,
}

impl Stream {
    pub(crate) fn last_checksum(&self) -> u32 {
        self.last_checksum.get()
    }

    /// A start found this batch as the last one.
    pub(crate) fn goes_on_behind(&self, checksum: u32) {
        self.last_checksum.set(checksum);
    }

    /// The next batch has its place.
    pub(crate) fn begin(&self, batch: &Rc<InflightBatch>, checksum: u32) {
        self.last_checksum.set(checksum);
        let mut inflight = self.inflight.borrow_mut();
        let before = inflight.back().map_or(self.completed.get(), |before| before.end());
        assert!(batch.start() >= before, "{:?} has its place behind {before:?}", batch.start());
        inflight.push_back(Rc::clone(batch));
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.inflight.borrow().len()
    }

    /// Some append that has its place and does not count yet is like this.
    pub(crate) fn any_append(&self, is_it: impl Fn(&Append) -> bool) -> bool {
        let inflight = self.inflight.borrow();
        inflight.iter().any(|batch| batch.appends.borrow().iter().any(|(append, _)| is_it(append)))
    }

    /// A start may find this page in a batch that does not count yet, or was discarded.
    pub(crate) fn may_bring(&self, volume: VolumeIndex, page: u64) -> bool {
        let has_it = |append: &Append| append.volume == volume && append.pages().contains(&page);
        self.has_orphans() || self.any_append(has_it)
    }

    /// The newest batch in flight.
    pub(crate) fn back(&self) -> Option<Rc<InflightBatch>> {
        self.inflight.borrow().back().map(Rc::clone)
    }

    pub(crate) fn is_in_flight(&self, batch: &Rc<InflightBatch>) -> bool {
        self.inflight.borrow().iter().any(|other| Rc::ptr_eq(other, batch))
    }

    /// The oldest batch in flight.
    pub(crate) fn front(&self) -> Option<Rc<InflightBatch>> {
        self.inflight.borrow().front().cloned()
    }

    /// The oldest batch in flight is complete, and takes effect.
    ///
    /// # Panics
    /// If it is not on every copy that is left: hosts would be told that it is.
    pub(crate) fn complete_front(&self) {
        if let Some(batch) = self.inflight.borrow_mut().pop_front() {
            assert_eq!(batch.written.get(), Some(true), "{:?} takes effect, and is not written", batch.start());
            assert!(batch.end() > self.completed.get(), "{:?} is complete twice", batch.start());
            self.completed.set(batch.end());
        }
    }

    /// The batches in flight are discarded, the oldest first; each counts until [it is erased](Self::orphan_is_erased).
    pub(crate) fn orphan_all(&self) -> VecDeque<Rc<InflightBatch>> {
        let orphans = self.inflight.take();
        let are_first = orphans.iter().all(|batch| batch.start() >= self.completed.get());
        assert!(are_first, "a batch is discarded that took effect before {:?}", self.completed.get());
        self.orphans.set(self.orphans.get() + orphans.len());
        orphans
    }

    /// No start finds it any more.
    pub(crate) fn orphan_is_erased(&self) {
        let orphans = self.orphans.get();
        assert!(orphans > 0, "a batch is erased that was not discarded");
        self.orphans.set(orphans - 1);
    }

    pub(crate) fn has_orphans(&self) -> bool {
        self.orphans.get() > 0
    }

    /// Nothing is in flight, and nothing that was discarded can be found.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight() == 0 && !self.has_orphans()
    }

    pub(crate) fn completed(&self) -> StreamMark {
        self.completed.get()
    }

    pub(crate) fn flushed(&self) -> StreamMark {
        self.flushed.get()
    }

    /// Every batch before this mark is flushed; flushes may end in any order.
    pub(crate) fn flush_ended(&self, mark: StreamMark) {
        assert!(mark <= self.completed.get(), "{mark:?} is flushed, and is not complete");
        self.flushed.set(self.flushed.get().max(mark));
    }
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

#[cfg(test)]
mod tests {
    use hotset_block::RealInstant;
    use proptest::prelude::*;

    use super::*;
    use crate::log::segment_copy::Mirror;

    fn batch(index: u32) -> Rc<InflightBatch> {
        let row = Row::new(0, 7, 1, vec![[Mirror::Nowhere; 2]], 256, RealInstant(0));
        let (appends, checksums, written) = (RefCell::default(), Vec::new(), Cell::new(Some(true)));
        Rc::new(InflightBatch { row: Rc::new(row), index, first_page: 1, appends, checksums, written })
    }

    proptest! {
        /// Against a list of what is in flight and a count of what was discarded.
        #[test]
        fn batches_complete_in_order_and_what_is_discarded_counts_until_it_is_erased(
            steps in prop::collection::vec((0_u8..6, 0_u32..40), 1..120),
        ) {
            let stream = Stream::default();
            let (mut inflight, mut orphans) = (VecDeque::new(), 0);
            let (mut completed, mut flushed) = (0, 0);
            for ((action, at), index) in steps.into_iter().zip(0..) {
                match action {
                    0 | 1 => {
                        inflight.push_back(index);
                        stream.begin(&batch(index), index + 100);
                        prop_assert_eq!(stream.last_checksum(), index + 100);
                    }
                    2 => {
                        completed = inflight.pop_front().map_or(completed, |index| index + 1);
                        stream.complete_front();
                    }
                    3 => {
                        let discarded: Vec<u32> = stream.orphan_all().iter().map(|batch| batch.index).collect();
                        orphans += discarded.len();
                        prop_assert_eq!(discarded, inflight.drain(..).collect::<Vec<_>>());
                    }
                    4 => {
                        // What completed was `at` batches less at the time when the flush began.
                        let mark = |index| if index == 0 { StreamMark::default() } else { StreamMark { row: 7, index } };
                        let at = completed - completed.min(at);
                        flushed = flushed.max(at);
                        stream.flush_ended(mark(at));
                        prop_assert_eq!(stream.flushed(), mark(flushed));
                    }
                    _ => {
                        if orphans > 0 {
                            orphans -= 1;
                            stream.orphan_is_erased();
                        }
                    }
                }
                prop_assert_eq!(stream.front().map(|batch| batch.index), inflight.front().copied());
                prop_assert_eq!((stream.in_flight(), stream.has_orphans()), (inflight.len(), orphans > 0));
                prop_assert_eq!(stream.is_idle(), inflight.is_empty() && orphans == 0);
                let mark = StreamMark { row: 7, index: completed };
                prop_assert_eq!(stream.completed(), if completed == 0 { StreamMark::default() } else { mark });
            }
        }
    }

    #[test]
    #[should_panic(expected = "has its place behind")]
    fn a_batch_does_not_get_a_place_before_another_one() {
        let stream = Stream::default();
        stream.begin(&batch(3), 1);
        stream.begin(&batch(2), 1);
    }

    #[test]
    #[should_panic(expected = "has its place behind")]
    fn a_batch_does_not_get_a_place_before_what_is_complete() {
        let stream = Stream::default();
        stream.begin(&batch(3), 1);
        stream.complete_front();
        stream.begin(&batch(3), 1);
    }

    #[test]
    #[should_panic(expected = "takes effect, and is not written")]
    fn a_batch_does_not_take_effect_before_it_is_written() {
        let (stream, batch) = (Stream::default(), batch(3));
        stream.begin(&batch, 1);
        batch.written.set(None);
        stream.complete_front();
    }

    #[test]
    #[should_panic(expected = "is flushed, and is not complete")]
    fn what_is_not_complete_is_not_flushed() {
        let stream = Stream::default();
        stream.begin(&batch(3), 1);
        stream.flush_ended(StreamMark { row: 7, index: 4 });
    }

    #[test]
    #[should_panic(expected = "a batch is erased that was not discarded")]
    fn only_what_was_discarded_is_erased() {
        Stream::default().orphan_is_erased();
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
