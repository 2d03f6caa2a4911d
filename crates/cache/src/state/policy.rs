//! Which slot is evicted next: S3-FIFO (Yang et al., SOSP'23), LRU or FIFO, over the lists of the [`Map`].
//!
//! Two queues. S3-FIFO uses both: new blocks enter `small`, a tenth of the pool; those touched at least twice there, and
//! those that come back soon after they left it, live in `main`, where being touched gives another round. While the
//! pool fills, everything is in `small`. LRU and FIFO
//! use `main`; what a change of policy left in `small` is evicted first. So a change takes no time and loses nothing.
//! Ratios and thresholds are libCacheSim's defaults, with which the reference miss ratios were measured.

use super::ghost::Ghost;
use super::links::List;
use super::map::Map;
use super::{SlotIndex, at};
use crate::config::PolicyKind;

/// Touches in `small` that make a block stay.
const PROMOTION_FREQUENCY: u32 = 2;
const FREQUENCY_MAX: u32 = 3;
/// Slots that one search for a victim gives another round at most, so that an eviction's time is bounded.
const ROUNDS_MAX: usize = 4096;
/// Busy slots that one search for a victim passes at most, per queue.
const BUSY_MAX: usize = 64;

/// The order of eviction of a pool's slots.
pub struct Policy {
    kind: PolicyKind,
    /// Slots that the pool can fill.
    capacity: u32,
    small: List,
    main: List,
    /// Only for S3-FIFO.
    ghost: Option<Ghost>,
}

impl Policy {
    /// `capacity` is the number of slots that the pool can fill.
    pub fn new(kind: PolicyKind, capacity: u32) -> Self {
        let ghost = ghost_for(kind, capacity);
        Self { kind, capacity, small: List::new(), main: List::new(), ghost }
    }

    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// Changes the policy; every slot keeps its place.
    pub fn set_kind(&mut self, kind: PolicyKind) {
        if kind != self.kind {
            self.kind = kind;
            self.ghost = ghost_for(kind, self.capacity);
        }
    }

    /// Changes the number of slots that the pool can fill; the evicted blocks are forgotten.
    pub fn set_capacity(&mut self, capacity: u32) {
        if capacity != self.capacity {
            self.capacity = capacity;
            self.ghost = ghost_for(self.kind, capacity);
        }
    }

