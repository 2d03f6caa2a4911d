//! Volumes: what they are asked to be, and what they are.

use hotset_counters::{COUNTERS, Counter};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words::{CacheHealth, CacheState, Health, PoolKind, VolumeState, WriteMode};
use crate::{DeviceIo, WritesHeld};

/// `POST /api/v1/volumes`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeCreate {
    pub name: String,
    /// The absolute path of a block device or file, or `emulated:disks=16,level=raid5,size=8G,file=PATH`.
    pub backing: String,
    /// The pool that caches it; none: it is served uncached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The block that hosts see: 512 or 4096. Left out: the backing device's, or 512 where its size is no multiple of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_block_bytes: Option<u32>,
    #[serde(default)]
    pub read_only: bool,
    /// Left out: `write-back`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mode: Option<WriteMode>,
    /// Left out: true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_cache: Option<bool>,
}

/// A part of what a pool has: so many bytes, 1 MiB or more, or so many percent, 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    Bytes(u64),
    Percent(u8),
}

/// `PATCH /api/v1/volumes/{name}`: the settings to change. A cut-off of 0 means off: no stream bypasses the cache. A
/// share of 0 bytes means none: no cap, no minimum, no maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSet {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_cutoff_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_cutoff_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_mode: Option<WriteMode>,
    /// Whether reads populate the cache and are answered from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_cache: Option<bool>,
    /// Whether pages that are read again are kept in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_cache: Option<bool>,
    /// Whether streams that bypass the cache are read into memory before hosts ask for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead: Option<bool>,
    /// How much of the volume may be dirty at once, of the pool's dirty capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dirty_cap: Option<Share>,
    /// Clean data that other volumes do not evict, of the pool's `capacity_min_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_min: Option<Share>,
    /// The most clean data that the volume has in the cache, of the pool's `capacity_min_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_max: Option<Share>,
    /// Whether the volume is a block device of the daemon's own machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<bool>,
    /// With `local` false: although programs use the device, and get errors.
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A volume as a block device of the daemon's own machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LocalDevice {
    /// Where programs find it, whatever number it has.
    pub path: String,
    /// The block device behind that; null: it is not there now.
    pub device: Option<String>,
    /// The kernel's driver.
    pub driver: String,
    /// The daemon is connected to it. Else its requests wait.
    pub connected: bool,
}

/// `PUT /api/v1/volumes/{name}/name`: hosts that are connected go on; from their next connection on they ask for the new name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeRename {
    pub name: String,
}

/// `PUT /api/v1/volumes/{name}/cache`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheEnable {
    pub pool: String,
}

/// The way in which a host uses a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostProtocol {
    Nbd,
    NbdTls,
    /// The kernel of the daemon's own machine.
    LocalDevice,
}

impl HostProtocol {
    pub fn word(self) -> &'static str {
        match self {
            Self::Nbd => "NBD",
            Self::NbdTls => "NBD with TLS",
            Self::LocalDevice => "local device",
        }
    }
}

/// A connection of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostClient {
    pub protocol: HostProtocol,
    /// Its address, or the process behind a unix socket.
    pub peer: String,
    /// When it connected, in milliseconds since 1970.
    pub since_unix_ms: u64,
    /// Requests that it waits for.
    pub in_flight: u64,
}

