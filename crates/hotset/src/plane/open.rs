//! What is open on one thread of the data plane, and what is seen of it. It knows nothing of those who reach it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use super::places::Places;
use hotset_block::{Env, HostEnv, RealInstant};
use hotset_cache::config::{PAGE, PoolName, VolumeName};
use hotset_cache::{
    Error, ErrorKind, Failure, LatencyCounters, MemoryCache, MemoryCacheStatus, Pool, PoolStatus, Volume, VolumeStatus,
};
use hotset_serve::{ConnectionStatus, Door, Exports, ServerCounters, ServerSettings, nbd};

/// What lives on one thread.
pub(crate) struct Plane {
    pub(super) env: HostEnv,
    pub(super) exports: Exports,
    pub(super) nbd: nbd::Server,
    pub(super) pools: RefCell<BTreeMap<PoolName, Pool<HostEnv>>>,
    pub(super) volumes: RefCell<BTreeMap<VolumeName, Volume<HostEnv>>>,
    /// Volumes that are on their way to another thread, as they were.
    pub(super) moving: RefCell<BTreeMap<VolumeName, VolumeStatus>>,
    /// In front of all volumes that are here.
    pub(super) memory: MemoryCache,
    pub(super) place: ThreadPlace,
    /// Nothing is done any more but stopping.
    pub(super) stopping: Cell<bool>,
}

/// Which of the threads this is.
pub(super) struct ThreadPlace {
    pub(super) places: Places,
    pub(super) thread: usize,
}

/// Reads and writes of a volume.
pub(crate) type Timed = (LatencyCounters, LatencyCounters);

/// Everything that is open, at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: RealInstant,
    pub(crate) pools: Vec<PoolStatus>,
    pub(crate) volumes: Vec<VolumeStatus>,
    /// Hosts that have chosen a volume, with how long they have been connected.
    pub(crate) connections: Vec<(ConnectionStatus, Duration)>,
    /// Of all threads together.
    pub(crate) memory_cache: MemoryCacheStatus,
}

impl Snapshot {
    /// Of all threads.
    pub(super) fn of(mut parts: Vec<Self>) -> Self {
        let mut all = parts.remove(0);
        for part in parts {
            all.pools.extend(part.pools);
            all.volumes.extend(part.volumes);
            all.connections.extend(part.connections);
            all.memory_cache = all.memory_cache.with(part.memory_cache);
        }
        all.pools.sort_by(|a, b| a.name.cmp(&b.name));
        all.volumes.sort_by(|a, b| a.name.cmp(&b.name));
        // One that has just moved may be seen on both threads.
        all.volumes.dedup_by(|a, b| a.name == b.name);
        all
    }
}

impl Plane {
    pub(super) fn new(env: HostEnv, server: ServerSettings, door: Door, place: ThreadPlace) -> Self {
        let exports = Exports::new(env.clone(), server, door);
        Self {
            env,
            nbd: nbd::Server::new(exports.clone()),
            exports,
            pools: RefCell::default(),
            volumes: RefCell::default(),
            moving: RefCell::default(),
            memory: MemoryCache::new(0),
            place,
            stopping: Cell::default(),
        }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            at: self.env.real_now(),
            pools: self.pools.borrow().values().map(Pool::status).collect(),
            volumes: self.volume_statuses(),
            connections: self.connections(),
            memory_cache: self.memory.status(),
        }
    }

    /// Gives the memory cache of this thread its size, and what it may have of it for now.
    pub(super) async fn give_memory(self: Rc<Self>, size_bytes: u64, allowed_bytes: u64) -> Result<(), Error> {
        let now = self.memory.status();
        if now.size_bytes != size_bytes {
            self.memory.resize(&self.env, size_bytes).await;
        }
        if now.size_bytes != size_bytes || now.allowed_bytes.abs_diff(allowed_bytes) >= PAGE {
            self.memory.allow(&self.env, allowed_bytes).await;
        }
        Ok(())
    }

    pub(super) fn volume_statuses(&self) -> Vec<VolumeStatus> {
        let (volumes, moving) = (self.volumes.borrow(), self.moving.borrow());
        volumes.iter().map(|(name, volume)| moving.get(name).cloned().unwrap_or_else(|| volume.status())).collect()
    }

    /// What the server of hosts counts.
    pub(crate) fn server_counters(&self) -> (ServerCounters, String) {
        (self.exports.counters(), self.exports.refused_handshake())
    }

    /// Why requests of hosts failed since this was asked last, by volume.
    pub(crate) fn take_failures(&self) -> Vec<(VolumeName, Failure)> {
        let volumes = self.volumes.borrow();
        let of_volume = |(name, volume): (&VolumeName, &Volume<HostEnv>)| {
            let failures = volume.take_failures().into_iter();
            failures.map(|failure| (name.clone(), failure)).collect::<Vec<_>>()
        };
        volumes.iter().flat_map(of_volume).collect()
    }

    pub(super) fn connections(&self) -> Vec<(ConnectionStatus, Duration)> {
        let now = self.env.real_now();
        let serving = self.exports.connections().into_iter().filter(|connection| connection.export.is_some());
        serving
            .map(|connection| {
                let age = now.since(connection.since);
                (connection, age)
            })
            .collect()
    }

    /// How long the requests of hosts took, reads and writes, by volume: to be read elsewhere, at no cost to hosts.
    pub(crate) fn latencies(&self) -> Vec<(VolumeName, Timed)> {
        let volumes = self.volumes.borrow();
        volumes.iter().map(|(name, volume)| (name.clone(), volume.latencies())).collect()
    }

    pub(crate) fn pool(&self, name: &PoolName) -> Result<Pool<HostEnv>, Error> {
        let found = self.pools.borrow().get(name).cloned();
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("pool {name}: there is no such pool, or it is offline"))
        })
    }

    pub(super) fn keep_pool(&self, name: PoolName, pool: Pool<HostEnv>) -> Result<(), Error> {
        let ThreadPlace { places, thread } = &self.place;
        if !places.has_pool(&name, *thread) {
            return Err(name_taken(&name));
        }
        tracing::info!(pool = %name, "is served by thread data-plane-{thread}");
        self.pools.borrow_mut().insert(name, pool);
        Ok(())
    }

    pub(super) fn forget_pool(&self, name: &PoolName) {
        self.pools.borrow_mut().remove(name);
        self.place.places.forget_pool(name);
    }

    pub(super) fn keep_volume(&self, name: VolumeName, volume: Volume<HostEnv>) {
        self.place.places.has_volume(&name, self.place.thread);
        self.volumes.borrow_mut().insert(name, volume);
    }

    pub(super) fn forget_volume(&self, name: &VolumeName) {
        self.volumes.borrow_mut().remove(name);
        self.place.places.forget_volume(name, self.place.thread);
    }

    pub(super) fn volume(&self, name: &VolumeName) -> Result<Volume<HostEnv>, Error> {
        let found = self.volumes.borrow().get(name).cloned();
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("volume {name}: there is no such volume, or it is offline"))
        })
    }
}

/// There may be one pool of a name, on whatever thread.
pub(super) fn name_taken(name: &PoolName) -> Error {
    Error::new(ErrorKind::Refused, format!("pool {name}: a pool of this name is open already"))
}
