// Latency on the first page: of the volume that hosts use most, as the daemon samples it.
import { call } from "../api/client";
import type { History, HistoryPoint, Volume } from "../api/types";
import { latency, NOTHING } from "../format";
import { usePolled } from "../store";
import { Chart } from "../ui/chart";
import { latencies, linesOf } from "./statistics-charts";

export type Latency = { volume: string; history: History };

const REFRESH_MS = 30_000;
/** What the chart shows: one sample is of 30 s. */
const SHOWN_SECONDS = 1800;

export function useLatency(volumes: Volume[]): Latency | null {
  const busiest = volumes.toSorted((a, b) => requests(b) - requests(a))[0]?.name ?? null;
  const { value } = usePolled(
    async (signal) => {
      if (busiest === null) return null;
      const to = Math.floor(Date.now() / 1000);
      const query = { subject: `volume:${busiest}`, from: to - SHOWN_SECONDS, to };
      return { volume: busiest, history: await call("get", "/api/v1/history", { query, signal }) };
    },
    String(busiest),
    REFRESH_MS,
  );
  return value;
}

function requests(volume: Volume): number {
  return volume.stats.reads + volume.stats.writes;
}

export function LatencyChart({ of }: { of: Latency | null }) {
  const reads = (point: HistoryPoint) => point.read_latency;
  const { times, lines } = of === null ? { times: [], lines: [] } : linesOf(of.history, latencies(reads));
  const range: [number, number] | undefined =
    of === null ? undefined : [of.history.from_unix_seconds, of.history.to_unix_seconds];
  return (
    <section class="panel" aria-label="Latency">
      <Chart
        title={of === null ? "Read latency" : `Read latency of ${of.volume}`}
        times={times}
        lines={lines}
        format={latency}
        {...(range === undefined ? {} : { range })}
      />
    </section>
  );
}

/** The newest sample, in words. */
export function LatencyFigure({ of }: { of: Latency | null }) {
  const now = of?.history.current;
  const worst = now?.read_latency ?? now?.write_latency;
  if (of === null || worst === null || worst === undefined) {
    return (
      <>
        <dt>Latency, median</dt>
        <dd>
          {NOTHING}
          <small>sampled every 30 s</small>
        </dd>
      </>
    );
  }
  const what = now?.read_latency === null || now?.read_latency === undefined ? "writes" : "reads";
  return (
    <>
      <dt>
        Latency of {what}, {of.volume}
      </dt>
      <dd>
        {latency(worst.p50_microseconds * 1000)}
        <small>median; 99 % within {latency(worst.p99_microseconds * 1000)}</small>
      </dd>
    </>
  );
}
