// Every page in both themes and on a narrow screen: looked at by axe, and by a person in target/console/.
import type { Page } from "@playwright/test";
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

// proves: S3
test("every page is accessible, fits a narrow screen, and gives its reasons", async ({ page, daemon }) => {
  test.setTimeout(150_000);
  await busyScene(daemon);
  await open(page, daemon, "overview");
  // The charts have something to show.
  await expect(page.locator(".plot").first()).toHaveAttribute("data-points", /^([3-9]|\d\d)$/, { timeout: 20_000 });
  let disabled = 0;
  for (const look of LOOKS) {
    await page.setViewportSize({ width: look.width, height: look.height });
    await page.emulateMedia({ colorScheme: look.colors });
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
      if (look.name === "light") disabled += await expectReasons(page);
    }
  }
  expect(disabled, "actions that were disabled").toBeGreaterThan(3);
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
