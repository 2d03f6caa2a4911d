// The way out when dirty data cannot be flushed: losing it, said in full and typed by name.
import { useState } from "preact/hooks";
import { bytes } from "../format";
import { TextField } from "../ui/text-field";

export type LossChoice = {
  chosen: boolean;
  typed: string;
  name: string;
  choose: (chosen: boolean) => void;
  type: (typed: string) => void;
  /** Why it may not be done yet. */
  reason: string | null;
};

export function useLoss(name: string): LossChoice {
  const [chosen, choose] = useState(false);
  const [typed, type] = useState("");
  const reason = chosen && typed !== name ? `Type ${name} to confirm that its data is lost.` : null;
  return { chosen, typed, name, choose, type, reason };
}

/** Asked only where there is something to lose, or where nobody can know. */
export function Loss({ loss, dirtyBytes, offline }: { loss: LossChoice; dirtyBytes: number; offline: boolean }) {
  if (dirtyBytes === 0 && !offline) return null;
  return (
    <fieldset>
      <label class="choice">
        <input type="checkbox" checked={loss.chosen} onChange={(event) => loss.choose(event.currentTarget.checked)} />
        <span>
          Do not flush: lose what is only on the SSDs
          <small>
            {dirtyBytes === 0
              ? "How much that is cannot be known while it is offline."
              : `${bytes(dirtyBytes)} of acknowledged writes are lost.`}
          </small>
        </span>
      </label>
      {loss.chosen && <TextField label={`Type ${loss.name} to confirm`} text={loss.typed} change={loss.type} />}
    </fieldset>
  );
}
