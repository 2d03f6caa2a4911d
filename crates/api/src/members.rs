//! SSDs that join and leave a pool while it serves, and its spares.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Share;

/// `POST /api/v1/pools/{name}/ssds` and `…/spares`: SSDs to take in. All of them, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SsdsAdd {
    /// Absolute paths of block devices or image files.
    pub ssds: Vec<String>,
    /// Use them although they carry a foreign signature, whose content is lost.
    #[serde(default)]
    pub force: bool,
    /// Use block devices that share a physical disk with others of a read-write pool: both copies may be lost with it.
    #[serde(default)]
    pub allow_same_disk: bool,
}

/// `POST /api/v1/pools/{name}/volumes/plan`: which volumes a pool shall have, to be looked at before any of them is moved or changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolVolumes {
    /// Volumes that leave the pool before.
    #[serde(default)]
    pub leave: Vec<String>,
    /// Volumes that it has then; others stay as they are.
    pub stay: Vec<PoolVolume>,
}

/// What a pool is to promise a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolVolume {
    pub name: String,
    /// Clean data that other volumes do not evict; null: none.
    #[serde(default)]
    pub cache_min: Option<Share>,
    /// The most clean data that it has in the cache; null: no limit.
    #[serde(default)]
    pub cache_max: Option<Share>,
}

/// `POST` of a path that ends with `/plan`: it could be done now. Nothing was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ChangePlan {
    /// What is to be known before it is done.
    pub warnings: Vec<String>,
    /// Of SSDs and spares that come: the memory that this takes; null: none.
    #[serde(default)]
    pub memory: Option<MemoryPlan>,
}

/// What a change takes of the memory that the tables of all pools may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemoryPlan {
    /// So much more than now.
    pub more_bytes: u64,
    /// What the tables of all pools need now, with every slot in use.
    pub in_use_bytes: u64,
    pub limit_bytes: u64,
}

/// `DELETE /api/v1/pools/{name}/ssds` and `…/spares`: SSDs to let go. What is dirty on them is copied to the others first; the
/// request is answered when all is done, and goes on if its client hangs up. `DELETE …/removal` ends it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SsdsRemove {
    /// Paths or UUIDs.
    pub ssds: Vec<String>,
}

/// How far an SSD is emptied, or how far copies are made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// At the pace so far; 0 before there is one.
    pub bytes_per_second: u64,
    /// At that pace; null until there is one.
    pub eta_seconds: Option<u64>,
}

impl Progress {
    pub fn new(done_bytes: u64, total_bytes: u64, bytes_per_second: u64) -> Self {
        let left = total_bytes.saturating_sub(done_bytes);
        let eta_seconds = (bytes_per_second > 0).then(|| left.div_ceil(bytes_per_second.max(1)));
        Self { done_bytes, total_bytes, bytes_per_second, eta_seconds }
    }
}

/// A spare of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spare {
    pub path: String,
    pub uuid: String,
    pub size_bytes: u64,
    /// It was there when the pool was opened.
    pub present: bool,
    /// Why it cannot take over. Empty if it can.
    pub reason: String,
}
