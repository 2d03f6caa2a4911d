// Converting a pool in place: another cache block or another type, and what it will be like then.
import { useState } from "preact/hooks";
import { call, explain } from "../api/client";
import type { Pool, PoolPlan } from "../api/types";
import { beginBy } from "../change";
import { bytes, plural } from "../format";
import { usePolled } from "../store";
import { AskDialog } from "../ui/ask-dialog";
import { Facts, Notice } from "../ui/basics";
import { Select } from "../ui/select";
import { cacheType } from "../words";
import { AllowSameDisk } from "./create-ssds";
import { BLOCK_OPTIONS } from "./create-state";
import { KindChoice } from "./create-type";

export function ConvertPool({ pool, close }: { pool: Pool; close: () => void }) {
  const [type, setType] = useState(pool.type);
  const [block, setBlock] = useState(pool.block_size_bytes);
  const [allowSameDisk, setAllowSameDisk] = useState(false);
  const same = type === pool.type && block === pool.block_size_bytes;
  const request = {
    at: { name: pool.name },
    body: { type, block_size_bytes: block, allow_same_disk: allowSameDisk },
  };
  const plan = usePolled(
    async (signal) => (same ? null : call("post", "/api/v1/pools/{name}/conversion/plan", { ...request, signal })),
    JSON.stringify(request),
    null,
  );
  return (
    <AskDialog
      title={`Convert pool ${pool.name}`}
      label="Convert"
      reason={whyNot(same, plan)}
      run={() => beginBy(() => call("post", "/api/v1/pools/{name}/conversion", request))}
      close={close}
    >
      <ul>
        <li>{flushed(pool)}</li>
        <li>
          Then it is made anew on the same SSDs, with the same name and settings.{" "}
          {pool.volumes.length === 0
            ? "It caches no volume."
            : `Meanwhile ${plural(pool.volumes.length, "volume is", "volumes are")} served without cache: ${pool.volumes.join(", ")}.`}
        </li>
        <li>It is empty afterwards, and warms up again.</li>
      </ul>
      <KindChoice kind={type} choose={setType} />
      <Select
        label="Cache block"
        hint="Smaller blocks hold more different hot places; larger ones need less memory"
        value={String(block)}
        options={BLOCK_OPTIONS}
        choose={(value) => setBlock(Number(value))}
      />
      {type === "read-write" && pool.type === "read" && (
        <AllowSameDisk allowed={allowSameDisk} allow={setAllowSameDisk} />
      )}
      {plan.error !== null && <Notice tone="bad">{explain(plan.error)}</Notice>}
      {plan.value !== null && <Then pool={pool} plan={plan.value} />}
    </AskDialog>
  );
}

function whyNot(same: boolean, plan: { value: unknown; error: unknown }): string | null {
  if (same) return "Choose another type or another cache block.";
  if (plan.error !== null) return "The pool cannot be converted like this.";
  return plan.value === null ? "Asking the daemon what it would be like …" : null;
}

function flushed(pool: Pool): string {
  const dirty = pool.write_log?.dirty_bytes ?? 0;
  if (dirty === 0) return "Nothing in it is newer than on the backing devices: nothing needs to be flushed first.";
  return `${bytes(dirty)} are only on its SSDs: they are written to the backing devices first. Until that is done it can be cancelled.`;
}

/** As it is, and as it will be. */
function Then({ pool, plan }: { pool: Pool; plan: PoolPlan }) {
  const both = (now: string, then: string) => (now === then ? `${now}, as now` : `${now} now, ${then} then`);
  return (
    <>
      {plan.warnings.map((warning) => (
        <Notice key={warning} tone="warning">
          {warning}
        </Notice>
      ))}
      <Facts
        facts={[
          ["Cache type", both(cacheType(pool.type), cacheType(plan.type))],
          ["Cache block", both(bytes(pool.block_size_bytes), bytes(plan.block_size_bytes))],
          ["Usable capacity then", bytes(plan.capacity_bytes)],
          ["Memory needed then, full", bytes(plan.memory_bytes)],
          ...(plan.type === "read-write"
            ? ([["May be dirty at once then", bytes(plan.dirty_capacity_bytes)]] satisfies [string, string][])
            : []),
        ]}
      />
    </>
  );
}
