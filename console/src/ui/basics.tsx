// The small parts that every page is made of.
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { Tone, Word } from "../words";

/** A state in words, with a mark whose shape and colour say it too. */
export function Badge({ word }: { word: Word }) {
  return (
    <span class={`badge ${word.tone}`}>
      <Mark tone={word.tone} />
      {word.text}
    </span>
  );
}

const MARKS: Record<Tone, string> = {
  good: "M3 6.5 5.2 8.7 9.5 3.8",
  busy: "M6 2.5a3.5 3.5 0 1 1-3.5 3.5",
  warning: "M6 2.5v4.2M6 9v.4",
  bad: "M3.2 3.2l5.6 5.6M8.8 3.2 3.2 8.8",
  quiet: "M3 6h6",
};

export function Mark({ tone }: { tone: Tone }) {
  return (
    <svg class={`mark ${tone}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" focusable="false">
      <path d={MARKS[tone]} fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" />
    </svg>
  );
}

type ActionProps = {
  label: string;
  /** Why it is not possible now; null: it is. */
  reason?: string | null;
  kind?: "plain" | "primary" | "danger" | "small";
  busy?: boolean;
  run: () => void;
};

/** A button. One that cannot be used stays in the order of the keyboard, and says why to whoever comes to it. */
export function Action({ label, reason = null, kind = "plain", busy = false, run }: ActionProps) {
  const id = useId();
  if (reason === null) {
    return (
      <button type="button" class={kind} aria-busy={busy} onClick={() => !busy && run()}>
        {label}
      </button>
    );
  }
  return (
    <span class="action">
      <button
        type="button"
        class={kind}
        aria-disabled="true"
        aria-describedby={id}
        onMouseEnter={keepInView}
        onFocus={keepInView}
      >
        {label}
      </button>
      <span class="reason" role="tooltip" id={id}>
        {reason}
      </span>
    </span>
  );
}

/** Shifts a tooltip that would stick out of the window. */
function keepInView(event: { currentTarget: HTMLElement }): void {
  const tip = event.currentTarget.parentElement?.querySelector<HTMLElement>(".reason");
  if (tip === null || tip === undefined) return;
  tip.style.setProperty("--shift", "0px");
  const over = tip.getBoundingClientRect().right - (document.documentElement.clientWidth - 8);
  if (over > 0) tip.style.setProperty("--shift", `${-over}px`);
}

/** A path, which may break where its parts do. */
export function Path({ text }: { text: string }) {
  return (
    <span class="path">
      {text.split(/(?<=[/,])/).flatMap((part, index) => (index === 0 ? [part] : [<wbr key={index} />, part]))}
    </span>
  );
}

/** How much of something is used. */
export function Meter({
  label,
  value,
  max,
  tone = "plain",
}: {
  label: string;
  value: number;
  max: number;
  tone?: string;
}) {
  const share = max === 0 ? 0 : Math.min(1, value / max);
  return (
    <span class={`meter ${tone}`} role="img" aria-label={`${label}: ${(share * 100).toFixed(0)} percent`}>
      <span style={{ width: `${share * 100}%` }} />
    </span>
  );
}

/** How far something is. */
export function Progress({ label, done, total }: { label: string; done: number; total: number }) {
  return <progress aria-label={label} value={total === 0 ? 1 : done} max={total === 0 ? 1 : total} />;
}

/** A term and what it is; a wide one has a line of its own. */
export type Fact = [term: string, value: ComponentChildren, width?: "wide"];

/** Terms and what they are. */
export function Facts({ facts }: { facts: Fact[] }) {
  return (
    <dl class="facts">
      {facts.map(([term, value, width]) => (
        <div key={term} class={width}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export type Figure = { term: string; value: ComponentChildren; note?: ComponentChildren };

/** Numbers that matter, in a row. */
export function Figures({ figures }: { figures: Figure[] }) {
  return (
    <dl class="figures">
      {figures.map(({ term, value, note }) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>
            {value}
            <small>{note}</small>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** What stands where there is nothing yet: what it would be, and how to get there. */
export function Empty({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div class="nothing">
      <p class="title">{title}</p>
      <p>{children}</p>
    </div>
  );
}

/** Text that is to be copied somewhere, with the button that does. */
export function Copyable({ label, text }: { label: string; text: string }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setCopied(false), 2000);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      // Not over plain HTTP from another machine: select it for the person.
      const pre = box.current;
      if (pre !== null) getSelection()?.selectAllChildren(pre);
    }
  };
  const box = useRef<HTMLPreElement>(null);
  return (
    <figure class="copyable">
      <figcaption>
        {label}
        <button type="button" class="small" aria-label={`Copy: ${label}`} onClick={copy}>
          {copied ? "Copied" : "Copy"}
        </button>
      </figcaption>
      <pre ref={box}>{text}</pre>
    </figure>
  );
}

/** What went wrong, or what to know. */
export function Notice({ tone, children }: { tone: Tone; children: ComponentChildren }) {
  return (
    <div class={`notice ${tone}`} role={tone === "bad" ? "alert" : undefined}>
      <Mark tone={tone} />
      <div>{children}</div>
    </div>
  );
}

/** Text of the daemon's, in which what is typed stands between backquotes. */
export function Prose({ text }: { text: string }) {
  return <>{text.split("`").map((part, index) => (index % 2 === 1 ? <code key={part}>{part}</code> : part))}</>;
}

/** What to do about something, if anything. */
export function ToDo({ action }: { action: string | undefined }) {
  if (action === undefined || action === "") return null;
  return (
    <span class="to-do">
      <b>To do:</b> <Prose text={action} />
    </span>
  );
}

type FieldProps = {
  label: string;
  hint?: ComponentChildren;
  error?: string | null;
  children: (ids: FieldIds) => ComponentChildren;
};
type FieldIds = { id: string; "aria-describedby": string | undefined; "aria-invalid": boolean };

/** A labelled input: hint and error are read with it. */
export function Field({ label, hint, error = null, children }: FieldProps) {
  const id = useId();
  const describes = hint !== undefined || error !== null;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, "aria-describedby": describes ? `${id}-hint` : undefined, "aria-invalid": error !== null })}
      {describes && (
        <small id={`${id}-hint`} class={error === null ? "" : "error"}>
          {error ?? hint}
        </small>
      )}
    </div>
  );
}

/** A page's heading with its actions. */
export function Heading({ title, children }: { title: string; children?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} – Hotset`;
    // Where the keyboard and the screen reader go on after a change of page.
    heading.current?.focus({ preventScroll: true });
  }, [title]);
  return (
    <header class="heading">
      <h1 ref={heading} tabIndex={-1}>
        {title}
      </h1>
      <div class="actions">{children}</div>
    </header>
  );
}
