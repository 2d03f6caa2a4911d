//! The daemon as a whole: its health, and the counters from which rates are made.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::history::RecentLatency;
use crate::volume::VolumeStats;
use crate::words::Health;
use crate::{Condition, DaemonCounters, Flush, MemoryCache, Pool, Volume};

/// `GET /api/v1/status`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The worst of all conditions; good without any.
    pub health: Health,
    /// One line for each condition, and for each warning.
    pub reasons: Vec<String>,
    /// All that is not as it should be: what is bad, since when, and what to do. Worst first.
    #[serde(default)]
    #[schema(required)]
    pub conditions: Vec<Condition>,
    pub version: String,
    pub pid: u32,
    pub uptime_s: u64,
    pub state_directory: String,
    /// Where hosts connect, one URI for each listener.
    pub nbd: Vec<String>,
    /// Threads that serve hosts.
    #[serde(default)]
    #[schema(required)]
    pub threads: u16,
    /// What the tables of the pools take.
    pub memory_in_use_bytes: u64,
    pub memory_limit_bytes: u64,
    /// Pages in memory, of all volumes.
    #[serde(default)]
    #[schema(required)]
    pub memory_cache: MemoryCache,
    /// Data at risk: bytes acknowledged to hosts and not yet on the backing devices, of all pools.
    pub dirty_bytes: u64,
    /// How long the oldest of them has been dirty, counted anew at a start; null if nothing is dirty.
    pub oldest_dirty_seconds: Option<u64>,
    /// What the daemon counts of itself.
    pub counters: DaemonCounters,
    pub pools: Vec<Pool>,
    pub volumes: Vec<Volume>,
    /// What takes long and is being done now.
    pub work: Vec<Work>,
    /// Caches that are being flushed so that they can be taken away.
    pub flushes: Vec<Flush>,
}

/// Something that takes long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Work {
    pub what: String,
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// Transfers of a device since its pool or volume was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeviceIo {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub written_bytes: u64,
}

/// `GET /api/v1/stats`: counters of all volumes, taken at one moment. A rate is the difference of two answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Stats {
    /// The moment, in nanoseconds of the daemon's monotonic clock.
    pub at_ns: u64,
    /// Of all volumes together.
    #[serde(default)]
    #[schema(required)]
    pub recent_latency: RecentLatency,
    pub volumes: Vec<VolumeCounters>,
}

/// A volume's counters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeCounters {
    pub name: String,
    pub pool: Option<String>,
    pub size_bytes: u64,
    pub cache_used_bytes: u64,
    pub write_cache_used_bytes: u64,
    pub dirty_bytes: u64,
    /// Bytes of pages that the SSDs of its pool hold when they are full of clean data; 0 without a pool.
    pub pool_capacity_bytes: u64,
    #[serde(default)]
    #[schema(required)]
    pub recent_latency: RecentLatency,
    pub stats: VolumeStats,
}
