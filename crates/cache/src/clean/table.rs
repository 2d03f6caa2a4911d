//! Finds slots by hash: an open-addressing table of slot indices, without the keys.
//!
//! A cell is a slot's index with a tag, taken from the hash, in the bits above it, so that a probe hardly ever looks at
//! the key of a wrong slot. Linear probing; a removal shifts back what follows, so there are no tombstones. The table
//! is filled to 5/6 at most, 4.8 bytes a slot: then the search for what is not there ends after 18 cells on average.

use crate::address::{SlotIndex, at, bucket, low_half, vec_bytes};

/// No slot. A real cell's index bits are never all ones.
const EMPTY: u32 = u32::MAX;

/// The bytes of memory per slot that it was made for.
pub(crate) const BYTES_PER_SLOT: f64 = 4.0 * 6.0 / 5.0;

pub(super) struct Table {
    /// It is for the slots before this one.
    slots: u32,
    cells: Vec<u32>,
    cell_count: usize,
    slot_mask: u32,
}

impl Table {
    /// A table for the slots `0 .. slots`.
    pub(super) fn new(slots: u32) -> Self {
        let mut table = Self::begun(slots);
        table.make_some(usize::MAX);
        table
    }

    /// The same, of which nothing is made yet ([`Self::make_some`]).
    pub(super) fn begun(slots: u32) -> Self {
        let cell_count = (at(slots) * 6).div_ceil(5) + 1;
        let slot_bits = u32::BITS - slots.leading_zeros();
        let slot_mask = 1_u32.checked_shl(slot_bits).map_or(u32::MAX, |end| end - 1);
        Self { slots, cells: Vec::with_capacity(cell_count), cell_count, slot_mask }
    }

    /// Makes so many cells more at most; false: it had all.
    pub(super) fn make_some(&mut self, count: usize) -> bool {
        let made = self.cells.len();
        self.cells.resize(made.saturating_add(count).min(self.cell_count), EMPTY);
        self.cells.len() > made
    }

    pub(super) fn is_made(&self) -> bool {
        self.cells.len() == self.cell_count
    }

    /// It is for so many slots, or more.
    pub(super) fn is_for(&self, slots: u32) -> bool {
        self.slots >= slots
    }

    /// The slot with this hash for which `is_it` holds, and where its cell is.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(SlotIndex) -> bool) -> Option<(usize, SlotIndex)> {
        let tag = low_half(hash) & !self.slot_mask;
        let mut cell_index = bucket(hash, self.cells.len());
        loop {
            let cell = self.cells[cell_index];
            if cell == EMPTY {
                return None;
            }
            let slot = SlotIndex(cell & self.slot_mask);
            if cell & !self.slot_mask == tag && is_it(slot) {
                return Some((cell_index, slot));
            }
            cell_index = self.after(cell_index);
        }
    }

    /// Adds a slot that is not there.
    pub(super) fn insert(&mut self, hash: u64, slot: SlotIndex) {
        assert!(slot.0 <= self.slot_mask, "slot {} is none of those that the table was made for", slot.0);
        let mut cell_index = bucket(hash, self.cells.len());
        while self.cells[cell_index] != EMPTY {
            cell_index = self.after(cell_index);
        }
        self.cells[cell_index] = (low_half(hash) & !self.slot_mask) | slot.0;
    }

    /// Empties a cell and shifts back those behind it, whose hashes `hash_of` knows.
    pub(super) fn remove(&mut self, cell_index: usize, hash_of: impl Fn(SlotIndex) -> u64) {
        assert_ne!(self.cells[cell_index], EMPTY, "cell {cell_index} is emptied, and is empty");
        let mut hole = cell_index;
        let mut next = self.after(hole);
        while self.cells[next] != EMPTY {
            let cell = self.cells[next];
            let home = bucket(hash_of(SlotIndex(cell & self.slot_mask)), self.cells.len());
            if self.distance(home, next) >= self.distance(hole, next) {
                self.cells[hole] = cell;
                hole = next;
            }
            next = self.after(next);
        }
        self.cells[hole] = EMPTY;
    }

    /// Takes out a slot that is there and has this hash.
    pub(super) fn remove_slot(&mut self, hash: u64, slot: SlotIndex, hash_of: impl Fn(SlotIndex) -> u64) {
        let (cell_index, _) = self.find(hash, |candidate| candidate == slot).expect("every used slot is in the table");
        self.remove(cell_index, hash_of);
    }

    pub(super) fn memory_bytes(&self) -> u64 {
        vec_bytes(&self.cells)
    }

    /// Where it lies in memory.
    #[cfg(test)]
    pub(super) fn first_cell(&self) -> *const u32 {
        self.cells.as_ptr()
    }

    fn after(&self, cell_index: usize) -> usize {
        let next = cell_index + 1;
        if next == self.cells.len() { 0 } else { next }
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
    fn a_table_has_cells_for_its_own_slots() {
        let mut table = Table::new(4);
        assert_refused("slot 9 is none of those that the table was made for", || table.insert(0, SlotIndex(9)));
        assert_refused("cell 0 is emptied, and is empty", || table.remove(0, |_| 0));
    }
}
