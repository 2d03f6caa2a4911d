//! How many notices a target is told: so many in a window of time, and of the rest only how many there were.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hotset_api::Severity;
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

/// See the file's summary.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Of those within the window, oldest first.
    told: VecDeque<Instant>,
    pub(super) left_out: LeftOut,
}

impl Rate {
    /// How long it takes until there is room for one more; nothing: there is.
    pub(super) fn wait(&mut self, now: Instant, limit: u32, window: Duration) -> Duration {
        while self.told.front().is_some_and(|told| now.saturating_duration_since(*told) >= window) {
            self.told.pop_front();
        }
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        // The limit may have been larger.
        let Some(over) = (self.told.len() + 1).checked_sub(limit).filter(|over| *over > 0) else {
            return Duration::ZERO;
        };
        self.told.get(over - 1).map_or(Duration::ZERO, |told| (*told + window).saturating_duration_since(now))
    }

    pub(super) fn told(&mut self, now: Instant) {
        self.told.push_back(now);
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
            assert_eq!(rate.wait(at(second), 2, window), Duration::ZERO);
            rate.told(at(second));
        }
        assert_eq!(rate.wait(at(20), 2, window), Duration::from_secs(40));
        assert_eq!(rate.wait(at(20), 3, window), Duration::ZERO, "the limit was raised");
        assert_eq!(rate.wait(at(20), 1, window), Duration::from_secs(50), "or lowered");
        assert_eq!(rate.wait(at(60), 2, window), Duration::ZERO);
        rate.told(at(60));
        assert_eq!(rate.wait(at(61), 2, window), Duration::from_secs(9));
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
