//! Which slot is evicted next: S3-FIFO (Yang et al., SOSP'23), 2Q (Johnson and Shasha, VLDB'94), LRU or FIFO, over the lists
//! of the [`Map`].
//!
//! Two queues. S3-FIFO uses both: new blocks enter `small`, a tenth of the pool; those touched at least twice there, and
//! those that come back soon after they left it, live in `main`, where being touched gives another round. While the
//! pool fills, everything is in `small`. 2Q does so with a quarter of the pool: `small` is first in, first out, whatever is touched,
//! what comes back soon lives in `main`, and that is LRU. LRU and FIFO
//! use `main`; what a change of policy left in `small` is evicted first. So a change takes no time and loses nothing.
//! Ratios and thresholds are libCacheSim's defaults, with which the reference miss ratios were measured.
//! A pool whose policy is `auto` follows one of these, and has rivals (`rivals.rs`) that tell it which.
//! Volumes with a share of their own have queues of their own (`shares.rs`), each with the same policy.

use crate::address::{BlockKey, SlotIndex, VolumeIndex, at};
use crate::clean::ghost::Ghost;
use crate::clean::links::List;
use crate::clean::map::Map;
use crate::clean::rivals::Rivals;
use crate::clean::shares::{QueueOwner, Queues, Shares};
use crate::config::PolicyKind;
use crate::status::PolicySwitch;

/// Touches in `small` that make a block stay.
const PROMOTION_FREQUENCY: u32 = 2;
const FREQUENCY_MAX: u32 = 3;
/// Blocks that the ghosts of S3-FIFO and of 2Q remember, in percent of the slots.
const GHOST_PERCENT: usize = 90;
const GHOST_PERCENT_OF_TWO_Q: usize = 50;
/// Slots that one search for a victim gives another round at most, so that an eviction's time is bounded.
const ROUNDS_MAX: usize = 4096;
/// Busy slots that one search for a victim passes at most, per queue.
const BUSY_MAX: usize = 64;

/// What an access means for a block that has no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enters {
    /// It is worth one by now.
    AtOnce,
    /// It has to be asked for more often.
    NotYet,
}

/// The order of eviction of a pool's slots.
pub struct Policy {
    kind: PolicyKind,
    /// What is followed now: `kind`, unless that is `auto`.
    follows: Order,
    /// Slots that the pool can fill.
    capacity: u32,
    shares: Shares,
    /// For S3-FIFO and 2Q, and for whatever may become one of them.
    ghost: Option<Ghost>,
    /// Of `auto` alone.
    rivals: Option<Box<Rivals>>,
}

/// An order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    S3Fifo,
    TwoQ,
    Lru,
    Fifo,
}

impl Order {
    /// What a pool with this policy begins with.
    fn first_of(kind: PolicyKind) -> Self {
        match kind {
            PolicyKind::S3Fifo | PolicyKind::Auto => Self::S3Fifo,
            PolicyKind::TwoQ => Self::TwoQ,
            PolicyKind::Lru => Self::Lru,
            PolicyKind::Fifo => Self::Fifo,
        }
    }

    pub(super) fn kind(self) -> PolicyKind {
        match self {
            Self::S3Fifo => PolicyKind::S3Fifo,
            Self::TwoQ => PolicyKind::TwoQ,
            Self::Lru => PolicyKind::Lru,
            Self::Fifo => PolicyKind::Fifo,
        }
    }

    /// The slots of a pool of `capacity` that `small` may have before it is evicted from.
    fn small_capacity(self, capacity: u32) -> u32 {
        match self {
            Self::S3Fifo => small_capacity(capacity),
            Self::TwoQ => (capacity / 4).max(1).min(capacity),
            Self::Lru | Self::Fifo => 0,
        }
    }
}

impl Policy {
    /// `capacity` is the number of slots that the pool can fill.
    pub fn new(kind: PolicyKind, capacity: u32) -> Self {
        let follows = Order::first_of(kind);
        let ghost = ghost_percent(kind, follows).map(|percent| Ghost::new(capacity, percent));
        Self { kind, follows, capacity, shares: Shares::default(), ghost, rivals: rivals_for(kind, capacity) }
    }

    pub fn kind(&self) -> PolicyKind {
        self.kind
    }

    /// What is followed now: never `auto`.
    pub fn follows(&self) -> PolicyKind {
        self.follows.kind()
    }

    /// What made `auto` follow another one for the last time.
    pub(crate) fn last_switch(&self) -> Option<PolicySwitch> {
        self.rivals.as_ref()?.last_switch()
    }

