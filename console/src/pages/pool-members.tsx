// SSDs that join and leave a pool while it serves.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Pool } from "../api/types";
import { begin, change } from "../change";
import { bytes, plural } from "../format";
import { AskDialog } from "../ui/ask-dialog";
import { Notice, Path } from "../ui/basics";
import { ChooseSsds } from "./create-ssds";
import { type Chosen, needsForce } from "./create-state";
import { useDisks } from "./disk-choice";

type Props = { pool: Pool; close: () => void };
type Place = "ssds" | "spares";

/** Takes SSDs into the pool, or beside it as spares. */
export function AddSsds({ pool, place, close }: Props & { place: Place }) {
  const [chosen, setChosen] = useState<Chosen>({ type: pool.type, ssds: [], force: false, allowSameDisk: false });
  const [directory, setDirectory] = useState("");
  const found = useDisks(directory);
  const disks = found.value ?? [];
  const reason = whyNot(chosen.ssds, needsForce(chosen, disks).length > 0 && !chosen.force);
  const title = place === "ssds" ? `Add SSDs to pool ${pool.name}` : `Add spares to pool ${pool.name}`;
  const run = () => {
    const request = {
      at: { name: pool.name },
      body: { ssds: chosen.ssds, force: chosen.force, allow_same_disk: chosen.allowSameDisk },
    };
    const many = plural(chosen.ssds.length, place === "ssds" ? "SSD" : "spare");
    return change(`Pool ${pool.name} has ${many} more.`, () =>
      place === "ssds"
        ? call("post", "/api/v1/pools/{name}/ssds", request)
        : call("post", "/api/v1/pools/{name}/spares", request),
    );
  };
  return (
    <AskDialog
      title={title}
      label={place === "ssds" ? "Add SSDs" : "Add spares"}
      reason={reason}
      wide
      run={run}
      close={close}
    >
      <p>
        {place === "ssds"
          ? "The pool serves all the while; the new SSDs take their share at once. What is on them now is lost."
          : "A spare takes over by itself when an SSD of the pool fails. What is on it now is lost."}
      </p>
      <ChooseSsds
        draft={chosen}
        set={(part) => setChosen({ ...chosen, ...part })}
        disks={disks}
        error={found.error}
        directory={directory}
        setDirectory={setDirectory}
      />
    </AskDialog>
  );
}

function whyNot(ssds: string[], mustForce: boolean): string | null {
  if (ssds.length === 0) return "Choose at least one SSD.";
  return mustForce ? "Confirm that what is on them is lost." : null;
}

/** Lets SSDs of the pool go: what is dirty on them is copied to the others first. */
export function RemoveSsds({ pool, close }: Props) {
  const [chosen, setChosen] = useState<string[]>([]);
  const toggle = (uuid: string, on: boolean) =>
    setChosen(on ? [...chosen, uuid] : chosen.filter((other) => other !== uuid));
  const run = async () => {
    await begin({ kind: "remove-ssds", name: pool.name, ssds: chosen, force: false, lose_data: false });
    return true;
  };
  return (
    <AskDialog
      title={`Remove SSDs from pool ${pool.name}`}
      label="Remove SSDs"
      kind="danger"
      reason={chosen.length === 0 ? "Choose at least one SSD." : null}
      run={run}
      close={close}
    >
      <p>What is dirty on them is copied to the others first; what is clean leaves the cache. That can be cancelled.</p>
      <fieldset>
        <legend>SSDs</legend>
        {pool.ssds.map((ssd) => (
          <label key={ssd.uuid} class="choice">
            <input
              type="checkbox"
              checked={chosen.includes(ssd.uuid)}
              onChange={(event) => toggle(ssd.uuid, event.currentTarget.checked)}
            />
            <span>
              <Path text={ssd.path} />
              <small>
                {bytes(ssd.size_bytes)}
                {ssd.reason === "" ? "" : `: ${ssd.reason}`}
              </small>
            </span>
          </label>
        ))}
      </fieldset>
      {chosen.length === pool.ssds.length && (
        <Notice tone="warning">These are all of its SSDs: delete the pool instead.</Notice>
      )}
    </AskDialog>
  );
}
