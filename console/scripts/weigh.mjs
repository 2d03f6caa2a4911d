// Fails if what the first page loads is more than the limit, compressed as the daemon sends it.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const limitBytes = 200_000;
const dist = new URL("../dist", import.meta.url).pathname;

let total = 0;
for (const name of (await readdir(dist, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())) {
  total += gzipSync(await readFile(join(name.parentPath, name.name)), { level: 9 }).length;
}
console.log(`console: ${total} bytes compressed, of at most ${limitBytes}`);
if (total > limitBytes) process.exit(1);
