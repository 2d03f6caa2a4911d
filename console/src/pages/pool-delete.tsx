// Deleting a pool: what is flushed first, who is concerned, and what is lost if someone insists.
import { useState } from "preact/hooks";
import type { Pool } from "../api/types";
import { begin } from "../change";
import { bytes, plural } from "../format";
import { Action, Notice } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { Loss, useLoss } from "./loss";

export function DeletePool({ pool, close }: { pool: Pool; close: () => void }) {
  const dirty = pool.write_log?.dirty_bytes ?? 0;
  const loss = useLoss(pool.name);
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    await begin({ kind: "delete-pool", name: pool.name, force: loss.chosen, lose_data: loss.chosen });
    close();
  };
  return (
    <Dialog
      title={`Delete pool ${pool.name}?`}
      close={close}
      footer={
        <>
          <button type="button" autofocus onClick={close}>
            Keep it
          </button>
          <Action
            label={loss.chosen ? "Delete and lose data" : "Delete pool"}
            kind="danger"
            reason={loss.reason}
            busy={busy}
            run={run}
          />
        </>
      }
    >
      <ul>
        <li>
          {dirty === 0
            ? "Nothing in it is newer than on the backing devices: it is deleted at once."
            : `${bytes(dirty)} are only on its SSDs: they are written to the backing devices first. That can be cancelled.`}
        </li>
        <li>
          {pool.volumes.length === 0
            ? "It caches no volume."
            : `${plural(pool.volumes.length, "volume is", "volumes are")} served on, without cache: ${pool.volumes.join(", ")}.`}
        </li>
        <li>Its SSDs are free after that. What they cached is gone; the backing devices have all data.</li>
      </ul>
      {pool.state === "offline" && <Notice tone="warning">The pool is offline. {pool.reason}</Notice>}
      <Loss loss={loss} dirtyBytes={dirty} offline={pool.state === "offline"} />
    </Dialog>
  );
}
