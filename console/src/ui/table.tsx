import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { setQuery, useQuery } from "../router";

/** A column of a table of T. */
export interface Column<T> {
  /** Its heading, which is also its name in the sort order in the address. */
  title: string;
  cell: (row: T) => ComponentChildren;
  /** Returns the value to sort by. A table cannot be sorted by a column without it. */
  by?: (row: T) => string | number;
  /** Whether the cells are aligned to the right, as numbers are. */
  numeric?: boolean;
  /** Left out on narrow screens. The page of the row has the value too. */
  minor?: boolean;
}

/** A table of rows that are all in the document. The sort order is in the address, so that it can be shared. */
export function Table<T>({ caption, columns, rows, rowKey, actions }: {
  /** What the table contains, for people who do not see the heading above it. */
  caption: string;
  columns: Column<T>[];
  rows: T[];
  rowKey: (row: T) => string;
  /** The buttons of a row, in a column without a visible heading. */
  actions?: (row: T) => ComponentChildren;
}) {
  const query = useQuery();
  const asked = query.get("sort") ?? "";
  const down = asked.startsWith("-");
  const column = columns.find((c) => c.by && c.title === asked.replace(/^-/, ""));
  const ordered = useMemo(() => {
    const by = column?.by;
    if (!by) return rows;
    const keys = new Map(rows.map((r) => [r, by(r)]));
    const compare = (a: T, b: T) => {
      const [x, y] = [keys.get(a)!, keys.get(b)!];
      return typeof x === "number" && typeof y === "number" ? x - y : collator.compare(String(x), String(y));
    };
    return [...rows].sort(down ? (a, b) => compare(b, a) : compare);
  }, [rows, column, down]);
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label={caption}>
      <table>
        <caption class="visually-hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((c) => (
              <th key={c.title} scope="col" class={classes(c)} aria-sort={c === column ? (down ? "descending" : "ascending") : undefined}>
                {c.by
                  ? <button type="button" class="sort" onClick={() => setQuery({ sort: c === column ? (down ? "" : `-${c.title}`) : c.title })}>{c.title}<span aria-hidden="true">{c === column ? (down ? " ↓" : " ↑") : ""}</span></button>
                  : c.title}
              </th>
            ))}
            {actions && <th scope="col"><span class="visually-hidden">Actions</span></th>}
          </tr>
        </thead>
        <tbody>
          {ordered.map((row) => (
            <tr key={rowKey(row)}>
              {columns.map((c, i) => (i === 0
                ? <th key={c.title} scope="row" class={classes(c)}>{c.cell(row)}</th>
                : <td key={c.title} class={classes(c)}>{c.cell(row)}</td>))}
              {actions && <td class="row-actions">{actions(row)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const collator = new Intl.Collator(undefined, { numeric: true });

/** The classes of a column's cells. */
export function classes<T>(column: Column<T>): string {
  return `${column.numeric ? "numeric" : ""} ${column.minor ? "minor" : ""}`.trim();
}
