//! What is kept of an interval of time: sums, so that longer intervals are made by adding shorter ones.

use hotset_api::{HistoryPoint, LatencyPercentiles, SubjectKind};
use hotset_cache::{LATENCY_CLASSES, class_end_ns};

use crate::daemon::volume_counters::{HistoryPlace, VOLUME_COUNTERS};

/// A value of a bucket. The numbers are the format of the history file: never changed, only added to. Those of a volume's counters are in
/// the table of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field(usize);

impl Field {
    pub(super) const CACHE_USED_BYTES: Self = Self(0);
    pub(super) const WRITE_CACHE_USED_BYTES: Self = Self(1);
    pub(super) const DIRTY_BYTES: Self = Self(2);
    pub(super) const SSD_READS: Self = Self(12);
    pub(super) const SSD_READ_BYTES: Self = Self(13);
    pub(super) const SSD_WRITES: Self = Self(14);
    pub(super) const SSD_WRITTEN_BYTES: Self = Self(15);
    pub(super) const BACKING_READS: Self = Self(16);
    pub(super) const BACKING_READ_BYTES: Self = Self(17);
    pub(super) const BACKING_WRITES: Self = Self(18);
    pub(super) const BACKING_WRITTEN_BYTES: Self = Self(19);

    /// Those that are not a volume's counter.
    const OTHERS: [Self; 11] = [
        Self::CACHE_USED_BYTES,
        Self::WRITE_CACHE_USED_BYTES,
        Self::DIRTY_BYTES,
        Self::SSD_READS,
        Self::SSD_READ_BYTES,
        Self::SSD_WRITES,
        Self::SSD_WRITTEN_BYTES,
        Self::BACKING_READS,
        Self::BACKING_READ_BYTES,
        Self::BACKING_WRITES,
        Self::BACKING_WRITTEN_BYTES,
    ];

    /// That of a counter that is kept.
    pub(super) fn of(kept: HistoryPlace) -> Self {
        Self(kept.place)
    }
}

macro_rules! counted {
    ($([$(
        $(#[$doc:meta])* $name:ident, $metric:literal, $help:literal, history($($place:literal $(, $rate:ident)?)?),
            $how:ident($($said:tt)*);
    )*])*) => {
        #[allow(dead_code, reason = "most are reached through the table of counters alone")]
        impl Field {
            $($($(pub(super) const fn $name() -> Self {
                Self($place)
            })?)*)*
        }
    };
}
hotset_counters::volume_counters!(counted);

/// As many as there are: the numbers have no gaps.
pub(super) const FIELDS: usize = {
    let (mut all, mut index) = (Field::OTHERS.len(), 0);
    while index < VOLUME_COUNTERS.len() {
        if VOLUME_COUNTERS[index].kept.is_some() {
            all += 1;
        }
        index += 1;
    }
    all
};

/// Counts of requests by class of latency; only classes that are not empty, in order.
pub(super) type Classes = Vec<(u16, u64)>;

/// Sums over the samples of an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Samples in it; gauges are divided by this.
    pub(super) samples: u64,
    /// Time between the samples; rates are divided by this.
    pub(super) covered_ms: u64,
    pub(super) values: [u64; FIELDS],
    pub(super) read_latency: Classes,
    pub(super) write_latency: Classes,
}

impl Bucket {
    pub(super) fn get(&self, field: Field) -> u64 {
        self.values[field.0]
    }

    pub(super) fn set(&mut self, field: Field, value: u64) {
        self.values[field.0] = value;
    }

