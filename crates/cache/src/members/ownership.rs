//! Whose SSDs these are, as far as the marks on them tell (`format/owner.rs`): what a look at them allows, and what a second look
//! tells, one [`OWNER_WATCH`](crate::config::limits::OWNER_WATCH) later.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use hotset_block::sync::Event;
use hotset_block::{Instant, Machine, RealInstant};

use crate::config::limits;
use crate::format::owner::Owner;

/// Who wrote a mark, as this daemon sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkWriter {
    /// There is no mark, or it cannot be read.
    Nobody,
    /// This daemon on this machine, which may have been started anew since: it is gone, for it is here.
    Us,
    /// This daemon's state directory on another machine; or another daemon of this machine, whose locks would be seen. It is gone, most likely: if its mark does not move it is taken for that.
    Kin,
    Other,
}

impl MarkWriter {
    pub(crate) fn of(us: &Machine, mark: Option<&Owner>) -> Self {
        let Some(mark) = mark else { return Self::Nobody };
        let our_daemon = mark.daemon == us.daemon || mark.daemon == us.fallback;
        match (our_daemon, mark.machine == us.machine) {
            (true, true) => Self::Us,
            (true, false) | (false, true) => Self::Kin,
            (false, false) => Self::Other,
        }
    }

    /// It may be using the SSD now.
    fn may_live(us: &Machine, mark: Option<&Owner>) -> bool {
        match Self::of(us, mark) {
            Self::Nobody | Self::Us => false,
            Self::Kin | Self::Other => mark.is_some_and(|mark| mark.in_use),
        }
    }
}

/// This daemon wrote it since its machine was started.
pub(crate) fn is_of_this_run(us: &Machine, mark: &Owner) -> bool {
    MarkWriter::of(us, Some(mark)) == MarkWriter::Us && mark.boot == us.boot
}

/// What one look at the marks allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstLook {
    /// Nobody else has used the SSDs.
    Open,
    /// Somebody else has, and ended cleanly: looked at again when the pool is open.
    OpenAndLook,
    /// Somebody else may be using them: whoever does moves its mark.
    Watch,
}

pub(crate) fn first_look(us: &Machine, marks: &[Option<Owner>]) -> FirstLook {
    if marks.iter().any(|mark| MarkWriter::may_live(us, mark.as_ref())) {
        return FirstLook::Watch;
    }
    let ours = |mark: &Option<Owner>| matches!(MarkWriter::of(us, mark.as_ref()), MarkWriter::Nobody | MarkWriter::Us);
    if marks.iter().all(ours) { FirstLook::Open } else { FirstLook::OpenAndLook }
}

/// What two looks tell, the second one after every living owner has moved its mark. Indexes are those of the marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecondLook {
    /// Somebody else uses it now.
    Alive(usize),
    /// Another machine used them last, and did not end cleanly: it may come back.
    Left(usize),
    /// Whoever used them is gone.
    Open,
}

pub(crate) fn second_look(us: &Machine, before: &[Option<Owner>], after: &[Option<Owner>]) -> SecondLook {
    let moved =
        |index: usize| before.get(index).map(|mark| mark.as_ref().map(moves)) != Some(after[index].as_ref().map(moves));
    let living = (0..after.len()).find(|index| MarkWriter::may_live(us, after[*index].as_ref()) && moved(*index));
    if let Some(index) = living {
        return SecondLook::Alive(index);
    }
    // What an SSD says that was not there when others were used later does not count.
    let newest = (0..after.len()).filter(|index| after[*index].is_some());
    let newest = newest.max_by_key(|index| after[*index].as_ref().map_or(0, |mark| mark.counter));
    match newest {
        Some(index) if MarkWriter::of(us, after[index].as_ref()) == MarkWriter::Other => {
            let in_use = after[index].as_ref().is_some_and(|mark| mark.in_use);
            if in_use { SecondLook::Left(index) } else { SecondLook::Open }
        }
        Some(_) | None => SecondLook::Open,
    }
}

/// What changes of a mark while its owner lives.
fn moves(mark: &Owner) -> (u128, u64, u64) {
    (mark.daemon, mark.opening, mark.counter)
}

/// What an owner finds on an SSD of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MarkFound {
    /// Its own mark, or none that can be read.
    Ours,
    /// Somebody else took the SSD.
    Taken,
}

