// The settings of a volume, which change while it serves.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Pool, Share, Volume } from "../api/types";
import { change } from "../change";
import { Action, Notice } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { WRITE_MODES, writeMode } from "../words";
import { readShare, readSize, SizeField, spelledShare, spelledSize } from "./size-field";

type Props = { volume: Volume; pools: Pool[]; close: () => void };

export function VolumeSettings({ volume, pools, close }: Props) {
  const [mode, setMode] = useState(volume.write_mode);
  const [readCache, setReadCache] = useState(volume.read_cache);
  const [readCutoff, setReadCutoff] = useState(spelledSize(volume.read_cutoff_bytes));
  const [writeCutoff, setWriteCutoff] = useState(spelledSize(volume.write_cutoff_bytes));
  const [dirtyCap, setDirtyCap] = useState(spelledShare(volume.dirty_cap));
  const [cacheMin, setCacheMin] = useState(spelledShare(volume.cache_min));
  const [cacheMax, setCacheMax] = useState(spelledShare(volume.cache_max));
  const [busy, setBusy] = useState(false);
  const pool = pools.find((pool) => pool.name === volume.pool);
  const wrong = [readCutoff, writeCutoff].map(sizeError).concat([dirtyCap, cacheMin, cacheMax].map(shareError));
  const reason = wrong.find((error) => error !== null) ?? null;
  const save = async () => {
    setBusy(true);
    const body = {
      write_mode: mode,
      read_cache: readCache,
      read_cutoff_bytes: readSize(readCutoff),
      write_cutoff_bytes: readSize(writeCutoff),
      // Only where a pool caches it they mean something, and only what was changed is checked against the others.
      ...changed("dirty_cap", dirtyCap, volume.dirty_cap),
      ...changed("cache_min", cacheMin, volume.cache_min),
      ...changed("cache_max", cacheMax, volume.cache_max),
    };
    const saved = await change(`The settings of volume ${volume.name} are changed.`, () =>
      call("patch", "/api/v1/volumes/{name}", { at: { name: volume.name }, body }),
    );
    setBusy(false);
    if (saved) close();
  };
  return (
    <Dialog
      title={`Settings of volume ${volume.name}`}
      close={close}
      footer={
        <>
          <button type="button" onClick={close}>
            Cancel
          </button>
          <Action
            label="Save"
            kind="primary"
            busy={busy}
            reason={reason === null ? null : `A field is not understood: ${reason}.`}
            run={save}
          />
        </>
      }
    >
      <fieldset>
        <legend>Write mode</legend>
        {pool?.type !== "read-write" && (
          <Notice tone="quiet">
            {pool === undefined ? "Without a cache" : `Pool ${pool.name} caches clean data only, so`} every write goes
            to the backing device before it is answered. The mode has an effect in a read-write pool.
          </Notice>
        )}
        <div class="choices">
          {WRITE_MODES.map((value) => (
            <label key={value} class="choice">
              <input type="radio" name="mode" checked={mode === value} onChange={() => setMode(value)} />
              <span>
                {writeMode(value).text}
                <small>{writeMode(value).meaning}</small>
              </span>
            </label>
          ))}
        </div>
      </fieldset>
      <label class="choice">
        <input type="checkbox" checked={readCache} onChange={(event) => setReadCache(event.currentTarget.checked)} />
        <span>
          Cache reads
          <small>Reads populate the cache and are answered from it.</small>
        </span>
      </label>
      <div class="row">
        <SizeField
          label="Read streams go past the cache from"
          hint="A size as 4 MiB, or off"
          error={sizeError(readCutoff)}
          text={readCutoff}
          change={setReadCutoff}
        />
        <SizeField
          label="Write streams go past the cache from"
          hint="A size as 4 MiB, or off"
          error={sizeError(writeCutoff)}
          text={writeCutoff}
          change={setWriteCutoff}
        />
      </div>
      {pool !== undefined && (
        <div class="row">
          <SizeField
            label="Keeps at least"
            hint="Of the cache: a size, a share as 25 %, or off"
            error={shareError(cacheMin)}
            text={cacheMin}
            change={setCacheMin}
          />
          <SizeField
            label="Takes at most"
            hint="Of the cache: a size, a share, or off"
            error={shareError(cacheMax)}
            text={cacheMax}
            change={setCacheMax}
          />
          {pool.type === "read-write" && (
            <SizeField
              label="Dirty at most"
              hint="Of what may be dirty: a size, a share, or off"
              error={shareError(dirtyCap)}
              text={dirtyCap}
              change={setDirtyCap}
            />
          )}
        </div>
      )}
    </Dialog>
  );
}

/** A share for the request, if it is not what it was. */
function changed(key: "dirty_cap" | "cache_min" | "cache_max", text: string, before: Share | null | undefined) {
  return text.trim() === spelledShare(before) ? {} : { [key]: readShare(text) };
}

function sizeError(text: string): string | null {
  return readSize(text) === null ? "A size as 4 MiB or 512K, or off" : null;
}

function shareError(text: string): string | null {
  return readShare(text) === null ? "A size as 10 GiB, a share as 25 %, or off" : null;
}
