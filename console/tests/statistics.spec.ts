// Statistics: what the console says is what every other way to ask says.
import type { Locator, Page } from "@playwright/test";
import { COUNTERS } from "../src/api/counters";
import type { HistoryPoint } from "../src/api/types";
import { bytes, count, duration, percent, perSecond } from "../src/format";
import type { Daemon } from "./daemon";
import { busyScene, expect, expectAccessible, open, shot, test } from "./fixtures";

/** What is asked first of a cache, and how it is written. */
const SAID: [name: string, say: (point: HistoryPoint) => string][] = [
  ["Cache used", (point) => bytes(known(point.cache_used_bytes))],
  ["Cache hits", (point) => perSecond(known(point.hit_ratio) * known(point.reads_per_second))],
  ["Hits in memory", (point) => perSecond(known(point.memory_hits_per_second))],
  ["Hits on SSDs", (point) => perSecond((known(point.hit_ratio) - memoryRatio(point)) * known(point.reads_per_second))],
  ["Hit ratio", (point) => percent(known(point.hit_ratio))],
  ["Hit ratio in memory", (point) => percent(memoryRatio(point))],
  ["Hit ratio on SSDs", (point) => percent(known(point.hit_ratio) - memoryRatio(point))],
];

function known(value: number | null | undefined): number {
  return value ?? Number.NaN;
}

function memoryRatio(point: HistoryPoint): number {
  return known(point.memory_hits_per_second) / known(point.reads_per_second);
}

/** The row of the value of this name, and of no other that begins with it. */
function rowOf(values: Locator, name: string): Locator {
  return values.getByRole("row").filter({ has: values.page().getByRole("cell", { name, exact: true }) });
}

const DAY = 86_400;
const SPANS: [label: string, seconds: number][] = [
  ["15 minutes", DAY / 96],
  ["1 hour", DAY / 24],
  ["1 day", DAY],
  ["1 week", 7 * DAY],
  ["1 month", 30 * DAY],
  ["1 year", 365 * DAY],
  ["4 hours", DAY / 6],
];

/** The last row says how much of each average was observed. */
async function expectCoverage(row: Locator, seconds: number): Promise<void> {
  const cells = await row.getByRole("cell").allTextContents();
  const periods = [DAY, 7 * DAY, 30 * DAY];
  const said = periods.map((period) => `${duration(seconds)} (${percent(seconds / period)})`);
  expect(cells.slice(2)).toEqual(said);
}

/** A volume that was read for a while, some of it from the cache, and is left alone since. */
async function still(daemon: Daemon): Promise<void> {
  await daemon.hotset("volume", "create", "still", "--backing", await daemon.backing("still.img", 64 << 20));
  await daemon.hotset("volume", "enable-cache", "still", "--pool", "fast");
  const read = () => daemon.loadOnce("still", "--rw=randread", "--bs=4k", "--size=4M", "--io_size=12M", "--iodepth=4");
  await read();
  // Filling goes on after the reads, which may be over before it.
  await expect(async () => {
    expect((await daemon.get("/api/v1/volumes/still")).stats.populated_bytes).toBeGreaterThan(0);
  }).toPass();
  await read();
  await daemon.loadOnce("still", "--rw=randwrite", "--bs=4k", "--size=4M", "--io_size=1M", "--iodepth=4");
}

// proves: S2, S4, S6
test("command line, API, metrics and console say the same, now and on average, and hits and misses are all requests", async ({
  page,
  daemon,
}) => {
  await busyScene(daemon);
  await still(daemon);
  await open(page, daemon, "statistics?subject=volume:disk");
  const values = page.getByRole("table", { name: "Now and on average" });
  // A sample is taken every 30 s.
  await expect(rowOf(values, "Hit ratio")).toContainText("%");
  await expect(async () => {
    const { current, averages } = await daemon.get("/api/v1/history?subject=volume:disk");
    const points: HistoryPoint[] = [current, averages.day, averages.week, averages.month];
    for (const [name, say] of SAID) {
      expect(await rowOf(values, name).getByRole("cell").allTextContents()).toEqual([name, ...points.map(say)]);
    }
    await expectCoverage(values.getByRole("row", { name: /^Time observed/ }), averages.day.covered_seconds);
    expect(current.hits + current.misses).toBe(current.requests);
  }).toPass({ timeout: 300_000 });
  const ratio = { name: /^Hit ratio of reads: hits [<>\d].* %, in memory [<>\d].* %, on SSDs [<>\d].* %$/ };
  await expect(page.getByRole("img", ratio).first()).toBeVisible();
  await expect(page.getByRole("region", { name: "Warm-up" }).getByRole("img", ratio)).toBeVisible();
  await expect(page.getByRole("table", { name: "Disks now" }).getByRole("row", { name: /ssd0 SSD \d/ })).toBeVisible();

  // Zoomed by keyboard, and back.
  await page.getByRole("button", { name: "Zoom in" }).press("Enter");
  await expect(page.getByText(/^\d{4}-\d\d-\d\d .* to \d{4}-/)).toBeVisible();
  for (const [label, seconds] of SPANS) {
    const asked = page.waitForRequest((request) => isOf(new URL(request.url()), "volume:disk", seconds));
    await page.getByRole("radio", { name: label }).check();
    await asked;
    await expect(page.getByText(/Refreshed every 30 s/)).toBeVisible();
  }
  await page.screenshot({ path: shot("statistics-sampled.png"), fullPage: true });
  await expectAccessible(page, "statistics with values");
  await expectAll(page, daemon);
  await expectAgreement(page, daemon);
});

