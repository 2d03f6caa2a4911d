// What caches of other sizes would do for a volume: its curve, the recommended size, what is hot, and questions of what if.
import { useState } from "preact/hooks";
import { call, explain } from "../api/client";
import type { Advice, AdviceList, AdviceWindow } from "../api/types";
import { bytes, count, moment, percent } from "../format";
import { status } from "../live";
import { go, link, useRoute } from "../router";
import { usePolled, useStore } from "../store";
import { Empty, type Figure, Figures, Heading, Notice } from "../ui/basics";
import { Select } from "../ui/select";
import { Curve } from "./advisor-curve";
import { Days } from "./advisor-days";
import { WhatIf } from "./advisor-whatif";
import { Gone } from "./gone";

const REFRESH_MS = 10_000;

const WINDOWS: { window: AdviceWindow; label: string }[] = [
  { window: "day", label: "1 day" },
  { window: "week", label: "1 week" },
  { window: "all", label: "All" },
];

export function Advisor() {
  const known = useStore(status);
  const route = useRoute();
  const [window, setWindow] = useState<AdviceWindow>("week");
  const advice = usePolled<AdviceList>(
    (signal) => call("get", "/api/v1/advisor", { query: { window }, signal }),
    window,
    REFRESH_MS,
  );
  if (known === null) return null;
  const volumes = advice.value?.volumes ?? [];
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
      </div>
      {advice.value !== null && volumes.length === 0 && (
        <section class="panel" aria-label="Advisor">
          <Empty title="Nothing is known yet">
            Each <a href={link("volumes")}>volume</a> is watched while it is open, with a cache or without one. The
            first advice comes with its first thousand accesses.
          </Empty>
        </section>
      )}
      {advice.value !== null && selected === undefined && route.name !== "" && <Gone kind="volume" name={route.name} />}
      {selected !== undefined && <Selected key={selected.volume} advice={selected} window={window} />}
      {advice.value !== null && volumes.length > 1 && <Days title="All volumes" days={advice.value.days} />}
    </>
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

function figures({ present, recommended, reads, writes, footprint_bytes }: Advice): Figure[] {
  const size = (one: Advice["present"]) => ({
    value: one === null || one === undefined ? "–" : bytes(one.size_bytes),
    note: one === null || one === undefined ? "" : `hits ${percent(one.hit_ratio)}`,
  });
  return [
    { term: "Cache now", ...size(present) },
    { term: "Recommended", ...size(recommended) },
    { term: "Accesses", value: count(reads + writes), note: `${count(reads)} reads, in parts of blocks` },
    { term: "Accessed", value: bytes(footprint_bytes), note: "each block once" },
  ];
}

/** Of what the curve is made. */
function basis({ setup, sample, from_unix_seconds, to_unix_seconds, pool }: Advice): string {
  const own = typeof pool === "string" ? `of pool ${pool}` : "of a pool with default settings, for it has none";
  const [from, to] = [from_unix_seconds, to_unix_seconds].map((at) => moment(new Date(at * 1000)));
  return `${from} to ${to}, ${percent(sample)} of the blocks watched, as they would do in blocks of ${bytes(setup.block_bytes)} ${own}.`;
}
