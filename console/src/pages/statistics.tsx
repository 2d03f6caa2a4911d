// What a volume or a pool did over time: values of now beside averages, and charts of a quarter of an hour to a year.
import { useState } from "preact/hooks";
import { call, explain } from "../api/client";
import type { History, Status } from "../api/types";
import { status } from "../live";
import { go, link, useRoute } from "../router";
import { type Polled, usePolled, useStore } from "../store";
import { Empty, Heading, Notice } from "../ui/basics";
import { Select } from "../ui/select";
import { Gone } from "./gone";
import { Averages } from "./statistics-averages";
import { Charts } from "./statistics-charts";
import { Disks } from "./statistics-disks";
import { ALL, type Frame, FrameControls, within } from "./statistics-frame";
import { WarmUp } from "./statistics-warm-up";

/** As often as the daemon samples. */
export const REFRESH_MS = 30_000;

export function Statistics() {
  const known = useStore(status);
  const route = useRoute();
  const [frame, setFrame] = useState<Frame>({ kind: "span", span: "4h" });
  if (known === null) return null;
  const subjects = subjectsOf(known);
  const asked = route.query.get("subject");
  const subject = asked === null ? subjects[0]?.value : subjects.find((one) => one.value === asked)?.value;
  const missing = subject === undefined && asked !== null ? splitSubject(asked) : null;
  if (missing !== null) {
    return (
      <>
        <Heading title="Statistics" />
        <Gone kind={missing.kind} name={missing.name} />
      </>
    );
  }
  if (subject === undefined) {
    return (
      <>
        <Heading title="Statistics" />
        <section class="panel" aria-label="Statistics">
          <Empty title="No statistics yet">
            They begin with the first <a href={link("pools")}>cache pool</a> or <a href={link("volumes")}>volume</a>:
            one sample every 30 s, kept for a year.
          </Empty>
        </section>
      </>
    );
  }
  return (
    <>
      <Heading title="Statistics">
        <Select
          label="Of"
          value={subject}
          options={subjects}
          choose={(value) => go(link("statistics", "", { subject: value }))}
        />
      </Heading>
      <Shown subject={subject} status={known} frame={frame} setFrame={setFrame} />
    </>
  );
}

/** What an address asks for: `pool:NAME`, `volume:NAME`. */
function splitSubject(asked: string): { kind: "pool" | "volume"; name: string } {
  const [kind = "", ...name] = asked.split(":");
  return { kind: kind === "pool" ? "pool" : "volume", name: name.join(":") || asked };
}

type ShownProps = { subject: string; status: Status; frame: Frame; setFrame: (frame: Frame) => void };

function Shown({ subject, status, frame, setFrame }: ShownProps) {
  const history = useHistory(subject, frame);
  const pool = withSsds(subject, status);
  const poolHistory = useHistory(pool, frame);
  return (
    <>
      {history.error !== null && <Notice tone="bad">{explain(history.error)}</Notice>}
      {history.value !== null && <Averages history={history.value} />}
      <FrameControls frame={frame} setFrame={setFrame} />
      {history.value !== null && (
        <Charts history={history.value} ssds={poolHistory.value} frame={frame} setFrame={setFrame} />
      )}
      {history.value !== null && <WarmUp subject={subject} since={history.value.cache_enabled_unix_seconds ?? null} />}
      <Disks subject={subject} status={status} />
    </>
  );
}

/** The history of a subject in a frame of time, anew every 30 s. */
function useHistory(subject: string | null, frame: Frame): Polled<History | null> {
  return usePolled(
    async (signal) => {
      if (subject === null) return null;
      const { from, to } = within(frame, Date.now() / 1000);
      return call("get", "/api/v1/history", { query: { subject, from, to }, signal });
    },
    `${subject} ${frame.kind === "span" ? frame.span : `${frame.from}-${frame.to}`}`,
    REFRESH_MS,
  );
}

function subjectsOf(status: Status): { value: string; text: string }[] {
  if (status.pools.length + status.volumes.length === 0) return [];
  return [
    ...(status.volumes.length === 0 ? [] : [{ value: ALL, text: "all volumes" }]),
    ...status.volumes.map((volume) => ({ value: `volume:${volume.name}`, text: `volume ${volume.name}` })),
    ...status.pools.map((pool) => ({ value: `pool:${pool.name}`, text: `pool ${pool.name}` })),
  ];
}

/** Whose SSDs work for the subject: of a volume those of its pool. */
function withSsds(subject: string, status: Status): string | null {
  if (!subject.startsWith("volume:")) return subject;
  const pool = status.volumes.find((volume) => `volume:${volume.name}` === subject)?.pool ?? null;
  return pool === null ? null : `pool:${pool}`;
}
