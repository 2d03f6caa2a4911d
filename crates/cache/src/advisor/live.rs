//! What is known of one volume while it serves: the curves of LRU and of its pool's own policy, in a mebibyte at most.

use crate::config::BlockBytes;

use super::access::{Access, Accesses, Direction};
use super::curve::Curve;
use super::miniature::Setup;
use super::reuse::ReuseDistances;
use super::sample::Rate;
use super::sizes::{Sizes, half_octaves};

/// Blocks whose reuse distances are watched, at most.
const REUSE_BLOCKS: u32 = 6144;
/// Slots of a miniature.
const SLOTS: u32 = 512;
/// What miniatures may take, in bytes; reuse distances take less than the rest of a mebibyte.
const MINIATURES_MEMORY: u64 = 768 << 10;
/// The smallest cache that is tried, in blocks.
const BLOCKS_MIN: u64 = 2;

/// The curves of a volume.
pub struct Live {
    setup: Setup,
    sizes: Vec<u64>,
    reuse: ReuseDistances,
    miniatures: Sizes,
}

impl Live {
    /// Of a volume of `size_bytes`, of whose blocks `rate` is what is told at most.
    pub fn new(setup: Setup, size_bytes: u64, rate: Rate) -> Self {
        let blocks = size_bytes.div_ceil(setup.block_bytes.get());
        let sizes = half_octaves(BLOCKS_MIN, blocks);
        let miniatures = Sizes::new(setup, &sizes, SLOTS, rate, MINIATURES_MEMORY);
        Self { setup, reuse: ReuseDistances::new(REUSE_BLOCKS, rate), sizes, miniatures }
    }

    pub fn setup(&self) -> Setup {
        self.setup
    }

    /// Takes note of an access, of a block that is watched or not.
    pub fn access(&mut self, access: &Access) {
        self.reuse.access(access.block, access.direction);
        self.miniatures.access(access);
    }

    pub fn accesses(&self) -> Accesses {
        self.reuse.accesses()
    }

    /// What was accessed at all, each block once, about.
    pub fn footprint_bytes(&self) -> u64 {
        self.reuse.footprint_blocks().saturating_mul(self.setup.block_bytes.get())
    }

    /// What a cache with LRU that takes everything would miss, at these sizes in blocks.
    pub fn lru_at(&self, sizes: &[u64], direction: Option<Direction>) -> Curve {
        self.reuse.curve(sizes, direction)
    }

    /// The same at the sizes of [`Self::curve`], and at those that it has left out.
    pub fn lru(&self, direction: Option<Direction>) -> Curve {
        self.lru_at(&self.sizes, direction)
    }

    /// What a pool with the setup would miss.
    pub fn curve(&self, direction: Option<Direction>) -> Curve {
        self.miniatures.curve(direction)
    }

    pub fn block_bytes(&self) -> BlockBytes {
        self.setup.block_bytes
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.reuse.memory_bytes() + self.miniatures.memory_bytes()
    }
}
