//! Taking away a cache that holds dirty data: how far the flush is, and what an administrator may choose.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of a `DELETE` of a volume, of its cache, or of a pool; it may be left out.
///
/// Dirty data is written to the backing device first; the request is answered when all is done, and goes on if its client
/// hangs up. A second request of the same kind joins it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Removal {
    /// Do it although hosts use the volume, whom the refusal names, and do not flush: dirty data is lost. Refused, with the
    /// number of bytes, unless `lose_data` is set too or nothing is dirty.
    #[serde(default)]
    pub force: bool,
    /// The administrator knows what is lost.
    #[serde(default)]
    pub lose_data: bool,
}

/// What follows when everything is clean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlushPurpose {
    DisableCache,
    DeleteVolume,
    DeletePool,
    ConvertPool,
}

impl FlushPurpose {
    pub fn word(self) -> &'static str {
        match self {
            Self::DisableCache => "disable-cache",
            Self::DeleteVolume => "delete-volume",
            Self::DeletePool => "delete-pool",
            Self::ConvertPool => "convert-pool",
        }
    }
}

/// `GET /api/v1/volumes/{name}/flush` and `GET /api/v1/pools/{name}/flush`: a flush that is under way. `DELETE` cancels it: writes
/// are cached again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Flush {
    pub purpose: FlushPurpose,
    /// The volume or the pool.
    pub name: String,
    /// Bytes that are still dirty.
    pub dirty_bytes: u64,
    /// Bytes that were written to the backing devices since the flush began.
    pub drained_bytes: u64,
    pub elapsed_seconds: u64,
    /// At the pace so far; null until there is a pace.
    pub eta_seconds: Option<u64>,
}

/// Since when writes of a volume are held: nothing new stays dirty, also over a restart, until that is released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WritesHeld {
    pub since_unix_ms: u64,
    /// Who asked for it.
    pub by: String,
}

/// `DELETE /api/v1/volumes/{name}/hold` and `DELETE /api/v1/pools/{name}/hold`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HoldReleased {
    /// False if nothing was held.
    pub changed: bool,
    pub name: String,
}

/// The flush that was cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FlushCancelled {
    /// False if none was under way.
    pub changed: bool,
    pub name: String,
}