/// This pool's own marks, while it is open.
#[derive(Default)]
pub(crate) struct Ownership {
    opening: Cell<u64>,
    counter: Cell<u64>,
    since_unix_seconds: Cell<u64>,
    /// Each SSD whose mark is being moved, and since when it has not answered.
    refreshing: RefCell<Vec<(u128, Instant)>>,
    /// The time that had run, and all that had passed, when an SSD showed last that it is this pool's.
    looked_at: Cell<(Instant, RealInstant)>,
    /// Since when somebody waits for a look at them; `None`: nobody does.
    awaited_since: Cell<Option<Instant>>,
    /// The marks are to be looked at now.
    pub(crate) look_wanted: Event,
    /// One was looked at, or there is nothing to look at; or one was moved, or could not be.
    pub(crate) looked: Event,
    /// They are moved no more.
    ended: Cell<bool>,
    taken: Cell<bool>,
}

impl Ownership {
    /// The pool is opened; `counter` is the highest that was found on an SSD.
    pub(crate) fn begin(&self, opening: u64, counter: u64, unix_seconds: u64) {
        self.opening.set(opening);
        self.counter.set(counter);
        self.since_unix_seconds.set(unix_seconds);
    }

    /// The next mark, for an SSD that the caller fills in.
    pub(crate) fn next(&self, us: &Machine, pool_uuid: u128, unix_seconds: u64, in_use: bool) -> Owner {
        self.counter.set(self.counter.get() + 1);
        Owner {
            pool_uuid,
            ssd_uuid: 0,
            daemon: us.daemon,
            machine: us.machine,
            boot: us.boot,
            opening: self.opening.get(),
            counter: self.counter.get(),
            unix_seconds,
            since_unix_seconds: self.since_unix_seconds.get(),
            in_use,
            name: us.name.clone(),
        }
    }

    /// What a mark says that was read from an SSD of this pool. A counter that is ahead is that of a copy of this machine. One of
    /// an earlier opening of this daemon, in the same run of its machine, was still on its way when this one began: that opening
    /// may have counted further, on other SSDs or for another pool.
    pub(crate) fn judge(&self, us: &Machine, mark: Option<&Owner>) -> MarkFound {
        let Some(mark) = mark else { return MarkFound::Ours };
        let earlier = mark.opening != self.opening.get() && is_of_this_run(us, mark);
        let ours = mark.daemon == us.daemon && mark.opening == self.opening.get() && mark.in_use;
        let began_earlier = earlier && mark.since_unix_seconds < self.since_unix_seconds.get();
        let counted = (ours || earlier) && mark.counter <= self.counter.get();
        if counted || began_earlier { MarkFound::Ours } else { MarkFound::Taken }
    }

    /// False: the mark of this SSD is on its way already.
    pub(crate) fn begin_refresh(&self, ssd_uuid: u128, now: Instant) -> bool {
        let idle = !self.is_refreshing(ssd_uuid);
        if idle {
            self.refreshing.borrow_mut().push((ssd_uuid, now));
        }
        idle
    }

    /// An SSD whose mark is being moved has answered, and is asked for the next step.
    pub(crate) fn asks(&self, ssd_uuid: u128, now: Instant) {
        let mut refreshing = self.refreshing.borrow_mut();
        if let Some((_, asked)) = refreshing.iter_mut().find(|(other, _)| *other == ssd_uuid) {
            *asked = now;
        }
    }

    pub(crate) fn end_refresh(&self, ssd_uuid: u128) {
        assert!(self.is_refreshing(ssd_uuid), "the mark on SSD {ssd_uuid:032x} was moved, and nobody began to");
        self.refreshing.borrow_mut().retain(|(other, _)| *other != ssd_uuid);
    }

    pub(crate) fn is_refreshing(&self, ssd_uuid: u128) -> bool {
        self.refreshing.borrow().iter().any(|(other, _)| *other == ssd_uuid)
    }

    /// An SSD has shown that it is this pool's: whoever waits for that goes on.
    pub(crate) fn has_looked(&self, now: Instant, real: RealInstant) {
        self.looked_at.set((now, real));
        self.awaited_since.set(None);
        // Now, and not when the mark is moved: what it is written with may hang.
        self.looked.wake_all();
    }

    /// Somebody waits until a mark is looked at.
    pub(crate) fn awaits_look(&self, now: Instant) {
        self.awaited_since.set(self.awaited_since.get().or(Some(now)));
    }

    /// How long an SSD has not answered while somebody waits for a look at its mark: nothing, if nobody does.
    pub(crate) fn holds_up_for(&self, ssd_uuid: u128, now: Instant) -> Duration {
        let refreshing = self.refreshing.borrow();
        let asked = refreshing.iter().find(|(other, _)| *other == ssd_uuid).map(|(_, asked)| *asked);
        let (Some(asked), Some(awaited)) = (asked, self.awaited_since.get()) else { return Duration::ZERO };
        now.since(asked.max(awaited))
    }

