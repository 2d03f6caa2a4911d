// What the wizard knows of the pool to make, and why a step is not done yet. No requests, no components.
import type { Disk, IoType, PolicyKind, Pool, PoolCreate, PoolKind } from "../api/types";
import { bytes, plural } from "../format";

export type Draft = {
  name: string;
  type: PoolKind;
  ioType: IoType;
  /** Of a custom pool. */
  blockBytes: number;
  populateOnRead: number;
  populateOnWrite: number;
  policy: PolicyKind;
  /** Of cached pages. */
  checksums: boolean;
  /** Paths. */
  ssds: string[];
  /** What the chosen SSDs hold may be lost. */
  force: boolean;
  allowSameDisk: boolean;
  /** Names of volumes that it will cache. */
  volumes: string[];
};

export const NEW: Draft = {
  name: "",
  type: "read",
  ioType: "database",
  blockBytes: 1 << 20,
  populateOnRead: 2,
  populateOnWrite: 0,
  policy: "s3-fifo",
  checksums: true,
  ssds: [],
  force: false,
  allowSameDisk: false,
  volumes: [],
};

/** What a preset means: cache block, populate-on-read, populate-on-write. */
export function preset(type: PoolKind, ioType: IoType): { blockBytes: number; read: number; write: number } | null {
  const writes = type === "read-write";
  switch (ioType) {
    case "database":
      return { blockBytes: 1 << 20, read: 2, write: writes ? 1 : 0 };
    case "file-system":
      return { blockBytes: 2 << 20, read: 2, write: writes ? 1 : 2 };
    case "web-service":
      return { blockBytes: 4 << 20, read: 2, write: writes ? 1 : 0 };
    case "custom":
      return null;
  }
}

/** The cache blocks that there are: powers of two. */
export const BLOCK_OPTIONS = [64, 128, 256, 512, 1024, 2048, 4096].map((kib) => ({
  value: String(kib * 1024),
  text: bytes(kib * 1024),
}));

export const NAME_RULE = "At most 16 characters of A-Z a-z 0-9 - _ < >";

export function nameError(name: string, pools: Pool[]): string | null {
  if (name === "") return null;
  if (!/^[A-Za-z0-9_<>-]{1,16}$/.test(name)) return `${NAME_RULE}.`;
  if (pools.some((pool) => pool.name === name)) return "There is a pool of this name.";
  return null;
}

/** Why the first step is not done; null: it is. */
export function whyNotPool(draft: Draft, pools: Pool[], disks: Disk[]): string | null {
  if (draft.name === "") return "Give the pool a name.";
  const bad = nameError(draft.name, pools);
  if (bad !== null) return bad;
  if (draft.ssds.length === 0) return "Choose at least one SSD.";
  if (draft.type === "read-write" && draft.ssds.length < 2) {
    return "A read-write pool keeps two copies of dirty data: choose a second SSD.";
  }
  const lost = needsForce(draft, disks);
  if (lost.length > 0 && !draft.force) return `Confirm that what is on ${plural(lost.length, "SSD")} is lost.`;
  return null;
}

/** What choosing SSDs is about, for a new pool and for one that is there. */
export type Chosen = Pick<Draft, "type" | "ssds" | "force" | "allowSameDisk">;

/** The chosen SSDs that hold something. */
export function needsForce(draft: Chosen, disks: Disk[]): Disk[] {
  return disks.filter((disk) => draft.ssds.includes(disk.path) && disk.needs_force);
}

export function request(draft: Draft): PoolCreate {
  const own = draft.ioType === "custom";
  return {
    name: draft.name,
    type: draft.type,
    io_type: draft.ioType,
    policy: draft.policy,
    checksums: draft.checksums,
    ssds: draft.ssds,
    force: draft.force,
    allow_same_disk: draft.allowSameDisk,
    ...(own
      ? {
          block_size_bytes: draft.blockBytes,
          populate_on_read: draft.populateOnRead,
          populate_on_write: draft.populateOnWrite,
        }
      : {}),
  };
}
