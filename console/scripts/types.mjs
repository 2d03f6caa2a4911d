// Generates the API's types from docs/openapi.json; with --check, says whether the committed ones are up to date.
import { readFile, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";

const target = new URL("../src/api/schema.d.ts", import.meta.url);
const document = new URL("../../docs/openapi.json", import.meta.url);
const types = `// Generated from docs/openapi.json by \`npm run types\`.\n${astToString(await openapiTS(document))}`;

if (process.argv.includes("--check")) {
  if ((await readFile(target, "utf8")) !== types) {
    console.error("src/api/schema.d.ts is not what docs/openapi.json says: npm run types");
    process.exit(1);
  }
} else {
  await writeFile(target, types);
}
