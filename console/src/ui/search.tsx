import { useEffect } from "preact/hooks";
import { useQuery } from "../router";
import { useTyped } from "./filter";
import { announce } from "./live";
import { Field } from "./form";
import { many } from "./value";

/** A filter of what a page lists. What is typed stands in the address, under the name find unless another is given. */
export function Search({ label, count, noun, name = "find" }: { label: string; /** How many are left; said by another one of the page where it is left out. */ count?: number; noun: string; name?: string }) {
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
