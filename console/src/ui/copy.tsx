import { useEffect, useState } from "preact/hooks";
import { announce } from "./live";
import { Text } from "./text";

/** Copies a text. The result is announced, but the text is not shown. */
export function Copy({ text, what = "Copy" }: { text: string; what?: string }) {
  const [done, setDone] = useState<"" | "Copied" | "Copying is blocked">("");
  useEffect(() => {
    if (done === "") return undefined;
    const timer = setTimeout(() => setDone(""), 2_000);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button
      type="button" class="quiet copy" aria-label={done || what} title={what}
      onClick={() => navigator.clipboard.writeText(text).then(() => "Copied" as const, () => "Copying is blocked" as const).then((said) => {
        setDone(said);
        announce(said);
      })}
    >
      {done || "Copy"}
    </button>
  );
}

/** Returns a value as a word of a shell command, in quotation marks if it has special characters. */
function shellWord(value: string): string {
  return /^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", `'\\''`)}'`;
}

/** A command without the flags that nothing is given for: given("… --tag :tag", { tag: "" }) is "…". */
export function given(line: string, values: Record<string, string>): string {
  return line.replace(/ --[a-z-]+[ =]:(\w+)/g, (whole, name: string) => (values[name] ? whole : ""));
}

/**
 * The command that does the same, to copy: <Cli line="gatewright bucket get :bucket" values={{ bucket }} />. A test compares the words of every line
 * with the client's.
 */
export function Cli({ line, values = {} }: { line: string; values?: Record<string, string> }) {
  const text = line.replace(/:(\w+)/g, (whole, name: string) => (values[name] === undefined ? whole.slice(1).toUpperCase() : shellWord(values[name])));
  return <div class="cli"><span aria-hidden="true">$</span> <code><Text value={text} /></code> <Copy text={text} what="Copy the command" /></div>;
}
