//! The numbers of the newest records of which every member keeps a copy.

use std::cell::Cell;

use crate::format::record::RecordKind;

/// See the file's summary.
pub(crate) struct RecordNumbers {
    members: Cell<u64>,
    catalogue: Cell<u64>,
    rows: Cell<u64>,
}

impl RecordNumbers {
    pub(crate) fn new(members: u64, catalogue: u64, rows: u64) -> Self {
        Self { members: Cell::new(members), catalogue: Cell::new(catalogue), rows: Cell::new(rows) }
    }

    /// The number of the next record of this kind: none is used twice.
    pub(super) fn take(&self, kind: RecordKind) -> u64 {
        let newest = self.of(kind);
        let number = newest.get().checked_add(1).expect("a pool does not write so many records");
        newest.set(number);
        number
    }

    /// # Panics
    /// If another record of this kind got a number meanwhile: both were written to the same areas at once.
    pub(super) fn assert_newest(&self, kind: RecordKind, number: u64) {
        assert_eq!(self.of(kind).get(), number, "two {kind:?} records are written at once, to the same areas");
    }

    fn of(&self, kind: RecordKind) -> &Cell<u64> {
        match kind {
            RecordKind::Members => &self.members,
            RecordKind::Rows => &self.rows,
            RecordKind::Catalogue => &self.catalogue,
            RecordKind::Losses | RecordKind::Witness => unreachable!("whoever writes these numbers them"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_record_has_numbers_of_its_own_that_only_grow() {
        let numbers = RecordNumbers::new(7, 8, 9);
        assert_eq!([7, 8].map(|_| numbers.take(RecordKind::Members)), [8, 9]);
        assert_eq!((numbers.take(RecordKind::Catalogue), numbers.take(RecordKind::Rows)), (9, 10));
        numbers.assert_newest(RecordKind::Members, 9);
    }

    #[test]
    #[should_panic(expected = "two Rows records are written at once")]
    fn records_of_a_kind_are_written_one_after_the_other() {
        let numbers = RecordNumbers::new(0, 0, 0);
        let first = numbers.take(RecordKind::Rows);
        numbers.take(RecordKind::Rows);
        numbers.assert_newest(RecordKind::Rows, first);
    }

    #[test]
    #[should_panic(expected = "whoever writes these numbers them")]
    fn losses_have_numbers_of_their_own() {
        RecordNumbers::new(0, 0, 0).take(RecordKind::Losses);
    }
}
