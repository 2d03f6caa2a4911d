// The settings of a pool, which change while it serves.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { FetchRate, IoType, Pool } from "../api/types";
import { change } from "../change";
import { bytes } from "../format";
import { AskDialog } from "../ui/ask-dialog";
import { Field } from "../ui/basics";
import { Select } from "../ui/select";
import { TextField } from "../ui/text-field";
import { IO_TYPES, ioType, POLICIES, policy, threshold } from "../words";
import { preset } from "./create-state";
import { readSize, typedSize } from "./sizes";

const RATES: FetchRate[] = ["low", "medium", "high"];

export function PoolSettings({ pool, close }: { pool: Pool; close: () => void }) {
  const [set, setSet] = useState({
    io_type: pool.io_type,
    policy: pool.policy,
    populate_on_read: pool.populate_on_read,
    populate_on_write: pool.populate_on_write,
    fetch_rate: pool.fetch_rate,
    flush_rate: pool.flush_rate,
    dirty_watermark_percent: pool.dirty_watermark_percent,
    dirty_age_max_seconds: pool.dirty_age_max_seconds,
  });
  const [perDay, setPerDay] = useState(typedSize(pool.ssd_writes_per_day_bytes));
  const writes = pool.type === "read-write";
  const bad = {
    watermark: within(set.dirty_watermark_percent, 1, 90) ? null : "1 to 90",
    perDay: readSize(perDay) === null ? "a size as 500 GiB, or off" : null,
    age: within(set.dirty_age_max_seconds, 1, 30 * 86400) ? null : "1 to 2,592,000 (30 days)",
  };
  const chooseIoType = (value: IoType) => {
    const means = preset(pool.type, value);
    const thresholds = means === null ? {} : { populate_on_read: means.read, populate_on_write: means.write };
    setSet({ ...set, io_type: value, ...thresholds });
  };
  const save = () => {
    const { dirty_watermark_percent, dirty_age_max_seconds, flush_rate, ...always } = set;
    const shared = { ...always, ssd_writes_per_day_bytes: readSize(perDay) };
    const body = writes ? { ...shared, dirty_watermark_percent, dirty_age_max_seconds, flush_rate } : shared;
    return change(`The settings of pool ${pool.name} are changed.`, () =>
      call("patch", "/api/v1/pools/{name}", { at: { name: pool.name }, body }),
    );
  };
  const reason = bad.watermark ?? bad.age ?? bad.perDay;
  return (
    <AskDialog
      title={`Settings of pool ${pool.name}`}
      label="Save"
      reason={reason === null ? null : `A number is outside its limits: ${reason}.`}
      run={save}
      close={close}
    >
      <Select
        label="I/O type"
        hint={blockOf(pool, set.io_type)}
        value={set.io_type}
        options={IO_TYPES.map((value) => ({ value, text: ioType(value) }))}
        choose={chooseIoType}
      />
      <div class="row">
        <Select
          label="Eviction"
          value={set.policy}
          options={POLICIES.map((value) => ({ value, text: policy(value) }))}
          choose={(value) => setSet({ ...set, policy: value })}
        />
        <Select
          label="Fetch rate"
          hint="How much filling may slow hosts"
          value={set.fetch_rate}
          options={RATES.map((value) => ({ value, text: value }))}
          choose={(value) => setSet({ ...set, fetch_rate: value })}
        />
      </div>
      <div class="row">
        <Select
          label="Populate on read"
          value={String(set.populate_on_read)}
          options={[1, 2, 3, 4].map((value) => ({ value: String(value), text: threshold(value, "read") }))}
          choose={(value) => setSet({ ...set, populate_on_read: Number(value) })}
        />
        <Select
          label="Populate on write"
          value={String(set.populate_on_write)}
          options={(writes ? [1, 2, 3, 4] : [0, 1, 2, 3, 4]).map((value) => ({
            value: String(value),
            text: threshold(value, "write"),
          }))}
          choose={(value) => setSet({ ...set, populate_on_write: Number(value) })}
        />
      </div>
      <TextField
        label="Written to its SSDs in a day, at most"
        hint="A size as 500 GiB, of all SSDs together, or off; once it is reached nothing more is populated"
        error={bad.perDay}
        text={perDay}
        change={setPerDay}
      />
      {writes && (
        <div class="row">
          <Select
            label="Flush rate"
            hint="How much cleaning may slow hosts"
            value={set.flush_rate}
            options={RATES.map((value) => ({ value, text: value }))}
            choose={(value) => setSet({ ...set, flush_rate: value })}
          />
          <NumberField
            label="Dirty watermark (%)"
            hint="Cleaning goes on beside hosts above it"
            error={bad.watermark}
            value={set.dirty_watermark_percent}
            change={(value) => setSet({ ...set, dirty_watermark_percent: value })}
          />
          <NumberField
            label="Dirty age (s)"
            hint="Older data is cleaned whatever hosts do"
            error={bad.age}
            value={set.dirty_age_max_seconds}
            change={(value) => setSet({ ...set, dirty_age_max_seconds: value })}
          />
        </div>
      )}
    </AskDialog>
  );
}

/** The cache block does not follow the I/O type. */
function blockOf(pool: Pool, value: IoType): string {
  const means = preset(pool.type, value);
  return means === null || means.blockBytes === pool.block_size_bytes
    ? "Sets the thresholds below"
    : `Sets the thresholds below. The cache block stays ${bytes(pool.block_size_bytes)}: Convert makes it ${bytes(means.blockBytes)}.`;
}

type NumberProps = {
  label: string;
  hint: string;
  error: string | null;
  value: number;
  change: (value: number) => void;
};

function NumberField({ label, hint, error, value, change }: NumberProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <input {...ids} type="number" value={value} onInput={(event) => change(event.currentTarget.valueAsNumber)} />
      )}
    </Field>
  );
}

function within(value: number, from: number, to: number): boolean {
  return Number.isInteger(value) && value >= from && value <= to;
}
