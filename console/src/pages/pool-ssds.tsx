// The SSDs of a pool with what the daemon and the kernel know of each.
import { call } from "../api/client";
import type { Disk, Pool, Ssd } from "../api/types";
import { bytes, count, NOTHING } from "../format";
import { usePolled } from "../store";
import { Badge, Meter, Path } from "../ui/basics";
import { type Column, Table } from "../ui/table";
import { ssdHealth, word } from "../words";

/** What disks are changes when someone plugs one. */
const RELOAD_MS = 30_000;

export function Ssds({ pool }: { pool: Pool }) {
  const paths = pool.ssds.map((ssd) => ssd.path).join();
  const disks = usePolled(async (signal) => (await call("get", "/api/v1/disks", { signal })).disks, paths, RELOAD_MS);
  const diskOf = (ssd: Ssd) => disks.value?.find((disk) => disk.path === ssd.path) ?? null;
  const columns: Column<Ssd>[] = [
    {
      head: "SSD",
      cell: (ssd) => (
        <span class="text">
          <Path text={ssd.path} />
          {ssd.reason !== "" && <small>{ssd.reason}</small>}
        </span>
      ),
    },
    { head: "Status", cell: (ssd) => <Badge word={word(ssd.state)} /> },
    { head: "Health", cell: (ssd) => <Badge word={ssdHealth(ssd)} /> },
    { head: "Capacity", numeric: true, cell: (ssd) => bytes(ssd.size_bytes) },
    { head: "Disk", cell: (ssd) => what(diskOf(ssd)) },
    {
      head: "Used",
      numeric: true,
      cell: (ssd) => <Meter label="Slots in use" value={ssd.slots_used} max={ssd.slots} />,
    },
    {
      head: "Written",
      numeric: true,
      help: "By Hotset, since the SSD is in the pool",
      cell: (ssd) => bytes(ssd.written_bytes),
    },
    { head: "Read errors", numeric: true, help: "That hosts never saw", cell: (ssd) => count(ssd.read_errors) },
  ];
  return (
    <Table
      caption={`SSDs of pool ${pool.name}`}
      rows={pool.ssds}
      rowKey={(ssd) => ssd.uuid || ssd.path}
      empty="Its SSDs are not known while it is not open."
      columns={columns}
    />
  );
}

/** Manufacturer, model, and how it is attached. */
function what(disk: Disk | null): string {
  if (disk === null) return "image file";
  const words = [disk.manufacturer, disk.model, disk.transport, disk.rotational === true ? "spinning" : ""];
  return words.filter((part) => part !== "").join(" ") || NOTHING;
}
