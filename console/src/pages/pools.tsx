// Cache pools: the list, and of the selected one its SSDs, its volumes and what can be done with it.
import { useState } from "preact/hooks";
import type { Operation, Pool, Status } from "../api/types";
import { begin, useReadOnly } from "../change";
import { bytes, duration, percent, plural } from "../format";
import { status } from "../live";
import { go, link, useRoute } from "../router";
import { useStore } from "../store";
import { Action, Badge, Empty, Facts, type Figure, Figures, Heading, Meter, Notice, ToDo } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { Table } from "../ui/table";
import { atRisk, cacheType, eviction, health, ioType, raid, scrubbed, threshold, word } from "../words";
import { FlushNow } from "./flush-now";
import { Gone } from "./gone";
import { RunningOperation, useRunning } from "./operation";
import { ConvertPool } from "./pool-convert";
import { DeletePool } from "./pool-delete";
import { AddSsds, RemoveSsds } from "./pool-members";
import { PoolSettings } from "./pool-settings";
import { Spares } from "./pool-spares";
import { Ssds } from "./pool-ssds";
import { CachedVolumes } from "./pool-volumes";
import { spelledSize } from "./sizes";

export function Pools() {
  const known = useStore(status);
  const route = useRoute();
  const readOnly = useReadOnly();
  if (known === null) return null;
  const selected = route.name === "" ? known.pools[0] : known.pools.find((pool) => pool.name === route.name);
  return (
    <>
      <Heading title="Cache pools">
        <Action label="Create pool" kind="primary" reason={readOnly} run={() => go(link("create-pool"))} />
      </Heading>
      <section class="panel" aria-label="All cache pools">
        <Table
          caption="Cache pools"
          bounded
          rows={known.pools}
          rowKey={(pool) => pool.name}
          selected={selected?.name ?? ""}
          select={(pool) => go(link("pools", pool.name))}
          empty={
            <Empty title="No cache pools yet">
              A cache pool is a group of SSDs that speeds up one or more volumes.{" "}
              {readOnly === null && (
                <>
                  <a href={link("create-pool")}>Create one</a> from the SSDs of this machine.
                </>
              )}
            </Empty>
          }
          columns={[
            { head: "Name", cell: (pool) => <a href={link("pools", pool.name)}>{pool.name}</a> },
            { head: "Status", cell: (pool) => <Badge word={word(pool.state)} /> },
            { head: "Health", cell: (pool) => <Badge word={health(pool.health)} /> },
            { head: "Total", numeric: true, cell: (pool) => bytes(pool.capacity_bytes) },
            {
              head: "Used",
              numeric: true,
              cell: (pool) => (
                <span class="beside">
                  {percent(pool.capacity_bytes === 0 ? 0 : pool.used_bytes / pool.capacity_bytes)}
                  <Meter label="Used" value={pool.used_bytes} max={pool.capacity_bytes} />
                </span>
              ),
            },
            { head: "Cache type", extra: true, cell: (pool) => cacheType(pool.type) },
            {
              head: "RAID",
              extra: true,
              help: "NRAID+: no redundancy, clean data only. NRAID 1+: dirty data on two SSDs.",
              cell: (pool) => raid(pool.type),
            },
            { head: "I/O type", extra: true, cell: (pool) => ioType(pool.io_type) },
            { head: "Volumes", numeric: true, cell: (pool) => pool.volumes.length },
          ]}
        />
      </section>
      {selected !== undefined && <Selected key={selected.name} pool={selected} status={known} />}
      {selected === undefined && route.name !== "" && <Gone kind="pool" name={route.name} />}
    </>
  );
}

type Kind = Operation["kind"];

type Open = "flush" | "add" | "remove" | "spares" | "settings" | "convert" | "information" | "delete" | null;

