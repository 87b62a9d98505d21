import { Store, useStore } from "./store";

/** What stands behind # in the address: a page and what it shows, which a person can share. No server sees it. */
export interface Location {
  /** Begins with a slash; its parts are percent-encoded. */
  path: string;
  query: URLSearchParams;
}

function parse(): Location {
  const hash = window.location.hash.replace(/^#/, "");
  const mark = hash.indexOf("?");
  const path = mark < 0 ? hash : hash.slice(0, mark);
  return { path: path.startsWith("/") ? path : "/", query: new URLSearchParams(mark < 0 ? "" : hash.slice(mark + 1)) };
}

export const location = new Store<Location>(parse());

/** What a form holds that is not saved, or was sent and has no answer yet: its question is asked before another page takes its place. */
export const unsaved = new Set<() => "" | "typed" | "sent">();

const questions = {
  typed: "Leave this? What you have typed is not saved.",
  sent: "Leave this? What you have sent is on its way and may be done nevertheless; a key that it makes would not be shown.",
};

let shown = window.location.hash;
let leaving = false;

window.addEventListener("hashchange", () => {
  if (window.location.hash === shown) return;
  const saved = leaving;
  leaving = false;
  if (!saved && parsePath(shown) !== parse().path && !givesUp()) {
    window.history.replaceState(null, "", shown || "#/");
    return;
  }
  shown = window.location.hash;
  location.set(parse());
});

window.addEventListener("beforeunload", (event) => {
  if ([...unsaved].some((asks) => asks() !== "")) event.preventDefault();
});

function parsePath(hash: string): string {
  return hash.replace(/^#/, "").split("?")[0] ?? "";
}

/**
 * The address of a page, for href: link("/buckets/:bucket", { bucket: "a" }, { tag: "b" }) is "#/buckets/a?tag=b". Parts of the pattern that
 * begin with a colon are filled by params, percent-encoded; empty values of the query are left out.
 */
export function link(pattern: string, params: Record<string, string> = {}, query: Record<string, string | undefined> = {}): string {
  const path = pattern.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const text = search.toString();
  return `#${path}${text === "" ? "" : `?${text}`}`;
}

/** Goes to an address that link has made. saved says that what a form of the page holds is saved, so that nobody is asked. */
export function go(href: string, saved = false): void {
  const hash = `#${href.replace(/^#/, "")}`;
  // To where one is already nobody goes, and what is left next is asked about.
  leaving = saved && hash !== window.location.hash;
  window.location.hash = hash;
}

/** Whether a person gives up what they have typed or sent; true where nothing is. */
export function givesUp(): boolean {
  const held = [...unsaved].map((asks) => asks());
  const what = held.includes("sent") ? "sent" : held.includes("typed") ? "typed" : "";
  return what === "" || window.confirm(questions[what]);
}

/**
 * Changes what stands behind the ? and stays on the page. replace makes no new entry of the history: for filters as they are typed.
 */
export function setQuery(changes: Record<string, string | undefined>, replace = true): void {
  const { path, query } = location.get();
  const next = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const text = next.toString();
  const hash = `#${path}${text === "" ? "" : `?${text}`}`;
  if (!replace) return go(hash);
  window.history.replaceState(null, "", hash);
  shown = window.location.hash;
  location.set(parse());
}

/**
 * Is setQuery after some milliseconds, unless the page is left before, or another one is asked for and not shown yet: what was
 * typed on one is no filter of the next. What it returns ends the wait.
 */
export function setQueryLater(changes: Record<string, string | undefined>, wait: number): () => void {
  const { path } = location.get();
  const timer = setTimeout(() => {
    if (location.get().path === path && parse().path === path) setQuery(changes);
  }, wait);
  return () => clearTimeout(timer);
}

/** The query behind #, and how a component follows it. */
export function useQuery(): URLSearchParams {
  return useStore(location).query;
}

/** The params of a path by a pattern such as /buckets/:bucket; undefined where it is another page's. */
export function match(pattern: string, path: string): Record<string, string> | undefined {
  const want = pattern.split("/");
  const parts = path.replace(/(.)\/$/, "$1").split("/");
  if (want.length !== parts.length) return undefined;
  const params: Record<string, string> = {};
  for (const [i, part] of want.entries()) {
    const is = parts[i]!;
    if (!part.startsWith(":")) {
      if (part !== is) return undefined;
      continue;
    }
    try {
      params[part.slice(1)] = decodeURIComponent(is);
    } catch {
      return undefined;
    }
    if (is === "") return undefined;
  }
  return params;
}
