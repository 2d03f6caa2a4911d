//! What is counted of a volume: one table, from which the engine's counters, the API's field, the metric and the history's series are made.
//!
//! Whoever adds a counter adds a row here, counts it in the engine, and has `docs/openapi.json` and the console's types written anew.
//! What the terminal and the console list is [`COUNTERS`]. The crate knows nothing else: the engine and the API, which know nothing of
//! each other, both take the table from it.

/// Calls the macro `$with` with the table: two groups in brackets, what hosts asked for and what the cache did.
///
/// A row is the API's description of the counter, its name, its metric and that one's help, and what the history keeps of it:
/// `history(place, rate)`, where `place` is a number of the history file's format, never used for anything else and never changed (the
/// next one is the lowest that no counter, and none of `Field` in `history/bucket.rs`, has), and `rate` the series of a point in time that
/// shows it for each second, if one does. `history()`: nothing. At last how people see it, in the terminal and in the console:
/// `shown(line, said)`, where counters with the same line follow each other in it, and `{}` of `said` is the number (bytes, if the counter's
/// name ends with that); or `missed(reason)`, for reads that missed.
#[macro_export]
macro_rules! volume_counters {
    ($with:ident) => {
        $with! {
            [
                reads, "hotset_volume_reads_total", "Read requests of hosts.", history(3, reads_per_second), shown("Reads", "{}");
                /// Reads answered by the cache alone, in memory or on SSDs.
                read_hits, "hotset_volume_read_hits_total", "Reads answered by the cache alone.", history(4),
                    shown("Read hits", "{}");
                /// Of them, reads answered from memory, without touching an SSD.
                memory_hits, "hotset_volume_memory_hits_total", "Of them, reads answered from memory.", history(20, memory_hits_per_second),
                    shown("Of them", "{} in memory");
                /// Reads of streams that were answered by what was read ahead of them; they are no hits.
                read_ahead_hits, "hotset_volume_read_ahead_hits_total",
                    "Reads of streams answered by what was read ahead of them.", history(),
                    shown("Read ahead", "{} reads found theirs");
                read_bytes, "hotset_volume_read_bytes_total", "Bytes that hosts read.", history(5, read_bytes_per_second),
                    shown("Reads", " ({})");
                writes, "hotset_volume_writes_total", "Write requests of hosts.", history(6, writes_per_second),
                    shown("Writes", "{}");
                write_bytes, "hotset_volume_write_bytes_total", "Bytes that hosts wrote.", history(8, write_bytes_per_second),
                    shown("Writes", " ({})");
                flushes, "hotset_volume_flushes_total", "Flush requests of hosts.", history(), shown("Flushes", "{}");
                trims, "hotset_volume_trims_total", "Trim requests of hosts.", history(), shown("Trims, zeroes", "{}");
                zeroes, "hotset_volume_zeroes_total", "Requests of hosts to write zeroes.", history(),
                    shown("Trims, zeroes", ", {}");
            ]
            [
                /// Writes acknowledged from the SSDs alone.
                write_hits, "hotset_volume_write_hits_total", "Writes acknowledged from the SSDs alone.", history(7),
                    shown("Write hits", "{}");
                /// Bytes of dirty data written to the backing device.
                cleaned_bytes, "hotset_volume_cleaned_bytes_total",
                    "Dirty data written to the backing device.", history(11, cleaned_bytes_per_second),
                    shown("Cleaned, moved, reinserted", "{}");
                /// Bytes copied within the write log, to make room in it.
                moved_bytes, "hotset_volume_moved_bytes_total",
                    "Bytes copied within the write log, to make room in it.", history(), shown("Cleaned, moved, reinserted", ", {}");
                /// Bytes of clean pages that went from the write log back to the slots of their blocks.
                reinserted_bytes, "hotset_volume_reinserted_bytes_total",
                    "Clean pages that went from the write log back to the slots of their blocks.", history(),
                    shown("Cleaned, moved, reinserted", ", {}");
                /// Reads that a detected stream took past the cache.
                bypassed_reads, "hotset_volume_bypassed_reads_total",
                    "Reads that a detected stream took past the cache.", history(), shown("Bypassed", "{} reads");
                bypassed_writes, "hotset_volume_bypassed_writes_total",
                    "Writes that a detected stream took past the cache.", history(), shown("Bypassed", ", {} writes");
                /// Reads that missed because nobody had asked for the block of late.
                missed_first_touch, "hotset_volume_missed_first_touch_total",
                    "Reads that missed: nobody had asked for the block of late.", history(21, missed_first_touch_per_second),
                    missed("first touch");
                /// Reads that missed because the block had not been read as often as the threshold says.
                missed_below_threshold, "hotset_volume_missed_below_threshold_total",
                    "Reads that missed: the block was below the threshold.", history(22, missed_below_threshold_per_second),
                    missed("below threshold");
                /// Reads that missed a block that was in the cache and made room for others.
                missed_evicted, "hotset_volume_missed_evicted_total",
                    "Reads that missed: the block was evicted for others.", history(23, missed_evicted_per_second),
                    missed("evicted");
                /// Reads that missed pages of a cached block to which hosts have written since.
                missed_overwritten, "hotset_volume_missed_overwritten_total",
                    "Reads that missed: hosts wrote to the pages since the block was cached.", history(24, missed_overwritten_per_second),
                    missed("overwritten");
                /// Reads that missed and belong to a stream past the cut-off.
                missed_stream, "hotset_volume_missed_stream_total",
                    "Reads that missed: a stream past the cut-off.", history(25, missed_stream_per_second), missed("stream");
                /// Reads that missed a block that is to be populated and finds no free slot.
                missed_no_room, "hotset_volume_missed_no_room_total",
                    "Reads that missed: no free slot for the block.", history(26, missed_no_room_per_second), missed("no room");
                /// Reads that missed a block that waits for its turn at the backing device, or is being read from there.
                missed_fetch_rate, "hotset_volume_missed_fetch_rate_total",
                    "Reads that missed: the block waits for its fill.", history(27, missed_fetch_rate_per_second),
                    missed("fetch rate");
                /// Reads that missed a block that is to be populated, of a volume that has all of its share.
                missed_share, "hotset_volume_missed_share_total",
                    "Reads that missed: the volume has all of its share.", history(28, missed_share_per_second), missed("share");
                /// Reads that missed a block that is to be populated after the SSDs have taken what they may in a day.
                missed_wear_limit, "hotset_volume_missed_wear_limit_total",
                    "Reads that missed: the SSDs have taken what they may in a day.", history(29, missed_wear_limit_per_second),
                    missed("wear limit");
                /// Reads that missed because of what is wrong: an SSD that failed or has gone, a pool that populates nothing, a request that failed.
                missed_degraded, "hotset_volume_missed_degraded_total",
                    "Reads that missed: something is wrong with the pool or its SSDs.", history(30, missed_degraded_per_second),
                    missed("degraded");
                /// Reads that missed because the volume has no cache, or reads do not use it.
                missed_off, "hotset_volume_missed_off_total",
                    "Reads that missed: no cache, or reads do not use it.", history(31, missed_off_per_second), missed("off");
                /// Bytes read from the backing device and stored in the cache.
                populated_bytes, "hotset_volume_populated_bytes_total",
                    "Bytes stored in the cache after a miss.", history(9, populated_bytes_per_second), shown("Populated", "{}");
                evicted_blocks, "hotset_volume_evicted_blocks_total",
                    "Cache blocks that were evicted.", history(10, evicted_blocks_per_second), shown("Evicted", "{} blocks");
                /// Errors of SSDs that the backing device made good.
                read_errors_hidden, "hotset_volume_hidden_read_errors_total",
                    "SSD errors that the backing device made good.", history(), shown("SSD errors hidden", "{}");
                /// Requests answered with an error, but for those that were `invalid`.
                errors, "hotset_volume_errors_total",
                    "Requests answered with an error, but for invalid ones.", history(), shown("Errors to hosts", "{}");
                /// Of them, those that made no progress for too long.
                timed_out, "hotset_volume_timed_out_total",
                    "Of them, those that made no progress for too long.", history(), shown("Of them timed out", "{}");
                /// Requests that hosts should not have made: outside the volume, not in its blocks, writes where it is read-only.
                invalid, "hotset_volume_invalid_requests_total",
                    "Requests that were refused because hosts should not have made them.", history(),
                    shown("Invalid requests", "{}");
                /// How often the whole cache of this volume was dropped.
                cache_drops, "hotset_volume_cache_drops_total",
                    "How often the whole cache of the volume was dropped.", history(), shown("Cache drops", "{}");
            ]
        }
    };
}

/// A counter, as people see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// The API's.
    pub name: &'static str,
    pub shown: Shown,
}

/// Where a counter is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// In a line with this caption; `{}` in what is said there is the number.
    Line { caption: &'static str, said: &'static str },
    /// With the misses, as their reason.
    Missed { reason: &'static str },
}

impl Counter {
    /// It counts bytes, and nothing else.
    pub fn is_bytes(&self) -> bool {
        counts_bytes(self.name)
    }
}

/// Whether the counter of this name counts bytes.
pub fn counts_bytes(name: &str) -> bool {
    name.ends_with("_bytes")
}

macro_rules! shown {
    (shown($caption:literal, $said:literal)) => {
        Shown::Line { caption: $caption, said: $said }
    };
    (missed($reason:literal)) => {
        Shown::Missed { reason: $reason }
    };
}

macro_rules! counters {
    ($([$(
        $(#[$doc:meta])* $name:ident, $metric:literal, $help:literal, history($($kept:tt)*), $how:ident($($said:tt)*);
    )*])*) => {
        /// All of them, in the order of the table.
        pub const COUNTERS: &[Counter] = &[$($(
            Counter { name: stringify!($name), shown: shown!($how($($said)*)) },
        )*)*];
    };
}
volume_counters!(counters);