function Selected({ pool, status }: { pool: Pool; status: Status }) {
  const [open, setOpen] = useState<Open>(null);
  const close = () => setOpen(null);
  const operations = useRunning("pool", pool.name);
  const running = operations.map((operation) => operation.kind);
  const readOnly = useReadOnly();
  return (
    <section class="panel" aria-labelledby="selected-pool">
      <header>
        <h2 id="selected-pool">Pool {pool.name}</h2>
        <div class="actions">
          <Action label="Add SSDs" reason={readOnly ?? whyNoSettings(pool, running)} run={() => setOpen("add")} />
          <Action label="Remove SSDs" reason={readOnly ?? whyNoRemoval(pool, running)} run={() => setOpen("remove")} />
          <Action label="Add spares" reason={readOnly ?? whyNoSettings(pool, running)} run={() => setOpen("spares")} />
          <Action label="Flush now" reason={readOnly ?? whyNoFlush(pool, running)} run={() => setOpen("flush")} />
          <Action label="Scrub" reason={readOnly ?? whyNoScrub(pool, running)} run={() => startScrub(pool)} />
          <Action label="Settings" reason={readOnly ?? whyNoSettings(pool, running)} run={() => setOpen("settings")} />
          <Action label="Convert" reason={readOnly ?? whyNoConversion(pool, running)} run={() => setOpen("convert")} />
          <Action label="More information" run={() => setOpen("information")} />
          <Action
            label="Delete"
            kind="danger"
            reason={readOnly ?? whyNoDelete(running)}
            run={() => setOpen("delete")}
          />
        </div>
      </header>
      <Now pool={pool} />
      <div class="inside">
        {pool.reason !== "" && (
          <Notice tone={pool.health === "failed" ? "bad" : "warning"}>
            {pool.reason}
            <ToDo action={pool.action} />
          </Notice>
        )}
        {pool.warnings.map((warning) => (
          <Notice key={warning} tone="warning">
            {warning}
          </Notice>
        ))}
        {operations.map((operation) => (
          <RunningOperation key={operation.id} operation={operation} />
        ))}
      </div>
      <Part title="SSDs" note={ssdsOf(pool)} />
      <Ssds pool={pool} />
      <Spares pool={pool} />
      <Part title="Volumes that it caches" note={plural(pool.volumes.length, "volume")} />
      <CachedVolumes pool={pool} volumes={status.volumes} />
      {open === "add" && <AddSsds pool={pool} place="ssds" close={close} />}
      {open === "spares" && <AddSsds pool={pool} place="spares" close={close} />}
      {open === "remove" && <RemoveSsds pool={pool} close={close} />}
      {open === "settings" && <PoolSettings pool={pool} close={close} />}
      {open === "convert" && <ConvertPool pool={pool} close={close} />}
      {open === "flush" && <FlushNow what="pool" name={pool.name} close={close} />}
      {open === "information" && <Information pool={pool} close={close} />}
      {open === "delete" && <DeletePool pool={pool} close={close} />}
    </section>
  );
}

/** What begins here in a panel. */
function Part({ title, note }: { title: string; note: string }) {
  return (
    <div class="part">
      <h3>{title}</h3>
      <span class="muted">{note}</span>
    </div>
  );
}

function ssdsOf(pool: Pool): string {
  const total = pool.ssds.reduce((sum, ssd) => sum + ssd.size_bytes, 0);
  return `${plural(pool.ssds.length, "SSD")}, ${bytes(total)}`;
}

/** What it holds at this moment. */
function Now({ pool }: { pool: Pool }) {
  const log = pool.write_log;
  const share = pool.capacity_bytes === 0 ? 0 : pool.used_bytes / pool.capacity_bytes;
  const figures: Figure[] = [
    { term: "Cache used", value: bytes(pool.used_bytes), note: `${percent(share)} of ${bytes(pool.capacity_bytes)}` },
  ];
  if (log !== null && log !== undefined) {
    figures.push({
      term: "Data at risk now",
      value: bytes(log.dirty_bytes),
      note: `of at most ${bytes(log.dirty_capacity_bytes)}`,
    });
  }
  figures.push(
    {
      term: "Cache block",
      value: bytes(pool.block_size_bytes),
      note: `cached at the ${threshold(pool.populate_on_read, "read")}`,
    },
    { term: "Memory of tables", value: bytes(pool.memory_bytes), note: "" },
  );
  return <Figures figures={figures} />;
}

