import { useLayoutEffect, useRef } from "preact/hooks";

/** Whether a component is there no more, as an answer that comes later has to know. */
export function useGone(): { readonly current: boolean } {
  const gone = useRef(false);
  useLayoutEffect(() => () => void (gone.current = true), []);
  return gone;
}

/** What reads again each thing that is shown. */
const readers = new Set<() => void>();

/** Reads again all that is shown: by a change that was left before its answer came, nothing else knows what of it is old. */
export function readAgain(): void {
  for (const reader of [...readers]) reader();
}

/** Has something be read again by readAgain, while the component is there. */
export function useReader(read: () => void): void {
  useLayoutEffect(() => {
    readers.add(read);
    return () => void readers.delete(read);
  }, [read]);
}
