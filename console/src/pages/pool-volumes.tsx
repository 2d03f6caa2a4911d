// The volumes that a pool caches.
import type { Pool, Volume } from "../api/types";
import { bytes } from "../format";
import { link } from "../router";
import { Table } from "../ui/table";
import { atRisk, effectiveWriteMode } from "../words";
import { CACHE_COLUMNS } from "./cache-columns";

export function CachedVolumes({ pool, volumes }: { pool: Pool; volumes: Volume[] }) {
  return (
    <Table
      caption={`Volumes that pool ${pool.name} caches`}
      rows={volumes.filter((volume) => volume.pool === pool.name)}
      rowKey={(volume) => volume.name}
      empty={
        <>
          None. Put this cache in front of a volume on the page <a href={link("volumes")}>Volumes</a>.
        </>
      }
      columns={[
        { head: "Volume", cell: (volume) => <a href={link("volumes", volume.name)}>{volume.name}</a> },
        ...CACHE_COLUMNS,
        { head: "Capacity", numeric: true, extra: true, cell: (volume) => bytes(volume.size_bytes) },
        { head: "Total cache used", numeric: true, cell: (volume) => bytes(volume.cache_used_bytes) },
        {
          head: "Write cache used",
          numeric: true,
          extra: true,
          cell: (volume) => bytes(volume.write_cache_used_bytes),
        },
        {
          head: "Data at risk now",
          numeric: true,
          cell: (volume) => atRisk(volume.dirty_bytes, volume.oldest_dirty_seconds),
        },
        { head: "Write mode", extra: true, cell: (volume) => effectiveWriteMode(volume) },
      ]}
    />
  );
}
