// Changes that were asked for: done, or explained; what takes long goes on in the daemon as an operation.
import { call, explain } from "./api/client";
import type { Operation, OperationStart } from "./api/types";
import { operations, refresh, session } from "./live";
import { useStore } from "./store";
import { notify } from "./ui/toasts";
import { operationEnd } from "./words";

/** Why this person may change nothing; null: they may. */
export function useReadOnly(): string | null {
  const known = useStore(session);
  return known?.role === "view" ? "Your token may look only. A token of the role admin may change things." : null;
}

/** Runs a change, says that it was done or why not, and shows the new state. */
export async function change<T>(done: string | ((answer: T) => string), run: () => Promise<T>): Promise<boolean> {
  try {
    const answer = await run();
    notify("good", typeof done === "string" ? done : done(answer));
    return true;
  } catch (error) {
    notify("bad", explain(error));
    return false;
  } finally {
    await refresh().catch(() => undefined);
  }
}

/** The operations that this person began and whose end has not been told yet. */
const begun = new Set<number>();

/** Begins a removal, which flushes first, a scrub or a flush; its end is told when it comes. */
export function begin(start: OperationStart): Promise<boolean> {
  return beginBy(() => call("post", "/api/v1/operations", { body: start }));
}

/** Begins what takes long; its end is told when it comes. Answers whether it has begun. */
export async function beginBy(ask: () => Promise<Operation>): Promise<boolean> {
  try {
    const operation = await ask();
    begun.add(operation.id);
    tellEnds([operation]);
    return true;
  } catch (error) {
    notify("bad", explain(error));
    return false;
  } finally {
    await refresh().catch(() => undefined);
  }
}

export async function cancel(operation: Operation): Promise<void> {
  try {
    await call("delete", "/api/v1/operations/{id}", { at: { id: String(operation.id) } });
    begun.add(operation.id);
  } catch (error) {
    notify("bad", explain(error));
  }
  await refresh().catch(() => undefined);
}

operations.subscribe(() => tellEnds(operations.get()));

function tellEnds(list: Operation[]): void {
  for (const operation of list) {
    if (operation.state === "running" || !begun.delete(operation.id)) continue;
    const { tone, text } = operationEnd(operation);
    notify(tone, text);
  }
}
