// The frame around every page: where one can go, how the daemon is, which page is shown.
import type { ComponentType } from "preact";
import { setToken } from "./api/client";
import { connection, operations, session, status } from "./live";
import { Advisor } from "./pages/advisor";
import { Create } from "./pages/create";
import { Events } from "./pages/events";
import { Operations } from "./pages/operations";
import { Overview } from "./pages/overview";
import { Pools } from "./pages/pools";
import { SignIn } from "./pages/sign-in";
import { Statistics } from "./pages/statistics";
import { Volumes } from "./pages/volumes";
import { link, useRoute } from "./router";
import { useStore } from "./store";
import { choose, type Theme, theme } from "./theme";
import { Mark, Notice } from "./ui/basics";
import { Toasts } from "./ui/toasts";

type Page = { page: string; title: string; show: ComponentType; listed: boolean };

const PAGES: Page[] = [
  { page: "overview", title: "Overview", show: Overview, listed: true },
  { page: "pools", title: "Cache pools", show: Pools, listed: true },
  { page: "create-pool", title: "Create pool", show: Create, listed: false },
  { page: "volumes", title: "Volumes", show: Volumes, listed: true },
  { page: "statistics", title: "Statistics", show: Statistics, listed: true },
  { page: "advisor", title: "Advisor", show: Advisor, listed: true },
  { page: "events", title: "Events", show: Events, listed: true },
  { page: "operations", title: "Operations", show: Operations, listed: true },
];

export function App() {
  const route = useRoute();
  const known = PAGES.find((page) => page.page === route.page) ?? PAGES[0];
  const state = useStore(connection);
  if (known === undefined) return null;
  return (
    <>
      <button type="button" class="skip" onClick={skip}>
        Skip to the content
      </button>
      <div class="frame">
        <Side page={known.page} />
        <main id="content" tabIndex={-1}>
          {state.state === "lost" && (
            <Notice tone="bad">
              <strong>The daemon does not answer.</strong> What is shown is what was last known. Hosts may still be
              served; trying again every second.
            </Notice>
          )}
          <Content page={known} />
        </main>
      </div>
      <Toasts />
    </>
  );
}

/** The address after `#` is the page, so the jump is not a link. */
function skip(): void {
  document.getElementById("content")?.focus();
}

function Content({ page }: { page: Page }) {
  const known = useStore(status);
  const state = useStore(connection);
  if (state.state === "unauthenticated") return <SignIn refused={state.reason} />;
  if (known === null) {
    return state.state === "lost" ? null : <p class="muted loading">Asking the daemon …</p>;
  }
  return <page.show />;
}

function Side({ page }: { page: string }) {
  const known = useStore(status);
  const tallies: Record<string, number> = {
    pools: known?.pools.length ?? 0,
    volumes: known?.volumes.length ?? 0,
    operations: useStore(operations).filter((operation) => operation.state === "running").length,
  };
  const current = page === "create-pool" ? "pools" : page;
  return (
    <header class="side">
      <a class="brand" href={link("overview")}>
        <img src="/icon.svg" alt="" width="22" height="22" />
        Hotset
      </a>
      <nav aria-label="Pages">
        {PAGES.filter((entry) => entry.listed).map((entry) => (
          <a key={entry.page} href={link(entry.page)} aria-current={entry.page === current ? "page" : undefined}>
            {entry.title}
            {(tallies[entry.page] ?? 0) > 0 && <span class="tally">{tallies[entry.page]}</span>}
          </a>
        ))}
      </nav>
      <div class="foot">
        <ConnectionMark />
        <SignedIn />
        <Themes />
        <span class="version">{known === null ? "" : `Hotset ${known.version}`}</span>
      </div>
    </header>
  );
}

function ConnectionMark() {
  const state = useStore(connection);
  switch (state.state) {
    case "live":
      return (
        <span class="connection">
          <Mark tone="good" /> Live
        </span>
      );
    case "connecting":
      return (
        <span class="connection">
          <Mark tone="busy" /> Connecting
        </span>
      );
    case "unauthenticated":
      return (
        <span class="connection">
          <Mark tone="warning" /> Signed out
        </span>
      );
    case "lost":
      return (
        <span class="connection">
          <Mark tone="bad" /> No answer
        </span>
      );
  }
}

/** Who the daemon takes this person for, if that was asked. */
function SignedIn() {
  const known = useStore(session);
  const state = useStore(connection);
  if (state.state === "unauthenticated" || typeof known?.token !== "string") return null;
  return (
    <span class="signed-in">
      <span>
        <b>{known.token}</b> {known.role === "view" ? "may look only" : "may change things"}
      </span>
      <button type="button" class="small" onClick={() => setToken(null)}>
        Sign out
      </button>
    </span>
  );
}

const THEMES: { theme: Theme; label: string }[] = [
  { theme: "system", label: "Auto" },
  { theme: "light", label: "Light" },
  { theme: "dark", label: "Dark" },
];

function Themes() {
  const chosen = useStore(theme);
  return (
    <div class="themes" role="radiogroup" aria-label="Colours">
      {THEMES.map((entry) => (
        <label key={entry.theme}>
          <input type="radio" name="theme" checked={entry.theme === chosen} onChange={() => choose(entry.theme)} />
          {entry.label}
        </label>
      ))}
    </div>
  );
}