    /// Slots that are listed.
    pub fn len(&self) -> u32 {
        self.small.len() + self.main.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lists a slot that the map says is used. From now on it can be a victim.
    pub fn inserted(&mut self, map: &mut Map, slot: SlotIndex) {
        let in_small = match self.kind {
            PolicyKind::S3Fifo => !self.came_back(map, slot),
            PolicyKind::Lru | PolicyKind::Fifo => false,
        };
        map.set_frequency(slot, 0);
        self.push(map, slot, in_small);
    }

    /// The slot served a hit.
    pub fn touched(&mut self, map: &mut Map, slot: SlotIndex) {
        match self.kind {
            PolicyKind::S3Fifo => {
                let frequency = map.frequency(slot);
                if frequency < FREQUENCY_MAX {
                    map.set_frequency(slot, frequency + 1);
                }
            }
            PolicyKind::Lru => {
                if map.is_listed(slot) && self.main.newest() != Some(slot) {
                    self.unlink(map, slot);
                    self.push(map, slot, false);
                }
            }
            PolicyKind::Fifo => {}
        }
    }

    /// The slot to evict next, if there is one that is not `busy`. It stays listed until [`Policy::evicted`].
    pub fn victim(&mut self, map: &mut Map, busy: impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
        match self.kind {
            PolicyKind::S3Fifo => self.unpopular(map, busy),
            PolicyKind::Lru | PolicyKind::Fifo => self.oldest(map, busy),
        }
    }

    /// Takes out a slot because of its place in the order, and remembers its block. The map must still know it.
    pub fn evicted(&mut self, map: &mut Map, slot: SlotIndex) {
        let key = map.key(slot).expect("an evicted slot is still in the map");
        if let Some(ghost) = self.ghost.as_mut().filter(|_| map.is_in_small(slot)) {
            ghost.insert(key);
        }
        self.unlink(map, slot);
    }

    /// Takes out a slot for any other reason.
    pub fn removed(&mut self, map: &mut Map, slot: SlotIndex) {
        self.unlink(map, slot);
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.ghost.as_ref().map_or(0, Ghost::memory_bytes)
    }

    fn came_back(&mut self, map: &Map, slot: SlotIndex) -> bool {
        let key = map.key(slot).expect("a slot is in the map before it is listed");
        self.ghost.as_mut().is_some_and(|ghost| ghost.remove(key))
    }

    /// S3-FIFO's victim.
    fn unpopular(&mut self, map: &mut Map, busy: impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
        let mut from_small = self.evicts_small();
        let mut passed = 0;
        for _ in 0..ROUNDS_MAX {
            if from_small && self.small.is_empty() {
                from_small = self.evicts_small();
            }
            let queue = if from_small { &self.small } else { &self.main };
            let slot = queue.oldest()?;
            let frequency = map.frequency(slot);
            if busy(slot) {
                passed += 1;
                if passed == BUSY_MAX.min(at(queue.len())) {
                    break;
                }
                self.requeue(map, slot, from_small);
            } else if from_small && frequency >= PROMOTION_FREQUENCY {
                map.set_frequency(slot, 0);
                self.requeue(map, slot, false);
            } else if !from_small && frequency > 0 {
                map.set_frequency(slot, frequency - 1);
                self.requeue(map, slot, false);
            } else {
                return Some(slot);
            }
        }
        self.oldest(map, busy)
    }

    fn evicts_small(&self) -> bool {
        let main_capacity = self.capacity - self.small_capacity();
        self.main.len() <= main_capacity && !self.small.is_empty()
    }

    /// A tenth, rounded down, but never nothing.
    fn small_capacity(&self) -> u32 {
        (self.capacity / 10).max(1).min(self.capacity)
    }

    /// The oldest slot that is not busy, first of `small`, then of `main`.
    fn oldest(&self, map: &Map, busy: impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
        let oldest_of = |list: &List| std::iter::successors(list.oldest(), |slot| map.newer(*slot)).take(BUSY_MAX);
        oldest_of(&self.small).chain(oldest_of(&self.main)).find(|slot| !busy(*slot))
    }

    fn requeue(&mut self, map: &mut Map, slot: SlotIndex, in_small: bool) {
        self.unlink(map, slot);
        self.push(map, slot, in_small);
    }

    fn push(&mut self, map: &mut Map, slot: SlotIndex, in_small: bool) {
        map.set_in_small(slot, in_small);
        let list = if in_small { &mut self.small } else { &mut self.main };
        map.push_newest(list, slot);
    }

    fn unlink(&mut self, map: &mut Map, slot: SlotIndex) {
        let list = if map.is_in_small(slot) { &mut self.small } else { &mut self.main };
        map.unlink(list, slot);
    }
}

fn ghost_for(kind: PolicyKind, capacity: u32) -> Option<Ghost> {
    match kind {
        PolicyKind::S3Fifo => Some(Ghost::new(capacity)),
        PolicyKind::Lru | PolicyKind::Fifo => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::state::{BlockIndex, BlockKey, VolumeIndex};

    fn key(block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(0), block: BlockIndex(block) }
    }

    /// A pool in which every miss populates.
    struct Pool {
        map: Map,
        policy: Policy,
    }

    impl Pool {
        fn new(kind: PolicyKind, slots: u32) -> Self {
            let mut map = Map::new(16, false);
            map.add_slots(slots);
            Self { map, policy: Policy::new(kind, slots) }
        }

        /// Whether it was a hit.
        fn access(&mut self, block: u32) -> bool {
            if let Some(slot) = self.map.find(key(block)) {
                self.policy.touched(&mut self.map, slot);
                return true;
            }
            let used = self.map.slots_used();
            let slot = if used < self.map.slot_count() { SlotIndex(used) } else { self.evict() };
            self.map.insert(slot, key(block), 0);
            self.policy.inserted(&mut self.map, slot);
            false
        }

        fn evict(&mut self) -> SlotIndex {
            let slot = self.policy.victim(&mut self.map, |_| false).expect("a full pool has a victim");
            self.policy.evicted(&mut self.map, slot);
            self.map.remove(slot);
            slot
        }
    }

    /// S3-FIFO, exactly and slowly, from its description.
    #[derive(Default)]
    struct NaiveS3Fifo {
        small: VecDeque<(u32, u32)>,
        main: VecDeque<(u32, u32)>,
        ghost: VecDeque<u32>,
    }

    impl NaiveS3Fifo {
        fn access(&mut self, block: u32, slots: usize) -> bool {
            if let Some((_, frequency)) = self.small.iter_mut().chain(&mut self.main).find(|(held, _)| *held == block) {
                *frequency = (*frequency + 1).min(3);
                return true;
            }
            while self.small.len() + self.main.len() == slots {
                self.evict(slots);
            }
            let place = self.ghost.iter().position(|held| *held == block);
            let came_back = place.and_then(|place| self.ghost.remove(place)).is_some();
            let queue = if came_back { &mut self.main } else { &mut self.small };
            queue.push_back((block, 0));
            false
        }

        fn evict(&mut self, slots: usize) {
            if self.main.len() > slots - (slots / 10).max(1) || self.small.is_empty() {
                while let Some((block, frequency)) = self.main.pop_front() {
                    if frequency == 0 {
                        return;
                    }
                    self.main.push_back((block, frequency - 1));
                }
            }
            while let Some((block, frequency)) = self.small.pop_front() {
                if frequency < 2 {
                    if self.ghost.len() == slots * 9 / 10 {
                        self.ghost.pop_front();
                    }
                    self.ghost.push_back(block);
                    return;
                }
                self.main.push_back((block, 0));
            }
        }
    }

    /// The blocks of an LRU (`moves` on a hit) or FIFO queue.
    fn naive_queue(queue: &mut VecDeque<u32>, block: u32, slots: usize, moves: bool) -> bool {
        let found = queue.iter().position(|held| *held == block);
        if let Some(place) = found.filter(|_| moves) {
            queue.remove(place);
            queue.push_back(block);
        }
        if found.is_none() {
            if queue.len() == slots {
                queue.pop_front();
            }
            queue.push_back(block);
        }
        found.is_some()
    }

    /// Blocks of which some are popular.
    fn accesses() -> impl Strategy<Value = Vec<u32>> {
        prop::collection::vec(prop_oneof![0_u32..20, 0_u32..60, 0_u32..400], 1..2000)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn s3_fifo_hits_exactly_where_its_description_does(slots in 2_u32..80, blocks in accesses()) {
            let mut pool = Pool::new(PolicyKind::S3Fifo, slots);
            let mut naive = NaiveS3Fifo::default();
            for block in blocks {
                let found = pool.map.find(key(block)).is_some();
                prop_assert_eq!(pool.access(block), found);
                prop_assert_eq!(naive.access(block, at(slots)), found);
            }
        }

        #[test]
        fn lru_and_fifo_equal_a_queue(slots in 1_u32..80, blocks in accesses(), is_lru in any::<bool>()) {
            let mut pool = Pool::new(if is_lru { PolicyKind::Lru } else { PolicyKind::Fifo }, slots);
            let mut queue = VecDeque::new();
            for block in blocks {
                prop_assert_eq!(pool.access(block), naive_queue(&mut queue, block, at(slots), is_lru));
            }
        }

        #[test]
        fn changing_the_policy_loses_no_slot(
            slots in 1_u32..80,
            parts in prop::collection::vec((0_usize..3, accesses()), 1..6),
        ) {
            let mut pool = Pool::new(PolicyKind::S3Fifo, slots);
            for (kind, blocks) in parts {
                pool.policy.set_kind(PolicyKind::ALL[kind].0);
                for block in blocks {
                    pool.access(block);
                    prop_assert_eq!(pool.policy.len(), pool.map.slots_used());
                }
            }
            while pool.map.slots_used() > 0 {
                pool.evict();
            }
            prop_assert!(pool.policy.is_empty());
            prop_assert!(pool.policy.victim(&mut pool.map, |_| false).is_none());
        }

        #[test]
        fn a_busy_slot_is_never_the_victim_and_another_is_found(
            slots in 2_u32..60, blocks in accesses(), busy in 0_u32..60, kind in 0_usize..3,
        ) {
            let mut pool = Pool::new(PolicyKind::ALL[kind].0, slots);
            for block in blocks {
                pool.access(block);
            }
            let used = pool.map.slots_used();
            let victim = pool.policy.victim(&mut pool.map, |slot| slot.0 == busy % used);
            prop_assert_eq!(victim.is_none(), used == 1);
            prop_assert_ne!(victim, Some(SlotIndex(busy % used)));
        }
    }

    #[test]
    fn a_pool_in_which_everything_is_busy_has_no_victim() {
        for (kind, _) in PolicyKind::ALL {
            let mut pool = Pool::new(*kind, 1000);
            for block in 0..1000 {
                pool.access(block);
            }
            assert_eq!(pool.policy.victim(&mut pool.map, |_| true), None);
        }
    }

    #[test]
    fn a_pool_of_popular_blocks_gives_a_victim_within_the_bound() {
        let mut pool = Pool::new(PolicyKind::S3Fifo, 100_000);
        for _ in 0..5 {
            for block in 0..100_000 {
                pool.access(block);
            }
        }
        pool.access(100_000);
        let visited = (0..100_000).filter(|slot| pool.map.frequency(SlotIndex(*slot)) < 3).count();
        assert!((1..=ROUNDS_MAX + 1).contains(&visited), "{visited}");
    }

    // proves: P15
    #[test]
    fn a_scan_does_not_push_out_what_is_used() {
        let mut pool = Pool::new(PolicyKind::S3Fifo, 1000);
        for _ in 0..4 {
            for block in 0..800 {
                pool.access(block);
            }
        }
        for block in 1000..50_000 {
            pool.access(block);
        }
        let kept = (0..800).filter(|block| pool.map.find(key(*block)).is_some()).count();
        assert!(kept > 700, "{kept}");
    }
}
