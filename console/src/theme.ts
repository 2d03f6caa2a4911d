// Light or dark: as the system says, or as the person chose.
import { Store } from "./store";

export type Theme = "system" | "light" | "dark";

const KEY = "hotset-theme";
const listeners = new Set<() => void>();

function stored(): Theme {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "light" || chosen === "dark" ? chosen : "system";
}

export const theme = new Store<Theme>(stored());

export function choose(value: Theme): void {
  if (value === "system") {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem(KEY);
  } else {
    document.documentElement.dataset.theme = value;
    localStorage.setItem(KEY, value);
  }
  theme.set(value);
  changed();
}

/** Calls `listener` when the colours of the page change, for what is painted and not styled. */
export function onThemeChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
}

function changed(): void {
  for (const listener of listeners) listener();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
