//! The requests of a connection that are not answered yet, and what they may take of memory.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use hotset_block::Instant;
use hotset_block::sync::Event;

use super::budget::{Budget, Cost, OWN_BYTES};
use super::progress::{Ended, Operation, Progress, earliest};

/// Requests of a connection at most, from their receipt until their reply is sent.
const REQUESTS_MAX: usize = 1024;

/// Names a request while its operation is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(usize);

/// A request whose operation has begun and not ended.
struct InflightOp<R> {
    request: R,
    operation: Operation,
    cost: Cost,
    progress: Progress,
    /// The client was told that it failed; the operation goes on behind (rule `late-io`).
    expired: bool,
}

/// See the file's summary; `R` is what a session answers a request by. What one costs is reserved before its payload is received
/// and given back when its reply is sent, or, if the client was answered before, when the operation is over.
pub(crate) struct Inflight<R> {
    ops: RefCell<Vec<Option<InflightOp<R>>>>,
    free: RefCell<Vec<usize>>,
    used_requests: Cell<usize>,
    used_bytes: Cell<usize>,
    /// What of it is counted in the budget.
    counted_bytes: Cell<usize>,
    budget: Budget,
    /// When the oldest request was received of those that were answered since the last look.
    oldest_ended: Cell<Option<Instant>>,
    capacity_freed: Event,
    watched: Cell<bool>,
}

/// What a request costs, before it begins. Dropping it gives that back.
pub(crate) struct Reserved<'a, R: Copy> {
    inflight: &'a Inflight<R>,
    cost: Cost,
}

impl<R: Copy> Drop for Reserved<'_, R> {
    fn drop(&mut self) {
        self.inflight.release(self.cost);
    }
}

impl<R: Copy> Inflight<R> {
    pub(crate) fn within(budget: Budget) -> Self {
        Self {
            ops: RefCell::default(),
            free: RefCell::default(),
            used_requests: Cell::new(0),
            used_bytes: Cell::new(0),
            counted_bytes: Cell::new(0),
            oldest_ended: Cell::new(None),
            budget,
            capacity_freed: Event::new(),
            watched: Cell::new(false),
        }
    }

