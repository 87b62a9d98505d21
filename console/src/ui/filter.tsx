import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { setQuery, setQueryLater, useQuery } from "../router";
import { Field } from "./form";

/** The time after the last key until the address changes, in milliseconds. */
const rest = 250;

/** Returns the text of a filter and a function that sets it. The text comes from the address, and the address changes shortly after the last key. */
export function useTyped(name: string, written: (value: string) => string): [string, (value: string) => void] {
  const there = useQuery().get(name) ?? "";
  const [typed, setTyped] = useState(there);
  const own = useRef<string>(undefined);
  useEffect(() => {
    // The address has the text that was typed here. Keep letters that were typed in the meantime.
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

/** One of the filters that the API applies: a text that is in the address under its name. */
export function FilterField({ label, name, hint, fault, suggestions }: {
  label: string;
  name: string;
  hint?: ComponentChildren;
  fault?: string | undefined;
  /** Suggested values. Others can be typed too. */
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

/** Returns a time in the format of a datetime-local field: local, without a time zone. */
export function localTime(iso: string): string {
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

/** Returns the time of a datetime-local field in UTC, in the format of the API, or "" if it is not a time. */
export function utcTime(local: string): string {
  const at = new Date(local);
  return local === "" || Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

/** A filter by a time. A person types the local time. The address has it in UTC, so that a shared address has the same meaning everywhere. */
export function FilterTime({ label, name, fault }: { label: string; name: string; fault?: string | undefined }) {
  const there = useQuery().get(name) ?? "";
  return (
    <Field
      label={label} name={name} required fault={fault ?? (there !== "" && localTime(there) === "" ? "It is no time." : undefined)}
      input={({ required: _, ...a }) => <input {...a} type="datetime-local" step="1" value={localTime(there)} onChange={(e) => setQuery({ [name]: utcTime(e.currentTarget.value) })} />}
    />
  );
}
