//! What is counted of a volume (`crates/counters` has the table), and how long its requests take.

use std::cell::Cell;

use crate::members::io::add;
use crate::status::VolumeStats;
use crate::volume::latency::{Latencies, LatencyCounters};

macro_rules! counters {
    ($([$(
        $(#[$api:meta])* $name:ident, $metric:literal, $help:literal, history($($kept:tt)*),
            $how:ident($($said:tt)*);
    )*])*) => {
        /// The counters behind [`VolumeStats`].
        #[derive(Default)]
        pub(crate) struct Stats {
            $($(pub(super) $name: Cell<u64>,)*)*
            pub(super) read_latency: Latencies,
            pub(super) write_latency: Latencies,
        }

        impl Stats {
            /// Goes on counting from there.
            pub(super) fn resumed(stats: VolumeStats, (reads, writes): (LatencyCounters, LatencyCounters)) -> Self {
                Self {
                    $($($name: Cell::new(stats.$name),)*)*
                    read_latency: reads.into(),
                    write_latency: writes.into(),
                }
            }

            pub(super) fn snapshot(&self) -> VolumeStats {
                VolumeStats { $($($name: self.$name.get(),)*)* }
            }
        }
    };
}
hotset_counters::volume_counters!(counters);

impl Stats {
    /// Reads and writes of hosts so far.
    pub(crate) fn host_requests(&self) -> u64 {
        self.reads.get() + self.writes.get()
    }

    /// Requests of hosts that move or change data, so far.
    pub(super) fn data_requests(&self) -> u64 {
        self.host_requests() + self.trims.get() + self.zeroes.get()
    }

    pub(crate) fn cleaned_bytes(&self) -> u64 {
        self.cleaned_bytes.get()
    }

    /// All that was cached of the volume was dropped.
    pub(crate) fn count_cache_drop(&self) {
        add(&self.cache_drops, 1);
    }
}
