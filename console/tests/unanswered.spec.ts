// Questions that the daemon has no answer to: why, and what to run, are told apart and told whole.
import { expect, test } from "@playwright/test";
import type { LiveWhatIfPool } from "../src/api/types";
import { unanswered } from "../src/pages/advisor-unanswered";

const WHY =
  "volume v is watched as a read pool: only other sizes of that are known. To try it with what hosts ask from now on:";

function pool(text: string): LiveWhatIfPool {
  const thresholds = { populate_on_read: 2, populate_on_write: 0 };
  return {
    setup: { block_bytes: 1 << 20, policy: "lru", type: "read", ...thresholds },
    size_bytes: 1,
    unanswered: text,
  };
}

test("what was answered needs no command", () => {
  expect(unanswered([pool(""), pool("")])).toEqual([]);
});

test("one command tries all sizes that were asked for", () => {
  const asked = (size: string) => pool(`${WHY} hotset whatif v --seconds 3600 --type read --size ${size} --policy lru`);
  expect(unanswered([asked("10G"), pool(""), asked("40G"), asked("1536M")])).toEqual([
    { why: WHY, command: "hotset whatif v --seconds 3600 --type read --size 10G,40G,1536M --policy lru" },
  ]);
});

test("what differs in more than the size is told for itself, and the same text once", () => {
  const asked = (text: string) => pool(`${WHY} ${text}`);
  const [one, other] = ["hotset whatif v --size 1G --policy lru", "hotset whatif v --size 2G --policy 2q"];
  expect(unanswered([asked(one), asked(other)])).toEqual([
    { why: WHY, command: one },
    { why: WHY, command: other },
  ]);
  const nothing = "nothing was accessed on volume hotset while it was watched";
  expect(unanswered([pool(nothing), pool(nothing)])).toEqual([{ why: nothing, command: null }]);
});
