// Every page in both themes and on a narrow screen: looked at by axe, and by a person in target/console/.
import {
  busyScene,
  expect,
  expectAccessible,
  expectFits,
  expectReasons,
  open,
  shot,
  test,
  untilQuiet,
} from "./fixtures";

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
    await busyScene(daemon);
    await page.setViewportSize({ width: look.width, height: look.height });
    await page.emulateMedia({ colorScheme: look.colors });
    await open(page, daemon, "overview");
    // The charts have something to show.
    await expect(page.locator(".plot").first()).toHaveAttribute("data-points", /^([3-9]|\d\d)$/);
    for (const { name, place, title } of PAGES) {
      await open(page, daemon, place);
      await expect(page.getByRole("heading", { level: 1, name: title })).toBeVisible();
      await untilQuiet(page);
      // The dark colours are all that differs.
      await expectAccessible(page, `${name}, ${look.name}`, look.colors === "dark" ? ["color-contrast"] : []);
      await expectFits(page, `${name}, ${look.width} pixels`);
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
    await untilQuiet(page);
    disabled += await expectReasons(page);
  }
  // Those of the dialogs, and what leads to each.
  const leading: [string, string[]][] = [
    ["pools/mirror", ["Add SSDs", "Remove SSDs", "Add spares", "Settings", "Convert", "More information", "Delete"]],
    ["volumes/database", ["Disable cache", "Settings", "Rename", "Grow", "Delete"]],
    ["volumes/archive", ["Enable cache"]],
  ];
  for (const [place, names] of leading) {
    await open(page, daemon, place);
    for (const name of names) {
      await page.getByRole("button", { name, exact: true }).click();
      await expect(page.getByRole("dialog")).toBeVisible();
      disabled += await expectReasons(page);
      await page.keyboard.press("Escape");
      await expect(page.getByRole("dialog")).toBeHidden();
    }
  }
  expect(disabled, "actions that were disabled").toBeGreaterThan(5);
});

// proves: S3
test("the keyboard scrolls devices of which none can be chosen", async ({ page, daemon }) => {
  await busyScene(daemon);
  await open(page, daemon, "volumes?dialog=create");
  const dialog = page.getByRole("dialog");
  // All that is there is in use.
  await dialog.getByRole("textbox", { name: /Image files in this directory/ }).fill(daemon.directory);
  await dialog.getByRole("button", { name: "Look there" }).click();
  await expect(dialog.getByRole("radio", { name: /array.img/ })).toBeDisabled();
  await expectAccessible(page, "devices in use");
});

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
