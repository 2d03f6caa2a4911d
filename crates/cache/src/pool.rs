//! The face of the engine towards the administrator: a cache pool.

use std::rc::Rc;

use hotset_block::Env;

use crate::config::{PoolKind, PoolName, PoolSettings, VolumeName, VolumeSpec};
use crate::error::Error;
use crate::status::{PoolPlan, PoolStatus};
use crate::volume::Volume;

/// A device and the name by which people know it (its path).
pub struct Named<D> {
    pub path: String,
    pub device: D,
}

/// What a new pool is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    pub name: PoolName,
    pub kind: PoolKind,
    pub settings: PoolSettings,
}

/// How an open treats SSDs of the pool that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Refuse, naming them; the caller waits and tries again.
    Refuse,
    /// Go on without them: they leave the pool, and what they hold is never believed again.
    Leave,
}

/// What an SSD's superblock says, before its pool is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SsdLabel {
    pub pool_name: PoolName,
    pub pool_uuid: u128,
    pub ssd_uuid: u128,
    pub kind: PoolKind,
}

/// The bytes at the start of an SSD that [`inspect`] needs.
pub const LABEL_BYTES: usize = 128 << 10;

/// Whose SSD this is: `None` if it carries no Hotset superblock; an error if it carries one that cannot be used (a
/// newer format, a broken checksum in both copies).
pub fn inspect(start_of_ssd: &[u8]) -> Result<Option<SsdLabel>, Error> {
    todo!()
}

/// Bytes that the state directory's member device must have (a file of this size per pool).
pub const STATE_BYTES: u64 = 10 << 20;

/// A cache pool. A handle: cloning it is cheap.
pub struct Pool<E: Env> {
    pub(crate) inner: Rc<PoolInner<E>>,
}

pub(crate) struct PoolInner<E: Env> {
    pub(crate) env: E,
}

impl<E: Env> Clone for Pool<E> {
    fn clone(&self) -> Self {
        Self { inner: Rc::clone(&self.inner) }
    }
}

impl<E: Env> Pool<E> {
    /// What a pool of this kind over SSDs of these sizes would be; fails if they do not fit.
    pub fn plan(spec: &PoolSpec, ssd_sizes_bytes: &[u64]) -> Result<PoolPlan, Error> {
        todo!()
    }

    /// Makes a pool and opens it. Whatever the SSDs held is lost: the caller checked for foreign signatures.
    pub async fn create(env: E, spec: PoolSpec, ssds: Vec<Named<E::Device>>, state: E::Device) -> Result<Self, Error> {
        todo!()
    }

    /// Opens a pool from its SSDs and its copy in the state directory. With `state: None` (or one that knows nothing)
    /// a read pool opens cold.
    pub async fn open(
        env: E,
        ssds: Vec<Named<E::Device>>,
        state: Option<E::Device>,
        missing: Missing,
    ) -> Result<Self, Error> {
        todo!()
    }

    /// The volumes that the catalogue names and that no `reattach` or `detach` has settled yet.
    pub fn unsettled_volumes(&self) -> Vec<VolumeSpec> {
        todo!()
    }

    /// Puts the cache in front of a volume that serves uncached, while it serves (enable-cache).
    pub async fn attach(&self, volume: &Volume<E>) -> Result<(), Error> {
        todo!()
    }

    /// Puts the cache in front of a volume that the catalogue names. If its backing device is another one, or was
    /// changed behind our back, its cached pages are dropped first; the answer says so.
    pub async fn reattach(&self, volume: &Volume<E>) -> Result<Reattached, Error> {
        todo!()
    }

    /// Takes the cache away from a volume, while it serves (disable-cache). Also for a name of `unsettled_volumes`.
    pub async fn detach(&self, name: &VolumeName) -> Result<(), Error> {
        todo!()
    }

    /// Changes the settings that can change online; refuses the others.
    pub async fn set(&self, settings: PoolSettings) -> Result<(), Error> {
        todo!()
    }

    pub fn status(&self) -> PoolStatus {
        todo!()
    }

    /// Detaches all volumes and makes the SSDs forget the pool.
    pub async fn delete(&self) -> Result<(), Error> {
        todo!()
    }

    /// Stops cleanly: flushes, publishes what is visible, the clean mark last. Volumes serve no more.
    pub async fn close(&self) -> Result<(), Error> {
        todo!()
    }
}

/// What [`Pool::reattach`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reattached {
    /// The cached pages are good.
    Warm { bytes: u64 },
    /// The cached pages were dropped, and why.
    Dropped { reason: String },
}
