import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { classes, type Column } from "./table";

/** The height of a row in CSS pixels, as in the style sheet. Rows have one line. */
const rowHeight = 36;
/** The number of rows that are rendered above and below the visible ones. */
const ready = 3;
/** More rows are loaded when a rendered row is at most this many rows from the last one. */
const near = 100;

/**
 * A table that renders only the rows near the visible part, however many rows there are. Arrow keys, Page Up, Page Down, Home and End move in it. Screen
 * readers get the number of each row. More rows are loaded when the last loaded row comes near.
 */
export function VirtualTable<T>({ caption, columns, rows, total, rowKey, onNear, onOpen }: {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  /** The total number of rows, if it is known. The default is the number of loaded rows. */
  total?: number | undefined;
  rowKey: (row: T) => string;
  /** Called to load more rows when the last row comes near. */
  onNear?: () => void;
  /** Called when a person presses Enter on a row. */
  onOpen?: (row: T) => void;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const [, render] = useState(0);
  const [active, setActive] = useState(0);
  const wantsFocus = useRef(false);
  const count = rows.length;
  const virtual = useMemo(() => new Virtualizer<HTMLDivElement, HTMLTableRowElement>({
    count: 0, getScrollElement: () => frame.current, estimateSize: () => rowHeight, overscan: ready,
    scrollToFn: elementScroll, observeElementRect, observeElementOffset, onChange: () => render((n) => n + 1),
  }), []);
  virtual.setOptions({ ...virtual.options, count });
  useLayoutEffect(() => virtual._didMount(), [virtual]);
  useLayoutEffect(() => virtual._willUpdate());
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (last >= count - near) onNear?.();
  }, [last, count, onNear]);
  // Move the focus before the next key. The key would be lost if its row had been removed.
  useLayoutEffect(() => {
    if (!wantsFocus.current) return;
    const row = frame.current?.querySelector<HTMLElement>(`tr[aria-rowindex="${active + 2}"]`);
    if (row) {
      wantsFocus.current = false;
      row.focus({ preventScroll: true });
    }
  });
  const move = (to: number) => {
    const next = Math.max(0, Math.min(count - 1, to));
    setActive(next);
    wantsFocus.current = true;
    // Rows have the same height, so the position is known immediately. Do not scroll smoothly: a second key would meet a scroll that still runs and would move
    // back.
    const box = frame.current!;
    const head = box.querySelector("thead")!.offsetHeight;
    const top = next * rowHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (head + top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = head + top + rowHeight - box.clientHeight;
    render((n) => n + 1);
  };
  const page = Math.max(1, Math.floor((frame.current?.clientHeight ?? rowHeight) / rowHeight) - 2);
  const keys: Record<string, () => void> = {
    ArrowDown: () => move(active + 1), ArrowUp: () => move(active - 1), PageDown: () => move(active + page), PageUp: () => move(active - page),
    Home: () => move(0), End: () => move(count - 1),
  };
  const above = items[0]?.start ?? 0;
  const below = Math.max(0, virtual.getTotalSize() - (items.at(-1)?.end ?? 0));
  return (
    <div
      class="table-frame virtual" ref={frame}
      onKeyDown={(event) => {
        const row = rows[active];
        if (event.target instanceof HTMLElement && event.target.tagName !== "TR") return;
        if (event.key === "Enter" && row !== undefined && onOpen) {
          event.preventDefault();
          onOpen(row);
        } else if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
          event.preventDefault();
          keys[event.key]!();
        }
      }}
    >
      <table aria-rowcount={(total ?? count) + 1} aria-label={caption}>
        <thead><tr aria-rowindex={1}>{columns.map((c) => <th key={c.title} scope="col" class={classes(c)}>{c.title}</th>)}</tr></thead>
        <tbody>
          {above > 0 && <tr aria-hidden="true"><td colSpan={columns.length} class="gap" style={{ height: `${above}px` }} /></tr>}
          {items.map(({ index }) => {
            const row = rows[index];
            if (row === undefined) return null;
            return (
              <tr
                key={rowKey(row)} aria-rowindex={index + 2} tabIndex={index === active || (items.every((i) => i.index !== active) && index === items[0]?.index) ? 0 : -1}
                onFocus={() => setActive(index)}
              >
                {columns.map((c, i) => (i === 0
                  ? <th key={c.title} scope="row" class={classes(c)}>{c.cell(row)}</th>
                  : <td key={c.title} class={classes(c)}>{c.cell(row)}</td>))}
              </tr>
            );
          })}
          {below > 0 && <tr aria-hidden="true"><td colSpan={columns.length} class="gap" style={{ height: `${below}px` }} /></tr>}
        </tbody>
      </table>
    </div>
  );
}
