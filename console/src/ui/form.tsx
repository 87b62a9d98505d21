import type { ComponentChildren } from "preact";
import { createContext } from "preact";
import { useContext, useEffect, useId, useLayoutEffect, useRef } from "preact/hooks";
import type { Problem } from "../api/problem";
import { givesUp, unsaved } from "../router";
import { ProblemPanel } from "./states";

/** The context that the fields of a form share: the problem that the API has reported. */
const FormContext = createContext<{ problem: Problem | undefined }>({ problem: undefined });

/** A form that a person fills in. */
export interface FormProps {
  onSubmit: () => void;
  problem: Problem | undefined;
  busy: boolean;
  /** The label of the button, such as Create. */
  submit: string;
  /** Whether the form has input that would be lost. */
  dirty?: boolean;
  onCancel?: (() => void) | undefined;
  danger?: boolean;
  children: ComponentChildren;
}

/**
 * A form whose fields show the faults that the API reports. A fault of body.name is shown at the Field with the name "name", which gets the focus. Faults
 * without such a field are shown above. A fault removes no input.
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
  // Move the focus together with the fault and not a frame later: keys that are pressed then are meant for its field.
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

/**
 * Reports whether a fault belongs to a field. body.tags.team belongs to the field tags. body.plans[0].name belongs to plans and, if there is such a field, to
 * plans[0].name.
 */
function isAbout(location: string, name: string): boolean {
  const at = location.replace(/^(?:body|query|path)\./, "");
  return at === name || at.startsWith(`${name}.`) || at.startsWith(`${name}[`);
}

/** The properties of every field. */
export interface FieldProps {
  label: string;
  /** Its name in the problems of the API, such as description, or services[0].name. */
  name: string;
  hint?: ComponentChildren;
  /** A fault that was found before a request was sent. */
  fault?: string | undefined;
  required?: boolean;
}

/** A label with a hint, a control and its faults. input creates the control with the given attributes. */
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

/** The attributes that make an element the control of its field. */
export interface ControlAttributes {
  id: string;
  name: string;
  required: boolean;
  "aria-invalid": boolean;
  "aria-describedby"?: string;
}

/** A field for one or several lines of text. */
export function TextField({ value, onInput, rows, mono, readOnly, ...field }: FieldProps & {
  value: string;
  onInput: (value: string) => void;
  /** The number of lines, if there is more than one. */
  rows?: number;
  /** Whether the font is monospaced. */
  mono?: boolean;
  readOnly?: boolean;
}) {
  const typed = (event: { currentTarget: { value: string } }) => onInput(event.currentTarget.value);
  const shared = { value, onInput: typed, class: mono ? "mono" : "", spellcheck: false, autocomplete: "off", autocapitalize: "off" as const, readOnly: readOnly ?? false };
  return <Field {...field} input={(a) => (rows ? <textarea {...a} {...shared} rows={rows} /> : <input {...a} {...shared} type="text" />)} />;
}

/** A field for a secret, which is neither shown while it is typed nor stored by the browser. rows is for secrets with several lines, such as private keys. */
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

/** A field for one of several options. */
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

/** A checkbox. */
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
