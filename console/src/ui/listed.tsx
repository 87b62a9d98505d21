import type { ComponentChildren } from "preact";
import type { Rows } from "../api/rows";
import { Empty, Loading, ProblemPanel } from "./states";
import { many } from "./value";

/** Shows a list in each of its states: loading, failed, empty, and with rows, which children show. A button reads the next page. */
export function Listed<T>({ list, noun, plural = `${noun}s`, empty, children }: {
  list: Rows<T>;
  /** The noun for one entry, such as tunnel. */
  noun: string;
  plural?: string;
  /** The text below "No tunnel yet". */
  empty: ComponentChildren;
  children: ComponentChildren;
}) {
  const none = list.rows.length === 0;
  return (
    <>
      {list.problem && <ProblemPanel problem={list.problem} onRetry={none ? list.reload : list.more} />}
      {none && list.loading && <Loading what={`Loading ${plural}`} />}
      {none && list.complete && <Empty title={`No ${noun} yet`}>{empty}</Empty>}
      {!none && (
        <>
          {children}
          {!list.complete && <p><button type="button" onClick={list.more}>{list.loading ? "One moment…" : `Load more of ${many(list.total ?? 0, noun, plural)}`}</button></p>}
        </>
      )}
    </>
  );
}
