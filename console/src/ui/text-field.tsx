// A line of text that is typed.
import type { ComponentChildren } from "preact";
import { Field } from "./basics";

type TextProps = {
  label: string;
  hint?: ComponentChildren;
  /** What is wrong with the text; null: nothing. */
  error?: string | null;
  /** A password is not shown. */
  type?: "text" | "password";
  autofocus?: boolean;
  text: string;
  change: (text: string) => void;
};

export function TextField({ label, hint, error = null, type = "text", autofocus = false, text, change }: TextProps) {
  const typed = {
    autocomplete: "off",
    spellcheck: false,
    autofocus,
    value: text,
    onInput: (event: { currentTarget: HTMLInputElement }) => change(event.currentTarget.value),
  };
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) =>
        type === "password" ? <input {...ids} {...typed} type="password" /> : <input {...ids} {...typed} type="text" />
      }
    </Field>
  );
}
