import { Field, SelectField } from "./form";
import { localTime, utcTime } from "./filter";

/** When something ends, as a person chooses it: in so many seconds, never, or at a time, which is of here. */
export interface End {
  choice: string;
  at: string;
}

/** From when on is chosen: what ends a day from now is counted when the form is sent. */
const spans = [["3600", "in an hour"], ["86400", "in a day"], ["604800", "in 7 days"], ["2592000", "in 30 days"], ["7776000", "in 90 days"], ["31536000", "in a year"]] as const;

/** The end that is there. */
export function endOf(iso: string | null | undefined): End {
  return iso ? { choice: "at", at: localTime(iso) } : { choice: "never", at: "" };
}

/** The time of an end in UTC, null for never. */
export function timeOf(end: End): string | null {
  switch (end.choice) {
    case "never": return null;
    case "now": return new Date().toISOString();
    case "at": return utcTime(end.at) || null;
    default: return new Date(Date.now() + Number(end.choice) * 1000).toISOString();
  }
}

/** Whether the end is a time that is not chosen yet. */
export function isOpen(end: End): boolean {
  return end.choice === "at" && utcTime(end.at) === "";
}

/** A field for when something ends. first has what can be chosen beside spans and a time, such as ["never", "never"]. */
export function EndField({ label, name, value, onInput, first, tried, hint }: {
  label: string;
  name: string;
  value: End;
  onInput: (value: End) => void;
  first: readonly (readonly [value: string, label: string])[];
  /** Whether the form was sent: a time that is missing is told then. */
  tried: boolean;
  hint?: string;
}) {
  const chosen = value.choice === "at";
  return (
    <>
      <SelectField
        label={label} name={chosen ? `${name}-choice` : name} required value={value.choice} {...(hint === undefined ? {} : { hint })}
        options={[...first, ...spans, ["at", "at a time…"]]} onInput={(choice) => onInput({ ...value, choice })}
      />
      {chosen && (
        <Field
          label="Time" name={name} required hint="As the clock is here." fault={tried && isOpen(value) ? "Choose a day and a time." : undefined}
          input={(a) => <input {...a} type="datetime-local" step="1" value={value.at} onInput={(e) => onInput({ ...value, at: e.currentTarget.value })} />}
        />
      )}
    </>
  );
}
