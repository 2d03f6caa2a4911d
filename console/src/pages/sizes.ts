// Sizes, and parts of something, as a person types them.
import type { Share } from "../api/types";
import { bytes, exactBytes, parseBytes, percentOf } from "../format";

/** A size, or `off`. */
export function spelledSize(value: number | null | undefined): string {
  return typeof value === "number" ? bytes(value) : "off";
}

/** The same for a field in which it is changed: what is read of it is the same size. */
export function typedSize(value: number | null | undefined): string {
  return typeof value === "number" ? exactBytes(value) : "off";
}

/** In bytes; 0 is off; null: not understood. */
export function readSize(text: string): number | null {
  return text.trim() === "off" ? 0 : parseBytes(text);
}

/** In bytes, of the decimal TB of data sheets: `600`, `1.92 TB`; null: not understood, or nothing. */
export function readTerabytes(text: string): number | null {
  const match = /^\s*(\d{1,6}(?:\.\d+)?)\s*(?:TBW?)?\s*$/i.exec(text);
  return Math.round(Number(match?.[1] ?? 0) * 1e12) || null;
}

/** A size, a share in percent, or `off`. */
export function spelledShare(share: Share | null | undefined): string {
  if (share === null || share === undefined) return "off";
  return "percent" in share ? percentOf(share.percent) : bytes(share.bytes);
}

/** The same for a field in which it is changed. */
export function typedShare(share: Share | null | undefined): string {
  return share && "bytes" in share ? exactBytes(share.bytes) : spelledShare(share);
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
