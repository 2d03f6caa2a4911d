// The advisor: what caches of other sizes would do, what is hot, and why reads missed.
import { busyScene, expect, expectAccessible, expectFits, open, shot, test } from "./fixtures";

// proves: A2, A3, A4, S3
test("a volume's curve has its present size marked, a size is recommended, and other sizes can be asked for", async ({
  page,
  daemon,
}) => {
  await busyScene(daemon);
  await open(page, daemon, "advisor/disk");
  // A thousand reads are needed.
  await expect(page.getByText(/^Recommended: .* hits \d/)).toBeVisible();
  await expect(page.getByRole("img", { name: /^Hits by size of the cache: now .* hits \d/ })).toBeVisible();
  const days = page.getByRole("table", { name: "Volume disk by day: read and written" });
  await expect(days.getByRole("row")).toHaveCount(8);
  const classes = page.getByRole("table", { name: "Volume disk by day: hot, warm, cold and archived" });
  await expect(classes.getByRole("row", { name: /^Archived 4/ })).toBeVisible();

  // What it says is what the API says.
  const { sentence } = await daemon.get("/api/v1/volumes/disk/advisor");
  expect(sentence).toContain("The cache has");

  // What is not watched says so before it is asked for.
  for (const name of ["Type", "Cache block", "Policy", "Populate on read", "Populate on write"]) {
    await expect(page.getByLabel(name)).toHaveAccessibleDescription("Others are tried by a command");
  }
  await page.getByLabel("Sizes of the cache").fill("16M, 64M");
  await page.getByRole("button", { name: "Ask" }).click();
  const told = page.getByRole("table", { name: "What pools would have done" });
  await expect(told.getByRole("row", { name: /64 MiB.*%/ })).toBeVisible();
  await expect(page.getByRole("button", { name: /^Copy: / })).toHaveCount(0);
  await page.getByLabel("Policy").selectOption("lru");
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.getByText(/^volume disk is watched as a read pool, .* known$/)).toBeVisible();
  const command = page.getByText(/hotset whatif disk --seconds/);
  await expect(command).toHaveText(/^hotset whatif disk --seconds \d+ .*--size 16M,64M .*--policy lru .*\d$/);
  await expect(page.getByRole("button", { name: /^Copy: / })).toHaveCount(1);
  // A read-write pool takes each write at some time.
  const writes = page.getByLabel("Populate on write").getByRole("option", { name: "off", exact: true });
  await expect(writes).toHaveCount(1);
  await page.getByLabel("Type").selectOption("read-write");
  await expect(writes).toHaveCount(0);
  await page.getByRole("button", { name: "Ask", exact: true }).click();
  await expect(command).toHaveText(/ --type read-write .* --populate-on-write 1$/);
  await page.getByLabel("Sizes of the cache").fill("much");
  await expect(page.getByText(/with commas between them/)).toBeVisible();
  await expectAccessible(page, "advisor");
  await expectFits(page, "advisor");
  await page.screenshot({ path: shot("advisor.png"), fullPage: true });

  await page.getByRole("radio", { name: "1 day" }).check();
  await page.getByLabel("Volume", { exact: true }).selectOption("archive");
  await expect(page.getByText("Nothing was accessed in this time.")).toBeVisible();
});

// proves: A1, S3
test("a volume of which nothing is known yet is told from one that there is not", async ({ page, daemon }) => {
  await busyScene(daemon);
  const days = { days: [], hot_bytes: 0, warm_bytes: 0, cold_bytes: 0, archived_bytes: 0 };
  await page.route("**/api/v1/advisor?*", (route) => route.fulfill({ json: { volumes: [], days } }));
  await open(page, daemon, "advisor/disk");
  await expect(page.getByText("Nothing is known of volume disk yet: it is watched")).toBeVisible();
  await expect(page.getByText(/There is no volume/)).toHaveCount(0);
  await open(page, daemon, "advisor/nobody");
  await expect(page.getByText("There is no volume nobody.")).toBeVisible();
});

// proves: A3, S3
test("who says what the SSDs may be written is told how long they last", async ({ page, daemon }) => {
  await busyScene(daemon);
  await open(page, daemon, "advisor/disk");
  await expect(page.getByText(/^Recommended: .* hits \d/)).toBeVisible();
  const lasts = page.getByRole("definition").filter({ hasText: /the SSDs last (about|more than) \d/ });
  await expect(lasts).toHaveCount(0);
  const endurance = page.getByLabel("Endurance of the SSDs (TB)");
  await endurance.fill("much");
  await expect(endurance).toHaveAccessibleDescription("A number of TB, as 600");
  await page.getByLabel("Sizes of the cache").fill("16M");
  const asked = page.waitForRequest((request) => /\/advisor\?.*endurance_bytes=600000000000000$/.test(request.url()));
  await endurance.fill("600");
  await asked;
  // Of a shorter time than a minute nothing is said of a day.
  await expect(lasts).toHaveCount(2);
  await expect(page.getByLabel("Sizes of the cache")).toHaveValue("16M");
  await expectAccessible(page, "advisor with the endurance of SSDs");
  await page.setViewportSize({ width: 360, height: 740 });
  await expectFits(page, "advisor, 360 pixels");
  await page.screenshot({ path: shot("advisor-endurance.png"), fullPage: true });

  // The daemon does not know it: the browser does.
  await page.reload();
  await expect(endurance).toHaveValue("600");
  await expect(lasts).toHaveCount(2);
  await endurance.fill("");
  await expect(lasts).toHaveCount(0);
});

// proves: A6, M5, S3
test("a volume's page tells why reads missed, and statistics tell hits in memory from those on SSDs", async ({
  page,
  daemon,
}) => {
  await busyScene(daemon);
  await open(page, daemon, "volumes/disk");
  // A sample is taken every 30 s.
  await expect(page.getByRole("img", { name: /^Why reads missed: .*first touch \d/ })).toBeVisible();
  await page.screenshot({ path: shot("why-not.png"), fullPage: true });
  await open(page, daemon, "statistics?subject=volume:disk");
  const hits = page.getByRole("img", { name: /^Hits in memory and on SSDs: hits \d.*in memory \d.*on SSDs \d/ });
  await expect(hits).toBeVisible();
  await expectAccessible(page, "statistics with reasons");
});
