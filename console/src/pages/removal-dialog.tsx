// What is asked before something is taken away: what it means, what is flushed first, and what is lost if someone insists.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { OperationStart } from "../api/types";
import { begin } from "../change";
import { AskDialog } from "../ui/ask-dialog";
import { Loss, type LossChoice, useLoss } from "./loss";

type Props = {
  title: string;
  /** What is begun; its name is typed by whoever loses data. */
  removal: Pick<OperationStart, "kind" | "name">;
  label: string;
  /** The same, when data is lost by it. */
  labelOfLoss: string;
  dirtyBytes: number;
  /** Nobody can say what is dirty. */
  offline: boolean;
  /** Hosts that would be cut off, and that nothing can be flushed for first; empty if none would. */
  hosts?: string;
  close: () => void;
  children: ComponentChildren;
};

export function RemovalDialog(props: Props) {
  const { title, removal, label, labelOfLoss, dirtyBytes, offline, hosts = "", close, children } = props;
  const [cut, setCut] = useState(false);
  const loss = useLoss(removal.name);
  const run = async () => {
    await begin({ ...removal, force: loss.chosen || cut, lose_data: loss.chosen });
    return true;
  };
  return (
    <AskDialog
      title={title}
      label={loss.chosen ? labelOfLoss : label}
      kind="danger"
      out="Keep it"
      reason={whyNotYet(hosts, cut, loss, dirtyBytes) ?? loss.reason}
      run={run}
      close={close}
    >
      {children}
      {hosts !== "" && (
        <fieldset>
          <label class="choice">
            <input type="checkbox" checked={cut} onChange={(event) => setCut(event.currentTarget.checked)} />
            <span>
              Cut off the hosts that use it
              <small>{hosts}</small>
            </span>
          </label>
        </fieldset>
      )}
      <Loss loss={loss} dirtyBytes={dirtyBytes} offline={offline} />
    </AskDialog>
  );
}

/** Nobody is cut off without a word, and what is dirty is flushed while hosts go on, or with none. */
function whyNotYet(hosts: string, cut: boolean, loss: LossChoice, dirtyBytes: number): string | null {
  if (hosts === "") return null;
  if (!cut) return "Hosts use it: disconnect them, or say that they are cut off.";
  if (dirtyBytes === 0 || loss.chosen) return null;
  return "Disable its cache first: that flushes what is dirty while hosts go on.";
}
