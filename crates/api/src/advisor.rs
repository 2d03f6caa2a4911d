//! What a cache of another size would do for a volume: watched while it serves.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words::{PolicyKind, PoolKind};

/// The time of which curves are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceWindow {
    Day,
    Week,
    /// Since the volume is watched.
    All,
}

impl AdviceWindow {
    pub fn word(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::All => "all",
        }
    }
}

/// A pool as it is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdvisedPool {
    pub r#type: PoolKind,
    pub block_bytes: u64,
    pub policy: PolicyKind,
    pub populate_on_read: u8,
    pub populate_on_write: u8,
}

/// A cache of one size. Ratios are of the parts of blocks that requests touched.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdvisedSize {
    pub size_bytes: u64,
    /// Of reads.
    pub hit_ratio: f64,
    /// How far `hit_ratio` may be off, because only some blocks are watched: two standard deviations.
    pub error: f64,
    /// Of writes, those that SSDs alone take before the host is answered. Null: there were none, or it is a read pool, which takes none.
    pub write_hit_ratio: Option<f64>,
    /// What LRU would hit that takes everything.
    pub lru_hit_ratio: f64,
    /// To all SSDs together, both copies of what is mirrored, in a day in which the volume is watched. Null: too little time is known.
    pub ssd_written_bytes_per_day: Option<f64>,
    /// What a read would take on average, by what reads take here now, and 100 us for a hit on an SSD where there was none yet; null, if
    /// nothing is known of misses.
    pub read_microseconds: Option<f64>,
    /// How long the SSDs last at that rate, if this volume alone writes to them; null, if nobody said what they may be written.
    pub years: Option<f64>,
}

/// Bytes of one day, each once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdvisedDay {
    /// Its beginning (UTC), in seconds since 1970.
    pub begins_unix_seconds: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Read, and read again on the same day.
    pub read_again_bytes: u64,
}

/// Of how many bytes of a volume something was done when, estimated from the blocks that are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AdvisedDays {
    /// Today first, seven of them; days before the volume was watched have nothing.
    pub days: Vec<AdvisedDay>,
    /// Read or written today.
    pub hot_bytes: u64,
    /// Not today, but within seven days.
    pub warm_bytes: u64,
    /// Before.
    pub cold_bytes: u64,
    /// Never since the volume is watched.
    pub archived_bytes: u64,
}

/// What is known of one volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Advice {
    pub volume: String,
    /// Null: it is not cached.
    pub pool: Option<String>,
    pub size_bytes: u64,
    pub window: AdviceWindow,
    /// What is known begins here: later than the window does, if the volume is not watched for so long.
    pub from_unix_seconds: u64,
    pub to_unix_seconds: u64,
    /// Parts of blocks that were read and written in this time.
    pub reads: u64,
    /// Of the reads, those of streams, which go past the cache.
    #[serde(default)]
    #[schema(required)]
    pub stream_reads: u64,
    pub writes: u64,
    /// The part of all blocks that is watched.
    pub sample: f64,
    /// What was accessed at all since the volume is watched, each block once.
    pub footprint_bytes: u64,
    /// Of which pool the curve is: of the volume's own, of the one that it had last, or of one with default settings.
    pub setup: AdvisedPool,
    /// From the smallest to the largest.
    pub curve: Vec<AdvisedSize>,
    /// The size of the pool that it has now, of which other volumes take their part.
    pub present: Option<AdvisedSize>,
    /// How many these are.
    #[serde(default)]
    #[schema(required)]
    pub shared_with: u32,
    /// From this size on, no doubling brings two of a hundred reads that are not of streams. Null, if no size pays, or too little is known.
    pub recommended: Option<AdvisedSize>,
    /// That in words.
    pub sentence: String,
    pub days: AdvisedDays,
}

/// `GET /api/v1/advisor?window=`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdviceList {
    pub volumes: Vec<Advice>,
    /// Of all volumes together.
    pub days: AdvisedDays,
}

/// `GET /api/v1/volumes/{name}/whatif`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveWhatIf {
    pub volume: String,
    pub window: AdviceWindow,
    pub from_unix_seconds: u64,
    pub to_unix_seconds: u64,
    pub pools: Vec<LiveWhatIfPool>,
    /// Commands that try pools of which no answer is known with what hosts ask from now on: one for each setup, with all sizes.
    pub trials: Vec<String>,
}

/// What a pool would have done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LiveWhatIfPool {
    pub setup: AdvisedPool,
    pub size_bytes: u64,
    /// Null: what is watched does not tell; `unanswered` says why.
    pub answer: Option<AdvisedSize>,
    pub unanswered: String,
}
