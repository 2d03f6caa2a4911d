//! Statistics over time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Subject;

macro_rules! point {
    ($([$(
        $(#[$doc:meta])* $name:ident, $metric:literal, $help:literal, history($($place:literal $(, $rate:ident)?)?),
            $how:ident($($said:tt)*);
    )*])*) => {
        /// What happened in one interval of time. A value that the subject does not have is null: only volumes have hits and
        /// latencies, only pools and SSDs have SSD I/O.
        ///
        /// Gauges (`…_bytes`) are averages of the samples, rates are differences of counters over `covered_seconds`.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
        pub struct HistoryPoint {
            /// The end of the interval.
            pub at_unix_seconds: u64,
            /// How much of the interval was observed: the daemon may have been down.
            pub covered_seconds: u64,
            pub cache_used_bytes: Option<f64>,
            pub write_cache_used_bytes: Option<f64>,
            pub dirty_bytes: Option<f64>,
            /// Reads; `hits` + `misses` = `requests`.
            pub requests: Option<u64>,
            /// Reads answered by the cache alone.
            pub hits: Option<u64>,
            pub misses: Option<u64>,
            /// `hits` / `requests`, 0 to 1; null without requests.
            pub hit_ratio: Option<f64>,
            /// Writes that hosts made, and those of them that were acknowledged from the SSDs alone.
            pub writes: Option<u64>,
            pub write_hits: Option<u64>,
            pub read_latency: Option<LatencyPercentiles>,
            pub write_latency: Option<LatencyPercentiles>,
            pub ssd_reads_per_second: Option<f64>,
            pub ssd_writes_per_second: Option<f64>,
            pub ssd_read_bytes_per_second: Option<f64>,
            pub ssd_written_bytes_per_second: Option<f64>,
            pub backing_reads_per_second: Option<f64>,
            pub backing_writes_per_second: Option<f64>,
            pub backing_read_bytes_per_second: Option<f64>,
            pub backing_written_bytes_per_second: Option<f64>,
            $($($($(pub $rate: Option<f64>,)?)?)*)*
        }
    };
}
hotset_counters::volume_counters!(point);

/// Of requests, from their arrival to their answer; each is at most 13 % above the true value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatencyPercentiles {
    pub p50_microseconds: f64,
    pub p95_microseconds: f64,
    pub p99_microseconds: f64,
}

/// Of the requests that were answered in the last five seconds; null where there were none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecentLatency {
    pub reads: Option<LatencyPercentiles>,
    pub writes: Option<LatencyPercentiles>,
}

/// Averages over the time until now; null while there is no sample in it. `covered_seconds` of each says how much of that time
/// was observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryAverages {
    pub day: Option<HistoryPoint>,
    pub week: Option<HistoryPoint>,
    pub month: Option<HistoryPoint>,
}

/// `GET /api/v1/history?subject=volume:NAME&from=&to=&points=`
///
/// `subject` is `pool:NAME`, `ssd:UUID` or `volume:NAME`, or `daemon`: all volumes and SSDs together; `from` and `to` are seconds
/// since 1970 (by default the last four hours), `points` is at most 2000 (by default 480).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct History {
    pub subject: Subject,
    pub from_unix_seconds: u64,
    pub to_unix_seconds: u64,
    /// From one point to the next; a multiple of 30 s. Intervals without any sample are left out.
    pub step_seconds: u64,
    pub points: Vec<HistoryPoint>,
    /// The newest sample; null if there is none of the last two minutes.
    pub current: Option<HistoryPoint>,
    pub averages: HistoryAverages,
    /// When the volume's cache was enabled last, as far as the history reaches: where its warm-up begins.
    pub cache_enabled_unix_seconds: Option<u64>,
}
