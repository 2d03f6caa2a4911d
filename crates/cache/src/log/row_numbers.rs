//! The numbers of rows: none is ever used again, and those below a bound are free.

use std::cell::Cell;

/// See the file's summary.
pub(crate) struct RowNumbers {
    next: Cell<u64>,
    oldest_live: Cell<u64>,
    /// The same, as the newest record says that is durable.
    oldest_recorded: Cell<u64>,
}

/// Rows that a record declares free which is not written yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    before: u64,
    free: u64,
}

impl Default for RowNumbers {
    fn default() -> Self {
        Self { next: Cell::new(1), oldest_live: Cell::new(1), oldest_recorded: Cell::new(1) }
    }
}

impl RowNumbers {
    /// A start goes on behind the rows of the record, the oldest of which that lives has this number.
    pub(crate) fn go_on_behind(&self, oldest_live: u64, newest: Option<u64>) {
        self.oldest_live.set(oldest_live.max(1));
        self.oldest_recorded.set(oldest_live.max(1));
        self.next.set(newest.map_or(1, |newest| newest + 1).max(self.oldest_live.get()));
    }

    /// That of the next row.
    pub(crate) fn take(&self) -> u64 {
        let number = self.next.get();
        assert!(self.is_live(number), "row {number} is new, and was declared free");
        self.next.replace(number + 1)
    }

    /// No record says that it is free.
    pub(crate) fn is_live(&self, row: u64) -> bool {
        row >= self.oldest_live.get()
    }

    pub(crate) fn oldest_live(&self) -> u64 {
        self.oldest_live.get()
    }

    /// The next record says that all rows up to this one are free; answers what it is withdrawn with.
    ///
    /// # Panics
    /// If there was no such row yet: a later one would be free before it has taken anything.
    pub(crate) fn declare_free(&self, row: u64) -> Freed {
        assert!(row < self.next.get(), "row {row} is declared free, and was never opened");
        let before = self.oldest_live.get();
        let free = before.max(row + 1);
        self.oldest_live.set(free);
        Freed { before, free }
    }

    /// That record could not be written, unless another one has gone further.
    pub(crate) fn withdraw_free(&self, Freed { before, free }: Freed) {
        if self.oldest_live.get() == free {
            self.oldest_live.set(before);
        }
    }

    /// The next record says that all rows that there were are free.
    pub(crate) fn declare_all_free(&self) {
        self.oldest_live.set(self.next.get());
    }

    /// A record is durable: a start asks for no row before this one.
    pub(crate) fn are_recorded(&self, oldest_live: u64) {
        assert!(oldest_live <= self.next.get(), "rows up to {oldest_live} are free on record, and were never opened");
        self.oldest_recorded.set(self.oldest_recorded.get().max(oldest_live));
    }

    /// A durable record says so.
    pub(crate) fn is_free_on_record(&self, row: u64) -> bool {
        row < self.oldest_recorded.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_once_and_free_on_record_only_when_a_record_said_so() {
        let numbers = RowNumbers::default();
        numbers.go_on_behind(3, Some(5));
        assert_eq!((numbers.take(), numbers.take()), (6, 7));
        assert!(!numbers.is_live(2) && numbers.is_live(3) && numbers.is_free_on_record(2));
        let freed = numbers.declare_free(4);
        assert!(!numbers.is_live(4) && numbers.is_live(5) && !numbers.is_free_on_record(3));
        numbers.declare_free(3);
        assert!(!numbers.is_live(4), "what was free before is free still");
        numbers.withdraw_free(freed);
        assert!(numbers.is_live(3));
        let freed = numbers.declare_free(4);
        numbers.declare_all_free();
        numbers.withdraw_free(freed);
        assert!(!numbers.is_live(7) && numbers.is_live(8), "another one has gone further");
        numbers.are_recorded(numbers.oldest_live());
        numbers.are_recorded(5);
        assert!(numbers.is_free_on_record(7) && !numbers.is_free_on_record(8));
        assert_eq!(numbers.take(), 8);
    }

    #[test]
    #[should_panic(expected = "is declared free, and was never opened")]
    fn a_row_is_not_free_before_it_was_opened() {
        RowNumbers::default().declare_free(1);
    }

    #[test]
    #[should_panic(expected = "are free on record, and were never opened")]
    fn no_record_declares_rows_free_that_were_never_opened() {
        RowNumbers::default().are_recorded(2);
    }

    #[test]
    #[should_panic(expected = "is new, and was declared free")]
    fn a_new_row_is_not_one_that_was_declared_free() {
        let numbers = RowNumbers::default();
        numbers.oldest_live.set(2);
        numbers.take();
    }
}
