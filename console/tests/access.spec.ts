// Signing in from another machine: over TLS, at an address of the network, with a token that may look or one that may change.
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { promisify } from "node:util";
import type { Page } from "@playwright/test";
import { type Daemon, freePort } from "./daemon";
import { busyScene, expect, expectAccessible, expectReasons, shot, test, untilQuiet } from "./fixtures";

const run = promisify(execFile);

/** An address of this machine by which others reach it; loopback where it has none. Over TLS both ask for a token. */
function address(): string {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  return all.find((one) => one.family === "IPv4" && !one.internal)?.address ?? "127.0.0.1";
}

/** Serves the API over TLS too; answers where. */
async function serveOverTls(daemon: Daemon): Promise<string> {
  const [key, certificate, config] = [daemon.path("key.pem"), daemon.path("cert.pem"), daemon.path("hotset.toml")];
  const curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const name = ["-subj", "/CN=hotset", "-addext", `subjectAltName=IP:${address()}`];
  await run("openssl", ["req", "-x509", ...curve, "-days", "90", ...name, "-keyout", key, "-out", certificate]);
  await writeFile(config, `[api_tls]\ncertificate = "${certificate}"\nkey = "${key}"\n`);
  const port = await freePort();
  await daemon.serve("--config", config, "--api", `tcp:${address()}:${port}`);
  return `https://${address()}:${port}/`;
}

async function token(daemon: Daemon, name: string, role: string): Promise<string> {
  const made = JSON.parse(await daemon.hotset("token", "create", name, "--role", role, "-o", "json"));
  return made.token;
}

async function signIn(page: Page, text: string): Promise<void> {
  await page.getByLabel("Token").fill(text);
  await page.getByRole("button", { name: "Sign in" }).click();
}

// The certificate is of the test's own making; the browser logs each answer that says who is not known.
test.use({ serve: false, ignoreHTTPSErrors: true, tolerated: /status of 401/ });

// proves: S3, S4
test("a person signs in over the network, looks with one token and changes things with another", async ({
  page,
  daemon,
}) => {
  const url = await serveOverTls(daemon);
  await busyScene(daemon);
  const [viewer, admin] = [await token(daemon, "visitor", "view"), await token(daemon, "boss", "admin")];

  await page.goto(`${url}#/pools/mirror`);
  await expect(page.getByRole("heading", { level: 1, name: "Sign in" })).toBeVisible();
  await expectAccessible(page, "sign in");
  await page.screenshot({ path: shot("sign-in.png"), fullPage: true });
  await signIn(page, `${viewer}0`);
  await expect(page.getByLabel("Token")).toHaveAccessibleDescription(/token is not known here/);

  await signIn(page, viewer);
  await expect(page.getByRole("heading", { name: "Pool mirror" })).toBeVisible();
  await expect(page.getByText("visitor may look only")).toBeVisible();
  await expectAccessible(page, "pools, looking only");
  await page.screenshot({ path: shot("pools-view-role.png"), fullPage: true });
  const changes = ["Create pool", "Add SSDs", "Remove SSDs", "Add spares", "Scrub", "Settings", "Convert", "Delete"];
  for (const name of changes) {
    const action = page.getByRole("button", { name, exact: true });
    await expect(action, name).toHaveAttribute("aria-disabled", "true");
    await expect(action, name).toHaveAccessibleDescription(/may look only/);
  }
  await page.getByRole("button", { name: "More information" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Close", exact: true }).last().click();
  for (const place of ["overview", "volumes/database", "statistics", "events", "operations", "create-pool"]) {
    await page.goto(`${url}#/${place}`);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await untilQuiet(page);
    await expectReasons(page);
  }
  await page.goto(`${url}#/volumes/database`);
  for (const name of ["Create volume", "Enable cache", "Disable cache", "Settings", "Rename", "Grow", "Delete"]) {
    const action = page.getByRole("button", { name, exact: true });
    await expect(action, name).toHaveAccessibleDescription(/may look only/);
  }

  await page.getByRole("button", { name: "Sign out" }).click();
  await signIn(page, admin);
  await expect(page.getByText("boss may change things")).toBeVisible();
  await page.getByRole("button", { name: "Settings", exact: true }).click();
  await page.getByRole("textbox", { name: /^Read streams/ }).fill("8 MiB");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText(/reads from 8 MiB/)).toBeVisible();

  // A token that is taken back opens nothing any more, in a page that is open too.
  await daemon.hotset("token", "delete", "boss");
  await expect(page.getByRole("heading", { level: 1, name: "Sign in" })).toBeVisible();
});
