import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useGone, useReader } from "./gone";
import { aborted, asProblem, call, type Answer, type Arguments, type Operation, type Result } from "./client";
import type { Problem } from "./problem";

/**
 * The state of an object of the API. "loading" and "failed" have nothing to show. In the state "ready", refreshing means that a newer version is being read. If
 * problem is set there, the last attempt failed, so the data may be outdated.
 */
export type Loaded<T> =
  | { at: "loading" }
  | { at: "failed"; problem: Problem }
  | { at: "ready"; data: T; etag: string; refreshing: boolean; problem?: Problem };

/** The maximum number of remembered responses. They let a page show its former content immediately when a person goes back. They are only in memory. */
const remembered = 40;
const answers = new Map<string, Answer<unknown>>();
/** Counts the calls of forget: a response is not remembered if forget was called after its request. */
let forgotten = 0;

/** Forgets all responses: after a change, because they may be outdated; after a session, because nobody else may see them. */
export function forget(): void {
  forgotten++;
  answers.clear();
}

function remember(key: string, answer: Answer<unknown>): void {
  answers.delete(key);
  answers.set(key, answer);
  for (const oldest of answers.keys()) {
    if (answers.size <= remembered) break;
    answers.delete(oldest);
  }
}

/** A resource of the API, and what a component can do with it. */
export interface Resource<T> {
  now: Loaded<T>;
  /** Reads it again. Until the response comes, the former data stays. */
  reload: () => void;
  /** Shows the response to a change, without a request. */
  replace: (answer: Answer<T>) => void;
}

/** Options of useResource. */
export interface ResourceOptions {
  /** Reads again this many milliseconds after each response, but not while the page is hidden. These requests do not extend the session. */
  every?: number;
  /** Responses are not remembered, because they contain a secret. */
  secret?: boolean;
}

/**
 * Reads the response of an operation while the component exists. If args is null, it sends no request.
 *
 * A request is aborted when its component is removed or its arguments change.
 */
export function useResource<O extends Operation>(operation: O, args: Arguments<O> | null, options: ResourceOptions = {}): Resource<Result<O>> {
  const key = args === null ? "" : operation + JSON.stringify([args.path, args.query]);
  const [shown, setShown] = useState<{ key: string; now: Loaded<Result<O>> }>({ key: "", now: { at: "loading" } });
  const current = useRef(key);
  current.current = key;
  const argsNow = useRef(args);
  argsNow.current = args;
  const running = useRef<AbortController>(undefined);
  const gone = useGone();
  const { every = 0, secret = false } = options;

  const show = useCallback((answer: Answer<Result<O>>, refreshing: boolean) => {
    setShown({ key: current.current, now: { at: "ready", data: answer.data, etag: answer.etag, refreshing } });
  }, []);

  const ask = useCallback(async (idle: boolean) => {
    const asked = current.current;
    if (argsNow.current === null || gone.current) return;
    const then = forgotten;
    running.current?.abort();
    const controller = (running.current = new AbortController());
    setShown((before) => (before.key === asked && before.now.at === "ready" ? { key: asked, now: { ...before.now, refreshing: !idle } }
      : before.key === asked && before.now.at === "failed" && idle ? before : { key: asked, now: before.key === asked && before.now.at === "failed" ? { at: "loading" } : before.key === asked ? before.now : { at: "loading" } }));
    try {
      const answer = await call(operation, { ...argsNow.current, signal: controller.signal, idle });
      if (current.current !== asked || controller.signal.aborted) return;
      if (!secret && then === forgotten) remember(asked, answer);
      show(answer, false);
    } catch (error) {
      if (aborted(error) || current.current !== asked || controller.signal.aborted) return;
      const problem = asProblem(error);
      setShown((before) => ({ key: asked, now: before.key === asked && before.now.at === "ready" && problem.status !== 404 && problem.status !== 403
        ? { ...before.now, refreshing: false, problem } : { at: "failed", problem } }));
    } finally {
      if (running.current === controller) running.current = undefined;
    }
  }, [operation, secret, show]);

  useEffect(() => {
    if (key === "") return undefined;
    const before = answers.get(key) as Answer<Result<O>> | undefined;
    if (before) show(before, true);
    void ask(false);
    return () => running.current?.abort();
  }, [key, ask, show]);

  useEffect(() => {
    if (every <= 0 || key === "") return undefined;
    let timer = 0;
    let over = false;
    let own: AbortController | undefined;
    // This runs after each response, including the response to an earlier request, and after a page was hidden and shown again. So clear the timer first.
    const next = () => {
      window.clearTimeout(timer);
      if (!over && !document.hidden) timer = window.setTimeout(again, every);
    };
    const again = () => {
      if (running.current) return next(); // do not restart a request that a person waits for
      const asked = ask(true);
      own = running.current;
      void asked.finally(next);
    };
    const seen = () => {
      window.clearTimeout(timer);
      if (!document.hidden) again();
    };
    next();
    document.addEventListener("visibilitychange", seen);
    return () => {
      over = true;
      own?.abort();
      window.clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [every, key, ask]);

  const now: Loaded<Result<O>> = shown.key === key ? shown.now : { at: "loading" };
  const reload = useCallback(() => void ask(false), [ask]);
  useReader(reload);
  return { now, reload, replace: useCallback((answer) => show(answer, false), [show]) };
}
