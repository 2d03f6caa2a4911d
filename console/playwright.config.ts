// Browser tests on a real daemon, with the distribution's Chromium. `HOTSET_BIN` is the binary under test.
import { defineConfig } from "@playwright/test";

// biome-ignore lint/style/noDefaultExport: Playwright takes its configuration as the default export.
export default defineConfig({
  testDir: "tests",
  outputDir: `${process.env.HOTSET_CONSOLE_OUT ?? "../target/console"}/results`,
  // One daemon and one load at a time: the machine has two cores.
  workers: 1,
  fullyParallel: false,
  retries: 0,
  timeout: 60_000,
  expect: { timeout: 10_000 },
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
