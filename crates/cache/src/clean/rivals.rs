//! Which policy suits a pool: small caches of a sample of its blocks, one for each policy that `auto` may follow.
//!
//! All of them go through the same accesses, those that the policy of the pool and the counters hear of, and differ in nothing but
//! what they evict. So what is compared is exact but for the choice of blocks, and luck shows: an access that one of two had and the
//! other missed is a vote. The pool follows another policy when that one's lead is too large for luck and worth a change of what is cached.
//! Why these figures: `docs/decisions/0018-auto-follows-rivals.md`.

use crate::address::{BlockKey, SlotIndex, mixed};
use crate::clean::map::Map;
use crate::clean::policy::{Enters, Order, Policy};
use crate::status::PolicySwitch;

/// Slots of each rival, at most.
const SLOTS_MAX: u32 = 2048;
/// What was counted is worth half when so many accesses for each slot of a rival were watched.
const ACCESSES_PER_SLOT: u64 = 32;
/// The lead over what is followed, in standard deviations of a vote by chance.
const DEVIATIONS: u64 = 4;
/// The lead, in parts of the misses of what is followed: one of so many.
const LEAD_PART: u64 = 50;
/// Makes the choice of blocks independent of where tables put them.
const SALT: u64 = 0x0a11_7e57_0f21_7a15;

const COUNT: usize = 3;
/// What `auto` may follow. FIFO is never better than all of them by much.
const ORDERS: [Order; COUNT] = [Order::S3Fifo, Order::TwoQ, Order::Lru];

/// A small cache with one policy.
struct Rival {
    map: Map,
    policy: Policy,
    missed: u64,
}

/// See the file's summary.
pub(super) struct Rivals {
    /// Of 2^32 blocks, those that are watched.
    rate: u64,
    slots: u32,
    rivals: [Rival; COUNT],
    /// Index of what is followed.
    followed: usize,
    /// `[one][other]`: accesses that the one missed and the other had.
    lost: [[u64; COUNT]; COUNT],
    accesses: u64,
    last: Option<PolicySwitch>,
}

impl Rivals {
    /// Of a pool with so many slots.
    pub(super) fn new(capacity: u32) -> Self {
        let slots = capacity.clamp(1, SLOTS_MAX);
        let rival =
            |order: Order| Rival { map: Map::new(PAGES, false), policy: Policy::new(order.kind(), slots), missed: 0 };
        Self {
            rate: (u64::from(slots) << 32) / u64::from(capacity.max(1)),
            slots,
            rivals: ORDERS.map(rival),
            followed: 0,
            lost: [[0; COUNT]; COUNT],
            accesses: 0,
            last: None,
        }
    }

    /// What is followed now; false: that is none of them.
    pub(super) fn begin_with(&mut self, order: Order) -> bool {
        let found = ORDERS.iter().position(|of_them| *of_them == order);
        self.followed = found.unwrap_or(self.followed);
        found.is_some()
    }

    pub(super) fn last_switch(&self) -> Option<PolicySwitch> {
        self.last
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        self.rivals.iter().map(|rival| rival.map.memory_bytes() + rival.policy.memory_bytes()).sum()
    }

    /// Goes through an access; answers what is to be followed from now on, if that is something else.
    pub(super) fn access(&mut self, key: BlockKey, enters: Enters) -> Option<Order> {
        if mixed(key.hash() ^ SALT) >> 32 >= self.rate {
            return None;
        }
        let slots = self.slots;
        let missed = self.rivals.each_mut().map(|rival| rival.misses(key, enters, slots));
        self.accesses += 1;
        for (one, other) in PAIRS {
            self.lost[one][other] += u64::from(missed[one] && !missed[other]);
        }
        let order = missed.contains(&false).then(|| self.better()).flatten();
        if self.accesses >= ACCESSES_PER_SLOT * 2 * u64::from(slots) {
            self.age();
        }
        order
    }

    fn age(&mut self) {
        self.accesses /= 2;
        self.lost.as_flattened_mut().iter_mut().for_each(|count| *count /= 2);
        self.rivals.iter_mut().for_each(|rival| rival.missed /= 2);
    }

    /// What misses least, if what is followed misses clearly more.
    fn better(&mut self) -> Option<Order> {
        let from = self.followed;
        let to = (0..COUNT).min_by_key(|index| (self.rivals[*index].missed, *index != from)).expect("there are some");
        let (lost, won) = (self.lost[from][to], self.lost[to][from]);
        let lead = lost.saturating_sub(won);
        let by_chance = DEVIATIONS * DEVIATIONS * (lost + won);
        if lead * lead <= by_chance || lead * LEAD_PART <= self.rivals[from].missed {
            return None;
        }
        self.last = Some(PolicySwitch {
            number: self.last.map_or(0, |last| last.number) + 1,
            from: ORDERS[from].kind(),
            to: ORDERS[to].kind(),
            accesses: self.accesses,
            from_missed: self.rivals[from].missed,
            to_missed: self.rivals[to].missed,
        });
        self.followed = to;
        Some(ORDERS[to])
    }
}

