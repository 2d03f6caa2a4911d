// All that is known of one SSD: what it is, what it says of itself, and what the pool had it do.
import type { ComponentChildren } from "preact";
import type { Ssd } from "../api/types";
import { bytes, count, day, duration, fromNow, moment, NOTHING, percentOf, plural } from "../format";
import { Badge, Facts, Notice, Path, ToDo } from "../ui/basics";
import { Dialog } from "../ui/dialog";
import { ssdHealth, transport, word } from "../words";

export function SsdInformation({ ssd, close }: { ssd: Ssd; close: () => void }) {
  return (
    <Dialog
      title={`SSD ${ssd.path.split("/").at(-1)}`}
      close={close}
      wide
      footer={
        <button type="button" onClick={close}>
          Close
        </button>
      }
    >
      {ssd.reason !== "" && ssd.smart.alert === "" && (
        <Notice tone="warning">
          {ssd.reason}
          <ToDo action={ssd.action} />
        </Notice>
      )}
      <section class="group" aria-labelledby="ssd-pool">
        <h3 id="ssd-pool">In its pool</h3>
        <Facts facts={inPool(ssd)} />
      </section>
      <section class="group" aria-labelledby="ssd-drive">
        <h3 id="ssd-drive">The drive</h3>
        <Facts facts={drive(ssd)} />
      </section>
      <section class="group" aria-labelledby="ssd-smart">
        <h3 id="ssd-smart">Its own word (S.M.A.R.T.)</h3>
        {ssd.smart.alert !== "" && <Notice tone="bad">{ssd.smart.alert}. Replace it soon.</Notice>}
        {ssd.smart.problem !== "" && <Notice tone="quiet">Not all is known: {ssd.smart.problem}.</Notice>}
        <Facts facts={smart(ssd)} />
      </section>
    </Dialog>
  );
}

function inPool(ssd: Ssd): [string, ComponentChildren][] {
  return [
    ["Path", <Path text={ssd.path} />],
    ["Status", <Badge word={word(ssd.state)} />],
    ["Health", <Badge word={ssdHealth(ssd)} />],
    ["Capacity", bytes(ssd.size_bytes)],
    ["Slots in use", `${count(ssd.slots_used)} of ${count(ssd.slots)}`],
    ["Read errors that hosts never saw", count(ssd.read_errors)],
    ["Lost what it had flushed", ssd.lost_writes ? "yes" : "no"],
    ["Read since the pool was opened", `${bytes(ssd.io.read_bytes)} in ${plural(ssd.io.reads, "transfer")}`],
    ["Written since the pool was opened", `${bytes(ssd.io.written_bytes)} in ${plural(ssd.io.writes, "transfer")}`],
    ["Identity", <code class="path">{ssd.uuid || NOTHING}</code>],
  ];
}

function drive(ssd: Ssd): [string, ComponentChildren][] {
  const { identity } = ssd;
  return [
    ["Manufacturer", identity.manufacturer || NOTHING],
    ["Model", identity.model || NOTHING],
    ["Serial number", identity.serial || NOTHING],
    ["Firmware", identity.firmware || NOTHING],
    ["Disk type", transport(identity.transport) || NOTHING],
    ["Link speed", identity.link_speed || NOTHING],
    ["Enclosure", identity.enclosure || NOTHING],
    ["Slot", identity.slot || NOTHING],
  ];
}

function smart(ssd: Ssd): [string, ComponentChildren][] {
  const { smart } = ssd;
  const known = (value: number | null | undefined, say: (value: number) => string) =>
    typeof value === "number" ? say(value) : NOTHING;
  return [
    ["Verdict", verdict(smart.passed)],
    ["Wear", known(smart.wear_percent, (percent) => `${percentOf(percent)} of the writes that it was made for`)],
    ["End of life, at the pace so far", known(smart.worn_out_at_unix_ms, forecast)],
    ["Written by Hotset, over all starts", bytes(smart.cache_written_bytes)],
    ["Ever written to it", known(smart.drive_written_bytes, bytes)],
    ["Temperature", known(smart.temperature_celsius, (celsius) => `${celsius} °C`)],
    ["Powered on for", known(smart.power_on_hours, (hours) => duration(hours * 3600))],
    ["Asked", smart.checked_at_unix_ms === 0 ? "not yet" : moment(new Date(smart.checked_at_unix_ms))],
  ];
}

function verdict(passed: boolean | null | undefined): ComponentChildren {
  if (typeof passed !== "boolean") return NOTHING;
  return <Badge word={passed ? { text: "Passed", tone: "good" } : { text: "Failing", tone: "bad" }} />;
}

function forecast(unixMs: number): string {
  const date = new Date(unixMs);
  return `${fromNow(date)}, on ${day(date)}`;
}
