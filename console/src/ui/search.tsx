import { useEffect } from "preact/hooks";
import { useQuery } from "../router";
import { useTyped } from "./filter";
import { announce } from "./live";
import { Field } from "./form";
import { many } from "./value";

/** A filter for the list of a page. Its text is in the address under name. */
export function Search({ label, count, noun, name = "find" }: { label: string; /** The number of entries that match. It is left out if another filter of the page announces it. */ count?: number; noun: string; name?: string }) {
  const there = useQuery().get(name) ?? "";
  const [typed, setTyped] = useTyped(name, (value) => value);
  useEffect(() => {
    if (there !== "" && count !== undefined) announce(many(count, noun));
  }, [there, count, noun]);
  return (
    <div class="filters">
      <Field label={label} name={name} required input={({ required: _, ...a }) => <input {...a} type="search" value={typed} autocomplete="off" spellcheck={false} onInput={(e) => setTyped(e.currentTarget.value)} />} />
      {count !== undefined && <span class="faint">{many(count, noun)}</span>}
    </div>
  );
}
