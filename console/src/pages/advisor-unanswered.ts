// What the daemon says of pools that it knows no answer for: why, and the command that gives one. No requests, no components.
import type { LiveWhatIfPool } from "../api/types";

export type Unanswered = {
  why: string;
  /** Null: no command helps. */
  command: string | null;
};

/** Each text once; where commands differ in nothing but the size, one that tries all sizes. */
export function unanswered(pools: LiveWhatIfPool[]): Unanswered[] {
  const told: Unanswered[] = [];
  for (const { unanswered: text } of pools) {
    if (text === "") continue;
    const { why, command } = parted(text);
    const same = told.find((one) => one.why === why && withoutSize(one.command) === withoutSize(command));
    if (same === undefined) told.push({ why, command });
    else same.command = withSizeOf(same.command, command);
  }
  return told;
}

/** A command stands at the end, after a colon. */
function parted(text: string): Unanswered {
  const at = text.lastIndexOf(": hotset ");
  return at === -1 ? { why: text, command: null } : { why: text.slice(0, at + 1), command: text.slice(at + 2) };
}

const SIZE = / --size (\S+)/;

function withoutSize(command: string | null): string | undefined {
  return command?.replace(SIZE, "");
}

function withSizeOf(command: string | null, other: string | null): string | null {
  const size = SIZE.exec(other ?? "")?.[1];
  return size === undefined || command === null ? command : command.replace(SIZE, ` --size $1,${size}`);
}
