// Volumes: the list, and of the selected one how hosts connect to it, its cache and its settings.
import { useState } from "preact/hooks";
import { call } from "../api/client";
import { COUNTERS } from "../api/counters";
import type { History, Status, Volume, VolumeStats } from "../api/types";
import { useReadOnly } from "../change";
import { bytes, count, duration, moment, percent } from "../format";
import { hitsOf } from "../hits";
import { series, status } from "../live";
import { newest } from "../rates";
import { go, link, useRoute } from "../router";
import { usePolled, useStore } from "../store";
import { Action, Badge, Empty, Facts, Figures, Heading, Notice, Path, ToDo } from "../ui/basics";
import { Table } from "../ui/table";
import { atRisk, effectiveWriteMode, localDevice, usedBy, word } from "../words";
import { CACHE_COLUMNS } from "./cache-columns";
import { FlushNow, releaseWrites } from "./flush-now";
import { Gone } from "./gone";
import { RunningOperation, useRunning } from "./operation";
import { loadFigures } from "./overview";
import { spelledShare } from "./sizes";
import { Misses } from "./statistics-charts";
import { ConnectHosts } from "./volume-connect";
import { CreateVolume } from "./volume-create";
import { ClearVolume, DeleteVolume, DisableCache, EnableCache, GrowVolume, RenameVolume } from "./volume-dialogs";
import { VolumeSettings } from "./volume-settings";

export function Volumes() {
  const known = useStore(status);
  const route = useRoute();
  const readOnly = useReadOnly();
  const [find, setFind] = useState("");
  if (known === null) return null;
  const selected = route.name === "" ? known.volumes[0] : known.volumes.find((volume) => volume.name === route.name);
  const wanted = find.trim().toLowerCase();
  const shown = known.volumes.filter((volume) => `${volume.name} ${volume.pool ?? ""}`.toLowerCase().includes(wanted));
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
        {known.volumes.length > MANY && (
          <div class="find">
            <input
              type="search"
              aria-label="Find volumes by name or pool"
              placeholder="Find by name or pool"
              value={find}
              onInput={(event) => setFind(event.currentTarget.value)}
            />
          </div>
        )}
        <Table
          caption="Volumes"
          bounded
          rows={shown}
          rowKey={(volume) => volume.name}
          selected={selected?.name ?? ""}
          select={(volume) => go(link("volumes", volume.name))}
          empty={
            known.volumes.length > 0 ? (
              "No such volume."
            ) : (
              <Empty title="No volumes yet">
                A volume serves a block device or file as it is and in place; hosts connect to it over NBD.{" "}
                {readOnly === null && (
                  <>
                    <a href={link("volumes", "", { dialog: "create" })}>Create one</a>, then put a cache pool in front
                    of it.
                  </>
                )}
              </Empty>
            )
          }
          columns={[
            { head: "Name", cell: (volume) => <a href={link("volumes", volume.name)}>{volume.name}</a> },
            { head: "Status", cell: (volume) => <Badge word={word(volume.state)} /> },
            ...CACHE_COLUMNS,
            { head: "Capacity", numeric: true, extra: true, cell: (volume) => bytes(volume.size_bytes) },
            {
              head: "Cache pool",
              cell: (volume) =>
                typeof volume.pool === "string" ? <a href={link("pools", volume.pool)}>{volume.pool}</a> : "none",
            },
            { head: "Write mode", extra: true, cell: (volume) => effectiveWriteMode(volume) },
            { head: "Cache used", numeric: true, extra: true, cell: (volume) => bytes(volume.cache_used_bytes) },
            {
              head: "Data at risk now",
              numeric: true,
              cell: (volume) => atRisk(volume.dirty_bytes, volume.oldest_dirty_seconds),
            },
          ]}
        />
      </section>
      {selected !== undefined && <Selected key={selected.name} volume={selected} status={known} />}
      {selected === undefined && route.name !== "" && <Gone kind="volume" name={route.name} />}
      {route.query.get("dialog") === "create" && (
        <CreateVolume status={known} close={() => go(link("volumes", route.name))} />
      )}
    </>
  );
}

