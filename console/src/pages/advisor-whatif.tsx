// Questions of what if: a pool of another size, or with other settings.
import { useState } from "preact/hooks";
import { call, explain } from "../api/client";
import type { Advice, AdviceWindow, LiveWhatIf, PolicyKind } from "../api/types";
import { bytes, NOTHING, parseBytes, percent } from "../format";
import { Notice } from "../ui/basics";
import { Select } from "../ui/select";
import { Table } from "../ui/table";
import { TextField } from "../ui/text-field";

const SAME = "as it is";
const POLICIES: { value: PolicyKind | typeof SAME; text: string }[] = [
  { value: SAME, text: "as it is" },
  { value: "s3-fifo", text: "S3-FIFO" },
  { value: "2q", text: "2Q" },
  { value: "lru", text: "LRU" },
  { value: "fifo", text: "FIFO" },
  { value: "auto", text: "Automatic" },
];
const THRESHOLDS: { value: string; text: string }[] = [
  { value: SAME, text: "as it is" },
  ...["1", "2", "3", "4"].map((value) => ({ value, text: value })),
];

export function WhatIf({ advice, window }: { advice: Advice; window: AdviceWindow }) {
  const [sizes, setSizes] = useState("");
  const [policy, setPolicy] = useState<PolicyKind | typeof SAME>(SAME);
  const [threshold, setThreshold] = useState(SAME);
  const [told, setTold] = useState<LiveWhatIf | null>(null);
  const [error, setError] = useState<string | null>(null);
  const parsed = sizes.split(",").map(parseBytes);
  const wrong = sizes.trim() !== "" && parsed.some((size) => size === null || size === 0);
  const ask = async () => {
    const wanted = parsed.flatMap((size) => (size === null ? [] : [size]));
    if (wrong || wanted.length === 0) return setError("Give one size or more: 10G, 40G");
    try {
      setTold(
        await call("get", "/api/v1/volumes/{name}/whatif", {
          at: { name: advice.volume },
          query: {
            sizes: wanted.join(","),
            window,
            ...(policy === SAME ? {} : { policy }),
            ...(threshold === SAME ? {} : { populate_on_read: Number(threshold) }),
          },
        }),
      );
      setError(null);
    } catch (failed) {
      setError(explain(failed));
    }
  };
  const unanswered = told?.pools.find((pool) => pool.unanswered !== "")?.unanswered ?? "";
  return (
    <section class="panel" aria-labelledby="what-if">
      <header>
        <h2 id="what-if">What if</h2>
      </header>
      <form
        class="inside what-if"
        onSubmit={(event) => {
          event.preventDefault();
          ask();
        }}
      >
        <TextField
          label="Sizes of the cache"
          hint="For example 10G, 40G"
          error={wrong ? "Sizes are 512M, 10G, 1.5T, with commas between them." : null}
          text={sizes}
          change={setSizes}
        />
        <Select label="Policy" value={policy} options={POLICIES} choose={setPolicy} />
        <Select label="Populate on read" value={threshold} options={THRESHOLDS} choose={setThreshold} />
        <button type="submit">Ask</button>
      </form>
      {error !== null && <Notice tone="bad">{error}</Notice>}
      {told !== null && (
        <Table
          caption="What pools would have done"
          small
          rows={told.pools}
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
      )}
      {unanswered !== "" && <Notice tone="quiet">{unanswered}</Notice>}
    </section>
  );
}