    /// Whether the connection itself may have a request of that payload more. One that is alone always may.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        let used = self.used_bytes.get();
        (used == 0 || used + bytes <= self.budget.share_bytes()) && self.used_requests.get() < REQUESTS_MAX
    }

    /// Waits until that much memory is there, in the queue behind the other connections, and takes it.
    pub(crate) async fn reserve(&self, bytes: usize) -> Reserved<'_, R> {
        if self.counts_more_with(bytes) > 0 {
            let queued = self.budget.queue_up();
            while !(queued.is_first() && self.budget.has_room_for(self.counts_more_with(bytes))) {
                queued.capacity_freed().await;
            }
        }
        self.take(bytes)
    }

    fn take(&self, bytes: usize) -> Reserved<'_, R> {
        let cost = Cost { requests: 1, bytes };
        self.used_requests.set(self.used_requests.get() + cost.requests);
        self.used_bytes.set(self.used_bytes.get() + cost.bytes);
        self.count();
        Reserved { inflight: self, cost }
    }

    /// What the budget would have to give for a request of that payload.
    fn counts_more_with(&self, bytes: usize) -> usize {
        counted(self.used_bytes.get() + bytes) - self.counted_bytes.get()
    }

    fn count(&self) {
        let now = counted(self.used_bytes.get());
        self.budget.recount(self.counted_bytes.replace(now), now);
    }

    /// Bytes of what this connection holds that others may have to wait for.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.counted_bytes.get()
    }

    /// The request's operation begins, with what was reserved for it.
    pub(crate) fn register(
        &self,
        reserved: Reserved<'_, R>,
        request: R,
        operation: Operation,
        received: Instant,
    ) -> Ticket {
        let cost = reserved.cost;
        // The operation has it now.
        std::mem::forget(reserved);
        let op = Some(InflightOp { request, operation, cost, progress: Progress::new(received), expired: false });
        let mut ops = self.ops.borrow_mut();
        if let Some(index) = self.free.borrow_mut().pop() {
            ops[index] = op;
            return Ticket(index);
        }
        ops.push(op);
        Ticket(ops.len() - 1)
    }

    /// The operation is over. What the reply costs until it is sent; `None` if the client was answered already.
    pub(crate) fn end(&self, ticket: Ticket) -> Option<Cost> {
        let op = self.ops.borrow_mut()[ticket.0].take().expect("an operation ends once");
        self.free.borrow_mut().push(ticket.0);
        if op.expired {
            self.release(op.cost);
            return None;
        }
        self.oldest_ended.set(earliest(self.oldest_ended.get(), Some(op.progress.received)));
        Some(op.cost)
    }

    /// What ended since this was asked last. With `steps`, what takes long has got on.
    pub(crate) fn ended(&self, steps: bool) -> Ended {
        let ops = self.ops.borrow();
        let long = ops.iter().flatten().filter(|op| steps && !op.expired && op.operation.takes_long());
        let oldest = earliest(self.oldest_ended.take(), long.map(|op| op.progress.received).min());
        Ended { oldest, steps }
    }

    /// Expires the requests that have made no progress for `timeout`, given what `ended` on their export since the last
    /// look: the client is to be told that they failed.
    pub(crate) fn expire_late(&self, ended: &Ended, now: Instant, timeout: Duration) -> Vec<R> {
        let mut ops = self.ops.borrow_mut();
        let waiting = ops.iter_mut().flatten().filter(|op| !op.expired);
        let late = waiting.filter_map(|op| {
            op.expired = op.progress.is_late(op.operation, ended, now, timeout);
            op.expired.then_some(op.request)
        });
        late.collect()
    }

    /// Gives back what a request took.
    pub(crate) fn release(&self, cost: Cost) {
        self.used_requests.set(self.used_requests.get() - cost.requests);
        self.used_bytes.set(self.used_bytes.get() - cost.bytes);
        self.count();
        if self.watched.replace(false) {
            self.capacity_freed.wake_all();
        }
    }

    /// Waits until something was released.
    pub(crate) async fn capacity_freed(&self) {
        self.watched.set(true);
        self.capacity_freed.wait().await;
    }

    /// Waits until every operation has ended, and every reply is sent.
    pub(crate) async fn drained(&self) {
        while self.requests() > 0 {
            self.capacity_freed().await;
        }
    }

    /// Requests of which the operation or the reply is under way.
    pub(crate) fn requests(&self) -> usize {
        self.used_requests.get()
    }
}

impl<R> Drop for Inflight<R> {
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

    use hotset_cache::Durability;

    use super::super::progress::Work;
    use super::*;

    const MIB: usize = 1 << 20;

    /// Requests that are told apart by a number.
    type Numbered = Inflight<u64>;

    const READ: Operation = Operation { work: Work::Short, durability: Durability::Volatile };

    fn alone() -> Numbered {
        Numbered::within(Budget::new(512 * MIB))
    }

    fn begin(inflight: &Numbered, number: u64, bytes: usize, received: Instant) -> Ticket {
        inflight.register(inflight.take(bytes), number, READ, received)
    }

    fn finish(inflight: &Numbered, ticket: Ticket) {
        inflight.release(inflight.end(ticket).expect("it has not expired"));
    }

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_request_keeps_its_share_until_its_reply_is_sent() {
        let inflight = alone();
        let ticket = begin(&inflight, 1, 64 * MIB, Instant(0));
        assert!(!inflight.has_room_for(1));
        let cost = inflight.end(ticket).expect("it has not expired");
        assert!(!inflight.has_room_for(1));
        inflight.release(cost);
        assert!(inflight.has_room_for(1) && inflight.requests() == 0);
    }

