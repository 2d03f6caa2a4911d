//! Remembers blocks that were evicted without ever proving useful: one that comes back soon was evicted too soon.
//!
//! Holds fingerprints, not blocks: a wrong "yes" (1 in 250) puts a block into the main queue too early, nothing else.
//! Large pools forget in the order of eviction only within a set. The sets are wide, because with narrow ones blocks
//! are forgotten at too different ages: replayed traces that loop miss 5 % more with 16 places, 0.8 % with 256.

use std::collections::VecDeque;

use crate::address::{BlockKey, at, low_half};
use crate::clean::sets::{Sets, position_of};

/// Sets do better with a little less than the order of eviction would want: libCacheSim's S3-FIFO remembers 90 % of the slots, and 88 do
/// here.
const SETS_PERCENT: usize = 98;
/// The bytes of memory per slot of a large pool.
pub(crate) const BYTES_PER_SLOT: f64 = 0.88 * 2.0;

/// Up to this many slots the order of eviction is kept exactly; sets would be too coarse there.
const EXACT_SLOTS_MAX: u32 = 4096;
/// Places of a set.
const WAYS: usize = 256;

/// The blocks evicted last.
pub enum Ghost {
    /// Small pools: one queue, the oldest first, searched from end to end.
    Exact { fingerprints: VecDeque<u32>, capacity: usize },
    /// Large pools.
    Sets(Box<GhostSets>),
}

/// Fingerprints of 16 bits in sets.
pub struct GhostSets(Sets<u16>);

impl Ghost {
    /// A ghost for a pool of `slots` slots, which remembers so many blocks as are `percent` of them.
    pub fn new(slots: u32, percent: usize) -> Self {
        let capacity = at(slots) * percent / 100;
        if slots <= EXACT_SLOTS_MAX {
            return Self::Exact { fingerprints: VecDeque::with_capacity(capacity), capacity };
        }
        Self::Sets(Box::new(GhostSets(Sets::new(capacity * SETS_PERCENT / 100, WAYS))))
    }

    /// One that remembers what this one does, and another number of blocks from now on. What lies in sets has no place in others: a large
    /// pool's begins anew, unless it is as large.
    #[must_use]
    pub(crate) fn resized(self, slots: u32, percent: usize) -> Self {
        match (self, Self::new(slots, percent)) {
            (Self::Exact { mut fingerprints, .. }, Self::Exact { capacity, .. }) => {
                fingerprints.drain(..fingerprints.len().saturating_sub(capacity));
                Self::Exact { fingerprints, capacity }
            }
            (Self::Sets(now), Self::Sets(anew)) if now.0.memory_bytes() == anew.0.memory_bytes() => Self::Sets(now),
            (Self::Exact { .. } | Self::Sets(_), anew) => anew,
        }
    }

    pub fn insert(&mut self, key: BlockKey) {
        let hash = key.hash();
        match self {
            Self::Exact { capacity: 0, .. } => {}
            Self::Exact { fingerprints, capacity } => {
                if fingerprints.len() == *capacity {
                    fingerprints.pop_front();
                }
                fingerprints.push_back(low_half(hash));
            }
            Self::Sets(sets) => sets.0.set_of(hash).push(fingerprint(hash)),
        }
    }

    pub(crate) fn contains(&self, key: BlockKey) -> bool {
        let hash = key.hash();
        match self {
            Self::Exact { fingerprints, .. } => {
                let (old, new) = fingerprints.as_slices();
                [old, new].into_iter().any(|part| position_of(part, low_half(hash)).is_some())
            }
            Self::Sets(sets) => position_of(sets.0.places_of(hash), fingerprint(hash)).is_some(),
        }
    }

    /// Forgets `key`; answers whether it was remembered.
    pub fn remove(&mut self, key: BlockKey) -> bool {
        let hash = key.hash();
        match self {
            Self::Exact { fingerprints, .. } => {
                let (old, new) = fingerprints.as_slices();
                let in_new = || position_of(new, low_half(hash)).map(|place| old.len() + place);
                let place = position_of(old, low_half(hash)).or_else(in_new);
                place.is_some_and(|place| fingerprints.remove(place).is_some())
            }
            Self::Sets(sets) => {
                let mut set = sets.0.set_of(hash);
                let way = set.position_of(fingerprint(hash));
                way.inspect(|way| set.remove(*way)).is_some()
            }
        }
    }

    /// The memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        match self {
            Self::Exact { fingerprints, .. } => {
                u64::try_from(fingerprints.capacity() * size_of::<u32>()).expect("an address has 64 bits at most")
            }
            Self::Sets(sets) => sets.0.memory_bytes(),
        }
    }
}

/// 16 bits of the half of the hash that does not choose the set; never 0, which is an empty place.
fn fingerprint(hash: u64) -> u16 {
    u16::try_from(hash & 0xffff).expect("16 bits are left").max(1)
}
