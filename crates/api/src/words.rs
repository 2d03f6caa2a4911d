//! The words of the API: closed sets of values, spelled in kebab-case.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a pool may hold: clean data only, or mirrored dirty data too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolKind {
    Read,
    ReadWrite,
}

/// The preset by which a pool was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IoType {
    Database,
    FileSystem,
    WebService,
    Custom,
}

/// What is evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PolicyKind {
    /// Scan-resistant.
    #[serde(rename = "s3-fifo")]
    S3Fifo,
    #[serde(rename = "lru")]
    Lru,
    #[serde(rename = "fifo")]
    Fifo,
    /// Scan-resistant.
    #[serde(rename = "2q")]
    TwoQ,
    /// Follows whichever of them suits the pool best.
    #[serde(rename = "auto")]
    Auto,
}

/// How much of the backing device's time fills may take beside hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FetchRate {
    Low,
    Medium,
    High,
}

/// How much of the backing device's time cleaning may take beside hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlushRate {
    Low,
    Medium,
    High,
}

/// Where a volume's writes go. In a read pool, and without a pool, every mode is `write-around`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteMode {
    /// To two SSDs, and to the backing device later; detected streams go past the cache.
    WriteBack,
    /// To two SSDs, streams too, until the dirty watermark.
    InstantWriteBack,
    /// To the backing device, then into the cache.
    WriteThrough,
    /// To the backing device only.
    WriteAround,
}

/// Best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    Good,
    Degraded,
    Failed,
}

impl Health {
    pub fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

/// What a pool is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolState {
    Online,
    /// Copies of dirty data that an SSD took with it are made anew; writes are cached meanwhile.
    Rebuilding,
    /// Its dirty data is written to the backing devices: it is to be deleted or converted, or two copies cannot be kept.
    Flushing,
    /// Waiting for its SSDs, or not usable; the reason says which.
    Offline,
}

/// What an SSD of a pool is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SsdState {
    Online,
    /// In use, and it gets copies of dirty data that has lost one.
    Rebuilding,
    /// In use, and being emptied, so that it can be removed.
    Flushing,
    /// It does not answer. It is waited for, or the pool goes on without it and takes it back when it answers; nothing is lost.
    Silent,
    /// Out of use because it takes no writes: it is write-protected, or answers them with errors. What only it has is read.
    ReadOnly,
    /// Out of use because it has no room: its file system is full, or its quota is used up. It is taken back when it has.
    NoSpace,
    /// Its pool is not open; it is there, or was not looked for yet.
    Offline,
    /// It was not there when the pool was opened; or the pool is not open, and it was not found.
    Missing,
    /// It failed, or had left the pool before: nothing on it is used. The reason says more.
    Expelled,
}

impl PoolState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Rebuilding => "rebuilding",
            Self::Flushing => "flushing",
            Self::Offline => "offline",
        }
    }
}

impl SsdState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Rebuilding => "rebuilding",
            Self::Flushing => "flushing",
            Self::Silent => "silent",
            Self::ReadOnly => "read-only",
            Self::NoSpace => "no-space",
            Self::Offline => "offline",
            Self::Missing => "missing",
            Self::Expelled => "expelled",
        }
    }
}

/// What the cache of a volume is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    Online,
    /// Its pool makes copies of dirty data anew.
    Rebuilding,
    /// Its dirty data is written to the backing device.
    Flushing,
    /// It caches nothing now.
    Offline,
}

impl CacheState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Rebuilding => "rebuilding",
            Self::Flushing => "flushing",
            Self::Offline => "offline",
        }
    }
}

/// How well the cache of a volume does what it is for; best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CacheHealth {
    /// All of it.
    Optimal,
    /// It caches reads and writes with all the copies they need, on fewer SSDs than the pool should have.
    PartiallyOptimal,
    /// It caches reads only, or some dirty data has one copy, or the backing device is in trouble.
    Degraded,
    /// It caches nothing, or the volume cannot be used.
    Failed,
}

impl CacheHealth {
    pub fn word(self) -> &'static str {
        match self {
            Self::Optimal => "optimal",
            Self::PartiallyOptimal => "partially optimal",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

/// What a volume is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// Hosts can use it.
    Online,
    /// Hosts can use it, while its dirty data is written to the backing device, so that its cache can be taken away.
    Flushing,
    /// It is not served; the reason says why.
    Offline,
}

impl VolumeState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Flushing => "flushing",
            Self::Offline => "offline",
        }
    }
}

/// Why a read was not answered from the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MissReason {
    /// Nobody had asked for the block of late.
    FirstTouch,
    /// It had not been read as often as the threshold says.
    BelowThreshold,
    /// It was in the cache, and made room for others.
    Evicted,
    /// Its block is in the cache, but hosts have written to these pages since.
    Overwritten,
    /// A stream past the cut-off.
    Stream,
    /// It is to be populated, and there is no free slot.
    NoRoom,
    /// It is to be populated, and waits for its turn or is on its way.
    FetchRate,
    /// It is to be populated, and its volume has all of its share.
    Share,
    /// It is to be populated, and the SSDs have taken what they may in a day.
    WearLimit,
    /// Something is wrong: with the SSD that had it, with the pool, with the request.
    Degraded,
    /// The volume has no cache, or its reads do not use it.
    Off,
}

impl MissReason {
    pub fn word(self) -> &'static str {
        match self {
            Self::FirstTouch => "first touch",
            Self::BelowThreshold => "below threshold",
            Self::Evicted => "evicted",
            Self::Overwritten => "overwritten",
            Self::Stream => "stream",
            Self::NoRoom => "no room",
            Self::FetchRate => "fetch rate",
            Self::Share => "share",
            Self::WearLimit => "wear limit",
            Self::Degraded => "degraded",
            Self::Off => "off",
        }
    }
}
