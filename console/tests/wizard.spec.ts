// Making a pool and a volume in the browser, from nothing to a host that is served.
import { expect, expectAccessible, open, shot, test } from "./fixtures";

// proves: S3
test("the wizard makes a pool and puts it in front of a volume", async ({ page, daemon }) => {
  await daemon.ssd("ssd0", "64M");
  await daemon.ssd("ssd1", "64M");
  await daemon.backing("tiny", 1 << 20);
  await daemon.hotset("volume", "create", "disk", "--backing", await daemon.backing("disk.img", 256 << 20));

  await open(page, daemon, "overview");
  await expect(page.getByRole("heading", { level: 2, name: /^Good: 0 cache pools and 1 volume work/ })).toBeVisible();
  await page.getByRole("link", { name: "Cache pools" }).click();
  await page.getByRole("button", { name: "Create pool" }).click();

  // The button says what is missing, one thing after the other.
  const next = page.getByRole("button", { name: "Next: volumes" });
  await expect(next).toHaveAttribute("aria-disabled", "true");
  await expect(next).toHaveAccessibleDescription("Give the pool a name.");
  const name = page.getByRole("textbox", { name: "Name" });
  await name.fill("much too long a name");
  await expect(name).toHaveAccessibleDescription(/At most 16 characters/);
  await name.fill("fast");
  await expect(next).toHaveAccessibleDescription("Choose at least one SSD.");
  await page.getByRole("radio", { name: /^Read-write/ }).check();
  await page.getByRole("radio", { name: /^Web service/ }).check();
  await expect(page.getByRole("radio", { name: /^Web service/ })).toHaveAccessibleName(/Blocks of 4 MiB/);

  await page.getByLabel("Checksums of cached pages").selectOption("Off");
  await page.getByRole("textbox", { name: /Image files in this directory/ }).fill(daemon.directory);
  await page.getByRole("button", { name: "Look there" }).click();
  await expect(page.getByRole("checkbox", { name: /^disk.img/ })).toBeDisabled();
  await expect(page.getByText(/Cannot be used: .*volume/)).toBeVisible();
  await page.getByRole("checkbox", { name: /^ssd0/ }).check();
  await expect(next).toHaveAccessibleDescription(/choose a second SSD/);
  await page.getByRole("checkbox", { name: /^ssd1/ }).check();
  await next.click();

  await page.getByRole("checkbox", { name: /^disk/ }).check();
  await page.getByRole("button", { name: "Next: summary" }).click();
  await expect(page.getByRole("heading", { name: "What it will be like" })).toBeVisible();
  await expect(page.getByText("Usable capacity")).toBeVisible();
  await expect(page.getByText("Memory needed, full")).toBeVisible();
  await expectAccessible(page, "summary");
  await page.screenshot({ path: shot("create-pool-summary.png"), fullPage: true });
  await page.getByRole("button", { name: "Create pool" }).click();

  await expect(page.getByRole("heading", { name: "Pool fast" })).toBeVisible();
  const volumes = page.getByRole("table", { name: "Volumes that pool fast caches" });
  await expect(volumes.getByRole("link", { name: "disk" })).toBeVisible();
  const shown = await daemon.hotset("pool", "show", "fast", "-o", "json");
  expect(shown).toContain('"io_type": "web-service"');
  expect(shown).toContain('"checksums": false');
});

// proves: S3
test("a volume is made, connected to, and changed", async ({ page, daemon }) => {
  const backing = await daemon.backing("disk.img", 64 << 20);
  await open(page, daemon, "volumes");
  await page.getByRole("button", { name: "Create volume" }).click();
  const dialog = page.getByRole("dialog", { name: "Create volume" });
  const create = dialog.getByRole("button", { name: "Create volume" });
  await expect(create).toHaveAccessibleDescription("Give it a name.");
  await dialog.getByRole("textbox", { name: "Name" }).fill("disk");
  await dialog.getByRole("textbox", { name: "Backing device" }).fill(backing);
  await create.click();
  await expect(page.getByRole("heading", { name: "Volume disk" })).toBeVisible();

  await expect(page.getByText("nbd-client").first()).toBeVisible();
  await expect(page.getByRole("button", { name: /^Copy: .*libvirt/i })).toBeVisible();
  await expect(page.getByRole("button", { name: "Enable cache" })).toHaveAccessibleDescription(/no cache pool/);
  // What a host reads over the address that is shown.
  await daemon.loadOnce("disk", "--rw=read", "--bs=64k", "--size=1M");

  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByRole("textbox", { name: /^Read streams/ }).fill("8 MiB");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText(/reads from 8 MiB/)).toBeVisible();
  expect(await daemon.hotset("volume", "show", "disk", "-o", "json")).toContain('"read_cutoff_bytes": 8388608');

  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete volume" }).click();
  await expect(page.getByText(/^No volumes yet/)).toBeVisible();
});
