//! The journal of one SSD's slot index as it is now: what waits to be written, what is flushed, where the ring begins.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use hotset_block::sync::Event;

use crate::format::index::{IndexEntry, Sector, SectorPlace};

/// Stands for an entry: durable when [`Journal::is_flushed`] says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// Sectors that are written and flushed together.
pub(super) struct JournalBatch {
    pub(super) sectors: Vec<Sector>,
    /// Their entries.
    pub(super) entries: u64,
}

impl JournalBatch {
    pub(super) fn has_drops(&self) -> bool {
        self.sectors.iter().flat_map(|sector| &sector.entries).any(IndexEntry::is_drop)
    }
}

/// See the file's summary.
#[derive(Default)]
pub(super) struct Journal {
    pending: RefCell<VecDeque<IndexEntry>>,
    /// Entries ever pushed, taken, and flushed.
    pushed: Cell<u64>,
    flushed: Cell<u64>,
    /// A task writes batches.
    writing: Cell<bool>,
    /// A task writes a checkpoint.
    checkpointing: Cell<bool>,
    /// The number of the next sector.
    next_number: Cell<u64>,
    /// The first sector that is needed beside the newest checkpoint.
    start: Cell<u64>,
    checkpoint_number: Cell<u64>,
    /// Of the newest checkpoint, if this daemon wrote it.
    session: Cell<u64>,
    /// Sectors of the first lap that a torn batch left unwritten, and behind which the journal goes on.
    holes: RefCell<Vec<u64>>,
    event: Event,
}

/// What waits.
impl Journal {
    pub(super) fn push(&self, entry: IndexEntry) -> Ticket {
        self.pending.borrow_mut().push_back(entry);
        self.pushed.set(self.pushed.get() + 1);
        Ticket(self.pushed.get())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    /// Takes what waits, as far as it fits into so many sectors of this size.
    pub(super) fn take_batch(&self, incarnation: u64, sector_bytes: u32, room: u64) -> JournalBatch {
        let first = self.next_number.get();
        let mut pending = self.pending.borrow_mut();
        let mut batch = JournalBatch { sectors: Vec::new(), entries: 0 };
        for number in first..first + room {
            let entries = Vec::new();
            let mut sector = Sector { place: SectorPlace::Journal, incarnation, number, flushed_below: first, entries };
            while pending.front().is_some_and(|entry| sector.fits(entry, sector_bytes)) {
                sector.entries.extend(pending.pop_front());
                batch.entries += 1;
            }
            if sector.entries.is_empty() {
                break;
            }
            batch.sectors.push(sector);
        }
        let (waiting, room_is_left) = (pending.len(), batch.entries > 0 || pending.is_empty());
        assert!(room_is_left, "{waiting} entries wait, and none fits into {room} sectors of {sector_bytes} bytes");
        batch
    }

    /// So many entries that were taken are flushed.
    pub(super) fn taken_is_flushed(&self, count: u64) {
        let flushed = self.flushed.get() + count;
        let taken =
            self.pushed.get() - u64::try_from(self.pending.borrow().len()).expect("entries that wait are in memory");
        assert!(flushed <= taken, "{flushed} entries are flushed, and {taken} were taken to be written");
        self.flushed.set(flushed);
        self.event.wake_all();
    }

    pub(super) fn is_flushed(&self, ticket: Ticket) -> bool {
        self.flushed.get() >= ticket.0
    }

    pub(super) fn last_ticket(&self) -> Ticket {
        Ticket(self.pushed.get())
    }

    /// Completes at the next flush, checkpoint or failure.
    pub(super) fn changed(&self) -> hotset_block::sync::Wait<'_> {
        self.event.wait()
    }

    pub(super) fn wake_all(&self) {
        self.event.wake_all();
    }
}

/// Who writes.
impl Journal {
    /// True: nobody writes batches, and the caller is to.
    pub(super) fn begin_writing(&self) -> bool {
        !self.writing.replace(true)
    }

    pub(super) fn end_writing(&self) {
        let wrote = self.writing.replace(false);
        assert!(wrote, "whoever writes the journal ends, and nobody writes it");
    }

