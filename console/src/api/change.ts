import { useCallback, useRef, useState } from "preact/hooks";
import { notify } from "../ui/live";
import { visible } from "../ui/text";
import { readAgain, useGone } from "./gone";
import { holder } from "./session";
import { asProblem, call, type Answer, type Arguments, type Operation, type Result } from "./client";
import type { Problem } from "./problem";

/** A change that a person makes: whether its request is running, and its result. */
export interface Change<O extends Operation> {
  /** Sends the change. Returns undefined if it failed; problem then says why. A call does nothing while another one is running. */
  run: (args: Arguments<O>) => Promise<Answer<Result<O>> | undefined>;
  busy: boolean;
  problem: Problem | undefined;
  clear: () => void;
  /**
   * Whether the component that sent the change is still shown. If it is not, run still reports a response, and lists show the change. But then do not close or
   * open anything: the page shows something else by now.
   */
  here: () => boolean;
}

/**
 * Makes a change safe to repeat. If the result is unknown because the connection was cut, a repeat of the same change has the same Idempotency-Key. If a
 * repeated deletion gets a 404, the first attempt has deleted the object, so the repeat succeeds. If a change fails after its component has been removed, a
 * notice says so. A notice is shown only while the key is signed in that has sent the change.
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
