import { useEffect, useState } from "preact/hooks";
import { may } from "../api/session";
import { usePages } from "../registry";
import { go, link } from "../router";
import { Store, useStore } from "../store";
import { Dialog } from "./dialog";

/** Whether single-key shortcuts are on. With speech input or unsteady hands, people type letters by accident. */
const letters = new Store(true);

/** The dialog that a shortcut has opened, or "". */
export const opened = new Store<"" | "shortcuts" | "finder">("");

/** Reports whether a key is input for the focused element. */
function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

/** Handles the shortcuts of the console while somebody is signed in. */
export function useShortcuts(): void {
  const pages = usePages();
  useEffect(() => {
    let after = "";
    let timer = 0;
    const pressed = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        if (!document.querySelector("dialog[open]")) opened.set("finder");
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || !letters.get() || document.querySelector("dialog[open]")) return;
      const began = after;
      after = "";
      window.clearTimeout(timer);
      if (began === "g") {
        const page = pages.find((p) => p.key === event.key && (p.needs === undefined || may(p.needs)));
        if (page) {
          event.preventDefault();
          go(link(page.path));
        }
      } else if (event.key === "?") {
        event.preventDefault();
        opened.set("shortcuts");
      } else if (event.key === "/") {
        const filter = document.querySelector<HTMLElement>("main input[type=search]");
        if (filter) {
          event.preventDefault();
          filter.focus();
        }
      } else if (event.key === "n") {
        const create = document.querySelector<HTMLElement>("main [data-create]");
        if (create) {
          event.preventDefault();
          create.click();
        }
      } else if (event.key === "g") {
        after = "g";
        timer = window.setTimeout(() => (after = ""), 1_500);
      }
    };
    document.addEventListener("keydown", pressed);
    return () => {
      document.removeEventListener("keydown", pressed);
      window.clearTimeout(timer);
    };
  }, [pages]);
}

/** The list of shortcuts. */
export function Shortcuts() {
  const on = useStore(letters);
  const [, render] = useState(0);
  const pages = usePages();
  const rows: [string[], string][] = [
    [["Ctrl", "K"], "Find a page, or something by its name (on a Mac, Cmd-K)"],
    [["?"], "This list"],
    [["n"], "Create what the page lists"],
    [["/"], "Go to the filter of the page"],
    [["↑", "↓", "Page Up", "Page Down", "Home", "End"], "Move in a long table; Enter opens the row"],
    [["Esc"], "Close what is open"],
    ...pages.filter((p) => p.key && (p.needs === undefined || may(p.needs))).map((p): [string[], string] => [["g", p.key!], p.nav?.label ?? p.title]),
  ];
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => opened.set("")}>
      <table class="shortcuts">
        <caption class="visually-hidden">Keyboard shortcuts</caption>
        <thead class="visually-hidden"><tr><th scope="col">What it does</th><th scope="col">Keys</th></tr></thead>
        <tbody>{rows.map(([keys, what]) => <tr key={what}><th scope="row">{what}</th><td>{keys.map((k) => <kbd key={k}>{k}</kbd>)}</td></tr>)}</tbody>
      </table>
      <label class="check"><input type="checkbox" checked={on} onChange={(e) => { letters.set(e.currentTarget.checked); render((n) => n + 1); }} /> Letters alone do something</label>
    </Dialog>
  );
}
