//! The requests of a connection that are not answered yet, and what they may take of memory.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use hotset_block::Instant;
use hotset_block::sync::Event;

use super::Cost;
use super::budget::{Budget, OWN_BYTES};
use super::progress::{Ended, Progress, earliest, takes_long};
use crate::nbd::wire::Request;

/// Requests of a connection at most, from their receipt until their reply is sent.
const REQUESTS_MAX: usize = 1024;

/// Names a request while it is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(usize);

struct Entry {
    request: Request,
    cost: Cost,
    progress: Progress,
    /// The client was told that it failed; the operation goes on behind (rule `late-io`).
    given_up: bool,
}

/// See the file's summary. What a request costs is reserved before its payload is received and given back when its reply is
/// sent, or, if the client was answered before, when the operation is over.
pub(crate) struct Pending {
    entries: RefCell<Vec<Option<Entry>>>,
    free: RefCell<Vec<usize>>,
    used_requests: Cell<usize>,
    used_bytes: Cell<usize>,
    /// What of it is counted in the budget.
    counted_bytes: Cell<usize>,
    budget: Budget,
    /// When the oldest request was received of those that were answered since the last look.
    oldest_ended: Cell<Option<Instant>>,
    eased: Event,
    watched: Cell<bool>,
}

/// What a request costs, before it begins. Dropping it gives that back.
pub(crate) struct Reserved<'a> {
    pending: &'a Pending,
    cost: Cost,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.pending.release(self.cost);
    }
}

impl Pending {
    pub(crate) fn within(budget: Budget) -> Self {
        Self {
            entries: RefCell::default(),
            free: RefCell::default(),
            used_requests: Cell::new(0),
            used_bytes: Cell::new(0),
            counted_bytes: Cell::new(0),
            oldest_ended: Cell::new(None),
            budget,
            eased: Event::new(),
            watched: Cell::new(false),
        }
    }

    /// Whether the connection itself may have a request of that payload more. One that is alone always may.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        let used = self.used_bytes.get();
        (used == 0 || used + bytes <= self.budget.share_bytes()) && self.used_requests.get() < REQUESTS_MAX
    }

    /// Waits until that much memory is there, in line behind the other connections, and takes it.
    pub(crate) async fn reserve(&self, bytes: usize) -> Reserved<'_> {
        if self.counts_more_with(bytes) > 0 {
            let place = self.budget.stand_in_line();
            while !(place.is_first() && self.budget.has(self.counts_more_with(bytes))) {
                place.eased().await;
            }
        }
        self.take(bytes)
    }

    fn take(&self, bytes: usize) -> Reserved<'_> {
        let cost = Cost { requests: 1, bytes };
        self.used_requests.set(self.used_requests.get() + cost.requests);
        self.used_bytes.set(self.used_bytes.get() + cost.bytes);
        self.count();
        Reserved { pending: self, cost }
    }

    /// What the budget would have to give for a request of that payload.
    fn counts_more_with(&self, bytes: usize) -> usize {
        counted(self.used_bytes.get() + bytes) - self.counted_bytes.get()
    }

    fn count(&self) {
        let now = counted(self.used_bytes.get());
        self.budget.recount(self.counted_bytes.replace(now), now);
    }

    /// Whether others may have to wait for what this connection holds.
    pub(crate) fn holds_counted(&self) -> bool {
        self.counted_bytes.get() > 0
    }

    pub(crate) fn begin(&self, reserved: Reserved<'_>, request: Request, received: Instant) -> Ticket {
        let cost = reserved.cost;
        // The entry has it now.
        std::mem::forget(reserved);
        let entry = Some(Entry { request, cost, progress: Progress::new(received), given_up: false });
        let mut entries = self.entries.borrow_mut();
        if let Some(index) = self.free.borrow_mut().pop() {
            entries[index] = entry;
            return Ticket(index);
        }
        entries.push(entry);
        Ticket(entries.len() - 1)
    }

    /// The operation is over. What the reply costs until it is sent; `None` if the client was answered already.
    pub(crate) fn end(&self, ticket: Ticket) -> Option<Cost> {
        let entry = self.entries.borrow_mut()[ticket.0].take().expect("an operation ends once");
        self.free.borrow_mut().push(ticket.0);
        if entry.given_up {
            self.release(entry.cost);
            return None;
        }
        self.oldest_ended.set(earliest(self.oldest_ended.get(), Some(entry.progress.received)));
        Some(entry.cost)
    }

    /// What ended since this was asked last. With `steps`, what takes long has got on.
    pub(crate) fn ended(&self, steps: bool) -> Ended {
        let entries = self.entries.borrow();
        let long = entries.iter().flatten().filter(|entry| steps && !entry.given_up && takes_long(&entry.request));
        let oldest = earliest(self.oldest_ended.take(), long.map(|entry| entry.progress.received).min());
        Ended { oldest, steps }
    }

    /// Gives up the requests that have made no progress for `timeout`, given what `ended` on their export since the last
    /// look: the client is to be told that they failed.
    pub(crate) fn give_up_late(&self, ended: &Ended, now: Instant, timeout: Duration) -> Vec<Request> {
        let mut entries = self.entries.borrow_mut();
        let waiting = entries.iter_mut().flatten().filter(|entry| !entry.given_up);
        let late = waiting.filter_map(|entry| {
            entry.given_up = entry.progress.is_late(&entry.request, ended, now, timeout);
            entry.given_up.then_some(entry.request)
        });
        late.collect()
    }

    /// Gives back what a request took.
    pub(crate) fn release(&self, cost: Cost) {
        self.used_requests.set(self.used_requests.get() - cost.requests);
        self.used_bytes.set(self.used_bytes.get() - cost.bytes);
        self.count();
        if self.watched.replace(false) {
            self.eased.wake_all();
        }
    }

    /// Waits until something was released.
    pub(crate) async fn eased(&self) {
        self.watched.set(true);
        self.eased.wait().await;
    }

    /// Requests of which the operation or the reply is under way.
    pub(crate) fn requests(&self) -> usize {
        self.used_requests.get()
    }
}

