import { json } from "@codemirror/lang-json";
import { yaml } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { EditorState } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, highlightSpecialChars, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

/** The colors of the page, whose custom properties also apply within the shadow tree. CodeMirror's own colors are too faint in the dark theme. */
const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--code-name)" },
  { tag: [tags.string, tags.content], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: "var(--code-number)" },
  { tag: [tags.comment, tags.meta], color: "var(--faint)" },
]);

const look = EditorView.theme({
  "&": { backgroundColor: "var(--sunken)", color: "var(--text)", fontSize: "13px", maxHeight: "32rem" },
  "&.cm-focused": { outline: "2px solid var(--focus)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--faint)", border: "none", borderRight: "1px solid var(--line)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--selection) !important" },
  ".cm-specialChar": { color: "var(--bad)" },
  // Do not use the marks of @codemirror/lint: they are pictures in data: URLs, which the content security policy blocks.
  ".marked-line": { backgroundColor: "var(--warn-soft)" },
  ".marked-line.error": { backgroundColor: "var(--bad-soft)" },
  ".marked": { textDecoration: "underline wavy var(--warn)" },
  ".marked.error": { textDecorationColor: "var(--bad)" },
});

/** A message about a place in a text. Lines and columns start at 1. Columns count characters. */
export interface Mark {
  line: number;
  column?: number;
  severity: "error" | "warning" | "info";
  message: string;
}

/** The editor on the page. to moves the focus to a mark. destroy removes the editor. */
export interface Shown {
  to: (mark: Mark) => void;
  destroy: () => void;
}

/** Shows a text in the shadow tree of the element, where only the styles of the editor apply. */
export function show(host: HTMLElement, { text, language, marks, label, first, firstColumn }: { text: string; language: "json" | "yaml" | "text"; marks: Mark[]; label: string; first: number; firstColumn: number }): Shown {
  const root = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const state = EditorState.create({ doc: text });
  const places = marks.flatMap((m) => {
    const number = m.line - first + 1;
    if (number < 1 || number > state.doc.lines) return [];
    const line = state.doc.line(number);
    const characters = (m.column ?? 1) - (number === 1 ? firstColumn : 1);
    // Columns count characters. Positions in CodeMirror count UTF-16 units: a character has one or two.
    const from = line.from + [...line.text.slice(0, 2 * Math.max(0, characters))].slice(0, Math.max(0, characters)).join("").length;
    const rest = state.sliceDoc(from, line.to);
    const to = from + (m.column ? (/^(?:"(?:[^"\\]|\\.)*"|[\w$-]+)/.exec(rest)?.[0] ?? rest.slice(0, 1)).length : rest.length);
    return [{ mark: m, line: line.from, from, to, severity: m.severity }];
  });
  const decorations = Decoration.set(places.flatMap(({ line, from, to, severity }) => [
    Decoration.line({ class: `marked-line ${severity}` }).range(line),
    ...(to > from ? [Decoration.mark({ class: `marked ${severity}` }).range(from, to)] : []),
  ]), true);
  const view = new EditorView({
    root,
    parent: root as unknown as Element,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers({ formatNumber: (n) => String(n + first - 1) }), highlightSpecialChars(), drawSelection(), bracketMatching(), syntaxHighlighting(colours), look,
        language === "json" ? json() : language === "yaml" ? yaml() : [], EditorView.decorations.of(decorations),
        EditorState.readOnly.of(true), EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label, "aria-readonly": "true", tabindex: "0" }),
      ],
    }),
  });
  if (places.length > 0) view.dispatch({ effects: EditorView.scrollIntoView(places[0]!.from, { y: "center" }) });
  return {
    to: (mark) => {
      const place = places.find((p) => p.mark === mark);
      if (!place) return;
      view.focus();
      view.dispatch({ selection: { anchor: place.from }, effects: EditorView.scrollIntoView(place.from, { y: "center" }) });
    },
    destroy: () => {
      view.destroy();
      root.replaceChildren();
    },
  };
}
