import type { ComponentType } from "preact";
import { useEffect, useErrorBoundary, useLayoutEffect, useState } from "preact/hooks";
import { Problem } from "./api/problem";
import { may, restore, session } from "./api/session";
import { usePages, type Page, type PageProps } from "./registry";
import { link, location, match } from "./router";
import { useStore } from "./store";
import { Live } from "./ui/live";
import { Shell } from "./ui/shell";
import { SignIn, SignInAgain } from "./ui/signin";
import { Loading, ProblemPanel } from "./ui/states";
import { visible } from "./ui/text";

/** The whole console. A person who is signed in sees the page of the address. */
export function App() {
  const state = useStore(session);
  useEffect(() => void restore(), []);
  return (
    <>
      {state.at === "unknown" && (state.problem
        ? <main class="signin"><div class="signin-card"><h1>Gatewright console</h1><ProblemPanel problem={state.problem} onRetry={() => void restore()} /></div></main>
        : <main class="signin"><h1 class="visually-hidden">Gatewright console</h1><Loading /></main>)}
      {state.at === "out" && <Titled title="Sign in"><SignIn why={state.why} /></Titled>}
      {state.at === "in" && (
        <>
          <Signed key={`${state.session.account} ${state.session.sub}`} />
          {state.ended && <SignInAgain account={state.session.account ?? ""} label={state.session.label} />}
        </>
      )}
      <Live />
    </>
  );
}

function Titled({ title, children }: { title: string; children: preact.ComponentChildren }) {
  useLayoutEffect(() => void (document.title = `${title} · Gatewright`), [title]);
  return <>{children}</>;
}

/** The code of pages that is already loaded, so that a page is shown immediately when a person goes back. */
const loadedPages = new Map<Page, ComponentType<PageProps>>();

function Signed() {
  const state = useStore(session);
  const { path } = useStore(location);
  const pages = usePages();
  const page = pages.find((p) => match(p.path, path));
  const params = (page && match(page.path, path)) ?? {};
  const titled = (p: Page) => visible(p.title.replace(/:(\w+)/g, (_, name: string) => params[name] ?? ""));
  const title = page ? titled(page) : "No such page";
  const above = page?.up && pages.find((p) => p.path === page.up);
  if (state.at !== "in") return null;
  return (
    <Titled title={above ? `${title} · ${titled(above)}` : title}>
      <Shell session={state.session} page={page}>
        {page === undefined
          ? <><h1 tabIndex={-1}>No such page</h1><p>The address leads nowhere. <a href={link("/")}>Go to the overview.</a></p></>
          : page.needs !== undefined && !may(page.needs)
            ? <><h1 tabIndex={-1}>{title}</h1><ProblemPanel problem={new Problem(403, "Forbidden", "This account key lacks the scope for what this page shows. Sign in with a key that has it.")} /></>
            : <Opened key={path} page={page} params={params} />}
      </Shell>
    </Titled>
  );
}

/** Whether no page has been left yet. On the first page, the focus stays where the browser has set it. */
let first = true;

/** A page, whose code is loaded when it is first opened. */
function Opened({ page, params }: { page: Page; params: Record<string, string> }) {
  const [Shown, setShown] = useState<ComponentType<PageProps> | undefined>(() => loadedPages.get(page));
  const [failed, setFailed] = useState(false);
  const [defect, clear] = useErrorBoundary((error) => console.error(error));
  useEffect(() => {
    if (Shown || failed) return;
    page.load().then((m) => {
      loadedPages.set(page, m.default);
      setShown(() => m.default);
    }, () => setFailed(true));
  }, [page, Shown, failed]);
  useEffect(() => {
    if (!failed) return;
    const again = () => window.location.reload(); // reloading loses no input, because the page was never shown
    window.addEventListener("online", again);
    return () => window.removeEventListener("online", again);
  }, [failed]);
  useLayoutEffect(() => {
    if (!Shown) return;
    if (!first) {
      window.scrollTo(0, 0);
      document.querySelector<HTMLElement>("main h1")?.focus({ preventScroll: true });
    }
  }, [Shown]);
  // A page that is left before its code has loaded counts as the first page too.
  useLayoutEffect(() => () => { first = false; }, []);
  if (defect) return <><h1 tabIndex={-1}>Something went wrong</h1><ProblemPanel problem={new Problem(0, "A defect of the console", "This page could not be shown. What is in the API is as it was.")} onRetry={clear} /></>;
  if (failed) return <><h1 tabIndex={-1}>Not loaded</h1><ProblemPanel problem={new Problem(0, "Not loaded", "The code of this page could not be loaded. The connection was cut, or the console has a new version: load the page anew.")} onRetry={() => window.location.reload()} /></>;
  if (!Shown) return <Loading />;
  return <Shown params={params} />;
}
