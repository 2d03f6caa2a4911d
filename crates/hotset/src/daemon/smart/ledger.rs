//! What the cache has written to each SSD over all starts, and how the SSD's wear grew: kept in the state directory.
//!
//! What a pool counts begins at nothing whenever it is opened; the ledger adds up. A kill loses what was counted since the
//! ledger was written last.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// SSDs that are remembered; the ones seen longest ago are forgotten first.
const SSDS_MAX: usize = 1024;

/// Steps of the wear that are remembered of an SSD: the pace is that of the last so many percent.
const STEPS_MAX: usize = 16;

/// A pace seen for less time says nothing.
const PACE_MS_MIN: u64 = 24 * 3600 * 1000;

/// A forecast further away is none: a hundred years.
const FORECAST_MS_MAX: u64 = 100 * 365 * 24 * 3600 * 1000;

/// By the SSDs' UUIDs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ledger {
    ssds: BTreeMap<String, SsdUse>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SsdUse {
    /// Before its pool was opened this time.
    written_before_bytes: u64,
    /// Since then.
    written_now_bytes: u64,
    seen_at_unix_ms: u64,
    /// When its wear was seen to be so much for the first time, oldest first.
    wear: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Step {
    at_unix_ms: u64,
    wear_percent: u16,
}

impl Ledger {
    /// Of the daemon's start: whatever comes is counted from nothing.
    pub(super) fn begin(&mut self) {
        for entry in self.ssds.values_mut() {
            entry.begin();
        }
    }

    /// What an SSD's pool has counted by now, since it was opened.
    pub(super) fn count(&mut self, uuid: &str, counted_bytes: u64, now_unix_ms: u64) {
        let entry = self.ssds.entry(uuid.to_owned()).or_default();
        entry.count(counted_bytes);
        entry.seen_at_unix_ms = now_unix_ms;
        while self.ssds.len() > SSDS_MAX {
            let oldest = self.ssds.iter().min_by_key(|(_, entry)| entry.seen_at_unix_ms);
            let oldest = oldest.map(|(uuid, _)| uuid.clone()).expect("it has more than the most");
            self.ssds.remove(&oldest);
        }
    }

    /// What an SSD said of its wear.
    pub(super) fn wear(&mut self, uuid: &str, wear_percent: u16, now_unix_ms: u64) {
        let steps = &mut self.ssds.entry(uuid.to_owned()).or_default().wear;
        let last = steps.last().map(|step| step.wear_percent);
        if last == Some(wear_percent) {
            return;
        }
        // A drive gets no younger: this is another one, or its firmware counts otherwise now.
        if last.is_some_and(|last| last > wear_percent) {
            steps.clear();
        }
        steps.push(Step { at_unix_ms: now_unix_ms, wear_percent });
        if steps.len() > STEPS_MAX {
            steps.remove(0);
        }
    }

    /// Over all starts, with what its pool has counted by now: the ledger itself hears of that later.
    pub(super) fn written_bytes(&self, uuid: &str, counted_bytes: u64) -> u64 {
        let mut entry = self.ssds.get(uuid).cloned().unwrap_or_default();
        entry.count(counted_bytes);
        entry.written_before_bytes.saturating_add(entry.written_now_bytes)
    }

    /// When the SSD will have taken 100 % at the pace seen; `None` before it was seen to wear.
    ///
    /// From the first step to the last it gained G percent in a time T: one percent takes T / G. Once the next percent is overdue by D,
    /// the last step counts as D later: T + D for G percent, and the rest from then on. So the forecast moves away while nothing wears,
    /// and stands still before.
    pub(super) fn worn_out_at_unix_ms(&self, uuid: &str, now_unix_ms: u64) -> Option<u64> {
        let steps = &self.ssds.get(uuid)?.wear;
        let (first, last) = (steps.first()?, steps.last()?);
        let span_ms = last.at_unix_ms.checked_sub(first.at_unix_ms).filter(|span| *span >= PACE_MS_MIN)?;
        let gained = u64::from(last.wear_percent.checked_sub(first.wear_percent).filter(|gained| *gained > 0)?);
        let left = u64::from(100_u16.saturating_sub(last.wear_percent));
        if left == 0 {
            return Some(last.at_unix_ms);
        }
        let next_at = last.at_unix_ms.saturating_add(span_ms.div_euclid(gained));
        let overdue_ms = now_unix_ms.saturating_sub(next_at);
        let left_ms = span_ms.saturating_add(overdue_ms).checked_mul(left)?.div_euclid(gained);
        (left_ms <= FORECAST_MS_MAX).then(|| last.at_unix_ms.saturating_add(overdue_ms).saturating_add(left_ms))
    }
}

impl SsdUse {
    fn begin(&mut self) {
        self.written_before_bytes = self.written_before_bytes.saturating_add(self.written_now_bytes);
        self.written_now_bytes = 0;
    }

    fn count(&mut self, counted_bytes: u64) {
        if counted_bytes < self.written_now_bytes {
            self.begin();
        }
        self.written_now_bytes = counted_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_MS: u64 = 24 * 3600 * 1000;

    // proves: P10
    #[test]
    fn what_is_written_adds_up_over_starts_and_reopenings() {
        let mut ledger = Ledger::default();
        ledger.count("a", 100, 1);
        ledger.count("a", 150, 2);
        assert_eq!(ledger.written_bytes("a", 150), 150);
        assert_eq!(ledger.written_bytes("a", 170), 170, "the ledger has not heard of the last of it");
        ledger.begin();
        ledger.count("a", 200, 3);
        assert_eq!(ledger.written_bytes("a", 200), 350, "more than before the restart, and counted anew all the same");
        assert_eq!(ledger.written_bytes("a", 0), 350, "its pool is not open");
        ledger.count("a", 10, 4);
        assert_eq!(ledger.written_bytes("a", 10), 360, "its pool was opened anew");
        assert_eq!((ledger.written_bytes("b", 0), ledger.written_bytes("b", 7)), (0, 7));
    }

    // proves: P10
    #[test]
    fn the_forecast_goes_on_at_the_pace_seen() {
        let mut ledger = Ledger::default();
        ledger.wear("a", 10, DAY_MS);
        assert_eq!(ledger.worn_out_at_unix_ms("a", DAY_MS), None, "no pace yet");
        ledger.wear("a", 10, 5 * DAY_MS);
        ledger.wear("a", 11, 11 * DAY_MS);
        ledger.wear("a", 12, 21 * DAY_MS);
        // Two percent in twenty days: the other 88 take 880.
        assert_eq!(ledger.worn_out_at_unix_ms("a", 21 * DAY_MS), Some(901 * DAY_MS));
        ledger.wear("a", 101, 22 * DAY_MS);
        assert_eq!(ledger.worn_out_at_unix_ms("a", 99 * DAY_MS), Some(22 * DAY_MS), "it is so already");
        ledger.wear("a", 0, 23 * DAY_MS);
        assert_eq!(ledger.worn_out_at_unix_ms("a", 23 * DAY_MS), None, "another drive");
    }

    #[test]
    fn the_forecast_stands_until_the_next_percent_is_overdue_and_then_moves_away() {
        let mut ledger = Ledger::default();
        ledger.wear("a", 10, 0);
        ledger.wear("a", 11, DAY_MS);
        ledger.wear("a", 12, 2 * DAY_MS);
        let day = |day: u64| ledger.worn_out_at_unix_ms("a", day * DAY_MS).map(|at| at / DAY_MS);
        assert_eq!([day(2), day(3)], [Some(90), Some(90)], "a percent takes a day");
        // One day overdue: two percent in three days.
        assert_eq!(day(4), Some(3 + 3 * 88 / 2));
        // A year of quiet: two percent in it.
        assert_eq!(day(367), Some(366 + 366 * 88 / 2));
        assert_eq!(day(10_000), None, "more than a hundred years");
        ledger.wear("a", 99, 1000 * DAY_MS);
        let end = ledger.worn_out_at_unix_ms("a", 1400 * DAY_MS).unwrap();
        assert!(end > 1400 * DAY_MS, "the last percent is overdue, and not there");
    }

    #[test]
    fn a_pace_of_minutes_makes_no_forecast_and_memory_is_bounded() {
        let mut ledger = Ledger::default();
        for minute in 0..100 {
            ledger.wear("a", u16::try_from(minute).unwrap(), minute * 60_000);
        }
        assert_eq!(ledger.ssds["a"].wear.len(), STEPS_MAX);
        assert_eq!(ledger.worn_out_at_unix_ms("a", 100 * 60_000), None);
        for number in 0..SSDS_MAX + 10 {
            ledger.count(&format!("{number}"), 1, u64::try_from(number).unwrap() + 1);
        }
        assert_eq!(ledger.ssds.len(), SSDS_MAX);
        assert!(!ledger.ssds.contains_key("0") && ledger.ssds.contains_key("1033"));
    }
}
