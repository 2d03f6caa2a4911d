// What the daemon is doing now: its status as it is pushed, its counters every two seconds.
import { ApiFailure, call, onTokenChange } from "./api/client";
import type { Operation, Pool, Session, Stats, Status } from "./api/types";
import { EMPTY, extend, precede, type Series } from "./rates";
import { followTogether } from "./shared-stream";
import { Store } from "./store";

export type Connection =
  | { state: "connecting" }
  | { state: "live" }
  | { state: "lost"; reason: string }
  | { state: "unauthenticated"; reason: string };

export const connection = new Store<Connection>({ state: "connecting" });
export const session = new Store<Session | null>(null);
export const status = new Store<Status | null>(null);
export const operations = new Store<Operation[]>([]);
export const series = new Store<Series>(EMPTY);
/** Grows with each event that was pushed, for those who list events. */
export const eventCount = new Store(0);

const SAMPLE_MS = 2000;
const RETRY_MS = 1000;
const SIGNED_OUT_MS = 60_000;
/** How soon sampling begins when there is somebody to ask. */
const LOOK_MS = 200;
/** A daemon that says nothing for so long does not answer: it pushes its status every second. Longer than tabs wait for each other. */
const SILENCE_MS = 15_000;

let abort = new AbortController();
/** Ends the pause before the next attempt. */
let wake = () => {};
let before: Stats | null = null;
/** When it said something last. */
let heard = 0;
/** Whether the series has what was before the page was opened. */
let filled = false;

/** Begins to follow the daemon, and never ends. */
export function start(): void {
  onTokenChange(() => {
    abort.abort();
    wake();
  });
  void followForever();
  void sampleForever();
  setInterval(watch, 1000);
}

/** A connection may stay open to a daemon that hangs, or to a machine that is gone. */
function watch(): void {
  if (connection.get().state !== "live" || Date.now() - heard <= SILENCE_MS) return;
  connection.set({ state: "lost", reason: `it has said nothing for ${SILENCE_MS / 1000} s` });
  abort.abort();
}

/** Asks for what is shown everywhere, after something was changed. */
export async function refresh(signal?: AbortSignal): Promise<void> {
  const options = signal === undefined ? {} : { signal };
  const [now, list] = await Promise.all([
    call("get", "/api/v1/status", options),
    call("get", "/api/v1/operations", options),
  ]);
  status.set(now);
  operations.set(list.operations);
}

async function followForever(): Promise<never> {
  for (;;) {
    abort = new AbortController();
    try {
      const inTime = AbortSignal.any([abort.signal, AbortSignal.timeout(SILENCE_MS)]);
      session.set(await call("get", "/api/v1/session", { signal: inTime }));
      await refresh(inTime);
      heard = Date.now();
      connection.set({ state: "live" });
      if (!filled) void fillFromHistory();
      filled = true;
      await followTogether("/api/v1/events/stream", abort.signal, pushed);
    } catch (error) {
      if (!abort.signal.aborted) connection.set(lost(error));
    }
    // Who is not signed in is woken when he is; each try in vain would count as a refused login.
    const rest = connection.get().state === "unauthenticated" ? SIGNED_OUT_MS : RETRY_MS;
    await Promise.race([pause(rest), new Promise<void>((done) => (wake = done))]);
  }
}

function pushed(name: string, data: string): void {
  // What another tab hands on is for those alone who are signed in.
  if (connection.get().state !== "live") return;
  heard = Date.now();
  if (name !== "status") {
    eventCount.set(eventCount.get() + 1);
    return;
  }
  const now: Status = JSON.parse(data);
  status.set(now);
  // Operations are asked for while there are any, and once more to see how the last one ended.
  const busy = isBusy(now) || operations.get().some((one) => one.state === "running");
  if (busy) {
    call("get", "/api/v1/operations").then(
      (list) => operations.set(list.operations),
      () => undefined,
    );
  }
}

/** Whether something goes on that takes long; what begins by itself is seen by what it does. */
function isBusy(now: Status): boolean {
  return (
    now.flushes.length + now.work.length > 0 ||
    now.pools.some((pool) => pool.scrub?.state === "running" || copies(pool))
  );
}

function copies(pool: Pool): boolean {
  return (pool.rebuild ?? null) !== null || pool.ssds.some((ssd) => (ssd.evacuation ?? null) !== null);
}

function lost(error: unknown): Connection {
  if (isUnauthenticated(error)) return { state: "unauthenticated", reason: error.message };
  return { state: "lost", reason: error instanceof Error ? error.message : String(error) };
}

function isUnauthenticated(error: unknown): error is ApiFailure {
  return error instanceof ApiFailure && error.code === "unauthenticated";
}

/** The charts begin with what was before the page was opened, as far as they show it. */
async function fillFromHistory(): Promise<void> {
  try {
    const history = await call("get", "/api/v1/history", { query: { subject: "daemon" } });
    series.set(precede(series.get(), history, Date.now() / 1000));
  } catch {
    // Without a history they begin now.
  }
}

async function sampleForever(): Promise<never> {
  for (;;) {
    while (connection.get().state !== "live") {
      before = null;
      await pause(LOOK_MS);
    }
    try {
      const after = await call("get", "/api/v1/stats", { signal: AbortSignal.timeout(SILENCE_MS) });
      if (before !== null) series.set(extend(series.get(), before, after, Date.now() / 1000));
      before = after;
    } catch (error) {
      // The event stream says that the daemon is away; rates go on from the next answer.
      before = null;
      // It stays open when a token is taken back.
      if (isUnauthenticated(error)) abort.abort();
    }
    await pause(SAMPLE_MS);
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
