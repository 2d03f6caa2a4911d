//! Sums of what caches of many sizes would have missed, at one moment: what was missed in some time is the difference between two.

use std::time::Duration;

use crate::format::Corrupt;
use crate::format::codec::{Reader, Writer};

use super::access::Accesses;
use super::curve::{Curve, Point};
use super::figures::{count_of, ratio, weight};
use super::sample::{GROUPS, Rate, deviation};

/// Sizes at most: two for each doubling up to the largest volume, and the sizes that it had before it grew.
pub(super) const SIZES_MAX: u32 = 256;

/// Of what is kept: other versions are not read.
pub(crate) const VERSION: u32 = 2;

/// A cache of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeTally {
    pub blocks: u64,
    /// The part of all blocks that is watched of it.
    pub rate: Rate,
    pub reads_missed: f64,
    /// The same by group of blocks: that tells how far it may be off.
    pub reads_missed_by_group: [f64; GROUPS],
    /// Those that SSDs did not take.
    pub writes_missed: f64,
    /// To all SSDs together; 0 where nobody knows.
    pub ssd_written_bytes: f64,
}

/// Everything that was summed up until some moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Tallies {
    /// Seconds since 1970: since when blocks are watched, and since when with this setup of the pool.
    pub began: u64,
    pub pool_began: u64,
    /// How long it was watched with this setup: without the time in which the daemon did not run or the volume was not open.
    pub pool_watched: Duration,
    pub accesses: Accesses,
    pub pool_accesses: Accesses,
    /// LRU that takes everything.
    pub lru: Vec<SizeTally>,
    /// A pool.
    pub pool: Vec<SizeTally>,
}

impl Tallies {
    /// What came after `before`, as far as that is of the same watch.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let same_watch = self.began == before.began;
        let same_pool = same_watch && self.pool_began == before.pool_began;
        let less = |sizes: &[SizeTally], old: &[SizeTally]| sizes.iter().map(|size| size.since(old)).collect();
        let mut since = self.clone();
        if same_watch {
            since.accesses = self.accesses.since(before.accesses);
            since.lru = less(&self.lru, &before.lru);
        }
        if same_pool {
            since.pool_watched = self.pool_watched.saturating_sub(before.pool_watched);
            since.pool_accesses = self.pool_accesses.since(before.pool_accesses);
            since.pool = less(&self.pool, &before.pool);
        }
        since
    }

    /// Reads that a pool misses, by size; no sizes, if nothing was read.
    pub fn pool_curve(&self) -> Curve {
        read_curve(self.pool.iter().copied(), self.pool_accesses)
    }

    pub fn lru_curve(&self) -> Curve {
        read_curve(self.lru.iter().copied(), self.accesses)
    }

    /// The part of all writes that a pool of so many blocks would have taken: 0 to 1, and `None` if nothing was written.
    pub fn pool_writes_taken(&self, blocks: u64) -> Option<f64> {
        let writes = Some(self.pool_accesses.writes).filter(|writes| *writes > 0)?;
        self.nearest(blocks).map(|size| 1.0 - ratio(size.writes_missed, writes))
    }

    /// Bytes that a pool of so many blocks would have written to its SSDs.
    pub fn ssd_written_bytes(&self, blocks: u64) -> Option<f64> {
        self.nearest(blocks).map(|size| size.ssd_written_bytes)
    }

    /// Of the sizes that were tried, the nearest.
    fn nearest(&self, blocks: u64) -> Option<&SizeTally> {
        self.pool.iter().min_by_key(|size| size.blocks.abs_diff(blocks))
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        to.u32(VERSION).u64(self.began).u64(self.pool_began);
        write_duration(&mut to, self.pool_watched);
        self.accesses.encode(&mut to);
        self.pool_accesses.encode(&mut to);
        for sizes in [&self.lru, &self.pool] {
            to.u32(count_of(sizes.len()));
            sizes.iter().for_each(|size| size.encode(&mut to));
        }
        to.into_bytes()
    }

    /// # Errors
    /// The bytes are of another version, or make no sense.
    pub fn decode(bytes: &[u8]) -> Result<Self, Corrupt> {
        let mut from = Reader::new(bytes, "sums of the advisor");
        let version = from.u32()?;
        from.require(version == VERSION, "they are of another version")?;
        let (began, pool_began) = (from.u64()?, from.u64()?);
        let pool_watched = read_duration(&mut from)?;
        let (accesses, pool_accesses) = (Accesses::decode(&mut from)?, Accesses::decode(&mut from)?);
        let (lru, pool) = (sizes(&mut from)?, sizes(&mut from)?);
        from.end()?;
        Ok(Self { began, pool_began, pool_watched, accesses, pool_accesses, lru, pool })
    }
}

