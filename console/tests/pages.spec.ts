// Every page in both themes and on a narrow screen: looked at by axe, and by a person in target/console/.
import type { Page } from "@playwright/test";
import { percent } from "../src/format";
import { busyScene, expect, expectAccessible, expectReasons, open, shot, test } from "./fixtures";

const PAGES = [
  { name: "overview", place: "overview", title: "Overview" },
  { name: "pools", place: "pools/mirror", title: "Cache pools" },
  { name: "create-pool", place: "create-pool", title: "Create pool" },
  { name: "volumes", place: "volumes/database", title: "Volumes" },
  { name: "create-volume", place: "volumes?dialog=create", title: "Volumes" },
  { name: "statistics", place: "statistics?subject=volume:database", title: "Statistics" },
  { name: "events", place: "events", title: "Events" },
  { name: "operations", place: "operations", title: "Operations" },
];

type Look = { name: string; width: number; height: number; colors: "light" | "dark" };

const LOOKS: Look[] = [
  { name: "light", width: 1280, height: 800, colors: "light" },
  { name: "dark", width: 1280, height: 800, colors: "dark" },
  { name: "narrow", width: 360, height: 740, colors: "light" },
];

for (const look of LOOKS) {
  // proves: S3
  test(`every page is accessible and fits the screen, ${look.name}`, async ({ page, daemon }) => {
    test.setTimeout(120_000);
    await busyScene(daemon);
    await page.setViewportSize({ width: look.width, height: look.height });
    await page.emulateMedia({ colorScheme: look.colors });
    await open(page, daemon, "overview");
    // The charts have something to show.
    await expect(page.locator(".plot").first()).toHaveAttribute("data-points", /^([3-9]|\d\d)$/, { timeout: 20_000 });
    for (const { name, place, title } of PAGES) {
      await open(page, daemon, place);
      await expect(page.getByRole("heading", { level: 1, name: title })).toBeVisible();
      await settled(page);
      // The dark colours are all that differs.
      await expectAccessible(page, `${name}, ${look.name}`, look.colors === "dark" ? ["color-contrast"] : []);
      const over = await page.evaluate(
        () => document.documentElement.scrollWidth - document.documentElement.clientWidth,
      );
      expect(over, `${name} sticks out of a screen of ${look.width} pixels`).toBeLessThanOrEqual(0);
      await page.screenshot({ path: shot(`${name}-${look.name}.png`), fullPage: true });
    }
  });
}

// proves: S3
test("every action that cannot be used says why", async ({ page, daemon }) => {
  await busyScene(daemon);
  let disabled = 0;
  for (const { place, title } of PAGES) {
    await open(page, daemon, place);
    await expect(page.getByRole("heading", { level: 1, name: title })).toBeVisible();
    await settled(page);
    disabled += await expectReasons(page);
  }
  expect(disabled, "actions that were disabled").toBeGreaterThan(2);
});

// proves: S2, S6
test("the statistics are those of the API, over time and on average", async ({ page, daemon }) => {
  test.setTimeout(180_000);
  await busyScene(daemon);
  await open(page, daemon, "statistics?subject=volume:disk");
  const values = page.getByRole("table", { name: "Now and on average" });
  // A sample is taken every 30 s.
  await expect(values.getByRole("row", { name: /^Hit ratio/ })).toContainText("%", { timeout: 75_000 });
  await expect(async () => {
    const { current, averages } = await daemon.get("/api/v1/history?subject=volume:disk");
    const shown = await values
      .getByRole("row", { name: /^Hit ratio/ })
      .getByRole("cell")
      .allTextContents();
    expect(shown).toEqual([
      "Hit ratio",
      percent(current.hit_ratio),
      percent(averages.day.hit_ratio),
      percent(averages.week.hit_ratio),
      percent(averages.month.hit_ratio),
    ]);
    expect(current.hits + current.misses).toBe(current.requests);
  }).toPass({ timeout: 40_000 });
  await expect(page.getByRole("img", { name: /^Hit ratio of reads: hits \d/ }).first()).toBeVisible({
    timeout: 65_000,
  });
  await expect(page.getByRole("heading", { name: "Warm-up" })).toBeVisible();
  await expect(page.getByRole("table", { name: "Disks now" }).getByRole("row", { name: /ssd0 SSD \d/ })).toBeVisible();

  // Zoomed by keyboard, and back.
  await page.getByRole("button", { name: "Zoom in" }).press("Enter");
  await expect(page.getByText(/^\d{4}-\d\d-\d\d .* to \d{4}-/)).toBeVisible();
  await page.getByRole("radio", { name: "1 year" }).check();
  await expect(page.getByText(/Refreshed every 30 s/)).toBeVisible();
  await page.getByRole("radio", { name: "4 hours" }).check();
  await page.screenshot({ path: shot("statistics-sampled.png"), fullPage: true });
  await expectAccessible(page, "statistics with values");
});

/** All that the page asked for has come. */
async function settled(page: Page): Promise<void> {
  await expect(page.locator("main")).not.toContainText("Asking the daemon");
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

// proves: S3
test("the keyboard reaches everything, and dialogs keep and give back the focus", async ({ page, daemon }) => {
  await busyScene(daemon);
  await open(page, daemon, "pools/mirror");
  await page.keyboard.press("Tab");
  await page.getByRole("button", { name: "Skip to the content" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.locator("main")).toBeFocused();

  const settings = page.getByRole("button", { name: "Settings" });
  await settings.focus();
  await page.keyboard.press("Enter");
  const dialog = page.getByRole("dialog", { name: "Settings of pool mirror" });
  await expect(dialog).toBeVisible();
  for (let presses = 0; presses < 30; presses += 1) {
    await page.keyboard.press("Tab");
    const outside = await page.evaluate(
      () =>
        document.activeElement?.closest("main, header.side") !== null &&
        document.activeElement?.closest("dialog") === null,
    );
    expect(outside, "the focus left the dialog").toBe(false);
  }
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  await expect(settings).toBeFocused();

  await page.getByRole("radio", { name: "Dark" }).check();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
  await page.reload();
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
});
