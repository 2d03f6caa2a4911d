// Pools that become others in place, volumes that get another name or grow, by hand in the browser, while hosts read and write.
import { truncate } from "node:fs/promises";
import type { Page } from "@playwright/test";
import type { Daemon } from "./daemon";
import { expect, expectAccessible, expectReasons, open, shot, slowArray, test } from "./fixtures";

/** A read-write pool with dirty data that stays until it is asked for, and takes its time then. */
async function dirtyPool(daemon: Daemon, dirty: string): Promise<void> {
  const ssds = await Promise.all(["ssd0", "ssd1"].map((name) => daemon.ssd(name, "192M")));
  await daemon.hotset("pool", "create", "mirror", "--type", "read-write", "--io-type", "database", "--ssd", ...ssds);
  await daemon.hotset("pool", "set", "mirror", "dirty-watermark=90", "dirty-age=1d", "flush-rate=low");
  const array = slowArray(daemon, "array.img", "ncq=1,seek-min=40ms,seek-max=50ms");
  await daemon.hotset("volume", "create", "database", "--backing", array, "--pool", "mirror");
  await daemon.loadOnce("database", "--rw=randwrite", "--bs=64k", "--size=512M", `--io_size=${dirty}`, "--iodepth=8");
}

/** Asks for blocks of 64 KiB. */
async function convert(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Convert", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: "Convert pool mirror" });
  const agree = dialog.getByRole("button", { name: "Convert" });
  await expect(agree).toHaveAccessibleDescription("Choose another type or another cache block.");
  await dialog.getByLabel("Cache block").selectOption("64 KiB");
  await expect(dialog.getByText("1 MiB now, 64 KiB then")).toBeVisible();
  await expect(dialog.getByText("Memory needed then, full")).toBeVisible();
  await expectAccessible(page, "convert");
  await page.screenshot({ path: shot("pools-convert.png") });
  await agree.click();
}

// proves: S3, P7
test("a pool gets another cache block in place, with progress, and that can be cancelled", async ({ page, daemon }) => {
  // Nobody looks and cancels before so much is flushed.
  await dirtyPool(daemon, "64M");
  await open(page, daemon, "pools/mirror");
  await convert(page);
  const operation = page.getByRole("region", { name: "Convert pool mirror" });
  await expect(operation.getByRole("progressbar")).toBeVisible();
  await expect(operation).toContainText(/ of .*B/);
  await expect(page.getByRole("button", { name: "Convert", exact: true })).toHaveAccessibleDescription(
    /being converted: cancel that first/,
  );
  await expectReasons(page);
  await page.screenshot({ path: shot("pools-converting.png"), fullPage: true });
  await operation.getByRole("button", { name: "Cancel" }).click();
  await expect(page.getByText("Convert pool mirror: cancelled. Writes are cached again.")).toBeVisible();
  expect((await daemon.get("/api/v1/pools/mirror")).block_size_bytes).toBe(1 << 20);

  // The host gives up most of it, and so nobody waits for that.
  await daemon.loadOnce("database", "--rw=trim", "--bs=1M", "--offset=64M", "--size=448M");
  await convert(page);
  await expect(page.getByText("Convert pool mirror: done.")).toBeVisible();
  const pool = await daemon.get("/api/v1/pools/mirror");
  expect([pool.block_size_bytes, pool.state, pool.volumes]).toEqual([64 << 10, "online", ["database"]]);
  await expect(page.getByText("cached at the 2nd read")).toBeVisible();
  expect((await daemon.get("/api/v1/volumes/database")).stats.errors, "errors that hosts saw").toBe(0);
});

