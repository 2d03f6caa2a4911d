// An address that names what is not there: what became of it, and never another one in its place.
import { call } from "../api/client";
import type { Event } from "../api/types";
import { moment } from "../format";
import { eventCount } from "../live";
import { link } from "../router";
import { usePolled, useStore } from "../store";
import { Notice } from "../ui/basics";

const RELOAD_MS = 30_000;

export function Gone({ kind, name }: { kind: "pool" | "volume"; name: string }) {
  const count = useStore(eventCount);
  const { value } = usePolled(
    (signal) => call("get", "/api/v1/events", { signal }),
    `${kind}:${name}:${count}`,
    RELOAD_MS,
  );
  return (
    <Notice tone="warning">
      There is no {kind} {name}
      <Fate kind={kind} name={name} events={value?.events ?? []} />
    </Notice>
  );
}

/** As far as the events remember. */
function Fate({ kind, name, events }: { kind: "pool" | "volume"; name: string; events: Event[] }) {
  const last = [...events].reverse().find((event) => event.subject.kind === kind && tellsOf(event, name));
  if (last === undefined) return <>.</>;
  const at = moment(new Date(last.at_unix_ms));
  if (last.change === "removed") return <>: it was deleted at {at}.</>;
  return (
    <>
      : it was renamed at {at}, and is{" "}
      <a href={link(kind === "pool" ? "pools" : "volumes", last.subject.name)}>{last.subject.name}</a> now.
    </>
  );
}

function tellsOf(event: Event, name: string): boolean {
  return (event.change === "removed" && event.subject.name === name) || event.change === `renamed, it was ${name}`;
}
