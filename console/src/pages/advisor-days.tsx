// What was read and written on which day, and how much of it is hot, warm, cold and archived.
import type { AdvisedDays } from "../api/types";
import { bytes, percent } from "../format";
import { Table } from "../ui/table";

type Class = { name: string; color: string; said: string; of: (days: AdvisedDays) => number };

const CLASSES: Class[] = [
  { name: "Hot", color: "--series-2", said: "accessed today", of: (days) => days.hot_bytes },
  { name: "Warm", color: "--series-3", said: "not today, but within seven days", of: (days) => days.warm_bytes },
  { name: "Cold", color: "--series-1", said: "before", of: (days) => days.cold_bytes },
  { name: "Archived", color: "--grid", said: "never since it is watched", of: (days) => days.archived_bytes },
];

export function Days({ title, days }: { title: string; days: AdvisedDays }) {
  const all = CLASSES.reduce((sum, one) => sum + one.of(days), 0);
  const share = (one: Class) => (all === 0 ? 0 : one.of(days) / all);
  const id = `days-${title.replaceAll(" ", "-")}`;
  return (
    <section class="panel" aria-labelledby={id}>
      <header>
        <h2 id={id}>{title}</h2>
      </header>
      <div class="inside">
        <div
          class="classes"
          role="img"
          aria-label={CLASSES.map((one) => `${one.name.toLowerCase()} ${bytes(one.of(days))}`).join(", ")}
        >
          {CLASSES.filter((one) => one.of(days) > 0).map((one) => (
            <span key={one.name} style={{ background: `var(${one.color})`, flexGrow: share(one) }} />
          ))}
        </div>
      </div>
      <Table
        caption={`${title}: hot, warm, cold and archived`}
        small
        rows={CLASSES}
        rowKey={(one) => one.name}
        empty=""
        columns={[
          {
            head: "Data",
            cell: (one) => (
              <span class="legend">
                <span>
                  <i style={{ background: `var(${one.color})` }} />
                  {one.name}
                </span>
              </span>
            ),
          },
          { head: "Bytes", numeric: true, cell: (one) => bytes(one.of(days)) },
          { head: "Share", numeric: true, cell: (one) => percent(share(one)) },
          { head: "What it is", cell: (one) => one.said },
        ]}
      />
      <Table
        caption={`${title}: read and written`}
        small
        rows={days.days}
        rowKey={(day) => String(day.begins_unix_seconds)}
        empty="No day is known yet."
        columns={[
          { head: "Day (UTC)", cell: (day) => new Date(day.begins_unix_seconds * 1000).toISOString().slice(0, 10) },
          { head: "Read", numeric: true, cell: (day) => bytes(day.read_bytes) },
          { head: "Written", numeric: true, cell: (day) => bytes(day.written_bytes) },
          { head: "Read again", numeric: true, cell: (day) => bytes(day.read_again_bytes) },
        ]}
      />
    </section>
  );
}
