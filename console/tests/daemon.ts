// A daemon of a test's own: the real binary on image files in a directory that goes with the test.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, open, readFile, rm, truncate } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Longer than any test. */
const LOAD_SECONDS = 600;
const BURSTS_PER_SECOND = 5;

/** `HOTSET_BIN`: the binary under test. */
function binary(): string {
  const path = process.env.HOTSET_BIN;
  if (path === undefined) throw new Error("HOTSET_BIN names no binary: cargo build --package hotset");
  return path;
}

/** A program that the kernel ends with this process, however that ends. */
function leashed(program: string, words: string[]): [string, string[]] {
  return ["setpriv", ["--pdeathsig", "KILL", program, ...words]];
}

export class Daemon {
  private children: ChildProcess[] = [];

  private constructor(
    readonly directory: string,
    private readonly port: number,
  ) {}

  /** One that knows no pools and no volumes; it serves when `serve` is done. */
  static async prepare(): Promise<Daemon> {
    return new Daemon(await mkdtemp(join(tmpdir(), "hotset-console-")), await freePort());
  }

  /** Starts it, with what else it is told, and waits until it answers. */
  async serve(...words: string[]): Promise<void> {
    const log = await open(this.path("log"), "a");
    // What is read comes from SSDs and backing devices.
    const own = ["--state", this.path("state"), "--missing-wait", "1", "--memory-cache", "0", "--api", this.api];
    const loopback = ["--api", `tcp:127.0.0.1:${this.port}`];
    const child = spawn(...leashed(binary(), ["serve", ...own, ...loopback, ...words]), {
      stdio: ["ignore", log.fd, log.fd],
    });
    this.children.push(child);
    await log.close();
    for (;;) {
      if (child.exitCode !== null) throw new Error(`the daemon ended at its start: ${await this.log()}`);
      // Each attempt waits for an answer or a refusal.
      if (
        await fetch(`${this.url}api/v1/status`).then(
          (answer) => answer.ok,
          () => false,
        )
      )
        return;
      await new Promise((done) => setTimeout(done, 50));
    }
  }

  /** What it has said so far. */
  async log(): Promise<string> {
    return readFile(this.path("log"), "utf8");
  }

  /** Where the console is. */
  get url(): string {
    return `http://127.0.0.1:${this.port}/`;
  }

  private get api(): string {
    return `unix:${this.path("state/api.sock")}`;
  }

  path(name: string): string {
    return join(this.directory, name);
  }

  /** Runs a verb of the command line to its end. */
  async hotset(...words: string[]): Promise<string> {
    const { stdout } = await run(binary(), ["--api", this.api, ...words], { cwd: this.directory });
    return stdout;
  }

  /** What the API answers. */
  async get(path: string) {
    return (await fetch(new URL(path, this.url))).json();
  }

  /** A fully written image file that can be an SSD. */
  async ssd(name: string, size: string): Promise<string> {
    await this.hotset("image", "create", name, size);
    return this.path(name);
  }

  /** An image file that can be a backing device. */
  async backing(name: string, bytes: number): Promise<string> {
    const file = await open(this.path(name), "w");
    await file.truncate(bytes);
    await file.close();
    return this.path(name);
  }

  /** It does nothing at all while `meanwhile` is done, and its connections stay. */
  async whilePaused(meanwhile: () => Promise<void>): Promise<void> {
    // It is the first that was started.
    const [daemon] = this.children;
    daemon?.kill("SIGSTOP");
    try {
      await meanwhile();
    } finally {
      daemon?.kill("SIGCONT");
    }
  }

  /** Takes an SSD away under the daemon: its file ends where it began. */
  async failSsd(name: string): Promise<void> {
    await truncate(this.path(name), 0);
  }

  /**
   * Starts fio on a volume, over NBD, as a host would. It ends with the daemon: it is one process, which is killed. Requests come in bursts
   * with pauses between: with `--rate_iops` fio waits between each two, and short waits it spins away, a whole core.
   */
  load(volume: string, iops: number, ...options: string[]): void {
    const pace = [`--thinktime=${1000 / BURSTS_PER_SECOND}ms`, `--thinktime_blocks=${iops / BURSTS_PER_SECOND}`];
    const words = [...this.fio(volume), "--time_based", `--runtime=${LOAD_SECONDS}`, ...pace, ...options];
    const child = spawn(...leashed("fio", words), { cwd: this.directory, stdio: "ignore" });
    this.children.push(child);
  }

  /** Runs fio on a volume to its end. */
  async loadOnce(volume: string, ...options: string[]): Promise<void> {
    await run(...leashed("fio", [...this.fio(volume), ...options]), { cwd: this.directory });
  }

  private fio(volume: string): string[] {
    const uri = `nbd+unix:///${volume}?socket=${this.path("state/nbd.sock")}`;
    return ["--name=load", "--thread", "--ioengine=nbd", `--uri=${uri}`];
  }

  async stop(): Promise<void> {
    for (const child of this.children.reverse()) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    await rm(this.directory, { recursive: true });
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  await new Promise((done) => server.close(done));
  if (address === null || typeof address === "string") throw new Error("a TCP socket has a port");
  return address.port;
}