    /// Samples of the same subject at other times.
    pub(super) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.covered_ms = self.covered_ms.saturating_add(other.covered_ms);
        self.add_values(other);
    }

    /// A part of the subject, at the same time.
    pub(super) fn add_values(&mut self, other: &Self) {
        for (sum, value) in self.values.iter_mut().zip(&other.values) {
            *sum = sum.saturating_add(*value);
        }
        add_classes(&mut self.read_latency, &other.read_latency);
        add_classes(&mut self.write_latency, &other.write_latency);
    }

    /// Numbers of seven bits a byte, the lowest first (LEB128): samples, time, the number of values and those, and both
    /// lists of classes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        for number in [self.samples, self.covered_ms, widened(FIELDS)] {
            put(&mut bytes, number);
        }
        for value in self.values {
            put(&mut bytes, value);
        }
        for classes in [&self.read_latency, &self.write_latency] {
            put(&mut bytes, widened(classes.len()));
            for (class, count) in classes {
                put(&mut bytes, u64::from(*class));
                put(&mut bytes, *count);
            }
        }
        bytes
    }

    /// `None` if the bytes are not what [`Bucket::encode`] makes. Values that this version does not know are skipped.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut bucket = Self { samples: take(&mut rest)?, covered_ms: take(&mut rest)?, ..Self::default() };
        let count = take(&mut rest)?;
        for index in 0..count {
            let value = take(&mut rest)?;
            if let Some(place) = usize::try_from(index).ok().filter(|place| *place < FIELDS) {
                bucket.values[place] = value;
            }
        }
        bucket.read_latency = take_classes(&mut rest)?;
        bucket.write_latency = take_classes(&mut rest)?;
        rest.is_empty().then_some(bucket)
    }

    /// As it is shown for a subject of `kind`.
    pub(super) fn point(&self, at_unix_seconds: u64, kind: SubjectKind) -> HistoryPoint {
        let gauge = |field| (self.samples > 0).then(|| ratio(self.get(field), self.samples));
        let rate = |field| (self.covered_ms > 0).then(|| ratio(self.get(field), self.covered_ms) * 1000.0);
        let base = HistoryPoint { at_unix_seconds, covered_seconds: self.covered_ms / 1000, ..Default::default() };
        let with_ssds = |point: HistoryPoint| HistoryPoint {
            ssd_reads_per_second: rate(Field::SSD_READS),
            ssd_writes_per_second: rate(Field::SSD_WRITES),
            ssd_read_bytes_per_second: rate(Field::SSD_READ_BYTES),
            ssd_written_bytes_per_second: rate(Field::SSD_WRITTEN_BYTES),
            cache_used_bytes: gauge(Field::CACHE_USED_BYTES),
            ..point
        };
        match kind {
            SubjectKind::Ssd => with_ssds(base),
            SubjectKind::Daemon | SubjectKind::Pool => with_ssds(self.of_hosts(base, &gauge, &rate)),
            SubjectKind::Volume => self.of_hosts(base, &gauge, &rate),
        }
    }

    fn of_hosts(
        &self,
        base: HistoryPoint,
        gauge: &impl Fn(Field) -> Option<f64>,
        rate: &impl Fn(Field) -> Option<f64>,
    ) -> HistoryPoint {
        let (requests, hits) = (self.get(Field::reads()), self.get(Field::read_hits()));
        let mut point = HistoryPoint {
            cache_used_bytes: gauge(Field::CACHE_USED_BYTES),
            write_cache_used_bytes: gauge(Field::WRITE_CACHE_USED_BYTES),
            dirty_bytes: gauge(Field::DIRTY_BYTES),
            requests: Some(requests),
            hits: Some(hits),
            misses: Some(requests.saturating_sub(hits)),
            hit_ratio: (requests > 0).then(|| ratio(hits, requests)),
            writes: Some(self.get(Field::writes())),
            write_hits: Some(self.get(Field::write_hits())),
            read_latency: percentiles(&self.read_latency),
            write_latency: percentiles(&self.write_latency),
            backing_reads_per_second: rate(Field::BACKING_READS),
            backing_writes_per_second: rate(Field::BACKING_WRITES),
            backing_read_bytes_per_second: rate(Field::BACKING_READ_BYTES),
            backing_written_bytes_per_second: rate(Field::BACKING_WRITTEN_BYTES),
            ..base
        };
        for kept in VOLUME_COUNTERS.iter().filter_map(|counter| counter.kept) {
            if let Some(series) = kept.rate {
                *series(&mut point) = rate(Field::of(kept));
            }
        }
        point
    }
}

pub(super) fn add_classes(sum: &mut Classes, other: &Classes) {
    for (class, count) in other {
        match sum.binary_search_by_key(class, |(known, _)| *known) {
            Ok(place) => sum[place].1 = sum[place].1.saturating_add(*count),
            Err(place) => sum.insert(place, (*class, *count)),
        }
    }
}

/// The ends of the classes in which the percentiles are; `None` without requests.
pub(super) fn percentiles(classes: &Classes) -> Option<LatencyPercentiles> {
    let total: u64 = classes.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return None;
    }
    let at = |percent: u64| {
        // Rounded up: of one request, each percentile is that one.
        let wanted = (u128::from(total) * u128::from(percent)).div_ceil(100);
        let mut passed = 0_u128;
        let class = classes.iter().find(|(_, count)| {
            passed += u128::from(*count);
            passed >= wanted
        });
        class.map_or(0.0, |(class, _)| ratio(class_end_ns(usize::from(*class)), 1000))
    };
    Some(LatencyPercentiles { p50_microseconds: at(50), p95_microseconds: at(95), p99_microseconds: at(99) })
}