function whyNoFlush(pool: Pool, running: Kind[]): string | null {
  if (pool.type === "read") return "A read pool holds no dirty data.";
  return running.includes("flush-pool") ? "It is being flushed." : whyNoSettings(pool, running);
}

function whyNoScrub(pool: Pool, running: Kind[]): string | null {
  return running.includes("scrub") ? "A scrub is running: one at a time." : whyNoSettings(pool, running);
}

async function startScrub(pool: Pool): Promise<void> {
  await begin({ kind: "scrub", name: pool.name, force: false, lose_data: false });
}

function whyNoRemoval(pool: Pool, running: Kind[]): string | null {
  if (running.includes("remove-ssds")) return "SSDs are being emptied already: one removal at a time.";
  return whyNoSettings(pool, running);
}

/** All that is there before has to be there again afterwards. */
function whyNoConversion(pool: Pool, running: Kind[]): string | null {
  const why = whyNoSettings(pool, running);
  if (why !== null) return why;
  if (running.includes("remove-ssds")) return "SSDs are being emptied: wait for that, or cancel it.";
  return pool.health === "good" ? null : "Only a pool in good health is converted: see what is wrong with it.";
}

/** What a pool that is taken away or made anew does not take any more. */
function whyNoSettings(pool: Pool, running: Kind[]): string | null {
  if (pool.state === "offline") return "The pool is offline: this waits for its SSDs.";
  if (running.includes("delete-pool")) return "The pool is being deleted: cancel that first.";
  return running.includes("convert-pool") ? "The pool is being converted: cancel that first." : null;
}

function whyNoDelete(running: Kind[]): string | null {
  if (running.includes("delete-pool")) return "It is being deleted: its dirty data is written to the backing devices.";
  return running.includes("convert-pool") ? "It is being converted; cancel that first." : null;
}

function Information({ pool, close }: { pool: Pool; close: () => void }) {
  const log = pool.write_log;
  return (
    <Dialog
      title={`Pool ${pool.name}: more information`}
      close={close}
      wide
      footer={
        <button type="button" onClick={close}>
          Close
        </button>
      }
    >
      <Facts
        facts={[
          ["Type", `${cacheType(pool.type)} (${raid(pool.type)})`],
          ["I/O type", ioType(pool.io_type)],
          ["Cache block", bytes(pool.block_size_bytes)],
          ["Populate at", `${threshold(pool.populate_on_read, "read")}, ${threshold(pool.populate_on_write, "write")}`],
          ["Eviction", eviction(pool)],
          ["Fetch rate", pool.fetch_rate],
          ["Flush rate", pool.flush_rate],
          [
            "Cleaning starts at",
            `${pool.dirty_watermark_percent} % of the dirty capacity, or after ${duration(pool.dirty_age_max_seconds)}`,
          ],
          ["Checksums of cached pages", pool.checksums ? "on" : "off"],
          [
            "Capacity",
            `${bytes(pool.capacity_bytes)}, of which clean data has ${bytes(pool.capacity_min_bytes)} however much is dirty`,
          ],
          [
            "Written to its SSDs within a day",
            `${bytes(pool.ssd_written_day_bytes)}, limit ${spelledSize(pool.ssd_writes_per_day_bytes)}`,
          ],
          ["Used", bytes(pool.used_bytes)],
          ["Slots in use", `${pool.slots_used} of ${pool.slots}`],
          ["Memory of its tables", bytes(pool.memory_bytes)],
          ...(log === null || log === undefined
            ? []
            : ([
                ["Data at risk", atRisk(log.dirty_bytes, null)],
                ["May be dirty at once", bytes(log.dirty_capacity_bytes)],
                ["Write log on the SSDs, both copies", bytes(log.log_bytes)],
                ["Write caching", log.write_caching_off ? "off: two copies cannot be kept" : "on"],
              ] satisfies [string, string][])),
          ["Scrub", scrubbed(pool.scrub)],
          ["Last start", pool.recovery === "" ? "nothing to report" : pool.recovery],
          ["Identity", <code class="path">{pool.uuid}</code>],
        ]}
      />
    </Dialog>
  );
}
