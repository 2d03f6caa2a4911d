// Hits by size of the cache, with the present and the recommended size marked.
import type { Advice, AdvisedSize } from "../api/types";
import { bytes, percent } from "../format";
import { Table } from "../ui/table";

const WIDTH = 720;
const HEIGHT = 240;
const LEFT = 48;
const BOTTOM = 28;
const TOP = 16;

type Place = { x: (size: number) => number; y: (ratio: number) => number };

export function Curve({ advice }: { advice: Advice }) {
  const { curve, present, recommended } = advice;
  const place = placed(curve, [present, recommended]);
  const path = (pick: (size: AdvisedSize) => number) =>
    curve.map((size, index) => `${index === 0 ? "M" : "L"}${place.x(size.size_bytes)} ${place.y(pick(size))}`).join("");
  const band = [
    ...curve.map((size) => `${place.x(size.size_bytes)},${place.y(Math.min(1, size.hit_ratio + size.error))}`),
    ...curve
      .toReversed()
      .map((size) => `${place.x(size.size_bytes)},${place.y(Math.max(0, size.hit_ratio - size.error))}`),
  ].join(" ");
  const ends = [curve[0], curve.at(-1)].flatMap((size) => (size === undefined ? [] : [size.size_bytes]));
  return (
    <figure class="chart">
      <figcaption>
        <span class="title">Hits by size of the cache</span>
        <span class="legend">
          <span>
            <i style={{ background: "var(--series-3)" }} /> the pool
          </span>
          <span>
            <i style={{ background: "var(--series-4)" }} /> LRU that takes everything
          </span>
        </span>
      </figcaption>
      <svg class="curve" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={said(advice)}>
        {[0, 0.25, 0.5, 0.75, 1].map((ratio) => (
          <g key={ratio}>
            <line class="grid-line" x1={LEFT} x2={WIDTH} y1={place.y(ratio)} y2={place.y(ratio)} />
            <text class="tick" x={LEFT - 6} y={place.y(ratio) + 4} text-anchor="end">
              {`${ratio * 100} %`}
            </text>
          </g>
        ))}
        {ends.map((size, index) => (
          <text key={size} class="tick" x={place.x(size)} y={HEIGHT - 8} text-anchor={index === 0 ? "start" : "end"}>
            {bytes(size)}
          </text>
        ))}
        <polygon class="band" points={band} />
        <path class="lru-line" d={path((size) => size.lru_hit_ratio)} />
        <path class="pool-line" d={path((size) => size.hit_ratio)} />
        <Marked size={present} label="now" place={place} row={0} />
        <Marked size={recommended} label="recommended" place={place} row={1} />
      </svg>
      <details>
        <summary>The curve as a table</summary>
        <Table
          caption="Hits by size of the cache"
          small
          rows={curve}
          rowKey={(size) => String(size.size_bytes)}
          empty="Nothing is known yet."
          columns={[
            { head: "Size", numeric: true, cell: (size) => bytes(size.size_bytes) },
            { head: "Hits", numeric: true, cell: (size) => percent(size.hit_ratio) },
            { head: "±", numeric: true, help: "Two standard deviations", cell: (size) => percent(size.error) },
            { head: "LRU hits", numeric: true, cell: (size) => percent(size.lru_hit_ratio) },
          ]}
        />
      </details>
    </figure>
  );
}

type MarkedProps = { size: AdvisedSize | null | undefined; label: string; place: Place; row: number };

function Marked({ size, label, place, row }: MarkedProps) {
  if (size === null || size === undefined) return null;
  const x = place.x(size.size_bytes);
  const right = x > WIDTH * 0.75;
  return (
    <g class="mark-line">
      <line x1={x} x2={x} y1={TOP} y2={HEIGHT - BOTTOM} />
      <text x={right ? x - 6 : x + 6} y={HEIGHT - BOTTOM - 8 - row * 16} text-anchor={right ? "end" : "start"}>
        {`${label} ${bytes(size.size_bytes)}`}
      </text>
    </g>
  );
}

/** Sizes go by their logarithm. */
function placed(curve: AdvisedSize[], marks: (AdvisedSize | null | undefined)[]): Place {
  const sizes = [...curve, ...marks].flatMap((size) => (size === null || size === undefined ? [] : [size.size_bytes]));
  const [first, last] = [Math.log2(Math.min(...sizes)), Math.log2(Math.max(...sizes))];
  const span = Math.max(last - first, 1e-9);
  const inside = { x: WIDTH - LEFT - 8, y: HEIGHT - TOP - BOTTOM };
  const short = (value: number) => Math.round(value * 10) / 10;
  return {
    x: (size) => short(LEFT + ((Math.log2(size) - first) / span) * inside.x),
    y: (ratio) => short(TOP + (1 - ratio) * inside.y),
  };
}

/** The picture in words. */
function said({ present, recommended }: Advice): string {
  const one = (label: string, size: AdvisedSize | null | undefined) =>
    size === null || size === undefined ? [] : [`${label} ${bytes(size.size_bytes)} hits ${percent(size.hit_ratio)}`];
  const marks = [...one("now", present), ...one("recommended", recommended)];
  return `Hits by size of the cache: ${marks.length === 0 ? "no size is marked" : marks.join(", ")}`;
}