/** From so many on they are searched for. */
const MANY = 10;

type Open = "flush" | "settings" | "rename" | "grow" | "clear" | "enable" | "disable" | "delete" | null;

function Selected({ volume, status }: { volume: Volume; status: Status }) {
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const running = useRunning("volume", volume.name);
  const readOnly = useReadOnly();
  const flushing =
    readOnly ?? (volume.state === "flushing" ? "Its dirty data is being written to the backing device." : null);
  const offline = flushing ?? (volume.state === "offline" ? "The volume is offline: bring it back first." : null);
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
            <Action
              label="Flush now"
              reason={offline ?? (running.some((one) => one.kind === "flush-volume") ? "It is being flushed." : null)}
              run={() => setOpen("flush")}
            />
            {volume.writes_held && (
              <Action label="Release writes" reason={readOnly} run={() => releaseWrites(volume.name)} />
            )}
            <Action label="Settings" reason={offline} run={() => setOpen("settings")} />
            <Action label="Rename" reason={offline} run={() => setOpen("rename")} />
            <Action label="Grow" reason={offline} run={() => setOpen("grow")} />
            <Action label="Clear" reason={offline} run={() => setOpen("clear")} />
            <Action label="Delete" kind="danger" reason={flushing} run={() => setOpen("delete")} />
          </div>
        </header>
        <Now volume={volume} />
        <div class="inside">
          {volume.reason !== "" && (
            <Notice tone={volume.health === "failed" ? "bad" : "warning"}>
              {volume.reason}
              <ToDo action={volume.action} />
            </Notice>
          )}
          {volume.writes_held && (
            <Notice tone="quiet">
              Writes go to the backing device since {moment(new Date(volume.writes_held.since_unix_ms))}, as{" "}
              {volume.writes_held.by} asked for: nothing new stays dirty until they are released.
            </Notice>
          )}
          {volume.backing_emulated && (
            <Notice tone="quiet">
              The backing device is emulated: its speed is that of a model, not of a real array.
            </Notice>
          )}
          {running.map((operation) => (
            <RunningOperation key={operation.id} operation={operation} />
          ))}
          <VolumeFacts volume={volume} />
        </div>
      </section>
      <WhyNot volume={volume} />
      <ConnectHosts volume={volume} />
      {open === "flush" && <FlushNow what="volume" name={volume.name} close={close} />}
      {open === "enable" && <EnableCache volume={volume} pools={status.pools} close={close} />}
      {open === "disable" && <DisableCache volume={volume} close={close} />}
      {open === "settings" && <VolumeSettings volume={volume} pools={status.pools} close={close} />}
      {open === "rename" && <RenameVolume volume={volume} volumes={status.volumes} close={close} />}
      {open === "grow" && <GrowVolume volume={volume} close={close} />}
      {open === "clear" && <ClearVolume volume={volume} close={close} />}
      {open === "delete" && <DeleteVolume volume={volume} close={close} />}
    </>
  );
}

/** As often as the daemon samples. */
const SAMPLED_MS = 30_000;
const HOURS = 4 * 3600;

/** Why reads of the last hours were not answered from the cache. */
function WhyNot({ volume }: { volume: Volume }) {
  const history = usePolled<History>(
    (signal) => {
      const to = Math.floor(Date.now() / 1000);
      const query = { subject: `volume:${volume.name}`, from: to - HOURS, to, points: 240 };
      return call("get", "/api/v1/history", { query, signal });
    },
    volume.name,
    SAMPLED_MS,
  );
  return history.value === null ? null : <Misses history={history.value} />;
}

function whyNotEnable(volume: Volume, status: Status): string | null {
  if (typeof volume.pool === "string") return `Pool ${volume.pool} caches it already: disable that first.`;
  if (status.pools.length === 0) return "There is no cache pool: create one first.";
  if (volume.state === "offline") return "The volume is offline.";
  return null;
}

