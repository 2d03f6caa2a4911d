// The wizard's SSDs: what was found on the machine, and why some of it cannot be used.
import { explain } from "../api/client";
import type { Disk } from "../api/types";
import { bytes, plural } from "../format";
import { Notice } from "../ui/basics";
import type { Chosen } from "./create-state";
import { needsForce } from "./create-state";
import { DiskChoice, FindFiles } from "./disk-choice";

type Props = {
  draft: Chosen;
  set: (part: Partial<Chosen>) => void;
  disks: Disk[];
  error: unknown;
  directory: string;
  setDirectory: (path: string) => void;
};

export function ChooseSsds({ draft, set, disks, error, directory, setDirectory }: Props) {
  const chosen = disks.filter((disk) => draft.ssds.includes(disk.path));
  const total = chosen.reduce((sum, disk) => sum + disk.size_bytes, 0);
  const lost = needsForce(draft, disks);
  // Whoever lets something be lost has said so of those that were chosen then.
  const choose = (ssds: string[]) => set({ ssds, force: false });
  const toggle = (path: string, on: boolean) =>
    choose(on ? [...draft.ssds, path] : draft.ssds.filter((other) => other !== path));
  // Files of another folder are not shown any more, and nobody chooses what is not shown.
  const lookIn = (folder: string) => {
    const shown = directory === "" ? null : `${directory.replace(/\/+$/, "")}/`;
    choose(draft.ssds.filter((path) => shown === null || !path.startsWith(shown)));
    setDirectory(folder);
  };
  return (
    <section class="panel" aria-labelledby="ssds">
      <header>
        <h2 id="ssds">SSDs</h2>
        <span class="muted" aria-live="polite">
          {chosen.length === 0 ? "none chosen" : `${plural(chosen.length, "SSD")} chosen, ${bytes(total)}`}
        </span>
      </header>
      {error !== null && (
        <div class="inside">
          <Notice tone="bad">{explain(error)}</Notice>
        </div>
      )}
      <fieldset class="list" aria-labelledby="ssds">
        {usableFirst(disks).map((disk) => (
          <DiskChoice
            key={disk.path}
            disk={disk}
            type="checkbox"
            whyNot={disk.not_as_ssd}
            chosen={draft.ssds.includes(disk.path)}
            choose={(on) => toggle(disk.path, on)}
          />
        ))}
      </fieldset>
      <div class="inside">
        {disks.length === 0 && error === null && <p class="muted">No disks were found on this machine.</p>}
        <FindFiles directory={directory} setDirectory={lookIn} />
        {lost.length > 0 && (
          <label class="choice">
            <input
              type="checkbox"
              checked={draft.force}
              onChange={(event) => set({ force: event.currentTarget.checked })}
            />
            <span>
              Overwrite what is on them
              <small>{lost.map((disk) => `${disk.name}: ${disk.signature}`).join("; ")}. It is lost for good.</small>
            </span>
          </label>
        )}
        {draft.type === "read-write" && (
          <AllowSameDisk allowed={draft.allowSameDisk} allow={(allowSameDisk) => set({ allowSameDisk })} />
        )}
      </div>
    </section>
  );
}

/** A promise of two copies that is worth less, for whoever wants it nevertheless. */
export function AllowSameDisk({ allowed, allow }: { allowed: boolean; allow: (allowed: boolean) => void }) {
  return (
    <label class="choice">
      <input type="checkbox" checked={allowed} onChange={(event) => allow(event.currentTarget.checked)} />
      <span>
        Allow SSDs that share a physical disk
        <small>
          When that disk fails, both copies of data that is not yet on the backing device may be lost with it.
        </small>
      </span>
    </label>
  );
}

/** What cannot be used is told too, below what can. */
function usableFirst(disks: Disk[]): Disk[] {
  return disks.toSorted((a, b) => Number(a.not_as_ssd !== "") - Number(b.not_as_ssd !== ""));
}
