import { useCallback, useRef, useState } from "preact/hooks";
import { asProblem, call, type Answer, type Arguments, type Operation, type Result } from "./client";
import { useChange, type Change } from "./change";
import type { Problem } from "./problem";

/**
 * A change of an object that was read before. If somebody else has changed the object since then, conflict has its present version until the person has chosen
 * one.
 */
export interface Edit<U extends Operation, R extends Operation> extends Change<U> {
  conflict: Answer<Result<R>> | undefined;
  settle: () => void;
}

/**
 * Sends a change only if the object still has the ETag that was read: the ifMatch in the arguments. If the object has changed, it is read again, and the
 * component Conflict can show both versions. Nothing is written before the person has chosen.
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
    // The change counts as running until the object has been read. Otherwise nothing would show on a slow line that the change failed.
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
