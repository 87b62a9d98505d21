import { useEffect, useState } from "preact/hooks";

/** A value that several parts of the page show, and that each of them may change. */
export class Store<T> {
  private readonly listeners = new Set<() => void>();

  constructor(private value: T) {}

  get(): T {
    return this.value;
  }

  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const listener of [...this.listeners]) listener();
  }

  /** Calls listener after every change, until the returned function is called. */
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

/** Returns the value of a store. The component is rendered again when the value changes. */
export function useStore<T>(store: Store<T>): T {
  const [, render] = useState({});
  useEffect(() => {
    let last = store.get();
    render({});
    return store.subscribe(() => {
      if (!Object.is(last, store.get())) {
        last = store.get();
        render({});
      }
    });
  }, [store]);
  return store.get();
}
