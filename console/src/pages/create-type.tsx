// The wizard's first question: the pool's name, what it may hold, and what its hosts do.
import type { IoType, Pool, PoolKind } from "../api/types";
import { bytes } from "../format";
import { Field } from "../ui/basics";
import { Select } from "../ui/select";
import { cacheType, ioType, POLICIES, policy, raid, threshold } from "../words";
import { type Draft, NAME_RULE, nameError, preset } from "./create-state";

type Props = { draft: Draft; set: (part: Partial<Draft>) => void; pools: Pool[] };

const KINDS: { kind: PoolKind; meaning: string }[] = [
  {
    kind: "read",
    meaning: "Clean data only, on any number of SSDs. Losing an SSD loses no data; writes go to the backing device.",
  },
  { kind: "read-write", meaning: "Writes too, each on two SSDs before it is answered. Needs two SSDs or more." },
];
const IO_TYPES: IoType[] = ["database", "file-system", "web-service", "custom"];
const BLOCKS = [64, 128, 256, 512, 1024, 2048, 4096].map((kib) => kib * 1024);

export function ChooseType({ draft, set, pools }: Props) {
  // Populate-on-write is off in read pools and at least the first write in read-write pools.
  const chooseKind = (kind: PoolKind) =>
    set({ type: kind, populateOnWrite: kind === "read" ? 0 : Math.max(1, draft.populateOnWrite) });
  return (
    <section class="panel" aria-label="Name and type">
      <div class="inside">
        <Field label="Name" hint={NAME_RULE} error={nameError(draft.name, pools)}>
          {(ids) => (
            <input
              {...ids}
              type="text"
              autocomplete="off"
              spellcheck={false}
              value={draft.name}
              onInput={(event) => set({ name: event.currentTarget.value })}
            />
          )}
        </Field>
        <fieldset>
          <legend>Cache type</legend>
          <div class="choices">
            {KINDS.map(({ kind, meaning }) => (
              <label key={kind} class="choice">
                <input type="radio" name="kind" checked={draft.type === kind} onChange={() => chooseKind(kind)} />
                <span>
                  {cacheType(kind)} ({raid(kind)})<small>{meaning}</small>
                </span>
              </label>
            ))}
          </div>
        </fieldset>
        <fieldset>
          <legend>I/O type</legend>
          <div class="choices">
            {IO_TYPES.map((value) => (
              <label key={value} class="choice">
                <input
                  type="radio"
                  name="io-type"
                  checked={draft.ioType === value}
                  onChange={() => set({ ioType: value })}
                />
                <span>
                  {ioType(value)}
                  <small>{meaning(draft.type, value)}</small>
                </span>
              </label>
            ))}
          </div>
        </fieldset>
        {draft.ioType === "custom" && <Custom draft={draft} set={set} />}
        <Select
          label="Eviction"
          hint="What leaves the cache first; it can be changed later."
          value={draft.policy}
          options={POLICIES.map((value) => ({ value, text: policy(value) }))}
          choose={(value) => set({ policy: value })}
        />
      </div>
    </section>
  );
}

function meaning(kind: PoolKind, value: IoType): string {
  const means = preset(kind, value);
  if (means === null) return "Your own cache block and thresholds.";
  const writes = means.write === 0 ? ", never by writes" : ` or the ${threshold(means.write, "write")}`;
  return `Blocks of ${bytes(means.blockBytes)}, cached at the ${threshold(means.read, "read")}${writes}.`;
}

function Custom({ draft, set }: Omit<Props, "pools">) {
  const writes = draft.type === "read-write" ? [1, 2, 3, 4] : [0, 1, 2, 3, 4];
  return (
    <div class="row">
      <Select
        label="Cache block"
        value={String(draft.blockBytes)}
        options={BLOCKS.map((value) => ({ value: String(value), text: bytes(value) }))}
        choose={(value) => set({ blockBytes: Number(value) })}
      />
      <Select
        label="Populate on read"
        value={String(draft.populateOnRead)}
        options={[1, 2, 3, 4].map((value) => ({ value: String(value), text: threshold(value, "read") }))}
        choose={(value) => set({ populateOnRead: Number(value) })}
      />
      <Select
        label="Populate on write"
        value={String(draft.populateOnWrite)}
        options={writes.map((value) => ({ value: String(value), text: threshold(value, "write") }))}
        choose={(value) => set({ populateOnWrite: Number(value) })}
      />
    </div>
  );
}
