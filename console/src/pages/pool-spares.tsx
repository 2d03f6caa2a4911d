// A pool's spares.
import { call } from "../api/client";
import type { Pool, Spare } from "../api/types";
import { change, useReadOnly } from "../change";
import { bytes } from "../format";
import { Action, Badge } from "../ui/basics";
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
