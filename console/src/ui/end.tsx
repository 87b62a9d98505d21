import { Field, SelectField } from "./form";
import { localTime, utcTime } from "./filter";

/** The end that a person has chosen. choice is a number of seconds, "never", "now", or "at" for the local time at. */
export interface End {
  choice: string;
  at: string;
}

/** The spans to choose from, in seconds. A span starts when the form is sent. */
const spans = [["3600", "in an hour"], ["86400", "in a day"], ["604800", "in 7 days"], ["2592000", "in 30 days"], ["7776000", "in 90 days"], ["31536000", "in a year"]] as const;

/** Returns the choice for an existing end. */
export function endOf(iso: string | null | undefined): End {
  return iso ? { choice: "at", at: localTime(iso) } : { choice: "never", at: "" };
}

/** Returns the time of an end in UTC, or null for never. */
export function timeOf(end: End): string | null {
  switch (end.choice) {
    case "never": return null;
    case "now": return new Date().toISOString();
    case "at": return utcTime(end.at) || null;
    default: return new Date(Date.now() + Number(end.choice) * 1000).toISOString();
  }
}

/** Reports whether a time has to be chosen but is missing. */
export function isOpen(end: End): boolean {
  return end.choice === "at" && utcTime(end.at) === "";
}

/** A field for the end of something. first has the choices before the spans, such as ["never", "never"]. */
export function EndField({ label, name, value, onInput, first, tried, hint }: {
  label: string;
  name: string;
  value: End;
  onInput: (value: End) => void;
  first: readonly (readonly [value: string, label: string])[];
  /** Whether the form was sent: only then is a missing time shown as a fault. */
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
