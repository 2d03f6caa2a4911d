// Sizes, and parts of something, as a person types them.
import type { Share } from "../api/types";
import { bytes, parseBytes, percentOf } from "../format";
import { Field } from "../ui/basics";

type Props = {
  label: string;
  hint: string;
  /** What is wrong with the text; null: nothing. */
  error: string | null;
  text: string;
  change: (text: string) => void;
};

export function SizeField({ label, hint, error, text, change }: Props) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <input
          {...ids}
          type="text"
          autocomplete="off"
          value={text}
          onInput={(event) => change(event.currentTarget.value)}
        />
      )}
    </Field>
  );
}

/** A size, or `off`. */
export function spelledSize(value: number | null | undefined): string {
  return typeof value === "number" ? bytes(value) : "off";
}

/** In bytes; 0 is off; null: not understood. */
export function readSize(text: string): number | null {
  return text.trim() === "off" ? 0 : parseBytes(text);
}

/** A size, a share in percent, or `off`. */
export function spelledShare(share: Share | null | undefined): string {
  if (share === null || share === undefined) return "off";
  return "percent" in share ? percentOf(share.percent) : bytes(share.bytes);
}

/** 0 bytes are off; null: not understood. */
export function readShare(text: string): Share | null {
  const percent = /^\s*(\d{1,3})\s*%\s*$/.exec(text)?.[1];
  if (percent !== undefined) {
    const value = Number(percent);
    return value >= 1 && value <= 100 ? { percent: value } : null;
  }
  const size = readSize(text);
  return size === null ? null : { bytes: size };
}
