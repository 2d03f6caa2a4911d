// What is asked before something is taken away: what it means, what is flushed first, and what is lost if someone insists.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { OperationStart } from "../api/types";
import { begin } from "../change";
import { Action } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { Loss, useLoss } from "./loss";

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
  close: () => void;
  children: ComponentChildren;
};

export function RemovalDialog(props: Props) {
  const { title, removal, label, labelOfLoss, dirtyBytes, offline, close, children } = props;
  const loss = useLoss(removal.name);
  const [busy, setBusy] = useState(false);
  const run = async () => {
    setBusy(true);
    await begin({ ...removal, force: loss.chosen, lose_data: loss.chosen });
    close();
  };
  return (
    <Dialog
      title={title}
      close={close}
      footer={
        <>
          <button type="button" autofocus onClick={close}>
            Keep it
          </button>
          <Action label={loss.chosen ? labelOfLoss : label} kind="danger" reason={loss.reason} busy={busy} run={run} />
        </>
      }
    >
      {children}
      <Loss loss={loss} dirtyBytes={dirtyBytes} offline={offline} />
    </Dialog>
  );
}
