// What is dirty is written to the backing devices now; and, if that is wanted, nothing new stays dirty until it is released.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import { begin, change } from "../change";
import { AskDialog } from "../ui/ask-dialog";

type Props = { what: "pool" | "volume"; name: string; close: () => void };

export function FlushNow({ what, name, close }: Props) {
  const [hold, setHold] = useState(false);
  const run = () => begin({ kind: what === "pool" ? "flush-pool" : "flush-volume", name, hold });
  return (
    <AskDialog title={`Flush ${what} ${name}`} label="Flush now" reason={null} run={run} close={close}>
      <p>
        What is dirty now is written to the backing device and made durable there. Hosts are served all the while, and
        their writes are cached as before.
      </p>
      <label class="choice">
        <input type="checkbox" checked={hold} onChange={(event) => setHold(event.currentTarget.checked)} />
        <span>
          Hold writes
          <small>Nothing new stays dirty until writes are released: for a snapshot or a backup.</small>
        </span>
      </label>
    </AskDialog>
  );
}

export async function releaseWrites(name: string): Promise<void> {
  await change(`Writes of volume ${name} may stay dirty again.`, () =>
    call("delete", "/api/v1/volumes/{name}/hold", { at: { name } }),
  );
}
