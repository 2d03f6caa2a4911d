// The wizard's first question: the pool's name, what it may hold, and what its hosts do.
import type { IoType, Pool, PoolKind } from "../api/types";
import { bytes } from "../format";
import { Select } from "../ui/select";
import { TextField } from "../ui/text-field";
import { cacheType, IO_TYPES, ioType, POLICIES, policy, raid, threshold } from "../words";
import { BLOCK_OPTIONS, type Draft, NAME_RULE, nameError, preset } from "./create-state";

type Props = { draft: Draft; set: (part: Partial<Draft>) => void; pools: Pool[] };

const KINDS: { kind: PoolKind; meaning: string }[] = [
  {
    kind: "read",
    meaning: "Clean data only, on any number of SSDs. Losing an SSD loses no data; writes go to the backing device.",
  },
  { kind: "read-write", meaning: "Writes too, each on two SSDs before it is answered. Needs two SSDs or more." },
];

export function ChooseType({ draft, set, pools }: Props) {
  // Populate-on-write is off in read pools and at least the first write in read-write pools.
  const chooseKind = (kind: PoolKind) =>
    set({ type: kind, populateOnWrite: kind === "read" ? 0 : Math.max(1, draft.populateOnWrite) });
  return (
    <section class="panel" aria-label="Name and type">
      <div class="inside">
        <TextField
          label="Name"
          hint={NAME_RULE}
          error={nameError(draft.name, pools)}
          text={draft.name}
          change={(name) => set({ name })}
        />
        <KindChoice kind={draft.type} choose={chooseKind} />
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
        <div class="row">
          <Select
            label="Eviction"
            hint="What leaves the cache first; it can be changed later."
            value={draft.policy}
            options={POLICIES.map((value) => ({ value, text: policy(value) }))}
            choose={(value) => set({ policy: value })}
          />
          <Select
            label="Checksums of cached pages"
            hint="Off needs less memory, and does not notice a page that rots on an SSD. Dirty data always has them."
            value={draft.checksums ? "on" : "off"}
            options={[
              { value: "on", text: "On" },
              { value: "off", text: "Off" },
            ]}
            choose={(value) => set({ checksums: value === "on" })}
          />
        </div>
      </div>
    </section>
  );
}

/** What a pool may hold, for a new one and for one that is converted. */
export function KindChoice({ kind: chosen, choose }: { kind: PoolKind; choose: (kind: PoolKind) => void }) {
  return (
    <fieldset>
      <legend>Cache type</legend>
      <div class="choices">
        {KINDS.map(({ kind, meaning }) => (
          <label key={kind} class="choice">
            <input type="radio" name="kind" checked={chosen === kind} onChange={() => choose(kind)} />
            <span>
              {cacheType(kind)} ({raid(kind)})<small>{meaning}</small>
            </span>
          </label>
        ))}
      </div>
    </fieldset>
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
        options={BLOCK_OPTIONS}
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
