//! A bounded memory of what passed by: sets of a few entries, first in, first out within a set.
//!
//! What the entries mean is up to the owner; the default value is an empty place.

use crate::address::{bucket, vec_bytes};

pub(super) struct Sets<T> {
    places: Vec<T>,
    ways: usize,
}

impl<T: Copy + Default + PartialEq> Sets<T> {
    /// `places` places, rounded down to full sets of `ways_max` places at most; at least one.
    pub(super) fn new(places: usize, ways_max: usize) -> Self {
        let set_count = places.div_ceil(ways_max).max(1);
        let ways = (places / set_count).max(1);
        Self { places: vec![T::default(); set_count * ways], ways }
    }

    pub(super) fn set_count(&self) -> usize {
        self.places.len() / self.ways
    }

    /// The set that takes keys with this hash; it takes the upper half of it.
    pub(super) fn set_of(&mut self, hash: u64) -> Set<'_, T> {
        self.set_at(bucket(hash, self.set_count()))
    }

    /// The entries of the set that takes keys with this hash.
    pub(super) fn places_of(&self, hash: u64) -> &[T] {
        &self.places[bucket(hash, self.set_count()) * self.ways..][..self.ways]
    }

    pub(super) fn set_at(&mut self, index: usize) -> Set<'_, T> {
        Set { places: &mut self.places[index * self.ways..][..self.ways] }
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        vec_bytes(&self.places)
    }
}

/// One set: the newest entry first, empty places last.
pub(super) struct Set<'a, T> {
    places: &'a mut [T],
}

impl<T: Copy + Default + PartialEq> Set<'_, T> {
    /// Where exactly this entry is, which is not an empty place.
    pub(super) fn position_of(&self, entry: T) -> Option<usize> {
        position_of(self.places, entry)
    }

    /// Adds an entry; the oldest falls out if the set is full.
    pub(super) fn push(&mut self, entry: T) {
        self.places.copy_within(..self.places.len() - 1, 1);
        self.places[0] = entry;
    }

    pub(super) fn remove(&mut self, place: usize) {
        self.places.copy_within(place + 1.., place);
        *self.places.last_mut().expect("a set has a place") = T::default();
    }
}

/// Looks at whole chunks, without a branch per entry, so that the compiler compares many entries at once.
pub(super) fn position_of<T: Copy + PartialEq>(entries: &[T], entry: T) -> Option<usize> {
    const CHUNK: usize = 32;
    let holds = |chunk: &[T]| chunk.iter().fold(false, |found, held| found | (*held == entry));
    let first = CHUNK * entries.chunks(CHUNK).position(holds)?;
    entries[first..].iter().position(|held| *held == entry).map(|place| first + place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(set: &Set<'_, u16>) -> Vec<u16> {
        set.places.to_vec()
    }

    #[test]
    fn a_set_keeps_the_newest_and_closes_its_gaps() {
        let mut sets = Sets::<u16>::new(4, 16);
        assert_eq!(sets.set_count(), 1);
        let mut set = sets.set_at(0);
        for entry in 1..=6 {
            set.push(entry);
        }
        assert_eq!(entries(&set), [6, 5, 4, 3]);
        set.remove(set.position_of(5).expect("it is there"));
        assert_eq!(entries(&set), [6, 4, 3, 0]);
    }

    #[test]
    fn an_entry_is_found_wherever_it_is() {
        let entries: Vec<u32> = (1..=100).collect();
        assert!((1..=100).all(|entry| position_of(&entries, entry).is_some_and(|place| entries[place] == entry)));
        assert_eq!((position_of(&entries, 0), position_of(&[], 1_u32)), (None, None));
    }

    #[test]
    fn places_are_divided_evenly_among_sets() {
        let sets = Sets::<u16>::new(1000, 256);
        assert_eq!((sets.set_count(), sets.ways), (4, 250));
    }
}
