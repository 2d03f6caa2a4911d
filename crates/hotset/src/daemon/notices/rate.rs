//! How many notices a target is told: so many in a window of time, and of the rest only how many there were. Errors have as much room
//! again that nothing else takes: a flood of warnings hides none.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hotset_api::{Event, Severity};
use serde::{Deserialize, Serialize};

/// Events that a target was not told of, one by one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LeftOut {
    pub(super) info: u64,
    pub(super) warnings: u64,
    pub(super) errors: u64,
    /// When the first of them happened.
    pub(super) first_unix_ms: u64,
}

impl LeftOut {
    pub(super) fn count(&self) -> u64 {
        self.info + self.warnings + self.errors
    }

    pub(super) fn worst(&self) -> Severity {
        match (self.errors, self.warnings) {
            (0, 0) => Severity::Info,
            (0, _) => Severity::Warning,
            (_, _) => Severity::Error,
        }
    }

    pub(super) fn add(&mut self, severity: Severity, at_unix_ms: u64) {
        if self.count() == 0 {
            self.first_unix_ms = at_unix_ms;
        }
        match severity {
            Severity::Info => self.info += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Error => self.errors += 1,
        }
    }
}

/// Which room a notice takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    Usual,
    Error,
}

impl Urgency {
    pub(super) fn of(event: &Event) -> Self {
        match event.severity {
            Severity::Info | Severity::Warning => Self::Usual,
            Severity::Error => Self::Error,
        }
    }
}

/// See the file's summary.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Of those within the window, oldest first.
    told: VecDeque<(Instant, Urgency)>,
    pub(super) left_out: LeftOut,
}

impl Rate {
    /// How long it takes until there is room for one more; nothing: there is. What is usual has no room beside as many errors; an error
    /// has beside everything else.
    pub(super) fn wait(&mut self, now: Instant, urgency: Urgency, limit: u32, window: Duration) -> Duration {
        while self.told.front().is_some_and(|(told, _)| now.saturating_duration_since(*told) >= window) {
            self.told.pop_front();
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let counted: Vec<Instant> = self.told.iter().filter(|(_, of)| *of >= urgency).map(|(told, _)| *told).collect();
        // The limit may have been larger.
        let Some(over) = (counted.len() + 1).checked_sub(limit).filter(|over| *over > 0) else {
            return Duration::ZERO;
        };
        counted.get(over - 1).map_or(Duration::ZERO, |told| (*told + window).saturating_duration_since(now))
    }

    pub(super) fn told(&mut self, now: Instant, urgency: Urgency) {
        self.told.push_back((now, urgency));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: O4
    #[test]
    fn so_many_are_told_in_a_window_and_then_there_is_room_for_as_many_as_are_old() {
        let (begin, window) = (Instant::now(), Duration::from_secs(60));
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut rate = Rate::default();
        for second in [0, 10] {
            assert_eq!(rate.wait(at(second), Urgency::Usual, 2, window), Duration::ZERO);
            rate.told(at(second), Urgency::Usual);
        }
        assert_eq!(rate.wait(at(20), Urgency::Usual, 2, window), Duration::from_secs(40));
        assert_eq!(rate.wait(at(20), Urgency::Usual, 3, window), Duration::ZERO, "the limit was raised");
        assert_eq!(rate.wait(at(20), Urgency::Usual, 1, window), Duration::from_secs(50), "or lowered");
        assert_eq!(rate.wait(at(60), Urgency::Usual, 2, window), Duration::ZERO);
        rate.told(at(60), Urgency::Usual);
        assert_eq!(rate.wait(at(61), Urgency::Usual, 2, window), Duration::from_secs(9));
    }

    // proves: O4
    #[test]
    fn a_flood_of_warnings_leaves_errors_their_room() {
        let (begin, window) = (Instant::now(), Duration::from_secs(60));
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut rate = Rate::default();
        rate.told(at(0), Urgency::Usual);
        rate.told(at(1), Urgency::Usual);
        assert_eq!(rate.wait(at(2), Urgency::Usual, 2, window), Duration::from_secs(58));
        for second in [2, 3] {
            assert_eq!(rate.wait(at(second), Urgency::Error, 2, window), Duration::ZERO);
            rate.told(at(second), Urgency::Error);
        }
        assert_eq!(rate.wait(at(4), Urgency::Error, 2, window), Duration::from_secs(58), "they have a limit, too");
    }

    // proves: O4
    #[test]
    fn what_is_left_out_is_counted_by_severity_and_is_as_bad_as_the_worst_of_it() {
        let mut left_out = LeftOut::default();
        assert_eq!((left_out.count(), left_out.worst()), (0, Severity::Info));
        left_out.add(Severity::Warning, 5);
        left_out.add(Severity::Info, 6);
        assert_eq!((left_out.count(), left_out.worst(), left_out.first_unix_ms), (2, Severity::Warning, 5));
        left_out.add(Severity::Error, 7);
        assert_eq!((left_out.errors, left_out.worst()), (1, Severity::Error));
    }
}
