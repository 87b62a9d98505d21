import { useEffect, useRef, useState } from "preact/hooks";
import { useStore } from "../store";
import type { Mark, Shown } from "./editor";
import { Text, visible } from "./text";
import { theme } from "./theme";

/**
 * Shows a read-only source with marks and syntax highlighting. Until the editor is loaded, or if that fails, the source is plain text. first is the number of
 * its first line. firstColumn is the column at which the text begins in that line.
 */
export function Source({ text, language, marks = [], label, first = 1, firstColumn = 1 }: { text: string; language: "json" | "yaml" | "text"; marks?: Mark[]; label: string; first?: number; firstColumn?: number }) {
  const host = useRef<HTMLDivElement>(null);
  const shown = useRef<Shown>(undefined);
  const marksShown = useRef(marks);
  const [loaded, setLoaded] = useState(false);
  const mode = useStore(theme);
  useEffect(() => {
    let gone = false;
    void import("./editor").then(({ show }) => {
      if (gone || !host.current) return;
      marksShown.current = marks;
      shown.current = show(host.current, { text, language, marks, label: visible(label), first, firstColumn });
      setLoaded(true);
    }, () => setLoaded(false));
    return () => {
      gone = true;
      shown.current?.destroy();
      shown.current = undefined;
      setLoaded(false);
    };
  }, [text, language, JSON.stringify(marks), label, first, firstColumn, mode]);
  return (
    <div class="source">
      <div ref={host} />
      {!loaded && <pre tabIndex={0} role="region" aria-label={visible(label)}><Text value={text} lines /></pre>}
      {marks.length > 0 && <ul class="marks">{marks.map((m, i) => <li key={`${m.line}:${m.column}:${m.message}`}><span class={`badge ${m.severity === "error" ? "bad" : m.severity === "warning" ? "warn" : "plain"}`}>{m.severity}</span> {loaded ? <button type="button" class="link" onClick={() => shown.current?.to(marksShown.current[i]!)}>{placeOf(m)}</button> : placeOf(m)}: <Text value={m.message} lines /></li>)}</ul>}
    </div>
  );
}

function placeOf(m: Mark): string {
  return `line ${m.line}${m.column ? `, column ${m.column}` : ""}`;
}
