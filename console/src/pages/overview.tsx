// The first page: is all well, what needs action, what is it doing, what is at risk.
import type { Status } from "../api/types";
import { bytes, bytesPerSecond, count, duration, latency, NOTHING, percent } from "../format";
import { type Hits, whereHit } from "../hits";
import { series, status } from "../live";
import { type Latency, LIVE_SECONDS, newest, type Rate, type Series } from "../rates";
import { link } from "../router";
import { useStore } from "../store";
import { Badge, Empty, type Figure, Figures, Heading, Meter } from "../ui/basics";
import { Chart, type Line } from "../ui/chart";
import { Table } from "../ui/table";
import { word } from "../words";
import { CACHE_COLUMNS } from "./cache-columns";
import { HitChart } from "./hit-chart";
import { HealthPanel } from "./overview-health";

/** The live charts show what there is, but so much at least. */
const SHOWN_SECONDS_MIN = 60;

export function Overview() {
  const known = useStore(status);
  const rates = useStore(series);
  if (known === null) return null;
  if (known.pools.length + known.volumes.length === 0) return <FirstSteps status={known} />;
  const now = newest(rates, "");
  const last = rates.times.at(-1) ?? Date.now() / 1000;
  const first = rates.times[0] ?? last;
  const range: [number, number] = [Math.max(Math.min(first, last - SHOWN_SECONDS_MIN), last - LIVE_SECONDS), last];
  return (
    <>
      <Heading title="Overview" />
      <HealthPanel status={known} />
      <Now status={known} now={now} />
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
        <section class="panel" aria-label="Hit ratio of reads">
          <HitChart times={rates.times} range={range} hits={rates.rates.map((at) => at.get("")?.hits ?? null)} />
        </section>
        <section class="panel" aria-label="Latency">
          <Chart
            title="Latency, median"
            times={rates.times}
            range={range}
            format={latency}
            lines={[
              line(rates, "reads", "--series-1", (rate) => rate.readLatency?.median ?? null),
              line(rates, "writes", "--series-2", (rate) => rate.writeLatency?.median ?? null),
            ]}
          />
        </section>
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

function Now({ status, now }: { status: Status; now: Rate | null }) {
  const used = status.pools.reduce((sum, pool) => sum + pool.used_bytes, 0);
  const capacity = status.pools.reduce((sum, pool) => sum + pool.capacity_bytes, 0);
  const share = capacity === 0 ? "" : ` (${percent(used / capacity)})`;
  return (
    <Figures
      figures={[
        ...loadFigures(now),
        { term: "Data at risk now", value: bytes(status.dirty_bytes), note: risk(status) },
        { term: "Cache used", value: bytes(used), note: `of ${bytes(capacity)}${share}` },
      ]}
    />
  );
}

/** What hosts do now. */
export function loadFigures(now: Rate | null): Figure[] {
  return [
    {
      term: "IOPS",
      value: now === null ? NOTHING : count(now.readsPerSecond + now.writesPerSecond),
      note: now === null ? "" : bytesPerSecond(now.readBytesPerSecond + now.writeBytesPerSecond),
    },
    hitFigure(now),
    latencyFigure("Read latency, median", now?.readLatency ?? null, "no reads now"),
    latencyFigure("Write latency, median", now?.writeLatency ?? null, "no writes now"),
  ];
}

function hitFigure(now: Rate | null): Figure {
  const term = "Hit ratio of reads";
  if (now === null) return { term, value: NOTHING };
  if (now.hits === null) return { term, value: NOTHING, note: "no reads now" };
  return { term, value: percent(now.hits.all), note: whereHit(now.hits).join(", ") };
}

/** Median and tail of the last seconds. */
function latencyFigure(term: string, of: Latency | null, none: string): Figure {
  if (of === null) return { term, value: NOTHING, note: none };
  return { term, value: latency(of.median), note: `99 % in ${latency(of.slowest)}` };
}

function risk(status: Status): string {
  if (status.dirty_bytes === 0) return "all is on the backing devices";
  const age = status.oldest_dirty_seconds;
  return typeof age === "number" ? `oldest ${duration(age)}` : "on SSDs only";
}

function VolumesNow({ status, rates }: { status: Status; rates: Series }) {
  return (
    <section class="panel">
      <header>
        <h2>Volumes now</h2>
      </header>
      <Table
        caption="Volumes now"
        tight
        rows={status.volumes}
        rowKey={(volume) => volume.name}
        empty={
          <Empty title="No volumes yet">
            A volume is what hosts connect to. <a href={link("volumes", "", { dialog: "create" })}>Create a volume</a>{" "}
            on a block device or file.
          </Empty>
        }
        columns={[
          { head: "Name", cell: (volume) => <a href={link("volumes", volume.name)}>{volume.name}</a> },
          { head: "Status", cell: (volume) => <Badge word={word(volume.state)} /> },
          ...CACHE_COLUMNS,
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
            cell: (volume) => hitCell(newest(rates, volume.name)?.hits ?? null),
          },
          {
            head: "Read latency",
            numeric: true,
            help: "Median of the last seconds",
            cell: (volume) =>
              rate(rates, volume.name, (now) => (now.readLatency === null ? NOTHING : latency(now.readLatency.median))),
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

function hitCell(hits: Hits | null) {
  if (hits === null) return NOTHING;
  const [memory, ssds] = whereHit(hits);
  return (
    <span class="noted">
      {percent(hits.all)}
      <small>
        {memory}, <br />
        {ssds}
      </small>
    </span>
  );
}

function rate(rates: Series, volume: string, say: (rate: Rate) => string): string {
  const now = newest(rates, volume);
  return now === null ? NOTHING : say(now);
}

/** Nothing is there yet: what to do, in order. */
function FirstSteps({ status }: { status: Status }) {
  return (
    <>
      <Heading title="Overview" />
      <HealthPanel status={status} />
      <section class="panel" aria-labelledby="first-steps">
        <header>
          <h2 id="first-steps">First steps</h2>
        </header>
        <ol class="first-steps">
          <li>
            <strong>
              <a href={link("create-pool")}>Create a cache pool</a>
            </strong>
            <span>from SSDs of this machine, or from image files.</span>
          </li>
          <li>
            <strong>
              <a href={link("volumes", "", { dialog: "create" })}>Create a volume</a>
            </strong>
            <span>
              on the slow block device or file that it shall speed up. Its data stays as it is and where it is.
            </span>
          </li>
          <li>
            <strong>Connect a host</strong>
            <span>by the commands that the volume's page shows, for Linux, QEMU and libvirt.</span>
          </li>
        </ol>
      </section>
    </>
  );
}