test.describe("with a refusal", () => {
  // The browser logs each.
  test.use({ tolerated: /status of 409/ });

  // proves: S3
  test("a pool that cannot become what is asked for says why", async ({ page, daemon }) => {
    const ssd = await daemon.ssd("ssd0", "96M");
    await daemon.hotset("pool", "create", "mirror", "--type", "read", "--io-type", "database", "--ssd", ssd);
    await open(page, daemon, "pools/mirror");
    await page.getByRole("button", { name: "Convert", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Convert pool mirror" });
    await dialog.getByRole("radio", { name: /^Read-write/ }).check();
    await expect(dialog.getByRole("alert")).toContainText("at least two SSDs");
    const agree = dialog.getByRole("button", { name: "Convert" });
    await expect(agree).toHaveAccessibleDescription("The pool cannot be converted like this.");
    expect((await daemon.get("/api/v1/pools/mirror")).type).toBe("read");
  });
});

// proves: S3
test("a volume gets another name and grows while a host uses it", async ({ page, daemon }) => {
  const backing = await daemon.backing("disk.img", 64 << 20);
  await daemon.hotset("volume", "create", "disk", "--backing", backing);
  await daemon.hotset("volume", "create", "other", "--backing", await daemon.backing("other.img", 64 << 20));
  daemon.load("disk", 200, "--rw=randrw", "--bs=4k", "--size=16M", "--iodepth=2");
  const reads = async (name: string) => (await daemon.get(`/api/v1/volumes/${name}`)).stats.reads;
  await expect.poll(() => reads("disk"), "the host is at work").toBeGreaterThan(0);
  await open(page, daemon, "volumes/disk");

  await page.getByRole("button", { name: "Rename" }).click();
  const rename = page.getByRole("dialog", { name: "Rename volume disk" });
  const agree = rename.getByRole("button", { name: "Rename" });
  await expect(agree).toHaveAccessibleDescription("That is its name already.");
  const name = rename.getByRole("textbox", { name: "New name" });
  await name.fill("other");
  await expect(agree).toHaveAccessibleDescription("There is a volume of this name.");
  await name.fill("ledger");
  await page.screenshot({ path: shot("volumes-rename.png") });
  await agree.click();
  await expect(page.getByText("Volume disk is called ledger now.")).toBeVisible();
  await expect(page.getByRole("heading", { name: "Volume ledger" })).toBeVisible();
  await expect(page.getByText(/nbd:.*ledger|ledger.*nbd/).first()).toBeVisible();

  await truncate(backing, 128 << 20);
  await page.getByRole("button", { name: "Grow" }).click();
  const grow = page.getByRole("dialog", { name: "Grow volume ledger" });
  await page.screenshot({ path: shot("volumes-grow.png") });
  await grow.getByRole("button", { name: "Grow" }).click();
  // The daemon may have noticed before.
  await expect(page.getByText(/^Volume ledger has (grown to )?128 MiB/)).toBeVisible();
  const volume = await daemon.get("/api/v1/volumes/ledger");
  expect([volume.size_bytes, volume.stats.errors]).toEqual([128 << 20, 0]);
  await expect.poll(() => reads("ledger"), "the host goes on").toBeGreaterThan(volume.stats.reads);
});

// proves: S3
test("a volume that hosts use names them, and goes only when they are cut off by word", async ({ page, daemon }) => {
  await daemon.hotset("volume", "create", "disk", "--backing", await daemon.backing("disk.img", 64 << 20));
  daemon.load("disk", 100, "--rw=randread", "--bs=4k", "--size=16M", "--iodepth=1");
  const clients = async () => (await daemon.get("/api/v1/volumes/disk")).clients;
  await expect.poll(async () => (await clients()).length, "the host is connected").toBeGreaterThan(0);
  const [client] = await clients();
  await open(page, daemon, "volumes/disk");
  await page.getByRole("button", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog", { name: "Delete volume disk?" });
  await expect(dialog).toContainText(client.peer);
  const agree = dialog.getByRole("button", { name: "Delete volume" });
  await expect(agree).toHaveAccessibleDescription("Hosts use it: disconnect them, or say that they are cut off.");
  await dialog.getByRole("checkbox", { name: /Cut off the hosts that use it/ }).check();
  await agree.click();
  await expect(page.getByRole("heading", { name: "Volume disk" })).toHaveCount(0);
  expect((await daemon.get("/api/v1/volumes")).volumes).toEqual([]);
});

/** The columns that an administrator of such systems looks for, and ours beside them. */
const COLUMNS: { table: string; columns: string[] }[] = [
  {
    table: "Cache pools",
    columns: ["Name", "Status", "Health", "Total", "Used", "Cache type", "RAID", "I/O type", "Volumes"],
  },
  {
    table: "Volumes that pool mirror caches",
    columns: [
      "Volume",
      "Cache status",
      "Cache health",
      "Capacity",
      "Total cache used",
      "Write cache used",
      "Data at risk now",
      "Write mode",
    ],
  },
];

// proves: S3, P9, P11
test("pools and their volumes are shown with all columns, in the words of the API", async ({ page, daemon }) => {
  const ssds = await Promise.all(["ssd0", "ssd1"].map((name) => daemon.ssd(name, "96M")));
  await daemon.hotset("pool", "create", "mirror", "--type", "read-write", "--io-type", "database", "--ssd", ...ssds);
  await daemon.hotset("volume", "create", "database", "--backing", slowArray(daemon), "--pool", "mirror");
  await daemon.hotset("volume", "create", "plain", "--backing", await daemon.backing("plain.img", 64 << 20));
  await open(page, daemon, "pools/mirror");
  for (const { table, columns } of COLUMNS) {
    const found = page.getByRole("table", { name: table, exact: true });
    await expect(found.getByRole("columnheader"), table).toHaveText(columns);
  }
  const pool = page.getByRole("table", { name: "Cache pools", exact: true }).getByRole("row", { name: /^mirror/ });
  for (const cell of ["Online", "Good", "Read-write", "NRAID 1+", "Database"])
    await expect(pool.getByRole("cell", { name: cell, exact: true })).toBeVisible();
  const cached = page.getByRole("table", { name: "Volumes that pool mirror caches" });
  const row = cached.getByRole("row", { name: /^database/ });
  for (const cell of ["Online", "Optimal", "Write-back"])
    await expect(row.getByRole("cell", { name: cell, exact: true })).toBeVisible();

  // One SSD less: writes are not cached any more, and each place says so in the same words.
  await daemon.failSsd("ssd0");
  await daemon.loadOnce("database", "--rw=randwrite", "--bs=4k", "--size=1M", "--io_size=64k", "--iodepth=1");
  await expect(pool.getByRole("cell", { name: "Degraded", exact: true })).toBeVisible();
  await expect(row.getByRole("cell", { name: "Degraded", exact: true })).toBeVisible();
  const { cache_health, cache_state } = await daemon.get("/api/v1/volumes/database");
  expect([cache_health, ["online", "flushing"].includes(cache_state)]).toEqual(["degraded", true]);
  for (const place of ["overview", "volumes/database"]) {
    await open(page, daemon, place);
    await expect(page.getByRole("row", { name: /^database/ }).getByRole("cell", { name: "Degraded" })).toBeVisible();
    const plain = page.getByRole("row", { name: /^plain/ });
    await expect(plain.getByRole("cell", { name: "No cache", exact: true }).first()).toBeVisible();
  }
});

// An address that named a volume of before led to the first of those that are left, with its "Delete".
// proves: S3
test("an address that names what was deleted says so, and shows no other in its place", async ({ page, daemon }) => {
  const backing = slowArray(daemon, "array.img", "ncq=32");
  await daemon.hotset("volume", "create", "first", "--backing", backing);
  await daemon.hotset("volume", "create", "second", "--backing", slowArray(daemon, "other.img", "ncq=32"));
  // The daemon looks every second: what came and went within one is no event.
  const events = async () => JSON.stringify(await daemon.get("/api/v1/events"));
  await expect.poll(events).toContain("second");
  await daemon.hotset("volume", "delete", "second");
  await expect.poll(events).toContain("removed");
  await open(page, daemon, "events");
  await page.getByRole("link", { name: "second" }).first().click();
  await expect(page.getByText(/There is no volume second: it was deleted at /)).toBeVisible();
  await expect(page.getByRole("button", { name: "Delete" })).toHaveCount(0);
  await open(page, daemon, "pools/nobody");
  await expect(page.getByText("There is no pool nobody")).toBeVisible();
  await open(page, daemon, "statistics?subject=volume%3Asecond");
  await expect(page.getByText(/There is no volume second/)).toBeVisible();
  await open(page, daemon, "volumes");
  await expect(page.getByRole("heading", { name: "Volume first" })).toBeVisible();
});
