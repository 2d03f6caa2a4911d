//! The cache engine: volumes, cache pools, and what lies on their SSDs.
//!
//! It reaches the world through `hotset_block::{Env, Device}` alone, so the same code runs on io_uring and in the
//! simulator. Each folder is a room with one owner, `format/` turns values into bytes; see `docs/ARCHITECTURE.md`.

mod address;
pub mod advisor;
mod attachment_ids;
mod attachments;
mod clean;
pub mod config;
mod date;
mod error;
mod format;
pub mod fuzz;
mod log;
mod members;
mod memory_cache;
pub mod offline;
mod pool;
mod reasons;
#[cfg(test)]
mod refused;
mod status;
mod time_limit;
mod volume;

/// What is known of slots and blocks, for benchmarks, and for comparisons with references.
pub mod state {
    pub use crate::address::{BlockIndex, BlockKey, SlotIndex, VolumeIndex};
    pub use crate::clean::counters::Counters;
    pub use crate::clean::ghost::Ghost;
    pub use crate::clean::links::{List, SLOTS_MAX};
    pub use crate::clean::map::Map;
    pub use crate::clean::policy::{Enters, Policy};
    pub use crate::volume::streams::Streams;
}

pub use attachments::evidence::BackingEvidence;
pub use clean::SlotCopy;
pub use date::{DateTime, date_and_time};
pub use error::{Error, ErrorKind, Remedy};
pub use format::layout::STATE_BYTES;
pub use format::{Corrupt, FORMAT_VERSION, Newer, Unusable};
pub use members::label::{LABEL_BYTES, Named, SsdLabel, inspect};
pub use members::newcomer::random_uuid;
pub use members::owner::{Takeover, check_owner, dismiss_owner, may_have_owner, refuse_living};
pub use memory_cache::{MemoryCache, MemoryCacheStatus};
pub use pool::attach::{FenceCause, Reattached};
pub use pool::close::Closed;
pub use pool::detach::DirtyData;
pub use pool::drain::Drained;
pub use pool::plan::PoolSpec;
pub use pool::remove::Removed;
pub use pool::survey::Missing;
pub use pool::{Pool, ssds_awaited};
pub use reasons::{
    BackingStop, NoCopy, NotUsed, OutOfUse, PoolLimit, PoolReason, SpareReason, SsdDoubt, SsdReason, VolumeFence,
    VolumeReason,
};
pub use status::{
    CacheUse, DeviceIo, ErrorAnswer, Evacuation, FailedSsd, Health, MemoryTerm, MemoryTerms, PolicySwitch, PoolPlan,
    PoolStatus, Rebuild, Refusal, ScrubState, ScrubStatus, SpareStatus, SsdStatus, SsdWritesStatus, UnfinishedScrub,
    VolumeStats, VolumeStatus, WriteLogStatus,
};
pub use volume::clear::Cleared;
pub use volume::explain::{Explanation, FillState, InPool, LogCopy};
pub use volume::failures::Failure;
pub use volume::flush_now::Flushed;
pub use volume::inner::Volume;
pub use volume::latency::{LATENCY_CLASSES, LatencyCounters, LatencyCounts, class_end_ns};
pub use volume::missed::Missed;
pub use volume::recorder::{Recorded, RecordedRequest};
pub use volume::relocate::Relocated;
pub use volume::requests::{Durability, ZeroEffort};
