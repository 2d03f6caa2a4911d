// Deleting a pool: what is flushed first, and whose it is.
import type { Pool } from "../api/types";
import { bytes, plural } from "../format";
import { Notice } from "../ui/basics";
import { RemovalDialog } from "./removal-dialog";

export function DeletePool({ pool, close }: { pool: Pool; close: () => void }) {
  const dirty = pool.write_log?.dirty_bytes ?? 0;
  return (
    <RemovalDialog
      title={`Delete pool ${pool.name}?`}
      removal={{ kind: "delete-pool", name: pool.name }}
      label="Delete pool"
      labelOfLoss="Delete and lose data"
      dirtyBytes={dirty}
      offline={pool.state === "offline"}
      close={close}
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
    </RemovalDialog>
  );
}