#[allow(clippy::as_conversions, reason = "for people: the rounding of u64 to f64 does not matter")]
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn widened(length: usize) -> u64 {
    u64::try_from(length).expect("a length fits in 64 bits")
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7F).expect("seven bits") | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).expect("seven bits are left"));
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        let part = u64::from(byte & 0x7F);
        if part.leading_zeros() < shift {
            return None;
        }
        number |= part << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_classes(rest: &mut &[u8]) -> Option<Classes> {
    let count = usize::try_from(take(rest)?).ok().filter(|count| *count <= LATENCY_CLASSES)?;
    let mut classes = Classes::new();
    for _ in 0..count {
        let class = u16::try_from(take(rest)?).ok()?;
        let known = usize::from(class) < LATENCY_CLASSES;
        let grows = classes.last().is_none_or(|(last, _)| *last < class);
        if !known || !grows {
            return None;
        }
        classes.push((class, take(rest)?));
    }
    Some(classes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Bucket {
        let mut bucket = Bucket { samples: 1, covered_ms: 30_000, ..Default::default() };
        bucket.set(Field::CACHE_USED_BYTES, 1 << 40);
        bucket.set(Field::reads(), 3000);
        bucket.set(Field::read_hits(), 2400);
        bucket.read_latency = vec![(3, 90), (50, 9), (100, 1)];
        bucket
    }

    #[test]
    fn a_bucket_is_read_back_as_it_was_written_and_a_cut_one_is_refused() {
        let bytes = sample().encode();
        assert_eq!(Bucket::decode(&bytes), Some(sample()));
        for length in 0..bytes.len() {
            assert_eq!(Bucket::decode(&bytes[..length]), None, "cut after {length} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert_eq!(Bucket::decode(&longer), None);
        assert_eq!(Bucket::decode(&[0xFF; 64]), None);
    }

    #[test]
    fn every_value_has_a_place_of_its_own_and_no_place_is_without() {
        let kept = VOLUME_COUNTERS.iter().filter_map(|counter| counter.kept).map(Field::of);
        let mut places: Vec<usize> = kept.chain(Field::OTHERS).map(|field| field.0).collect();
        places.sort_unstable();
        assert_eq!(places, (0..FIELDS).collect::<Vec<_>>());
        // What history files of earlier versions have where.
        let fixed = [("reads", 3), ("read_hits", 4), ("read_bytes", 5), ("writes", 6), ("write_hits", 7)];
        let others = [("write_bytes", 8), ("populated_bytes", 9), ("evicted_blocks", 10), ("cleaned_bytes", 11)];
        for (name, place) in fixed.into_iter().chain(others) {
            let counter = VOLUME_COUNTERS.iter().find(|counter| counter.name == name).unwrap();
            assert_eq!(counter.kept.map(|kept| kept.place), Some(place), "{name}");
        }
    }

    // proves: S3
    #[test]
    fn every_counter_that_is_kept_is_shown_by_the_series_that_the_table_names() {
        let of = |bucket: &Bucket| bucket.point(60, SubjectKind::Volume);
        let empty = Bucket { samples: 1, covered_ms: 2000, ..Bucket::default() };
        for counter in VOLUME_COUNTERS {
            let Some(kept) = counter.kept else { continue };
            let mut bucket = empty.clone();
            bucket.set(Field::of(kept), 8);
            assert_ne!(of(&bucket), of(&empty), "{}: nothing shows it", counter.name);
            if let Some(series) = kept.rate {
                assert_eq!(*series(&mut of(&bucket)), Some(4.0), "{}", counter.name);
            }
        }
    }

    #[test]
    fn gauges_are_averaged_rates_are_over_time_and_hits_are_of_requests() {
        let mut bucket = sample();
        let mut later = sample();
        later.set(Field::CACHE_USED_BYTES, 3 << 40);
        later.set(Field::read_hits(), 600);
        bucket.add(&later);
        let point = bucket.point(60, SubjectKind::Volume);
        assert_eq!(point.cache_used_bytes, Some(f64::from(1 << 20) * f64::from(1 << 21)));
        assert_eq!((point.requests, point.hits, point.misses), (Some(6000), Some(3000), Some(3000)));
        assert_eq!((point.hit_ratio, point.reads_per_second, point.covered_seconds), (Some(0.5), Some(100.0), 60));
        assert_eq!(point.ssd_reads_per_second, None, "a volume has no SSD of its own");
        assert_eq!(Bucket::default().point(0, SubjectKind::Volume).hit_ratio, None);
    }

    #[test]
    fn percentiles_are_the_ends_of_their_classes() {
        let found = percentiles(&sample().read_latency).unwrap();
        let end = |class| ratio(class_end_ns(class), 1000);
        assert_eq!(found.p50_microseconds, end(3));
        assert_eq!((found.p95_microseconds, found.p99_microseconds), (end(50), end(50)));
        assert_eq!(percentiles(&vec![(7, 1)]).unwrap().p50_microseconds, end(7));
        assert_eq!(percentiles(&Classes::new()), None);
    }
}
