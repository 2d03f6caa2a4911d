// Charts over time: uPlot on a canvas, with the newest or the pointed-at values in words above it.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { moment, NOTHING } from "../format";
import { onThemeChange } from "../theme";

export type Line = {
  label: string;
  /** A custom property of the style sheet: `--series-1`. */
  color: string;
  values: (number | null)[];
};

export type ChartProps = {
  title: string;
  times: number[];
  lines: Line[];
  format: (value: number) => string;
  /** Ticks at powers of two: the values are sizes. */
  binary?: boolean;
  /** The value axis ends here at least. */
  max?: number;
  height?: number;
  /** From and to, in seconds: the axis shows this although there may be no data. */
  range?: [number, number];
  /** The lines are parts of a whole of this name, which is told before them: one on the other, the first on top. */
  whole?: string;
  /** Someone marked a part of the chart. */
  zoom?: (from: number, to: number) => void;
};

export function Chart(props: ChartProps) {
  const { title, times, lines, format, height = 150, whole } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const [theme, setTheme] = useState(0);
  const latest = useRef(props);
  latest.current = props;

  useEffect(() => onThemeChange(() => setTheme((old) => old + 1)), []);
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const made = new uPlot(options(latest, element, height, setPointed), data(latest.current), element);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [theme, height, lines.map((line) => line.label).join()]);
  useEffect(() => plot.current?.setData(data(latest.current)), [times, lines]);

  const at = pointed !== null && pointed < times.length ? pointed : times.length - 1;
  const parts = lines.map(({ label, color, values }) => ({ label, color, value: values[at] ?? null }));
  const sum = parts.map((part) => part.value).reduce(plus, null);
  const told = whole === undefined ? parts : [{ label: whole, color: null, value: sum }, ...parts];
  const said = told.map(({ label, value }) => `${label} ${spoken(value, format)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <span class="title">{title}</span>
        <span class="legend">
          {told.map(({ label, color, value }) => (
            <span key={label}>
              {color !== null && <i style={{ background: `var(${color})` }} />}
              {label} <b>{spoken(value, format)}</b>
            </span>
          ))}
          <time>{pointed === null ? "" : moment(new Date((times[at] ?? 0) * 1000))}</time>
        </span>
      </figcaption>
      <div ref={place} class="plot" role="img" aria-label={`${title}: ${said}`} data-points={times.length} />
    </figure>
  );
}

function spoken(value: number | null, format: (value: number) => string): string {
  return value === null ? NOTHING : format(value);
}

function data(props: ChartProps): uPlot.AlignedData {
  const values = props.lines.map((line) => line.values);
  return [props.times, ...(props.whole === undefined ? values : stacked(values))];
}

/** Each line with all that lie below it: those behind it. */
function stacked(lines: (number | null)[][]): (number | null)[][] {
  const below = (at: number, line: number) =>
    lines.slice(line).reduce<number | null>((sum, values) => plus(sum, values[at] ?? null), null);
  return lines.map((values, line) => values.map((_, at) => below(at, line)));
}

function plus(sum: number | null, value: number | null): number | null {
  return value === null ? sum : (sum ?? 0) + value;
}

function options(
  latest: { current: ChartProps },
  element: HTMLElement,
  height: number,
  point: (index: number | null) => void,
): uPlot.Options {
  const color = (name: string) => resolved(element, name);
  const axis = {
    stroke: color("--muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: color("--grid"), width: 1 },
    ticks: { show: false },
  };
  const { lines } = latest.current;
  return {
    width: element.clientWidth,
    height,
    padding: [8, 16, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      points: { size: 7 },
      drag: { x: latest.current.zoom !== undefined, y: false, setScale: false },
      sync: { key: "time" },
    },
    scales: {
      x: { time: true, range: (_, min, max) => latest.current.range ?? [min, max] },
      y: {
        range: (_, __, max) => [0, Math.max(latest.current.max ?? 0, max > 0 ? max * 1.1 : (latest.current.max ?? 1))],
      },
    },
    axes: [
      { ...axis, values: [...CLOCK], space: 64, size: 38, gap: 3 },
      {
        ...axis,
        size: 62,
        space: 32,
        values: (_, ticks) => ticks.map((tick) => mark(latest.current, tick)),
        ...(latest.current.binary === true ? { incrs: POWERS_OF_TWO } : {}),
      },
    ],
    series: [
      {},
      ...lines.map((line, index) => ({
        label: line.label,
        stroke: color(line.color),
        width: 1.5,
        // One or two values make no line that could be seen.
        points: { show: (self: uPlot) => self.data[0].length < 4, size: 5 },
        ...fill(latest.current, index, color(line.color), color("--surface")),
      })),
    ],
    hooks: {
      setCursor: [(self) => point(self.cursor.idx ?? null)],
      setSelect: [
        (self) => {
          if (self.select.width < 8) return;
          const from = self.posToVal(self.select.left, "x");
          const to = self.posToVal(self.select.left + self.select.width, "x");
          self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          latest.current.zoom?.(from, to);
        },
      ],
    },
  };
}

/** Below the first line, or below each of those that are stacked, where nothing shines through. */
function fill(props: ChartProps, index: number, color: string, surface: string): { fill?: string } {
  if (props.whole !== undefined) return { fill: `color-mix(in srgb, ${color} 55%, ${surface})` };
  return index === 0 ? { fill: `color-mix(in srgb, ${color} 12%, transparent)` } : {};
}

const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power);

/** What stands at a tick of the value axis: nothing where there are no values to read. */
function mark(props: ChartProps, tick: number): string {
  if (props.lines.every((line) => line.values.every((value) => value === null))) return "";
  return tick === 0 ? "0" : short(props.format(tick));
}

/** A tick without the zeroes after the point. */
function short(text: string): string {
  return text.replace(/\.0+ /, " ");
}

/** How the time axis is written, by the distance of its ticks; 24 hours, the date where it changes. */
const CLOCK: (string | number | null)[][] = [
  [86400 * 27, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, ":{ss}", "\n{HH}:{mm}", null, "\n{HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];

/** What a custom property is in the theme of now: a canvas knows none. */
function resolved(element: HTMLElement, name: string): string {
  element.style.color = `var(${name})`;
  const color = getComputedStyle(element).color;
  element.style.color = "";
  return color;
}
