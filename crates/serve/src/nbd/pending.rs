//! The requests of a connection that are not answered yet, and what they may take of memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use hotset_block::Instant;
use hotset_block::sync::Event;

use super::replies::Cost;
use super::wire::Request;

/// Requests of a connection at most, from their receipt until their reply is sent.
const REQUESTS_MAX: usize = 1024;
/// Their payloads at most: two requests of the longest kind.
const BYTES_MAX: usize = 64 << 20;
/// What all connections of a server divide among themselves: enough for eight that take all they may.
const SHARED_BYTES: usize = 512 << 20;
/// The least share of a connection, which still keeps many requests in flight.
const BYTES_MIN: usize = 1 << 20;

/// How much the payloads of one connection may take, given how many connections there are. A handle: cloning it is
/// cheap. Nobody waits for what others hold: who comes later gets less, and every connection gets something.
#[derive(Clone)]
pub(super) struct Share {
    bytes: Rc<Cell<usize>>,
}

impl Default for Share {
    fn default() -> Self {
        Self { bytes: Rc::new(Cell::new(BYTES_MAX)) }
    }
}

impl Share {
    pub(super) fn divide_among(&self, connections: usize) {
        self.bytes.set((SHARED_BYTES / connections.max(1)).clamp(BYTES_MIN, BYTES_MAX));
    }
}

/// Names a request while it is pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(usize);

struct Entry {
    request: Request,
    cost: Cost,
    received: Instant,
    /// The client was told that it failed; the operation goes on behind (rule `late-io`).
    given_up: bool,
}

/// See the file's summary. What a request costs is taken when it begins and given back when its reply is sent, or,
/// if the client was answered before, when the operation is over.
#[derive(Default)]
pub(super) struct Pending {
    entries: RefCell<Vec<Option<Entry>>>,
    free: RefCell<Vec<usize>>,
    used_requests: Cell<usize>,
    used_bytes: Cell<usize>,
    share: Share,
    eased: Event,
    watched: Cell<bool>,
}

impl Pending {
    pub(super) fn within(share: Share) -> Self {
        Self { share, ..Self::default() }
    }

    /// Whether a request of that payload may begin now. One that is alone always may.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        let room = self.used_bytes.get() == 0 || self.used_bytes.get() + bytes <= self.share.bytes.get();
        room && self.used_requests.get() < REQUESTS_MAX
    }

    pub(super) fn begin(&self, request: Request, bytes: usize, received: Instant) -> Ticket {
        let cost = Cost { requests: 1, bytes };
        self.used_requests.set(self.used_requests.get() + cost.requests);
        self.used_bytes.set(self.used_bytes.get() + cost.bytes);
        let entry = Some(Entry { request, cost, received, given_up: false });
        let mut entries = self.entries.borrow_mut();
        if let Some(index) = self.free.borrow_mut().pop() {
            entries[index] = entry;
            return Ticket(index);
        }
        entries.push(entry);
        Ticket(entries.len() - 1)
    }

    /// The operation is over. What the reply costs until it is sent; `None` if the client was answered already.
    pub(super) fn end(&self, ticket: Ticket) -> Option<Cost> {
        let entry = self.entries.borrow_mut()[ticket.0].take().expect("an operation ends once");
        self.free.borrow_mut().push(ticket.0);
        if entry.given_up {
            self.release(entry.cost);
            return None;
        }
        Some(entry.cost)
    }

    /// Gives up the requests received before `deadline`: the client is to be told that they failed.
    pub(super) fn give_up_before(&self, deadline: Instant) -> Vec<Request> {
        let mut entries = self.entries.borrow_mut();
        let late = entries.iter_mut().flatten().filter(|entry| !entry.given_up && entry.received < deadline);
        let given_up = late.map(|entry| {
            entry.given_up = true;
            entry.request
        });
        given_up.collect()
    }

    /// Gives back what a request took.
    pub(super) fn release(&self, cost: Cost) {
        self.used_requests.set(self.used_requests.get() - cost.requests);
        self.used_bytes.set(self.used_bytes.get() - cost.bytes);
        if self.watched.replace(false) {
            self.eased.wake_all();
        }
    }

    /// Waits until something was released.
    pub(super) async fn eased(&self) {
        self.watched.set(true);
        self.eased.wait().await;
    }

    /// Requests of which the operation or the reply is under way.
    pub(super) fn requests(&self) -> usize {
        self.used_requests.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::wire::Command;

    fn request(cookie: u64) -> Request {
        Request { flags: 0, command: Command::Read, cookie, offset: 0, length: 512 }
    }

    #[test]
    fn a_request_keeps_its_share_until_its_reply_is_sent() {
        let pending = Pending::default();
        let ticket = pending.begin(request(1), BYTES_MAX, Instant(0));
        assert!(!pending.has_room_for(1));
        let cost = pending.end(ticket).expect("not given up");
        assert!(!pending.has_room_for(1));
        pending.release(cost);
        assert!(pending.has_room_for(1) && pending.requests() == 0);
    }

    #[test]
    fn a_request_given_up_keeps_its_share_until_its_operation_is_over() {
        let pending = Pending::default();
        let late = pending.begin(request(1), BYTES_MAX, Instant(5));
        let fresh = pending.begin(request(2), 0, Instant(10));
        let given_up = pending.give_up_before(Instant(10));
        assert_eq!(given_up.iter().map(|request| request.cookie).collect::<Vec<_>>(), [1]);
        assert!(pending.give_up_before(Instant(10)).is_empty(), "the client is told once");
        assert!(!pending.has_room_for(1));
        assert_eq!(pending.end(late), None);
        assert!(pending.has_room_for(1));
        assert!(pending.end(fresh).is_some());
    }

    #[test]
    fn many_connections_get_less_each_and_none_gets_nothing() {
        let share = Share::default();
        let pending = Pending::within(share.clone());
        let _ticket = pending.begin(request(1), 1 << 19, Instant(0));
        share.divide_among(8);
        assert!(pending.has_room_for(BYTES_MAX - (1 << 19)));
        share.divide_among(16);
        assert!(!pending.has_room_for(BYTES_MAX / 2));
        assert!(pending.has_room_for(BYTES_MAX / 4));
        share.divide_among(100_000);
        assert!(pending.has_room_for(1 << 19) && !pending.has_room_for(1 << 20));
        share.divide_among(0);
        assert!(pending.has_room_for(BYTES_MAX / 2));
    }

    #[test]
    fn the_number_of_requests_is_bounded_and_their_places_are_reused() {
        let pending = Pending::default();
        let tickets: Vec<_> = (0..1024).map(|cookie| pending.begin(request(cookie), 0, Instant(0))).collect();
        assert!(!pending.has_room_for(0));
        let cost = pending.end(tickets[7]).expect("not given up");
        pending.release(cost);
        assert_eq!(pending.begin(request(0), 0, Instant(0)), tickets[7]);
    }

    #[test]
    fn a_payload_longer_than_the_bound_goes_alone() {
        let pending = Pending::default();
        assert!(pending.has_room_for(BYTES_MAX + 1));
        let _ticket = pending.begin(request(1), 1, Instant(0));
        assert!(!pending.has_room_for(BYTES_MAX));
    }
}
