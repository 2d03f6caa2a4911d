// Dialogs: the browser's own, which keep the keyboard inside and close with Escape.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { openDialogs, Toasts } from "./toasts";

type DialogProps = {
  title: string;
  close: () => void;
  wide?: boolean;
  children: ComponentChildren;
  footer: ComponentChildren;
};

export function Dialog({ title, close, wide = false, children, footer }: DialogProps) {
  const id = useId();
  const dialog = useRef<HTMLDialogElement>(null);
  const body = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    openDialogs.set(openDialogs.get() + 1);
    return () => {
      openDialogs.set(openDialogs.get() - 1);
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  useEffect(() => {
    // What scrolls must be reachable by the keyboard, and what does not is no stop on its way.
    if (body.current !== null) body.current.tabIndex = body.current.scrollHeight > body.current.clientHeight ? 0 : -1;
  });
  return (
    <dialog ref={dialog} class={wide ? "wide" : ""} aria-labelledby={id} onClose={close}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="small bare" aria-label="Close" onClick={close}>
          ✕
        </button>
      </header>
      <div ref={body} class="body">
        {children}
      </div>
      <Toasts inside />
      <footer>{footer}</footer>
    </dialog>
  );
}