/** All volumes together are the sum of each, and what the live charts begin with. */
async function expectAll(page: Page, daemon: Daemon): Promise<void> {
  await expect(async () => {
    const { volumes } = await daemon.get("/api/v1/status");
    const subjects = ["daemon", ...volumes.map((volume: { name: string }) => `volume:${volume.name}`)];
    const histories = await Promise.all(subjects.map((subject) => daemon.get(`/api/v1/history?subject=${subject}`)));
    const [all, ...each] = histories.map((history) => history.averages.day.requests);
    expect(all).toBe(each.reduce((sum, requests) => sum + requests, 0));
    expect(histories[0].current.ssd_written_bytes_per_second).toEqual(expect.any(Number));
  }).toPass();
  const asked = page.waitForRequest((request) => request.url().endsWith("/api/v1/history?subject=daemon"));
  await page.reload();
  await asked;
  await open(page, daemon, "statistics");
  await expect(page.getByRole("combobox", { name: "Of" })).toHaveValue("daemon");
  await expect(page.getByRole("table", { name: "Disks now" }).getByRole("row")).toHaveCount(await disks(daemon));
}

/** Rows of a table of all SSDs and backing devices. */
async function disks(daemon: Daemon): Promise<number> {
  const { pools, volumes } = await daemon.get("/api/v1/status");
  const ssds = pools.flatMap((pool: { ssds: unknown[] }) => pool.ssds);
  return 1 + ssds.length + volumes.length;
}

/** Whether the daemon is asked for so long a history of that subject. */
function isOf({ pathname, searchParams }: URL, subject: string, seconds: number): boolean {
  const length = Number(searchParams.get("to")) - Number(searchParams.get("from"));
  return pathname === "/api/v1/history" && searchParams.get("subject") === subject && length === seconds;
}

/** All four ways to ask about the volume that is left alone. */
async function expectAgreement(page: Page, daemon: Daemon): Promise<void> {
  const { stats } = JSON.parse(await daemon.hotset("volume", "show", "still", "-o", "json"));
  expect(stats.reads).toBeGreaterThan(3000);
  expect(stats.read_hits).toBeGreaterThan(0);
  expect(stats.read_hits).toBeLessThan(stats.reads);

  expect((await daemon.get("/api/v1/volumes/still")).stats).toEqual(stats);

  const metrics = await (await fetch(new URL("/metrics", daemon.url))).text();
  const metric = (name: string) =>
    Number(new RegExp(`^${name}\\{volume="still",pool="fast"\\} (\\d+)$`, "m").exec(metrics)?.[1]);
  expect(metric("hotset_volume_reads_total")).toBe(stats.reads);
  expect(metric("hotset_volume_read_hits_total")).toBe(stats.read_hits);
  expect(metric("hotset_volume_writes_total")).toBe(stats.writes);
  expect(metric("hotset_volume_read_bytes_total")).toBe(stats.read_bytes);

  const misses = stats.reads - stats.read_hits;
  const { averages } = await daemon.get("/api/v1/history?subject=volume:still");
  const { requests, hits, hit_ratio } = averages.day;
  expect([requests, hits, averages.day.misses, hit_ratio]).toEqual([
    stats.reads,
    stats.read_hits,
    misses,
    stats.hit_ratio,
  ]);

  await open(page, daemon, "volumes/still");
  const onSsds = stats.read_hits - stats.memory_hits;
  const part = (hits: number, what: string) => `${count(hits)} ${what} (${percent(hits / stats.reads)})`;
  const said = [part(stats.read_hits, "hits"), part(stats.memory_hits, "in memory"), part(onSsds, "on SSDs")].join(
    ", ",
  );
  await expect(
    page.getByText(`${count(stats.reads)}: ${said}; ${count(misses)} misses`, { exact: true }),
  ).toBeVisible();
  const ofThem = `${count(stats.memory_hits)} in memory, ${count(onSsds)} on SSDs`;
  await expect(page.getByText(ofThem, { exact: true })).toBeVisible();
  for (const { shown } of COUNTERS) {
    const caption = "missed" in shown ? "Why they missed" : shown.caption;
    await expect(page.getByText(caption, { exact: true }).first()).toBeVisible();
  }
  await open(page, daemon, "statistics?subject=volume:still");
  const row = rowOf(page.getByRole("table", { name: "Now and on average" }), "Hit ratio");
  await expect(row.getByRole("cell").nth(2)).toHaveText(percent(stats.hit_ratio));
}