/// A volume as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    pub name: String,
    pub backing: String,
    /// The backing device is a model of one: its speed is not that of a real array.
    pub backing_emulated: bool,
    pub state: VolumeState,
    /// Of the volume with its cache.
    pub health: Health,
    /// Why it is not good. Empty when good.
    pub reason: String,
    /// What to do about it. Empty when there is nothing to do.
    #[serde(default)]
    pub action: String,
    /// What would be better, although nothing is wrong: a name of its backing device that stays its own. Mostly empty.
    #[serde(default)]
    #[schema(required)]
    pub advice: String,
    /// Of its cache; null without a pool.
    #[serde(default)]
    pub cache_state: Option<CacheState>,
    /// Of its cache; null without a pool.
    #[serde(default)]
    pub cache_health: Option<CacheHealth>,
    pub size_bytes: u64,
    /// Bytes at the end of the backing device that hosts do not see, because they are no whole block.
    #[serde(default)]
    #[schema(required)]
    pub unserved_bytes: u64,
    pub logical_block_bytes: u32,
    pub read_only: bool,
    /// A read stream longer than this bypasses the cache; null: never.
    pub read_cutoff_bytes: Option<u64>,
    /// A write stream longer than this bypasses the cache; null: never.
    pub write_cutoff_bytes: Option<u64>,
    pub write_mode: WriteMode,
    /// Where its writes go now: around the cache unless its pool is a read-write pool.
    pub effective_write_mode: WriteMode,
    /// Whether reads populate the cache and are answered from it.
    pub read_cache: bool,
    /// Whether pages that are read again are kept in memory.
    #[serde(default = "on")]
    #[schema(required)]
    pub memory_cache: bool,
    /// Whether streams that bypass the cache are read into memory before hosts ask for them, where the memory cache is on.
    #[serde(default = "on")]
    #[schema(required)]
    pub read_ahead: bool,
    /// How much of it may be dirty at once, of the pool's dirty capacity; null: all of that.
    pub dirty_cap: Option<Share>,
    /// Clean data that other volumes do not evict; null: none.
    pub cache_min: Option<Share>,
    /// The most clean data that it has in the cache; null: no limit.
    pub cache_max: Option<Share>,
    /// The pool that caches it; null: none.
    pub pool: Option<String>,
    /// The type of that pool.
    pub pool_type: Option<PoolKind>,
    /// Bytes of its pages that its pool holds, clean or dirty, each counted once. What its pool's volumes use adds up to what
    /// the pool has in use.
    pub cache_used_bytes: u64,
    /// Of them, what lies in the write log.
    pub write_cache_used_bytes: u64,
    /// Data at risk: bytes acknowledged to hosts and not yet on the backing device; zeroes too, which take no place.
    pub dirty_bytes: u64,
    /// Of them, what is unavailable: reads of it fail until an SSD that has it is back, it is written again or its loss accepted.
    #[serde(default)]
    pub lost_bytes: u64,
    /// How long the oldest of what is dirty has been so, counted anew at a start; null if nothing is dirty.
    pub oldest_dirty_seconds: Option<u64>,
    /// Its writes go to the backing device, because an administrator wants that for a while; null: they do not.
    #[serde(default)]
    pub writes_held: Option<WritesHeld>,
    /// Where hosts find it, one URI for each listener.
    pub nbd: Vec<String>,
    /// The block device of this machine that it is; null: none.
    #[serde(default)]
    pub local: Option<LocalDevice>,
    /// Hosts that are connected to it.
    #[serde(default)]
    #[schema(required)]
    pub clients: Vec<HostClient>,
    /// What the backing device has had to do.
    #[serde(default)]
    #[schema(required)]
    pub backing_io: DeviceIo,
    pub stats: VolumeStats,
}

fn on() -> bool {
    true
}

macro_rules! stats {
    ([$(
        $(#[$doc:meta])* $name:ident, $metric:literal, $help:literal, history($($kept:tt)*),
            $how:ident($($said:tt)*);
    )*] [$(
        $(#[$other_doc:meta])* $other:ident, $other_metric:literal, $other_help:literal, history($($other_kept:tt)*),
            $other_how:ident($($other_said:tt)*);
    )*]) => {
        /// Counters since the volume was opened. Requests count once, whatever their length.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
        pub struct VolumeStats {
            $($(#[$doc])* #[serde(default)] #[schema(required)] pub $name: u64,)*
            /// Hits per read, 0 to 1; 0 without reads.
            pub hit_ratio: f64,
            $($(#[$other_doc])* #[serde(default)] #[schema(required)] pub $other: u64,)*
        }

        impl VolumeStats {
            /// Each of them, in the order of the table.
            pub fn counters(&self) -> impl Iterator<Item = (&'static Counter, u64)> {
                COUNTERS.iter().zip([$(self.$name,)* $(self.$other,)*])
            }
        }
    };
}
hotset_counters::volume_counters!(stats);

/// `GET /api/v1/volumes`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeList {
    pub volumes: Vec<Volume>,
}

/// A volume whose backing device was checked and opened again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeClear {
    /// False if nothing was wrong with it.
    pub changed: bool,
    /// What hosts wrote past the cache since the last flush that succeeded may be lost; the next flush of each of them is an error.
    pub doubtful: bool,
    pub volume: Volume,
}

/// What speaks for and against a backing device's being the one that a pool has on record, and as it was left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BackingEvidence {
    /// The volume serves nothing, because its backing device is taken for another one.
    pub fenced: bool,
    pub dirty_bytes: u64,
    pub size_bytes_before: u64,
    pub size_bytes: u64,
    /// What the device was called when it was seen last.
    pub identity_before: String,
    pub identity: String,
    /// Null: the two names cannot be compared.
    pub same_identity: Option<bool>,
    /// Fingerprint pages that are as they were.
    pub fingerprints_matching: u64,
    /// Of them, those that are not all zeroes: blank devices are alike.
    pub fingerprints_telling: u64,
    /// First bytes of the fingerprint pages that are not as they were.
    pub fingerprints_changed: Vec<u64>,
    /// Fingerprint pages that hosts may have written to since: they say nothing.
    pub fingerprints_unsettled: u64,
    /// Whether it was written to since the last clean stop; null where that cannot be told.
    pub written: Option<bool>,
    /// What speaks against it. Empty: nothing does.
    pub against: String,
    /// More than its name speaks against it: it is accepted with `force` only.
    pub needs_force: bool,
}

/// Takes the backing device of a fenced volume for the right one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackingAccept {
    /// Although what is on it speaks against it.
    #[serde(default)]
    pub force: bool,
}

/// A volume, and whether the request changed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VolumeChange {
    pub changed: bool,
    pub volume: Volume,
}

/// What a `DELETE` removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deleted {
    pub deleted: String,
}
