import type { operations as Schema } from "../../generated/schema";
import { operations } from "../../generated/operations";
import { Problem, problemOf, unreachable } from "./problem";

/** The name of an operation of the API, as its description has it. */
export type Operation = keyof Schema & keyof typeof operations;

type Json<T> = T extends { content: { "application/json": infer B } } ? B : undefined;
type Good<R> = R extends { 201: infer T } ? Json<T> : R extends { 200: infer T } ? Json<T> : undefined;
type Part<P, K extends string> = P extends { [key in K]: infer V } ? V : P extends { [key in K]?: infer V } ? V : undefined;

/** What an operation answers when it is well. */
export type Result<O extends Operation> = Good<Schema[O]["responses"]>;
/** What its path needs. */
export type Path<O extends Operation> = Part<Schema[O]["parameters"], "path">;
/** What its query may have. */
export type Query<O extends Operation> = NonNullable<Part<Schema[O]["parameters"], "query">>;
/** The body that it takes. */
export type Body<O extends Operation> = Schema[O] extends { requestBody: infer B } ? Json<B> : Schema[O] extends { requestBody?: infer B } ? Json<NonNullable<B>> : undefined;

/** What a request has: the parts that an operation takes, and how it is asked. */
export type Arguments<O extends Operation> = {
  query?: Query<O>;
  signal?: AbortSignal;
  /** The ETag that what is changed has to have still. */
  ifMatch?: string;
  /** Makes a repeat safe: give the same one for the same change. A change without one gets one of its own. */
  idempotencyKey?: string;
  /** It is asked by a timer and not by a person: the session does not last longer for it. */
  idle?: boolean;
} & (Path<O> extends undefined ? { path?: undefined } : { path: Path<O> }) & (Body<O> extends undefined ? { body?: undefined } : { body: Body<O> });

/** An answer, with the ETag by which a change says what it was made of. */
export interface Answer<T> {
  data: T;
  etag: string;
}

/** The field by which a request says that no person asked it. */
export const idleField = "Gatewright-Idle";

/** The folder of the installation's addresses: scripts are in console/ below it, whatever proxy or stage is in front. */
export const base = new URL("../", import.meta.url);

/** Who asks: the key that is signed in, empty for nobody, and how often a session had begun or ended here by then. */
export interface Asker {
  who: string;
  turn: number;
}

/** What the client needs of the session, which sets it: it is asked when an answer says that nobody is signed in. */
export const hooks = {
  /** Who is signed in, and since when, which a request notes as it is sent. */
  asker: (): Asker => ({ who: "", turn: 0 }),
  /** Resolves with true when the same key has signed in again since a request was sent, so that it can be repeated. */
  signedOut: async (_asker: Asker): Promise<boolean> => false,
  /** A person has asked something, so the session lasts on. */
  active: () => {},
  /** The API asks to wait so many seconds; 0 when that is over. */
  waiting: (_seconds: number) => {},
  /** Something may have changed: what is remembered of lists is old. */
  changed: () => {},
};

/** The longest that one waits without a word of the person, in seconds, and how often. */
const patience = { seconds: 60, times: 4 };

/**
 * The address of an operation. Values are percent-encoded whole, so that none leads elsewhere. Of an object in the query, such as { tag: { "tag.plan": "gold" } }, each
 * member is a parameter of its own.
 */
export function address(operation: Operation, path: Record<string, string> | undefined, query: object | undefined): URL {
  const template: string = operations[operation][1];
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = path?.[name];
    // "." and ".." would be taken for folders, encoded or not, and an empty part for another operation.
    if (value === undefined || value === "" || value === "." || value === "..") {
      throw new Problem(404, "Not Found", `There is nothing of the name “${value ?? ""}”.`);
    }
    return encodeURIComponent(value);
  });
  const out = new URL(filled.slice(1), base);
  const given = Object.entries(query ?? {}).flatMap(([name, value]): [string, unknown][] => (value !== null && typeof value === "object" && !Array.isArray(value) ? Object.entries(value as object) : [[name, value]]));
  for (const [name, value] of given) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") out.searchParams.append(name, String(one));
    }
  }
  return out;
}

/**
 * Asks an operation of the API.
 *
 * It waits where the API says so by 429, and asks again when the session had ended and the same key has signed in anew, both of which are safe: neither
 * carried anything out. Everything else that goes wrong is thrown, as a Problem; an aborted request as an AbortError.
 */
export async function call<O extends Operation>(operation: O, args: Arguments<O>): Promise<Answer<Result<O>>> {
  const [method] = operations[operation];
  const changes = method !== "GET";
  const url = address(operation, args.path as Record<string, string> | undefined, args.query);
  const headers = new Headers({ Accept: "application/json, application/problem+json" });
  if (args.idle) headers.set(idleField, "true");
  if (args.ifMatch) headers.set("If-Match", args.ifMatch);
  if (changes && method !== "DELETE") headers.set("Idempotency-Key", args.idempotencyKey ?? crypto.randomUUID());
  const init: RequestInit = { method, headers, credentials: "same-origin", cache: "no-store", redirect: "error", signal: args.signal ?? null };
  if (args.body !== undefined) {
    headers.set("Content-Type", "application/json");
    init.body = JSON.stringify(args.body);
  }
  for (let waits = 0; ; ) {
    const asker = hooks.asker();
    const response = await send(url, init);
    if (response.ok) {
      if (!args.idle) hooks.active();
      if (changes) hooks.changed();
      return { data: (await read(response, method === "DELETE")) as Result<O>, etag: response.headers.get("ETag") ?? "" };
    }
    const problem = await problemOf(response);
    if (problem.status === 401 && (await hooks.signedOut(asker))) {
      args.signal?.throwIfAborted();
      continue;
    }
    if (problem.status === 429 && !args.idle && problem.retryAfter > 0 && problem.retryAfter <= patience.seconds && waits++ < patience.times) {
      await wait(problem.retryAfter, args.signal);
      // What one key has asked for is nothing that another one asks, which has signed in while it waited.
      if (hooks.asker().who !== asker.who) throw problem;
      continue;
    }
    if (changes && problem.unknown) hooks.changed();
    throw problem;
  }
}

/** Sends a request once. The session's own requests, which carry a key, are sent by it too. */
export async function send(url: URL, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw unreachable();
  }
}

async function read(response: Response, removal: boolean): Promise<unknown> {
  if (response.status === 204) return undefined;
  try {
    const text = await response.text();
    // What removes something may answer nothing by a 200 as well.
    return removal && text === "" ? undefined : JSON.parse(text);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Problem(0, "Cut answer", "The answer was cut on its way. Try again.");
  }
}

/** Waits, and tells every second how long it will be yet. */
async function wait(seconds: number, signal: AbortSignal | undefined): Promise<void> {
  try {
    for (let left = seconds; left > 0; left--) {
      hooks.waiting(left);
      await new Promise((done) => setTimeout(done, 1000));
      signal?.throwIfAborted();
    }
  } finally {
    hooks.waiting(0);
  }
}

/** Whether an error is that of a request that its page gave up. */
export function aborted(error: unknown): boolean {
  return (error as { name?: string } | null)?.name === "AbortError";
}

/** Whatever was thrown, as a problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  console.error(error);
  return new Problem(0, "Something went wrong", "The console itself failed at this, which is a defect of it. Load the page anew.");
}
