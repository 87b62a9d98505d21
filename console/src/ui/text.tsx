import type { ComponentChildren } from "preact";

/**
 * Characters that are invisible or change the order of others: control characters, direction marks, and characters without width. A name with them could look
 * like another name.
 */
const hidden = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;

/**
 * Shows a text from another person as plain text. Hidden characters are shown by their numbers. The direction of the text does not affect the text around it.
 */
export function Text({ value, lines = false, clamp = false }: {
  value: string;
  /** Line breaks and tabs stay as they are. */
  lines?: boolean;
  /** No more than three lines are shown, as in a table. */
  clamp?: boolean;
}) {
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const found of value.matchAll(hidden)) {
    if (lines && (found[0] === "\n" || found[0] === "\t")) continue;
    parts.push(value.slice(from, found.index));
    const code = `U+${found[0].codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
    parts.push(<span class="hidden-character" title={`The character ${code}, which shows nothing by itself`}>{code}</span>);
    from = found.index + found[0].length;
  }
  parts.push(value.slice(from));
  return <bdi class={`text ${lines ? "lines" : ""} ${clamp ? "clamp" : ""}`.trimEnd()}>{parts}</bdi>;
}

/** Returns the text with visible hidden characters, for places without elements: titles, questions and announcements. */
export function visible(value: string): string {
  return value.replace(hidden, (c) => `‹U+${c.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}›`);
}