    /// Changes the policy; every slot keeps its place. `auto` goes on with what is followed already, if that is one of its own.
    pub fn set_kind(&mut self, kind: PolicyKind) {
        if kind == self.kind {
            return;
        }
        self.kind = kind;
        self.rivals = rivals_for(kind, self.capacity);
        let goes_on = self.rivals.as_mut().is_some_and(|rivals| rivals.begin_with(self.follows));
        self.follow(if goes_on { self.follows } else { Order::first_of(kind) });
    }

    /// The ghost keeps what the new order has room for.
    fn follow(&mut self, order: Order) {
        self.follows = order;
        let ghost = self.ghost.take();
        self.ghost = ghost_percent(self.kind, order).map(|percent| match ghost {
            Some(ghost) => ghost.resized(self.capacity, percent),
            None => Ghost::new(self.capacity, percent),
        });
    }

    /// Changes the number of slots that the pool can fill; the evicted blocks are forgotten.
    pub fn set_capacity(&mut self, capacity: u32) {
        if capacity != self.capacity {
            self.capacity = capacity;
            self.ghost = ghost_percent(self.kind, self.follows).map(|percent| Ghost::new(capacity, percent));
            self.rivals = rivals_for(self.kind, capacity);
            if let Some(rivals) = &mut self.rivals {
                rivals.begin_with(self.follows);
            }
        }
    }

