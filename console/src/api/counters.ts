// Generated from the table in crates/counters: `HOTSET_BLESS=1 cargo test -p hotset`.
import type { VolumeStats } from "./types";

/** A counter of a volume, and how it is shown. */
export interface Counter {
  readonly name: Exclude<keyof VolumeStats, "hit_ratio">;
  readonly bytes: boolean;
  readonly shown: { readonly caption: string; readonly said: string } | { readonly missed: string };
}

export const COUNTERS: readonly Counter[] = [
  { name: "reads", bytes: false, shown: { caption: "Reads", said: "{}" } },
  { name: "read_hits", bytes: false, shown: { caption: "Read hits", said: "{}" } },
  { name: "memory_hits", bytes: false, shown: { caption: "Of them", said: "{} in memory" } },
  { name: "read_ahead_hits", bytes: false, shown: { caption: "Read ahead", said: "{} reads found theirs" } },
  { name: "read_bytes", bytes: true, shown: { caption: "Reads", said: " ({})" } },
  { name: "writes", bytes: false, shown: { caption: "Writes", said: "{}" } },
  { name: "write_bytes", bytes: true, shown: { caption: "Writes", said: " ({})" } },
  { name: "flushes", bytes: false, shown: { caption: "Flushes", said: "{}" } },
  { name: "trims", bytes: false, shown: { caption: "Trims, zeroes", said: "{}" } },
  { name: "zeroes", bytes: false, shown: { caption: "Trims, zeroes", said: ", {}" } },
  { name: "write_hits", bytes: false, shown: { caption: "Write hits", said: "{}" } },
  { name: "cleaned_bytes", bytes: true, shown: { caption: "Cleaned, moved", said: "{}" } },
  { name: "moved_bytes", bytes: true, shown: { caption: "Cleaned, moved", said: ", {}" } },
  { name: "bypassed_reads", bytes: false, shown: { caption: "Bypassed", said: "{} reads" } },
  { name: "bypassed_writes", bytes: false, shown: { caption: "Bypassed", said: ", {} writes" } },
  { name: "missed_first_touch", bytes: false, shown: { missed: "first touch" } },
  { name: "missed_below_threshold", bytes: false, shown: { missed: "below threshold" } },
  { name: "missed_evicted", bytes: false, shown: { missed: "evicted" } },
  { name: "missed_overwritten", bytes: false, shown: { missed: "overwritten" } },
  { name: "missed_stream", bytes: false, shown: { missed: "stream" } },
  { name: "missed_no_room", bytes: false, shown: { missed: "no room" } },
  { name: "missed_fetch_rate", bytes: false, shown: { missed: "fetch rate" } },
  { name: "missed_share", bytes: false, shown: { missed: "share" } },
  { name: "missed_wear_limit", bytes: false, shown: { missed: "wear limit" } },
  { name: "missed_degraded", bytes: false, shown: { missed: "degraded" } },
  { name: "missed_off", bytes: false, shown: { missed: "off" } },
  { name: "populated_bytes", bytes: true, shown: { caption: "Populated", said: "{}" } },
  { name: "evicted_blocks", bytes: false, shown: { caption: "Evicted", said: "{} blocks" } },
  { name: "read_errors_hidden", bytes: false, shown: { caption: "SSD errors hidden", said: "{}" } },
  { name: "errors", bytes: false, shown: { caption: "Errors to hosts", said: "{}" } },
  { name: "timed_out", bytes: false, shown: { caption: "Of them timed out", said: "{}" } },
  { name: "invalid", bytes: false, shown: { caption: "Invalid requests", said: "{}" } },
  { name: "cache_drops", bytes: false, shown: { caption: "Cache drops", said: "{}" } },
];

/** Where nothing was counted. */
export const NOTHING: VolumeStats = {
  hit_ratio: 0,
  reads: 0,
  read_hits: 0,
  memory_hits: 0,
  read_ahead_hits: 0,
  read_bytes: 0,
  writes: 0,
  write_bytes: 0,
  flushes: 0,
  trims: 0,
  zeroes: 0,
  write_hits: 0,
  cleaned_bytes: 0,
  moved_bytes: 0,
  bypassed_reads: 0,
  bypassed_writes: 0,
  missed_first_touch: 0,
  missed_below_threshold: 0,
  missed_evicted: 0,
  missed_overwritten: 0,
  missed_stream: 0,
  missed_no_room: 0,
  missed_fetch_rate: 0,
  missed_share: 0,
  missed_wear_limit: 0,
  missed_degraded: 0,
  missed_off: 0,
  populated_bytes: 0,
  evicted_blocks: 0,
  read_errors_hidden: 0,
  errors: 0,
  timed_out: 0,
  invalid: 0,
  cache_drops: 0,
};
