// What takes long: what is being done now, and how the last ones ended.
import { operations, status } from "../live";
import { useStore } from "../store";
import { Empty, Heading } from "../ui/basics";
import { EndedOperation, RunningOperation } from "./operation";

export function Operations() {
  const known = useStore(status);
  const list = useStore(operations);
  if (known === null) return null;
  const running = list.filter((operation) => operation.state === "running");
  const ended = list.filter((operation) => operation.state !== "running");
  return (
    <>
      <Heading title="Operations" />
      <section class="panel" aria-labelledby="in-progress">
        <header>
          <h2 id="in-progress">In progress</h2>
        </header>
        {running.length === 0 && (
          <Empty title="Nothing that takes long is being done now.">
            Flushes before something is taken away, scrubs and writing image files are shown here, with how far they
            are.
          </Empty>
        )}
        {running.map((operation) => (
          <RunningOperation key={operation.id} operation={operation} />
        ))}
      </section>
      {ended.length > 0 && (
        <section class="panel" aria-labelledby="ended">
          <header>
            <h2 id="ended">Ended since the daemon started</h2>
          </header>
          {ended.map((operation) => (
            <EndedOperation key={operation.id} operation={operation} />
          ))}
        </section>
      )}
    </>
  );
}
