// Prints each test, and at the end one line of the form that `cargo x test` sums up.
import type { FullResult, Reporter, TestCase, TestResult } from "@playwright/test/reporter";

// biome-ignore lint/style/noDefaultExport: Playwright takes a reporter as the default export.
export default class Sum implements Reporter {
  private passed = 0;
  private failed = 0;
  private skipped = 0;

  onTestEnd(test: TestCase, result: TestResult): void {
    switch (result.status) {
      case "passed":
        this.passed += 1;
        break;
      case "skipped":
        this.skipped += 1;
        break;
      case "failed":
      case "timedOut":
      case "interrupted":
        this.failed += 1;
        break;
    }
    console.log(`test ${test.title} ... ${result.status} (${(result.duration / 1000).toFixed(1)} s)`);
    for (const error of result.errors)
      console.log(error.message ?? error.value, "\n", error.snippet ?? "", error.location ?? "");
  }

  onError(error: { message?: string }): void {
    this.failed += 1;
    console.log(error.message);
  }

  onEnd(result: FullResult): void {
    const word = result.status === "passed" ? "ok" : "FAILED";
    console.log(`test result: ${word}. ${this.passed} passed; ${this.failed} failed; ${this.skipped} ignored`);
  }
}
