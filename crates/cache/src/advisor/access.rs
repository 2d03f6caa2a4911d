//! What a host asked for, in the blocks of a cache.

use std::ops::Range;

use hotset_block::ByteRange;

use crate::address::{BlockIndex, Blocks, pages_of};
use crate::config::BlockBytes;
use crate::format::Corrupt;
use crate::format::codec::{Reader, Writer};

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
    /// Those of streams among them.
    pub reads: u64,
    /// Of the reads, those of streams, which go past the cache.
    pub stream_reads: u64,
    pub writes: u64,
}

impl Accesses {
    pub fn count(&mut self, direction: Direction, passage: Passage) {
        match direction {
            Direction::Read => {
                self.reads += 1;
                self.stream_reads += u64::from(passage == Passage::Past);
            }
            Direction::Write => self.writes += 1,
        }
    }

    /// All of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads.saturating_add(other.reads),
            stream_reads: self.stream_reads.saturating_add(other.stream_reads),
            writes: self.writes.saturating_add(other.writes),
        }
    }

    /// What came after those of before.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            stream_reads: self.stream_reads.saturating_sub(before.stream_reads),
            writes: self.writes.saturating_sub(before.writes),
        }
    }

    pub fn all(&self) -> u64 {
        self.reads + self.writes
    }

    /// Reads that may populate a cache.
    pub fn counted_reads(&self) -> u64 {
        self.reads.saturating_sub(self.stream_reads)
    }

    pub(super) fn encode(&self, to: &mut Writer) {
        to.u64(self.reads).u64(self.stream_reads).u64(self.writes);
    }

    /// # Errors
    /// The bytes are not what [`Self::encode`] makes.
    pub(super) fn decode(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let [reads, stream_reads, writes] = [from.counter()?, from.counter()?, from.counter()?];
        from.require(stream_reads <= reads, "more reads are of streams than there are")?;
        Ok(Self { reads, stream_reads, writes })
    }
}