    #[test]
    fn an_expired_request_keeps_its_share_until_its_operation_is_over() {
        let inflight = alone();
        let late = begin(&inflight, 1, 64 * MIB, Instant(5));
        let fresh = begin(&inflight, 2, 0, Instant(10));
        let expired = inflight.expire_late(&Ended::default(), Instant(10), Duration::from_nanos(4));
        assert_eq!(expired, [1]);
        let again = inflight.expire_late(&Ended::default(), Instant(10), Duration::from_nanos(4));
        assert!(again.is_empty(), "the client is told once");
        assert!(!inflight.has_room_for(1));
        assert_eq!(inflight.end(late), None);
        assert!(inflight.has_room_for(1));
        assert!(inflight.end(fresh).is_some());
    }

    #[test]
    fn many_connections_get_less_each_and_none_gets_nothing() {
        let budget = Budget::new(512 * MIB);
        let inflight = Numbered::within(budget.clone());
        let _held = inflight.take(1 << 19);
        budget.divide_among(8);
        assert!(inflight.has_room_for(64 * MIB - (1 << 19)));
        budget.divide_among(16);
        assert!(!inflight.has_room_for(32 * MIB) && inflight.has_room_for(16 * MIB));
        let other = Numbered::within(budget.clone());
        let _small = other.take(1);
        budget.divide_among(100_000);
        assert!(other.has_room_for(OWN_BYTES - 1) && !other.has_room_for(OWN_BYTES));
    }

    #[test]
    fn the_number_of_requests_is_bounded_and_their_places_are_reused() {
        let inflight = alone();
        let tickets: Vec<_> = (0..1024).map(|cookie| begin(&inflight, cookie, 0, Instant(0))).collect();
        assert!(!inflight.has_room_for(0));
        finish(&inflight, tickets[7]);
        assert_eq!(begin(&inflight, 0, 0, Instant(0)), tickets[7]);
    }

    #[test]
    fn all_connections_together_take_no_more_than_the_budget_however_long_their_requests_are() {
        let budget = Budget::new(64 * MIB);
        let connections: Vec<_> = (0..64).map(|_| Numbered::within(budget.clone())).collect();
        budget.divide_among(64);
        let long = 32 * MIB;
        let mut waiting: Vec<_> = connections.iter().map(|inflight| Box::pin(inflight.reserve(long))).collect();
        let mut served: Vec<(usize, Reserved<'_, u64>)> = Vec::new();
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
        assert!(!budget.is_awaited() && budget.has_room_for(64 * MIB));
    }

    #[test]
    fn a_request_within_a_connections_own_never_waits_for_others() {
        let budget = Budget::new(64 * MIB);
        let (hog, small) = (Numbered::within(budget.clone()), Numbered::within(budget.clone()));
        let _all = hog.take(64 * MIB + OWN_BYTES);
        let (mut long, mut short) = (Box::pin(small.reserve(MIB)), Box::pin(small.reserve(OWN_BYTES)));
        assert!(poll(long.as_mut()).is_none() && budget.is_awaited() && hog.counted_bytes() > 0);
        assert!(poll(short.as_mut()).is_some(), "it is its own");
        drop(long);
        assert!(!budget.is_awaited(), "who does not wait any more is not in the queue");
    }

    #[test]
    fn what_a_connection_held_goes_back_when_it_breaks() {
        let budget = Budget::new(64 * MIB);
        let broken = Numbered::within(budget.clone());
        drop(broken.take(32 * MIB));
        let ticket = begin(&broken, 1, 64 * MIB, Instant(0));
        assert!(!budget.has_room_for(MIB));
        let _unanswered = broken.end(ticket);
        drop(broken);
        assert!(budget.has_room_for(64 * MIB));
    }

    #[test]
    fn a_payload_longer_than_the_bound_goes_alone() {
        let inflight = Numbered::within(Budget::new(MIB));
        assert!(inflight.has_room_for(64 * MIB));
        let mut longest = Box::pin(inflight.reserve(64 * MIB));
        assert!(poll(longest.as_mut()).is_some(), "nothing else is under way: it must not wait for ever");
        let _held = inflight.take(1);
        assert!(!inflight.has_room_for(64 * MIB));
    }
}
