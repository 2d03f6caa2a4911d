// The daemon's words, as a person reads them, and how each is coloured. One `switch` for each closed set.
import type {
  Health,
  IoType,
  Operation,
  PolicyKind,
  Pool,
  PoolKind,
  Scrub,
  Severity,
  Smart,
  Ssd,
  Volume,
  WriteMode,
} from "./api/types";
import { bytes, duration, moment, percentOf, plural } from "./format";

export type Tone = "good" | "busy" | "warning" | "bad" | "quiet";
export type Word = { text: string; tone: Tone };

/** States and healths of pools, SSDs and volumes. */
const WORDS: Record<string, Word> = {
  online: { text: "Online", tone: "good" },
  rebuilding: { text: "Rebuilding", tone: "busy" },
  flushing: { text: "Flushing", tone: "busy" },
  leaving: { text: "Leaving", tone: "busy" },
  spare: { text: "Spare", tone: "quiet" },
  offline: { text: "Offline", tone: "bad" },
  silent: { text: "Silent", tone: "warning" },
  "read-only": { text: "Read-only", tone: "bad" },
  "no-space": { text: "No space", tone: "bad" },
  missing: { text: "Missing", tone: "bad" },
  expelled: { text: "Expelled", tone: "bad" },
  good: { text: "Good", tone: "good" },
  optimal: { text: "Optimal", tone: "good" },
  "partially-optimal": { text: "Partially optimal", tone: "warning" },
  degraded: { text: "Degraded", tone: "warning" },
  failed: { text: "Failed", tone: "bad" },
  "error-alert": { text: "Error alert", tone: "warning" },
  unknown: { text: "Unknown", tone: "quiet" },
  "read-errors": { text: "Read errors", tone: "warning" },
};

/** A word of the daemon's as a person reads it. One that is not known here is shown as it is. */
export function word(value: string): Word {
  return WORDS[value] ?? { text: value, tone: "quiet" };
}

export function health(value: Health): Word {
  return word(value);
}

/** What the cache of a volume is doing. */
export function cacheState(volume: Volume): Word {
  return typeof volume.cache_state === "string" ? word(volume.cache_state) : { text: "No cache", tone: "quiet" };
}

/** How well the cache of a volume does what it is for; of the volume itself, where it has none and is not well; else null. */
export function cacheHealth(volume: Volume): Word | null {
  if (typeof volume.cache_health === "string") return word(volume.cache_health);
  return volume.health === "good" ? null : word(volume.health);
}

export function ssdHealth(ssd: Ssd): Word {
  return word(ssd.health);
}

/** How a disk is that may become an SSD, by its own word. */
export function diskHealth(smart: Smart): Word {
  if (smart.alert !== "") return { text: `${smart.alert}; better take another one`, tone: "bad" };
  if (smart.problem !== "") return { text: `not known, ${smart.problem}`, tone: "quiet" };
  const wear = typeof smart.wear_percent === "number" ? `, ${percentOf(smart.wear_percent)} worn` : "";
  return smart.passed === true ? { text: `good${wear}`, tone: "good" } : { text: `not said${wear}`, tone: "quiet" };
}

/** How an SSD is attached. */
export function transport(value: string): string {
  return TRANSPORTS[value] ?? value;
}

const TRANSPORTS: Record<string, string> = { nvme: "NVMe", sata: "SATA", sas: "SAS", usb: "USB", virtio: "virtio" };

export function cacheType(kind: PoolKind): string {
  switch (kind) {
    case "read":
      return "Read";
    case "read-write":
      return "Read-write";
  }
}

export function raid(kind: PoolKind): string {
  switch (kind) {
    case "read":
      return "NRAID+";
    case "read-write":
      return "NRAID 1+";
  }
}

export function ioType(value: IoType): string {
  switch (value) {
    case "database":
      return "Database";
    case "file-system":
      return "File system";
    case "web-service":
      return "Web service";
    case "custom":
      return "Custom";
  }
}

export function policy(value: PolicyKind): string {
  switch (value) {
    case "s3-fifo":
      return "S3-FIFO (scan-resistant)";
    case "lru":
      return "LRU";
    case "fifo":
      return "FIFO";
    case "2q":
      return "2Q (scan-resistant)";
    case "auto":
      return "Automatic: whichever suits best";
  }
}

/** What is evicted first, and what "automatic" comes to now, and why. */
export function eviction(pool: Pool): string {
  if (pool.policy !== "auto") return policy(pool.policy);
  const why = pool.policy_reason === "" ? "" : `: ${pool.policy_reason}`;
  return `Automatic, follows ${policy(pool.policy_followed)}${why}`;
}

export function writeMode(value: WriteMode): { text: string; meaning: string } {
  switch (value) {
    case "write-back":
      return { text: "Write-back", meaning: "To two SSDs, to the backing device later; streams go past the cache." };
    case "instant-write-back":
      return { text: "Instant write-back", meaning: "To two SSDs, streams too, until the dirty watermark." };
    case "write-through":
      return { text: "Write-through", meaning: "To the backing device, then into the cache." };
    case "write-around":
      return { text: "Write-around", meaning: "To the backing device only; cached copies are dropped." };
  }
}

/** Where a volume's writes go now: a read pool holds no dirty data, whatever the mode says. */
export function effectiveWriteMode(volume: Volume): string {
  return writeMode(volume.effective_write_mode).text;
}

/** By which way a host uses a volume. */
export function hostProtocol(value: Volume["clients"][number]["protocol"]): string {
  switch (value) {
    case "nbd":
      return "NBD";
    case "nbd-tls":
      return "NBD with TLS";
    case "local-device":
      return "local device";
  }
}

