// Rates are differences of the daemon's own counters: nothing is made up, and nothing is negative.
import { expect, test } from "@playwright/test";
import { NOTHING } from "../src/api/counters";
import type { History, HistoryPoint, Stats, VolumeCounters } from "../src/api/types";
import { EMPTY, extend, LIVE_SECONDS, newest, precede } from "../src/rates";

function volume(name: string, stats: Partial<VolumeCounters["stats"]>): VolumeCounters {
  const sizes = {
    size_bytes: 1,
    cache_used_bytes: 0,
    write_cache_used_bytes: 0,
    dirty_bytes: 0,
    pool_capacity_bytes: 0,
  };
  return { name, ...sizes, recent_latency: {}, stats: { ...NOTHING, ...stats } };
}

function at(seconds: number, ...volumes: VolumeCounters[]): Stats {
  return { at_ns: seconds * 1e9, recent_latency: {}, volumes };
}

test("a rate is the difference of two answers, of each volume and of all", () => {
  const before = at(10, volume("a", { reads: 100, read_hits: 50 }), volume("b", { writes: 8 }));
  const after = at(12, volume("a", { reads: 300, read_hits: 200, memory_hits: 50 }), volume("b", { writes: 18 }));
  const series = extend(EMPTY, before, after, 1);
  const hits = { all: 0.75, memory: 0.25, ssds: 0.5 };
  expect(newest(series, "a")).toMatchObject({ readsPerSecond: 100, writesPerSecond: 0, hits });
  expect(newest(series, "b")).toMatchObject({ readsPerSecond: 0, writesPerSecond: 5, hits: null });
  expect(newest(series, "")).toMatchObject({ readsPerSecond: 100, writesPerSecond: 5, hits });
});

test("latencies are the daemon's own, of each volume and of all, and none where nothing was asked", () => {
  const took = (median: number) => ({ p50_microseconds: median, p95_microseconds: 8, p99_microseconds: 9 });
  const after = at(2, { ...volume("a", { reads: 1 }), recent_latency: { reads: took(5) } });
  const series = extend(EMPTY, at(1, volume("a", {})), { ...after, recent_latency: { reads: took(7) } }, 1);
  expect(newest(series, "a")).toMatchObject({ readLatency: { median: 5000, slowest: 9000 }, writeLatency: null });
  expect(newest(series, "")).toMatchObject({ readLatency: { median: 7000, slowest: 9000 }, writeLatency: null });
});

test("a volume that is new, or a daemon that began anew, has no rate yet", () => {
  const before = at(10, volume("a", { reads: 100 }));
  expect(newest(extend(EMPTY, before, at(12, volume("a", { reads: 3 })), 1), "a")).toBeNull();
  expect(newest(extend(EMPTY, before, at(12, volume("c", { reads: 3 })), 1), "c")).toBeNull();
  expect(extend(EMPTY, before, at(1, volume("a", { reads: 3 })), 1)).toBe(EMPTY);
});

test("before the first answer is what the history knows of the last minutes, by the clock of who looks", () => {
  const point = (at: number, reads: number, covered = 30): HistoryPoint => ({
    at_unix_seconds: at,
    covered_seconds: covered,
    reads_per_second: reads,
    memory_hits_per_second: reads / 4,
    hit_ratio: 0.5,
    read_latency: { p50_microseconds: 5, p95_microseconds: 8, p99_microseconds: 9 },
  });
  const points = [point(1000 - LIVE_SECONDS - 1, 1), point(940, 2), point(970, 3, 0), point(1000, 4)];
  const history: History = {
    subject: { kind: "daemon", name: "" },
    from_unix_seconds: 0,
    to_unix_seconds: 1000,
    step_seconds: 30,
    points,
    averages: {},
  };
  const filled = precede(EMPTY, history, 5000);
  expect(filled.times).toEqual([4940, 5000]);
  expect(filled.rates.map((rates) => rates.get("")?.readsPerSecond)).toEqual([2, 4]);
  expect(newest(filled, "")).toMatchObject({
    hits: { all: 0.5, memory: 0.25, ssds: 0.25 },
    readLatency: { median: 5000, slowest: 9000 },
    writeLatency: null,
  });
  // What was seen live meanwhile stays, and is not told twice.
  const live = extend(EMPTY, at(1, volume("a", {})), at(2, volume("a", { reads: 7 })), 4990);
  expect(precede(live, history, 5000).rates.map((rates) => rates.get("")?.readsPerSecond)).toEqual([2, 7]);
});
