//! What advice says of a size of the cache, whether a volume was watched or a trace was recorded.

use hotset_cache::advisor::figures::number;

use crate::size::{human, percent, whole_bytes};

/// A doubling that brings less than this part of all accesses does not pay.
pub(crate) const PAYS_MIN: f64 = 0.02;
const DAY_SECONDS: f64 = 86_400.0;
/// From a shorter time nothing is said of a day.
const SECONDS_MIN: f64 = 60.0;
const YEAR_DAYS: f64 = 365.25;

pub(crate) const NOTHING_HITS: &str =
    "No cache of any size would hit: what is accessed is accessed once, or in streams.";

/// Where a pool serves reads alone.
pub(crate) const NOTHING_READ: &str =
    "Nothing was read in this time, and a read pool answers reads alone: there is nothing to tell.";

/// Sizes that are tried if none is given: each twice the one before, the last one as large as all that is accessed.
const DEFAULT_SIZES: u32 = 8;
const DEFAULT_SIZE_MIN: u64 = 2 << 20;

/// Each of them holds a block of `block_bytes_max`.
pub(crate) fn default_sizes(footprint_bytes: u64, block_bytes_max: u64) -> Vec<u64> {
    let least = DEFAULT_SIZE_MIN.max(block_bytes_max) << (DEFAULT_SIZES - 1);
    let largest = footprint_bytes.max(least).next_power_of_two();
    (0..DEFAULT_SIZES).rev().map(|halvings| largest >> halvings).collect()
}

/// What is written in a day, by what was in some seconds; `None`: those are too few.
pub(crate) fn per_day(bytes: f64, seconds: f64) -> Option<f64> {
    (seconds >= SECONDS_MIN).then(|| bytes / seconds * DAY_SECONDS)
}

/// How long SSDs last that take `endurance_bytes`, if it is known what is written to them in a day.
pub(crate) fn years(endurance_bytes: Option<u64>, per_day: Option<f64>) -> Option<f64> {
    let days = endurance_bytes.zip(per_day).filter(|(_, per_day)| *per_day > 0.0);
    days.map(|(endurance, per_day)| number(endurance) / per_day / YEAR_DAYS)
}

/// The end of a recommendation: what more than it would bring, and what it writes. `largest` is a size and its hit ratio.
pub(crate) fn beyond(
    (size_bytes, hit_ratio): (u64, f64),
    largest: Option<(u64, f64)>,
    per_day: Option<f64>,
    years: Option<f64>,
) -> String {
    let mut text = String::new();
    if let Some((best_bytes, best)) = largest.filter(|(best_bytes, _)| *best_bytes > size_bytes) {
        let more = (best - hit_ratio).max(0.0);
        text.push_str(&format!(" More stops paying there: {} would bring {} more.", human(best_bytes), percent(more)));
    }
    if let Some(bytes) = per_day {
        text.push_str(&format!(" It writes {} a day to the SSDs", human(whole_bytes(bytes))));
        text.push_str(&years.map_or_else(|| ".".to_owned(), |years| format!(", which last {years:.1} years at that.")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    // proves: A4
    #[test]
    fn sizes_that_are_tried_double_up_to_all_that_is_accessed_and_hold_a_block() {
        let sizes = default_sizes(3 << 30, 1 << 20);
        assert_eq!((sizes.len(), sizes.first(), sizes.last()), (8, Some(&(32 << 20)), Some(&(4 << 30))));
        assert_eq!(default_sizes(5, 1 << 20).first(), Some(&(2 << 20)));
        assert_eq!(default_sizes(5, 4 << 20).first(), Some(&(4 << 20)));
    }

    // proves: A3
    #[test]
    fn from_less_than_a_minute_nothing_is_said_of_a_day() {
        assert_eq!(per_day(1000.0, 59.9), None);
        assert_eq!(per_day(1000.0, 86_400.0), Some(1000.0));
    }
}
