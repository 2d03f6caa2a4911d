//! The cache engine: volumes, cache pools, and what lies on their SSDs.
//!
//! It reaches the world through `hotset_block::{Env, Device}` alone, so the same code runs on io_uring and in the
//! simulator. `state/` holds what is true now, `flow/` what happens, `format/` bytes; see `docs/ARCHITECTURE.md`.

mod backing;
pub mod config;
mod date;
mod error;
mod flow;
mod format;
pub mod fuzz;
pub mod offline;
pub mod planted;
mod pool;
mod ssd;
pub mod state;
mod status;
mod volume;

pub use date::date_and_time;
pub use error::{Error, ErrorKind};
pub use flow::clear::Cleared;
pub use flow::owner::{Takeover, check_owner, dismiss_owner, may_have_owner, refuse_living};
pub use flow::remove::Removed;
pub use format::{Corrupt, Newer, Unusable};
pub use pool::{
    Closed, DirtyData, Drained, FenceCause, LABEL_BYTES, Missing, Named, Pool, PoolSpec, Reattached, STATE_BYTES,
    SsdLabel, inspect, ssds_awaited,
};
pub use state::evidence::BackingEvidence;
pub use state::latency::{LATENCY_CLASSES, LatencyCounters, LatencyCounts, class_end_ns};
pub use state::memory::{MemoryTerm, MemoryTerms};
pub use status::{
    CacheUse, DeviceIo, ErrorAnswer, Evacuation, FailedSsd, Health, PoolPlan, PoolStatus, Rebuild, Refusal, ScrubState,
    ScrubStatus, SpareStatus, SsdStatus, SsdWritesStatus, VolumeStats, VolumeStatus, WriteLogStatus,
};
pub use volume::{Durability, Volume, ZeroEffort};
