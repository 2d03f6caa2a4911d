//! Where the bytes of the volume lie on the disks: striping, mirrors and rotating parity.

use std::fmt;
use std::str::FromStr;

use crate::ByteRange;

/// How the array spreads data over its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Striping alone.
    Raid0,
    /// One rotating parity chunk per stripe (left-symmetric, as Linux md has it).
    Raid5,
    /// Two rotating parity chunks per stripe, P and Q.
    Raid6,
    /// Striping over mirrored pairs.
    Raid10,
}

impl Level {
    pub const ALL: [Self; 4] = [Self::Raid0, Self::Raid5, Self::Raid6, Self::Raid10];

    /// The fewest disks that make such an array.
    pub fn disks_min(self) -> u32 {
        match self {
            Self::Raid0 => 1,
            Self::Raid5 => 3,
            Self::Raid6 => 4,
            Self::Raid10 => 2,
        }
    }

    /// How many of `disks` hold data that no other holds.
    pub fn data_disks(self, disks: u32) -> u32 {
        match self {
            Self::Raid0 => disks,
            Self::Raid5 => disks - 1,
            Self::Raid6 => disks - 2,
            Self::Raid10 => disks / 2,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Raid0 => "raid0",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
            Self::Raid10 => "raid10",
        })
    }
}

impl FromStr for Level {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|level| level.to_string() == text).ok_or(())
    }
}

/// A stretch of one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Piece {
    pub(super) disk: usize,
    pub(super) range: ByteRange,
}

/// What one stripe needs to take a write: first the old contents, then the new ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StripeWrite {
    pub(super) reads: Vec<Piece>,
    pub(super) writes: Vec<Piece>,
}

/// The map from the volume's bytes to the disks'.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    level: Level,
    disks: u64,
    data_disks: u64,
    chunk_bytes: u64,
}

impl Layout {
    pub(super) fn new(level: Level, disks: u32, chunk_bytes: u64) -> Self {
        Self { level, disks: u64::from(disks), data_disks: u64::from(level.data_disks(disks)), chunk_bytes }
    }

    pub(super) fn stripe_bytes(&self) -> u64 {
        self.data_disks * self.chunk_bytes
    }

    /// Whether a write of a part of a stripe costs more than its bytes.
    pub(super) fn has_parity(&self) -> bool {
        match self.level {
            Level::Raid5 | Level::Raid6 => true,
            Level::Raid0 | Level::Raid10 => false,
        }
    }

    pub(super) fn stripe(&self, number: u64) -> ByteRange {
        ByteRange::at(number * self.stripe_bytes(), self.stripe_bytes())
    }

    /// The pieces that hold `range`, in the order of the volume's addresses; of a mirrored pair, its first disk.
    pub(super) fn pieces(&self, range: ByteRange) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min((start / self.chunk_bytes + 1) * self.chunk_bytes);
            pieces.push(self.place(ByteRange { start, end }));
            start = end;
        }
        pieces
    }

    /// The other disk of a mirrored pair.
    pub(super) fn mirror(&self, piece: Piece) -> Option<Piece> {
        (self.level == Level::Raid10).then_some(Piece { disk: piece.disk ^ 1, ..piece })
    }

    /// What it takes to write `ranges`, which lie in stripe number `stripe`, ascend and do not overlap. A stripe with
    /// parity that is not written in full needs its old data and its old parity first (read-modify-write).
    pub(super) fn write(&self, stripe: u64, ranges: &[ByteRange]) -> StripeWrite {
        let mut writes: Vec<Piece> = ranges.iter().flat_map(|range| self.pieces(*range)).collect();
        let mirrors: Vec<Piece> = writes.iter().filter_map(|piece| self.mirror(*piece)).collect();
        writes.extend(mirrors);
        let whole = ranges.iter().map(|range| range.length()).sum::<u64>() == self.stripe_bytes();
        let parity = self.parity_of(stripe, &writes);
        writes.extend(parity);
        let reads = if self.has_parity() && !whole { writes.clone() } else { Vec::new() };
        StripeWrite { reads, writes }
    }

    /// The parity that covers `pieces` of one stripe: from the lowest to the highest offset that any of them has in
    /// its chunk.
    fn parity_of(&self, stripe: u64, pieces: &[Piece]) -> Vec<Piece> {
        let start = pieces.iter().map(|piece| piece.range.start).min();
        let end = pieces.iter().map(|piece| piece.range.end).max();
        let (Some(start), Some(end)) = (start, end) else { return Vec::new() };
        let range = ByteRange { start, end };
        let first = self.first_parity_disk(stripe);
        match self.level {
            Level::Raid0 | Level::Raid10 => Vec::new(),
            Level::Raid5 => vec![Piece { disk: index(first), range }],
            Level::Raid6 => [first, (first + 1) % self.disks].map(|disk| Piece { disk: index(disk), range }).to_vec(),
        }
    }

    /// Where a range inside one chunk lies.
    fn place(&self, range: ByteRange) -> Piece {
        let chunk = range.start / self.chunk_bytes;
        let (stripe, column) = (chunk / self.data_disks, chunk % self.data_disks);
        let disk = match self.level {
            Level::Raid0 => column,
            Level::Raid5 => (self.first_parity_disk(stripe) + 1 + column) % self.disks,
            Level::Raid6 => (self.first_parity_disk(stripe) + 2 + column) % self.disks,
            Level::Raid10 => 2 * column,
        };
        let start = stripe * self.chunk_bytes + range.start % self.chunk_bytes;
        Piece { disk: index(disk), range: ByteRange::at(start, range.length()) }
    }

    fn first_parity_disk(&self, stripe: u64) -> u64 {
        self.disks - 1 - stripe % self.disks
    }
}

fn index(disk: u64) -> usize {
    usize::try_from(disk).expect("a number of disks fits the address space")
}
