// The settings of a volume, which change while it serves.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Pool, Volume } from "../api/types";
import { change } from "../change";
import { bytes, parseBytes } from "../format";
import { Action, Field, Notice } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { WRITE_MODES, writeMode } from "../words";

type Props = { volume: Volume; pools: Pool[]; close: () => void };

export function VolumeSettings({ volume, pools, close }: Props) {
  const [mode, setMode] = useState(volume.write_mode);
  const [readCache, setReadCache] = useState(volume.read_cache);
  const [readCutoff, setReadCutoff] = useState(spelled(volume.read_cutoff_bytes));
  const [writeCutoff, setWriteCutoff] = useState(spelled(volume.write_cutoff_bytes));
  const [busy, setBusy] = useState(false);
  const pool = pools.find((pool) => pool.name === volume.pool);
  const read = cutoff(readCutoff);
  const write = cutoff(writeCutoff);
  const save = async () => {
    if (read === null || write === null) return;
    setBusy(true);
    const body = { write_mode: mode, read_cache: readCache, read_cutoff_bytes: read, write_cutoff_bytes: write };
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
            reason={read === null || write === null ? "A cut-off is no size." : null}
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
        <CutoffField label="Read streams go past the cache from" text={readCutoff} change={setReadCutoff} />
        <CutoffField label="Write streams go past the cache from" text={writeCutoff} change={setWriteCutoff} />
      </div>
    </Dialog>
  );
}

function CutoffField({ label, text, change }: { label: string; text: string; change: (text: string) => void }) {
  const error = cutoff(text) === null ? "A size as 4 MiB or 512K, or off" : null;
  return (
    <Field label={label} hint="A size as 4 MiB, or off" error={error}>
      {(ids) => <input {...ids} type="text" value={text} onInput={(event) => change(event.currentTarget.value)} />}
    </Field>
  );
}

function spelled(cutoff: number | null | undefined): string {
  return typeof cutoff === "number" ? bytes(cutoff) : "off";
}

/** In bytes; 0 is off; null: not understood. */
function cutoff(text: string): number | null {
  return text.trim() === "off" ? 0 : parseBytes(text);
}
