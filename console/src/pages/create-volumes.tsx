// The wizard's second step: which volumes the pool will cache.
import type { Volume } from "../api/types";
import { bytes } from "../format";
import type { Draft } from "./create-state";

type Props = { draft: Draft; set: (part: Partial<Draft>) => void; volumes: Volume[] };

export function ChooseVolumes({ draft, set, volumes }: Props) {
  const toggle = (name: string, on: boolean) =>
    set({ volumes: on ? [...draft.volumes, name] : draft.volumes.filter((other) => other !== name) });
  return (
    <section class="panel" aria-labelledby="volumes">
      <header>
        <h2 id="volumes">Volumes that {draft.name} will cache</h2>
        <span class="muted">They serve their hosts all the while.</span>
      </header>
      <fieldset class="list" aria-labelledby="volumes">
        {volumes.map((volume) => {
          const reason = whyNot(volume);
          return (
            <label key={volume.name} class="choice">
              <input
                type="checkbox"
                checked={draft.volumes.includes(volume.name)}
                disabled={reason !== null}
                onChange={(event) => toggle(volume.name, event.currentTarget.checked)}
              />
              <span>
                <span>
                  <strong>{volume.name}</strong> {bytes(volume.size_bytes)}
                </span>
                <small class="path">{volume.backing}</small>
                {reason !== null && <small class="error">Cannot be chosen: {reason}</small>}
              </span>
            </label>
          );
        })}
      </fieldset>
      {volumes.length === 0 && (
        <p class="empty">There are no volumes yet. The pool can be put in front of one at any time.</p>
      )}
    </section>
  );
}

function whyNot(volume: Volume): string | null {
  if (typeof volume.pool === "string") return `pool ${volume.pool} caches it; disable that cache first.`;
  if (volume.state !== "online") return `it is ${volume.state}.`;
  return null;
}
