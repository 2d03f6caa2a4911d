//! The connections of one listener of the API: how many there may be, and who goes when one more comes.
//!
//! Nobody is kept out by connections that ask nothing: the oldest of these goes, else the oldest that only follows events. Of
//! the latter there are never so many that others would have no room. One that is being answered stays.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// Connections at once.
const CONNECTIONS_MAX: usize = 256;

/// Of them, such as follow events.
const STREAMS_MAX: usize = 64;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Nothing was asked, or all is answered.
    Nothing,
    Answering,
    FollowingEvents,
}

/// See the file's summary. A handle: cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    inner: Arc<Occupancy>,
}

#[derive(Debug)]
struct Occupancy {
    connections_max: usize,
    streams_max: usize,
    guests: Mutex<Guests>,
    /// Somebody left.
    left: Notify,
}

#[derive(Debug, Default)]
struct Guests {
    /// By their order.
    present: BTreeMap<u64, Guest>,
    next: u64,
}

#[derive(Debug)]
struct Guest {
    doing: Doing,
    end: Arc<Notify>,
}

/// A connection's place. When the last handle goes, the place is free. A handle: cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    inner: Arc<VisitInner>,
}

#[derive(Debug)]
struct VisitInner {
    room: Room,
    number: u64,
    end: Arc<Notify>,
}

impl Default for Room {
    fn default() -> Self {
        Self::with_max(CONNECTIONS_MAX, STREAMS_MAX)
    }
}

impl Room {
    fn with_max(connections_max: usize, streams_max: usize) -> Self {
        let (guests, left) = (Mutex::default(), Notify::new());
        Self { inner: Arc::new(Occupancy { connections_max, streams_max, guests, left }) }
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn guests(&self) -> MutexGuard<'_, Guests> {
        self.inner.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more connection; waits while all others are being answered.
    pub(crate) async fn enter(&self) -> Visit {
        loop {
            let left = self.inner.left.notified();
            if let Some(visit) = self.try_enter() {
                return visit;
            }
            left.await;
        }
    }

    fn try_enter(&self) -> Option<Visit> {
        let mut guests = self.guests();
        if guests.present.len() >= self.inner.connections_max && !guests.let_go_of_one() {
            return None;
        }
        let (number, end) = (guests.next, Arc::new(Notify::new()));
        guests.next += 1;
        guests.present.insert(number, Guest { doing: Doing::Nothing, end: Arc::clone(&end) });
        Some(Visit { inner: Arc::new(VisitInner { room: self.clone(), number, end }) })
    }

    /// Somebody must go, for another reason than the number of connections. False if all are being answered.
    pub(crate) fn let_go_of_one(&self) -> bool {
        self.guests().let_go_of_one()
    }
}

impl Guests {
    fn let_go_of_one(&mut self) -> bool {
        let oldest = |doing| self.present.iter().find(|(_, guest)| guest.doing == doing).map(|(number, _)| *number);
        let Some(number) = oldest(Doing::Nothing).or_else(|| oldest(Doing::FollowingEvents)) else { return false };
        self.end(number);
        true
    }

    fn end(&mut self, number: u64) {
        if let Some(guest) = self.present.remove(&number) {
            // Kept for one who does not wait yet.
            guest.end.notify_one();
        }
    }
}

impl Visit {
    /// Completes when the connection has to go.
    pub(crate) async fn ended(&self) {
        self.inner.end.notified().await;
    }

    pub(crate) fn is_answered(&self) {
        self.does(Doing::Answering);
    }

    pub(crate) fn was_answered(&self) {
        let mut guests = self.inner.room.guests();
        if let Some(guest) = guests.present.get_mut(&self.inner.number)
            && guest.doing == Doing::Answering
        {
            guest.doing = Doing::Nothing;
        }
    }

    /// From now on the connection is there for events alone. If there are too many of these, the oldest goes.
    pub(crate) fn follows_events(&self) {
        self.does(Doing::FollowingEvents);
        let mut guests = self.inner.room.guests();
        let following = guests.present.iter().filter(|(_, guest)| guest.doing == Doing::FollowingEvents);
        let (count, oldest) = (following.clone().count(), following.map(|(number, _)| *number).next());
        if count > self.inner.room.inner.streams_max
            && let Some(oldest) = oldest
        {
            guests.end(oldest);
        }
    }

    fn does(&self, doing: Doing) {
        if let Some(guest) = self.inner.room.guests().present.get_mut(&self.inner.number) {
            guest.doing = doing;
        }
    }
}

impl Drop for VisitInner {
    fn drop(&mut self) {
        self.room.guests().present.remove(&self.number);
        self.room.inner.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the connection was told to go.
    fn went(visit: &Visit) -> bool {
        let mut ended = Box::pin(visit.ended());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::future::Future::poll(ended.as_mut(), &mut context).is_ready()
    }

    fn enter(room: &Room) -> Visit {
        room.try_enter().expect("somebody goes")
    }

    #[test]
    fn one_more_takes_the_place_of_the_oldest_that_asks_nothing_and_of_none_that_is_answered() {
        let room = Room::with_max(3, 2);
        let [first, second, third] = [(); 3].map(|()| enter(&room));
        first.is_answered();
        third.follows_events();
        let fourth = enter(&room);
        assert!(went(&second) && !went(&first) && !went(&third));
        fourth.is_answered();
        let fifth = enter(&room);
        assert!(went(&third), "nobody else is idle");
        fifth.is_answered();
        assert!(room.try_enter().is_none(), "all are being answered");
        fourth.was_answered();
        let _sixth = enter(&room);
        assert!(went(&fourth) && !went(&fifth));
    }

    #[test]
    fn who_follows_events_never_fills_the_room() {
        let room = Room::with_max(100, 2);
        let streams = [(); 4].map(|()| {
            let visit = enter(&room);
            visit.is_answered();
            visit.follows_events();
            visit.was_answered();
            visit
        });
        assert_eq!(streams.each_ref().map(went), [true, true, false, false]);
        drop(streams);
        assert!(room.guests().present.is_empty(), "places are free again");
    }
}
