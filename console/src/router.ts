// Where the person is: the part of the address after `#`, so that every page can be linked and the daemon serves one file.
import { useExternal } from "./store";

export type Route = { page: string; name: string; query: URLSearchParams };

function parse(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page = "", name = ""] = path.split("/");
  return { page: page || "overview", name: decodeURIComponent(name), query: new URLSearchParams(query) };
}

let current = parse();
const listeners = new Set<() => void>();
addEventListener("hashchange", () => {
  current = parse();
  for (const listener of listeners) listener();
});

export function useRoute(): Route {
  return useExternal(
    (changed) => {
      listeners.add(changed);
      return () => listeners.delete(changed);
    },
    () => current,
  );
}

export function link(page: string, name = "", query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `#/${page}${name === "" ? "" : `/${encodeURIComponent(name)}`}${search === "" ? "" : `?${search}`}`;
}

export function go(address: string): void {
  location.hash = address;
}
