// The time that charts show: the last minutes to year, or a part that was marked, moved and zoomed by mouse or keyboard.
import { moment } from "../format";

/** The subject of all volumes and SSDs together. */
export const ALL = "daemon";

export type Span = "15m" | "1h" | "4h" | "1d" | "1w" | "1m" | "1y";
export type Frame = { kind: "span"; span: Span } | { kind: "part"; from: number; to: number };

const HOUR = 3600;
export const SPANS: { span: Span; label: string; seconds: number }[] = [
  { span: "15m", label: "15 minutes", seconds: HOUR / 4 },
  { span: "1h", label: "1 hour", seconds: HOUR },
  { span: "4h", label: "4 hours", seconds: 4 * HOUR },
  { span: "1d", label: "1 day", seconds: 24 * HOUR },
  { span: "1w", label: "1 week", seconds: 7 * 24 * HOUR },
  { span: "1m", label: "1 month", seconds: 30 * 24 * HOUR },
  { span: "1y", label: "1 year", seconds: 365 * 24 * HOUR },
];
/** A shorter part has too few samples to be seen. */
const PART_SECONDS_MIN = 300;

/** From and to in seconds since 1970. */
export function within(frame: Frame, now: number): { from: number; to: number } {
  switch (frame.kind) {
    case "part":
      return { from: Math.floor(frame.from), to: Math.ceil(frame.to) };
    case "span": {
      const seconds = SPANS.find((one) => one.span === frame.span)?.seconds ?? 4 * HOUR;
      return { from: Math.floor(now - seconds), to: Math.floor(now) };
    }
  }
}

export function part(from: number, to: number): Frame {
  const middle = (from + to) / 2;
  const half = Math.max(to - from, PART_SECONDS_MIN) / 2;
  // What is still to come is not shown.
  const ahead = Math.max(0, middle + half - Date.now() / 1000);
  return { kind: "part", from: middle - half - ahead, to: middle + half - ahead };
}

export function FrameControls({ frame, setFrame }: { frame: Frame; setFrame: (frame: Frame) => void }) {
  const { from, to } = within(frame, Date.now() / 1000);
  const length = to - from;
  return (
    <div class="frame-controls">
      <div class="segments" role="radiogroup" aria-label="Time shown">
        {SPANS.map(({ span, label }) => (
          <label key={span}>
            <input
              type="radio"
              name="span"
              checked={frame.kind === "span" && frame.span === span}
              onChange={() => setFrame({ kind: "span", span })}
            />
            {label}
          </label>
        ))}
      </div>
      <div class="actions">
        <button type="button" class="small" onClick={() => setFrame(part(from - length / 2, to - length / 2))}>
          ← Earlier
        </button>
        <button type="button" class="small" onClick={() => setFrame(part(from + length / 2, to + length / 2))}>
          Later →
        </button>
        <button type="button" class="small" onClick={() => setFrame(part(from + length / 4, to - length / 4))}>
          Zoom in
        </button>
        <button type="button" class="small" onClick={() => setFrame(part(from - length / 2, to + length / 2))}>
          Zoom out
        </button>
      </div>
      <span class="muted">
        {frame.kind === "part"
          ? `${moment(new Date(from * 1000))} to ${moment(new Date(to * 1000))}`
          : "Refreshed every 30 s. Mark a part of a chart to zoom in."}
      </span>
    </div>
  );
}
