import { useEffect, useState } from "preact/hooks";
import { Store, useStore } from "../store";

/** The latest announcement for screen readers. The number changes, so that the same text is announced again. */
const said = new Store({ text: "", at: 0 });

/** Announces a text as soon as the screen reader has finished speaking. */
export function announce(text: string): void {
  said.set({ text, at: said.get().at + 1 });
}

interface Note {
  id: number;
  text: string;
}
const notes = new Store<Note[]>([]);
let lastNote = 0;

/** Shows a notice for a while, and announces it. */
export function notify(text: string): void {
  const note = { id: ++lastNote, text };
  notes.set([...notes.get().slice(-2), note]);
  announce(text);
}

function dismiss(id: number): void {
  notes.set(notes.get().filter((n) => n.id !== id));
}

/** How long a notice is shown, in milliseconds. The time stands still while the pointer or the focus is on it. */
const noteShown = 6_000;

function NoteView({ note }: { note: Note }) {
  const [held, hold] = useState(false);
  useEffect(() => {
    if (held) return undefined;
    const timer = setTimeout(() => dismiss(note.id), noteShown);
    return () => clearTimeout(timer);
  }, [held, note.id]);
  return (
    <div class="note" onPointerEnter={() => hold(true)} onPointerLeave={() => hold(false)} onFocusIn={() => hold(true)} onFocusOut={() => hold(false)}>
      <span>{note.text}</span>
      <button type="button" class="quiet" aria-label="Dismiss" onClick={() => dismiss(note.id)}>×</button>
    </div>
  );
}

/** Shows the announcements and notices. It is on the page once, at the end. */
export function Live() {
  const { text, at } = useStore(said);
  const all = useStore(notes);
  return (
    <>
      <div class="visually-hidden" role="status" aria-live="polite" aria-atomic="true">{at % 2 === 0 ? text : `${text}\u00a0`}</div>
      {all.length > 0 && <section class="notes" aria-label="Notices">{all.map((n) => <NoteView key={n.id} note={n} />)}</section>}
    </>
  );
}
