// The wizard's last step: what the pool will be like, as the daemon plans it.
import type { PoolPlan } from "../api/types";
import { bytes, count, plural } from "../format";
import { Facts, Notice, Path } from "../ui/basics";
import { cacheType, ioType, policy, raid, threshold } from "../words";
import type { Draft } from "./create-state";

export function Summary({ draft, plan }: { draft: Draft; plan: PoolPlan }) {
  const facts: [string, string][] = [
    ["Name", plan.name],
    ["Cache type", `${cacheType(plan.type)} (${raid(plan.type)})`],
    ["I/O type", ioType(plan.io_type)],
    ["Cache block", bytes(plan.block_size_bytes)],
    ["Populate at", `${threshold(plan.populate_on_read, "read")}, ${threshold(plan.populate_on_write, "write")}`],
    ["Eviction", policy(plan.policy)],
    ["Checksums of cached pages", plan.checksums ? "on" : "off"],
    ["Usable capacity", `${bytes(plan.capacity_bytes)}, ${count(plan.slots)} slots`],
    ...(plan.capacity_min_bytes === plan.capacity_bytes
      ? []
      : [["Of it for clean data, however much is dirty", bytes(plan.capacity_min_bytes)] satisfies [string, string]]),
    ["SSDs", plural(draft.ssds.length, "SSD")],
    ["Memory needed, full", bytes(plan.memory_bytes)],
    ["Memory for all pools", `${bytes(plan.memory_in_use_bytes)} of ${bytes(plan.memory_limit_bytes)} in use`],
    ["Volumes", draft.volumes.length === 0 ? "none yet" : draft.volumes.join(", ")],
  ];
  if (plan.type === "read-write") {
    facts.push(["May be dirty at once", bytes(plan.dirty_capacity_bytes)]);
    facts.push(["Of the memory, for dirty data", bytes(plan.dirty_memory_bytes)]);
  }
  return (
    <section class="panel" aria-labelledby="summary">
      <header>
        <h2 id="summary">What it will be like</h2>
      </header>
      <div class="inside">
        {plan.warnings.map((warning) => (
          <Notice key={warning} tone="warning">
            {warning}
          </Notice>
        ))}
        {plan.bytes_to_write_first > 0 && (
          <Notice tone="quiet">
            {bytes(plan.bytes_to_write_first)} of sparse image files are written in full first; that takes a while.
          </Notice>
        )}
        <Facts facts={facts} />
        <h3>SSDs, and what each will hold</h3>
        <ul class="plain">
          {draft.ssds.map((path, index) => (
            <li key={path}>
              <Path text={path} /> <span class="muted">{bytes(plan.ssd_capacity_bytes[index] ?? 0)}</span>
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}
