//! Requests and replies of the control API: types only.
//!
//! Keys are stable: a key is never renamed and never changes its meaning; new ones may appear. Every number's unit is
//! the last word of its key. All paths start with [`PREFIX`]; every answer that is not 2xx is an [`ApiError`].

mod error;
mod pool;
mod status;
mod volume;
mod words;

pub use error::{ApiError, ApiErrorKind};
pub use pool::{Pool, PoolChange, PoolCreate, PoolImport, PoolList, PoolPlan, PoolSet, Ssd};
pub use status::{Stats, Status, VolumeCounters, Work};
pub use volume::{CacheEnable, Deleted, Volume, VolumeChange, VolumeCreate, VolumeList, VolumeSet, VolumeStats};
pub use words::{FetchRate, Health, IoType, PolicyKind, PoolKind, PoolState, VolumeState};

/// What every path of this version of the API starts with.
pub const PREFIX: &str = "/v1";
