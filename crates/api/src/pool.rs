//! Pools: what they are asked to be, and what they are.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::DeviceIo;
use crate::members::{Progress, Spare};
use crate::scrub::Scrub;
use crate::smart::{Smart, SsdHealth, SsdIdentity};
use crate::words::{FetchRate, FlushRate, Health, IoType, PolicyKind, PoolKind, PoolState, SsdState};

/// `POST /api/v1/pools` and `POST /api/v1/pools/plan`: the pool to make. What is left out comes from the preset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolCreate {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: PoolKind,
    pub io_type: IoType,
    /// A power of two from 64 KiB to 4 MiB; custom pools only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub populate_on_read: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub populate_on_write: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyKind>,
    /// Page checksums of slots; on if left out. Without them a pool needs less memory, and a cached page that rots on an SSD
    /// without a read error is not noticed. Dirty data always has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<bool>,
    /// Absolute paths of block devices or image files.
    pub ssds: Vec<String>,
    /// Use the SSDs although they carry a foreign signature, whose content is lost.
    #[serde(default)]
    pub force: bool,
    /// Make a read-write pool of block devices that share a physical disk: both copies may be lost with it.
    #[serde(default)]
    pub allow_same_disk: bool,
}

/// `POST /api/v1/pools/import`: a pool whose SSDs are at these paths.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolImport {
    pub ssds: Vec<String>,
    /// Go on although SSDs of the pool are not among them: those leave the pool for good.
    #[serde(default)]
    pub accept_missing: bool,
    /// Accept the loss of the dirty data of which no copy is left, and the proof that what is left is the newest.
    #[serde(default)]
    pub accept_loss: bool,
    /// Take the pool although another machine used it last and was not stopped cleanly. Refused while that one uses it.
    #[serde(default)]
    pub force: bool,
}

/// `PATCH /api/v1/pools/{name}`: the settings to change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSet {
    /// With the thresholds of its preset, unless those are given too; `custom` leaves them as they are. The cache block stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_type: Option<IoType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub populate_on_read: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub populate_on_write: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch_rate: Option<FetchRate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush_rate: Option<FlushRate>,
    /// Cleaning goes on beside hosts from this share of the dirty capacity on: 1 to 90.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_watermark_percent: Option<u8>,
    /// Dirty data older than this is cleaned whatever hosts do: 1 s to 30 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_age_max_seconds: Option<u32>,
    /// Once so much was written to all SSDs together within 24 hours, nothing more is populated: 1 MiB or more, or 0 for
    /// no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssd_writes_per_day_bytes: Option<u64>,
}

/// `POST /api/v1/pools/{name}/conversion`: what cannot change online is changed by flushing the pool and making it anew in place;
/// at least one of the first three. `POST …/conversion/plan` answers what the pool would be like, and changes nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolConvert {
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<PoolKind>,
    /// A power of two from 64 KiB to 4 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size_bytes: Option<u64>,
    /// Page checksums of slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<bool>,
    /// Make a read-write pool of block devices that share a physical disk: both copies may be lost with it.
    #[serde(default)]
    pub allow_same_disk: bool,
}

/// So many of one thing, each with so many bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryTerm {
    pub count: u64,
    pub bytes_each: f64,
    /// `count` times `bytes_each`, rounded up.
    pub bytes: u64,
}

/// What the memory that a pool needs adds up from, with every slot in use and as much dirty as may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MemoryTerms {
    pub slots: MemoryTerm,
    /// Pages of slots.
    pub slot_pages: MemoryTerm,
    /// Checksums of these pages.
    pub checksums: MemoryTerm,
    /// Pages that may be dirty at once, wherever they lie: the worst case.
    pub dirty_pages: MemoryTerm,
}

/// What a pool would be like (`pool create --dry-run`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolPlan {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: PoolKind,
    pub io_type: IoType,
    pub block_size_bytes: u64,
    pub populate_on_read: u8,
    pub populate_on_write: u8,
    pub policy: PolicyKind,
    pub checksums: bool,
    /// Bytes of pages that its SSDs hold when they are full of clean data.
    pub capacity_bytes: u64,
    /// What of that clean data has however much is dirty; the same in a read pool.
    pub capacity_min_bytes: u64,
    pub slots: u64,
    pub segment_bytes: u64,
    /// Memory for its tables when every slot is in use and all that may be dirty is.
    pub memory_bytes: u64,
    /// The terms of `memory_bytes`, which is their sum.
    pub memory_terms: MemoryTerms,
    /// Bytes that hosts may have dirty at once; 0 in a read pool.
    pub dirty_capacity_bytes: u64,
    /// The part of `memory_bytes` that is for dirty data, in the worst case: random writes of 4 KiB.
    pub dirty_memory_bytes: u64,
    /// What the tables of all pools may take together.
    pub memory_limit_bytes: u64,
    /// What the tables of the other pools take.
    pub memory_in_use_bytes: u64,
    /// Per SSD, in the order of the request: bytes of cached pages it can hold at most.
    pub ssd_capacity_bytes: Vec<u64>,
    /// SSD files that are sparse and are written in full before use: their bytes.
    pub bytes_to_write_first: u64,
    pub warnings: Vec<String>,
}

