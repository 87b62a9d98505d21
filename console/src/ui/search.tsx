import { useEffect, useState } from "preact/hooks";
import { setQueryLater, useQuery } from "../router";
import { announce } from "./live";
import { Field } from "./form";
import { many } from "./value";

/** How long typing has to rest before the address follows it and the count is said, in milliseconds. */
const rest = 250;

/** A filter of what a page lists. What is typed stands in the address, under the name find unless another is given. */
export function Search({ label, count, noun, name = "find" }: { label: string; /** How many are left; said by another one of the page where it is left out. */ count?: number; noun: string; name?: string }) {
  const query = useQuery();
  const there = query.get(name) ?? "";
  const [typed, setTyped] = useState(there);
  useEffect(() => setTyped(there), [there]);
  useEffect(() => {
    if (typed === there) return undefined;
    return setQueryLater({ [name]: typed }, rest);
  }, [typed]);
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
