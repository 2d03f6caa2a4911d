// What changed, when and why: newest first.
import { useState } from "preact/hooks";
import { call, explain } from "../api/client";
import type { Event, Severity } from "../api/types";
import { moment } from "../format";
import { eventCount } from "../live";
import { link } from "../router";
import { usePolled, useStore } from "../store";
import { Badge, Heading, Notice, Path } from "../ui/basics";
import { Select } from "../ui/select";
import { Table } from "../ui/table";
import { severity } from "../words";

/** Events are pushed; this is for those that a broken connection swallowed. */
const RELOAD_MS = 30_000;

type Least = "all" | "warnings" | "errors";

export function Events() {
  const count = useStore(eventCount);
  const [least, setLeast] = useState<Least>("all");
  const { value, error } = usePolled((signal) => call("get", "/api/v1/events", { signal }), String(count), RELOAD_MS);
  const [last, setLast] = useState<Event[]>([]);
  if (value !== null && value.events !== last) setLast(value.events);
  const shown = last.filter((event) => counts(event.severity, least)).reverse();
  return (
    <>
      <Heading title="Events">
        <Select
          label="Show"
          value={least}
          options={[
            { value: "all", text: "all events" },
            { value: "warnings", text: "warnings and errors" },
            { value: "errors", text: "errors" },
          ]}
          choose={setLeast}
        />
      </Heading>
      {error !== null && <Notice tone="bad">{explain(error)}</Notice>}
      <section class="panel" aria-label="List of events">
        <Table
          caption="Events, newest first"
          rows={shown}
          rowKey={(event) => String(event.id)}
          empty={last.length === 0 ? "Nothing has changed yet." : "No such event."}
          columns={[
            { head: "Time", cell: (event) => moment(new Date(event.at_unix_ms)) },
            { head: "Severity", cell: (event) => <Badge word={severity(event.severity)} /> },
            {
              head: "Subject",
              cell: (event) => (
                <span class="text subject">
                  <Subject event={event} />
                </span>
              ),
            },
            { head: "Change", cell: (event) => <span class="text narrow">{event.change}</span> },
            { head: "By", cell: (event) => (event.by === "" ? null : <span class="text narrow">{event.by}</span>) },
            {
              head: "Why, and what to do",
              cell: (event) => (event.cause === "" ? null : <span class="text">{event.cause}</span>),
            },
          ]}
        />
      </section>
    </>
  );
}

function counts(value: Severity, least: Least): boolean {
  switch (least) {
    case "all":
      return true;
    case "warnings":
      return value !== "info";
    case "errors":
      return value === "error";
  }
}

function Subject({ event }: { event: Event }) {
  const { kind, name } = event.subject;
  switch (kind) {
    case "daemon":
      return <>daemon</>;
    case "pool":
      return (
        <>
          pool <a href={link("pools", name)}>{name}</a>
        </>
      );
    case "volume":
      return (
        <>
          volume <a href={link("volumes", name)}>{name}</a>
        </>
      );
    case "ssd":
      return (
        <>
          SSD <Path text={event.path || name} />
          {typeof event.pool === "string" && (
            <>
              {" "}
              of <a href={link("pools", event.pool)}>{event.pool}</a>
            </>
          )}
        </>
      );
  }
}