/// A pool as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    pub name: String,
    /// 32 hexadecimal digits; empty while the pool is not open.
    pub uuid: String,
    #[serde(rename = "type")]
    pub kind: PoolKind,
    pub io_type: IoType,
    pub state: PoolState,
    pub health: Health,
    /// Why it is not good, not online, or does not do all that it could. Empty otherwise.
    pub reason: String,
    /// What to do about it. Empty when there is nothing to do.
    #[serde(default)]
    pub action: String,
    pub block_size_bytes: u64,
    pub populate_on_read: u8,
    pub populate_on_write: u8,
    pub policy: PolicyKind,
    /// The policy that is followed now: the same, but never `auto`.
    pub policy_followed: PolicyKind,
    /// How often `auto` has followed another one since the pool was opened or it was chosen.
    pub policy_switches: u64,
    /// Why it did so the last time. Empty if it never did.
    pub policy_reason: String,
    pub fetch_rate: FetchRate,
    pub flush_rate: FlushRate,
    pub dirty_watermark_percent: u8,
    pub dirty_age_max_seconds: u32,
    /// Once so much was written to all SSDs together within 24 hours, nothing more is populated; null: no limit.
    pub ssd_writes_per_day_bytes: Option<u64>,
    /// What was written to them within the last 24 hours, by the hour.
    pub ssd_written_day_bytes: u64,
    /// That reached the limit: nothing more is populated.
    pub populating_stopped: bool,
    pub checksums: bool,
    /// Bytes of pages that its SSDs hold when they are full of clean data. Another only after an SSD came or left, or a
    /// conversion.
    pub capacity_bytes: u64,
    /// What of that clean data has however much is dirty.
    pub capacity_min_bytes: u64,
    /// Bytes of pages that it holds, clean or dirty, each counted once: of all its volumes together.
    pub used_bytes: u64,
    /// The slots that the capacity is made of; those whose place the write log takes now are never in use.
    pub slots: u64,
    pub slots_used: u64,
    /// Of them, those that were filled lately: if the daemon were killed now, the next one would read them again.
    #[serde(default)]
    #[schema(required)]
    pub slots_unpublished: u64,
    /// Memory that its tables take now.
    pub memory_bytes: u64,
    pub epoch: u64,
    /// What the last start found.
    pub recovery: String,
    /// Dirty data and its log; null in a read pool, and while the pool is not open.
    pub write_log: Option<WriteLog>,
    /// The scrub that runs, or the last one; null: none is known.
    pub scrub: Option<Scrub>,
    /// What is not as safe as it could be, although the pool is good.
    pub warnings: Vec<String>,
    pub ssds: Vec<Ssd>,
    #[serde(default)]
    #[schema(required)]
    pub spares: Vec<Spare>,
    /// Copies of dirty data that are being made anew; null if all are there.
    pub rebuild: Option<Progress>,
    pub volumes: Vec<String>,
}

/// The write log of a read-write pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WriteLog {
    /// Bytes that hosts may have dirty at once.
    pub dirty_capacity_bytes: u64,
    /// Data at risk: bytes acknowledged to hosts and not yet on the backing devices.
    pub dirty_bytes: u64,
    /// Bytes of newest pages that lie in the log, dirty or clean, each counted once.
    pub live_bytes: u64,
    /// Bytes of the SSDs that the log takes, both copies.
    pub log_bytes: u64,
    pub rows: u64,
    /// New writes go past the cache, because two copies cannot be kept.
    pub write_caching_off: bool,
    /// What the last start read of the log.
    pub recovered_bytes: u64,
    pub recovery_ms: u64,
}

/// An SSD of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Ssd {
    pub path: String,
    pub uuid: String,
    pub size_bytes: u64,
    /// The physical disk with which it fails, by a word that tells disks apart; empty: it is not known.
    #[serde(default)]
    #[schema(required)]
    pub disk: String,
    pub online: bool,
    pub state: SsdState,
    /// It is being emptied, so that it can be removed.
    pub evacuation: Option<Progress>,
    #[serde(default)]
    #[schema(required)]
    pub health: SsdHealth,
    #[serde(default)]
    #[schema(required)]
    pub identity: SsdIdentity,
    #[serde(default)]
    #[schema(required)]
    pub smart: Smart,
    /// Why it is not online, or a warning. Empty if there is nothing to say.
    pub reason: String,
    /// What to do about it. Empty when there is nothing to do.
    #[serde(default)]
    pub action: String,
    pub slots: u64,
    pub slots_used: u64,
    /// Medium errors and checksum failures that hosts never saw.
    pub read_errors: u64,
    /// A start found that it had lost what it had flushed; on record until it is replaced or removed.
    #[serde(default)]
    #[schema(required)]
    pub lost_writes: bool,
    pub written_bytes: u64,
    /// What the pool has had it do.
    #[serde(default)]
    #[schema(required)]
    pub io: DeviceIo,
}

/// `GET /api/v1/pools`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolList {
    pub pools: Vec<Pool>,
}

/// A pool, and whether the request changed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolChange {
    pub changed: bool,
    pub pool: Pool,
}

/// Answer of `PATCH /api/v1/pools/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PoolSettingsChange {
    pub changed: bool,
    pub pool: Pool,
    /// What belongs to the settings and cannot change online, and what changes it.
    pub warnings: Vec<String>,
}
