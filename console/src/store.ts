// Values that live outside the components, and how a component follows one.
import { useEffect, useState } from "preact/hooks";

export function useExternal<T>(subscribe: (changed: () => void) => () => void, get: () => T): T {
  const [value, setValue] = useState(get);
  useEffect(() => {
    const update = () => setValue(get);
    update();
    return subscribe(update);
  }, []);
  return value;
}

export class Store<T> {
  private readonly listeners = new Set<() => void>();

  constructor(private value: T) {}

  get = (): T => this.value;

  set(value: T): void {
    this.value = value;
    for (const listener of this.listeners) listener();
  }

  subscribe = (changed: () => void): (() => void) => {
    this.listeners.add(changed);
    return () => {
      this.listeners.delete(changed);
    };
  };
}

export function useStore<T>(store: Store<T>): T {
  return useExternal(store.subscribe, store.get);
}

/** The value, once it has been the same for so long: of what is typed, the end. */
export function useSettled<T>(value: T, ms: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}

/** Runs `load` now, whenever `key` changes and every `everyMs` (null: no more); never twice at once. The last answer stays until the next. */
export function usePolled<T>(
  load: (signal: AbortSignal) => Promise<T>,
  key: string,
  everyMs: number | null,
): Polled<T> {
  const [state, setState] = useState<Polled<T> & { key: string }>({ key, value: null, error: null });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const run = async () => {
      try {
        const value = await load(abort.signal);
        if (!abort.signal.aborted) setState({ key, value, error: null });
      } catch (error) {
        if (!abort.signal.aborted) setState((old) => ({ key, value: old.key === key ? old.value : null, error }));
      }
      if (!abort.signal.aborted && everyMs !== null) timer = setTimeout(run, everyMs);
    };
    run();
    return () => {
      abort.abort();
      clearTimeout(timer);
    };
  }, [key, everyMs, turn]);
  const reload = () => setTurn((old) => old + 1);
  return state.key === key ? { value: state.value, error: state.error, reload } : { value: null, error: null, reload };
}

export type Polled<T> = { value: T | null; error: unknown; reload?: () => void };
