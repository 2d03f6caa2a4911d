// The settings of a volume, which change while it serves.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Pool, Volume } from "../api/types";
import { change } from "../change";
import { AskDialog } from "../ui/ask-dialog";
import { Notice } from "../ui/basics";
import { TextField } from "../ui/text-field";
import { WRITE_MODES, writeMode } from "../words";
import { readShare, readSize, typedShare, typedSize } from "./sizes";

type Props = { volume: Volume; pools: Pool[]; close: () => void };

export function VolumeSettings({ volume, pools, close }: Props) {
  const [mode, setMode] = useState(volume.write_mode);
  const [readCache, setReadCache] = useState(volume.read_cache);
  const [memoryCache, setMemoryCache] = useState(volume.memory_cache);
  const isLocal = Boolean(volume.local);
  const [local, setLocal] = useState(isLocal);
  const [readAhead, setReadAhead] = useState(volume.read_ahead);
  const readCutoff = useTyped(typedSize(volume.read_cutoff_bytes), sizeError);
  const writeCutoff = useTyped(typedSize(volume.write_cutoff_bytes), sizeError);
  const dirtyCap = useTyped(typedShare(volume.dirty_cap), shareError);
  const cacheMin = useTyped(typedShare(volume.cache_min), shareError);
  const cacheMax = useTyped(typedShare(volume.cache_max), shareError);
  const pool = pools.find((pool) => pool.name === volume.pool);
  const typed = [readCutoff, writeCutoff, dirtyCap, cacheMin, cacheMax];
  const reason = typed.find(({ error }) => error !== null)?.error ?? null;
  const save = () => {
    const body = {
      write_mode: mode,
      read_cache: readCache,
      memory_cache: memoryCache,
      read_ahead: readAhead,
      read_cutoff_bytes: readSize(readCutoff.text),
      write_cutoff_bytes: readSize(writeCutoff.text),
      // Only where a pool caches it they mean something, and only what was changed is checked against the others.
      ...(local === isLocal ? {} : { local }),
      ...changed("dirty_cap", dirtyCap),
      ...changed("cache_min", cacheMin),
      ...changed("cache_max", cacheMax),
    };
    return change(`The settings of volume ${volume.name} are changed.`, () =>
      call("patch", "/api/v1/volumes/{name}", { at: { name: volume.name }, body }),
    );
  };
  return (
    <AskDialog
      title={`Settings of volume ${volume.name}`}
      label="Save"
      reason={reason === null ? null : `A field is not understood: ${reason}.`}
      run={save}
      close={close}
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
      <label class="choice">
        <input
          type="checkbox"
          checked={memoryCache}
          onChange={(event) => setMemoryCache(event.currentTarget.checked)}
        />
        <span>
          Keep pages in memory
          <small>What is read again is answered from the daemon's memory, before SSDs and backing device.</small>
        </span>
      </label>
      <label class="choice">
        <input type="checkbox" checked={local} onChange={(event) => setLocal(event.currentTarget.checked)} />
        <span>
          Block device of this machine
          <small>
            It is <code>/dev/hotset/{volume.name}</code> on the daemon's machine, and stays while the daemon is
            restarted.
          </small>
        </span>
      </label>
      <label class="choice">
        <input type="checkbox" checked={readAhead} onChange={(event) => setReadAhead(event.currentTarget.checked)} />
        <span>
          Read streams ahead
          <small>What goes past the cache in sequence is read into memory before it is asked for.</small>
        </span>
      </label>
      <div class="row">
        <TypedField label="Read streams go past the cache from" hint="A size as 4 MiB, or off" typed={readCutoff} />
        <TypedField label="Write streams go past the cache from" hint="A size as 4 MiB, or off" typed={writeCutoff} />
      </div>
      {pool !== undefined && (
        <div class="row">
          <TypedField label="Keeps at least" hint="Of the cache: a size, a share as 25 %, or off" typed={cacheMin} />
          <TypedField label="Takes at most" hint="Of the cache: a size, a share, or off" typed={cacheMax} />
          {pool.type === "read-write" && (
            <TypedField label="Dirty at most" hint="Of what may be dirty: a size, a share, or off" typed={dirtyCap} />
          )}
        </div>
      )}
    </AskDialog>
  );
}

/** What is typed into a field, what it was, and what is wrong with it. */
type Typed = { before: string; text: string; set: (text: string) => void; error: string | null };

function useTyped(before: string, errorOf: (text: string) => string | null): Typed {
  const [first] = useState(before);
  const [text, set] = useState(before);
  return { before: first, text, set, error: errorOf(text) };
}

function TypedField({ label, hint, typed }: { label: string; hint: string; typed: Typed }) {
  return <TextField label={label} hint={hint} error={typed.error} text={typed.text} change={typed.set} />;
}

/** A share for the request, if it is not what it was. */
function changed(key: "dirty_cap" | "cache_min" | "cache_max", { text, before }: Typed) {
  return text.trim() === before ? {} : { [key]: readShare(text) };
}

function sizeError(text: string): string | null {
  return readSize(text) === null ? "A size as 4 MiB or 512K, or off" : null;
}

function shareError(text: string): string | null {
  return readShare(text) === null ? "A size as 10 GiB, a share as 25 %, or off" : null;
}
