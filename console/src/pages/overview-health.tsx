// Is all well, in one sentence; and below it what needs action, where, and how.
import type { Status } from "../api/types";
import { moment, plural } from "../format";
import { link } from "../router";
import { Mark, ToDo } from "../ui/basics";
import { health, type Tone } from "../words";

export function HealthPanel({ status }: { status: Status }) {
  const tone: Tone = status.health === "good" && status.reasons.length > 0 ? "warning" : health(status.health).tone;
  return (
    <section class={`notice health ${tone}`} aria-label="Health">
      <Mark tone={tone} />
      <div>
        <div aria-live="polite">
          <h2>{sentence(status)}</h2>
        </div>
        {status.reasons.length > 0 && (
          <ul>
            {status.reasons
              .filter((reason) => !isOfPool(reason, status))
              .map((reason) => (
                <li key={reason}>
                  <Reason text={reason} status={status} />
                </li>
              ))}
          </ul>
        )}
      </div>
    </section>
  );
}

/** What a volume suffers from is said once, of its pool. */
function isOfPool(reason: string, status: Status): boolean {
  return status.volumes.some((volume) => {
    const pool = status.pools.find((pool) => pool.name === volume.pool);
    return pool !== undefined && pool.reason !== "" && reason === `volume ${volume.name}: ${pool.reason}`;
  });
}

/** A reason begins with whom it concerns, which is a link to where something can be done about it. */
function Reason({ text, status }: { text: string; status: Status }) {
  const own = status.conditions.find((one) => one.subject.kind === "daemon" && text === `${one.reason}; ${one.action}`);
  if (own !== undefined) {
    return (
      <>
        {own.reason} (since {moment(new Date(own.since_unix_ms))})
        <ToDo action={own.action} />
      </>
    );
  }
  const [, kind, name, rest] = /^(pool|volume) ([^:]+): (.*)$/s.exec(text) ?? [];
  if (kind === undefined || name === undefined || rest === undefined) return <>{text}</>;
  const of = (kind === "pool" ? status.pools : status.volumes).find((one) => one.name === name);
  return (
    <>
      <a href={link(kind === "pool" ? "pools" : "volumes", name)}>
        {kind} {name}
      </a>
      : {rest}
      {of?.reason === rest && <ToDo action={of.action} />}
    </>
  );
}

function sentence(status: Status): string {
  const pools = plural(status.pools.length, "cache pool");
  const volumes = plural(status.volumes.length, "volume");
  switch (status.health) {
    case "good":
      if (status.pools.length + status.volumes.length === 0) return "Ready: there is no cache pool and no volume yet.";
      if (status.reasons.length > 0) return `Good: ${pools} and ${volumes} work. Worth knowing:`;
      return `Good: ${pools} and ${volumes} work as they should.`;
    case "degraded":
      return "Degraded: hosts are served, and something needs you:";
    case "failed":
      return "Failed: something does not work, and needs you now:";
  }
}
