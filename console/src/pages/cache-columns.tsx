// How the cache of a volume is: the same two columns wherever volumes are listed.
import type { Volume } from "../api/types";
import { NOTHING } from "../format";
import { Badge } from "../ui/basics";
import type { Column } from "../ui/table";
import { cacheHealth, cacheState } from "../words";

export const CACHE_COLUMNS: Column<Volume>[] = [
  { head: "Cache status", cell: (volume) => <Badge word={cacheState(volume)} /> },
  {
    head: "Cache health",
    cell: (volume) => {
      const health = cacheHealth(volume);
      return health === null ? NOTHING : <Badge word={health} />;
    },
  },
];
