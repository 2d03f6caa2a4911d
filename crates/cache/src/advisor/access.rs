//! What a host asked for, in the blocks of a cache.

use std::ops::Range;

use hotset_block::ByteRange;

use crate::address::{BlockIndex, Blocks, pages_of};
use crate::config::BlockBytes;

/// Which way the bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    Read,
    Write,
}

/// Whether the request belongs to a stream that goes past the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It may populate the cache.
    Counted,
    /// A stream: it is answered from the cache where that has all of it, and leaves nothing there.
    Past,
}

/// The part of a request that lies in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub block: BlockIndex,
    /// Pages within the block; not none.
    pub pages: Range<u32>,
    pub direction: Direction,
    pub passage: Passage,
}

impl Access {
    /// The accesses of a request, one for each block that it touches. The volume is small enough that its blocks can be numbered
    /// in 32 bits: below 256 TiB with blocks of 64 KiB.
    pub fn of(
        range: ByteRange,
        block_bytes: BlockBytes,
        direction: Direction,
        passage: Passage,
    ) -> impl Iterator<Item = Self> {
        let blocks = Blocks { pages_per_block: block_bytes.pages() };
        blocks.of(pages_of(range)).map(move |(block, pages)| Self { block, pages, direction, passage })
    }
}

/// Accesses so far, by what they did: all of them, sampled or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    pub reads: u64,
    pub writes: u64,
}

impl Accesses {
    pub fn count(&mut self, direction: Direction) {
        match direction {
            Direction::Read => self.reads += 1,
            Direction::Write => self.writes += 1,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { reads: self.reads.saturating_add(other.reads), writes: self.writes.saturating_add(other.writes) }
    }

    /// What came after those of before.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self { reads: self.reads.saturating_sub(before.reads), writes: self.writes.saturating_sub(before.writes) }
    }

    pub fn all(&self) -> u64 {
        self.reads + self.writes
    }
}
