// The console under load: what moves, what fails, what is flushed.
import type { Stats } from "../src/api/types";
import { count } from "../src/format";
import { busyScene, expect, open, shot, slowArray, test } from "./fixtures";

// proves: S3, S6
test("the charts move, and what they show are differences of the daemon's own counters", async ({ page, daemon }) => {
  await busyScene(daemon);
  // What the page was answered, as it came: it has to show that, whatever the load does meanwhile.
  const answers: Stats[] = [];
  page.on("response", async (response) => {
    if (response.url().endsWith("/api/v1/stats")) answers.push(await response.json());
  });
  await open(page, daemon, "overview");
  const iops = page.getByRole("img", { name: /^IOPS: reads [1-9]/ });
  await expect(iops).toBeVisible();
  const before = await iops.getAttribute("data-points");
  await expect(iops).not.toHaveAttribute("data-points", before ?? "");
  await expect(page.getByRole("img", { name: /^Hit ratio of reads: hits \d/ })).toBeVisible();
  await expect(page.getByRole("img", { name: /^Latency, median: reads \d.* [mµ]s, writes \d/ })).toBeVisible();

  await expect(async () => {
    const cells = await page
      .getByRole("row", { name: /^database/ })
      .getByRole("cell")
      .allTextContents();
    const shown = cells.slice(4, 6);
    const rates = answers.slice(1).map((after, index) => rateOf(answers[index], after, "database"));
    expect(rates).toContainEqual(shown);
    expect(Number(shown[1]?.replace(",", "")), "writes are seen").toBeGreaterThan(0);
  }).toPass();
});

/** Reads and writes a second between two answers, as they are written. */
function rateOf(before: Stats | undefined, after: Stats, name: string): string[] {
  const old = before?.volumes.find((volume) => volume.name === name)?.stats;
  const now = after.volumes.find((volume) => volume.name === name)?.stats;
  if (before === undefined || old === undefined || now === undefined) return [];
  const seconds = (after.at_ns - before.at_ns) / 1e9;
  return [count((now.reads - old.reads) / seconds), count((now.writes - old.writes) / seconds)];
}

// proves: M5, S3
test("overview and a volume's page tell hits in memory from those on SSDs wherever they show a hit ratio", async ({
  page,
  daemon,
}) => {
  await busyScene(daemon);
  await daemon.hotset("memory-cache", "set", "32M");
  // This volume has no SSDs, and all that is read of it is soon in memory.
  daemon.load("archive", 400, "--rw=randread", "--bs=4k", "--size=1M", "--iodepth=2");
  const inMemory = /[1-9][\d.]* % in memory, 0\.0 % on SSDs/;
  await open(page, daemon, "overview");
  const volumes = page.getByRole("table", { name: "Volumes now" });
  await expect(volumes.getByRole("row", { name: /^archive/ })).toContainText(inMemory);
  await expect(volumes.getByRole("row", { name: /^disk/ })).toContainText(/ in memory, [> ]*[1-9][\d.]* % on SSDs/);
  const chart = page.getByRole("img", {
    name: /^Hit ratio of reads: hits [>1-9].* %, in memory [1-9].* %, on SSDs [1-9]/,
  });
  await expect(chart).toBeVisible();
  const tile = page.getByRole("definition").filter({ hasText: /[1-9][\d.]* % in memory, [1-9][\d.]* % on SSDs/ });
  await expect(tile).toBeVisible();
  await page.screenshot({ path: shot("overview-hits.png"), fullPage: true });

  await open(page, daemon, "volumes/archive");
  await expect(page.getByRole("definition").filter({ hasText: inMemory })).toBeVisible();
  const counted = /^[\d,]+: [\d,]+ hits \(.* %\), [1-9][\d,]* in memory \(.* %\), 0 on SSDs \(0\.0 %\); [\d,]+ misses$/;
  await expect(page.getByText(counted)).toBeVisible();
  await expect(page.getByText(/^[1-9][\d,]* in memory, 0 on SSDs$/)).toBeVisible();
});

