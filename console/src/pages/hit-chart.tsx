// Hit ratio over time: the same picture wherever it is shown, hits in memory on those on SSDs.
import { percent } from "../format";
import type { Hits } from "../hits";
import { Chart, type ChartProps } from "../ui/chart";

type Props = Pick<ChartProps, "times" | "range" | "zoom"> & { hits: (Hits | null)[] };

export function HitChart({ hits, ...over }: Props) {
  const line = (label: string, color: string, where: "memory" | "ssds") => ({
    label,
    color,
    values: hits.map((at) => at?.[where] ?? null),
  });
  return (
    <Chart
      title="Hit ratio of reads"
      whole="hits"
      format={percent}
      max={1}
      lines={[line("in memory", "--series-4", "memory"), line("on SSDs", "--series-3", "ssds")]}
      {...over}
    />
  );
}
