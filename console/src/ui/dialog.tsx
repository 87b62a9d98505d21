import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { givesUp } from "../router";

/** What a dialog is about, and what closes it. */
export interface DialogProps {
  title: string;
  children: ComponentChildren;
  /** Called by Escape, and by the button at the top, when nothing is lost or may be; without it the dialog stays until it is done. */
  onClose?: (() => void) | undefined;
  /** Where it is as wide as a text needs it. */
  wide?: boolean;
  class?: string;
}

/** A dialog over the page, by the browser's own element: focus stays in it, and goes back to where it was. */
export function Dialog({ title, children, onClose, wide = false, class: name = "" }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const close = () => void (onClose && givesUp() && onClose());
  // Before it is painted: keys that are pressed as soon as it is seen are its own.
  useLayoutEffect(() => {
    const dialog = element.current!;
    const before = document.activeElement;
    if (!dialog.open) dialog.showModal();
    // The first field rather than the button that closes, so that one can type at once.
    dialog.querySelector<HTMLElement>("form input, form textarea, form select")?.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element} class={`${wide ? "wide" : ""} ${name}`} aria-labelledby={heading}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      // Chromium lets a second Escape close what the first one must not.
      onKeyDown={(event) => {
        if (event.key === "Escape") {
          event.preventDefault();
          event.stopPropagation();
          close();
        }
      }}
    >
      <header>
        <h2 id={heading} tabIndex={-1}>{title}</h2>
        {onClose && <button type="button" class="quiet" aria-label="Close" onClick={close}>×</button>}
      </header>
      {children}
    </dialog>
  );
}
