// How the cache became warm: hit ratio and IOPS since it was put in front of the volume.
import { call } from "../api/client";
import { count, duration } from "../format";
import { usePolled } from "../store";
import { Chart } from "../ui/chart";
import { HitChart } from "./hit-chart";
import { linesOf, ratioOf } from "./statistics-charts";

const REFRESH_MS = 30_000;
/** As many points as a chart has pixels to show. */
const POINTS = 600;

export function WarmUp({ subject, since }: { subject: string; since: number | null }) {
  const history = usePolled(
    async (signal) => {
      if (since === null) return null;
      const from = Math.min(since, Math.floor(Date.now() / 1000) - REFRESH_MS / 1000);
      const query = { subject, from, points: POINTS };
      return call("get", "/api/v1/history", { query, signal });
    },
    `${subject} ${since}`,
    REFRESH_MS,
  );
  if (history.value === null || history.value.points.length === 0 || since === null) return null;
  const reads = linesOf(history.value, [
    { label: "reads", color: "--series-1", pick: (point) => point.reads_per_second },
  ]);
  const range: [number, number] = [since, history.value.to_unix_seconds];
  return (
    <section class="panel" aria-labelledby="warm-up">
      <header>
        <h2 id="warm-up">Warm-up</h2>
        <span class="muted">
          since the cache was enabled, {duration(Math.max(0, history.value.to_unix_seconds - since))} ago
        </span>
      </header>
      <div class="grid halves">
        <HitChart {...ratioOf(history.value)} range={range} />
        <Chart title="Read IOPS" times={reads.times} lines={reads.lines} format={count} range={range} />
      </div>
    </section>
  );
}
