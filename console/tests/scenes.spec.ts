// How the console looks where there is nothing, much, or trouble: by axe here, by a person in target/console/.
import type { Page } from "@playwright/test";
import type { Daemon } from "./daemon";
import {
  busyScene,
  expect,
  expectAccessible,
  expectFits,
  expectReasons,
  open,
  shot,
  slowArray,
  test,
  untilQuiet,
} from "./fixtures";

type Look = { name: string; width: number; height: number; colors: "light" | "dark"; rules: string[] | null };

/** What differs from the first look is looked at in the others: the colours, and whether it fits. */
const LOOKS: Look[] = [
  { name: "light", width: 1280, height: 800, colors: "light", rules: [] },
  { name: "dark", width: 1280, height: 800, colors: "dark", rules: ["color-contrast"] },
  { name: "narrow", width: 360, height: 740, colors: "light", rules: null },
];

/** Takes pictures of a page in each look. */
async function picture(page: Page, daemon: Daemon, place: string, name: string): Promise<void> {
  await page.setViewportSize({ width: LOOKS[0]?.width ?? 0, height: LOOKS[0]?.height ?? 0 });
  await open(page, daemon, place);
  for (const look of LOOKS) {
    await page.setViewportSize({ width: look.width, height: look.height });
    await page.emulateMedia({ colorScheme: look.colors });
    await untilQuiet(page);
    if (look.rules !== null) await expectAccessible(page, `${name}, ${look.name}`, look.rules);
    await expectFits(page, `${name}, ${look.name}`);
    await page.screenshot({ path: shot(`${name}-${look.name}.png`), fullPage: true });
  }
}

// proves: S3
test("where there is nothing yet, each page says what to do next", async ({ page, daemon }) => {
  await open(page, daemon, "overview");
  await expect(page.getByRole("heading", { name: "First steps" })).toBeVisible();
  for (const place of ["overview", "pools", "volumes", "statistics", "advisor", "events", "operations"]) {
    await picture(page, daemon, place, `empty-${place}`);
    await expectReasons(page);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await open(page, daemon, "pools");
  await page.getByRole("link", { name: "Create one" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Create pool" })).toBeVisible();
  await open(page, daemon, "volumes");
  await page.getByRole("link", { name: "Create one" }).click();
  await expect(page.getByRole("dialog", { name: "Create volume" })).toBeVisible();
});

// proves: S3
test("a long list is searched, and stays beside what is selected in it", async ({ page, daemon }) => {
  const ssds = await Promise.all(["ssd0", "ssd1"].map((name) => daemon.ssd(name, "64M")));
  await daemon.hotset("pool", "create", "fast", "--type", "read", "--io-type", "database", "--ssd", ...ssds);
  for (let index = 1; index <= 20; index += 1) {
    const name = `vm-${String(index).padStart(2, "0")}-disk`;
    const backing = await daemon.backing(name, (64 + index) << 20);
    await daemon.hotset("volume", "create", name, "--backing", backing, ...(index % 4 === 0 ? [] : ["--pool", "fast"]));
  }
  daemon.load("vm-03-disk", 300, "--rw=randread", "--bs=4k", "--size=16M", "--iodepth=2");
  for (const place of ["overview", "volumes/vm-17-disk", "pools/fast"])
    await picture(page, daemon, place, `long-${place.split("/")[0]}`);
  await page.setViewportSize({ width: 1280, height: 800 });
  await open(page, daemon, "volumes/vm-17-disk");
  const list = page.getByRole("table", { name: "Volumes" });
  await expect(list.getByRole("row")).toHaveCount(21);
  await expect(page.getByRole("heading", { name: "Volume vm-17-disk" })).toBeInViewport();
  await expect(list.getByRole("link", { name: "vm-17-disk" })).toBeInViewport();
  await page.getByRole("searchbox", { name: /^Find volumes/ }).fill("vm-07");
  await expect(list.getByRole("row")).toHaveCount(2);
  await list.getByRole("link", { name: "vm-07-disk" }).click();
  await expect(page.getByRole("heading", { name: "Volume vm-07-disk" })).toBeVisible();
});

// proves: S3, P9, P10, P11
test("a pool in trouble and one that is taken away are plain to see", async ({ page, daemon }) => {
  await busyScene(daemon);
  const ssds = await Promise.all(["leaving0", "leaving1"].map((name) => daemon.ssd(name, "192M")));
  await daemon.hotset("pool", "create", "old", "--type", "read-write", "--io-type", "database", "--ssd", ...ssds);
  await daemon.hotset("pool", "set", "old", "dirty-watermark=90", "dirty-age=1d", "flush-rate=low");
  await daemon.hotset(
    "volume",
    "create",
    "ledger",
    "--backing",
    slowArray(daemon, "ledger.img", "ncq=1,seek-min=90ms,seek-max=100ms"),
    "--pool",
    "old",
  );
  await daemon.loadOnce("ledger", "--rw=randwrite", "--bs=4k", "--size=512M", "--io_size=28M", "--iodepth=8");
  await daemon.failSsd("ssd0");
  await open(page, daemon, "pools/old");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete pool" }).click();
  const removal = page.getByRole("region", { name: "Delete pool old" }).getByRole("progressbar");
  await expect(removal).toBeVisible();
  await picture(page, daemon, "operations", "leaving-operations");
  await expect(removal).toBeVisible();
  await picture(page, daemon, "pools/old", "leaving-pools");
  await picture(page, daemon, "volumes/ledger", "leaving-volumes");
  await open(page, daemon, "overview");
  await expect(page.getByRole("region", { name: "Health" })).toContainText(/Degraded|Failed/);
  await picture(page, daemon, "overview", "trouble-overview");
  await picture(page, daemon, "pools/fast", "trouble-pools");
  await expectReasons(page);
  await picture(page, daemon, "events", "trouble-events");
});
