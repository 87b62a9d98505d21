import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useGone, useReader } from "./gone";
import { aborted, asProblem, call, type Answer, type Arguments, type Operation, type Result } from "./client";
import type { Problem } from "./problem";

/**
 * What is known of something that the API has: loading, with nothing to show yet; ready, where refreshing says that a newer one
 * is under way, and problem that the last attempt failed, so that what is shown may be old; failed, with nothing to show.
 */
export type Loaded<T> =
  | { at: "loading" }
  | { at: "failed"; problem: Problem }
  | { at: "ready"; data: T; etag: string; refreshing: boolean; problem?: Problem };

/** How many answers are remembered, so that going back shows at once what was there. They are in memory alone. */
const remembered = 40;
const answers = new Map<string, Answer<unknown>>();
/** How often they were forgotten: an answer that was asked for before is as old as those. */
let forgotten = 0;

/** Forgets all answers: after a change, whatever shows them asks anew; after a session, nobody else sees them. */
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

/** What can be done with a resource beside showing it. */
export interface Resource<T> {
  now: Loaded<T>;
  /** Asks for it again, while what was there stays. */
  reload: () => void;
  /** Shows what a change answered, without asking. */
  replace: (answer: Answer<T>) => void;
}

/** How a resource is asked for. */
export interface ResourceOptions {
  /** Asks again so many milliseconds after each answer, but not while nobody sees the page. Such questions keep no session alive. */
  every?: number;
  /** Answers are not remembered, because they hold something secret. */
  secret?: boolean;
}

/**
 * What an operation answers, for as long as the component is there. args null asks nothing yet.
 *
 * A request ends with its component, and with the arguments that it was for.
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
    // It comes after each answer: one that was on its way when the last was asked, too, and two where a page was hidden and seen between.
    const next = () => {
      window.clearTimeout(timer);
      if (!over && !document.hidden) timer = window.setTimeout(again, every);
    };
    const again = () => {
      if (running.current) return next(); // what somebody waits for is not begun anew
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
