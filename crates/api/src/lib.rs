//! Requests and replies of the control API: types only.
//!
//! Keys are stable: a key is never renamed and never changes its meaning; new ones may appear. Every number's unit is
//! the last word of its key. All paths start with [`PREFIX`]; every answer that is not 2xx is an [`ApiError`].

mod error;
mod flush;
mod pool;
mod status;
mod volume;
mod words;

pub use error::{ApiError, ApiErrorKind};
pub use flush::{Flush, FlushCancelled, FlushPurpose, Removal};
pub use pool::{Pool, PoolChange, PoolCreate, PoolImport, PoolList, PoolPlan, PoolSet, Ssd, WriteLog};
pub use status::{Stats, Status, VolumeCounters, Work};
pub use volume::{CacheEnable, Deleted, Volume, VolumeChange, VolumeCreate, VolumeList, VolumeSet, VolumeStats};
pub use words::{
    FetchRate, FlushRate, Health, IoType, PolicyKind, PoolKind, PoolState, SsdState, VolumeState, WriteMode,
};

/// What every path of this version of the API starts with.
pub const PREFIX: &str = "/api/v1";
