import { useLayoutEffect, useRef } from "preact/hooks";

/** Returns a ref whose current value is true once the component has been removed. Code that runs after a late response checks it. */
export function useGone(): { readonly current: boolean } {
  const gone = useRef(false);
  useLayoutEffect(() => () => void (gone.current = true), []);
  return gone;
}

/** The functions that read again what the page shows. */
const readers = new Set<() => void>();

/**
 * Reads everything that the page shows again. It is called if the response to a change comes after its component was removed: then no other code knows what is
 * outdated.
 */
export function readAgain(): void {
  for (const reader of [...readers]) reader();
}

/** Registers read for readAgain while the component exists. */
export function useReader(read: () => void): void {
  useLayoutEffect(() => {
    readers.add(read);
    return () => void readers.delete(read);
  }, [read]);
}
