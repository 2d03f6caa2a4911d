//! The row that takes batches, and the one that is made ready to be the next.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::log::row::Row;

/// See the file's summary.
#[derive(Default)]
pub(crate) struct OpenRows {
    current: RefCell<Option<Rc<Row>>>,
    prepared: RefCell<Option<Rc<Row>>>,
    preparing: Cell<bool>,
}

impl OpenRows {
    /// The row that takes batches.
    pub(crate) fn current(&self) -> Option<Rc<Row>> {
        self.current.borrow().clone()
    }

    pub(crate) fn is_current(&self, is_it: impl Fn(&Rc<Row>) -> bool) -> bool {
        self.current.borrow().as_ref().is_some_and(is_it)
    }

    /// No row takes batches from here on; answers the one that did.
    pub(crate) fn close_current(&self) -> Option<Rc<Row>> {
        self.current.take()
    }

    /// The row that is ready takes batches from here on.
    pub(crate) fn use_prepared(&self) -> Option<Rc<Row>> {
        let prepared = self.prepared.take()?;
        let former = self.current.replace(Some(Rc::clone(&prepared)));
        assert!(former.is_none(), "a row takes batches while another one does");
        let life = prepared.life();
        assert!(life.takes_batches(), "row {} is {life:?}, and is to take batches", prepared.number);
        Some(prepared)
    }

    pub(crate) fn has_prepared(&self) -> bool {
        self.prepared.borrow().is_some()
    }

    /// The row that is ready, if it is like this, will not take batches.
    pub(crate) fn withdraw_prepared(&self, is_it: impl Fn(&Row) -> bool) -> Option<Rc<Row>> {
        self.prepared.borrow_mut().take_if(|row| is_it(row))
    }

    /// One is being made ready from here on. False: one is already, or is ready.
    pub(crate) fn begin_preparing(&self) -> bool {
        !self.has_prepared() && !self.preparing.replace(true)
    }

    pub(crate) fn is_preparing(&self) -> bool {
        self.preparing.get()
    }

    /// It is ready.
    pub(crate) fn is_ready(&self, row: Rc<Row>) {
        let other = self.prepared.replace(Some(row));
        assert!(other.is_none() && self.preparing.get(), "a row is ready that nobody makes ready");
    }

    /// None is being made ready any more, whether one is ready or not.
    pub(crate) fn end_preparing(&self) {
        let prepared = self.preparing.replace(false);
        assert!(prepared, "no row is made ready any more, and none was");
    }

    /// Pages of data, about, for which both have place still.
    pub(crate) fn pages_left(&self) -> u64 {
        let rows = [&self.current, &self.prepared];
        rows.into_iter().filter_map(|row| row.borrow().as_ref().map(|row| row.pages_left())).sum()
    }
}

#[cfg(test)]
mod tests {
    use hotset_block::RealInstant;

    use super::*;
    use crate::log::row_life::RowChange;
    use crate::log::segment_copy::Mirror;

    /// Its headers are not durable yet.
    fn new_row(number: u64) -> Rc<Row> {
        Rc::new(Row::new(0, number, 1, vec![[Mirror::Nowhere; 2]], 256, RealInstant(0)))
    }

    fn row(number: u64) -> Rc<Row> {
        let row = new_row(number);
        row.change(RowChange::HeadersDurable);
        row
    }

    #[test]
    fn one_row_is_made_ready_at_a_time_and_takes_batches_once() {
        let rows = OpenRows::default();
        let pages = row(1).pages_left();
        assert!(rows.use_prepared().is_none() && rows.begin_preparing());
        assert!(!rows.begin_preparing() && rows.is_preparing(), "one is on its way");
        rows.is_ready(row(1));
        rows.end_preparing();
        assert!(!rows.begin_preparing() && !rows.is_preparing(), "one is ready");
        assert_eq!(rows.use_prepared().map(|row| row.number), Some(1));
        assert!(rows.is_current(|row| row.number == 1) && !rows.has_prepared());
        assert!(rows.begin_preparing());
        rows.is_ready(row(2));
        rows.end_preparing();
        assert_eq!(rows.pages_left(), 2 * pages);
        assert!(rows.withdraw_prepared(|row| row.number == 3).is_none());
        assert_eq!(rows.withdraw_prepared(|row| row.number == 2).map(|row| row.number), Some(2));
        assert_eq!(rows.pages_left(), pages);
        assert_eq!(rows.close_current().map(|row| row.number), Some(1));
        assert!(rows.current().is_none() && rows.close_current().is_none() && rows.use_prepared().is_none());
    }
    #[test]
    #[should_panic(expected = "a row takes batches while another one does")]
    fn a_row_is_taken_into_use_when_the_one_before_is_closed() {
        let rows = OpenRows::default();
        for number in [1, 2] {
            assert!(rows.begin_preparing());
            rows.is_ready(row(number));
            rows.end_preparing();
            rows.use_prepared();
        }
    }

    #[test]
    #[should_panic(expected = "a row is ready that nobody makes ready")]
    fn a_row_is_ready_when_it_was_made_ready() {
        OpenRows::default().is_ready(row(1));
    }

    #[test]
    #[should_panic(expected = "no row is made ready any more, and none was")]
    fn a_row_is_made_ready_once() {
        OpenRows::default().end_preparing();
    }

    #[test]
    #[should_panic(expected = "row 1 is Opening, and is to take batches")]
    fn a_row_takes_no_batch_before_its_headers_are_durable() {
        let rows = OpenRows::default();
        assert!(rows.begin_preparing());
        rows.is_ready(new_row(1));
        rows.use_prepared();
    }
}