// proves: S3, P10
test("an SSD that fails is seen within five seconds and in words", async ({ page, daemon }) => {
  await busyScene(daemon);
  await open(page, daemon, "overview");
  await expect(page.getByRole("heading", { level: 2, name: /^Good/ })).toBeVisible();
  await expect(page.getByRole("img", { name: /^IOPS: reads [1-9]/ })).toBeVisible();

  await daemon.failSsd("ssd0");
  const health = page.getByRole("region", { name: "Health" });
  await expect(health).toContainText(/Degraded|Failed/, { timeout: 5000 });
  await expect(health).toContainText("fast");
  await page.screenshot({ path: shot("overview-ssd-failed.png"), fullPage: true });

  await page.getByRole("link", { name: "Cache pools" }).click();
  await page.getByRole("link", { name: "fast", exact: true }).click();
  const ssd = page.getByRole("table", { name: "SSDs of pool fast" }).getByRole("row", { name: /ssd0/ });
  await expect(ssd).toContainText("Failed");
  await expect(ssd).not.toContainText("Online");
  await page.screenshot({ path: shot("pools-ssd-failed.png"), fullPage: true });

  await page.getByRole("link", { name: "Events" }).click();
  await expect(page.getByRole("row", { name: /SSD .*ssd0/ }).first()).toBeVisible();
  await page.screenshot({ path: shot("events-ssd-failed.png"), fullPage: true });
});

// proves: S3, P9, F12
test("a pool of which an SSD failed is good again when that is replaced, and not before", async ({ page, daemon }) => {
  const ssds = await Promise.all(["ssd0", "ssd1", "ssd2"].map((name) => daemon.ssd(name, "96M")));
  await daemon.hotset("pool", "create", "mirror", "--type", "read-write", "--io-type", "database", "--ssd", ...ssds);
  const backing = await daemon.backing("disk.img", 64 << 20);
  await daemon.hotset("volume", "create", "disk", "--backing", backing, "--pool", "mirror");
  await open(page, daemon, "pools/mirror");
  const pool = page.getByRole("table", { name: "Cache pools", exact: true }).getByRole("row", { name: /^mirror/ });
  await expect(pool.getByRole("cell", { name: "Good", exact: true })).toBeVisible();

  await daemon.failSsd("ssd0");
  await daemon.loadOnce("disk", "--rw=randwrite", "--bs=4k", "--size=1M", "--io_size=64k", "--iodepth=1");
  await expect(pool.getByRole("cell", { name: "Degraded", exact: true })).toBeVisible();
  // All has two copies again; what failed is still there.
  const health = async () => (await daemon.get("/api/v1/pools/mirror")).health;
  const state = async () => (await daemon.get("/api/v1/pools/mirror")).state;
  await expect.poll(state).toBe("online");
  expect(await health()).toBe("degraded");
  await page.reload();
  await expect(pool.getByRole("cell", { name: "Online", exact: true })).toBeVisible();
  await expect(pool.getByRole("cell", { name: "Degraded", exact: true })).toBeVisible();

  await daemon.hotset("pool", "add-ssd", "mirror", "--ssd", await daemon.ssd("ssd3", "96M"));
  await expect.poll(health).toBe("good");
  await expect(pool.getByRole("cell", { name: "Good", exact: true })).toBeVisible();
});

