//! When a request is late: not after so much time, but after so much time without progress.
//!
//! A request makes progress when something ends that it may have waited for: a request of the same export that came
//! before it, or a part of something long (zeroes, trims, filling, cleaning) that the export's volume is at work on. What
//! hangs holds nobody up for longer than those take that came before it.

use std::time::Duration;

use hotset_block::Instant;
use hotset_cache::Durability;

/// What an operation does, as far as it matters for what it may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A read or a question: it waits for its turn alone.
    Short,
    /// A write: it may also wait for room in the write log, or for pages that are being zeroed.
    Store,
    /// A flush: it ends when the device is done with everything.
    Flush,
    /// Zeroes, a trim, filling: it consists of many parts.
    Long,
}

/// An operation on a volume, in whatever protocol it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) work: Work,
    /// What is to be durable waits for the device as a flush does.
    pub(crate) durability: Durability,
}

/// So many time-outs are the most for a request that only waits for what takes long, and is not long itself.
const TIMEOUTS_MAX: u32 = 10;

/// What ended on an export between two looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// When the oldest request was received that was answered.
    pub(crate) oldest: Option<Instant>,
    /// A part of something long is done.
    pub(crate) steps: bool,
}

impl Ended {
    pub(crate) fn or(self, other: Self) -> Self {
        Self { oldest: earliest(self.oldest, other.oldest), steps: self.steps || other.steps }
    }
}

pub(crate) fn earliest(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

/// How far a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) received: Instant,
    /// When it was last seen to get on.
    since: Instant,
}

impl Progress {
    pub(crate) fn new(received: Instant) -> Self {
        Self { received, since: received }
    }

    /// Whether the request has made no progress for `timeout`, given what ended since the last look.
    pub(crate) fn is_late(&mut self, operation: Operation, ended: &Ended, now: Instant, timeout: Duration) -> bool {
        let in_line = ended.oldest.is_some_and(|oldest| oldest <= self.received);
        let bearable = now.since(self.received) < timeout * TIMEOUTS_MAX;
        let gets_on = in_line
            || (ended.steps && operation.takes_long())
            || (bearable && ended.steps && operation.may_wait_for_steps())
            || (bearable && ended.oldest.is_some() && operation.waits_for_all());
        if gets_on {
            self.since = now;
        }
        now.since(self.since) > timeout
    }
}

impl Operation {
    pub(crate) fn takes_long(self) -> bool {
        self.work == Work::Long
    }

    fn may_wait_for_steps(self) -> bool {
        self.work == Work::Store || self.waits_for_all()
    }

    fn waits_for_all(self) -> bool {
        self.work == Work::Flush || self.durability == Durability::Durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);
    const NOTHING: Ended = Ended { oldest: None, steps: false };
    const STEPS: Ended = Ended { oldest: None, steps: true };

    fn operation(work: Work) -> Operation {
        Operation { work, durability: Durability::Volatile }
    }

    fn at(seconds: u64) -> Instant {
        Instant(0).plus(Duration::from_secs(seconds))
    }

    /// The second in which a request that was received at 100 s is late, looked after every 3 s.
    fn late_at(work: Work, ended: impl Fn(u64) -> Ended) -> Option<u64> {
        let mut progress = Progress::new(at(100));
        let mut looks = (100..3000).step_by(3);
        looks.find(|second| progress.is_late(operation(work), &ended(*second), at(*second), TIMEOUT))
    }

    #[test]
    fn what_makes_no_progress_is_late_after_the_time_out() {
        for work in [Work::Short, Work::Store, Work::Flush, Work::Long] {
            assert_eq!(late_at(work, |_| NOTHING), Some(133), "{work:?}");
        }
    }

    #[test]
    fn what_is_done_piece_by_piece_is_late_only_when_no_piece_ends_any_more() {
        let until = |second: u64| if second < 2000 { STEPS } else { NOTHING };
        assert_eq!(late_at(Work::Long, until), Some(2032));
    }

    #[test]
    fn what_waits_in_line_is_not_late_and_what_came_later_is_no_excuse() {
        let before = |second: u64| Ended { oldest: (second < 400).then(|| at(99)), steps: false };
        let after = |_| Ended { oldest: Some(at(101)), steps: false };
        for work in [Work::Short, Work::Store, Work::Flush, Work::Long] {
            assert!(late_at(work, before) > Some(400), "{work:?}");
        }
        for work in [Work::Short, Work::Store] {
            assert_eq!(late_at(work, after), Some(133), "{work:?}");
        }
    }

    #[test]
    fn a_flush_waits_longer_for_a_device_that_works_but_not_for_ever() {
        let works = |_| Ended { oldest: Some(at(101)), steps: true };
        let late = late_at(Work::Flush, works);
        assert!(late > Some(400) && late < Some(500), "{late:?}");
        let late = late_at(Work::Store, |_| STEPS);
        assert!(late > Some(400) && late < Some(500), "a write that waits for room: {late:?}");
        assert_eq!(late_at(Work::Short, |_| STEPS), Some(133), "no read waits for those");
    }
}
