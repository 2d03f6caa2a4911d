// What is asked before a cache is put in front of a volume, taken away, or the volume is deleted.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Pool, Volume } from "../api/types";
import { change } from "../change";
import { bytes } from "../format";
import { Action, Notice, Path } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { cacheType, health, ioType } from "../words";
import { RemovalDialog } from "./removal-dialog";

type Props = { volume: Volume; close: () => void };

/** A pool that makes copies anew caches all the while. */
function canJoin(pool: Pool): boolean {
  return pool.state === "online" || pool.state === "rebuilding";
}

export function EnableCache({ volume, pools, close }: Props & { pools: Pool[] }) {
  const usable = pools.filter(canJoin);
  const [chosen, setChosen] = useState(usable.length === 1 ? (usable[0]?.name ?? "") : "");
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    const done = await change(`Pool ${chosen} caches volume ${volume.name}.`, () =>
      call("put", "/api/v1/volumes/{name}/cache", { at: { name: volume.name }, body: { pool: chosen } }),
    );
    setBusy(false);
    if (done) close();
  };
  return (
    <Dialog
      title={`Enable the cache of ${volume.name}`}
      close={close}
      footer={
        <>
          <button type="button" onClick={close}>
            Cancel
          </button>
          <Action
            label="Enable cache"
            kind="primary"
            busy={busy}
            reason={chosen === "" ? "Choose a pool." : null}
            run={run}
          />
        </>
      }
    >
      <p>The volume serves its hosts all the while. What is on the backing device stays as it is.</p>
      <fieldset>
        <legend>Pool</legend>
        <div class="choices">
          {pools.map((pool) => (
            <label key={pool.name} class="choice">
              <input
                type="radio"
                name="pool"
                checked={chosen === pool.name}
                disabled={!canJoin(pool)}
                onChange={() => setChosen(pool.name)}
              />
              <span>
                {pool.name}
                <small>
                  {cacheType(pool.type)}, {ioType(pool.io_type)}, {bytes(pool.capacity_bytes)},{" "}
                  {health(pool.health).text}
                  {canJoin(pool) ? "" : `: cannot be used, it is ${pool.state}`}
                </small>
              </span>
            </label>
          ))}
        </div>
      </fieldset>
    </Dialog>
  );
}

export function DisableCache({ volume, close }: Props) {
  return (
    <RemovalDialog
      title={`Disable the cache of ${volume.name}?`}
      removal={{ kind: "disable-cache", name: volume.name }}
      label="Disable cache"
      labelOfLoss="Disable and lose data"
      dirtyBytes={volume.dirty_bytes}
      offline={isUnknown(volume)}
      close={close}
    >
      <p>{flushFirst(volume)} Hosts are served all the while, at the speed of the backing device afterwards.</p>
    </RemovalDialog>
  );
}

export function DeleteVolume({ volume, close }: Props) {
  return (
    <RemovalDialog
      title={`Delete volume ${volume.name}?`}
      removal={{ kind: "delete-volume", name: volume.name }}
      label="Delete volume"
      labelOfLoss="Delete and lose data"
      dirtyBytes={volume.dirty_bytes}
      offline={isUnknown(volume)}
      close={close}
    >
      <Notice tone="warning">Hosts that are connected to it lose it.</Notice>
      <p>
        {flushFirst(volume)} The backing device <Path text={volume.backing} /> keeps all data.
      </p>
    </RemovalDialog>
  );
}

/** Its cache may hold dirty data that nobody can see now. */
function isUnknown(volume: Volume): boolean {
  return volume.state === "offline" && typeof volume.pool === "string";
}

function flushFirst(volume: Volume): string {
  if (volume.dirty_bytes === 0) return "All of its data is on the backing device.";
  return `${bytes(volume.dirty_bytes)} are only on the SSDs: they are written to the backing device first. That can be cancelled.`;
}