    /// Slots that are listed.
    pub fn len(&self) -> u32 {
        let (small, main) = self.shares.lengths();
        small + main
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Promises a volume slots that others do not take from it, and bounds what it has; 0 and `u32::MAX`: neither.
    /// Slots that it has already have to be moved to its own queues ([`Policy::take_over`]).
    pub fn set_share(&mut self, map: &Map, volume: VolumeIndex, min_slots: u32, max_slots: u32) {
        self.shares.set(map, volume, min_slots, max_slots);
    }

    /// A volume whose slots are all free is gone.
    pub fn forget_share(&mut self, volume: VolumeIndex) {
        self.shares.forget(volume);
    }

    /// Looks at `count` slots more, and moves those of the volume to its own queues; false: all were looked at.
    pub fn take_over(&mut self, map: &mut Map, volume: VolumeIndex, count: u32) -> bool {
        let Some(first) = self.shares.next_to_move(volume) else { return false };
        let end = first.0.saturating_add(count).min(map.slot_count());
        for slot in (first.0..end).map(SlotIndex) {
            let is_its = map.key(slot).is_some_and(|key| key.volume == volume) && map.is_listed(slot);
            let in_small = map.is_in_small(slot);
            if is_its {
                self.unlink(map, slot);
            }
            self.shares.set_moved(volume, slot.0 + 1);
            if is_its {
                self.push(map, slot, in_small);
            }
        }
        if end == map.slot_count() {
            self.shares.set_moved(volume, u32::MAX);
        }
        end < map.slot_count()
    }

    /// The most slots that the volume may have; `u32::MAX`: any number.
    pub fn max_slots(&self, volume: VolumeIndex) -> u32 {
        self.shares.max_slots(volume)
    }

    /// The volume has no more slots than it was promised.
    pub fn is_at_minimum(&self, map: &Map, volume: VolumeIndex) -> bool {
        self.shares.is_at_minimum(map, volume)
    }

    /// Lists a slot that the map says is used. From now on it can be a victim.
    pub fn inserted(&mut self, map: &mut Map, slot: SlotIndex) {
        let in_small = match self.follows {
            Order::S3Fifo | Order::TwoQ => !self.came_back(map, slot),
            Order::Lru | Order::Fifo => false,
        };
        map.set_frequency(slot, 0);
        self.push(map, slot, in_small);
    }

    /// The slot served a hit.
    pub fn touched(&mut self, map: &mut Map, slot: SlotIndex) {
        if self.rivals.is_some()
            && let Some(key) = map.key(slot)
        {
            self.accessed(key, Enters::AtOnce);
        }
        match self.follows {
            Order::S3Fifo => {
                let frequency = map.frequency(slot);
                if frequency < FREQUENCY_MAX {
                    map.set_frequency(slot, frequency + 1);
                }
            }
            Order::TwoQ if map.is_in_small(slot) => {}
            Order::TwoQ | Order::Lru => {
                let owner = self.shares.owner(map, slot);
                if map.is_listed(slot) && self.shares.queues(owner).main.newest() != Some(slot) {
                    self.unlink(map, slot);
                    self.push(map, slot, false);
                }
            }
            Order::Fifo => {}
        }
    }

    /// A block was asked for that has no slot: whether it is worth one by now. Nobody but `auto` wants to know.
    pub fn missed(&mut self, map: &Map, key: BlockKey, enters: Enters) {
        if self.rivals.is_some() && map.find(key).is_none() {
            self.accessed(key, enters);
        }
    }

    fn accessed(&mut self, key: BlockKey, enters: Enters) {
        if let Some(order) = self.rivals.as_mut().and_then(|rivals| rivals.access(key, enters)) {
            self.follow(order);
        }
    }

    /// The slot to evict next, if there is one that is not `busy`. It stays listed until [`Policy::evicted`]. No volume
    /// loses one that it was promised while another has more than that.
    pub fn victim(&mut self, map: &mut Map, busy: impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
        if self.shares.is_alone() {
            return self.victim_of(map, None, &busy);
        }
        let (small, main) = self.shares.lengths();
        let all = small + main;
        let from_small = match self.follows {
            Order::S3Fifo => small > 0 && main <= all - small_capacity(all),
            Order::TwoQ => small > self.follows.small_capacity(all),
            Order::Lru | Order::Fifo => false,
        };
        let length = |queues: &Queues| if from_small { queues.small.len() } else { queues.len() };
        let mut passed = Vec::new();
        loop {
            let owner = self.shares.pick(map, &passed, length)?;
            if let Some(slot) = self.victim_of(map, owner, &busy) {
                return Some(slot);
            }
            passed.push(owner);
        }
    }

    /// The slot to evict next of a volume that has a share of its own.
    pub fn victim_of_volume(&mut self, map: &mut Map, volume: VolumeIndex) -> Option<SlotIndex> {
        self.victim_of(map, Some(volume), &|_| false)
    }

    fn victim_of(&mut self, map: &mut Map, owner: QueueOwner, busy: &impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
        match self.follows {
            Order::S3Fifo => self.unpopular(map, owner, busy),
            Order::TwoQ => self.oldest_of_two(map, owner, busy),
            Order::Lru | Order::Fifo => self.oldest(map, owner, busy),
        }
    }

    /// Takes out a slot because of its place in the order, and remembers its block. The map must still know it.
    pub fn evicted(&mut self, map: &mut Map, slot: SlotIndex) {
        let key = map.key(slot).expect("an evicted slot is still in the map");
        let proved_useful = match self.follows {
            Order::S3Fifo | Order::TwoQ => !map.is_in_small(slot),
            Order::Lru | Order::Fifo => false,
        };
        if let Some(ghost) = self.ghost.as_mut().filter(|_| !proved_useful) {
            ghost.insert(key);
        }
        self.unlink(map, slot);
    }

    /// Takes out a slot for any other reason.
    pub fn removed(&mut self, map: &mut Map, slot: SlotIndex) {
        self.unlink(map, slot);
    }

    /// Whether a block is among those that were evicted last without having proved useful; LRU and FIFO do not know.
    pub(crate) fn remembers_evicted(&self, key: BlockKey) -> bool {
        self.ghost.as_ref().is_some_and(|ghost| ghost.contains(key))
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        let rivals = self.rivals.as_ref().map_or(0, |rivals| rivals.memory_bytes());
        self.ghost.as_ref().map_or(0, Ghost::memory_bytes) + rivals
    }

    fn came_back(&mut self, map: &Map, slot: SlotIndex) -> bool {
        let key = map.key(slot).expect("a slot is in the map before it is listed");
        self.ghost.as_mut().is_some_and(|ghost| ghost.remove(key))
    }

    /// S3-FIFO's victim.
    fn unpopular(&mut self, map: &mut Map, owner: QueueOwner, busy: &impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
        let mut from_small = self.evicts_small(owner);
        let mut passed = 0;
        for _ in 0..ROUNDS_MAX {
            if from_small && self.shares.queues(owner).small.is_empty() {
                from_small = self.evicts_small(owner);
            }
            let queues = self.shares.queues(owner);
            let queue = if from_small { &queues.small } else { &queues.main };
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
        self.oldest(map, owner, busy)
    }

    /// What the parts of the queues are of: alone, the pool.
    fn capacity_of(&self, owner: QueueOwner) -> u32 {
        if self.shares.is_alone() { self.capacity } else { self.shares.queues(owner).len() }
    }

    /// Whether small has more than its part of what its owner has.
    fn evicts_small(&self, owner: QueueOwner) -> bool {
        let (queues, capacity) = (self.shares.queues(owner), self.capacity_of(owner));
        queues.main.len() <= capacity - small_capacity(capacity) && !queues.small.is_empty()
    }

    /// 2Q's victim: of `small` while that has more than its part, then of `main`.
    fn oldest_of_two(&self, map: &Map, owner: QueueOwner, busy: &impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
        let queues = self.shares.queues(owner);
        if queues.small.len() > Order::TwoQ.small_capacity(self.capacity_of(owner)) {
            return self.oldest(map, owner, busy);
        }
        let oldest = |list| not_busy(map, list, busy);
        oldest(&queues.main).or_else(|| oldest(&queues.small))
    }

    /// The oldest slot that is not busy, first of `small`, then of `main`.
    fn oldest(&self, map: &Map, owner: QueueOwner, busy: &impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
        let queues = self.shares.queues(owner);
        not_busy(map, &queues.small, busy).or_else(|| not_busy(map, &queues.main, busy))
    }

    /// The slots of a pool without shares, the oldest first, those of `small` before those of `main`.
    pub(crate) fn oldest_first<'a>(&self, map: &'a Map) -> impl Iterator<Item = SlotIndex> + use<'a> {
        let queues = self.shares.queues(None);
        let ends = [queues.small.oldest(), queues.main.oldest()];
        ends.into_iter().flat_map(|oldest| std::iter::successors(oldest, |slot| map.newer(*slot)))
    }