    /// True: nobody writes a checkpoint, and the caller is to.
    pub(super) fn begin_checkpoint(&self) -> bool {
        !self.checkpointing.replace(true)
    }

    pub(super) fn end_checkpoint(&self) {
        let wrote = self.checkpointing.replace(false);
        assert!(wrote, "whoever writes a checkpoint ends, and nobody writes one");
        self.event.wake_all();
    }

    pub(super) fn is_checkpointing(&self) -> bool {
        self.checkpointing.get()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.writing.get() || self.checkpointing.get()
    }
}

/// The ring, of so many sectors.
impl Journal {
    /// The number of the sector that comes next: where the journal ends.
    pub(super) fn end(&self) -> u64 {
        self.next_number.get()
    }

    /// Where in the ring the next sector lies.
    pub(super) fn position(&self, ring: u64) -> u64 {
        self.next_number.get() % ring
    }

    /// Sectors that the newest checkpoint does not make needless.
    pub(super) fn used(&self) -> u64 {
        self.next_number.get() - self.start.get()
    }

    /// So many sectors more overwrite none that is needed.
    pub(super) fn has_room(&self, ring: u64, sectors: u64) -> bool {
        self.used() + sectors <= ring
    }

    /// A batch of so many sectors is on its way.
    pub(super) fn goes_on_by(&self, sectors: usize) {
        let sectors = u64::try_from(sectors).expect("an address has 64 bits at most");
        self.next_number.set(self.next_number.get() + sectors);
    }

    pub(super) fn next_checkpoint(&self) -> u64 {
        self.checkpoint_number.get() + 1
    }

    /// The session of which the newest checkpoint of this daemon is; 0 before there is one.
    pub(super) fn session(&self) -> u64 {
        self.session.get()
    }

    /// A checkpoint of this session is durable, beside which the sectors from `start` on are needed.
    pub(super) fn has_checkpoint(&self, number: u64, start: u64, session: u64) {
        assert!(number == self.next_checkpoint(), "checkpoints are written one after the other");
        assert!(start >= self.start.get() && start <= self.next_number.get(), "a checkpoint is of what was journalled");
        assert!(session >= self.session(), "a checkpoint is of a session that is over");
        self.checkpoint_number.set(number);
        self.start.set(start);
        self.session.set(session);
    }

    /// As a start found it; it goes on with `next_number`.
    pub(super) fn opened(&self, checkpoint_number: u64, next_number: u64, unwritten: Vec<u64>) {
        self.checkpoint_number.set(checkpoint_number);
        self.next_number.set(next_number);
        *self.holes.borrow_mut() = unwritten.into_iter().filter(|number| *number < next_number).collect();
    }

    /// Its ring is empty.
    pub(super) fn emptied(&self) {
        self.next_number.set(0);
    }