/// To the millisecond.
pub(super) fn write_duration(to: &mut Writer, duration: Duration) {
    to.u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX));
}

pub(super) fn read_duration(from: &mut Reader<'_>) -> Result<Duration, Corrupt> {
    Ok(Duration::from_millis(from.u64()?))
}

fn sizes(from: &mut Reader<'_>) -> Result<Vec<SizeTally>, Corrupt> {
    let count = from.u32()?;
    from.require(count <= SIZES_MAX, "there are too many sizes")?;
    (0..count).map(|_| SizeTally::decode(from)).collect()
}

impl SizeTally {
    /// How far the ratio of the reads that miss may be off: two standard deviations.
    pub(super) fn read_error(&self, accesses: Accesses) -> f64 {
        ratio(deviation(self.reads_missed_by_group, self.rate), accesses.reads)
    }

    fn encode(&self, to: &mut Writer) {
        to.u64(self.blocks).u64(self.rate.bits());
        let Self { reads_missed, reads_missed_by_group, writes_missed, ssd_written_bytes, .. } = self;
        for sum in reads_missed_by_group.iter().chain([reads_missed, writes_missed, ssd_written_bytes]) {
            to.u64(sum.to_bits());
        }
    }

    fn decode(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let blocks = from.counter()?;
        let rate = Rate::of_bits(from.u64()?).ok_or_else(|| from.corrupt("a rate is not one"))?;
        let mut reads_missed_by_group = [0.0; GROUPS];
        for sum in &mut reads_missed_by_group {
            *sum = weight(from)?;
        }
        let [reads_missed, writes_missed, ssd_written_bytes] = [weight(from)?, weight(from)?, weight(from)?];
        Ok(Self { blocks, rate, reads_missed, reads_missed_by_group, writes_missed, ssd_written_bytes })
    }

    /// Less what was summed up before. A size that was begun later did until then what the largest one before it did, and had its sums.
    fn since(&self, old: &[Self]) -> Self {
        let place = old.partition_point(|size| size.blocks <= self.blocks);
        let Some(before) = old.get(place.saturating_sub(1)) else { return *self };
        let less = |now: f64, before: f64| (now - before).max(0.0);
        let group = |group| less(self.reads_missed_by_group[group], before.reads_missed_by_group[group]);
        Self {
            reads_missed: less(self.reads_missed, before.reads_missed),
            reads_missed_by_group: std::array::from_fn(group),
            writes_missed: less(self.writes_missed, before.writes_missed),
            ssd_written_bytes: less(self.ssd_written_bytes, before.ssd_written_bytes),
            ..*self
        }
    }
}

