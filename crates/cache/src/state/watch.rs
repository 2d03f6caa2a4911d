//! The operations in flight on one SSD: since when, and whom to wake when it has to leave.

use std::cell::RefCell;
use std::task::Waker;

use hotset_block::Instant;

/// Seats for operations that did not complete at once.
#[derive(Default)]
pub(crate) struct Watch {
    seats: RefCell<Seats>,
}

#[derive(Default)]
struct Seats {
    taken: Vec<Option<(Instant, Waker)>>,
    free: Vec<usize>,
}

/// A seat; it is given up when this is dropped.
pub(crate) struct Seat<'a> {
    watch: &'a Watch,
    index: usize,
}

impl Watch {
    pub(crate) fn sit(&self, since: Instant, waker: Waker) -> Seat<'_> {
        let mut seats = self.seats.borrow_mut();
        let index = seats.free.pop().unwrap_or(seats.taken.len());
        if index == seats.taken.len() {
            seats.taken.push(None);
        }
        seats.taken[index] = Some((since, waker));
        Seat { watch: self, index }
    }

    /// When the operation that is in flight for longest began.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.seats.borrow().taken.iter().flatten().map(|(since, _)| *since).min()
    }

    /// Wakes every operation's task, to look whether the SSD is still there.
    pub(crate) fn wake_all(&self) {
        let wakers: Vec<Waker> = self.seats.borrow().taken.iter().flatten().map(|(_, waker)| waker.clone()).collect();
        for waker in wakers {
            waker.wake();
        }
    }
}

impl Seat<'_> {
    /// The task may be polled with another waker than before.
    pub(crate) fn refresh(&self, waker: &Waker) {
        if let Some((_, seated)) = &mut self.watch.seats.borrow_mut().taken[self.index] {
            seated.clone_from(waker);
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut seats = self.watch.seats.borrow_mut();
        seats.taken[self.index] = None;
        seats.free.push(self.index);
    }
}