// proves: S3, P13
test("a pool is flushed before it is deleted, with progress, and that can be cancelled", async ({ page, daemon }) => {
  const ssds = await Promise.all(["ssd0", "ssd1"].map((name) => daemon.ssd(name, "192M")));
  await daemon.hotset("pool", "create", "mirror", "--type", "read-write", "--io-type", "database", "--ssd", ...ssds);
  await daemon.hotset("pool", "set", "mirror", "dirty-watermark=90", "dirty-age=1d", "flush-rate=low");
  await daemon.hotset("volume", "create", "database", "--backing", slowArray(daemon), "--pool", "mirror");
  // Scattered, so that the array needs a while to take it.
  await daemon.loadOnce("database", "--rw=randwrite", "--bs=4k", "--size=512M", "--io_size=28M", "--iodepth=8");
  await open(page, daemon, "pools/mirror");
  const volumes = page.getByRole("table", { name: "Volumes that pool mirror caches" });
  await expect(volumes.getByRole("row", { name: /^database/ })).toContainText(/MiB, oldest/);

  const remove = async () => {
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete pool" }).click();
  };
  await remove();
  const operation = page.getByRole("region", { name: "Delete pool mirror" });
  await expect(operation.getByRole("progressbar")).toBeVisible();
  await expect(operation).toContainText(/ of .* · .*\/s/);
  await expect(page.getByRole("button", { name: "Delete", exact: true })).toHaveAccessibleDescription(/being deleted/);
  await page.getByRole("link", { name: /^Operations/ }).click();
  await expect(operation.getByRole("progressbar")).toBeVisible();
  await page.screenshot({ path: shot("operations-flushing.png"), fullPage: true });
  await operation.getByRole("button", { name: "Cancel" }).click();
  await expect(page.getByText(/cancelled. Writes are cached again/i).first()).toBeVisible();
  await expect(page.getByText("Nothing that takes long is being done now.")).toBeVisible();

  await page.getByRole("link", { name: /^Cache pools/ }).click();
  await expect(
    page.getByRole("region", { name: "All cache pools" }).getByRole("row", { name: /^mirror/ }),
  ).toContainText("Online");
  await daemon.hotset("pool", "set", "mirror", "flush-rate=high");
  await remove();
  await expect(page.getByText(/Delete pool mirror: done/)).toBeVisible();
  await expect(page.getByText(/^No cache pools yet/)).toBeVisible();
  // The volume went on without it.
  expect(await daemon.hotset("volume", "list")).toMatch(/database .*online/);
});

// proves: S3, D15
test("a scrub is begun by a button, and what it found is told", async ({ page, daemon }) => {
  await busyScene(daemon);
  await open(page, daemon, "pools/fast");
  await page.getByRole("button", { name: "Scrub", exact: true }).click();
  await expect(page.getByText(/Scrub pool fast: done/)).toBeVisible();
  await page.getByRole("button", { name: "More information" }).click();
  await expect(page.getByRole("dialog")).toContainText("nothing bad");
});

// proves: S3, O6
test("eight tabs of one browser are all live, and go on when the one that follows for them is closed", async ({
  page,
  daemon,
}) => {
  const streams: string[] = [];
  const context = page.context();
  context.on("request", (request) => {
    if (request.url().includes("/events/stream")) streams.push(request.url());
  });
  await open(page, daemon, "volumes");
  const others = await Promise.all(
    Array.from({ length: 7 }, async () => {
      const other = await context.newPage();
      await other.goto(`${daemon.url}#/volumes`);
      return other;
    }),
  );
  await daemon.hotset("volume", "create", "first", "--backing", slowArray(daemon, "first"));
  for (const tab of [page, ...others]) await expect(tab.getByRole("link", { name: "first" })).toBeVisible();
  expect(streams).toHaveLength(1);
  await page.goto("about:blank");
  await daemon.hotset("volume", "create", "second", "--backing", slowArray(daemon, "second"));
  for (const tab of others) await expect(tab.getByRole("link", { name: "second" })).toBeVisible();
  for (const tab of others) await tab.close();
});

// proves: S3
test("a daemon that hangs with its connections open is said not to answer, until it does", async ({ page, daemon }) => {
  await open(page, daemon, "overview");
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await daemon.whilePaused(async () => {
    await expect(page.getByText("The daemon does not answer.")).toBeVisible();
    await expect(page.getByText("No answer")).toBeVisible();
    await page.screenshot({ path: shot("silent.png") });
  });
  await expect(page.getByText("Live", { exact: true })).toBeVisible();
  await expect(page.getByText("The daemon does not answer.")).toBeHidden();
});
