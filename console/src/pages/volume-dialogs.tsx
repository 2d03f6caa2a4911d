// What is asked before something is done with a volume: its cache, its name, its size, its end.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Pool, Volume } from "../api/types";
import { change } from "../change";
import { bytes } from "../format";
import { go, link } from "../router";
import { AskDialog } from "../ui/ask-dialog";
import { Notice, Path } from "../ui/basics";
import { TextField } from "../ui/text-field";
import { cacheType, health, ioType, usedBy } from "../words";
import { RemovalDialog } from "./removal-dialog";
import { NAME_RULE } from "./volume-create";

type Props = { volume: Volume; close: () => void };

/** A pool that makes copies anew caches all the while. */
function canJoin(pool: Pool): boolean {
  return pool.state === "online" || pool.state === "rebuilding";
}

export function EnableCache({ volume, pools, close }: Props & { pools: Pool[] }) {
  const usable = pools.filter(canJoin);
  const [chosen, setChosen] = useState(usable.length === 1 ? (usable[0]?.name ?? "") : "");
  const run = () =>
    change(`Pool ${chosen} caches volume ${volume.name}.`, () =>
      call("put", "/api/v1/volumes/{name}/cache", { at: { name: volume.name }, body: { pool: chosen } }),
    );
  return (
    <AskDialog
      title={`Enable the cache of ${volume.name}`}
      label="Enable cache"
      reason={chosen === "" ? "Choose a pool." : null}
      run={run}
      close={close}
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
    </AskDialog>
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

export function RenameVolume({ volume, volumes, close }: Props & { volumes: Volume[] }) {
  const [name, setName] = useState(volume.name);
  const taken = name !== volume.name && volumes.some((other) => other.name === name);
  const run = async () => {
    const done = await change(`Volume ${volume.name} is called ${name} now.`, () =>
      call("put", "/api/v1/volumes/{name}/name", { at: { name: volume.name }, body: { name } }),
    );
    if (done) go(link("volumes", name));
    return done;
  };
  return (
    <AskDialog
      title={`Rename volume ${volume.name}`}
      label="Rename"
      reason={whyNotRename(volume.name, name, taken)}
      run={run}
      close={close}
    >
      <p>
        Hosts that are connected go on. From their next connection on they ask for the new name: change it in their
        configuration, too.
      </p>
      <TextField
        label="New name"
        hint={NAME_RULE}
        error={taken ? "There is a volume of this name." : null}
        autofocus
        text={name}
        change={setName}
      />
    </AskDialog>
  );
}

function whyNotRename(before: string, name: string, taken: boolean): string | null {
  if (name === "") return "Give it a name.";
  if (name === before) return "That is its name already.";
  return taken ? "There is a volume of this name." : null;
}

export function GrowVolume({ volume, close }: Props) {
  const run = () =>
    change(
      (answer) =>
        answer.volume.size_bytes > volume.size_bytes
          ? `Volume ${volume.name} has grown to ${bytes(answer.volume.size_bytes)}.`
          : `Volume ${volume.name} has ${bytes(answer.volume.size_bytes)}, all that its backing device has.`,
      () => call("post", "/api/v1/volumes/{name}/growth", { at: { name: volume.name } }),
    );
  return (
    <AskDialog title={`Grow volume ${volume.name}`} label="Grow" reason={null} run={run} close={close}>
      <p>
        Make its backing device <Path text={volume.backing} /> larger first. The volume, of {bytes(volume.size_bytes)}{" "}
        now, then takes in what was added, while it serves; the daemon looks for that every few seconds, too.
      </p>
      <p>Hosts that are connected keep their size until they connect again.</p>
    </AskDialog>
  );
}

export function ClearVolume({ volume, close }: Props) {
  const run = () =>
    change(
      (answer) => {
        if (!answer.changed) return `The backing device of ${volume.name} takes what it is given: nothing to clear.`;
        return answer.doubtful
          ? `The backing device of ${volume.name} is open again. What hosts wrote past the cache may be lost: their next flush fails.`
          : `The backing device of ${volume.name} is open again, and nothing is lost.`;
      },
      () => call("post", "/api/v1/volumes/{name}/clear", { at: { name: volume.name } }),
    );
  return (
    <AskDialog title={`Clear volume ${volume.name}`} label="Clear" reason={null} run={run} close={close}>
      <p>
        Look at its backing device <Path text={volume.backing} /> first. It is then closed and opened again, compared
        with what it was, and what is dirty is written to it again. Hosts stay connected.
      </p>
      <p>
        What hosts wrote past the cache and had not flushed when a flush failed may be lost: the next flush of each of
        them fails, so that they know.
      </p>
    </AskDialog>
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
      hosts={volume.clients.length === 0 ? "" : usedBy(volume)}
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
