import { operations } from "../../generated/operations";
import { Store } from "../store";
import { asProblem, base, call, hooks, idleField, send, type Operation, type Result } from "./client";
import { Problem, problemOf } from "./problem";
import { forget } from "./resource";

/** Who is signed in, and what their key may. */
export type Session = Result<"SessionService_read">;

/**
 * What the page knows of the session: unknown until the API was asked; out, with nobody signed in; in. ended is in, but
 * the API has said that it is over: the page stays behind the form by which the same key goes on.
 */
export type State = { at: "unknown"; problem?: Problem } | { at: "out"; why?: string } | { at: "in"; session: Session; ended: boolean };

export const session = new Store<State>({ at: "unknown" });

/** Seconds until the API asks to be asked again; 0 where nothing waits. */
export const waiting = new Store(0);

/** When the session ends unless a person does something, in milliseconds since 1970; 0 where that is not known. */
export const idleEnd = new Store(0);

/** Other tabs of the console. Nothing that passes here is secret. */
const tabs = new BroadcastChannel("gatewright-session");
type Message = { type: "out" } | { type: "in" } | { type: "active" };
const tell = (message: Message) => tabs.postMessage(message);

const path = () => new URL("v1/session", base);

/** Counts what has become of the session here: a request of before the last of it is of another one. */
let turn = 0;
/** Counts what says who is signed in, of which the last is right, whatever is answered last. */
let word = 0;

/** The key that is signed in, by which what it has asked for is told from another one's; empty for nobody. */
export function holder(): string {
  const now = session.get();
  return now.at === "in" ? `${now.session.account} ${now.session.sub}` : "";
}

/** Asks who is signed in, as a page does that was just loaded, or that hears of another tab's. What is shown stays where the API does not answer. */
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
 * Exchanges a key for a session, whose cookie no script sees. The key is in this call alone: nothing keeps it.
 *
 * It throws a Problem where the key opens nothing.
 */
export async function signIn(key: string): Promise<void> {
  const response = await send(path(), {
    method: "POST", credentials: "same-origin", cache: "no-store", redirect: "error",
    headers: { Accept: "application/json", Authorization: `Bearer ${key}` },
  });
  if (!response.ok) throw await problemOf(response);
  // A browser that keeps no cookie here would be asked for the key again and again.
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
    // Another key may less or see others' things: nothing of the page that the last one saw stays.
    forget();
    settle(false);
  }
  session.set({ at: "in", session: now, ended: false });
  active();
  settle(true);
}

/** Ends the session here and in all tabs. Where the API can't be reached the cookie lives on, which the problem says. */
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
  // It may have signed in by another key: the cookie is one for all.
  else void restore();
});

/** Requests that wait for the same key to sign in again: true lets them be repeated. */
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
  // It was refused before the session began anew, and its answer has come after.
  if (!now.ended && asker.turn !== turn) return Promise.resolve(true);
  if (!now.ended) session.set({ ...now, ended: true });
  idleEnd.set(0);
  return new Promise((done) => pending.push(done));
};
hooks.waiting = (seconds) => waiting.set(seconds);
hooks.changed = forget;
hooks.active = active;

let lastTold = 0;

/** How often other tabs are told that somebody works here, in milliseconds. */
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

/** Makes the session last on, as somebody asks who sees that it is about to end. */
export async function stay(): Promise<void> {
  const who = holder();
  const { data } = await call("SessionService_read", {});
  if (who === holder()) begin(data);
}

/** The time has come at which the API lets the session end: ask it, which is no activity, whether it has. */
export function checkEnd(): void {
  const who = holder();
  void call("SessionService_read", { idle: true }).then(({ data }) => who === holder() && begin(data), () => {});
}

/** Whether the key has the scope, such as variables:write, which holds variables:read. */
export function hasScope(scope: string): boolean {
  const now = session.get();
  if (now.at !== "in") return false;
  if (scope === "") return true;
  const scopes: "all" | string[] = now.session.scopes as "all" | string[];
  return scopes === "all" || scopes.includes(scope) || (scope.endsWith(":read") && scopes.includes(scope.replace(/:read$/, ":write")));
}

/** Whether the key may do this, by the scope that the operation takes: what it may not is not offered. */
export function may(operation: Operation): boolean {
  return hasScope(operations[operation][2]);
}

/** The account of who is signed in. */
export function account(): string {
  const now = session.get();
  return now.at === "in" ? (now.session.account ?? "") : "";
}

/** Gives up a session that has ended, and what was typed in it. */
export function leaveEnded(): void {
  leave("Your session has ended.");
}