impl Drop for Pending {
    /// What a connection that broke had reserved and not begun is gone with it.
    fn drop(&mut self) {
        self.budget.recount(self.counted_bytes.get(), 0);
    }
}

fn counted(bytes: usize) -> usize {
    bytes.saturating_sub(OWN_BYTES)
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::nbd::wire::Command;

    const MIB: usize = 1 << 20;

    fn request(cookie: u64) -> Request {
        Request { flags: 0, command: Command::Read, cookie, offset: 0, length: 512 }
    }

    fn alone() -> Pending {
        Pending::within(Budget::new(512 * MIB))
    }

    fn begin(pending: &Pending, cookie: u64, bytes: usize, received: Instant) -> Ticket {
        pending.begin(pending.take(bytes), request(cookie), received)
    }

    fn finish(pending: &Pending, ticket: Ticket) {
        pending.release(pending.end(ticket).expect("not given up"));
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_request_keeps_its_share_until_its_reply_is_sent() {
        let pending = alone();
        let ticket = begin(&pending, 1, 64 * MIB, Instant(0));
        assert!(!pending.has_room_for(1));
        let cost = pending.end(ticket).expect("not given up");
        assert!(!pending.has_room_for(1));
        pending.release(cost);
        assert!(pending.has_room_for(1) && pending.requests() == 0);
    }

    #[test]
    fn a_request_given_up_keeps_its_share_until_its_operation_is_over() {
        let pending = alone();
        let late = begin(&pending, 1, 64 * MIB, Instant(5));
        let fresh = begin(&pending, 2, 0, Instant(10));
        let given_up = pending.give_up_late(&Ended::default(), Instant(10), Duration::from_nanos(4));
        assert_eq!(given_up.iter().map(|request| request.cookie).collect::<Vec<_>>(), [1]);
        let again = pending.give_up_late(&Ended::default(), Instant(10), Duration::from_nanos(4));
        assert!(again.is_empty(), "the client is told once");
        assert!(!pending.has_room_for(1));
        assert_eq!(pending.end(late), None);
        assert!(pending.has_room_for(1));
        assert!(pending.end(fresh).is_some());
    }

    #[test]
    fn many_connections_get_less_each_and_none_gets_nothing() {
        let budget = Budget::new(512 * MIB);
        let pending = Pending::within(budget.clone());
        let _held = pending.take(1 << 19);
        budget.divide_among(8);
        assert!(pending.has_room_for(64 * MIB - (1 << 19)));
        budget.divide_among(16);
        assert!(!pending.has_room_for(32 * MIB) && pending.has_room_for(16 * MIB));
        let other = Pending::within(budget.clone());
        let _small = other.take(1);
        budget.divide_among(100_000);
        assert!(other.has_room_for(OWN_BYTES - 1) && !other.has_room_for(OWN_BYTES));
    }

    #[test]
    fn the_number_of_requests_is_bounded_and_their_places_are_reused() {
        let pending = alone();
        let tickets: Vec<_> = (0..1024).map(|cookie| begin(&pending, cookie, 0, Instant(0))).collect();
        assert!(!pending.has_room_for(0));
        finish(&pending, tickets[7]);
        assert_eq!(begin(&pending, 0, 0, Instant(0)), tickets[7]);
    }

    #[test]
    fn all_connections_together_take_no_more_than_the_budget_however_long_their_requests_are() {
        let budget = Budget::new(64 * MIB);
        let connections: Vec<_> = (0..64).map(|_| Pending::within(budget.clone())).collect();
        budget.divide_among(64);
        let long = 32 * MIB;
        let mut waiting: Vec<_> = connections.iter().map(|pending| Box::pin(pending.reserve(long))).collect();
        let mut served: Vec<(usize, Reserved<'_>)> = Vec::new();
        let mut order = Vec::new();
        while order.len() < 64 {
            for (index, one) in waiting.iter_mut().enumerate() {
                if !order.contains(&index)
                    && let Some(reserved) = poll(one.as_mut())
                {
                    order.push(index);
                    served.push((index, reserved));
                }
            }
            assert!(served.len() <= 2, "two of 32 MiB fit 64 MiB: {}", served.len());
            assert!(!served.is_empty(), "somebody always gets on");
            served.clear();
        }
        assert!(order.is_sorted(), "in the order in which they asked: {order:?}");
        assert!(!budget.is_awaited() && budget.has(64 * MIB));
    }

    #[test]
    fn a_request_within_a_connections_own_never_waits_for_others() {
        let budget = Budget::new(64 * MIB);
        let (hog, small) = (Pending::within(budget.clone()), Pending::within(budget.clone()));
        let _all = hog.take(64 * MIB + OWN_BYTES);
        let (mut long, mut short) = (Box::pin(small.reserve(MIB)), Box::pin(small.reserve(OWN_BYTES)));
        assert!(poll(long.as_mut()).is_none() && budget.is_awaited() && hog.holds_counted());
        assert!(poll(short.as_mut()).is_some(), "it is its own");
        drop(long);
        assert!(!budget.is_awaited(), "who does not wait any more is not in the line");
    }

    #[test]
    fn what_a_connection_held_goes_back_when_it_breaks() {
        let budget = Budget::new(64 * MIB);
        let broken = Pending::within(budget.clone());
        drop(broken.take(32 * MIB));
        let ticket = begin(&broken, 1, 64 * MIB, Instant(0));
        assert!(!budget.has(MIB));
        let _unanswered = broken.end(ticket);
        drop(broken);
        assert!(budget.has(64 * MIB));
    }

    #[test]
    fn a_payload_longer_than_the_bound_goes_alone() {
        let pending = Pending::within(Budget::new(MIB));
        assert!(pending.has_room_for(64 * MIB));
        let mut longest = Box::pin(pending.reserve(64 * MIB));
        assert!(poll(longest.as_mut()).is_some(), "nothing else is under way: it must not wait for ever");
        let _held = pending.take(1);
        assert!(!pending.has_room_for(64 * MIB));
    }
}
