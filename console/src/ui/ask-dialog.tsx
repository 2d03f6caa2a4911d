// A dialog that asks for something to be done: what, why not yet, and the way out.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Action } from "./basics";
import { Dialog } from "./dialog";

type AskProps = {
  title: string;
  /** What is done by whoever agrees. */
  label: string;
  kind?: "primary" | "danger";
  /** The way out, where nothing is done. */
  out?: string;
  /** Why it cannot be done yet; null: it can. */
  reason: string | null;
  wide?: boolean;
  /** Does it; answers whether the dialog is done with. */
  run: () => Promise<boolean>;
  close: () => void;
  children: ComponentChildren;
};

/** Who is about to lose something finds the way out under their finger. */
export function AskDialog(props: AskProps) {
  const { title, label, kind = "primary", out = "Cancel", reason, wide = false, run, close, children } = props;
  const [busy, setBusy] = useState(false);
  const agree = async () => {
    setBusy(true);
    const done = await run();
    setBusy(false);
    if (done) close();
  };
  return (
    <Dialog
      title={title}
      close={close}
      wide={wide}
      footer={
        <>
          {reason !== null && <span class="why">{reason}</span>}
          <button type="button" autofocus={kind === "danger"} onClick={close}>
            {out}
          </button>
          <Action label={label} kind={kind} busy={busy} reason={reason} run={agree} />
        </>
      }
    >
      {children}
    </Dialog>
  );
}
