import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { useGone, useReader } from "./gone";
import { aborted, asProblem, call, type Arguments, type Operation, type Result } from "./client";
import type { Problem } from "./problem";

/** The type of the entries of a list that the API returns in pages. */
export type RowOf<O extends Operation> = Result<O> extends { data: (infer R)[] } ? R : never;

/** A list that is read page by page. */
export interface Rows<T> {
  rows: T[];
  /** The total number of entries, if the API returns it. */
  total: number | undefined;
  /** Whether a page is being read. */
  loading: boolean;
  /** Whether all entries are read. */
  complete: boolean;
  /** The failure of the latest request for a page. The rows of earlier pages stay. */
  problem: Problem | undefined;
  /** Reads the next page, or repeats the request that failed. */
  more: () => void;
  /** Reads the list again from its first page. */
  reload: () => void;
}

/** The fields of a response that contain a page or say where the next page begins. */
interface Page {
  data: unknown[];
  limit?: number;
  offset?: number;
  total?: number;
  next?: string | null;
  pagination?: { total?: number; offset?: number; limit?: number; hasMore?: boolean };
}

/**
 * Reads a list page by page, with its cursor if it has one, and with offsets otherwise. If args is null, it sends no request. Other args start from the first
 * page.
 */
export function useRows<O extends Operation>(operation: O, args: Arguments<O> | null): Rows<RowOf<O>> {
  // anew is true if the request that failed was a reload. more then repeats the reload.
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
    // The present rows stay until the new first page has arrived, so that nothing jumps and the focus stays in its place.
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
