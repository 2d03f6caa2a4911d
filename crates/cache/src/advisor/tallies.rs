//! Sums of what caches of many sizes would have missed, at one moment: what was missed in some time is the difference between two.

use crate::format::Corrupt;
use crate::format::codec::{Reader, Writer};

use super::access::{Accesses, Direction};
use super::curve::{Curve, Point};
use super::figures::ratio;
use super::reuse::{count_of, weight};

/// Of what is kept: other versions are not read.
const VERSION: u32 = 1;
/// Sizes of a curve at most.
const SIZES_MAX: u32 = 256;

/// A cache of one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizeTally {
    pub blocks: u64,
    pub reads_missed: f64,
    pub writes_missed: f64,
    /// To all SSDs together; 0 where nobody knows.
    pub ssd_written_bytes: f64,
    /// How far the ratio of misses may be off: two standard deviations; and of reads alone.
    pub error: f64,
    pub read_error: f64,
}

/// Everything that was summed up until some moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Tallies {
    /// Seconds since 1970: since when blocks are watched, and since when with this setup of the pool.
    pub began: u64,
    pub pool_began: u64,
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
            since.pool_accesses = self.pool_accesses.since(before.pool_accesses);
            since.pool = less(&self.pool, &before.pool);
        }
        since
    }

    /// Misses by size of a pool, of what was asked for in one direction, or in both; no sizes, if nothing was.
    pub fn pool_curve(&self, direction: Option<Direction>) -> Curve {
        curve(&self.pool, self.pool_accesses, direction)
    }

    pub fn lru_curve(&self, direction: Option<Direction>) -> Curve {
        curve(&self.lru, self.accesses, direction)
    }

    /// Bytes that a pool of so many blocks would have written to its SSDs: those of the nearest size that was tried.
    pub fn ssd_written_bytes(&self, blocks: u64) -> Option<f64> {
        let nearest = self.pool.iter().min_by_key(|size| size.blocks.abs_diff(blocks));
        nearest.map(|size| size.ssd_written_bytes)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        to.u32(VERSION).u64(self.began).u64(self.pool_began);
        for accesses in [self.accesses, self.pool_accesses] {
            to.u64(accesses.reads).u64(accesses.writes);
        }
        for sizes in [&self.lru, &self.pool] {
            to.u32(count_of(sizes.len()));
            for size in sizes {
                to.u64(size.blocks);
                for value in size.values() {
                    to.u64(value.to_bits());
                }
            }
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
        let mut accesses =
            || -> Result<Accesses, Corrupt> { Ok(Accesses { reads: from.counter()?, writes: from.counter()? }) };
        let (accesses, pool_accesses) = (accesses()?, accesses()?);
        let (lru, pool) = (sizes(&mut from)?, sizes(&mut from)?);
        from.end()?;
        Ok(Self { began, pool_began, accesses, pool_accesses, lru, pool })
    }
}

fn sizes(from: &mut Reader<'_>) -> Result<Vec<SizeTally>, Corrupt> {
    let count = from.u32()?;
    from.require(count <= SIZES_MAX, "there are too many sizes")?;
    (0..count)
        .map(|_| {
            Ok(SizeTally {
                blocks: from.counter()?,
                reads_missed: weight(from)?,
                writes_missed: weight(from)?,
                ssd_written_bytes: weight(from)?,
                error: weight(from)?,
                read_error: weight(from)?,
            })
        })
        .collect()
}

impl SizeTally {
    fn values(&self) -> [f64; 5] {
        [self.reads_missed, self.writes_missed, self.ssd_written_bytes, self.error, self.read_error]
    }

    /// Less what was summed up before. A size that was begun later did until then what the largest one before it did, and had its sums.
    fn since(&self, old: &[Self]) -> Self {
        let place = old.partition_point(|size| size.blocks <= self.blocks);
        let Some(before) = old.get(place.saturating_sub(1)) else { return *self };
        let less = |now: f64, before: f64| (now - before).max(0.0);
        Self {
            reads_missed: less(self.reads_missed, before.reads_missed),
            writes_missed: less(self.writes_missed, before.writes_missed),
            ssd_written_bytes: less(self.ssd_written_bytes, before.ssd_written_bytes),
            ..*self
        }
    }
}

fn curve(sizes: &[SizeTally], accesses: Accesses, direction: Option<Direction>) -> Curve {
    let whole = match direction {
        Some(Direction::Read) => accesses.reads,
        Some(Direction::Write) => accesses.writes,
        None => accesses.all(),
    };
    if whole == 0 {
        // Nothing was missed, and nothing hit either.
        return Curve::default();
    }
    let point = |size: &SizeTally| {
        let (missed, error) = match direction {
            Some(Direction::Read) => (size.reads_missed, size.read_error),
            Some(Direction::Write) => (size.writes_missed, size.error),
            None => (size.reads_missed + size.writes_missed, size.error),
        };
        Point { blocks: size.blocks, misses: ratio(missed, whole), error }
    };
    Curve::new(sizes.iter().map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(blocks: u64, reads_missed: f64) -> SizeTally {
        SizeTally { blocks, reads_missed, writes_missed: 1.0, ssd_written_bytes: 4096.0, error: 0.01, read_error: 0.02 }
    }

    fn tallies(reads: u64, sizes: &[SizeTally]) -> Tallies {
        let accesses = Accesses { reads, writes: 10 };
        let (lru, pool) = (sizes.to_vec(), sizes.to_vec());
        Tallies { began: 1, pool_began: 2, accesses, pool_accesses: accesses, lru, pool }
    }

    // proves: A1
    #[test]
    fn what_was_missed_in_a_time_is_the_difference_of_two_sums() {
        let before = tallies(1000, &[size(10, 900.0), size(20, 800.0)]);
        let now = tallies(2000, &[size(10, 1900.0), size(20, 1000.0), size(40, 900.0)]);
        let since = now.since(&before);
        assert_eq!(since.accesses.reads, 1000);
        let misses = |blocks| since.pool_curve(Some(Direction::Read)).at(blocks).unwrap().misses;
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
    fn what_was_never_asked_for_has_no_curve() {
        let written = tallies(0, &[size(10, 0.0), size(20, 0.0)]);
        assert_eq!(written.pool_curve(Some(Direction::Read)), Curve::default());
        assert_eq!(written.lru_curve(Some(Direction::Read)).at(10), None);
        assert_eq!(written.pool_curve(None).points().len(), 2);
    }

    #[test]
    fn sums_are_read_back_as_they_were_written_and_cut_ones_are_refused() {
        let tallies = tallies(1000, &[size(10, 900.5), size(20, 800.25)]);
        let bytes = tallies.encode();
        assert_eq!(Tallies::decode(&bytes), Ok(tallies));
        assert!((0..bytes.len()).all(|length| Tallies::decode(&bytes[..length]).is_err()));
    }
}
