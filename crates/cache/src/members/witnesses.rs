//! What members are to know of each other, how far each of them has been told, and what a start found that they knew.

use std::cell::{Cell, RefCell};

use hotset_block::sync::{Event, Wait};

use crate::format::witness::Witness;
use crate::status::ScrubStatus;

/// Of a pool.
#[derive(Default)]
pub(crate) struct Witnesses {
    /// What all members knew together when the pool was opened.
    pub(super) found: RefCell<Witness>,
    /// Counts what members would want to know.
    changes: Cell<u64>,
    /// So many of them are durable on every member that takes records.
    kept: Cell<u64>,
    pub(super) keeping: Cell<bool>,
    /// Of the newest record on any member.
    number: Cell<u64>,
    /// What they were to know at the last change.
    last: RefCell<Vec<u8>>,
    /// What the state directory was told.
    pub(crate) state: WitnessCopy,
    of_rooms: Cell<OfRooms>,
}

/// What the rooms above said last that members are to know of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OfRooms {
    /// How far the write log is flushed: row, and batch in it.
    pub(crate) log_flushed: (u64, u32),
    /// The last scrub that ended.
    pub(crate) scrub: Option<ScrubStatus>,
}

/// The record of one member.
#[derive(Default)]
pub(crate) struct WitnessCopy {
    number: Cell<u64>,
    told: Cell<u64>,
    durable: Cell<u64>,
    /// A record is on its way.
    pub(super) writing: Cell<bool>,
    /// One is being made durable.
    pub(super) keeping: Cell<bool>,
    /// The next one is to be durable.
    durable_wanted: Cell<bool>,
    event: Event,
    hurry: Event,
}

impl Witnesses {
    /// The pool is opened: what its members knew, and the number of the newest record on any of them.
    pub(crate) fn opened(&self, found: Witness, number: u64) {
        // Until the log is read, nobody knows better than they.
        self.of_rooms.set(OfRooms { scrub: found.scrub, log_flushed: found.log_flushed });
        *self.found.borrow_mut() = found;
        self.number.set(number);
    }

    pub(super) fn of_rooms(&self) -> OfRooms {
        self.of_rooms.get()
    }

    /// The write log is flushed up to this row, and this batch in it.
    pub(super) fn log_is_flushed(&self, log_flushed: (u64, u32)) {
        let before = self.of_rooms.get();
        let grows = log_flushed >= before.log_flushed;
        assert!(
            grows,
            "members knew of a log that was flushed to {:?}, and hear of {log_flushed:?}",
            before.log_flushed
        );
        self.of_rooms.set(OfRooms { log_flushed, ..before });
    }

    /// What the log lost, if anything, is known: from here on its next flush is what counts.
    pub(super) fn log_is_recovered(&self) {
        self.of_rooms.set(OfRooms { log_flushed: (0, 0), ..self.of_rooms.get() });
    }

    pub(super) fn scrub_ended(&self, scrub: Option<ScrubStatus>) {
        self.of_rooms.set(OfRooms { scrub, ..self.of_rooms.get() });
    }

    /// Something changed that members would want to know; answers how many changes there are with it.
    pub(crate) fn change(&self) -> u64 {
        self.changes.set(self.changes.get() + 1);
        self.changes.get()
    }

    /// Notes what was seen, if it is not what it was.
    pub(crate) fn note(&self, seen: Vec<u8>) {
        if *self.last.borrow() != seen {
            *self.last.borrow_mut() = seen;
            self.change();
        }
    }

    pub(crate) fn changes(&self) -> u64 {
        self.changes.get()
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept.get() == self.changes.get()
    }

    pub(crate) fn set_kept(&self, changes: u64) {
        let all = self.changes.get();
        assert!(changes <= all, "members know {changes} changes, and there were {all}");
        self.kept.set(changes);
    }

