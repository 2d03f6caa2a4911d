//! What advice says of a size of the cache, whether a volume was watched or a trace was recorded.

use hotset_cache::advisor::figures::number;

use crate::size::{human, percent, whole_bytes};

/// A doubling that brings less than this part of all accesses does not pay.
pub(crate) const PAYS_MIN: f64 = 0.02;
const DAY_SECONDS: f64 = 86_400.0;
const YEAR_DAYS: f64 = 365.25;

pub(crate) const NOTHING_HITS: &str =
    "No cache of any size would hit: what is accessed is accessed once, or in streams.";

/// What is written in a day, by what was in some seconds.
pub(crate) fn per_day(bytes: f64, seconds: f64) -> f64 {
    bytes / seconds * DAY_SECONDS
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
