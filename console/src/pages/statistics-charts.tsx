// The charts of a subject over a frame of time.
import type { History, HistoryPoint } from "../api/types";
import { bytes, bytesPerSecond, count, latency, percent } from "../format";
import { Chart, type Line } from "../ui/chart";
import { type Frame, part } from "./statistics-frame";

type Props = { history: History; ssds: History | null; frame: Frame; setFrame: (frame: Frame) => void };
type Pick = (point: HistoryPoint) => number | null | undefined;
type Wanted = { label: string; color: string; pick: Pick };

const ONE = "--series-1";
const TWO = "--series-2";
const THREE = "--series-3";
const FOUR = "--series-4";

export function Charts({ history, ssds, setFrame }: Props) {
  const zoom = (from: number, to: number) => setFrame(part(from, to));
  const show = (
    title: string,
    format: (value: number) => string,
    wanted: Wanted[],
    of: History | null = history,
    max?: number,
  ) => <Panel title={title} format={format} wanted={wanted} history={of} zoom={zoom} max={max} />;
  if (history.points.length === 0) {
    return (
      <section class="panel" aria-label="Charts">
        <p class="empty">
          No samples in this time. A chart begins with the first full interval, within a minute of the start.
        </p>
      </section>
    );
  }
  return (
    <div class="grid halves">
      {show(
        "Hit ratio of reads",
        percent,
        [{ label: "hits", color: THREE, pick: (point) => point.hit_ratio }],
        history,
        1,
      )}
      {show("IOPS", count, [
        { label: "reads", color: ONE, pick: (point) => point.reads_per_second },
        { label: "writes", color: TWO, pick: (point) => point.writes_per_second },
      ])}
      {show(
        "Read latency",
        latency,
        latencies((point) => point.read_latency),
      )}
      {show(
        "Write latency",
        latency,
        latencies((point) => point.write_latency),
      )}
      {show("Backing devices (HDD)", bytesPerSecond, [
        { label: "read", color: ONE, pick: (point) => point.backing_read_bytes_per_second },
        { label: "written", color: TWO, pick: (point) => point.backing_written_bytes_per_second },
      ])}
      {show(
        "SSDs of the pool",
        bytesPerSecond,
        [
          { label: "read", color: ONE, pick: (point) => point.ssd_read_bytes_per_second },
          { label: "written", color: TWO, pick: (point) => point.ssd_written_bytes_per_second },
        ],
        ssds,
      )}
      {show("Throughput of hosts", bytesPerSecond, [
        { label: "read", color: ONE, pick: (point) => point.read_bytes_per_second },
        { label: "written", color: TWO, pick: (point) => point.write_bytes_per_second },
      ])}
      {show("Cache used, and data at risk", bytes, [
        { label: "cached", color: ONE, pick: (point) => point.cache_used_bytes },
        { label: "at risk", color: TWO, pick: (point) => point.dirty_bytes },
      ])}
    </div>
  );
}

/** Median and tail of what a point has of them. */
export function latencies(of: (point: HistoryPoint) => HistoryPoint["read_latency"]): Wanted[] {
  const nanoseconds = (value: number | undefined) => (value === undefined ? null : value * 1000);
  return [
    { label: "median", color: ONE, pick: (point) => nanoseconds(of(point)?.p50_microseconds) },
    { label: "95 %", color: THREE, pick: (point) => nanoseconds(of(point)?.p95_microseconds) },
    { label: "99 %", color: FOUR, pick: (point) => nanoseconds(of(point)?.p99_microseconds) },
  ];
}

type PanelProps = {
  title: string;
  format: (value: number) => string;
  wanted: Wanted[];
  history: History | null;
  zoom: (from: number, to: number) => void;
  max: number | undefined;
};

/** A chart, if the subject has any such value at all. */
function Panel({ title, format, wanted, history, zoom, max }: PanelProps) {
  if (history === null) return null;
  const { times, lines } = linesOf(history, wanted);
  if (lines.every((line) => line.values.every((value) => value === null))) return null;
  return (
    <section class="panel" aria-label={title}>
      <Chart
        title={title}
        times={times}
        lines={lines}
        format={format}
        range={[history.from_unix_seconds, history.to_unix_seconds]}
        zoom={zoom}
        binary={format === bytes || format === bytesPerSecond}
        {...(max === undefined ? {} : { max })}
      />
    </section>
  );
}

/** Lines with a gap where the daemon was down. */
export function linesOf(history: History, wanted: Wanted[]): { times: number[]; lines: Line[] } {
  const times: number[] = [];
  const points: (HistoryPoint | null)[] = [];
  for (const point of history.points) {
    const before = times.at(-1);
    if (before !== undefined && point.at_unix_seconds - before > 1.5 * history.step_seconds) {
      times.push(before + history.step_seconds);
      points.push(null);
    }
    times.push(point.at_unix_seconds);
    points.push(point);
  }
  const lines = wanted.map(({ label, color, pick }) => ({
    label,
    color,
    values: points.map((point) => (point === null ? null : (pick(point) ?? null))),
  }));
  return { times, lines };
}
