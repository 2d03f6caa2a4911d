// Requests to the daemon: paths, bodies and answers are what the OpenAPI document says, checked by the compiler.
import type { components, paths } from "./schema";

type Method = "get" | "post" | "put" | "patch" | "delete";
type Json<T> = { content: { "application/json": T } };
type Ok<O> = O extends { responses: { 200: Json<infer T> } | { 202: Json<infer T> } } ? T : undefined;
type BodyOf<O> = O extends { requestBody?: Json<infer T> } ? T : undefined;
/** The paths that have a method. */
type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never;
}[keyof paths];

type Options<M extends Method, P extends PathOf<M>> = {
  /** What stands for each `{word}` of the path. */
  at?: Record<string, string>;
  query?: Record<string, string | number>;
  body?: BodyOf<paths[P][M]>;
  signal?: AbortSignal;
};

/** What the daemon refused or could not do, in its own words. */
export class ApiFailure extends Error {
  readonly code: string;
  readonly hint: string;

  constructor(code: string, message: string, hint: string) {
    super(message);
    this.code = code;
    this.hint = hint;
  }
}

const tokenKey = "hotset-token";
const tokenListeners = new Set<() => void>();

/** The bearer token, for a daemon on another machine. It lives as long as the browser's tab. */
export function token(): string | null {
  return sessionStorage.getItem(tokenKey);
}

export function setToken(value: string | null): void {
  if (value === null) sessionStorage.removeItem(tokenKey);
  else sessionStorage.setItem(tokenKey, value);
  for (const listener of tokenListeners) listener();
}

export function onTokenChange(listener: () => void): void {
  tokenListeners.add(listener);
}

/** Asks the daemon; throws an `ApiFailure`. */
export async function call<M extends Method, P extends PathOf<M>>(
  method: M,
  path: P,
  options: Options<M, P> = {},
): Promise<Ok<paths[P][M]>> {
  const headers: Record<string, string> = {};
  if (options.body !== undefined) headers["Content-Type"] = "application/json";
  const init: RequestInit = { method: method.toUpperCase(), headers, signal: options.signal ?? null };
  if (options.body !== undefined) init.body = JSON.stringify(options.body);
  const response = await send(fill(path, options), init);
  const text = await response.text();
  return JSON.parse(text);
}

/** The daemon's events as they come: calls `event` for each until the connection ends or `signal` ends it. */
export async function follow(
  path: PathOf<"get">,
  signal: AbortSignal,
  event: (name: string, data: string) => void,
): Promise<void> {
  const response = await send(path, { headers: { Accept: "text/event-stream" }, signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) return;
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    const blocks = buffer.split(/\r?\n\r?\n/);
    buffer = blocks.pop() ?? "";
    for (const block of blocks) {
      const fields = block.split(/\r?\n/).map((line) => /^(\w+): ?(.*)$/.exec(line));
      const all = (name: string) => fields.filter((field) => field?.[1] === name).map((field) => field?.[2] ?? "");
      const data = all("data").join("\n");
      if (data !== "") event(all("event")[0] ?? "message", data);
    }
  }
}

async function send(path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  const bearer = token();
  if (bearer !== null) headers.set("Authorization", `Bearer ${bearer}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiFailure("unreachable", "The daemon does not answer.", "Is it running? systemctl status hotset");
  }
  if (!response.ok) throw failure(response.status, await response.text());
  return response;
}

function failure(status: number, text: string): ApiFailure {
  try {
    const error: components["schemas"]["ApiError"] = JSON.parse(text);
    return new ApiFailure(error.code, error.message, error.hint ?? "");
  } catch {
    return new ApiFailure("unknown", `The daemon answered ${status} without a reason.`, "");
  }
}

function fill(path: string, options: { at?: Record<string, string>; query?: Record<string, string | number> }): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, word) => encodeURIComponent(options.at?.[word] ?? ""));
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(options.query ?? {})) query.set(key, String(value));
  return query.size === 0 ? filled : `${filled}?${query}`;
}

/** What to show of anything that was thrown. */
export function explain(error: unknown): string {
  if (error instanceof ApiFailure) return error.hint === "" ? error.message : `${error.message}; ${error.hint}`;
  return error instanceof Error ? error.message : String(error);
}
