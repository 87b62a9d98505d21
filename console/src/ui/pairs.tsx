import { useLayoutEffect, useRef } from "preact/hooks";
import { Field, type FieldProps } from "./form";

/** Names with values, such as tags, as rows to edit. A name may occur twice while a person types. */
export type Pairs = [name: string, value: string][];

/** Returns the rows of an object, sorted by name. */
export function pairsOf(tags: Record<string, string> | undefined | null): Pairs {
  return Object.entries(tags ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
}

/** Returns the object of the rows. Rows without a name are left out. If a name occurs twice, the last row counts. */
export function objectOf(pairs: Pairs): Record<string, string> {
  return Object.fromEntries(pairs.filter(([name]) => name.trim() !== ""));
}

/** A field for names and values. */
export function PairsField({ value, onInput, noun, ...field }: FieldProps & { value: Pairs; onInput: (value: Pairs) => void; /** The noun for one row, such as tag. */ noun: string }) {
  const list = useRef<HTMLDivElement>(null);
  const added = useRef(false);
  // Move the focus before the next key, which is the first letter of the name.
  useLayoutEffect(() => {
    if (added.current) list.current?.querySelector<HTMLElement>(".pair:last-of-type input")?.focus();
    added.current = false;
  });
  const change = (i: number, j: 0 | 1, text: string) => onInput(value.map((p, k) => (k !== i ? p : j === 0 ? [text, p[1]] : [p[0], text])));
  const names = value.map(([name]) => name.trim()).filter((name) => name !== "");
  const double = names.find((name, i) => names.indexOf(name) !== i);
  return (
    <Field
      {...field} fault={double === undefined ? field.fault : `${double} stands there twice`}
      input={(a) => (
        <div class="pairs" role="group" ref={list} id={a.id} aria-label={field.label} aria-describedby={a["aria-describedby"]}>
          {value.map(([name, text], i) => (
            <div class="pair" key={i}>
              <input type="text" aria-label={`Name of ${noun} ${i + 1}`} placeholder="name" value={name} spellcheck={false} onInput={(e) => change(i, 0, e.currentTarget.value)} />
              <input type="text" aria-label={`Value of ${noun} ${i + 1}`} placeholder="value" value={text} spellcheck={false} onInput={(e) => change(i, 1, e.currentTarget.value)} />
              <button
                type="button" class="quiet" aria-label={`Remove ${noun} ${name || i + 1}`}
                onClick={() => {
                  onInput(value.filter((_, k) => k !== i));
                  list.current?.querySelector<HTMLElement>(".add")?.focus();
                }}
              >×</button>
            </div>
          ))}
          <button
            type="button" class="add"
            onClick={() => {
              onInput([...value, ["", ""]]);
              added.current = true;
            }}
          >Add a {noun}</button>
        </div>
      )}
    />
  );
}
