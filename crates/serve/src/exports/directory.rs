//! What the exports of all threads share: which there are, on which thread each is, how many are connected, and the way of a
//! connection from one thread to another.
//!
//! It is the one thing of serving that is behind a lock: handshakes and changes of exports take it for a moment, requests never.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::arrive::Arrival;
use super::list::{ExportInfo, ExportList};

/// Names an export from when it is made until it is removed, whatever it is called and wherever it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExportId(u64);

/// A thread's place in the directory, and where connections come to it: what its `Exports` are made with.
pub struct Door {
    pub(super) directory: Arc<Directory>,
    pub(super) thread: usize,
    /// As many as there may be connections.
    pub(super) arrivals: UnboundedReceiver<Arrival>,
}

/// See the file's summary.
pub(super) struct Directory {
    known: Mutex<Known>,
    changed: Notify,
    doors: Vec<UnboundedSender<Arrival>>,
    connections: Arc<AtomicUsize>,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) list: ExportList,
    places: BTreeMap<String, ExportPlace>,
    made: u64,
}

#[derive(Clone, Copy)]
struct ExportPlace {
    id: ExportId,
    thread: usize,
}

/// A connection counts, on whatever thread it is, until this is dropped.
pub(super) struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Door {
    /// One for each of `count` threads. Clients connect to the first.
    pub fn for_threads(count: usize) -> Vec<Self> {
        let (doors, arrivals): (Vec<_>, Vec<_>) = (0..count).map(|_| unbounded_channel()).unzip();
        let directory =
            Directory { known: Mutex::default(), changed: Notify::new(), doors, connections: Arc::default() };
        let directory = Arc::new(directory);
        let door = |(thread, arrivals)| Self { directory: Arc::clone(&directory), thread, arrivals };
        arrivals.into_iter().enumerate().map(door).collect()
    }

    /// Of a thread that is the only one.
    pub fn alone() -> Self {
        Self::for_threads(1).pop().expect("one was asked for")
    }
}

impl Directory {
    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes at the next change of what is known after this call (not after the first poll).
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Whoever waits looks again.
    pub(super) fn tell(&self) {
        self.changed.notify_waiters();
    }

    /// One connection more.
    pub(super) fn count(&self) -> Counted {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(&self.connections))
    }

    /// Those of all threads, and those on their way.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Hands a connection to the thread that its export is on now; if that is gone, so is the connection.
    pub(super) fn send(&self, arrival: Arrival) {
        let thread = self.known().thread_of(arrival.export);
        if let Some(door) = thread.and_then(|thread| self.doors.get(thread)) {
            // A thread that has ended serves nobody.
            let _ = door.send(arrival);
        }
    }
}

impl Known {
    /// `None` if the name is taken.
    pub(super) fn add(&mut self, export: ExportInfo, thread: usize) -> Option<ExportId> {
        let name = export.name.clone();
        if !self.list.insert(export) {
            return None;
        }
        self.made += 1;
        let id = ExportId(self.made);
        self.places.insert(name, ExportPlace { id, thread });
        Some(id)
    }

    pub(super) fn remove(&mut self, name: &str) -> Option<ExportId> {
        self.list.remove(name);
        self.places.remove(name).map(|place| place.id)
    }

    /// The answer says whether there is one called `from`, and the new name was free.
    pub(super) fn rename(&mut self, from: &str, export: ExportInfo) -> bool {
        let name = export.name.clone();
        let Some(place) = self.places.get(from).copied() else { return false };
        if !self.list.insert(export) {
            return false;
        }
        self.remove(from);
        self.places.insert(name, place);
        true
    }

    /// It is served by another thread from now on.
    pub(super) fn moved(&mut self, id: ExportId, thread: usize) {
        for place in self.places.values_mut().filter(|place| place.id == id) {
            place.thread = thread;
        }
    }

    pub(super) fn id_of(&self, name: &str) -> Option<ExportId> {
        self.places.get(name).map(|place| place.id)
    }

    fn thread_of(&self, id: ExportId) -> Option<usize> {
        self.places.values().find(|place| place.id == id).map(|place| place.thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_keeps_its_id_by_another_name_and_on_another_thread_and_a_later_one_of_its_name_has_another() {
        let mut known = Known::default();
        let id = known.add(ExportInfo::sample("disk"), 0).expect("the name is free");
        assert_eq!(known.add(ExportInfo::sample("disk"), 1), None);
        assert!(known.rename("disk", ExportInfo::sample("renamed")));
        known.moved(id, 2);
        assert_eq!((known.id_of("disk"), known.id_of("renamed"), known.thread_of(id)), (None, Some(id), Some(2)));
        let other = known.add(ExportInfo::sample("disk"), 1).expect("the name is free again");
        assert!(!known.rename("renamed", ExportInfo::sample("disk")), "that name is taken");
        assert_eq!((known.remove("renamed"), known.thread_of(id)), (Some(id), None));
        assert_ne!(other, id);
    }

    #[test]
    fn connections_are_counted_over_all_threads_until_they_end() {
        let doors = Door::for_threads(2);
        let (one, other) = (doors[0].directory.count(), doors[1].directory.count());
        assert_eq!(doors[1].directory.connections(), 2);
        drop(one);
        assert_eq!(doors[0].directory.connections(), 1);
        drop(other);
        assert_eq!(doors[0].directory.connections(), 0);
    }
}
