// The disks that work for a pool or a volume, side by side: its SSDs and its backing devices.
import { call } from "../api/client";
import type { HistoryPoint, Status } from "../api/types";
import { bytesPerSecond, count, NOTHING } from "../format";
import { usePolled } from "../store";
import { Table } from "../ui/table";
import { ALL } from "./statistics-frame";

const REFRESH_MS = 30_000;

type Row = { kind: "SSD" | "HDD"; path: string; subject: string; point: HistoryPoint | null };

export function Disks({ subject, status }: { subject: string; status: Status }) {
  const wanted = disksOf(subject, status);
  const rows = usePolled(
    (signal) => Promise.all(wanted.map(async (row) => ({ ...row, point: await newest(row.subject, signal) }))),
    wanted.map((row) => row.subject).join(),
    REFRESH_MS,
  );
  return (
    <section class="panel" aria-labelledby="disks">
      <header>
        <h2 id="disks">Disks now</h2>
        <span class="muted">the newest sample, of 30 s</span>
      </header>
      <Table
        caption="Disks now"
        rows={rows.value ?? wanted}
        rowKey={(row) => row.subject}
        empty="No disks."
        columns={[
          { head: "Disk", cell: (row) => <span class="path text">{row.path}</span> },
          { head: "Kind", help: "HDD: a backing device, whatever it is made of", cell: (row) => row.kind },
          {
            head: "Reads",
            numeric: true,
            cell: (row) => say(row, count, "ssd_reads_per_second", "backing_reads_per_second"),
          },
          {
            head: "Writes",
            numeric: true,
            cell: (row) => say(row, count, "ssd_writes_per_second", "backing_writes_per_second"),
          },
          {
            head: "Read",
            numeric: true,
            cell: (row) => say(row, bytesPerSecond, "ssd_read_bytes_per_second", "backing_read_bytes_per_second"),
          },
          {
            head: "Written",
            numeric: true,
            cell: (row) => say(row, bytesPerSecond, "ssd_written_bytes_per_second", "backing_written_bytes_per_second"),
          },
        ]}
      />
    </section>
  );
}

type Key = {
  [K in keyof HistoryPoint]-?: Exclude<HistoryPoint[K], null | undefined> extends number ? K : never;
}[keyof HistoryPoint];

function say(row: Row, format: (value: number) => string, ssd: Key, backing: Key): string {
  const value = row.point?.[row.kind === "SSD" ? ssd : backing];
  return typeof value === "number" ? format(value) : NOTHING;
}

async function newest(subject: string, signal: AbortSignal): Promise<HistoryPoint | null> {
  const history = await call("get", "/api/v1/history", { query: { subject, points: 1 }, signal });
  return history.current ?? null;
}

function disksOf(subject: string, status: Status): Row[] {
  const of = (one: string) => subject === ALL || subject === one;
  const volumes = status.volumes.filter(({ name, pool }) => of(`volume:${name}`) || of(`pool:${pool}`));
  const pools = status.pools.filter(({ name }) => of(`pool:${name}`) || volumes.some(({ pool }) => pool === name));
  const ssds = pools.flatMap((pool) => pool.ssds);
  return [
    ...ssds
      .filter((ssd) => ssd.uuid !== "")
      .map((ssd): Row => ({ kind: "SSD", path: ssd.path, subject: `ssd:${ssd.uuid}`, point: null })),
    ...volumes.map(
      (volume): Row => ({ kind: "HDD", path: volume.backing, subject: `volume:${volume.name}`, point: null }),
    ),
  ];
}
