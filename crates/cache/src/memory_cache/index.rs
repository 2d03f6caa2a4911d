//! Finds pages by hash: an open-addressing table of numbers of places, each with half of the page's hash beside it, so that a search
//! hardly ever looks at a place that is not the page's.

use crate::address::{at, bucket, low_half};

/// No place.
const EMPTY: u64 = u64::MAX;
/// The bytes of memory for each page that there is room for.
pub(super) const BYTES_PER_PAGE: u64 = 12;

/// Linear probing; a removal shifts back what follows, so there are no tombstones.
pub(super) struct PageIndex {
    /// The lower half of the hash above, the number of the place below. Filled to two thirds at most.
    cells: Vec<u64>,
}

impl PageIndex {
    /// For so many pages at most.
    pub(super) fn new(pages: u32) -> Self {
        Self { cells: vec![EMPTY; at(pages) + at(pages) / 2 + 1] }
    }

    /// The place with this hash for which `is_it` holds.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.find_cell(hash, is_it).map(|cell| low_half(self.cells[cell]))
    }

    /// Adds a place that is not there.
    pub(super) fn insert(&mut self, hash: u64, place: u32) {
        let mut cell = bucket(hash, self.cells.len());
        while self.cells[cell] != EMPTY {
            cell = self.after(cell);
        }
        self.cells[cell] = (u64::from(low_half(hash)) << 32) | u64::from(place);
    }

    /// Takes a place away; `hash_of` knows the hashes of all that are there.
    pub(super) fn remove(&mut self, hash: u64, place: u32, hash_of: impl Fn(u32) -> u64) {
        let Some(mut hole) = self.find_cell(hash, |found| found == place) else {
            unreachable!("place {place} is given free, and the index does not have it")
        };
        let mut next = self.after(hole);
        while self.cells[next] != EMPTY {
            let home = bucket(hash_of(low_half(self.cells[next])), self.cells.len());
            if self.distance(home, next) >= self.distance(hole, next) {
                self.cells[hole] = self.cells[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.cells[hole] = EMPTY;
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> u64 {
        crate::address::vec_bytes(&self.cells)
    }

    fn find_cell(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        let mut cell = bucket(hash, self.cells.len());
        loop {
            let held = self.cells[cell];
            if held == EMPTY {
                return None;
            }
            if held >> 32 == u64::from(low_half(hash)) && is_it(low_half(held)) {
                return Some(cell);
            }
            cell = self.after(cell);
        }
    }

    fn after(&self, cell: usize) -> usize {
        if cell + 1 == self.cells.len() { 0 } else { cell + 1 }
    }

    /// Steps from one cell on to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + self.cells.len() - from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refused::assert_refused;

    #[test]
    fn a_place_that_is_given_free_was_in_the_index() {
        let mut index = PageIndex::new(4);
        assert_refused("place 1 is given free, and the index does not have it", || index.remove(0, 1, |_| 0));
    }
}