/// Reads that miss, by size; no sizes, if nothing was read: then nothing was missed, and nothing hit either.
pub(super) fn read_curve(sizes: impl Iterator<Item = SizeTally>, accesses: Accesses) -> Curve {
    if accesses.reads == 0 {
        return Curve::default();
    }
    let point = |size: SizeTally| Point {
        blocks: size.blocks,
        misses: ratio(size.reads_missed, accesses.reads),
        error: size.read_error(accesses),
    };
    Curve::new(sizes.map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All groups miss the same.
    fn size(blocks: u64, reads_missed: f64) -> SizeTally {
        let reads_missed_by_group = [reads_missed / 8.0; GROUPS];
        let rate = Rate::of(1, 2);
        SizeTally { blocks, rate, reads_missed, reads_missed_by_group, writes_missed: 1.0, ssd_written_bytes: 4096.0 }
    }

    fn tallies(reads: u64, sizes: &[SizeTally]) -> Tallies {
        let accesses = Accesses { reads, stream_reads: reads / 2, writes: 10 };
        let pool_watched = Duration::from_millis(reads * 1000 + 1);
        let (lru, pool) = (sizes.to_vec(), sizes.to_vec());
        Tallies { began: 1, pool_began: 2, pool_watched, accesses, pool_accesses: accesses, lru, pool }
    }

    // proves: A1
    #[test]
    fn what_was_missed_in_a_time_is_the_difference_of_two_sums() {
        let before = tallies(1000, &[size(10, 900.0), size(20, 800.0)]);
        let now = tallies(2000, &[size(10, 1900.0), size(20, 1000.0), size(40, 900.0)]);
        let since = now.since(&before);
        assert_eq!((since.accesses.reads, since.accesses.stream_reads), (1000, 500));
        assert_eq!(since.pool_watched, Duration::from_secs(1000));
        let misses = |blocks| since.pool_curve().at(blocks).unwrap().misses;
        let expected = [(10, 1.0), (20, 0.2), (40, 0.1)];
        let same = |(blocks, expected): (u64, f64)| (misses(blocks) - expected).abs() < 1e-9;
        assert!(expected.into_iter().all(same), "the largest one went on with the sums of its elder");
        let other = Tallies { pool_began: 9, ..now.clone() };
        assert_eq!(other.since(&before).pool, other.pool, "another setup has begun anew");
        assert_eq!(other.since(&before).lru, since.lru);
        assert_eq!(Tallies { began: 9, ..now.clone() }.since(&before).lru, now.lru);
    }

    // proves: A1
    #[test]
    fn how_far_a_time_may_be_off_is_of_its_own_misses() {
        let [mut before, mut now] = [tallies(1000, &[size(10, 800.0)]), tallies(2000, &[size(10, 1600.0)])];
        let groups = |few: f64, many: f64| std::array::from_fn(|group| if group % 2 == 0 { few } else { many });
        before.pool[0].reads_missed_by_group = groups(90.0, 110.0);
        now.pool[0].reads_missed_by_group = groups(110.0, 290.0);
        let error = |tallies: &Tallies| tallies.pool_curve().at(10).unwrap().error;
        // Groups are 180 apart, of 2000 reads; and 160 in this time, of 1000.
        let (of_all, of_this_time) = (error(&now), error(&now.since(&before)));
        assert!((of_this_time / of_all - 320.0 / 180.0).abs() < 1e-9, "{of_all} and {of_this_time}");
    }

    // proves: A1
    #[test]
    fn what_was_never_asked_for_has_no_curve() {
        let written = tallies(0, &[size(10, 0.0), size(20, 0.0)]);
        assert_eq!((written.pool_curve(), written.lru_curve().at(10)), (Curve::default(), None));
        assert_eq!(written.pool_writes_taken(20), Some(0.9));
        let read = Tallies { pool_accesses: Accesses { writes: 0, ..written.accesses }, ..written };
        assert_eq!(read.pool_writes_taken(20), None);
    }

    #[test]
    fn sums_are_read_back_as_they_were_written_and_cut_ones_are_refused() {
        let tallies = tallies(1000, &[size(10, 900.5), size(20, 800.25)]);
        let bytes = tallies.encode();
        assert_eq!(Tallies::decode(&bytes), Ok(tallies));
        assert!((0..bytes.len()).all(|length| Tallies::decode(&bytes[..length]).is_err()));
    }
}
