import { useCallback, useRef, useState } from "preact/hooks";
import { notify } from "../ui/live";
import { visible } from "../ui/text";
import { readAgain, useGone } from "./gone";
import { holder } from "./session";
import { asProblem, call, type Answer, type Arguments, type Operation, type Result } from "./client";
import type { Problem } from "./problem";

/** A change that a person makes: whether it is under way, and what came of it. */
export interface Change<O extends Operation> {
  /** Carries it out; undefined where that did not work, which problem tells. A second call while one is under way does nothing. */
  run: (args: Arguments<O>) => Promise<Answer<Result<O>> | undefined>;
  busy: boolean;
  problem: Problem | undefined;
  clear: () => void;
  /**
   * Whether what asked for it is still shown. An answer that comes after it was left is told, and lists show what it has changed; it closes nothing and leads nowhere, because what is open
   * then is something else.
   */
  here: () => boolean;
}

/**
 * Makes a change safe to repeat. As long as it is not known what came of it, because the connection was cut, the same change
 * carries the same Idempotency-Key; and something that is gone when its removal is repeated was removed by the first attempt.
 * What went wrong after what asked for it was left is told by a notice. Nothing is told to another key than the one that asked.
 */
export function useChange<O extends Operation>(operation: O): Change<O> {
  const [state, setState] = useState<{ busy: boolean; problem: Problem | undefined }>({ busy: false, problem: undefined });
  const attempt = useRef<{ of: string; key: string } | undefined>(undefined);
  const busy = useRef(false);
  const gone = useGone();

  const run = useCallback(async (args: Arguments<O>) => {
    if (busy.current) return undefined;
    busy.current = true;
    setState({ busy: true, problem: undefined });
    const who = holder();
    const of = JSON.stringify([args.path, args.query, args.body, args.ifMatch]);
    const again = attempt.current?.of === of;
    if (!again) attempt.current = { of, key: crypto.randomUUID() };
    const done = (answer: Answer<Result<O>>) => {
      attempt.current = undefined;
      if (gone.current && who !== holder()) return undefined;
      if (gone.current) readAgain();
      setState({ busy: false, problem: undefined });
      return answer;
    };
    try {
      return done(await call(operation, { ...args, idempotencyKey: attempt.current!.key }));
    } catch (error) {
      const problem = asProblem(error);
      if (again && problem.status === 404 && operation.toLowerCase().includes("delete")) return done({ data: undefined as Result<O>, etag: "" });
      if (!problem.unknown) attempt.current = undefined;
      if (gone.current && who === holder()) {
        if (problem.unknown) readAgain();
        notify(`What was on its way when you went on ${problem.unknown ? "may not be done" : "was not done"}: ${visible(problem.detail)}`);
      }
      setState({ busy: false, problem });
      return undefined;
    } finally {
      busy.current = false;
    }
  }, [operation]);

  return { run, ...state, clear: useCallback(() => setState({ busy: busy.current, problem: undefined }), []), here: useCallback(() => !gone.current, []) };
}
