import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useGone, useReader } from "./gone";
import { aborted, asProblem, call, type Arguments, type Operation, type Result } from "./client";
import type { Problem } from "./problem";

/** The entries of a list that answers in pages. */
export type RowOf<O extends Operation> = Result<O> extends { data: (infer R)[] } ? R : never;

/** A list that grows as it is read. */
export interface Rows<T> {
  rows: T[];
  /** How many there are in all, where the API says. */
  total: number | undefined;
  /** Whether a page is under way. */
  loading: boolean;
  /** Whether there is no more than what is there. */
  complete: boolean;
  /** What went wrong with the last page; what came before it stays. */
  problem: Problem | undefined;
  /** Asks for the next page, or again for the one that failed. */
  more: () => void;
  /** Begins anew. */
  reload: () => void;
}

/** What of a list's answer says where the next page begins. */
interface Page {
  data: unknown[];
  limit?: number;
  offset?: number;
  total?: number;
  next?: string | null;
  pagination?: { total?: number; offset?: number; limit?: number; hasMore?: boolean };
}

/**
 * Reads a list page by page: by its cursor where it has one, by offsets otherwise. args null asks nothing yet; other args begin anew.
 */
export function useRows<O extends Operation>(operation: O, args: Arguments<O> | null): Rows<RowOf<O>> {
  // anew says that what failed was to begin anew: that is then what is tried again.
  type State = Omit<Rows<RowOf<O>>, "more" | "reload"> & { key: string; after: string; offset: number; anew: boolean };
  const key = args === null ? "" : operation + JSON.stringify([args.path, args.query]);
  const empty = (): State => ({ key, rows: [], total: undefined, loading: key !== "", complete: false, problem: undefined, after: "", offset: 0, anew: false });
  const [state, setState] = useState<State>(empty);
  const now = useRef(state);
  now.current = state.key === key ? state : empty();
  const argsNow = useRef(args);
  argsNow.current = args;
  const running = useRef<AbortController>(undefined);
  const gone = useGone();

  const ask = useCallback(async (from: State, before: State = from) => {
    if (argsNow.current === null || gone.current) return;
    running.current?.abort();
    const controller = (running.current = new AbortController());
    now.current = { ...before, loading: true, problem: undefined };
    setState(now.current);
    try {
      const query = { ...(argsNow.current.query as object | undefined), ...(from.after !== "" ? { after: from.after } : from.offset > 0 ? { offset: from.offset } : {}) };
      const { data } = await call(operation, { ...argsNow.current, query, signal: controller.signal } as Arguments<O>);
      if (controller.signal.aborted) return;
      const page = data as unknown as Page;
      const rows = from.rows.concat(page.data as RowOf<O>[]);
      const offset = (page.offset ?? page.pagination?.offset ?? from.offset) + (page.limit ?? page.pagination?.limit ?? page.data.length);
      const total = page.total ?? page.pagination?.total;
      const complete = page.next !== undefined ? page.next === null : page.pagination?.hasMore !== undefined ? !page.pagination.hasMore : total === undefined || offset >= total;
      setState({ ...from, rows, total, loading: false, complete, problem: undefined, after: page.next ?? "", offset, anew: false });
    } catch (error) {
      if (aborted(error) || controller.signal.aborted) return;
      setState({ ...before, loading: false, problem: asProblem(error), anew: before !== from });
    }
  }, [operation]);

  useEffect(() => {
    if (key !== "") void ask({ key, rows: [], total: undefined, loading: true, complete: false, problem: undefined, after: "", offset: 0, anew: false });
    return () => running.current?.abort();
  }, [key, ask]);

  const reload = useCallback(() => {
    const from = now.current;
    // What is there stays until the new first page is: nothing jumps, and the focus stays where it is.
    if (from.key !== "") void ask({ ...from, rows: [], after: "", offset: 0, complete: false }, from);
  }, [ask]);
  const more = useCallback(() => {
    const from = now.current;
    if (from.anew) reload();
    else if (!from.loading && !from.complete && from.key !== "") void ask(from);
  }, [ask, reload]);
  useReader(reload);
  const { rows, total, loading, complete, problem } = now.current;
  return { rows, total, loading, complete, problem, more, reload };
}
