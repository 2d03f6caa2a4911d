//! How much the pool has written to its SSDs in the last 24 hours, by the hour.

use crate::format::members::{HOURS, Written};

const SECONDS_PER_HOUR: u64 = 3600;
const HOURS_U64: u64 = 24;
const _: () = assert!(HOURS == 24);

/// The bytes that may be written until they are put on record: few of the limit's, and far more than a record itself.
fn grain(limit_bytes: u64) -> u64 {
    (limit_bytes / 64).max(1 << 20)
}

/// See the file's summary.
pub(crate) struct Budget {
    written: Written,
    /// Bytes, and the hour, that are on record.
    recorded: (u64, u64),
}

impl Budget {
    /// From what was recorded. `clean`: nothing was written since; else as much as may have been counts as written.
    pub(crate) fn new(written: Written, limit_bytes: Option<u64>, clean: bool, now_unix_seconds: u64) -> Self {
        let mut budget = Self { written, recorded: (0, 0) };
        budget.roll(now_unix_seconds);
        if let Some(limit) = limit_bytes.filter(|_| !clean) {
            budget.add(grain(limit), now_unix_seconds);
        }
        budget.recorded = (budget.total(), budget.written.hour);
        budget
    }

    /// So many bytes were written.
    pub(crate) fn add(&mut self, bytes: u64, now_unix_seconds: u64) {
        self.roll(now_unix_seconds);
        let place = place_of(self.written.hour);
        self.written.bytes[place] = self.written.bytes[place].saturating_add(bytes).min(1 << 62);
    }

    /// Bytes of the last 24 hours.
    pub(crate) fn total(&self) -> u64 {
        sum(&self.written)
    }

    /// What is to be recorded.
    pub(crate) fn written(&self) -> Written {
        self.written
    }

    /// So much is not on record yet that a crash must not forget it.
    pub(crate) fn is_due(&self, limit_bytes: u64) -> bool {
        let (bytes, hour) = self.recorded;
        let rolled = hour != self.written.hour && self.total() > 0;
        rolled || self.total().saturating_sub(bytes) >= grain(limit_bytes)
    }

    /// What [`Budget::written`] said is on record.
    pub(crate) fn recorded(&mut self, written: Written) {
        self.recorded = (sum(&written), written.hour);
    }

    /// Forgets the hours that are a day old. A clock that was set back changes nothing.
    fn roll(&mut self, now_unix_seconds: u64) {
        let now = now_unix_seconds / SECONDS_PER_HOUR;
        while self.written.hour < now {
            let behind = now - self.written.hour;
            if behind > HOURS_U64 {
                self.written = Written { hour: now, ..Written::default() };
                return;
            }
            self.written.hour += 1;
            self.written.bytes[place_of(self.written.hour)] = 0;
        }
    }
}

fn sum(written: &Written) -> u64 {
    written.bytes.iter().fold(0, |sum: u64, bytes| sum.saturating_add(*bytes))
}

fn place_of(hour: u64) -> usize {
    crate::address::at_u64(hour % HOURS_U64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = SECONDS_PER_HOUR;

    #[test]
    fn what_was_written_counts_for_a_day_and_is_forgotten_by_the_hour() {
        let mut budget = Budget::new(Written::default(), Some(6400), true, 1000 * HOUR);
        budget.add(10, 1000 * HOUR);
        budget.add(20, 1001 * HOUR);
        assert_eq!(budget.total(), 30);
        budget.add(0, 1023 * HOUR + HOUR - 1);
        assert_eq!(budget.total(), 30);
        budget.add(0, 1024 * HOUR);
        assert_eq!(budget.total(), 20);
        budget.add(1, 900 * HOUR);
        assert_eq!(budget.total(), 21, "the clock was set back");
        budget.add(0, 2000 * HOUR);
        assert_eq!(budget.total(), 0);
    }

    #[test]
    fn a_crash_gives_nothing_for_free() {
        const MIB: u64 = 1 << 20;
        let mut budget = Budget::new(Written::default(), Some(64 * MIB), true, 1000 * HOUR);
        budget.add(MIB - 1, 1000 * HOUR);
        assert!(!budget.is_due(64 * MIB));
        budget.add(1, 1000 * HOUR);
        assert!(budget.is_due(64 * MIB));
        budget.recorded(budget.written());
        assert!(!budget.is_due(64 * MIB));
        let after_crash = Budget::new(budget.written(), Some(64 * MIB), false, 1000 * HOUR);
        assert_eq!(after_crash.total(), 2 * MIB, "as much as may have been written without a record");
        let after_stop = Budget::new(budget.written(), Some(64 * MIB), true, 1000 * HOUR);
        assert_eq!(after_stop.total(), MIB);
        budget.add(0, 1001 * HOUR);
        assert!(budget.is_due(64 * MIB), "another hour");
    }
}
