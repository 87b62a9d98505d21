import { useCallback, useState } from "preact/hooks";
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
 *
 * readFirst is for a change whose path has no read, so that the API compares no ETag of it: the thing is read just before the change, and what comes between the two is not seen.
 */
export function useEdit<U extends Operation, R extends Operation>(update: U, read: R, readArgs: Arguments<R>, { readFirst = false } = {}): Edit<U, R> {
  const change = useChange(update);
  const [conflict, setConflict] = useState<Answer<Result<R>>>();
  const [problem, setProblem] = useState<Problem>();
  const [reading, setReading] = useState(false);
  const run = useCallback(async (args: Arguments<U>) => {
    setProblem(undefined);
    let given = args;
    if (readFirst && args.ifMatch) {
      setReading(true);
      try {
        const now = await call(read, readArgs);
        if (now.etag !== args.ifMatch) {
          setConflict(now);
          return undefined;
        }
      } catch (error) {
        setProblem(asProblem(error));
        return undefined;
      } finally {
        setReading(false);
      }
      const { ifMatch: _, ...rest } = args;
      given = rest as Arguments<U>;
    }
    const answer = await change.run(given);
    if (answer) setConflict(undefined);
    return answer;
  }, [change.run]);
  const stale = change.problem?.stale === true;
  const [asked, setAsked] = useState<Problem>();
  if (stale && asked !== change.problem) {
    setAsked(change.problem);
    call(read, readArgs).then(setConflict, (error: unknown) => setProblem(asProblem(error)));
  }
  return {
    run, busy: reading || change.busy, problem: problem ?? (stale ? undefined : change.problem), clear: change.clear,
    conflict, settle: useCallback(() => setConflict(undefined), []),
  };
}
