//! The order in which blocks that wait are filled: each volume in rising address order, round and round, volumes in
//! turn.
//!
//! Disks read what lies behind one another many times faster than what lies anywhere. The longer the queue, the closer
//! together are its blocks, so that filling speeds up when there is much to fill. A block that waits is passed at the
//! latest when the sweep has gone round once.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use crate::address::{BlockIndex, BlockKey, VolumeIndex};

#[derive(Default)]
pub(crate) struct Sweep {
    /// Volumes without a waiting block are not in it.
    volumes: BTreeMap<VolumeIndex, WaitingBlocks>,
    /// Whose turn it was.
    turn: Option<VolumeIndex>,
    len: usize,
}

#[derive(Default)]
struct WaitingBlocks {
    blocks: BTreeSet<BlockIndex>,
    /// The block taken last.
    position: Option<BlockIndex>,
}

impl Sweep {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn contains(&self, key: BlockKey) -> bool {
        self.volumes.get(&key.volume).is_some_and(|waiting| waiting.blocks.contains(&key.block))
    }

    pub(crate) fn insert(&mut self, key: BlockKey) {
        let new = self.volumes.entry(key.volume).or_default().blocks.insert(key.block);
        self.len += usize::from(new);
    }

    /// Takes the next block of the next volume of which one may be taken.
    pub(crate) fn take_next(&mut self, may: impl Fn(VolumeIndex) -> bool) -> Option<BlockKey> {
        let after = self.turn.map_or(Unbounded, Excluded);
        let in_turn = self.volumes.range((after, Unbounded)).chain(&self.volumes).map(|(volume, _)| *volume);
        let volume = in_turn.into_iter().find(|volume| may(*volume))?;
        let waiting = self.volumes.get_mut(&volume)?;
        let block = waiting.take_next()?;
        if waiting.blocks.is_empty() {
            self.volumes.remove(&volume);
        }
        self.turn = Some(volume);
        assert!(self.len > 0, "a block of volume {} is taken, and none waits", volume.0);
        self.len -= 1;
        Some(BlockKey { volume, block })
    }

    pub(crate) fn forget(&mut self, volume: VolumeIndex) {
        if let Some(waiting) = self.volumes.remove(&volume) {
            let (all, own) = (self.len, waiting.blocks.len());
            assert!(own <= all, "{own} blocks of volume {} wait, and {all} of all", volume.0);
            self.len -= waiting.blocks.len();
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

impl WaitingBlocks {
    fn take_next(&mut self) -> Option<BlockIndex> {
        let after = self.position.map_or(Unbounded, Excluded);
        let block = self.blocks.range((after, Unbounded)).next().or_else(|| self.blocks.first()).copied()?;
        self.blocks.remove(&block);
        self.position = Some(block);
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(volume: u16, block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(volume), block: BlockIndex(block) }
    }

    fn taken(sweep: &mut Sweep) -> Vec<(u16, u32)> {
        std::iter::from_fn(|| sweep.take_next(|_| true)).map(|key| (key.volume.0, key.block.0)).collect()
    }

    #[test]
    fn blocks_are_taken_in_address_order_from_where_the_sweep_is() {
        let mut sweep = Sweep::default();
        [7, 3, 9].into_iter().for_each(|block| sweep.insert(key(0, block)));
        assert_eq!(sweep.take_next(|_| true), Some(key(0, 3)));
        [1, 8].into_iter().for_each(|block| sweep.insert(key(0, block)));
        assert_eq!(taken(&mut sweep), [(0, 7), (0, 8), (0, 9), (0, 1)]);
        assert_eq!(sweep.len(), 0);
    }

    #[test]
    fn volumes_take_turns() {
        let mut sweep = Sweep::default();
        for (volume, block) in [(4, 1), (4, 2), (4, 3), (9, 5), (9, 6), (2, 7)] {
            sweep.insert(key(volume, block));
        }
        assert_eq!(taken(&mut sweep), [(2, 7), (4, 1), (9, 5), (4, 2), (9, 6), (4, 3)]);
    }

    #[test]
    fn a_volume_that_may_not_is_passed_over_and_keeps_its_blocks() {
        let mut sweep = Sweep::default();
        for (volume, block) in [(2, 1), (4, 2), (4, 3), (9, 4)] {
            sweep.insert(key(volume, block));
        }
        let not_4 = |volume| volume != VolumeIndex(4);
        let two = [sweep.take_next(not_4), sweep.take_next(not_4)];
        assert_eq!(two, [Some(key(2, 1)), Some(key(9, 4))]);
        assert_eq!(sweep.take_next(not_4), None);
        assert_eq!(taken(&mut sweep), [(4, 2), (4, 3)]);
    }

    #[test]
    fn a_block_waits_once_and_a_forgotten_volume_not_at_all() {
        let mut sweep = Sweep::default();
        for (volume, block) in [(0, 5), (0, 5), (1, 6)] {
            sweep.insert(key(volume, block));
        }
        assert_eq!(sweep.len(), 2);
        assert!(sweep.contains(key(0, 5)) && !sweep.contains(key(0, 6)));
        sweep.forget(VolumeIndex(0));
        assert_eq!(sweep.len(), 1);
        assert_eq!(taken(&mut sweep), [(1, 6)]);
    }
}
