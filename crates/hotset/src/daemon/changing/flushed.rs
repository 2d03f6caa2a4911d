//! What operations flush: whose cache, and what of it was dirty when they began.

use hotset_api::{ApiError, FlushPurpose, SubjectKind};
use hotset_cache::config::{PoolName, VolumeName};
use tokio::sync::watch;

use crate::daemon::naming::{pool_name, volume_name};
use crate::plane::Snapshot;

/// Whose cache is taken away.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Volume(VolumeName),
    Pool(PoolName),
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Volume(name) => write!(f, "volume {name}"),
            Self::Pool(name) => write!(f, "pool {name}"),
        }
    }
}

impl Subject {
    pub(crate) fn volume(name: &str) -> Result<Self, ApiError> {
        volume_name(name).map(Self::Volume)
    }

    pub(crate) fn pool(name: &str) -> Result<Self, ApiError> {
        pool_name(name).map(Self::Pool)
    }

    pub(super) fn for_api(&self) -> hotset_api::Subject {
        let kind = match self {
            Self::Volume(_) => SubjectKind::Volume,
            Self::Pool(_) => SubjectKind::Pool,
        };
        hotset_api::Subject::new(kind, self.name())
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Volume(name) => name.as_str(),
            Self::Pool(name) => name.as_str(),
        }
    }

    /// How an administrator ends its flush.
    pub(super) fn cancel_verb(&self) -> String {
        match self {
            Self::Volume(name) => format!("hotset volume cancel-flush {name}"),
            Self::Pool(name) => format!("hotset pool cancel-flush {name}"),
        }
    }
}

/// What is drained.
#[derive(Clone, Debug)]
pub(crate) struct FlushScope {
    pub(crate) pool: PoolName,
    pub(crate) volumes: Vec<VolumeName>,
    /// When the flush begins.
    pub(crate) dirty_bytes: u64,
}

/// Whether the removal changed anything.
pub(crate) type Outcome = Result<bool, ApiError>;

/// What an operation flushes, if anything.
#[derive(Clone, Debug)]
pub(crate) enum Flushing {
    Nothing,
    /// A cache that is taken away.
    Drain(Drain),
    /// What is dirty now, of volumes that go on caching.
    Now(FlushedNow),
}

/// A cache that is drained, because it is to be taken away.
#[derive(Clone, Debug)]
pub(crate) struct Drain {
    pub(super) subject: Subject,
    pub(super) purpose: FlushPurpose,
    pub(super) scope: FlushScope,
    /// What came of it.
    pub(super) outcome: watch::Receiver<Option<Outcome>>,
}

/// Volumes of which what is dirty is flushed now.
#[derive(Clone, Debug)]
pub(crate) struct FlushedNow {
    pub(super) volumes: Vec<VolumeName>,
    /// When it began.
    pub(super) dirty_bytes: u64,
    /// Of all of them, when it began.
    pub(super) cleaned_bytes: u64,
}

/// Bytes of a volume, or of all volumes of a pool, that are not on the backing device.
pub(crate) fn dirty_bytes(subject: &Subject, snapshot: &Snapshot) -> u64 {
    match subject {
        Subject::Volume(name) => {
            let volume = snapshot.volumes.iter().find(|volume| volume.name == *name);
            volume.map_or(0, |volume| volume.dirty_bytes)
        }
        Subject::Pool(name) => {
            let pool = snapshot.pools.iter().find(|pool| pool.name == *name);
            pool.and_then(|pool| pool.write_log).map_or(0, |log| log.dirty_bytes)
        }
    }
}
