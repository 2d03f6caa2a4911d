// Hits in memory and on SSDs are told apart, from counters and from the history, and by the dashboard for Grafana.
import { readFileSync } from "node:fs";
import { expect, test } from "@playwright/test";
import type { HistoryPoint } from "../src/api/types";
import { hitsAt, hitsOf, hitsPerSecond, whereHit } from "../src/hits";

const POINT: HistoryPoint = { at_unix_seconds: 30, covered_seconds: 30, hit_ratio: 0.75, reads_per_second: 400 };

test("hits are those in memory and those on SSDs, of all reads", () => {
  const hits = hitsOf(400, 300, 100);
  expect(hits).toEqual({ all: 0.75, memory: 0.25, ssds: 0.5 });
  expect(hits && whereHit(hits)).toEqual(["25.0 % in memory", "50.0 % on SSDs"]);
  expect(hitsOf(0, 0, 0)).toBeNull();
  // Counters that were not read in the same moment say nothing impossible.
  expect(hitsOf(10, 4, 5)).toMatchObject({ memory: 0.5, ssds: 0 });
});

test("a point of the history tells the same, as ratios and for each second", () => {
  const point = { ...POINT, memory_hits_per_second: 100 };
  expect(hitsAt(point)).toEqual({ all: 0.75, memory: 0.25, ssds: 0.5 });
  expect([hitsPerSecond(point, "all"), hitsPerSecond(point, "memory"), hitsPerSecond(point, "ssds")]).toEqual([
    300, 100, 200,
  ]);
});

test("without reads there is no ratio, and what has no reads at all has no hits either", () => {
  const idle = { ...POINT, hit_ratio: null, reads_per_second: 0, memory_hits_per_second: 0 };
  expect([hitsAt(idle), hitsPerSecond(idle, "ssds")]).toEqual([null, 0]);
  const ssd = { at_unix_seconds: 30, covered_seconds: 30 };
  expect([hitsAt(ssd), hitsPerSecond(ssd, "memory")]).toEqual([null, null]);
});

test("each panel of the dashboard that shows hits shows those in memory and those on SSDs", () => {
  const dashboard = JSON.parse(readFileSync(new URL("../../contrib/grafana-dashboard.json", import.meta.url), "utf8"));
  const panels: { title: string; targets: { expr: string; legendFormat: string }[] }[] = dashboard.panels;
  const ofHits = panels.filter((panel) => panel.targets.some(({ expr }) => expr.includes("read_hits_total")));
  expect(ofHits.map((panel) => panel.title)).toEqual(["Read hit ratio", "Read hits in memory and on SSDs"]);
  for (const { title, targets } of ofHits) {
    const told = (ends: string) => targets.find(({ legendFormat }) => legendFormat.endsWith(ends))?.expr;
    expect(told("in memory"), title).toMatch(/^sum.*hotset_volume_memory_hits_total/);
    expect(told("on SSDs"), title).toMatch(/hotset_volume_read_hits_total.* - sum.*hotset_volume_memory_hits_total/);
  }
});
