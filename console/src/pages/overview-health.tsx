// Is all well, in one sentence; and below it what needs action, where, and how.
import type { Status } from "../api/types";
import { moment, plural } from "../format";
import { link } from "../router";
import { Mark, ToDo } from "../ui/basics";
import { health, type Tone } from "../words";

/** One thing to know or to do. */
interface Item {
  /** Whom it concerns; null: the daemon. */
  of: { kind: "pool" | "volume"; name: string } | null;
  text: string;
  action: string | undefined;
}

export function HealthPanel({ status }: { status: Status }) {
  const items = [...ofDaemon(status), ...ofPools(status), ...ofVolumes(status)];
  const tone: Tone = status.health === "good" && items.length > 0 ? "warning" : health(status.health).tone;
  return (
    <section class={`notice health ${tone}`} aria-label="Health">
      <Mark tone={tone} />
      <div>
        <div aria-live="polite">
          <h2>{sentence(status, items.length)}</h2>
        </div>
        {items.length > 0 && (
          <ul>
            {items.map((item) => (
              <li key={`${item.of?.kind} ${item.of?.name}: ${item.text}`}>
                <Whom of={item.of} />
                {item.text}
                <ToDo action={item.action} />
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

/** A link to where something can be done about it. */
function Whom({ of }: Pick<Item, "of">) {
  if (of === null) return null;
  return (
    <>
      <a href={link(of.kind === "pool" ? "pools" : "volumes", of.name)}>
        {of.kind} {of.name}
      </a>
      :{" "}
    </>
  );
}

function ofDaemon(status: Status): Item[] {
  return status.conditions
    .filter((one) => one.subject.kind === "daemon")
    .map((one) => ({
      of: null,
      text: `${one.reason} (since ${moment(new Date(one.since_unix_ms))})`,
      action: one.action,
    }));
}

function ofPools(status: Status): Item[] {
  const reasons = status.pools
    .filter((pool) => pool.reason !== "")
    .map((pool): Item => ({ of: { kind: "pool", name: pool.name }, text: pool.reason, action: pool.action }));
  const warnings = status.pools.flatMap((pool) =>
    pool.warnings.map((text): Item => ({ of: { kind: "pool", name: pool.name }, text, action: "" })),
  );
  return [...reasons, ...warnings];
}

/** What a volume that is good itself suffers from is said once, of its pool. */
function ofVolumes(status: Status): Item[] {
  const suffers = (volume: Status["volumes"][number]) =>
    volume.health === "good" && status.pools.some((pool) => pool.name === volume.pool && pool.reason !== "");
  return status.volumes
    .filter((volume) => volume.reason !== "" && !suffers(volume))
    .map((volume) => ({
      of: { kind: "volume", name: volume.name },
      text: volume.reason,
      action: volume.action,
    }));
}

function sentence(status: Status, items: number): string {
  const pools = plural(status.pools.length, "cache pool");
  const volumes = plural(status.volumes.length, "volume");
  switch (status.health) {
    case "good":
      if (status.pools.length + status.volumes.length === 0) return "Ready: there is no cache pool and no volume yet.";
      if (items > 0) return `Good: ${pools} and ${volumes} work. Worth knowing:`;
      return `Good: ${pools} and ${volumes} work as they should.`;
    case "degraded":
      return "Degraded: hosts are served, and something needs you:";
    case "failed":
      return "Failed: something does not work, and needs you now:";
  }
}
