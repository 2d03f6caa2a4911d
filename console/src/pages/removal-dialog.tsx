// What is asked before something is taken away: what it means, what is flushed first, and what is lost if someone insists.
import type { ComponentChildren } from "preact";
import type { OperationStart } from "../api/types";
import { begin } from "../change";
import { AskDialog } from "../ui/ask-dialog";
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
  const run = async () => {
    await begin({ ...removal, force: loss.chosen, lose_data: loss.chosen });
    return true;
  };
  return (
    <AskDialog
      title={title}
      label={loss.chosen ? labelOfLoss : label}
      kind="danger"
      out="Keep it"
      reason={loss.reason}
      run={run}
      close={close}
    >
      {children}
      <Loss loss={loss} dirtyBytes={dirtyBytes} offline={offline} />
    </AskDialog>
  );
}
