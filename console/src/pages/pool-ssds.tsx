// The SSDs of a pool: where and what each is, how it is, and how long it will last.
import { useState } from "preact/hooks";
import type { Pool, Ssd } from "../api/types";
import { bytes, day, fromNow, NOTHING, percentOf } from "../format";
import { Badge, Meter } from "../ui/basics";
import { type Column, Table } from "../ui/table";
import { ssdHealth, transport, word } from "../words";
import { SsdInformation } from "./ssd-information";

export function Ssds({ pool }: { pool: Pool }) {
  const [shown, show] = useState<string | null>(null);
  const open = pool.ssds.find((ssd) => keyOf(ssd) === shown);
  return (
    <>
      <Table
        caption={`SSDs of pool ${pool.name}`}
        rows={pool.ssds}
        tight
        rowKey={keyOf}
        empty="Its SSDs are not known while it is not open."
        columns={columns((ssd) => show(keyOf(ssd)))}
      />
      {open !== undefined && <SsdInformation ssd={open} close={() => show(null)} />}
    </>
  );
}

function keyOf(ssd: Ssd): string {
  return ssd.uuid || ssd.path;
}

function columns(show: (ssd: Ssd) => void): Column<Ssd>[] {
  return [
    {
      head: "SSD",
      cell: (ssd) => (
        <span class="text short">
          <button type="button" class="link" title={ssd.path} onClick={() => show(ssd)}>
            {ssd.path.split("/").at(-1)}
          </button>
          {ssd.reason !== "" && <small>{ssd.reason}</small>}
        </span>
      ),
    },
    { head: "Status", cell: (ssd) => <Badge word={word(ssd.state)} /> },
    { head: "Health", cell: (ssd) => <Badge word={ssdHealth(ssd)} /> },
    { head: "Enclosure", cell: (ssd) => ssd.identity.enclosure || NOTHING },
    { head: "Slot", cell: (ssd) => ssd.identity.slot || NOTHING },
    { head: "Capacity", numeric: true, cell: (ssd) => (ssd.size_bytes === 0 ? NOTHING : bytes(ssd.size_bytes)) },
    { head: "Type and link", help: "Disk type, and the speed of its link as it was negotiated", cell: typeAndLink },
    { head: "Manufacturer", cell: (ssd) => ssd.identity.manufacturer || NOTHING },
    { head: "Model", cell: model },
    { head: "Wear", numeric: true, help: "Of the writes that it was made for, by its own word", cell: wear },
    {
      head: "Written",
      numeric: true,
      help: "By Hotset, over all starts",
      cell: (ssd) => bytes(ssd.smart.cache_written_bytes),
    },
    { head: "End of life", help: "When it will be worn out, at the pace seen so far", cell: endOfLife },
  ];
}

function typeAndLink(ssd: Ssd): string {
  const parts = [transport(ssd.identity.transport), ssd.identity.link_speed];
  return parts.filter((part) => part !== "").join(", ") || NOTHING;
}

function model(ssd: Ssd) {
  return ssd.identity.model === "" ? NOTHING : <span class="text short">{ssd.identity.model}</span>;
}

function wear(ssd: Ssd) {
  const percent = ssd.smart.wear_percent;
  if (typeof percent !== "number") return NOTHING;
  return (
    <span class="beside">
      {percentOf(percent)}
      <Meter label="Wear" value={percent} max={100} tone={percent >= 90 ? "warning" : "plain"} />
    </span>
  );
}

function endOfLife(ssd: Ssd) {
  const at = ssd.smart.worn_out_at_unix_ms;
  if (typeof at !== "number") return NOTHING;
  const date = new Date(at);
  return <time title={day(date)}>{fromNow(date)}</time>;
}
