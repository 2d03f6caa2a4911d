// Questions of what if: a pool of another size, or with other settings.
import { useState } from "preact/hooks";
import { call, explain } from "../api/client";
import type { Advice, AdviceWindow, LiveWhatIf, PolicyKind, PoolKind } from "../api/types";
import { bytes, NOTHING, parseBytes, percent } from "../format";
import { Copyable, Notice } from "../ui/basics";
import { Select } from "../ui/select";
import { Table } from "../ui/table";
import { TextField } from "../ui/text-field";
import { cacheType, POLICIES, policy, threshold } from "../words";
import { BLOCK_OPTIONS } from "./create-state";

const SAME = "as watched";
/** Of what is not watched: said before it is asked for. */
const BY_COMMAND = "Others are tried by a command";

/** The types that can be tried. */
const KINDS: PoolKind[] = ["read", "read-write"];

type Chosen = {
  kind: PoolKind | typeof SAME;
  block: string;
  policy: PolicyKind | typeof SAME;
  read: string;
  write: string;
};

export function WhatIf({ advice, window }: { advice: Advice; window: AdviceWindow }) {
  const { setup, volume } = advice;
  const [sizes, setSizes] = useState("");
  const [chosen, setChosen] = useState<Chosen>({ kind: SAME, block: SAME, policy: SAME, read: SAME, write: SAME });
  const [told, setTold] = useState<LiveWhatIf | null>(null);
  const [error, setError] = useState<string | null>(null);
  const kind = chosen.kind === SAME ? setup.type : chosen.kind;
  const parsed = sizes.split(",").map(parseBytes);
  const wrong = sizes.trim() !== "" && parsed.some((size) => size === null || size === 0);
  const ask = async () => {
    const wanted = parsed.flatMap((size) => (size === null ? [] : [size]));
    if (wrong || wanted.length === 0) return setError("Give one size or more: 10G, 40G");
    try {
      const query = { sizes: wanted.join(","), window, ...settings(chosen) };
      setTold(await call("get", "/api/v1/volumes/{name}/whatif", { at: { name: volume }, query }));
      setError(null);
    } catch (failed) {
      setError(explain(failed));
    }
  };
  return (
    <section class="panel" aria-labelledby="what-if">
      <header>
        <h2 id="what-if">What if</h2>
      </header>
      <form
        class="inside"
        onSubmit={(event) => {
          event.preventDefault();
          ask();
        }}
      >
        <p class="muted">
          Other sizes of the pool that the volume is watched as are known at once. Other settings are not: the answer is
          then a command, which tries them with what hosts ask while it runs.
        </p>
        <div class="row">
          <TextField
            label="Sizes of the cache"
            hint="For example 10G, 40G"
            error={wrong ? "Sizes are 512M, 10G, 1.5T, with commas between them." : null}
            text={sizes}
            change={setSizes}
          />
          <Select
            label="Type"
            hint={BY_COMMAND}
            value={chosen.kind}
            options={[same(cacheType(setup.type)), ...KINDS.map((value) => ({ value, text: cacheType(value) }))]}
            choose={(kind) => setChosen({ ...chosen, kind, write: SAME })}
          />
          <Select
            label="Cache block"
            hint={BY_COMMAND}
            value={chosen.block}
            options={[same(bytes(setup.block_bytes)), ...BLOCK_OPTIONS]}
            choose={(block) => setChosen({ ...chosen, block })}
          />
          <Select
            label="Policy"
            hint={BY_COMMAND}
            value={chosen.policy}
            options={[same(policy(setup.policy)), ...POLICIES.map((value) => ({ value, text: policy(value) }))]}
            choose={(policy) => setChosen({ ...chosen, policy })}
          />
          <Select
            label="Populate on read"
            hint={BY_COMMAND}
            value={chosen.read}
            options={[same(threshold(setup.populate_on_read, "read")), ...thresholds([1, 2, 3, 4], "read")]}
            choose={(read) => setChosen({ ...chosen, read })}
          />
          <Select
            label="Populate on write"
            hint={BY_COMMAND}
            value={chosen.write}
            options={writeThresholds(kind, setup)}
            choose={(write) => setChosen({ ...chosen, write })}
          />
        </div>
        <div>
          <button type="submit" class="primary">
            Ask
          </button>
        </div>
        {error !== null && <Notice tone="bad">{error}</Notice>}
      </form>
      {told !== null && told.window === window && <Told told={told} />}
    </section>
  );
}

function same(now: string): { value: typeof SAME; text: string } {
  return { value: SAME, text: `${SAME}: ${now}` };
}

/** A read-write pool takes each write at some time; what is watched says nothing of a pool of the other type. */
function writeThresholds(kind: PoolKind, setup: Advice["setup"]) {
  const unsaid =
    kind === setup.type ? same(threshold(setup.populate_on_write, "write")) : { value: SAME, text: "by default" };
  return [unsaid, ...thresholds(kind === "read" ? [0, 1, 2, 3, 4] : [1, 2, 3, 4], "write")];
}

function thresholds(values: number[], what: "read" | "write") {
  return values.map((value) => ({ value: String(value), text: threshold(value, what) }));
}

/** What is asked for beside sizes. */
function settings({ kind, block, policy, read, write }: Chosen) {
  return {
    ...(kind === SAME ? {} : { type: kind }),
    ...(block === SAME ? {} : { block_bytes: Number(block) }),
    ...(policy === SAME ? {} : { policy }),
    ...(read === SAME ? {} : { populate_on_read: Number(read) }),
    ...(write === SAME ? {} : { populate_on_write: Number(write) }),
  };
}

function Told({ told: { pools, trials } }: { told: LiveWhatIf }) {
  const reasons = new Set(pools.map((pool) => pool.unanswered).filter((reason) => reason !== ""));
  return (
    <>
      <Table
        caption="What pools would have done"
        small
        rows={pools}
        rowKey={(pool) => String(pool.size_bytes)}
        empty="Nothing was asked."
        columns={[
          { head: "Size", numeric: true, cell: (pool) => bytes(pool.size_bytes) },
          { head: "Hits", numeric: true, cell: (pool) => (pool.answer ? percent(pool.answer.hit_ratio) : "?") },
          { head: "±", numeric: true, cell: (pool) => (pool.answer ? percent(pool.answer.error) : "?") },
          {
            head: "Written to SSDs a day",
            numeric: true,
            cell: (pool) => {
              const written = pool.answer?.ssd_written_bytes_per_day;
              return typeof written === "number" ? bytes(Math.round(written)) : NOTHING;
            },
          },
        ]}
      />
      {[...reasons].map((reason) => (
        <div key={reason} class="inside">
          <Notice tone="quiet">{reason}</Notice>
        </div>
      ))}
      {trials.map((command) => (
        <div key={command} class="inside">
          <Copyable label="To try it with what hosts ask from now on, run on the daemon's machine" text={command} />
        </div>
      ))}
    </>
  );
}
