// Rates from counters: what happened between two answers of the daemon, kept for a few minutes.
import type { History, HistoryPoint, LatencyPercentiles, RecentLatency, Stats, VolumeCounters } from "./api/types";
import { type Hits, hitsAt, hitsOf } from "./hits";

/** What one volume, or all of them, did in one interval. */
export type Rate = {
  readsPerSecond: number;
  writesPerSecond: number;
  readBytesPerSecond: number;
  writeBytesPerSecond: number;
  /** Null: there were no reads. */
  hits: Hits | null;
  /** Of the requests of the last seconds, as the daemon knows them. */
  readLatency: Latency | null;
  writeLatency: Latency | null;
};

/** In nanoseconds. */
export type Latency = { median: number; slowest: number };

/** Times in seconds since 1970, and the rate of each volume at each. The name of all volumes together is "". */
export type Series = { times: number[]; rates: Map<string, Rate>[] };

export const EMPTY: Series = { times: [], rates: [] };
const POINTS_MAX = 150;
/** The live charts show no more. */
export const LIVE_SECONDS = 300;

/** The series with one more point: the difference of two answers. */
export function extend(series: Series, before: Stats, after: Stats, time: number): Series {
  const seconds = (after.at_ns - before.at_ns) / 1e9;
  // Started anew: counters began again.
  if (seconds <= 0) return series;
  const rates = new Map<string, Rate>();
  const sum = new Sum();
  for (const now of after.volumes) {
    const past = before.volumes.find((volume) => volume.name === now.name);
    if (past === undefined || past.stats.reads > now.stats.reads) continue;
    const own = new Sum();
    own.add(past, now);
    sum.add(past, now);
    rates.set(now.name, own.rate(seconds, now.recent_latency));
  }
  rates.set("", sum.rate(seconds, after.recent_latency));
  return {
    times: [...series.times, time].slice(-POINTS_MAX),
    rates: [...series.rates, rates].slice(-POINTS_MAX),
  };
}

/** The series with what the daemon knows of the time before its first point: of all volumes together, at `now` by our clock. */
export function precede(series: Series, history: History, now: number): Series {
  const first = series.times[0] ?? Number.POSITIVE_INFINITY;
  const ahead = now - history.to_unix_seconds;
  const points = history.points
    .filter((point) => point.covered_seconds > 0)
    .map((point) => ({ point, time: Math.min(point.at_unix_seconds + ahead, now) }))
    .filter(({ time }) => time < first && time >= now - LIVE_SECONDS);
  return {
    times: [...points.map(({ time }) => time), ...series.times].slice(-POINTS_MAX),
    rates: [...points.map(({ point }) => new Map([["", rateOf(point)]])), ...series.rates].slice(-POINTS_MAX),
  };
}

function rateOf(point: HistoryPoint): Rate {
  return {
    readsPerSecond: point.reads_per_second ?? 0,
    writesPerSecond: point.writes_per_second ?? 0,
    readBytesPerSecond: point.read_bytes_per_second ?? 0,
    writeBytesPerSecond: point.write_bytes_per_second ?? 0,
    hits: hitsAt(point),
    readLatency: latencyOf(point.read_latency),
    writeLatency: latencyOf(point.write_latency),
  };
}

/** One volume's newest rate. */
export function newest(series: Series, volume: string): Rate | null {
  return series.rates.at(-1)?.get(volume) ?? null;
}

class Sum {
  private reads = 0;
  private hits = 0;
  private memoryHits = 0;
  private writes = 0;
  private readBytes = 0;
  private writeBytes = 0;

  add(before: VolumeCounters, after: VolumeCounters): void {
    this.reads += after.stats.reads - before.stats.reads;
    this.hits += after.stats.read_hits - before.stats.read_hits;
    this.memoryHits += after.stats.memory_hits - before.stats.memory_hits;
    this.writes += after.stats.writes - before.stats.writes;
    this.readBytes += after.stats.read_bytes - before.stats.read_bytes;
    this.writeBytes += after.stats.write_bytes - before.stats.write_bytes;
  }

  rate(seconds: number, recent: RecentLatency): Rate {
    return {
      readsPerSecond: this.reads / seconds,
      writesPerSecond: this.writes / seconds,
      readBytesPerSecond: this.readBytes / seconds,
      writeBytesPerSecond: this.writeBytes / seconds,
      hits: hitsOf(this.reads, this.hits, this.memoryHits),
      readLatency: latencyOf(recent.reads),
      writeLatency: latencyOf(recent.writes),
    };
  }
}

function latencyOf(percentiles: LatencyPercentiles | null | undefined): Latency | null {
  if (percentiles === null || percentiles === undefined) return null;
  return { median: percentiles.p50_microseconds * 1000, slowest: percentiles.p99_microseconds * 1000 };
}
