//! What hosts wrote just when the last SSD left: the log cannot take it, and it goes to the backing devices instead. The frame sees to
//! that.

use std::cell::RefCell;
use std::collections::VecDeque;

use hotset_block::sync::{Event, Wait};

use crate::log::queue::Append;

/// See the file's summary. As much as waited for the log at most.
#[derive(Default)]
pub(crate) struct Redirects {
    appends: RefCell<VecDeque<Append>>,
    added: Event,
}

impl Redirects {
    pub(super) fn push(&self, append: Append) {
        self.appends.borrow_mut().push_back(append);
        self.added.wake_all();
    }

    pub(crate) fn next(&self) -> Option<Append> {
        self.appends.borrow_mut().pop_front()
    }

    /// There is another one, or nothing of the pool runs any more.
    pub(crate) fn added(&self) -> Wait<'_> {
        self.added.wait()
    }

    /// Whoever sees to them looks whether it still should.
    pub(crate) fn wake(&self) {
        self.added.wake_all();
    }
}
