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

type Fixtures = {
  /** Whether the daemon serves before the test begins. */
  serve: boolean;
  /** What the browser's console may say nevertheless. */
  tolerated: RegExp | null;
  daemon: Daemon;
};

export const test = base.extend<Fixtures>({
  serve: [true, { option: true }],
  tolerated: [null, { option: true }],
  daemon: async ({ serve }, use) => {
    const daemon = await Daemon.prepare();
    try {
      if (serve) await daemon.serve();
      await use(daemon);
    } finally {
      await daemon.stop();
    }
  },
  // After the daemon in the order of making, so before it in that of ending.
  page: async ({ page, daemon, tolerated }, use) => {
    expect(daemon.url).toContain("127.0.0.1");
    const errors: string[] = [];
    page.on("console", (message) => {
      const wrong = message.type() === "error" || message.type() === "warning";
      if (wrong && !tolerated?.test(message.text())) errors.push(message.text());
    });
    page.on("pageerror", (error) => errors.push(error.message));
    await useBuilt(page);
    await use(page);
    expect(errors, "errors in the browser's console").toEqual([]);
    await page.close();
  },
});

/** `HOTSET_CONSOLE_DIST`: the console of this directory in place of the one in the binary, to see a change without building both. */
async function useBuilt(page: Page): Promise<void> {
  const dist = process.env.HOTSET_CONSOLE_DIST;
  if (dist === undefined) return;
  await page.context().route(/^https?:\/\/[^/]+\/(?!api|metrics)/, async (route) => {
    const { pathname } = new URL(route.request().url());
    await route.fulfill({ path: join(dist, pathname === "/" ? "index.html" : pathname) });
  });
}

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
  daemon.load("disk", 400, "--rw=randread", "--bs=4k", "--size=32M", "--iodepth=2");
  daemon.load("database", 350, "--rw=randrw", "--rwmixread=60", "--bs=8k", "--size=16M", "--iodepth=4");
}

/** A backing device with the speed of spinning disks, so that flushing it takes a while. */
export function slowArray(daemon: Daemon, file = "array.img", seeks = "ncq=4,seek-min=2ms,seek-max=10ms"): string {
  const slow = `span=500G,${seeks},disk-cache=off,controller-cache=off`;
  return `emulated:disks=3,level=raid5,size=1G,${slow},file=${daemon.path(file)}`;
}

export async function open(page: Page, daemon: Daemon, place: string): Promise<void> {
  await page.goto(`${daemon.url}#/${place}`);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
}

/** All that the page asked for has come. */
export async function untilQuiet(page: Page): Promise<void> {
  await expect(page.locator("main")).not.toContainText("Asking the daemon");
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
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

/** Nothing sticks out of the screen to the right. */
export async function expectFits(page: Page, what: string): Promise<void> {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  expect(over, `${what} sticks out of the screen`).toBeLessThanOrEqual(0);
}

/** Every action that cannot be used says why, to the eye of who comes to it by keyboard and to the screen reader. */
export async function expectReasons(page: Page): Promise<number> {
  const dialog = (await page.getByRole("dialog").count()) > 0;
  const disabled = await page.locator(`${dialog ? "dialog " : ""}button[aria-disabled=true]`).all();
  expect(await page.locator("button:disabled").count(), "buttons that no keyboard reaches").toBe(0);
  for (const button of disabled) {
    const label = await button.textContent();
    const reason = page.locator(`[id="${await button.getAttribute("aria-describedby")}"]`);
    await button.focus();
    await expect(button, `${label} can be reached`).toBeFocused();
    await expect(reason, `the reason of ${label}`).toBeVisible();
    expect((await reason.textContent())?.length, `the reason of ${label}`).toBeGreaterThan(10);
  }
  return disabled.length;
}
