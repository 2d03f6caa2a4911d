// An operation: how far, how fast, how long still, and its end before time.
import { useState } from "preact/hooks";
import type { Operation } from "../api/types";
import { cancel, useReadOnly } from "../change";
import { bytes, bytesPerSecond, duration, moment } from "../format";
import { operations } from "../live";
import { useStore } from "../store";
import { Action, Badge, Progress } from "../ui/basics";
import { operationState, operationTitle } from "../words";

/** The operations that run on a pool or a volume. */
export function useRunning(kind: "pool" | "volume", name: string): Operation[] {
  const list = useStore(operations);
  return list.filter((one) => one.state === "running" && one.subject.kind === kind && one.subject.name === name);
}

export function RunningOperation({ operation }: { operation: Operation }) {
  const [busy, setBusy] = useState(false);
  const readOnly = useReadOnly();
  const title = operationTitle(operation);
  const run = async () => {
    setBusy(true);
    await cancel(operation);
    setBusy(false);
  };
  return (
    <section class="operation" aria-label={title}>
      <header>
        <strong>{title}</strong>
        <Action
          label="Cancel"
          busy={busy}
          reason={readOnly ?? (operation.cancellable ? null : "It cannot be cancelled: it ends by itself.")}
          run={run}
        />
      </header>
      <Progress label={title} done={operation.done_bytes} total={operation.total_bytes} />
      <p class="muted">{far(operation)}</p>
    </section>
  );
}

function far(operation: Operation): string {
  const parts = [`${bytes(operation.done_bytes)} of ${bytes(operation.total_bytes)}`];
  if (operation.rate_bytes_per_second > 0) parts.push(bytesPerSecond(operation.rate_bytes_per_second));
  parts.push(`for ${duration(operation.elapsed_seconds)}`);
  if (typeof operation.eta_seconds === "number") parts.push(`about ${duration(operation.eta_seconds)} left`);
  if (operation.asked_by !== "") parts.push(`asked for by ${operation.asked_by}`);
  if (typeof operation.began_because === "string") parts.push(operation.began_because);
  if (typeof operation.waits_for === "string") parts.push(`waits ${operation.waits_for}`);
  return parts.join(" · ");
}

export function EndedOperation({ operation }: { operation: Operation }) {
  const ended = operation.ended_unix_ms ?? operation.began_unix_ms;
  return (
    <section class="operation" aria-label={operationTitle(operation)}>
      <header>
        <strong>{operationTitle(operation)}</strong>
        <Badge word={operationState(operation)} />
      </header>
      <p class="muted">
        {moment(new Date(ended))} · {bytes(operation.done_bytes)} in {duration(operation.elapsed_seconds)}
        {operation.asked_by !== "" && ` · asked for by ${operation.asked_by}`}
      </p>
      {operation.error !== null && operation.error !== undefined && operation.state === "failed" && (
        <p>{[operation.error.message, operation.error.hint].filter(Boolean).join("; ")}</p>
      )}
    </section>
  );
}
