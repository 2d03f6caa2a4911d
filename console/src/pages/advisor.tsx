// What caches of other sizes would do for a volume: its curve, the recommended size, what is hot, and questions of what if.
import { useRef, useState } from "preact/hooks";
import { call, explain } from "../api/client";
import type { Advice, AdviceList, AdviceWindow, AdvisedSize, Volume } from "../api/types";
import { bytes, count, lifetime, moment, percent, plural } from "../format";
import { status } from "../live";
import { go, link, useRoute } from "../router";
import { usePolled, useSettled, useStore } from "../store";
import { Empty, type Figure, Figures, Heading, Notice } from "../ui/basics";
import { Select } from "../ui/select";
import { TextField } from "../ui/text-field";
import { Curve } from "./advisor-curve";
import { Days } from "./advisor-days";
import { WhatIf } from "./advisor-whatif";
import { Gone } from "./gone";
import { readTerabytes } from "./sizes";

const REFRESH_MS = 10_000;
/** What is typed is sent when no more digits come for so long. */
const TYPED_MS = 400;
const ENDURANCE_KEY = "hotset-endurance";

const WINDOWS: { window: AdviceWindow; label: string }[] = [
  { window: "day", label: "1 day" },
  { window: "week", label: "1 week" },
  { window: "all", label: "All" },
];

export function Advisor() {
  const known = useStore(status);
  const route = useRoute();
  const [window, setWindow] = useState<AdviceWindow>("week");
  const [endurance, setEndurance] = useState(localStorage.getItem(ENDURANCE_KEY) ?? "");
  const enduranceBytes = useSettled(readTerabytes(endurance), TYPED_MS);
  const query = { window, ...(enduranceBytes === null ? {} : { endurance_bytes: enduranceBytes }) };
  const advice = usePolled<AdviceList>(
    (signal) => call("get", "/api/v1/advisor", { query, signal }),
    JSON.stringify(query),
    REFRESH_MS,
  );
  // What was known stays until another question is answered, and what is typed below with it.
  const newest = useRef<AdviceList | null>(null);
  newest.current = advice.value ?? newest.current;
  const told = newest.current;
  if (known === null) return null;
  const volumes = told?.volumes ?? [];
  const selected = route.name === "" ? volumes[0] : volumes.find((one) => one.volume === route.name);
  return (
    <>
      <Heading title="Advisor">
        {volumes.length > 0 && (
          <Select
            label="Volume"
            value={selected?.volume ?? ""}
            options={volumes.map((one) => ({ value: one.volume, text: one.volume }))}
            choose={(name) => go(link("advisor", name))}
          />
        )}
      </Heading>
      {advice.error !== null && <Notice tone="bad">{explain(advice.error)}</Notice>}
      <div class="frame-controls">
        <div class="segments" role="radiogroup" aria-label="Time that counts">
          {WINDOWS.map((one) => (
            <label key={one.window}>
              <input
                type="radio"
                name="window"
                checked={one.window === window}
                onChange={() => setWindow(one.window)}
              />
              {one.label}
            </label>
          ))}
        </div>
        {volumes.length > 0 && <Endurance text={endurance} change={setEndurance} />}
      </div>
      {told !== null && volumes.length === 0 && route.name === "" && (
        <section class="panel" aria-label="Advisor">
          <Empty title="Nothing is known yet">
            Each <a href={link("volumes")}>volume</a> is watched while it is open, with a cache or without one. The
            first advice comes with its first thousand reads.
          </Empty>
        </section>
      )}
      {told !== null && selected === undefined && route.name !== "" && (
        <Unknown name={route.name} volume={known.volumes.find((one) => one.name === route.name)} />
      )}
      {selected !== undefined && <Selected key={selected.volume} advice={selected} window={window} />}
      {told !== null && volumes.length > 1 && <Days title="All volumes" days={told.days} />}
    </>
  );
}

/** A volume of which there is no advice. */
function Unknown({ name, volume }: { name: string; volume: Volume | undefined }) {
  if (volume === undefined) return <Gone kind="volume" name={name} />;
  const why =
    volume.state === "offline" ? "it is offline." : "it is watched while it is open, and that takes some seconds.";
  return (
    <Notice tone="quiet">
      Nothing is known of volume <a href={link("volumes", name)}>{name}</a> yet: {why}
    </Notice>
  );
}

/** What the SSDs may be written: the daemon does not know it, so the browser remembers it. */
function Endurance({ text, change }: { text: string; change: (text: string) => void }) {
  return (
    <TextField
      label="Endurance of the SSDs (TB)"
      hint="What all of them may be written, as data sheets say (TBW). How long they last counts this volume's writes alone."
      error={text.trim() !== "" && readTerabytes(text) === null ? "A number of TB, as 600" : null}
      text={text}
      change={(typed) => {
        localStorage.setItem(ENDURANCE_KEY, typed);
        change(typed);
      }}
    />
  );
}

function Selected({ advice, window }: { advice: Advice; window: AdviceWindow }) {
  return (
    <>
      <section class="panel" aria-labelledby="advised-volume">
        <header>
          <h2 id="advised-volume">Volume {advice.volume}</h2>
        </header>
        <Figures figures={figures(advice)} />
        <div class="inside">
          <p>{advice.sentence}</p>
          {advice.curve.length > 0 && <Curve advice={advice} />}
          <p class="muted">{basis(advice)}</p>
        </div>
      </section>
      <WhatIf advice={advice} window={window} />
      <Days title={`Volume ${advice.volume} by day`} days={advice.days} />
    </>
  );
}

function figures(advice: Advice): Figure[] {
  const { present, recommended, shared_with, reads, stream_reads, writes, footprint_bytes } = advice;
  const size = (one: Advice["present"], shared: string) => ({
    value: one === null || one === undefined ? "–" : bytes(one.size_bytes),
    note: one === null || one === undefined ? "" : `${shared}hits ${percent(one.hit_ratio)}${lasts(one)}`,
  });
  const shared = shared_with === 0 ? "" : `shared with ${plural(shared_with, "other volume")}; all of it `;
  const asked = `${count(reads)} reads, ${count(stream_reads)} of them of streams, in parts of blocks`;
  return [
    { term: "Cache now", ...size(present, shared) },
    { term: "Recommended", ...size(recommended, "") },
    { term: "Accesses", value: count(reads + writes), note: asked },
    { term: "Accessed", value: bytes(footprint_bytes), note: "each block once" },
  ];
}

function lasts({ years }: AdvisedSize): string {
  return typeof years === "number" ? `, the SSDs last ${lifetime(years)}` : "";
}

/** Of what the curve is made. */
function basis({ setup, sample, from_unix_seconds, to_unix_seconds, pool }: Advice): string {
  const own = typeof pool === "string" ? `of pool ${pool}` : "of the pool that it had, or of one with default settings";
  const [from, to] = [from_unix_seconds, to_unix_seconds].map((at) => moment(new Date(at * 1000)));
  return `${from} to ${to}, ${percent(sample)} of the blocks watched, as they would do in blocks of ${bytes(setup.block_bytes)} ${own}.`;
}