/// A map has pages, but nobody asks for those here.
const PAGES: u32 = 16;
/// Of any two rivals, both ways.
const PAIRS: [(usize, usize); 6] = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)];

impl Rival {
    /// Whether it misses the block; one that enters is there from now on.
    fn misses(&mut self, key: BlockKey, enters: Enters, slots: u32) -> bool {
        if let Some(slot) = self.map.find(key) {
            self.policy.touched(&mut self.map, slot);
            return false;
        }
        self.missed += 1;
        if enters == Enters::AtOnce {
            let slot = self.take_slot(slots);
            self.map.insert(slot, key, 0);
            self.policy.inserted(&mut self.map, slot);
        }
        true
    }

    /// A free slot. They come to be as they are needed; none is freed but to be used at once.
    fn take_slot(&mut self, slots: u32) -> SlotIndex {
        let used = self.map.slots_used();
        if used < self.map.slot_count() {
            return SlotIndex(used);
        }
        if used < slots {
            return self.map.add_slots(used.max(8).min(slots - used));
        }
        let slot = self.policy.victim(&mut self.map, |_| false).expect("a full cache has a victim");
        self.policy.evicted(&mut self.map, slot);
        self.map.remove(slot);
        slot
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::{BlockIndex, VolumeIndex};

    fn key(block: u32) -> BlockKey {
        BlockKey { volume: VolumeIndex(0), block: BlockIndex(block) }
    }

    /// A whole cache that populates at every miss.
    fn misses(order: Order, slots: u32, blocks: &[u32]) -> Vec<bool> {
        let mut whole = Rival { map: Map::new(PAGES, false), policy: Policy::new(order.kind(), slots), missed: 0 };
        blocks.iter().map(|block| whole.misses(key(*block), Enters::AtOnce, slots)).collect()
    }

    fn count(of: impl Iterator<Item = bool>) -> u64 {
        u64::try_from(of.filter(|is_so| *is_so).count()).unwrap()
    }

    proptest! {
        // proves: A5
        #[test]
        fn rivals_of_a_small_pool_miss_what_it_would_with_each_policy(
            slots in 100_u32..300,
            blocks in prop::collection::vec(prop_oneof![0_u32..200, 0_u32..2000], 1..2000),
        ) {
            let mut rivals = Rivals::new(slots);
            blocks.iter().for_each(|block| {
                rivals.access(key(*block), Enters::AtOnce);
            });
            let missed = ORDERS.map(|order| misses(order, slots, &blocks));
            for (one, other) in PAIRS {
                prop_assert_eq!(rivals.rivals[one].missed, count(missed[one].iter().copied()));
                let pairs = missed[one].iter().zip(&missed[other]);
                prop_assert_eq!(rivals.lost[one][other], count(pairs.map(|(one, other)| *one && !*other)));
            }
        }
    }

    #[test]
    fn of_a_large_pool_a_part_of_the_blocks_is_watched_in_bounded_memory() {
        let mut rivals = Rivals::new(2_000_000);
        (0..6_000_000).for_each(|block| {
            rivals.access(key(block), Enters::AtOnce);
        });
        assert!((5700..6600).contains(&rivals.accesses), "{}", rivals.accesses);
        assert!(rivals.memory_bytes() < 300 << 10, "{}", rivals.memory_bytes());
    }

    #[test]
    fn chance_and_a_lead_too_small_to_matter_change_nothing() {
        let mut rivals = Rivals::new(100);
        let with = |rivals: &mut Rivals, missed, lost, won| {
            (rivals.rivals[0].missed, rivals.rivals[2].missed) = (missed, missed - (lost - won));
            (rivals.rivals[1].missed, rivals.lost[0][2], rivals.lost[2][0]) = (u64::MAX, lost, won);
            rivals.better()
        };
        assert_eq!(with(&mut rivals, 1000, 130, 100), None, "60 more would be four deviations");
        assert_eq!(with(&mut rivals, 10_000, 150, 10), None, "less than a fiftieth of the misses");
        assert_eq!(rivals.last, None);
        assert_eq!(with(&mut rivals, 1000, 150, 10), Some(Order::Lru));
        assert_eq!(with(&mut rivals, 1000, 150, 10), None, "it is followed already");
    }

    #[test]
    fn what_was_counted_long_ago_is_worth_less() {
        let mut rivals = Rivals::new(100);
        (0..64 * 100).for_each(|block| {
            rivals.access(key(block), Enters::NotYet);
        });
        assert_eq!((rivals.accesses, rivals.rivals[0].missed), (3200, 3200));
        assert_eq!(rivals.rivals[0].map.slots_used(), 0, "nothing was worth a slot");
    }
}