/** The block device of the daemon's machine that a volume is. */
export function localDevice({ local }: Volume): string {
  if (!local) return "none";
  if (!local.device) return `${local.path}: it is not there`;
  return `${local.path} (${local.device}, by ${local.driver})${local.connected ? "" : ": its requests wait"}`;
}

/** The hosts that are connected. */
export function usedBy(volume: Volume): string {
  const one = (client: Volume["clients"][number]) =>
    `${client.peer} by ${hostProtocol(client.protocol)} since ${moment(new Date(client.since_unix_ms))}`;
  return volume.clients.map(one).join(", ") || "no host";
}

export const WRITE_MODES: WriteMode[] = ["write-back", "instant-write-back", "write-through", "write-around"];
export const IO_TYPES: IoType[] = ["database", "file-system", "web-service", "custom"];
export const POLICIES: PolicyKind[] = ["s3-fifo", "2q", "lru", "fifo", "auto"];

/** Populate-on-read and on-write: `2nd read`, `off`. */
export function threshold(value: number, what: "read" | "write"): string {
  const nth = ["off", "1st", "2nd", "3rd"][value] ?? `${value}th`;
  return value === 0 ? "off" : `${nth} ${what}`;
}

/** `12.0 MiB for 4 s`, or that nothing is. */
export function atRisk(dirtyBytes: number, oldestSeconds: number | null | undefined): string {
  if (dirtyBytes === 0) return "nothing";
  return typeof oldestSeconds === "number"
    ? `${bytes(dirtyBytes)}, oldest ${duration(oldestSeconds)}`
    : bytes(dirtyBytes);
}

/** What an operation does. */
export function operationTitle(operation: Operation): string {
  const { name } = operation.subject;
  switch (operation.kind) {
    case "disable-cache":
      return `Disable the cache of volume ${name}`;
    case "delete-volume":
      return `Delete volume ${name}`;
    case "delete-pool":
      return `Delete pool ${name}`;
    case "convert-pool":
      return `Convert pool ${name}`;
    case "create-pool":
      return `Create pool ${name}`;
    case "add-ssds":
      return `Add SSDs to pool ${name}`;
    case "add-spares":
      return `Add spares to pool ${name}`;
    case "scrub":
      return `Scrub pool ${name}`;
    case "remove-ssds":
      return `Remove SSDs from pool ${name}`;
    case "rebuild":
      return `Make lost copies anew in pool ${name}`;
    case "flush-volume":
      return `Flush volume ${name}`;
    case "flush-pool":
      return `Flush pool ${name}`;
  }
}

export function operationState(operation: Operation): Word {
  switch (operation.state) {
    case "running":
      return { text: "Running", tone: "busy" };
    case "done":
      return { text: "Done", tone: "good" };
    case "failed":
      return { text: "Failed", tone: "bad" };
    case "cancelled":
      return { text: "Cancelled", tone: "quiet" };
  }
}

/** What the last scrub found, or the one that runs has found so far. */
export function scrubbed(scrub: Scrub | null | undefined): string {
  if (scrub === null || scrub === undefined) return "none yet";
  const how = {
    running: `${bytes(scrub.checked_bytes)} of ${bytes(scrub.total_bytes)} so far`,
    finished: `${bytes(scrub.checked_bytes)} in ${duration(scrub.elapsed_seconds)}`,
    cancelled: `cancelled after ${bytes(scrub.checked_bytes)}`,
  }[scrub.state];
  const whole = scrub.state === "finished" ? "" : wholeScrub(scrub.whole_ended_unix_ms);
  if (scrub.bad_pages + scrub.lost_pages === 0) return `${how}: nothing bad${whole}`;
  const lost =
    scrub.lost_pages === 0 ? "" : `; ${plural(scrub.lost_pages, "dirty page has", "dirty pages have")} no good copy`;
  return `${how}: ${plural(scrub.bad_pages, "bad page")}, ${scrub.repaired_pages + scrub.dropped_pages} of them mended${lost}${whole}`;
}

/** When a scrub last came to its end. */
function wholeScrub(ended: number | null | undefined): string {
  return typeof ended === "number"
    ? `; the last whole one ended ${moment(new Date(ended))}`
    : "; none has come to its end yet";
}

/** How it ended, in a sentence. */
export function operationEnd(operation: Operation): Word {
  const title = operationTitle(operation);
  const { tone } = operationState(operation);
  switch (operation.state) {
    case "running":
      return { tone, text: `${title}: in progress.` };
    case "done":
      return { tone, text: `${title}: done.` };
    case "failed":
      return { tone, text: `${title}: failed: ${operation.error?.message ?? "the daemon does not say why"}` };
    case "cancelled":
      return { tone, text: `${title}: cancelled.${afterCancel(operation.kind)}` };
  }
}

/** What is again as it was. */
function afterCancel(kind: Operation["kind"]): string {
  switch (kind) {
    case "disable-cache":
    case "delete-volume":
    case "delete-pool":
    case "convert-pool":
      return " Writes are cached again.";
    case "remove-ssds":
      return " The SSDs stay.";
    case "create-pool":
    case "add-ssds":
    case "add-spares":
    case "scrub":
    case "rebuild":
      return "";
    case "flush-volume":
    case "flush-pool":
      return " What it wrote is on the backing device.";
  }
}

export function severity(value: Severity): Word {
  switch (value) {
    case "info":
      return { text: "Info", tone: "good" };
    case "warning":
      return { text: "Warning", tone: "warning" };
    case "error":
      return { text: "Error", tone: "bad" };
  }
}