/** What it does at this moment. */
function Now({ volume }: { volume: Volume }) {
  const now = newest(useStore(series), volume.name);
  const share = volume.size_bytes === 0 ? 0 : volume.cache_used_bytes / volume.size_bytes;
  return (
    <Figures
      figures={[
        ...loadFigures(now),
        { term: "Cache used", value: bytes(volume.cache_used_bytes), note: `${percent(share)} of the volume` },
        {
          term: "Data at risk now",
          value: bytes(volume.dirty_bytes),
          note:
            typeof volume.oldest_dirty_seconds === "number"
              ? `oldest ${duration(volume.oldest_dirty_seconds)}`
              : "all is on the backing device",
        },
      ]}
    />
  );
}

function VolumeFacts({ volume }: { volume: Volume }) {
  return (
    <Facts
      facts={[
        ["Backing device", <Path text={volume.backing} />, "wide"],
        ["Capacity", bytes(volume.size_bytes)],
        ["Write mode", effectiveWriteMode(volume)],
        ["Logical block", bytes(volume.logical_block_bytes)],
        ["Access", volume.read_only ? "read only" : "read and write"],
        ["Local device", localDevice(volume), "wide"],
        ["Used by", usedBy(volume), "wide"],
        ["Read caching", volume.read_cache ? "on" : "off"],
        ["Memory cache", volume.memory_cache ? "on" : "off"],
        ["Read-ahead", volume.read_ahead ? "auto" : "off"],
        ["Streams past the cache", streams(volume)],
        ["Share of the cache", shares(volume)],
        ["Write cache used", bytes(volume.write_cache_used_bytes)],
        ["Hits and misses", reads(volume), "wide"],
        ...counted(volume.stats),
      ]}
    />
  );
}

/** All that is counted, by the table of counters: those with the same caption in one line. */
function counted(stats: VolumeStats): [string, string][] {
  const lines = new Map<string, string>();
  for (const { name, bytes: inBytes, shown } of COUNTERS) {
    if ("missed" in shown) continue;
    const said = shown.said.replace("{}", inBytes ? bytes(stats[name]) : count(stats[name]));
    const beside = name === "memory_hits" ? `, ${count(ssdHits(stats))} on SSDs` : "";
    lines.set(shown.caption, (lines.get(shown.caption) ?? "") + said + beside);
  }
  const missed = COUNTERS.flatMap(({ name, shown }) =>
    "missed" in shown && stats[name] > 0 ? [{ count: stats[name], reason: shown.missed }] : [],
  );
  missed.sort((one, other) => other.count - one.count);
  const reasons = missed.map((each) => `${count(each.count)} ${each.reason}`);
  return [["Why they missed", reasons.join(", ") || "none yet"], ...lines];
}

/** Hits and misses are all reads. */
function reads({ stats }: Volume): string {
  const hits = hitsOf(stats.reads, stats.read_hits, stats.memory_hits);
  if (hits === null) return "none yet";
  const part = (value: number, what: string, ratio: number) => `${count(value)} ${what} (${percent(ratio)})`;
  const where = [part(stats.memory_hits, "in memory", hits.memory), part(ssdHits(stats), "on SSDs", hits.ssds)];
  const told = [part(stats.read_hits, "hits", hits.all), ...where].join(", ");
  return `${count(stats.reads)}: ${told}; ${count(stats.reads - stats.read_hits)} misses`;
}

function ssdHits(stats: VolumeStats): number {
  return Math.max(0, stats.read_hits - stats.memory_hits);
}

function shares(volume: Volume): string {
  const { cache_min, cache_max } = volume;
  const dirty_cap = volume.pool_type === "read-write" ? volume.dirty_cap : null;
  const set = [
    cache_min ? `keeps ${spelledShare(cache_min)}` : "",
    cache_max ? `at most ${spelledShare(cache_max)}` : "",
    dirty_cap ? `dirty at most ${spelledShare(dirty_cap)}` : "",
  ];
  return set.filter((part) => part !== "").join(", ") || "as much as it needs";
}

function streams(volume: Volume): string {
  const from = (cutoff: number | null | undefined) => (typeof cutoff === "number" ? `from ${bytes(cutoff)}` : "never");
  return `reads ${from(volume.read_cutoff_bytes)}, writes ${from(volume.write_cutoff_bytes)}`;
}
