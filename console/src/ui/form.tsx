import type { ComponentChildren } from "preact";
import { createContext } from "preact";
import { useContext, useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import type { Problem } from "../api/problem";
import { givesUp, unsaved } from "../router";
import { ProblemPanel } from "./states";

/** What the fields of a form share: which of them the API has found fault with. */
const FormContext = createContext<{ problem: Problem | undefined }>({ problem: undefined });

/** A form that a person fills in. */
export interface FormProps {
  onSubmit: () => void;
  problem: Problem | undefined;
  busy: boolean;
  /** The word of the button, such as Create. */
  submit: string;
  /** Whether something is typed that would be lost. */
  dirty?: boolean;
  onCancel?: (() => void) | undefined;
  danger?: boolean;
  children: ComponentChildren;
}

/**
 * A form whose fields show what the API says of them: a fault of body.name stands at the Field with the name "name", which gets the focus; faults of no field stand
 * above. Nothing that was typed goes away with a fault.
 */
export function Form({ onSubmit, problem, busy, submit, dirty = false, onCancel, danger = false, children }: FormProps) {
  const element = useRef<HTMLFormElement>(null);
  const holds = useRef<"" | "typed" | "sent">("");
  holds.current = busy ? "sent" : dirty ? "typed" : "";
  useEffect(() => {
    const asks = () => holds.current;
    unsaved.add(asks);
    return () => void unsaved.delete(asks);
  }, []);
  // As the fault is shown, and not a frame later: keys that are pressed then are meant for its field.
  useLayoutEffect(() => {
    if (!problem) return;
    const first = element.current?.querySelector<HTMLElement>("[aria-invalid=true]");
    (first ?? element.current?.querySelector<HTMLElement>(".problem"))?.focus();
  }, [problem]);
  const placed = [...(element.current?.querySelectorAll<HTMLElement>("[data-field]") ?? [])].map((e) => e.dataset["field"]!);
  const elsewhere = problem?.fields.filter((f) => !placed.some((name) => isAbout(f.location, name))) ?? [];
  return (
    <FormContext.Provider value={{ problem }}>
      <form
        ref={element} noValidate autocomplete="off"
        onSubmit={(event) => {
          event.preventDefault();
          if (!busy) onSubmit();
        }}
      >
        {problem && (problem.fields.length === 0 || elsewhere.length > 0
          ? <ProblemPanel problem={problem} compact />
          : <p class="problem compact" role="alert">{problem.fields.length === 1 ? "A field needs another value." : `${problem.fields.length} fields need other values.`}</p>)}
        {children}
        <div class="buttons">
          <button type="submit" class={danger ? "danger" : "primary"} aria-disabled={busy}>{busy ? "One moment…" : problem?.unknown ? "Try again" : submit}</button>
          {onCancel && <button type="button" onClick={() => (!busy || givesUp()) && onCancel()}>Cancel</button>}
        </div>
      </form>
    </FormContext.Provider>
  );
}

/** Whether a fault is about a field: body.tags.team is about tags, body.plans[0].name about plans and, where there is such a field, about plans[0].name. */
function isAbout(location: string, name: string): boolean {
  const at = location.replace(/^(?:body|query|path)\./, "");
  return at === name || at.startsWith(`${name}.`) || at.startsWith(`${name}[`);
}

/** What every field has. */
export interface FieldProps {
  label: string;
  /** The name that the API's problems have for it, such as description, or services[0].name. */
  name: string;
  hint?: ComponentChildren;
  /** What is wrong with what is typed, before the API is asked. */
  fault?: string | undefined;
  required?: boolean;
}

/** A label, what stands below it, and what is wrong. input makes the control, which takes what it is given. */
export function Field({ label, name, hint, fault, required = false, input }: FieldProps & { input: (attributes: ControlAttributes) => ComponentChildren }) {
  const id = useId();
  const { problem } = useContext(FormContext);
  const faults = fault ? [fault] : (problem?.fields ?? []).filter((f) => isAbout(f.location, name)).map((f) => f.message);
  const described = [hint ? `${id}-hint` : "", faults.length > 0 ? `${id}-fault` : ""].filter((x) => x !== "").join(" ");
  return (
    <div class="field" data-field={name}>
      <label for={id}>{label}{!required && <span class="faint"> (optional)</span>}</label>
      {hint && <p class="hint" id={`${id}-hint`}>{hint}</p>}
      {input({ id, name, required, "aria-invalid": faults.length > 0, ...(described === "" ? {} : { "aria-describedby": described }) })}
      {faults.length > 0 && <p class="fault" id={`${id}-fault`}>{faults.join("; ")}</p>}
    </div>
  );
}

/** What makes of an element the control of its field. */
export interface ControlAttributes {
  id: string;
  name: string;
  required: boolean;
  "aria-invalid": boolean;
  "aria-describedby"?: string;
}

/** A line of text, or several. */
export function TextField({ value, onInput, rows, mono, readOnly, ...field }: FieldProps & {
  value: string;
  onInput: (value: string) => void;
  /** More than one line. */
  rows?: number;
  /** As code is set. */
  mono?: boolean;
  readOnly?: boolean;
}) {
  const typed = (event: { currentTarget: { value: string } }) => onInput(event.currentTarget.value);
  const shared = { value, onInput: typed, class: mono ? "mono" : "", spellcheck: false, autocomplete: "off", autocapitalize: "off" as const, readOnly: readOnly ?? false };
  return <Field {...field} input={(a) => (rows ? <textarea {...a} {...shared} rows={rows} /> : <input {...a} {...shared} type="text" />)} />;
}

/** A text that is not shown as it is typed, nor kept by the browser; of several lines where rows says so, as certificates' keys are. */
export function SecretField({ value, onInput, rows, ...field }: FieldProps & { value: string; onInput: (value: string) => void; rows?: number }) {
  const shared = { value, autocomplete: "off", spellcheck: false, "data-1p-ignore": true, "data-lpignore": "true" } as const;
  return (
    <Field
      {...field}
      input={(a) => (rows
        ? <textarea {...a} {...shared} rows={rows} class="mono masked" onInput={(e) => onInput(e.currentTarget.value)} />
        : <input {...a} {...shared} type="password" onInput={(e) => onInput(e.currentTarget.value)} />)}
    />
  );
}

/** One of several. */
export function SelectField({ value, onInput, options, ...field }: FieldProps & { value: string; onInput: (value: string) => void; options: readonly (readonly [value: string, label: string])[] }) {
  return (
    <Field
      {...field}
      input={(a) => (
        <select {...a} value={value} onChange={(e) => onInput(e.currentTarget.value)}>
          {options.map(([v, label]) => <option key={v} value={v}>{label}</option>)}
        </select>
      )}
    />
  );
}

/** Yes or no. */
export function CheckField({ value, onInput, label, name, hint }: { label: string; name: string; hint?: ComponentChildren; value: boolean; onInput: (value: boolean) => void }) {
  const id = useId();
  return (
    <div class="field check" data-field={name}>
      <input id={id} type="checkbox" checked={value} aria-describedby={hint ? `${id}-hint` : undefined} onChange={(e) => onInput(e.currentTarget.checked)} />
      <label for={id}>{label}</label>
      {hint && <p class="hint" id={`${id}-hint`}>{hint}</p>}
    </div>
  );
}
