// What was done, or could not be: short words that go away, read aloud.
import { Store, useStore } from "../store";
import type { Tone } from "../words";
import { Mark } from "./basics";

type Toast = { id: number; tone: Tone; text: string };

const toasts = new Store<Toast[]>([]);
/** How many dialogs are open: what is behind one is neither read nor touched, so what is told is told in the dialog. */
export const openDialogs = new Store(0);
let next = 0;

export function notify(tone: Tone, text: string): void {
  const toast = { id: next++, tone, text };
  toasts.set([...toasts.get(), toast].slice(-4));
  // What failed stays until it is put away.
  if (tone !== "bad") setTimeout(() => dismiss(toast.id), 6000);
}

function dismiss(id: number): void {
  toasts.set(toasts.get().filter((toast) => toast.id !== id));
}

/** `inside`: in a dialog. */
export function Toasts({ inside = false }: { inside?: boolean }) {
  const list = useStore(toasts);
  if (useStore(openDialogs) > 0 !== inside) return null;
  return (
    <div class="toasts" role="status" aria-live="polite">
      {list.map((toast) => (
        <div key={toast.id} class={`toast ${toast.tone}`}>
          <Mark tone={toast.tone} />
          <span>{toast.text}</span>
          <button type="button" class="small bare" aria-label="Dismiss" onClick={() => dismiss(toast.id)}>
            ✕
          </button>
        </div>
      ))}
    </div>
  );
}
