import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import { Store, useStore } from "../store";
import { Text } from "./text";

/** The properties of an object, as names and values. A value that is undefined, null or empty is shown as none. */
export function Details({ entries }: { entries: [label: string, value: ComponentChildren][] }) {
  return (
    <dl class="details">
      {entries.map(([label, value]) => (
        <div key={label}><dt>{label}</dt><dd>{value === undefined || value === null || value === "" ? <span class="faint">none</span> : value}</dd></div>
      ))}
    </dl>
  );
}

/** A word about a state. The color adds no information. */
export function Badge({ children, tone = "plain" }: { children: ComponentChildren; tone?: "plain" | "good" | "warn" | "bad" | "accent" }) {
  return <span class={`badge ${tone}`}>{children}</span>;
}

/** Tags, each with its name and value. */
export function Tags({ tags }: { tags: Record<string, string> | undefined | null }) {
  const all = Object.entries(tags ?? {});
  if (all.length === 0) return <span class="faint">none</span>;
  return <ul class="tags">{all.map(([name, value]) => <li key={name}><Text value={name} /><span class="faint">=</span><Text value={value} /></li>)}</ul>;
}

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const units: [Intl.RelativeTimeFormatUnit, number][] = [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3_600], ["minute", 60]];

function ago(at: Date, now: number): string {
  const seconds = (at.getTime() - now) / 1000;
  const unit = units.find(([, size]) => Math.abs(seconds) >= size);
  return unit ? relative.format(Math.trunc(seconds / unit[1]), unit[0]) : Math.abs(seconds) < 10 ? "just now" : relative.format(Math.trunc(seconds), "second");
}

/** The clock for all relative times on the page. They share one timer, which runs only while there is such a time. */
const clock = new Store(Date.now());
let watched = 0;
let timer = 0;

function useClock(): number {
  useEffect(() => {
    if (watched++ === 0) timer = window.setInterval(() => clock.set(Date.now()), 15_000);
    if (Date.now() - clock.get() > 1_000) clock.set(Date.now());
    return () => {
      if (--watched === 0) window.clearInterval(timer);
    };
  }, []);
  return useStore(clock);
}

/** A time as a distance from now. The exact local and UTC time is shown when the pointer is over it. absolute shows the exact time next to it. */
export function Time({ value, absolute = false }: { value: string | null | undefined; absolute?: boolean }) {
  const now = useClock();
  const at = value ? new Date(value) : undefined;
  if (at === undefined || Number.isNaN(at.getTime())) return <span class="faint">{value ? <Text value={value} /> : "never"}</span>;
  const exact = `${local.format(at)} here, ${at.toISOString().replace("T", " ").replace(/\.\d+Z$/, "")} UTC`;
  return <time dateTime={value!} title={exact}>{ago(at, now)}{absolute && <span class="faint"> · {exact}</span>}</time>;
}

const numbers = new Intl.NumberFormat();

/** A number with separators between thousands. */
export function Count({ value }: { value: number }) {
  return <>{numbers.format(value)}</>;
}

/** Returns a count with its noun: many(1, "key") is "1 key", many(2, "key") is "2 keys". */
export function many(count: number, noun: string, plural = `${noun}s`): string {
  return `${numbers.format(count)} ${count === 1 ? noun : plural}`;
}
