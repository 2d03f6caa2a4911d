// Browser tests on a real daemon, with the distribution's Chromium. `HOTSET_BIN` is the binary under test.
import { defineConfig } from "@playwright/test";

// biome-ignore lint/style/noDefaultExport: Playwright takes its configuration as the default export.
export default defineConfig({
  testDir: "tests",
  outputDir: `${process.env.HOTSET_CONSOLE_OUT ?? "../target/console"}/results`,
  // Each test has a daemon and hosts of its own and mostly waits for them; two cores are enough for three.
  workers: 3,
  fullyParallel: true,
  retries: 0,
  // Guards against what never comes: where all else is slow, so is it.
  timeout: 600_000,
  expect: { timeout: 90_000 },
  reporter: [["./tests/reporter.ts"]],
  use: {
    viewport: { width: 1280, height: 800 },
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-gpu"],
    },
    screenshot: "only-on-failure",
  },
});
