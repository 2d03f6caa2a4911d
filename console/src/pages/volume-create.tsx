// Making a volume: a name, what is behind it, and which cache is in front of it.
import { useState } from "preact/hooks";
import { call, explain } from "../api/client";
import type { Status, WriteMode } from "../api/types";
import { change } from "../change";
import { go, link } from "../router";
import { AskDialog } from "../ui/ask-dialog";
import { Notice } from "../ui/basics";
import { Select } from "../ui/select";
import { TextField } from "../ui/text-field";
import { cacheType, WRITE_MODES, writeMode } from "../words";
import { DiskChoice, FindFiles, useDisks } from "./disk-choice";

/** Of volumes. */
export const NAME_RULE = "Letters, digits, - _ and dots; hosts connect by it";

export function CreateVolume({ status, close }: { status: Status; close: () => void }) {
  const [name, setName] = useState("");
  const [backing, setBacking] = useState("");
  const [pool, setPool] = useState("");
  const [mode, setMode] = useState<WriteMode>("write-back");
  const [block, setBlock] = useState("");
  const [readOnly, setReadOnly] = useState(false);
  const chosen = status.pools.find((entry) => entry.name === pool);
  const taken = status.volumes.some((volume) => volume.name === name);
  const reason = whyNot(name, backing, taken);
  const run = async () => {
    const done = await change(`Volume ${name} is served.`, () =>
      call("post", "/api/v1/volumes", {
        body: {
          name,
          backing,
          read_only: readOnly,
          ...(pool === "" ? {} : { pool }),
          ...(chosen?.type === "read-write" ? { write_mode: mode } : {}),
          ...(block === "" ? {} : { logical_block_bytes: Number(block) }),
        },
      }),
    );
    if (done) go(link("volumes", name));
    return false;
  };
  return (
    <AskDialog title="Create volume" label="Create volume" reason={reason} run={run} close={close}>
      <TextField
        label="Name"
        hint={NAME_RULE}
        error={taken ? "There is a volume of this name." : null}
        autofocus
        text={name}
        change={setName}
      />
      <TextField
        label="Backing device"
        hint="The path of a block device or file on this machine. Its data stays as it is; it is served in place."
        text={backing}
        change={setBacking}
      />
      <Found backing={backing} choose={setBacking} />
      <div class="row">
        <Select
          label="Cache pool"
          value={pool}
          options={[
            { value: "", text: "none" },
            ...status.pools.map((entry) => ({ value: entry.name, text: `${entry.name} (${cacheType(entry.type)})` })),
          ]}
          choose={setPool}
        />
        <Select
          label="Logical block"
          value={block}
          options={[
            { value: "", text: "the backing device's" },
            { value: "512", text: "512 bytes" },
            { value: "4096", text: "4 KiB" },
          ]}
          choose={setBlock}
        />
      </div>
      {chosen?.type === "read-write" && (
        <Select
          label="Write mode"
          hint={writeMode(mode).meaning}
          value={mode}
          options={WRITE_MODES.map((value) => ({ value, text: writeMode(value).text }))}
          choose={setMode}
        />
      )}
      <label class="choice">
        <input type="checkbox" checked={readOnly} onChange={(event) => setReadOnly(event.currentTarget.checked)} />
        <span>
          Read only
          <small>Writes of hosts are refused.</small>
        </span>
      </label>
    </AskDialog>
  );
}

/** The block devices of the machine, and the files of a directory, to be chosen in place of typing. */
function Found({ backing, choose }: { backing: string; choose: (path: string) => void }) {
  const [directory, setDirectory] = useState("");
  const found = useDisks(directory);
  return (
    <fieldset>
      <legend>Found on this machine</legend>
      {found.error !== null && <Notice tone="bad">{explain(found.error)}</Notice>}
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: it scrolls, also where nothing in it can be chosen */}
      <fieldset class="list short" aria-label="Block devices and image files" tabIndex={0}>
        {found.value?.length === 0 && <p class="empty">No block devices.</p>}
        {found.value?.map((disk) => (
          <DiskChoice
            key={disk.path}
            disk={disk}
            type="radio"
            whyNot={disk.not_as_backing}
            chosen={backing === disk.path}
            choose={() => choose(disk.path)}
          />
        ))}
      </fieldset>
      <FindFiles directory={directory} setDirectory={setDirectory} />
    </fieldset>
  );
}

function whyNot(name: string, backing: string, taken: boolean): string | null {
  if (name === "") return "Give it a name.";
  if (taken) return "There is a volume of this name.";
  if (backing === "") return "Name its backing device.";
  if (!backing.startsWith("/") && !backing.startsWith("emulated:")) return "The backing device's path starts with /.";
  return null;
}
