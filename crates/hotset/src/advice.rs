//! What advice says of a size of the cache, whether a volume was watched or a trace was recorded.

use hotset_api::{ApiError, ApiErrorKind};
use hotset_cache::advisor::access::Accesses;
use hotset_cache::advisor::curve::{Curve, Point};
use hotset_cache::advisor::figures::{number, ratio};
use hotset_cache::advisor::whatif::Case;

use crate::size::{human, percent, whole_bytes};

/// A doubling that brings less than this part of the reads does not pay.
pub(crate) const PAYS_MIN: f64 = 0.02;
const DAY_SECONDS: f64 = 86_400.0;
/// From a shorter time nothing is said of a day.
const SECONDS_MIN: f64 = 60.0;
const YEAR_DAYS: f64 = 365.25;

const NOTHING_HITS: &str = "No cache of any size would hit: what is read is read once, or in streams.";
/// Less than this part of the reads is shown as none.
const SHOWN_MIN: f64 = 0.0005;

/// Refuses a pool that there cannot be.
pub(crate) fn check_case(case: &Case) -> Result<(), ApiError> {
    let invalid = |message: String| ApiError::new(ApiErrorKind::Invalid, message);
    case.setup.check().map_err(|error| invalid(error.to_string()))?;
    let block_bytes = case.setup.block_bytes.get();
    if case.size_bytes < block_bytes {
        return Err(invalid(format!("size {}: it holds no block of {}", human(case.size_bytes), human(block_bytes))));
    }
    Ok(())
}

/// The size from which on more does not pay; `None`: no size does. Streams go past the cache whatever its size, so that a doubling has to
/// bring its part of the other reads.
pub(crate) fn knee(curve: &Curve, accesses: Accesses) -> Option<Point> {
    let counted = accesses.counted_reads();
    let least = PAYS_MIN * ratio(number(counted), accesses.reads);
    curve.knee(least).filter(|_| counted > 0)
}

/// Why no size is recommended, and what is known all the same. `largest` is a size and its hit ratio.
pub(crate) fn nothing_pays(accesses: Accesses, largest: Option<(u64, f64)>) -> String {
    if accesses.reads == 0 {
        return "Nothing was read in this time, and a size is recommended by what it hits of the reads.".to_owned();
    }
    if accesses.counted_reads() == 0 {
        return "All reads of this time were of streams, and those go past the cache.".to_owned();
    }
    match largest.filter(|(_, hit_ratio)| *hit_ratio >= SHOWN_MIN) {
        Some((bytes, hit_ratio)) => {
            format!("No size pays: the largest that was tried, {}, would hit {}.", human(bytes), percent(hit_ratio))
        }
        None => NOTHING_HITS.to_owned(),
    }
}

/// What SSDs of a size do for writes, and those of the largest one: each a size, and the part of the writes that it takes.
pub(crate) fn writes_taken(own: (u64, f64), largest: (u64, f64)) -> String {
    let ([own_bytes, largest_bytes], [own_taken, largest_taken]) = ([own.0, largest.0], [own.1, largest.1]);
    let bursts = "a larger cache takes longer bursts";
    if (largest_taken - own_taken).abs() < PAYS_MIN {
        return format!(" The SSDs take {} of the writes, whatever their size; {bursts}.", percent(own_taken));
    }
    let [own_size, largest_size] = [own_bytes, largest_bytes].map(human);
    let [own_taken, largest_taken] = [own_taken, largest_taken].map(percent);
    format!(" {own_size} takes {own_taken} of the writes, {largest_size} would take {largest_taken}; {bursts}.")
}

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

    fn curve(hits: &[(u64, f64)]) -> Curve {
        let point = |(blocks, hits): &(u64, f64)| Point { blocks: *blocks, misses: 1.0 - hits, error: 0.0 };
        Curve::new(hits.iter().map(point).collect())
    }

    // proves: A3
    #[test]
    fn a_doubling_has_to_bring_its_part_of_the_reads_that_are_not_of_streams() {
        let curve = curve(&[(100, 0.05), (200, 0.06), (400, 0.06)]);
        let size = |stream_reads| {
            let accesses = Accesses { reads: 10_000, stream_reads, writes: 90_000 };
            knee(&curve, accesses).map(|point| point.blocks)
        };
        assert_eq!(size(0), Some(100));
        assert_eq!(size(9000), Some(200), "a backup of nine reads in ten does not hide it");
        assert_eq!(size(10_000), None);
        assert_eq!(knee(&curve, Accesses::default()), None);
    }

    // proves: A3
    #[test]
    fn where_nothing_is_recommended_it_is_said_why() {
        let reads = Accesses { reads: 10, stream_reads: 1, writes: 3 };
        let told = |accesses, hit_ratio| nothing_pays(accesses, Some((1 << 30, hit_ratio)));
        assert_eq!(told(reads, 0.013), "No size pays: the largest that was tried, 1 GiB, would hit 1.3 %.");
        assert_eq!(
            (told(reads, 0.0004), nothing_pays(reads, None)),
            (NOTHING_HITS.to_owned(), NOTHING_HITS.to_owned())
        );
        assert!(
            told(Accesses { stream_reads: 10, ..reads }, 0.0).starts_with("All reads of this time were of streams")
        );
        assert!(told(Accesses { reads: 0, stream_reads: 0, ..reads }, 0.0).starts_with("Nothing was read"));
    }

    // proves: A3
    #[test]
    fn what_a_size_does_for_writes_is_said_in_words() {
        let told = writes_taken((1 << 30, 1.0), (4 << 30, 1.0));
        assert!(told.contains("take 100.0 % of the writes, whatever their size"), "{told}");
        let told = writes_taken((1 << 30, 0.25), (4 << 30, 0.5));
        assert!(told.contains("1 GiB takes 25.0 % of the writes, 4 GiB would take 50.0 %"), "{told}");
    }

    // proves: A3
    #[test]
    fn from_less_than_a_minute_nothing_is_said_of_a_day() {
        assert_eq!(per_day(1000.0, 59.9), None);
        assert_eq!(per_day(1000.0, 86_400.0), Some(1000.0));
    }
}
