// How hosts connect to a volume: the daemon's own commands and snippets, to be copied.
import { call, explain } from "../api/client";
import type { Volume } from "../api/types";
import { usePolled } from "../store";
import { Copyable, Notice, Path, Prose } from "../ui/basics";

/** Listeners change with the configuration only. */
const RELOAD_MS = 60_000;

export function ConnectHosts({ volume }: { volume: Volume }) {
  const { value, error } = usePolled(
    (signal) => call("get", "/api/v1/volumes/{name}/connect", { at: { name: volume.name }, signal }),
    volume.name,
    RELOAD_MS,
  );
  return (
    <section class="panel" aria-labelledby="connect">
      <header>
        <h2 id="connect">Connect a host</h2>
      </header>
      <div class="inside">
        {error !== null && <Notice tone="bad">{explain(error)}</Notice>}
        {value?.addresses.length === 0 && <Notice tone="warning">No listener serves volumes now.</Notice>}
        {value?.addresses.map((address) => (
          <div key={address.uri} class="stack">
            <h3>
              <Path text={address.uri} />{" "}
              <span class="muted">
                {address.local ? "this machine only" : "over the network"}
                {address.tls ? ", TLS" : ""}
              </span>
            </h3>
            <div class="grid halves">
              {address.snippets.map((snippet) => (
                <div key={snippet.kind} class="snippet">
                  <Copyable label={snippet.title} text={snippet.text} />
                  {snippet.note !== "" && (
                    <p class="muted">
                      <Prose text={snippet.note} />
                    </p>
                  )}
                </div>
              ))}
            </div>
          </div>
        ))}
      </div>
    </section>
  );
}
