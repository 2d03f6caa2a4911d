// What the tests share: a daemon that goes with the test, and a page that may log no error.
import { join } from "node:path";
import AxeBuilder from "@axe-core/playwright";
import base, { expect, type Page } from "@playwright/test";
import { Daemon } from "./daemon";

export { expect };

/** Where pictures go, for a person to look at. */
export function shot(name: string): string {
  return join(process.env.HOTSET_CONSOLE_OUT ?? "../target/console", name);
}

type Fixtures = { daemon: Daemon };

export const test = base.extend<Fixtures>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads from the pattern which fixtures are wanted.
  daemon: async ({}, use) => {
    const daemon = await Daemon.start();
    try {
      await use(daemon);
    } finally {
      await daemon.stop();
    }
  },
  // After the daemon in the order of making, so before it in that of ending.
  page: async ({ page, daemon }, use) => {
    expect(daemon.url).toContain("127.0.0.1");
    const errors: string[] = [];
    page.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") errors.push(message.text());
    });
    page.on("pageerror", (error) => errors.push(error.message));
    await use(page);
    expect(errors, "errors in the browser's console").toEqual([]);
    await page.close();
  },
});

const MIB = 1 << 20;

/** A read pool on one SSD, a read-write pool on three, a volume on each and one without, and hosts that use them. */
export async function busyScene(daemon: Daemon): Promise<void> {
  const ssds = await Promise.all(["ssd0", "ssd1", "ssd2", "ssd3"].map((name) => daemon.ssd(name, "96M")));
  await daemon.hotset(
    "pool",
    "create",
    "fast",
    "--type",
    "read",
    "--io-type",
    "database",
    "--ssd",
    ...ssds.slice(0, 1),
  );
  await daemon.hotset(
    "pool",
    "create",
    "mirror",
    "--type",
    "read-write",
    "--io-type",
    "database",
    "--ssd",
    ...ssds.slice(1),
  );
  await daemon.hotset(
    "volume",
    "create",
    "disk",
    "--backing",
    await daemon.backing("disk.img", 512 * MIB),
    "--pool",
    "fast",
  );
  await daemon.hotset("volume", "create", "archive", "--backing", await daemon.backing("archive.img", 256 * MIB));
  await daemon.hotset("volume", "create", "database", "--backing", slowArray(daemon), "--pool", "mirror");
  daemon.load("disk", "--rw=randread", "--bs=4k", "--size=32M", "--iodepth=2", "--rate_iops=400");
  daemon.load(
    "database",
    "--rw=randrw",
    "--rwmixread=60",
    "--bs=8k",
    "--size=16M",
    "--iodepth=4",
    "--rate_iops=200,150",
  );
}

/** A backing device with the speed of spinning disks, so that flushing it takes a while. */
export function slowArray(daemon: Daemon): string {
  const slow = "span=500G,ncq=4,seek-min=2ms,seek-max=10ms,disk-cache=off,controller-cache=off";
  return `emulated:disks=3,level=raid5,size=1G,${slow},file=${daemon.path("array.img")}`;
}

export async function open(page: Page, daemon: Daemon, place: string): Promise<void> {
  await page.goto(`${daemon.url}#/${place}`);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
}

/** Fails on anything that axe finds: contrast, names, roles, order; or by these rules alone. */
export async function expectAccessible(page: Page, what: string, rules: string[] = []): Promise<void> {
  const axe = new AxeBuilder({ page });
  const { violations } = await (rules.length === 0 ? axe : axe.withRules(rules)).analyze();
  const said = violations.map(
    (found) => `${found.id}: ${found.nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`,
  );
  expect(said, what).toEqual([]);
}

/** Every action that cannot be used says why, to the eye of who comes to it by keyboard and to the screen reader. */
export async function expectReasons(page: Page): Promise<number> {
  const dialog = (await page.getByRole("dialog").count()) > 0;
  const disabled = await page.locator(`${dialog ? "dialog " : ""}button[aria-disabled=true]`).all();
  for (const button of disabled) {
    const label = await button.textContent();
    const reason = page.locator(`[id="${await button.getAttribute("aria-describedby")}"]`);
    await button.focus();
    await expect(reason, `the reason of ${label}`).toBeVisible();
    expect((await reason.textContent())?.length, `the reason of ${label}`).toBeGreaterThan(10);
  }
  return disabled.length;
}
