import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { setQuery, setQueryLater, useQuery } from "../router";
import { Field } from "./form";

/** How long typing has to rest before the address follows it, in milliseconds. */
const rest = 250;

/** What stands in the address under a name, and what is typed of it, which follows after a rest. */
export function useTyped(name: string, written: (value: string) => string): [string, (value: string) => void] {
  const there = useQuery().get(name) ?? "";
  const [typed, setTyped] = useState(there);
  const own = useRef<string>(undefined);
  useEffect(() => {
    // What was typed here has come to the address: a letter that was typed meanwhile stays.
    if (own.current !== there) setTyped(there);
    own.current = undefined;
  }, [there]);
  useEffect(() => {
    const next = written(typed);
    own.current = next === there ? undefined : next;
    return next === there ? undefined : setQueryLater({ [name]: next }, rest);
  }, [typed]);
  return [typed, setTyped];
}

/** One of several filters that the API applies: a text, which stands in the address under its name. */
export function FilterField({ label, name, hint, fault, suggestions }: {
  label: string;
  name: string;
  hint?: ComponentChildren;
  fault?: string | undefined;
  /** Values to choose from; others can be typed. */
  suggestions?: string[];
}) {
  const [typed, setTyped] = useTyped(name, (value) => value.trim());
  const list = suggestions ? `suggested-${name}` : undefined;
  return (
    <Field
      label={label} name={name} required fault={fault} {...(hint === undefined ? {} : { hint })}
      input={({ required: _, ...a }) => (
        <>
          <input {...a} type="search" list={list} value={typed} autocomplete="off" autocapitalize="off" spellcheck={false} onInput={(e) => setTyped(e.currentTarget.value)} />
          {list && <datalist id={list}>{suggestions!.map((s) => <option key={s} value={s} />)}</datalist>}
        </>
      )}
    />
  );
}

/** A time as the browser's field has it: of here, without its zone. */
export function localTime(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** The time of a browser's field in UTC, as the API takes it; empty where it is none. */
export function utcTime(local: string): string {
  const at = new Date(local);
  return local === "" || Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

/** A filter by a time. It is typed as it is here, and stands in the address in UTC, so that it is the same for whom it is shared with. */
export function FilterTime({ label, name, fault }: { label: string; name: string; fault?: string | undefined }) {
  const there = useQuery().get(name) ?? "";
  return (
    <Field
      label={label} name={name} required fault={fault ?? (there !== "" && localTime(there) === "" ? "It is no time." : undefined)}
      input={({ required: _, ...a }) => <input {...a} type="datetime-local" step="1" value={localTime(there)} onChange={(e) => setQuery({ [name]: utcTime(e.currentTarget.value) })} />}
    />
  );
}
