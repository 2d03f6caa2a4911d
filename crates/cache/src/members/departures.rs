//! SSDs that are out of use, until the frame has seen to what follows from it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hotset_block::sync::{Event, Wait};

/// What the frame has to do about an SSD.
pub(crate) enum Gone<S> {
    /// It is out of use, and has to leave durably.
    OutOfUse(Rc<S>),
    /// It took no writes, and now it cannot be read either.
    Unreadable(Rc<S>),
}

/// What the frame has not done yet.
pub(crate) struct Departures<S> {
    waiting: RefCell<VecDeque<Gone<S>>>,
    added: Event,
}

impl<S> Default for Departures<S> {
    fn default() -> Self {
        Self { waiting: RefCell::default(), added: Event::new() }
    }
}

impl<S> Departures<S> {
    /// Completes when there is one more.
    pub(crate) fn added(&self) -> Wait<'_> {
        self.added.wait()
    }

    pub(crate) fn next(&self) -> Option<Gone<S>> {
        self.waiting.borrow_mut().pop_front()
    }

    pub(crate) fn push(&self, gone: Gone<S>) {
        self.waiting.borrow_mut().push_back(gone);
        self.added.wake_all();
    }
}
