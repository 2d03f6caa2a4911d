// The advisor: what caches of other sizes would do, what is hot, and why reads missed.
import { busyScene, expect, expectAccessible, expectFits, open, shot, test } from "./fixtures";

// proves: A2, A3, A4, S3
test("a volume's curve has its present size marked, a size is recommended, and other sizes can be asked for", async ({
  page,
  daemon,
}) => {
  test.setTimeout(180_000);
  await busyScene(daemon);
  await open(page, daemon, "advisor/disk");
  // A thousand accesses are needed.
  await expect(page.getByText(/^Recommended: .* hits \d/)).toBeVisible({ timeout: 60_000 });
  await expect(page.getByRole("img", { name: /^Hits by size of the cache: now .* hits \d/ })).toBeVisible();
  const days = page.getByRole("table", { name: "Volume disk by day: read and written" });
  await expect(days.getByRole("row")).toHaveCount(8);
  const classes = page.getByRole("table", { name: "Volume disk by day: hot, warm, cold and archived" });
  await expect(classes.getByRole("row", { name: /^Archived 4/ })).toBeVisible();

  // What it says is what the API says.
  const { sentence } = await daemon.get("/api/v1/volumes/disk/advisor");
  expect(sentence).toContain("The cache has");

  await page.getByLabel("Sizes of the cache").fill("16M, 64M");
  await page.getByRole("button", { name: "Ask" }).click();
  const told = page.getByRole("table", { name: "What pools would have done" });
  await expect(told.getByRole("row", { name: /64 MiB.*%/ })).toBeVisible();
  await page.getByLabel("Policy").selectOption("lru");
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.getByText(/hotset trace record disk/)).toBeVisible();
  await page.getByLabel("Sizes of the cache").fill("much");
  await expect(page.getByText(/with commas between them/)).toBeVisible();
  await expectAccessible(page, "advisor");
  await expectFits(page, "advisor");
  await page.screenshot({ path: shot("advisor.png"), fullPage: true });

  await page.getByRole("radio", { name: "1 day" }).check();
  await page.getByLabel("Volume", { exact: true }).selectOption("archive");
  await expect(page.getByText("Nothing was accessed in this time.")).toBeVisible();
});

// proves: A6, M5, S3
test("a volume's page tells why reads missed, and statistics tell hits in memory from those on SSDs", async ({
  page,
  daemon,
}) => {
  test.setTimeout(180_000);
  await busyScene(daemon);
  await open(page, daemon, "volumes/disk");
  // A sample is taken every 30 s.
  await expect(page.getByRole("img", { name: /^Why reads missed: .*first touch \d/ })).toBeVisible({ timeout: 75_000 });
  await page.screenshot({ path: shot("why-not.png"), fullPage: true });
  await open(page, daemon, "statistics?subject=volume:disk");
  await expect(page.getByRole("img", { name: /^Hits in memory and on SSDs: in memory \d.*on SSDs \d/ })).toBeVisible({
    timeout: 75_000,
  });
  await expectAccessible(page, "statistics with reasons");
});
