//! A bounded memory of what passed by: sets of 16 entries, first in, first out within a set.
//!
//! A set fits into one cache line. What the entries mean is up to the owner; the default value is an empty place.

use super::{bucket, vec_bytes};

const WAYS: usize = 16;

pub(super) struct Sets<T> {
    sets: Vec<[T; WAYS]>,
}

impl<T: Copy + Default + PartialEq> Sets<T> {
    /// At least `entries` places, at least one set.
    pub(super) fn new(entries: usize) -> Self {
        let count = entries.div_ceil(WAYS).max(1);
        Self { sets: vec![[T::default(); WAYS]; count] }
    }

    pub(super) fn set_count(&self) -> usize {
        self.sets.len()
    }

    /// The set that takes keys with this hash; it takes the upper half of it.
    pub(super) fn set_of(&mut self, hash: u64) -> Set<'_, T> {
        let index = bucket(hash, self.sets.len());
        Set { ways: &mut self.sets[index] }
    }

    pub(super) fn set_at(&mut self, index: usize) -> Set<'_, T> {
        Set { ways: &mut self.sets[index] }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        vec_bytes(&self.sets)
    }
}

/// One set: the newest entry first, empty places last.
pub(super) struct Set<'a, T> {
    ways: &'a mut [T; WAYS],
}

impl<T: Copy + Default + PartialEq> Set<'_, T> {
    pub(super) fn position(&self, is_it: impl Fn(T) -> bool) -> Option<usize> {
        self.ways.iter().position(|entry| *entry != T::default() && is_it(*entry))
    }

    pub(super) fn get_mut(&mut self, way: usize) -> &mut T {
        &mut self.ways[way]
    }

    /// Adds an entry; the oldest falls out if the set is full.
    pub(super) fn push(&mut self, entry: T) {
        self.ways.copy_within(..WAYS - 1, 1);
        self.ways[0] = entry;
    }

    pub(super) fn remove(&mut self, way: usize) {
        self.ways.copy_within(way + 1.., way);
        self.ways[WAYS - 1] = T::default();
    }

    /// Replaces every entry by what `change` makes of it; those that become empty are removed.
    pub(super) fn rewrite(&mut self, change: impl Fn(T) -> T) {
        let changed = self.ways.map(change);
        self.ways.fill(T::default());
        let kept = changed.into_iter().filter(|entry| *entry != T::default());
        for (way, entry) in self.ways.iter_mut().zip(kept) {
            *way = entry;
        }
    }
}