    /// So much time has passed since the last look in which this program did not run that somebody else may have come.
    pub(crate) fn must_look(&self, now: Instant, real: RealInstant) -> bool {
        let (looked, looked_real) = self.looked_at.get();
        let paused = real.since(looked_real).saturating_sub(now.since(looked));
        paused > limits::OWNER_PAUSE && !self.ended.get() && !self.taken.get()
    }

    pub(crate) fn end(&self) {
        self.ended.set(true);
        self.awaited_since.set(None);
        self.looked.wake_all();
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.get()
    }

    /// Somebody else has the SSDs.
    pub(crate) fn set_taken(&self) {
        self.taken.set(true);
        self.looked.wake_all();
    }

    pub(crate) fn is_taken(&self) -> bool {
        self.taken.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::owner::tests::sample;
    use crate::refused::assert_refused;

    fn us() -> Machine {
        Machine { daemon: 30, fallback: 31, machine: 40, boot: 50, name: "here".to_owned() }
    }

    /// Every kind of writer, with whether its SSD is in use.
    fn marks() -> Vec<(MarkWriter, Option<Owner>)> {
        let mut marks = vec![(MarkWriter::Nobody, None)];
        for in_use in [false, true] {
            for daemon in [30, 31, 3] {
                for (machine, boot) in [(40, 50), (40, 5), (4, 50), (4, 5)] {
                    let writer = match (daemon != 3, machine == 40) {
                        (true, true) => MarkWriter::Us,
                        (true, false) | (false, true) => MarkWriter::Kin,
                        (false, false) => MarkWriter::Other,
                    };
                    marks.push((writer, Some(Owner { daemon, machine, boot, in_use, ..sample() })));
                }
            }
        }
        marks
    }

    fn may_live((writer, mark): &(MarkWriter, Option<Owner>)) -> bool {
        matches!(writer, MarkWriter::Kin | MarkWriter::Other) && mark.as_ref().is_some_and(|mark| mark.in_use)
    }

    #[test]
    fn who_wrote_a_mark_is_told_by_daemon_and_run_of_the_machine() {
        for (writer, mark) in marks() {
            assert_eq!(MarkWriter::of(&us(), mark.as_ref()), writer, "{mark:?}");
        }
    }

    // proves: F10
    #[test]
    fn one_look_opens_at_once_only_where_nobody_else_was_and_watches_whoever_may_live() {
        for first in marks() {
            for second in marks() {
                let looked = first_look(&us(), &[first.1.clone(), second.1.clone()]);
                let foreign =
                    [&first, &second].iter().any(|mark| matches!(mark.0, MarkWriter::Kin | MarkWriter::Other));
                let expected = match (may_live(&first) || may_live(&second), foreign) {
                    (true, _) => FirstLook::Watch,
                    (false, true) => FirstLook::OpenAndLook,
                    (false, false) => FirstLook::Open,
                };
                assert_eq!(looked, expected, "{first:?} {second:?}");
            }
        }
    }

    // proves: F10
    #[test]
    fn of_two_looks_whatever_moved_lives_and_the_newest_mark_says_who_was_last() {
        for (writer, mark) in marks() {
            let same = second_look(&us(), std::slice::from_ref(&mark), std::slice::from_ref(&mark));
            let in_use = mark.as_ref().is_some_and(|mark| mark.in_use);
            let left = writer == MarkWriter::Other && in_use;
            assert_eq!(same, if left { SecondLook::Left(0) } else { SecondLook::Open }, "{mark:?}");
            let Some(mark) = mark else { continue };
            let again = [
                Owner { counter: mark.counter + 1, ..mark.clone() },
                Owner { opening: mark.opening + 1, ..mark.clone() },
            ];
            for moved in again {
                let looked = second_look(&us(), &[Some(mark.clone())], &[Some(moved.clone())]);
                let lives = may_live(&(writer, Some(moved)));
                assert_eq!(matches!(looked, SecondLook::Alive(0)), lives, "{mark:?}");
            }
            let appeared = second_look(&us(), &[None], &[Some(mark.clone())]);
            assert_eq!(
                matches!(appeared, SecondLook::Alive(0)),
                may_live(&(writer, Some(mark))),
                "it was not there before"
            );
        }
    }

    // proves: F10
    #[test]
    fn an_old_mark_on_an_ssd_that_was_away_does_not_count_beside_a_newer_one() {
        let old = Owner { counter: 7, ..sample() };
        for (daemon, machine, boot) in [(30, 40, 50), (30, 40, 5), (3, 40, 50)] {
            let newer = Owner { daemon, machine, boot, counter: 9, ..sample() };
            let marks = [Some(old.clone()), Some(newer)];
            assert_eq!(second_look(&us(), &marks, &marks), SecondLook::Open);
        }
        let released = Owner { counter: 9, in_use: false, ..sample() };
        let marks = [Some(released), Some(old.clone())];
        assert_eq!(second_look(&us(), &marks, &marks), SecondLook::Open, "it ended cleanly elsewhere");
        let older = Owner { daemon: 30, machine: 40, boot: 50, counter: 5, ..sample() };
        let marks = [Some(older), Some(old)];
        assert_eq!(second_look(&us(), &marks, &marks), SecondLook::Left(1));
    }

    // proves: F10
    #[test]
    fn an_open_pool_takes_nothing_but_its_own_mark_for_its_own() {
        let ownership = Ownership::default();
        ownership.begin(6, 7, 100);
        let mark = ownership.next(&us(), 1, 0, true);
        assert_eq!((mark.counter, mark.opening), (8, 6));
        assert_eq!(ownership.judge(&us(), None), MarkFound::Ours, "a mark that was damaged is written again");
        assert_eq!(ownership.judge(&us(), Some(&mark)), MarkFound::Ours);
        assert_eq!(
            ownership.judge(&us(), Some(&Owner { counter: 3, ..mark.clone() })),
            MarkFound::Ours,
            "lost with a cache"
        );
        for in_use in [false, true] {
            let late = Owner { opening: 5, counter: 8, in_use, ..mark.clone() };
            assert_eq!(ownership.judge(&us(), Some(&late)), MarkFound::Ours, "of an earlier opening, late");
            let further = Owner { ssd_uuid: 9, counter: 12, since_unix_seconds: 99, ..late };
            assert_eq!(ownership.judge(&us(), Some(&further)), MarkFound::Ours, "that opening counted further");
        }
        for other in [
            Owner { daemon: 3, ..mark.clone() },
            Owner { opening: 5, counter: 9, ..mark.clone() },
            Owner { opening: 5, boot: mark.boot + 1, since_unix_seconds: 99, ..mark.clone() },
            Owner { in_use: false, ..mark.clone() },
            Owner { counter: 9, ..mark.clone() },
        ] {
            assert_eq!(ownership.judge(&us(), Some(&other)), MarkFound::Taken, "{other:?}");
        }
    }

    // proves: F10
    #[test]
    fn after_a_pause_the_marks_are_looked_at_and_after_waiting_they_need_not_be() {
        let ownership = Ownership::default();
        let (now, real) = (Instant(0), RealInstant(7));
        ownership.has_looked(now, real);
        let after = |ran: u64, passed: u64| {
            ownership.must_look(now.plus(Duration::from_secs(ran)), real.plus(Duration::from_secs(passed)))
        };
        assert!(!after(60, 60) && !after(0, 5) && !after(60, 65));
        assert!(after(0, 6) && after(60, 66) && after(1, 3600));
        ownership.has_looked(now, real.plus(Duration::from_secs(3600)));
        assert!(!after(1, 3601));
    }

    // proves: F10
    #[test]
    fn an_ssd_holds_up_whoever_waits_for_a_look_since_both_began_and_it_answered_last() {
        let ownership = Ownership::default();
        let at = |seconds: u64| Instant(0).plus(Duration::from_secs(seconds));
        let held = |seconds: u64| [1, 2].map(|ssd| ownership.holds_up_for(ssd, at(seconds)).as_secs());
        assert!(ownership.begin_refresh(1, at(1)) && !ownership.begin_refresh(1, at(2)));
        assert_eq!(held(30), [0, 0], "nobody waits");
        ownership.awaits_look(at(30));
        ownership.awaits_look(at(35));
        assert!(ownership.begin_refresh(2, at(33)));
        assert_eq!(held(36), [6, 3]);
        ownership.asks(1, at(36));
        assert_eq!(held(37), [1, 4], "it answered");
        ownership.end_refresh(2);
        assert_eq!(held(37), [1, 0], "it is not asked");
        ownership.has_looked(at(38), RealInstant(0));
        assert_eq!(held(60), [0, 0], "one look is enough");
    }

    #[test]
    fn a_mark_is_moved_no_more_when_it_was() {
        assert_refused("was moved, and nobody began to", || Ownership::default().end_refresh(7));
    }
}
