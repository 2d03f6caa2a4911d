// How the console is built: a handful of files, which the daemon serves as they are.
import { defineConfig } from "vite";

// biome-ignore lint/style/noDefaultExport: Vite takes its configuration as the default export.
export default defineConfig({
  base: "/",
  build: {
    target: "es2022",
    // The daemon's content policy allows no data: scripts or styles, and a few small files are no burden.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  // A daemon that was started with --api tcp:127.0.0.1:7070, for `npx vite`.
  server: { proxy: { "/api": process.env.HOTSET_URL ?? "http://127.0.0.1:7070" } },
  preview: { proxy: { "/api": process.env.HOTSET_URL ?? "http://127.0.0.1:7070" } },
});
