// Hits are reads that the cache alone answers, in memory or on SSDs: wherever their part of all reads is shown, both are told.
import type { HistoryPoint } from "./api/types";
import { percent } from "./format";

/** Parts of all reads, from 0 to 1: those that hit, and of them those that were answered in memory and on SSDs. */
export type Hits = { all: number; memory: number; ssds: number };

/** Of counts, or of rates; null: there were no reads. */
export function hitsOf(reads: number, hits: number, memoryHits: number): Hits | null {
  return reads === 0 ? null : split(hits / reads, memoryHits / reads);
}

/** Of an interval of the history; null: there were no reads in it. */
export function hitsAt(point: HistoryPoint): Hits | null {
  const { hit_ratio: all, reads_per_second: reads, memory_hits_per_second: memory } = point;
  if (typeof all !== "number" || typeof reads !== "number" || reads === 0) return null;
  return split(all, (memory ?? 0) / reads);
}

/** Hits of an interval for each second; null: the subject has no reads. */
export function hitsPerSecond(point: HistoryPoint, where: keyof Hits): number | null {
  const reads = point.reads_per_second;
  return typeof reads === "number" ? (hitsAt(point)?.[where] ?? 0) * reads : null;
}

/** `21.0 % in memory` and `62.0 % on SSDs` */
export function whereHit({ memory, ssds }: Hits): [string, string] {
  return [`${percent(memory)} in memory`, `${percent(ssds)} on SSDs`];
}

function split(all: number, memory: number): Hits {
  return { all, memory, ssds: Math.max(0, all - memory) };
}