    fn requeue(&mut self, map: &mut Map, slot: SlotIndex, in_small: bool) {
        self.unlink(map, slot);
        self.push(map, slot, in_small);
    }

    fn push(&mut self, map: &mut Map, slot: SlotIndex, in_small: bool) {
        map.set_in_small(slot, in_small);
        let queues = self.shares.queues_mut(self.shares.owner(map, slot));
        let list = if in_small { &mut queues.small } else { &mut queues.main };
        map.push_newest(list, slot);
    }

    fn unlink(&mut self, map: &mut Map, slot: SlotIndex) {
        let queues = self.shares.queues_mut(self.shares.owner(map, slot));
        let list = if map.is_in_small(slot) { &mut queues.small } else { &mut queues.main };
        map.unlink(list, slot);
    }
}

/// A tenth, rounded down, but never nothing.
fn small_capacity(capacity: u32) -> u32 {
    (capacity / 10).max(1).min(capacity)
}

/// Of the oldest slots of a list, the first that is not busy.
fn not_busy(map: &Map, list: &List, busy: &impl Fn(SlotIndex) -> bool) -> Option<SlotIndex> {
    std::iter::successors(list.oldest(), |slot| map.newer(*slot)).take(BUSY_MAX).find(|slot| !busy(*slot))
}

/// Blocks that a ghost remembers, per slot. `auto` has one with LRU, too: what is followed next finds it filled.
fn ghost_percent(kind: PolicyKind, follows: Order) -> Option<usize> {
    match (kind, follows) {
        (_, Order::S3Fifo) | (PolicyKind::Auto, Order::Lru | Order::Fifo) => Some(GHOST_PERCENT),
        (_, Order::TwoQ) => Some(GHOST_PERCENT_OF_TWO_Q),
        (PolicyKind::S3Fifo | PolicyKind::TwoQ | PolicyKind::Lru | PolicyKind::Fifo, Order::Lru | Order::Fifo) => None,
    }
}

