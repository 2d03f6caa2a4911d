// The first page: is all well, what needs action, what is it doing, what is at risk.
import type { Status } from "../api/types";
import { bytes, bytesPerSecond, count, duration, NOTHING, percent, plural } from "../format";
import { series, status } from "../live";
import { newest, type Rate, type Series } from "../rates";
import { link } from "../router";
import { useStore } from "../store";
import { Badge, Heading, Mark, Meter } from "../ui/basics";
import { Chart, type Line } from "../ui/chart";
import { Table } from "../ui/table";
import { health, type Tone, volumeHealth, word } from "../words";
import { type Latency, LatencyChart, LatencyFigure, useLatency } from "./overview-latency";

/** What the live charts show: what there is, within these limits. */
const SHOWN_SECONDS_MIN = 60;
const SHOWN_SECONDS_MAX = 300;

export function Overview() {
  const known = useStore(status);
  const rates = useStore(series);
  const latencies = useLatency(known?.volumes ?? []);
  if (known === null) return null;
  const now = newest(rates, "");
  const last = rates.times.at(-1) ?? Date.now() / 1000;
  const first = rates.times[0] ?? last;
  const range: [number, number] = [Math.max(Math.min(first, last - SHOWN_SECONDS_MIN), last - SHOWN_SECONDS_MAX), last];
  return (
    <>
      <Heading title="Overview" />
      <HealthPanel status={known} />
      <Figures status={known} now={now} latency={latencies} />
      <div class="grid">
        <section class="panel" aria-label="IOPS">
          <Chart
            title="IOPS"
            times={rates.times}
            range={range}
            format={count}
            lines={[
              line(rates, "reads", "--series-1", (rate) => rate.readsPerSecond),
              line(rates, "writes", "--series-2", (rate) => rate.writesPerSecond),
            ]}
          />
        </section>
        <section class="panel" aria-label="Hit ratio">
          <Chart
            title="Hit ratio"
            times={rates.times}
            range={range}
            format={percent}
            max={1}
            lines={[line(rates, "of reads", "--series-3", (rate) => rate.hitRatio)]}
          />
        </section>
        <LatencyChart of={latencies} />
      </div>
      <VolumesNow status={known} rates={rates} />
    </>
  );
}

/** One line of a chart: one number of each rate of all volumes together. */
function line(rates: Series, label: string, color: string, pick: (rate: Rate) => number | null): Line {
  const values = rates.rates.map((at) => {
    const rate = at.get("");
    return rate === undefined ? null : pick(rate);
  });
  return { label, color, values };
}

function HealthPanel({ status }: { status: Status }) {
  const tone: Tone = status.health === "good" && status.reasons.length > 0 ? "warning" : health(status.health).tone;
  return (
    <section class={`notice health ${tone}`} aria-label="Health">
      <Mark tone={tone} />
      <div>
        <div aria-live="polite">
          <h2>{sentence(status)}</h2>
        </div>
        {status.reasons.length > 0 && (
          <ul>
            {status.reasons.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        )}
      </div>
    </section>
  );
}

function sentence(status: Status): string {
  const pools = plural(status.pools.length, "cache pool");
  const volumes = plural(status.volumes.length, "volume");
  switch (status.health) {
    case "good":
      if (status.pools.length + status.volumes.length === 0) return "Ready: there is no cache pool and no volume yet.";
      if (status.reasons.length > 0) return `Good: ${pools} and ${volumes} work. To know:`;
      return `Good: ${pools} and ${volumes} work as they should.`;
    case "degraded":
      return "Degraded: hosts are served, and something needs you:";
    case "failed":
      return "Failed: something does not work, and needs you now:";
  }
}

function Figures({ status, now, latency }: { status: Status; now: Rate | null; latency: Latency | null }) {
  const used = status.pools.reduce((sum, pool) => sum + pool.used_bytes, 0);
  const capacity = status.pools.reduce((sum, pool) => sum + pool.capacity_bytes, 0);
  const share = capacity === 0 ? "" : ` (${percent(used / capacity)})`;
  return (
    <dl class="figures">
      <div>
        <dt>IOPS</dt>
        <dd>
          {now === null ? NOTHING : count(now.readsPerSecond + now.writesPerSecond)}
          <small>{now === null ? "" : bytesPerSecond(now.readBytesPerSecond + now.writeBytesPerSecond)}</small>
        </dd>
      </div>
      <div>
        <dt>Hit ratio of reads</dt>
        <dd>
          {now === null || now.hitRatio === null ? NOTHING : percent(now.hitRatio)}
          <small>{now !== null && now.hitRatio === null ? "no reads now" : ""}</small>
        </dd>
      </div>
      <div>
        <LatencyFigure of={latency} />
      </div>
      <div>
        <dt>Data at risk now</dt>
        <dd>
          {bytes(status.dirty_bytes)}
          <small>{risk(status)}</small>
        </dd>
      </div>
      <div>
        <dt>Cache used</dt>
        <dd>
          {bytes(used)}
          <small>
            of {bytes(capacity)}
            {share}
          </small>
        </dd>
      </div>
      <div>
        <dt>Memory of tables</dt>
        <dd>
          {bytes(status.memory_in_use_bytes)}
          <small>of {bytes(status.memory_limit_bytes)}</small>
        </dd>
      </div>
    </dl>
  );
}

function risk(status: Status): string {
  if (status.dirty_bytes === 0) return "all is on the backing devices";
  const age = status.oldest_dirty_seconds;
  return typeof age === "number" ? `only on SSDs; oldest ${duration(age)}` : "only on SSDs";
}

function VolumesNow({ status, rates }: { status: Status; rates: Series }) {
  return (
    <section class="panel">
      <header>
        <h2>Volumes now</h2>
      </header>
      <Table
        caption="Volumes now"
        rows={status.volumes}
        rowKey={(volume) => volume.name}
        empty={
          <>
            No volumes yet. <a href={link("volumes", "", { dialog: "create" })}>Create a volume</a> on a block device or
            file.
          </>
        }
        columns={[
          { head: "Name", cell: (volume) => <a href={link("volumes", volume.name)}>{volume.name}</a> },
          { head: "Status", cell: (volume) => <Badge word={word(volume.state)} /> },
          { head: "Health", cell: (volume) => <Badge word={volumeHealth(volume)} /> },
          {
            head: "Read IOPS",
            numeric: true,
            cell: (volume) => rate(rates, volume.name, (now) => count(now.readsPerSecond)),
          },
          {
            head: "Write IOPS",
            numeric: true,
            cell: (volume) => rate(rates, volume.name, (now) => count(now.writesPerSecond)),
          },
          {
            head: "Throughput",
            numeric: true,
            cell: (volume) =>
              rate(rates, volume.name, (now) => bytesPerSecond(now.readBytesPerSecond + now.writeBytesPerSecond)),
          },
          {
            head: "Hit ratio",
            numeric: true,
            cell: (volume) =>
              rate(rates, volume.name, (now) => (now.hitRatio === null ? NOTHING : percent(now.hitRatio))),
          },
          {
            head: "Cache used",
            numeric: true,
            cell: (volume) => (
              <span class="beside">
                {bytes(volume.cache_used_bytes)}
                <Meter label="Cached part of the volume" value={volume.cache_used_bytes} max={volume.size_bytes} />
              </span>
            ),
          },
        ]}
      />
    </section>
  );
}

function rate(rates: Series, volume: string, say: (rate: Rate) => string): string {
  const now = newest(rates, volume);
  return now === null ? NOTHING : say(now);
}
