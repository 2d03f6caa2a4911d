// The values of now beside their averages of a day, a week and a month.
import type { History, HistoryPoint, LatencyPercentiles } from "../api/types";
import { bytes, bytesPerSecond, duration, latency, NOTHING, percent, perSecond } from "../format";
import { hitsAt, hitsPerSecond } from "../hits";
import { Table } from "../ui/table";

type Value = number | null | undefined;
/** `say` gets the time that the value is an average of, in seconds. */
type Row = { name: string; say: (value: number, period: number) => string; of: (point: HistoryPoint) => Value };

const DAY = 86_400;
/** A sample is taken as often. */
const SAMPLE = 30;

const ROWS: Row[] = [
  { name: "Cache used", say: bytes, of: (point) => point.cache_used_bytes },
  { name: "Cache hits", say: perSecond, of: (point) => hitsPerSecond(point, "all") },
  { name: "Hits in memory", say: perSecond, of: (point) => hitsPerSecond(point, "memory") },
  { name: "Hits on SSDs", say: perSecond, of: (point) => hitsPerSecond(point, "ssds") },
  { name: "Read requests", say: perSecond, of: (point) => point.reads_per_second },
  { name: "Hit ratio", say: percent, of: (point) => hitsAt(point)?.all },
  { name: "Hit ratio in memory", say: percent, of: (point) => hitsAt(point)?.memory },
  { name: "Hit ratio on SSDs", say: percent, of: (point) => hitsAt(point)?.ssds },
  { name: "Writes", say: perSecond, of: (point) => point.writes_per_second },
  { name: "Data at risk", say: bytes, of: (point) => point.dirty_bytes },
  { name: "Read latency, median", say: latency, of: (point) => median(point.read_latency) },
  { name: "Read latency, 99 % within", say: latency, of: (point) => slowest(point.read_latency) },
  { name: "Write latency, median", say: latency, of: (point) => median(point.write_latency) },
  { name: "Write latency, 99 % within", say: latency, of: (point) => slowest(point.write_latency) },
  { name: "Populated", say: bytesPerSecond, of: (point) => point.populated_bytes_per_second },
  { name: "Blocks evicted", say: perSecond, of: (point) => point.evicted_blocks_per_second },
  { name: "Written to SSDs", say: bytesPerSecond, of: (point) => point.ssd_written_bytes_per_second },
  { name: "Time observed", say: observed, of: (point) => point.covered_seconds },
];

/** How much of the period the values beside it are averages of: the daemon may have been down, or be new. */
function observed(seconds: number, period: number): string {
  return period <= SAMPLE ? duration(seconds) : `${duration(seconds)} (${percent(Math.min(1, seconds / period))})`;
}

export function Averages({ history }: { history: History }) {
  const { current, averages } = history;
  const points = [current, averages.day, averages.week, averages.month];
  // What the subject does not have is left out: a pool has no latency of its own.
  const rows = ROWS.filter((row) =>
    points.some((point) => point !== null && point !== undefined && has(row.of(point))),
  );
  const say = (row: Row, point: HistoryPoint | null | undefined, period: number) => {
    const value = point === null || point === undefined ? null : row.of(point);
    return has(value) ? row.say(value, period) : NOTHING;
  };
  return (
    <section class="panel" aria-labelledby="averages">
      <header>
        <h2 id="averages">Now and on average</h2>
      </header>
      <Table
        caption="Now and on average"
        small
        rows={rows}
        rowKey={(row) => row.name}
        empty="No sample yet: the first is taken within 30 s."
        columns={[
          { head: "Value", cell: (row) => row.name },
          {
            head: "Current",
            numeric: true,
            help: "The newest sample, of 30 s",
            cell: (row) => say(row, current, SAMPLE),
          },
          { head: "1 day", numeric: true, cell: (row) => say(row, averages.day, DAY) },
          { head: "1 week", numeric: true, cell: (row) => say(row, averages.week, 7 * DAY) },
          { head: "1 month", numeric: true, cell: (row) => say(row, averages.month, 30 * DAY) },
        ]}
      />
    </section>
  );
}

function has(value: Value): value is number {
  return typeof value === "number";
}

function median(value: LatencyPercentiles | null | undefined): Value {
  return value === null || value === undefined ? null : value.p50_microseconds * 1000;
}

function slowest(value: LatencyPercentiles | null | undefined): Value {
  return value === null || value === undefined ? null : value.p99_microseconds * 1000;
}
