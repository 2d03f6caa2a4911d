//! What a load asks for: which requests, where, how many at once, for how long.

use std::io;
use std::time::Duration;

use hotset_block::ByteRange;

use super::random::Random;

/// In which order requests go through the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Uniformly at random.
    Random,
    /// One after the other, from the start again when the end is reached.
    Sequential,
}

/// When a load ends. Requests in flight then are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Duration(Duration),
    Requests(u64),
}

/// See the file's summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// 0 to 100; the others are writes.
    pub read_percent: u8,
    pub request_bytes: u32,
    /// Requests in flight.
    pub depth: usize,
    /// Requests start at multiples of `request_bytes` from its start.
    pub range: ByteRange,
    pub pattern: Pattern,
    pub limit: Limit,
    /// The same seed asks for the same requests in the same order.
    pub seed: u64,
}

impl Workload {
    /// The most requests in flight, by which memory is bounded.
    pub const DEPTH_MAX: usize = 4096;
    /// The longest request: what servers take at least (the protocol's "Block size constraints").
    pub const REQUEST_BYTES_MAX: u32 = 32 << 20;

    pub(super) fn check(&self, size_bytes: u64) -> io::Result<()> {
        let per_request = u64::from(self.request_bytes);
        let wrong = if self.read_percent > 100 {
            "the read percentage is 0 to 100"
        } else if self.request_bytes == 0 || self.request_bytes > Self::REQUEST_BYTES_MAX {
            "a request has 1 byte to 32 MiB"
        } else if self.depth == 0 || self.depth > Self::DEPTH_MAX {
            "the depth is 1 to 4096"
        } else if self.range.end > size_bytes {
            "the range ends past the end of the export"
        } else if self.range.length() < per_request {
            "the range is shorter than one request"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
    }
}

/// One request to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    pub(super) offset: u64,
    pub(super) read: bool,
}

/// Draws the requests of a workload, in order.
pub(super) struct Generator {
    workload: Workload,
    random: Random,
    positions: u64,
    next_position: u64,
    drawn: u64,
}

impl Generator {
    pub(super) fn new(workload: Workload) -> Self {
        let positions = workload.range.length() / u64::from(workload.request_bytes);
        Self { workload, random: Random::new(workload.seed), positions, next_position: 0, drawn: 0 }
    }

    /// The next request; `None` when the workload's count is reached.
    pub(super) fn draw(&mut self) -> Option<Draw> {
        if let Limit::Requests(count) = self.workload.limit
            && self.drawn == count
        {
            return None;
        }
        self.drawn += 1;
        let position = match self.workload.pattern {
            Pattern::Random => self.below(self.positions),
            Pattern::Sequential => {
                let position = self.next_position;
                self.next_position = (position + 1) % self.positions;
                position
            }
        };
        let read = match self.workload.read_percent {
            0 => false,
            100.. => true,
            percent => self.below(100) < u64::from(percent),
        };
        let offset = self.workload.range.start + position * u64::from(self.workload.request_bytes);
        Some(Draw { offset, read })
    }

    /// A number from 0 to `bound - 1`, uniform but for one part in 2^64 / `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.random.next()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the upper half of a product of two 64-bit numbers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKLOAD: Workload = Workload {
        read_percent: 67,
        request_bytes: 8192,
        depth: 1,
        range: ByteRange { start: 4096, end: 4096 + 100 * 8192 + 5 },
        pattern: Pattern::Random,
        limit: Limit::Requests(10_000),
        seed: 3,
    };

    fn drawn(workload: Workload) -> Vec<Draw> {
        let mut generator = Generator::new(workload);
        std::iter::from_fn(|| generator.draw()).collect()
    }

    #[test]
    fn requests_stay_inside_the_range_and_reach_all_of_it() {
        let draws = drawn(WORKLOAD);
        assert_eq!(draws.len(), 10_000);
        let mut offsets: Vec<u64> = draws.iter().map(|draw| draw.offset).collect();
        offsets.sort_unstable();
        offsets.dedup();
        assert_eq!(offsets, (0..100).map(|position| 4096 + position * 8192).collect::<Vec<_>>());
    }

    #[test]
    fn the_mix_is_as_asked_and_the_same_for_the_same_seed() {
        let reads = drawn(WORKLOAD).iter().filter(|draw| draw.read).count();
        assert!((6500..6900).contains(&reads), "{reads} of 10000");
        assert_eq!(drawn(WORKLOAD), drawn(WORKLOAD));
        assert_ne!(drawn(WORKLOAD), drawn(Workload { seed: 4, ..WORKLOAD }));
        assert!(drawn(Workload { read_percent: 100, ..WORKLOAD }).iter().all(|draw| draw.read));
        assert!(!drawn(Workload { read_percent: 0, ..WORKLOAD }).iter().any(|draw| draw.read));
    }

    #[test]
    fn a_sequential_load_goes_round() {
        let draws = drawn(Workload { pattern: Pattern::Sequential, limit: Limit::Requests(101), ..WORKLOAD });
        assert_eq!(draws[1].offset, 4096 + 8192);
        assert_eq!(draws[100].offset, 4096);
    }

    #[test]
    fn a_load_that_cannot_work_is_refused_with_the_reason() {
        let size = 1 << 20;
        assert!(WORKLOAD.check(size).is_ok());
        let bad = [
            Workload { read_percent: 101, ..WORKLOAD },
            Workload { request_bytes: 0, ..WORKLOAD },
            Workload { depth: 0, ..WORKLOAD },
            Workload { range: ByteRange::at(0, 2 << 20), ..WORKLOAD },
            Workload { range: ByteRange::at(0, 8191), ..WORKLOAD },
        ];
        for workload in bad {
            assert_eq!(
                workload.check(size).expect_err("it is one of the bad ones").kind(),
                io::ErrorKind::InvalidInput,
                "{workload:?}"
            );
        }
    }
}
