//! Finds pages by hash: an open-addressing table of numbers of places, each with half of the page's hash beside it, so that a search
//! hardly ever looks at a place that is not the page's.
//!
//! A table of another size is filled from the one before it in turns; until then both are searched.

use crate::address::{at, bucket, low_half};

/// No place: memory that nobody touched yet, so that a new table takes neither time nor memory at first.
const EMPTY: u64 = 0;
/// The bytes of memory for each page that there is room for.
pub(super) const BYTES_PER_PAGE: u64 = 12;

pub(super) struct PageIndex {
    /// Where places are added.
    cells: Cells,
    /// What is left of the table before it, and how many of its cells have been emptied.
    before: Option<(Cells, usize)>,
}

impl PageIndex {
    /// For so many pages at most.
    pub(super) fn new(pages: u32) -> Self {
        Self { cells: Cells::new(pages), before: None }
    }

    /// How many pages there is room for.
    pub(super) fn room(&self) -> u32 {
        self.cells.pages_max
    }

    /// Room for so many pages from here on, and for what is there: [`Self::move_some`] follows until nothing is left to be moved.
    pub(super) fn resize(&mut self, pages: u32) {
        assert!(self.before.is_none(), "the index gets another size while it is moved to one");
        self.before = Some((std::mem::replace(&mut self.cells, Cells::new(pages)), 0));
    }

    pub(super) fn is_moved(&self) -> bool {
        self.before.is_none()
    }

    /// Moves what is in so many cells of the table before; `hash_of` knows the hashes of all that are there.
    pub(super) fn move_some(&mut self, count: usize, hash_of: impl Fn(u32) -> u64) {
        let Some((before, emptied)) = &mut self.before else { return };
        let end = before.cells.len().min(*emptied + count);
        for cell in *emptied..end {
            while let Some(place) = before.place_in(cell) {
                before.clear(cell, &hash_of);
                self.cells.insert(hash_of(place), place);
            }
        }
        *emptied = end;
        if end == before.cells.len() {
            self.before = None;
        }
    }

    /// The place with this hash for which `is_it` holds.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.cells.find(hash, &is_it);
        found.or_else(|| self.before.as_ref()?.0.find(hash, &is_it))
    }

    /// Adds a place that is not there.
    pub(super) fn insert(&mut self, hash: u64, place: u32) {
        self.cells.insert(hash, place);
    }

    /// Takes a place away; `hash_of` knows the hashes of all that are there.
    pub(super) fn remove(&mut self, hash: u64, place: u32, hash_of: impl Fn(u32) -> u64) {
        let (cells, cell) = self.cell_of(hash, place);
        cells.clear(cell, hash_of);
    }

    /// What was at one place is at another one.
    pub(super) fn replace(&mut self, hash: u64, from: u32, to: u32) {
        let (cells, cell) = self.cell_of(hash, from);
        cells.cells[cell] = filled(hash, to);
    }

    fn cell_of(&mut self, hash: u64, place: u32) -> (&mut Cells, usize) {
        let before = self.before.as_mut().map(|(before, _)| before);
        for cells in [Some(&mut self.cells), before].into_iter().flatten() {
            if let Some(cell) = cells.find_cell(hash, |found| found == place) {
                return (cells, cell);
            }
        }
        unreachable!("place {place} is given free, and the index does not have it")
    }

    #[cfg(test)]
    pub(super) fn memory_bytes(&self) -> u64 {
        crate::address::vec_bytes(&self.cells.cells)
    }

    /// Cells that are yet to be moved.
    #[cfg(test)]
    pub(super) fn left_to_move(&self) -> usize {
        self.before.as_ref().map_or(0, |(before, emptied)| before.cells.len() - emptied)
    }
}

/// Linear probing; a removal shifts back what follows, so there are no tombstones.
struct Cells {
    /// The lower half of the hash above, the number of the place and one below. Filled to two thirds at most.
    cells: Vec<u64>,
    pages_max: u32,
}

impl Cells {
    fn new(pages_max: u32) -> Self {
        Self { cells: vec![EMPTY; at(pages_max) + at(pages_max) / 2 + 1], pages_max }
    }

    fn place_in(&self, cell: usize) -> Option<u32> {
        low_half(self.cells[cell]).checked_sub(1)
    }

    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.place_in(self.find_cell(hash, is_it)?)
    }

    fn insert(&mut self, hash: u64, place: u32) {
        let mut cell = bucket(hash, self.cells.len());
        while self.cells[cell] != EMPTY {
            cell = self.after(cell);
        }
        self.cells[cell] = filled(hash, place);
    }

    fn clear(&mut self, cell: usize, hash_of: impl Fn(u32) -> u64) {
        let (mut hole, mut next) = (cell, self.after(cell));
        while let Some(place) = self.place_in(next) {
            let home = bucket(hash_of(place), self.cells.len());
            if self.distance(home, next) >= self.distance(hole, next) {
                self.cells[hole] = self.cells[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.cells[hole] = EMPTY;
    }

    fn find_cell(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<usize> {
        let mut cell = bucket(hash, self.cells.len());
        while let Some(place) = self.place_in(cell) {
            if self.cells[cell] >> 32 == u64::from(low_half(hash)) && is_it(place) {
                return Some(cell);
            }
            cell = self.after(cell);
        }
        None
    }

    fn after(&self, cell: usize) -> usize {
        if cell + 1 == self.cells.len() { 0 } else { cell + 1 }
    }

    /// Steps from one cell on to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + self.cells.len() - from }
    }
}

fn filled(hash: u64, place: u32) -> u64 {
    (u64::from(low_half(hash)) << 32) | (u64::from(place) + 1)
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