    /// Sectors that a torn batch left unwritten: all behind which the newest checkpoint begins.
    pub(super) fn take_holes(&self) -> Vec<u64> {
        let holes = self.holes.take();
        assert!(
            holes.iter().all(|number| *number < self.start.get()),
            "the newest checkpoint needs nothing of a torn batch"
        );
        holes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::refused::assert_refused;

    fn drop_of(slot: u32) -> IndexEntry {
        IndexEntry::Drop { slot, generation: 1, first_page: 0, page_count: 1 }
    }

    fn publish_of(slot: u32, words: usize) -> IndexEntry {
        IndexEntry::Publish { slot, generation: 1, attachment: 1, block: 1, mask: vec![1; words] }
    }

    proptest! {
        /// Against a queue of which the front is flushed batch by batch.
        #[test]
        fn entries_are_taken_in_order_and_tickets_are_flushed_with_their_batch(
            steps in prop::collection::vec((0_u32..4, 0_usize..16, 1_u64..4), 1..200),
        ) {
            let journal = Journal::default();
            let (mut waiting, mut flushed, mut pushed) = (VecDeque::new(), 0_u64, 0_u64);
            for (number, (action, words, room)) in (0..).zip(steps) {
                if action < 3 {
                    let entry = if action == 0 { drop_of(number) } else { publish_of(number, words) };
                    waiting.push_back(entry.clone());
                    pushed += 1;
                    prop_assert_eq!(journal.push(entry), Ticket(pushed));
                } else {
                    let first = journal.end();
                    let batch = journal.take_batch(9, 512, room);
                    prop_assert!(u64::try_from(batch.sectors.len()).unwrap() <= room);
                    for (number, sector) in (first..).zip(&batch.sectors) {
                        prop_assert_eq!((sector.number, sector.flushed_below, sector.incarnation), (number, first, 9));
                        for entry in &sector.entries {
                            prop_assert_eq!(Some(entry.clone()), waiting.pop_front());
                        }
                    }
                    prop_assert!(!batch.sectors.is_empty() || waiting.is_empty());
                    journal.goes_on_by(batch.sectors.len());
                    journal.taken_is_flushed(batch.entries);
                    flushed += batch.entries;
                }
                prop_assert_eq!(journal.is_empty(), waiting.is_empty());
                prop_assert!((0..=pushed).all(|ticket| journal.is_flushed(Ticket(ticket)) == (ticket <= flushed)));
            }
        }
    }

    #[test]
    fn the_ring_has_room_up_to_what_the_newest_checkpoint_needs() {
        let journal = Journal::default();
        journal.opened(6, 10, vec![3, 12]);
        assert_eq!((journal.end(), journal.position(8), journal.next_checkpoint()), (10, 2, 7));
        journal.has_checkpoint(7, 10, 1);
        assert_eq!(journal.take_holes(), [3], "the journal has not come to the other one");
        journal.goes_on_by(5);
        assert!(journal.has_room(8, 3) && !journal.has_room(8, 4));
        journal.has_checkpoint(8, 13, 1);
        assert_eq!(journal.used(), 2);
    }

    #[test]
    #[should_panic(expected = "needs nothing of a torn batch")]
    fn a_hole_that_a_checkpoint_needs_is_a_bug() {
        let journal = Journal::default();
        journal.opened(0, 10, vec![3]);
        journal.take_holes();
    }
    #[test]
    #[should_panic(expected = "1 entries are flushed, and 0 were taken to be written")]
    fn what_waits_is_not_flushed() {
        let journal = Journal::default();
        journal.push(drop_of(1));
        journal.taken_is_flushed(1);
    }

    #[test]
    #[should_panic(expected = "and nobody writes it")]
    fn whoever_writes_ends_once() {
        let journal = Journal::default();
        assert!(journal.begin_writing());
        journal.end_writing();
        journal.end_writing();
    }

    #[test]
    #[should_panic(expected = "and nobody writes one")]
    fn a_checkpoint_ends_once() {
        let journal = Journal::default();
        assert!(journal.begin_checkpoint());
        journal.end_checkpoint();
        journal.end_checkpoint();
    }

    #[test]
    #[should_panic(expected = "checkpoints are written one after the other")]
    fn no_checkpoint_is_left_out() {
        let journal = Journal::default();
        journal.has_checkpoint(journal.next_checkpoint() + 1, 0, 1);
    }

    #[test]
    #[should_panic(expected = "a checkpoint is of a session that is over")]
    fn a_checkpoint_is_of_no_older_session_than_the_one_before() {
        let journal = Journal::default();
        journal.has_checkpoint(1, 0, 4);
        assert_eq!(journal.session(), 4);
        journal.has_checkpoint(2, 0, 3);
    }

    #[test]
    #[should_panic(expected = "a checkpoint is of what was journalled")]
    fn a_checkpoint_makes_nothing_needless_that_is_not_written_yet() {
        let journal = Journal::default();
        journal.has_checkpoint(journal.next_checkpoint(), 1, 1);
    }

    #[test]
    fn an_entry_that_no_sector_takes_would_wait_for_ever() {
        let journal = Journal::default();
        journal.push(publish_of(1, 100));
        assert_refused("1 entries wait, and none fits", || journal.take_batch(9, 512, 4));
    }
}
