import type { ComponentChildren } from "preact";
import { TextField } from "./form";

const encoder = new TextEncoder();

/** Parses a JSON object, or says what is wrong with the text. An empty text is null. */
export function objectIn(text: string, maxBytes: number): { value: Record<string, unknown> | null; fault?: undefined } | { value?: undefined; fault: string } {
  if (text.trim() === "") return { value: null };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { fault: `It is no JSON: ${(error as Error).message}.` };
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) return { fault: "It has to be an object, such as {\"tenant\": 7}." };
  if (!isExact(value)) return { fault: "A number in it has more digits than a browser keeps. Write it in quotes, or use the command." };
  const bytes = encoder.encode(JSON.stringify(value)).length;
  if (bytes > maxBytes) return { fault: `It has ${bytes} bytes as JSON, of at most ${maxBytes}.` };
  return { value: value as Record<string, unknown> };
}

/** Reports whether all numbers of a value are exact. JavaScript rounds integers beyond 2⁵³. */
export function isExact(value: unknown): boolean {
  if (typeof value === "number") return !Number.isInteger(value) || Number.isSafeInteger(value);
  if (typeof value === "object" && value !== null) return Object.values(value).every(isExact);
  return true;
}

/** Returns an object as text for a person to edit. */
export function jsonText(value: Record<string, unknown> | null | undefined): string {
  return value && Object.keys(value).length > 0 ? JSON.stringify(value, null, 2) : "";
}

/** A field for a JSON object. */
export function JsonField({ label, name, hint, value, onInput, fault, readOnly = false }: {
  label: string;
  name: string;
  hint?: ComponentChildren;
  value: string;
  onInput: (value: string) => void;
  fault?: string | undefined;
  readOnly?: boolean;
}) {
  return <TextField label={label} name={name} hint={hint} mono rows={5} value={value} onInput={onInput} fault={fault} readOnly={readOnly} />;
}
