import { Store, useStore } from "./store";

/** The part of the address behind #: the page and what it shows, so that a person can share it. Browsers do not send it to servers. */
export interface Location {
  /** It begins with a slash. Its parts are percent-encoded. */
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

/**
 * One function for each form. It returns whether the form has unsaved input ("typed") or waits for a response ("sent"). If so, the person is asked before
 * another page is shown.
 */
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
 * Returns the address of a page, for href: link("/buckets/:bucket", { bucket: "a" }, { tag: "b" }) is "#/buckets/a?tag=b". Parts of the pattern that begin with
 * a colon are replaced by params, percent-encoded. Empty values of the query are left out.
 */
export function link(pattern: string, params: Record<string, string> = {}, query: Record<string, string | undefined> = {}): string {
  const path = pattern.replace(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? ""));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value);
  const text = search.toString();
  return `#${path}${text === "" ? "" : `?${text}`}`;
}

/** Goes to an address that link has returned. saved means that the input of the page is saved, so that the person is not asked. */
export function go(href: string, saved = false): void {
  const hash = `#${href.replace(/^#/, "")}`;
  // If the address is already shown, no hashchange event follows. Then saved must not apply to the next page change.
  leaving = saved && hash !== window.location.hash;
  window.location.hash = hash;
}

/**
 * Asks the person whether to discard what they have typed or sent, and reports whether they agree. Returns true without a question if there is nothing to
 * discard.
 */
export function givesUp(): boolean {
  const held = [...unsaved].map((asks) => asks());
  const what = held.includes("sent") ? "sent" : held.includes("typed") ? "typed" : "";
  return what === "" || window.confirm(questions[what]);
}

/** Changes the query behind the ? of the address. The page stays. With replace, the history gets no new entry: use this for filters that are being typed. */
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
 * Calls setQuery after wait milliseconds, unless the person leaves the page before: what was typed on one page is not a filter of the next one. Returns a
 * function that cancels the call.
 */
export function setQueryLater(changes: Record<string, string | undefined>, wait: number): () => void {
  const { path } = location.get();
  const timer = setTimeout(() => {
    if (location.get().path === path && parse().path === path) setQuery(changes);
  }, wait);
  return () => clearTimeout(timer);
}

/** Returns the query behind #. The component is rendered again when the address changes. */
export function useQuery(): URLSearchParams {
  return useStore(location).query;
}

/** Returns the values of the names in a pattern such as /buckets/:bucket, or undefined if the path does not match. */
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