    /// The number of the next record for this member: above all others, and for the area in which its newest is not.
    pub(crate) fn next_number(&self, copy: &WitnessCopy) -> u64 {
        let next = self.number.get() + 1;
        let number = if next % 2 == copy.number.get() % 2 { next + 1 } else { next };
        assert!(number > copy.number.get(), "record {number} follows {} on a member", copy.number.get());
        self.number.set(number);
        copy.number.set(number);
        number
    }
}

impl WitnessCopy {
    /// The number of the record that a start found there.
    pub(crate) fn opened(&self, number: u64) {
        self.number.set(number);
    }

    pub(crate) fn told(&self) -> u64 {
        self.told.get()
    }

    pub(crate) fn is_durable(&self, changes: u64) -> bool {
        self.durable.get() >= changes
    }

    pub(crate) fn set_told(&self, changes: u64) {
        let before = self.told.replace(changes);
        assert!(changes >= before, "a member was told {before} changes, and then {changes}");
    }

    pub(crate) fn set_durable(&self, changes: u64) {
        self.durable.set(self.durable.get().max(changes));
    }

    /// Somebody waits for the next record, and it is to be durable.
    pub(crate) fn want_durable(&self) {
        self.durable_wanted.set(true);
        self.hurry.wake_all();
    }

    pub(crate) fn wants_durable(&self) -> bool {
        self.durable_wanted.get()
    }

    /// What is written now is to be durable; the next one need not be.
    pub(crate) fn take_durable(&self) -> bool {
        self.durable_wanted.take()
    }

    /// Completes when somebody waits for the next record.
    pub(crate) fn hurried(&self) -> Wait<'_> {
        self.hurry.wait()
    }

    /// The write that was on its way has ended.
    pub(crate) fn ended(&self) {
        let was_written = self.writing.replace(false);
        assert!(was_written, "a record of a member's is written, and none was on its way");
        self.event.wake_all();
    }

    /// Completes when the next write ends, or the member is gone.
    pub(crate) fn changed(&self) -> Wait<'_> {
        self.event.wait()
    }

    pub(crate) fn wake_all(&self) {
        self.event.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn numbers_rise_over_all_members_and_each_writes_its_two_areas_in_turn() {
        let witnesses = Witnesses::default();
        witnesses.opened(Witness::default(), 7);
        let (one, other) = (WitnessCopy::default(), WitnessCopy::default());
        one.opened(7);
        let numbers: Vec<u64> = [&one, &other, &other, &one, &one].map(|copy| witnesses.next_number(copy)).into();
        assert_eq!(numbers, [8, 9, 10, 11, 12]);
        let mut areas = Vec::new();
        for _ in 0..3 {
            areas.push((witnesses.next_number(&one) % 2, witnesses.next_number(&other) % 2));
        }
        assert!(areas.windows(2).all(|pair| pair[0].0 != pair[1].0 && pair[0].1 != pair[1].1), "{areas:?}");
    }
    #[test]
    fn members_hear_of_a_log_that_goes_on_and_of_one_that_was_recovered() {
        let witnesses = Witnesses::default();
        witnesses.log_is_flushed((3, 1));
        witnesses.log_is_flushed((3, 1));
        witnesses.log_is_recovered();
        witnesses.log_is_flushed((2, 0));
        assert_eq!(witnesses.of_rooms().log_flushed, (2, 0));
    }

    #[test]
    #[should_panic(expected = "members knew of a log that was flushed to (3, 1)")]
    fn members_never_hear_of_a_log_that_goes_back() {
        let witnesses = Witnesses::default();
        witnesses.log_is_flushed((3, 1));
        witnesses.log_is_flushed((3, 0));
    }

    #[test]
    #[should_panic(expected = "members know 1 changes, and there were 0")]
    fn members_know_of_no_change_that_there_was_not() {
        Witnesses::default().set_kept(1);
    }

    #[test]
    fn a_member_is_told_more_and_more_by_one_record_at_a_time() {
        let copy = WitnessCopy::default();
        copy.set_told(3);
        assert_refused("a member was told 3 changes, and then 2", || copy.set_told(2));
        assert_refused("and none was on its way", || copy.ended());
    }
}
