// Volumes: the list, and of the selected one how hosts connect to it, its cache and its settings.
import { useState } from "preact/hooks";
import type { Status, Volume } from "../api/types";
import { useReadOnly } from "../change";
import { bytes, count, percent } from "../format";
import { status } from "../live";
import { go, link, useRoute } from "../router";
import { useStore } from "../store";
import { Action, Badge, Facts, Heading, Notice, Path } from "../ui/basics";
import { Table } from "../ui/table";
import { atRisk, effectiveWriteMode, volumeHealth, word } from "../words";
import { RunningOperation, useRunning } from "./operation";
import { ConnectHosts } from "./volume-connect";
import { CreateVolume } from "./volume-create";
import { DeleteVolume, DisableCache, EnableCache } from "./volume-dialogs";
import { VolumeSettings } from "./volume-settings";

export function Volumes() {
  const known = useStore(status);
  const route = useRoute();
  const readOnly = useReadOnly();
  if (known === null) return null;
  const selected = known.volumes.find((volume) => volume.name === route.name) ?? known.volumes[0];
  return (
    <>
      <Heading title="Volumes">
        <Action
          label="Create volume"
          kind="primary"
          reason={readOnly}
          run={() => go(link("volumes", route.name, { dialog: "create" }))}
        />
      </Heading>
      <section class="panel" aria-label="All volumes">
        <Table
          caption="Volumes"
          rows={known.volumes}
          rowKey={(volume) => volume.name}
          selected={selected?.name ?? ""}
          select={(volume) => go(link("volumes", volume.name))}
          empty="No volumes yet. A volume serves a block device or file as it is and in place; hosts connect to it over NBD."
          columns={[
            { head: "Name", cell: (volume) => <a href={link("volumes", volume.name)}>{volume.name}</a> },
            { head: "Status", cell: (volume) => <Badge word={word(volume.state)} /> },
            { head: "Health", cell: (volume) => <Badge word={volumeHealth(volume)} /> },
            { head: "Capacity", numeric: true, cell: (volume) => bytes(volume.size_bytes) },
            {
              head: "Cache pool",
              cell: (volume) =>
                typeof volume.pool === "string" ? <a href={link("pools", volume.pool)}>{volume.pool}</a> : "none",
            },
            { head: "Write mode", cell: (volume) => effectiveWriteMode(volume, known.pools) },
            { head: "Cache used", numeric: true, cell: (volume) => bytes(volume.cache_used_bytes) },
            {
              head: "Data at risk now",
              numeric: true,
              cell: (volume) => atRisk(volume.dirty_bytes, volume.oldest_dirty_seconds),
            },
          ]}
        />
      </section>
      {selected !== undefined && <Selected key={selected.name} volume={selected} status={known} />}
      {route.query.get("dialog") === "create" && (
        <CreateVolume status={known} close={() => go(link("volumes", route.name))} />
      )}
    </>
  );
}

type Open = "settings" | "enable" | "disable" | "delete" | null;

function Selected({ volume, status }: { volume: Volume; status: Status }) {
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const running = useRunning("volume", volume.name);
  const readOnly = useReadOnly();
  const flushing =
    readOnly ?? (volume.state === "flushing" ? "Its dirty data is being written to the backing device." : null);
  return (
    <>
      <section class="panel" aria-labelledby="selected-volume">
        <header>
          <h2 id="selected-volume">Volume {volume.name}</h2>
          <div class="actions">
            <Action
              label="Enable cache"
              reason={flushing ?? whyNotEnable(volume, status)}
              run={() => setOpen("enable")}
            />
            <Action
              label="Disable cache"
              reason={flushing ?? (typeof volume.pool === "string" ? null : "No cache is in front of it.")}
              run={() => setOpen("disable")}
            />
            <Action label="Settings" reason={flushing} run={() => setOpen("settings")} />
            <Action label="Delete" kind="danger" reason={flushing} run={() => setOpen("delete")} />
          </div>
        </header>
        <div class="inside">
          {volume.reason !== "" && (
            <Notice tone={volume.health === "failed" ? "bad" : "warning"}>{volume.reason}</Notice>
          )}
          {volume.backing_emulated && (
            <Notice tone="quiet">
              The backing device is emulated: its speed is that of a model, not of a real array.
            </Notice>
          )}
          {running !== null && <RunningOperation operation={running} />}
          <VolumeFacts volume={volume} />
        </div>
      </section>
      <ConnectHosts volume={volume} />
      {open === "enable" && <EnableCache volume={volume} pools={status.pools} close={close} />}
      {open === "disable" && <DisableCache volume={volume} close={close} />}
      {open === "settings" && <VolumeSettings volume={volume} pools={status.pools} close={close} />}
      {open === "delete" && <DeleteVolume volume={volume} close={close} />}
    </>
  );
}

function whyNotEnable(volume: Volume, status: Status): string | null {
  if (typeof volume.pool === "string") return `Pool ${volume.pool} caches it already: disable that first.`;
  if (status.pools.length === 0) return "There is no cache pool: create one first.";
  if (volume.state === "offline") return "The volume is offline.";
  return null;
}

function VolumeFacts({ volume }: { volume: Volume }) {
  const { stats } = volume;
  return (
    <Facts
      facts={[
        ["Backing device", <Path text={volume.backing} />],
        ["Logical block", bytes(volume.logical_block_bytes)],
        ["Access", volume.read_only ? "read only" : "read and write"],
        ["Read caching", volume.read_cache ? "on" : "off"],
        ["Streams past the cache", streams(volume)],
        ["Total cache used", bytes(volume.cache_used_bytes)],
        ["Write cache used", bytes(volume.write_cache_used_bytes)],
        ["Reads", `${count(stats.reads)}, ${percent(stats.hit_ratio)} hits`],
        ["Writes", `${count(stats.writes)}, ${count(stats.write_hits)} answered by the SSDs`],
        ["Populated", bytes(stats.populated_bytes)],
        ["Evicted", `${count(stats.evicted_blocks)} blocks`],
        ["Requests answered with an error", count(stats.errors)],
        ["SSD errors that hosts did not see", count(stats.read_errors_hidden)],
      ]}
    />
  );
}

function streams(volume: Volume): string {
  const from = (cutoff: number | null | undefined) => (typeof cutoff === "number" ? `from ${bytes(cutoff)}` : "never");
  return `reads ${from(volume.read_cutoff_bytes)}, writes ${from(volume.write_cutoff_bytes)}`;
}
