//! Long operations in pieces: so short that a device which works ends one every few seconds, and as long as it allows.

use std::time::Duration;

use hotset_block::ByteRange;

/// The shortest piece, and where pieces end.
const BYTES_MIN: u64 = 4 << 20;
/// The first one: a device of 1 MB/s ends it within half a minute.
const BYTES_AT_FIRST: u64 = 16 << 20;
const BYTES_MAX: u64 = 1 << 30;
/// A piece that took less may be longer.
const SHORT: Duration = Duration::from_millis(250);
/// A piece that took more has to be shorter.
const LONG: Duration = Duration::from_secs(1);

/// What is left of a range.
#[derive(Debug)]
pub(crate) struct Pieces {
    left: ByteRange,
    bytes: u64,
}

impl Pieces {
    pub(crate) fn of(range: ByteRange) -> Self {
        Self { left: range, bytes: BYTES_AT_FIRST }
    }

    /// The next piece; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<ByteRange> {
        if self.left.is_empty() {
            return None;
        }
        let start = self.left.start;
        let end = self.left.end.min((start + self.bytes) / BYTES_MIN * BYTES_MIN);
        assert!(start < end, "no byte of {:?} is in its next piece", self.left);
        self.left.start = end;
        Some(ByteRange { start, end })
    }

    /// How long the device took for the last piece.
    pub(crate) fn took(&mut self, time: Duration) {
        if time < SHORT {
            self.bytes = (2 * self.bytes).min(BYTES_MAX);
        } else if time > LONG {
            self.bytes = (self.bytes / 2).max(BYTES_MIN);
        }
    }

    /// What was not yet given out.
    pub(crate) fn left(&self) -> ByteRange {
        self.left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of a range on a device of so many bytes a second.
    fn pieces(range: ByteRange, bytes_per_second: u64) -> Vec<ByteRange> {
        let mut pieces = Pieces::of(range);
        let mut all = Vec::new();
        while let Some(piece) = pieces.next() {
            pieces.took(Duration::from_millis(piece.length() * 1000 / bytes_per_second));
            all.push(piece);
        }
        all
    }

    #[test]
    fn pieces_follow_each_other_and_cover_the_range() {
        for range in [ByteRange { start: 512, end: 3 << 30 }, ByteRange { start: 7 << 20, end: (7 << 20) + 512 }] {
            let all = pieces(range, 160_000_000);
            assert_eq!((all[0].start, all[all.len() - 1].end), (range.start, range.end));
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].end % BYTES_MIN == 0));
        }
        assert!(pieces(ByteRange { start: 512, end: 512 }, 1).is_empty());
    }

    #[test]
    fn a_piece_takes_seconds_on_a_slow_device_and_a_fast_one_has_few() {
        let whole = ByteRange { start: 0, end: 4 << 30 };
        for megabytes in [1, 5, 20, 160, 2000] {
            let all = pieces(whole, megabytes * 1_000_000);
            let longest = all.iter().map(|piece| piece.length() / (megabytes * 1_000_000)).max();
            assert!(longest < Some(20), "{megabytes} MB/s: {longest:?} s");
        }
        assert!(pieces(whole, u64::MAX / (5 << 30)).len() <= 10);
    }
}
