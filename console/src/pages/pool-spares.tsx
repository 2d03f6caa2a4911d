// A pool's spares, and the copies that are being made: anew, or off SSDs that leave.
import { call } from "../api/client";
import type { Pool, Spare } from "../api/types";
import { change, useReadOnly } from "../change";
import { bytes, bytesPerSecond, duration } from "../format";
import { Action, Badge, Progress } from "../ui/basics";
import { Table } from "../ui/table";
import { word } from "../words";

export function Spares({ pool }: { pool: Pool }) {
  const readOnly = useReadOnly();
  const spares = pool.spares ?? [];
  if (spares.length === 0) return null;
  const free = (spare: Spare) =>
    change("The spare is free.", () =>
      call("delete", "/api/v1/pools/{name}/spares", { at: { name: pool.name }, body: { ssds: [spare.uuid] } }),
    );
  return (
    <>
      <div class="part">
        <h3>Spares</h3>
        <span class="muted">One takes over by itself when an SSD fails.</span>
      </div>
      <Table
        caption={`Spares of pool ${pool.name}`}
        rows={spares}
        rowKey={(spare) => spare.uuid}
        empty="None."
        columns={[
          {
            head: "SSD",
            cell: (spare) => (
              <span class="text short" title={spare.path}>
                {nameOf(spare)}
                {spare.reason !== "" && <small>{spare.reason}</small>}
              </span>
            ),
          },
          { head: "Status", cell: (spare) => <Badge word={word(spare.present ? "spare" : "missing")} /> },
          { head: "Capacity", numeric: true, cell: (spare) => bytes(spare.size_bytes) },
          {
            head: "Action",
            cell: (spare) => (
              <Action label={`Remove spare ${nameOf(spare)}`} kind="small" reason={readOnly} run={() => free(spare)} />
            ),
          },
        ]}
      />
    </>
  );
}

function nameOf(spare: Spare): string {
  return spare.path.split("/").at(-1) ?? spare.path;
}

export function Copies({ pool }: { pool: Pool }) {
  const readOnly = useReadOnly();
  const leaving = pool.ssds.filter((ssd) => ssd.evacuation !== null && ssd.evacuation !== undefined);
  const stay = () =>
    change("The SSDs stay.", () => call("delete", "/api/v1/pools/{name}/removal", { at: { name: pool.name } }));
  return (
    <>
      {pool.rebuild && <Copying title="Making lost copies again" progress={pool.rebuild} />}
      {leaving.map(
        (ssd) => ssd.evacuation && <Copying key={ssd.uuid} title={`Emptying ${ssd.path}`} progress={ssd.evacuation} />,
      )}
      {leaving.length > 0 && <Action label="Cancel the removal" reason={readOnly} run={stay} />}
    </>
  );
}

function Copying({ title, progress }: { title: string; progress: NonNullable<Pool["rebuild"]> }) {
  const parts = [`${bytes(progress.done_bytes)} of ${bytes(progress.total_bytes)}`];
  if (progress.bytes_per_second > 0) parts.push(bytesPerSecond(progress.bytes_per_second));
  if (typeof progress.eta_seconds === "number") parts.push(`about ${duration(progress.eta_seconds)} left`);
  return (
    <section class="operation" aria-label={title}>
      <strong>{title}</strong>
      <Progress label={title} done={progress.done_bytes} total={progress.total_bytes} />
      <p class="muted">{parts.join(" · ")}</p>
    </section>
  );
}
