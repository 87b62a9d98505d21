import type { operations as Schema } from "../../generated/schema";
import { operations } from "../../generated/operations";
import { Problem, problemOf, unreachable } from "./problem";

/** The name of an operation of the API, as in the OpenAPI document. */
export type Operation = keyof Schema & keyof typeof operations;

type Json<T> = T extends { content: { "application/json": infer B } } ? B : undefined;
type Good<R> = R extends { 201: infer T } ? Json<T> : R extends { 200: infer T } ? Json<T> : undefined;
type Part<P, K extends string> = P extends { [key in K]: infer V } ? V : P extends { [key in K]?: infer V } ? V : undefined;

/** The body of a successful response of an operation. */
export type Result<O extends Operation> = Good<Schema[O]["responses"]>;
/** The parameters in the path of an operation. */
export type Path<O extends Operation> = Part<Schema[O]["parameters"], "path">;
/** The query parameters of an operation. */
export type Query<O extends Operation> = NonNullable<Part<Schema[O]["parameters"], "query">>;
/** The request body of an operation. */
export type Body<O extends Operation> = Schema[O] extends { requestBody: infer B } ? Json<B> : Schema[O] extends { requestBody?: infer B } ? Json<NonNullable<B>> : undefined;

/** The arguments of a request: the parameters and body of its operation, and options of the request itself. */
export type Arguments<O extends Operation> = {
  query?: Query<O>;
  signal?: AbortSignal;
  /** The value of If-Match: the change fails unless the object still has this ETag. */
  ifMatch?: string;
  /** Makes a repeat safe: use the same key for each attempt of the same change. By default, each call has its own key. */
  idempotencyKey?: string;
  /** The request comes from a timer and not from a person, so it does not extend the session. */
  idle?: boolean;
} & (Path<O> extends undefined ? { path?: undefined } : { path: Path<O> }) & (Body<O> extends undefined ? { body?: undefined } : { body: Body<O> });

/** The body of a response, with its ETag, which a later change sends as If-Match. */
export interface Answer<T> {
  data: T;
  etag: string;
}

/** The header of a request that no person has caused. */
export const idleField = "Gatewright-Idle";

/** The base URL of the installation. The scripts are in console/ below it, behind any proxy or API Gateway stage. */
export const base = new URL("../", import.meta.url);

/**
 * The sender of a request. who identifies the key that is signed in, or is "" if none is. turn is the number of times that a session had begun or ended here
 * before the request.
 */
export interface Asker {
  who: string;
  turn: number;
}

/** What the client needs from the session. session.ts sets these functions, because it imports this file. */
export const hooks = {
  /** Returns the present sender. A request remembers it when it is sent. */
  asker: (): Asker => ({ who: "", turn: 0 }),
  /** Called after a response with the status 401. Resolves with true when the same key has signed in again, so that the request can be repeated. */
  signedOut: async (_asker: Asker): Promise<boolean> => false,
  /** Called after a request of a person, which extends the session. */
  active: () => {},
  /** Called each second with the number of seconds until a request is repeated after a 429. 0 means that no request waits. */
  waiting: (_seconds: number) => {},
  /** Called after a change, or after one whose result is unknown: remembered responses may be outdated. */
  changed: () => {},
};

/** The limits for repeats after a 429: the maximum wait in seconds, and the maximum number of waits. */
const patience = { seconds: 60, times: 4 };

/**
 * Returns the URL of an operation. Path values are percent-encoded completely, so that none leads to another address. Each member of an object in the query,
 * such as { tag: { "tag.plan": "gold" } }, becomes its own parameter.
 */
export function address(operation: Operation, path: Record<string, string> | undefined, query: object | undefined): URL {
  const template: string = operations[operation][1];
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = path?.[name];
    // URL treats "." and ".." as folders, even if they are encoded. An empty part would be the path of another operation.
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
 * Sends a request for an operation of the API.
 *
 * After a 429 it waits as long as the response says and repeats the request. If the session has ended, it repeats the request when the same key has signed in
 * again. Both are safe, because the API did not carry out the first request. It throws all other failures as a Problem, and an AbortError for an aborted
 * request.
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
      // Another key may have signed in during the wait. It must not repeat this request.
      if (hooks.asker().who !== asker.who) throw problem;
      continue;
    }
    if (changes && problem.unknown) hooks.changed();
    throw problem;
  }
}

/** Sends a request once. session.ts also uses it, for its requests with a key. */
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
    // The response to a deletion can also have the status 200 and no body.
    return removal && text === "" ? undefined : JSON.parse(text);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Problem(0, "Cut answer", "The answer was cut on its way. Try again.");
  }
}

/** Waits, and passes the remaining seconds to hooks.waiting every second. */
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

/** Reports whether an error comes from a request that was aborted. */
export function aborted(error: unknown): boolean {
  return (error as { name?: string } | null)?.name === "AbortError";
}

/** Converts anything that was thrown to a Problem. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  console.error(error);
  return new Problem(0, "Something went wrong", "The console itself failed at this, which is a defect of it. Load the page anew.");
}
