import { useCallback, useRef, useState } from "preact/hooks";
import { asProblem, call, type Answer, type Arguments, type Operation, type Result } from "./client";
import { useChange, type Change } from "./change";
import type { Problem } from "./problem";

/** A change of something that was read: when it has become another meanwhile, what it is now stands in conflict, until the person has chosen. */
export interface Edit<U extends Operation, R extends Operation> extends Change<U> {
  conflict: Answer<Result<R>> | undefined;
  settle: () => void;
}

/**
 * Makes a change that holds only for what was read: args have its ETag as ifMatch. Where it has changed since, it is read again, and both versions can be shown by the
 * component Conflict. Nothing is written before.
 */
export function useEdit<U extends Operation, R extends Operation>(update: U, read: R, readArgs: Arguments<R>): Edit<U, R> {
  const change = useChange(update);
  const [conflict, setConflict] = useState<Answer<Result<R>>>();
  const [problem, setProblem] = useState<Problem>();
  const [reading, setReading] = useState(false);
  const reads = useRef(false);
  const run = useCallback(async (args: Arguments<U>) => {
    if (reads.current) return undefined;
    setProblem(undefined);
    const answer = await change.run(args);
    if (answer) setConflict(undefined);
    return answer;
  }, [change.run]);
  const stale = change.problem?.stale === true;
  const [asked, setAsked] = useState<Problem>();
  if (stale && asked !== change.problem) {
    setAsked(change.problem);
    // Until it has come the change is under way: on a slow line nothing else would say that it was not done.
    const busy = (is: boolean) => {
      reads.current = is;
      setReading(is);
    };
    busy(true);
    call(read, readArgs).then(setConflict, (error: unknown) => setProblem(asProblem(error))).finally(() => busy(false));
  }
  return {
    run, here: change.here, busy: change.busy || reading, problem: problem ?? (stale ? undefined : change.problem), clear: change.clear,
    conflict, settle: useCallback(() => setConflict(undefined), []),
  };
}
