//! The memory that the requests of all connections of a server take together, and who gets the next of it.
//!
//! Nobody takes memory that is not there: who needs more queues up, and is not read from meanwhile (so that TCP slows
//! its client down). Three rules keep the queue moving. A request has all that it needs before its payload is received, so
//! that what was begun can be finished. A little is every connection's own, so that ordinary requests never wait for those
//! of others. And a client that holds what others wait for, and neither sends what it announced nor takes its replies, is
//! disconnected (`ClientWatch`).

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use hotset_block::sync::Event;

/// What a connection may take beside all others: not counted, and never waited for.
pub(crate) const OWN_BYTES: usize = 128 << 10;
/// What one connection may take, where there is enough: two requests of the longest kind.
const SHARE_BYTES_MAX: usize = 64 << 20;
/// So many connections may take all they may before each gets less.
const FULL_SHARES: usize = 8;

/// A request's share of its connection's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) requests: usize,
    pub(crate) bytes: usize,
}

impl Cost {
    pub(crate) const NOTHING: Self = Self { requests: 0, bytes: 0 };

    pub(crate) fn plus(self, other: Self) -> Self {
        Self { requests: self.requests + other.requests, bytes: self.bytes + other.bytes }
    }
}

/// See the file's summary. A handle: cloning it is cheap.
#[derive(Clone)]
pub(crate) struct Budget {
    inner: Rc<BudgetInner>,
}

struct BudgetInner {
    limit_bytes: usize,
    used_bytes: Cell<usize>,
    share_bytes: Cell<usize>,
    /// Numbers of those who wait, in order.
    queue: RefCell<VecDeque<u64>>,
    next_number: Cell<u64>,
    capacity_freed: Event,
}

/// A place in the queue. Dropping it leaves the queue.
pub(crate) struct Queued<'a> {
    budget: &'a BudgetInner,
    number: u64,
}

impl Budget {
    /// Of `limit_bytes` in all, [`OWN_BYTES`] of each connection not counted.
    pub(crate) fn new(limit_bytes: usize) -> Self {
        let inner = BudgetInner {
            limit_bytes,
            used_bytes: Cell::new(0),
            share_bytes: Cell::new(0),
            queue: RefCell::default(),
            next_number: Cell::new(0),
            capacity_freed: Event::new(),
        };
        let budget = Self { inner: Rc::new(inner) };
        budget.divide_among(0);
        budget
    }

    /// There are so many connections.
    pub(crate) fn divide_among(&self, connections: usize) {
        let share = self.inner.limit_bytes / connections.max(FULL_SHARES);
        self.inner.share_bytes.set(share.clamp(OWN_BYTES, SHARE_BYTES_MAX));
    }

    /// What one connection may have in flight, unless a single request is longer.
    pub(crate) fn share_bytes(&self) -> usize {
        self.inner.share_bytes.get()
    }

    /// Whether so much more is there now. If nothing is taken, anything is.
    pub(crate) fn has_room_for(&self, more_bytes: usize) -> bool {
        let used = self.inner.used_bytes.get();
        more_bytes == 0 || used == 0 || used + more_bytes <= self.inner.limit_bytes
    }

    /// Whether somebody waits.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.inner.queue.borrow().is_empty()
    }

    /// The end of the queue.
    pub(crate) fn queue_up(&self) -> Queued<'_> {
        let number = self.inner.next_number.get();
        self.inner.next_number.set(number + 1);
        self.inner.queue.borrow_mut().push_back(number);
        Queued { budget: &self.inner, number }
    }

    /// What was counted as `before` is `now`.
    pub(crate) fn recount(&self, before: usize, now: usize) {
        self.inner.used_bytes.set(self.inner.used_bytes.get() - before + now);
        if now < before {
            self.inner.tell_queue();
        }
    }
}

impl BudgetInner {
    fn tell_queue(&self) {
        if !self.queue.borrow().is_empty() {
            self.capacity_freed.wake_all();
        }
    }
}

impl Queued<'_> {
    pub(crate) fn is_first(&self) -> bool {
        self.budget.queue.borrow().front() == Some(&self.number)
    }

    /// Waits until something was given back, or somebody left the queue.
    pub(crate) async fn capacity_freed(&self) {
        self.budget.capacity_freed.wait().await;
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.budget.queue.borrow_mut().retain(|number| *number != self.number);
        self.budget.tell_queue();
    }
}
