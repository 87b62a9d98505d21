import { operations } from "../../generated/operations";
import { Store } from "../store";
import { asProblem, base, call, hooks, idleField, send, type Operation, type Result } from "./client";
import { Problem, problemOf } from "./problem";
import { forget } from "./resource";

/** The key that is signed in, with its permissions. */
export type Session = Result<"SessionService_read">;

/**
 * The state of the session. "unknown": the API has not responded yet. "out": nobody is signed in. "in": somebody is. If ended is true, the API has said that
 * the session is over. The page then stays behind a form in which the same key can sign in again.
 */
export type State = { at: "unknown"; problem?: Problem } | { at: "out"; why?: string } | { at: "in"; session: Session; ended: boolean };

export const session = new Store<State>({ at: "unknown" });

/** The number of seconds until a request is repeated after a 429, or 0 if no request waits. */
export const waiting = new Store(0);

/** The time when the session ends if the person does nothing, in milliseconds since 1970, or 0 if it is unknown. */
export const idleEnd = new Store(0);

/** The channel to other tabs of the console. Its messages contain nothing secret. */
const tabs = new BroadcastChannel("gatewright-session");
type Message = { type: "out" } | { type: "in" } | { type: "active" };
const tell = (message: Message) => tabs.postMessage(message);

const path = () => new URL("v1/session", base);

/** Counts the beginnings and ends of sessions here. A request with an earlier number belongs to an earlier session. */
let turn = 0;
/** Counts the requests and events that determine who is signed in. Only the latest counts, in whatever order the responses come. */
let word = 0;

/** Identifies the key that is signed in, to distinguish its requests from those of another key. Returns "" if nobody is signed in. */
export function holder(): string {
  const now = session.get();
  return now.at === "in" ? `${now.session.account} ${now.session.sub}` : "";
}

/**
 * Asks the API who is signed in, when the page was loaded or another tab has signed in. If the API does not respond, a page of a person who is signed in stays
 * as it is.
 */
export async function restore(): Promise<void> {
  const before = session.get();
  const asked = ++word;
  const failed = (problem: Problem) => {
    if (asked === word && before.at !== "in") session.set({ at: "unknown", problem });
  };
  try {
    const response = await send(path(), { credentials: "same-origin", cache: "no-store", headers: { Accept: "application/json", [idleField]: "true" } });
    const now = response.ok ? ((await response.json()) as Session) : undefined;
    if (asked !== word) return;
    if (now) begin(now);
    else if (response.status !== 401) failed(await problemOf(response));
    else if (before.at === "in") session.set({ ...before, ended: true });
    else session.set({ at: "out", ...(before.at === "out" && before.why ? { why: before.why } : {}) });
  } catch (error) {
    failed(asProblem(error));
  }
}

/**
 * Exchanges a key for a session, whose cookie no script can read. Only this call has the key: nothing stores it.
 *
 * It throws a Problem if the key is not accepted.
 */
export async function signIn(key: string): Promise<void> {
  const response = await send(path(), {
    method: "POST", credentials: "same-origin", cache: "no-store", redirect: "error",
    headers: { Accept: "application/json", Authorization: `Bearer ${key}` },
  });
  if (!response.ok) throw await problemOf(response);
  // Check the cookie now: a browser that does not keep it would show the form again and again.
  const kept = await send(path(), { credentials: "same-origin", cache: "no-store", headers: { Accept: "application/json" } });
  if (kept.status === 401) throw new Problem(0, "No session", "The key is right, and the browser did not keep the session’s cookie. It keeps it for addresses that begin with https://, and for this machine’s own.");
  if (!kept.ok) throw await problemOf(kept);
  const now = (await kept.json()) as Session;
  word++;
  begin(now);
  tell({ type: "in" });
}

function begin(now: Session): void {
  turn++;
  const before = session.get();
  if (before.at === "in" && (before.session.sub !== now.sub || before.session.account !== now.account)) {
    // Another key may have fewer permissions or belong to another account. Nothing that the earlier key has loaded may stay.
    forget();
    settle(false);
  }
  session.set({ at: "in", session: now, ended: false });
  active();
  settle(true);
}

/** Ends the session here and in all tabs. If the API cannot be reached, the cookie stays valid, and the function throws a problem. */
export async function signOut(): Promise<void> {
  const response = await send(path(), { method: "DELETE", credentials: "same-origin", cache: "no-store" });
  if (!response.ok && response.status !== 401) throw await problemOf(response);
  leave("You have signed out.");
  tell({ type: "out" });
}

function leave(why: string): void {
  turn++;
  word++;
  forget();
  session.set({ at: "out", why });
  idleEnd.set(0);
  settle(false);
}

tabs.addEventListener("message", ({ data }: MessageEvent<Message>) => {
  if (data.type === "out") leave("You have signed out in another tab.");
  else if (data.type === "active") extend();
  // The other tab may have signed in with another key: all tabs share the cookie.
  else void restore();
});

/** The requests that wait until the same key signs in again. Each is called with true if it may be repeated. */
let pending: ((again: boolean) => void)[] = [];

function settle(again: boolean): void {
  const all = pending;
  pending = [];
  for (const done of all) done(again);
}

hooks.asker = () => ({ who: holder(), turn });
hooks.signedOut = (asker) => {
  const now = session.get();
  if (now.at !== "in" || holder() !== asker.who) return Promise.resolve(false);
  // The request was refused before the present session began, and its response has come late.
  if (!now.ended && asker.turn !== turn) return Promise.resolve(true);
  if (!now.ended) session.set({ ...now, ended: true });
  idleEnd.set(0);
  return new Promise((done) => pending.push(done));
};
hooks.waiting = (seconds) => waiting.set(seconds);
hooks.changed = forget;
hooks.active = active;

let lastTold = 0;

/** The minimum time between two messages to other tabs that a person is active here, in milliseconds. */
const toldEvery = 20_000;

function active(): void {
  extend();
  if (Date.now() - lastTold > toldEvery) {
    lastTold = Date.now();
    tell({ type: "active" });
  }
}

function extend(): void {
  const now = session.get();
  if (now.at !== "in" || now.ended || !now.session.session) return;
  const end = new Date(now.session.session.expiresOn).getTime();
  idleEnd.set(Math.min(Date.now() + now.session.session.idleSeconds * 1000, end));
}

/** Extends the session, at the request of a person who sees that it is about to end. */
export async function stay(): Promise<void> {
  const who = holder();
  const { data } = await call("SessionService_read", {});
  if (who === holder()) begin(data);
}

/** Asks the API at the expected end of the session whether it has ended. This request does not extend it. */
export function checkEnd(): void {
  const who = holder();
  void call("SessionService_read", { idle: true }).then(({ data }) => who === holder() && begin(data), () => {});
}

/** Reports whether the key has a scope. A scope such as variables:write includes variables:read. */
export function hasScope(scope: string): boolean {
  const now = session.get();
  if (now.at !== "in") return false;
  if (scope === "") return true;
  const scopes: "all" | string[] = now.session.scopes as "all" | string[];
  return scopes === "all" || scopes.includes(scope) || (scope.endsWith(":read") && scopes.includes(scope.replace(/:read$/, ":write")));
}

/** Reports whether the key has the scope that the operation requires. Pages do not offer what it may not do. */
export function may(operation: Operation): boolean {
  return hasScope(operations[operation][2]);
}

/** Returns the account of the key that is signed in. */
export function account(): string {
  const now = session.get();
  return now.at === "in" ? (now.session.account ?? "") : "";
}

/** Leaves a session that has ended, and discards what was typed in it. */
export function leaveEnded(): void {
  leave("Your session has ended.");
}
