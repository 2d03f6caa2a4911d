// A disk of the machine, to be chosen: what it is, what it carries, and why it cannot be used.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import type { Disk, Smart } from "../api/types";
import { bytes } from "../format";
import { type Polled, usePolled } from "../store";
import { TextField } from "../ui/text-field";
import { diskHealth } from "../words";

/** Disks come and go. */
const RELOAD_MS = 5000;

/** The block devices of the machine, and the image files of a directory if one is named. */
export function useDisks(directory: string): Polled<Disk[]> {
  return usePolled(
    async (signal) => {
      const { disks } = await call("get", "/api/v1/disks", { signal });
      if (directory === "") return disks;
      const files = await call("get", "/api/v1/disks", { query: { directory }, signal });
      return [...disks, ...files.disks];
    },
    directory,
    RELOAD_MS,
  );
}

type Props = {
  disk: Disk;
  type: "checkbox" | "radio";
  /** Empty: it can be chosen. */
  whyNot: string;
  chosen: boolean;
  choose: (on: boolean) => void;
};

export function DiskChoice({ disk, type, whyNot, chosen, choose }: Props) {
  return (
    <label class="choice">
      <input
        type={type}
        name={type === "radio" ? "disk" : undefined}
        checked={chosen}
        disabled={whyNot !== ""}
        onChange={(event) => choose(event.currentTarget.checked)}
      />
      <span>
        <span>
          <strong>{disk.name}</strong> {bytes(disk.size_bytes)}
          {facts(disk) !== "" && <span class="muted"> · {facts(disk)}</span>}
        </span>
        <small class="path">{disk.path}</small>
        {whyNot !== "" && <small class="error">Cannot be used: {whyNot}</small>}
        {whyNot === "" && disk.signature !== "" && <small>Carries {disk.signature}.</small>}
        {whyNot === "" && <Health smart={disk.smart ?? null} />}
      </span>
    </label>
  );
}

/** What a disk says of itself, once it was asked. */
function Health({ smart }: { smart: Smart | null }) {
  if (smart === null) return null;
  const { text, tone } = diskHealth(smart);
  return <small class={tone === "bad" ? "error" : ""}>Health: {text}</small>;
}

function facts(disk: Disk): string {
  const maker = [disk.manufacturer, disk.model].filter((word) => word !== "").join(" ");
  const turns = disk.rotational === true ? "spinning disk" : "";
  const serial = disk.serial === "" ? "" : `serial ${disk.serial}`;
  const kind = disk.kind === "image-file" ? "image file" : disk.transport;
  return [maker, kind, turns, serial].filter((word) => word !== "").join(" · ");
}

/** Image files are looked for where the person says: the daemon lists no directory by itself. */
export function FindFiles({ directory, setDirectory }: { directory: string; setDirectory: (path: string) => void }) {
  const [text, setText] = useState(directory);
  const submit = (event: Event) => {
    event.preventDefault();
    setDirectory(text.trim());
  };
  return (
    <form class="row end" onSubmit={submit}>
      <TextField label="Image files in this directory of the daemon's machine" text={text} change={setText} />
      <button type="submit">Look there</button>
    </form>
  );
}
