// The charts of a subject over a frame of time.
import type { History, HistoryPoint } from "../api/types";
import { bytes, bytesPerSecond, count, latency, perSecond } from "../format";
import { type Hits, hitsAt, hitsPerSecond } from "../hits";
import { Chart, type Line } from "../ui/chart";
import { HitChart } from "./hit-chart";
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
    whole?: string,
  ) => <Panel title={title} format={format} wanted={wanted} history={of} zoom={zoom} whole={whole} />;
  if (history.points.length === 0) {
    return (
      <section class="panel" aria-label="Charts">
        <p class="empty">
          No samples in this time. A chart begins with the first full interval, within a minute of the start.
        </p>
      </section>
    );
  }
  const ratio = ratioOf(history);
  return (
    <div class="grid halves">
      {ratio.hits.some((hits) => hits !== null) && (
        <section class="panel" aria-label="Hit ratio of reads">
          <HitChart {...ratio} range={[history.from_unix_seconds, history.to_unix_seconds]} zoom={zoom} />
        </section>
      )}
      {show(
        "Hits in memory and on SSDs",
        perSecond,
        [
          { label: "in memory", color: FOUR, pick: (point) => hitsPerSecond(point, "memory") },
          { label: "on SSDs", color: THREE, pick: (point) => hitsPerSecond(point, "ssds") },
        ],
        history,
        "hits",
      )}
      <Misses history={history} zoom={zoom} />
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

/** Why reads missed, in the order in which one looks for what can be changed. */
const REASONS: Wanted[] = [
  { label: "off", color: "--reason-1", pick: (point) => point.missed_off_per_second },
  { label: "degraded", color: "--reason-2", pick: (point) => point.missed_degraded_per_second },
  { label: "wear limit", color: "--reason-3", pick: (point) => point.missed_wear_limit_per_second },
  { label: "share", color: "--reason-4", pick: (point) => point.missed_share_per_second },
  { label: "no room", color: "--reason-5", pick: (point) => point.missed_no_room_per_second },
  { label: "fetch rate", color: "--reason-6", pick: (point) => point.missed_fetch_rate_per_second },
  { label: "stream", color: "--reason-7", pick: (point) => point.missed_stream_per_second },
  { label: "overwritten", color: "--reason-8", pick: (point) => point.missed_overwritten_per_second },
  { label: "evicted", color: "--reason-9", pick: (point) => point.missed_evicted_per_second },
  { label: "below threshold", color: "--reason-10", pick: (point) => point.missed_below_threshold_per_second },
  { label: "first touch", color: "--reason-11", pick: (point) => point.missed_first_touch_per_second },
];

type MissesProps = { history: History; zoom?: (from: number, to: number) => void };

/** Misses by reason, one on the other; reasons that there were none of are left out. */
export function Misses({ history, zoom }: MissesProps) {
  const there = REASONS.filter(({ pick }) => history.points.some((point) => (pick(point) ?? 0) > 0));
  if (there.length === 0) return null;
  const { times, lines } = linesOf(history, there);
  return (
    <section class="panel" aria-label="Why reads missed">
      <Chart
        title="Why reads missed"
        times={times}
        lines={lines}
        format={perSecond}
        range={[history.from_unix_seconds, history.to_unix_seconds]}
        whole="misses"
        {...(zoom === undefined ? {} : { zoom })}
      />
    </section>
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
  whole: string | undefined;
};

/** A chart, if the subject has any such value at all. */
function Panel({ title, format, wanted, history, zoom, whole }: PanelProps) {
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
        {...(whole === undefined ? {} : { whole })}
      />
    </section>
  );
}

/** Lines with a gap where the daemon was down. */
export function linesOf(history: History, wanted: Wanted[]): { times: number[]; lines: Line[] } {
  const { times, points } = withGaps(history);
  const lines = wanted.map(({ label, color, pick }) => ({
    label,
    color,
    values: points.map((point) => (point === null ? null : (pick(point) ?? null))),
  }));
  return { times, lines };
}

/** Hit ratios with the same gaps. */
export function ratioOf(history: History): { times: number[]; hits: (Hits | null)[] } {
  const { times, points } = withGaps(history);
  return { times, hits: points.map((point) => (point === null ? null : hitsAt(point))) };
}

/** Null: the daemon was down. */
function withGaps(history: History): { times: number[]; points: (HistoryPoint | null)[] } {
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
  return { times, points };
}