fn rivals_for(kind: PolicyKind, capacity: u32) -> Option<Box<Rivals>> {
    match kind {
        PolicyKind::Auto => Some(Box::new(Rivals::new(capacity))),
        PolicyKind::S3Fifo | PolicyKind::TwoQ | PolicyKind::Lru | PolicyKind::Fifo => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::address::{BlockIndex, BlockKey, VolumeIndex};

    fn key(block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(0), block: BlockIndex(block) }
    }

    /// A pool in which every miss populates.
    struct MapAndPolicy {
        map: Map,
        policy: Policy,
    }

    impl MapAndPolicy {
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
            self.policy.missed(&self.map, key(block), Enters::AtOnce);
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

    /// 2Q, exactly and slowly, from its description.
    #[derive(Default)]
    struct NaiveTwoQ {
        first_in: VecDeque<u32>,
        main: VecDeque<u32>,
        ghost: VecDeque<u32>,
    }

    impl NaiveTwoQ {
        fn access(&mut self, block: u32, slots: usize) -> bool {
            if let Some(place) = self.main.iter().position(|held| *held == block) {
                self.main.remove(place);
                self.main.push_back(block);
                return true;
            }
            if self.first_in.contains(&block) {
                return true;
            }
            if self.first_in.len() + self.main.len() == slots {
                self.evict(slots);
            }
            let place = self.ghost.iter().position(|held| *held == block);
            let came_back = place.and_then(|place| self.ghost.remove(place)).is_some();
            let queue = if came_back { &mut self.main } else { &mut self.first_in };
            queue.push_back(block);
            false
        }

        fn evict(&mut self, slots: usize) {
            if self.first_in.len() <= (slots / 4).max(1) && self.main.pop_front().is_some() {
                return;
            }
            let block = self.first_in.pop_front().unwrap();
            self.ghost.push_back(block);
            if self.ghost.len() > slots / 2 {
                self.ghost.pop_front();
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
            let mut pool = MapAndPolicy::new(PolicyKind::S3Fifo, slots);
            let mut naive = NaiveS3Fifo::default();
            for block in blocks {
                let found = pool.map.find(key(block)).is_some();
                prop_assert_eq!(pool.access(block), found);
                prop_assert_eq!(naive.access(block, at(slots)), found);
            }
        }

        // proves: A5
        #[test]
        fn two_q_hits_exactly_where_its_description_does(slots in 2_u32..80, blocks in accesses()) {
            let mut pool = MapAndPolicy::new(PolicyKind::TwoQ, slots);
            let mut naive = NaiveTwoQ::default();
            for block in blocks {
                let found = pool.map.find(key(block)).is_some();
                prop_assert_eq!(pool.access(block), found);
                prop_assert_eq!(naive.access(block, at(slots)), found);
            }
        }

        #[test]
        fn lru_and_fifo_equal_a_queue(slots in 1_u32..80, blocks in accesses(), is_lru in any::<bool>()) {
            let mut pool = MapAndPolicy::new(if is_lru { PolicyKind::Lru } else { PolicyKind::Fifo }, slots);
            let mut queue = VecDeque::new();
            for block in blocks {
                prop_assert_eq!(pool.access(block), naive_queue(&mut queue, block, at(slots), is_lru));
            }
        }

        #[test]
        fn changing_the_policy_loses_no_slot(
            slots in 1_u32..80,
            parts in prop::collection::vec((0..PolicyKind::ALL.len(), accesses()), 1..6),
        ) {
            let mut pool = MapAndPolicy::new(PolicyKind::S3Fifo, slots);
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
            slots in 2_u32..60, blocks in accesses(), busy in 0_u32..60, kind in 0..PolicyKind::ALL.len(),
        ) {
            let mut pool = MapAndPolicy::new(PolicyKind::ALL[kind].0, slots);
            for block in blocks {
                pool.access(block);
            }
            let used = pool.map.slots_used();
            let victim = pool.policy.victim(&mut pool.map, |slot| slot.0 == busy % used);
            prop_assert_eq!(victim.is_none(), used == 1);
            prop_assert_ne!(victim, Some(SlotIndex(busy % used)));
        }
    }

    // proves: A5
    #[test]
    fn auto_follows_what_misses_less_with_the_figures_and_keeps_what_is_cached() {
        let mut pool = MapAndPolicy::new(PolicyKind::Auto, 1000);
        assert_eq!((pool.policy.follows(), pool.policy.last_switch()), (PolicyKind::S3Fifo, None));
        // What is popular at first fills S3-FIFO's main queue. Then each block is read again when 300 others came in: its small queue has
        // forgotten it by then. The first queue of 2Q, which nothing has left for its main queue, has not, and neither has LRU.
        (0..4).flat_map(|_| 1_000_000..1_000_950).for_each(|block| {
            pool.access(block);
        });
        for block in 0..20_000 {
            pool.access(block + 300);
            let before = pool.map.slots_used();
            pool.access(block);
            assert!(pool.map.slots_used() >= before && pool.policy.len() == pool.map.slots_used());
        }
        let switch = pool.policy.last_switch().unwrap();
        assert_eq!((switch.number, switch.from, switch.to), (1, PolicyKind::S3Fifo, PolicyKind::TwoQ));
        assert!(switch.to_missed < switch.from_missed && switch.from_missed < switch.accesses, "{switch:?}");
        assert_eq!(pool.policy.follows(), PolicyKind::TwoQ);
        assert!(pool.access(20_100), "its first queue has it");
        // Once chosen, another policy is what it says, and `auto` goes on with it.
        pool.policy.set_kind(PolicyKind::Fifo);
        assert_eq!((pool.policy.follows(), pool.policy.last_switch()), (PolicyKind::Fifo, None));
        pool.policy.set_kind(PolicyKind::Lru);
        pool.policy.set_kind(PolicyKind::Auto);
        assert_eq!(pool.policy.follows(), PolicyKind::Lru);
        assert_eq!(pool.map.slots_used(), 1000);
    }

    #[test]
    fn a_pool_in_which_everything_is_busy_has_no_victim() {
        for (kind, _) in PolicyKind::ALL {
            let mut pool = MapAndPolicy::new(*kind, 1000);
            for block in 0..1000 {
                pool.access(block);
            }
            assert_eq!(pool.policy.victim(&mut pool.map, |_| true), None);
        }
    }

    #[test]
    fn a_pool_of_popular_blocks_gives_a_victim_within_the_bound() {
        let mut pool = MapAndPolicy::new(PolicyKind::S3Fifo, 100_000);
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
        let mut pool = MapAndPolicy::new(PolicyKind::S3Fifo, 1000);
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

    fn key_of(volume: u16, block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(volume), block: BlockIndex(block) }
    }

    impl MapAndPolicy {
        /// A volume brings a block in, as the pool's fills do.
        fn fill(&mut self, volume: u16, block: u32) {
            if let Some(slot) = self.map.find(key_of(volume, block)) {
                self.policy.touched(&mut self.map, slot);
                return;
            }
            let index = VolumeIndex(volume);
            let own = self.map.slots_used_by(index) >= self.policy.max_slots(index);
            let slot = if own {
                let slot = self.policy.victim_of_volume(&mut self.map, index).expect("it has one");
                self.policy.evicted(&mut self.map, slot);
                self.map.remove(slot);
                slot
            } else {
                let free = (0..self.map.slot_count()).map(SlotIndex).find(|slot| !self.map.is_used(*slot));
                free.unwrap_or_else(|| self.evict())
            };
            self.map.insert(slot, key_of(volume, block), 0);
            self.policy.inserted(&mut self.map, slot);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A pool does not promise all that it has: 20 slots at most are promised here.
        #[test]
        fn no_volume_falls_below_its_minimum_while_another_is_above_or_ever_exceeds_its_maximum(
            slots in 21_u32..80,
            shares in prop::collection::vec((0_u32..6, 6_u32..30), 4),
            kind in 0..PolicyKind::ALL.len(),
            before in prop::collection::vec((0_u16..4, 0_u32..60), 0..100),
            fills in prop::collection::vec((0_u16..4, 0_u32..60), 1..600),
        ) {
            let mut pool = MapAndPolicy::new(PolicyKind::ALL[kind].0, slots);
            for (volume, block) in before {
                pool.fill(volume, block);
            }
            for (volume, (min, max)) in (0..).map(VolumeIndex).zip(&shares) {
                pool.policy.set_share(&pool.map, volume, *min, *max);
                while pool.policy.take_over(&mut pool.map, volume, 7) {}
                while pool.map.slots_used_by(volume) > *max {
                    let slot = pool.policy.victim_of_volume(&mut pool.map, volume).expect("it has one");
                    pool.policy.evicted(&mut pool.map, slot);
                    pool.map.remove(slot);
                }
            }
            for (volume, block) in fills {
                let used: Vec<u32> = (0..4).map(|volume| pool.map.slots_used_by(VolumeIndex(volume))).collect();
                pool.fill(volume, block);
                prop_assert_eq!(pool.policy.len(), pool.map.slots_used());
                for (other, (min, max)) in (0..).zip(&shares) {
                    let now = pool.map.slots_used_by(VolumeIndex(other));
                    prop_assert!(now <= *max);
                    let before = used[usize::from(other)];
                    prop_assert!(now >= before || before > *min || (other == volume && now >= before.min(*min)), "{} {} {}", before, now, min);
                }
            }
        }
    }

    #[test]
    fn a_scan_of_one_volume_leaves_another_what_it_was_promised() {
        let mut pool = MapAndPolicy::new(PolicyKind::S3Fifo, 1000);
        pool.policy.set_share(&pool.map, VolumeIndex(1), 300, u32::MAX);
        for block in 0..500 {
            pool.fill(1, block);
        }
        for block in 0..20_000 {
            pool.fill(0, block);
            pool.fill(0, block % 900);
        }
        let kept = pool.map.slots_used_by(VolumeIndex(1));
        assert!((300..=500).contains(&kept), "{kept}");
    }
}
