// One event stream for all tabs of a browser: over HTTP/1.1 it has six connections to a daemon, and a stream takes one for
// good, so that the seventh tab would wait for ever. The tab that holds the lock follows the daemon and hands on to the others.
import { follow } from "./api/client";

type Push = (name: string, data: string) => void;
type Message = { name: string; data: string };

const NAME = "hotset-events";

/** A leader that has handed on nothing for so long does not do its part; the daemon pushes its status every second. */
const SILENCE_MS = 10_000;

/** Calls `push` for all that the daemon pushes, until the connection to it ends or `signal` ends it. */
export async function followTogether(path: "/api/v1/events/stream", signal: AbortSignal, push: Push): Promise<void> {
  // Only on pages that came over TLS or from this machine.
  if (navigator.locks === undefined) return follow(path, signal, push);
  const channel = new BroadcastChannel(NAME);
  let heard = Date.now();
  channel.addEventListener("message", (message: MessageEvent<Message>) => {
    heard = Date.now();
    push(message.data.name, message.data.data);
  });
  // A leader that is taken out stops.
  const own = new AbortController();
  const stop = () => own.abort(signal.reason);
  signal.addEventListener("abort", stop);
  try {
    await lead(
      signal,
      () => heard,
      () =>
        follow(path, own.signal, (name, data) => {
          push(name, data);
          channel.postMessage({ name, data } satisfies Message);
        }),
    );
  } finally {
    signal.removeEventListener("abort", stop);
    own.abort();
    channel.close();
  }
}

/** Does `work` when no other tab does it any more. */
async function lead(signal: AbortSignal, heard: () => number, work: () => Promise<void>): Promise<void> {
  const waits = new AbortController();
  const giveUp = () => waits.abort(signal.reason);
  signal.addEventListener("abort", giveUp);
  const silent = Symbol("silent");
  const watch = setInterval(() => {
    if (Date.now() - heard() > SILENCE_MS) waits.abort(silent);
  }, 1000);
  try {
    await navigator.locks.request(NAME, { signal: waits.signal }, async () => {
      clearInterval(watch);
      await work();
    });
  } catch (error) {
    if (waits.signal.reason !== silent || signal.aborted) throw error;
    // Whoever holds the lock is taken out: its request fails, and it waits like the others.
    await navigator.locks.request(NAME, { steal: true }, work);
  } finally {
    clearInterval(watch);
    signal.removeEventListener("abort", giveUp);
  }
}
