//! Which thread of the data plane has which pool and which volume.
//!
//! A pool goes to the thread with the fewest pools; its volumes are on its thread. What has no pool is on the first thread, where
//! hosts connect, or still where its pool was. The threads say what they have; the lock is taken by administrators' changes alone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotset_cache::config::{PoolName, VolumeName};

/// See the file's summary. A handle: cloning it is cheap.
#[derive(Clone, Debug)]
pub(super) struct Places {
    inner: Arc<Mutex<Assignments>>,
}

#[derive(Debug, Default)]
struct Assignments {
    pools: BTreeMap<PoolName, usize>,
    volumes: BTreeMap<VolumeName, usize>,
    /// Pools that are being opened on each thread.
    opening: Vec<usize>,
}

/// A pool that is being opened counts on its thread until this is dropped.
#[derive(Debug)]
pub(crate) struct OpeningPlace {
    places: Places,
    thread: usize,
}

impl Drop for OpeningPlace {
    fn drop(&mut self) {
        self.places.inner().opening[self.thread] -= 1;
    }
}

impl Places {
    /// Of so many threads.
    pub(super) fn new(threads: usize) -> Self {
        let inner = Assignments { opening: vec![0; threads], ..Assignments::default() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Whole between any two statements, so a panic elsewhere does not make it wrong.
    fn inner(&self) -> MutexGuard<'_, Assignments> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread for a pool that is about to be opened.
    pub(super) fn for_pool(&self) -> (usize, OpeningPlace) {
        let mut inner = self.inner();
        let threads = 0..inner.opening.len();
        let pools_on =
            |thread: usize| inner.opening[thread] + inner.pools.values().filter(|place| **place == thread).count();
        // The first has the listeners, and volumes without a pool.
        let thread = threads.min_by_key(|thread| (pools_on(*thread), *thread == 0)).expect("there is a thread");
        inner.opening[thread] += 1;
        (thread, OpeningPlace { places: self.clone(), thread })
    }

    pub(super) fn of_pool(&self, name: &PoolName) -> Option<usize> {
        self.inner().pools.get(name).copied()
    }

    pub(super) fn of_volume(&self, name: &VolumeName) -> Option<usize> {
        self.inner().volumes.get(name).copied()
    }

    /// Which threads have a volume.
    pub(super) fn with_volumes(&self) -> Vec<bool> {
        let inner = self.inner();
        (0..inner.opening.len()).map(|thread| inner.volumes.values().any(|place| *place == thread)).collect()
    }

    /// The answer says whether the name was free; if not, nothing changed.
    pub(super) fn has_pool(&self, name: &PoolName, thread: usize) -> bool {
        let mut inner = self.inner();
        let free = !inner.pools.contains_key(name);
        if free {
            inner.pools.insert(name.clone(), thread);
        }
        free
    }

    pub(super) fn has_volume(&self, name: &VolumeName, thread: usize) {
        self.inner().volumes.insert(name.clone(), thread);
    }

    pub(super) fn forget_pool(&self, name: &PoolName) {
        self.inner().pools.remove(name);
    }

    /// The thread has it no more; another one may.
    pub(super) fn forget_volume(&self, name: &VolumeName, thread: usize) {
        let mut inner = self.inner();
        if inner.volumes.get(name) == Some(&thread) {
            inner.volumes.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &str) -> PoolName {
        name.parse().expect("a name")
    }

    #[test]
    fn a_pool_goes_to_the_thread_with_the_fewest_and_to_the_first_last() {
        let places = Places::new(3);
        for (name, expected) in [("a", 1), ("b", 2), ("c", 0), ("d", 1)] {
            let (thread, _opening) = places.for_pool();
            assert_eq!(thread, expected, "pool {name}");
            assert!(places.has_pool(&pool(name), thread) && !places.has_pool(&pool(name), 0), "a name is taken once");
        }
        places.forget_pool(&pool("b"));
        assert_eq!(places.for_pool().0, 2, "it has none now");
        assert_eq!(Places::new(1).for_pool().0, 0, "the only one has all");
    }

    #[test]
    fn pools_that_are_being_opened_count_until_they_are_open_or_not() {
        let places = Places::new(2);
        let (first, opening) = places.for_pool();
        let (second, _other) = places.for_pool();
        assert_eq!((first, second), (1, 0));
        drop(opening);
        assert_eq!(places.for_pool().0, 1, "it could not be opened");
    }

    #[test]
    fn a_volume_that_has_moved_is_not_forgotten_by_the_thread_that_it_left() {
        let (places, volume) = (Places::new(2), "disk".parse().expect("a name"));
        places.has_volume(&volume, 0);
        places.has_volume(&volume, 1);
        places.forget_volume(&volume, 0);
        assert_eq!(places.of_volume(&volume), Some(1));
        places.forget_volume(&volume, 1);
        assert_eq!(places.of_volume(&volume), None);
    }
}
