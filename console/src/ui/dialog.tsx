import type { ComponentChildren } from "preact";
import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { givesUp } from "../router";

/** The properties of a dialog. */
export interface DialogProps {
  title: string;
  children: ComponentChildren;
  /**
   * Called by Escape and by the button at the top, if nothing would be lost or the person agrees to lose it. Without it, the dialog cannot be closed in these
   * ways.
   */
  onClose?: (() => void) | undefined;
  /** Whether the dialog is wide enough for long text. */
  wide?: boolean;
  class?: string;
}

/** A dialog over the page, as a dialog element of the browser. The focus stays in it, and returns to its former place when the dialog closes. */
export function Dialog({ title, children, onClose, wide = false, class: name = "" }: DialogProps) {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const close = () => void (onClose && givesUp() && onClose());
  // Open it before it is painted, so that it receives keys as soon as a person sees it.
  useLayoutEffect(() => {
    const dialog = element.current!;
    const before = document.activeElement;
    if (!dialog.open) dialog.showModal();
    // Focus the first field and not the button that closes the dialog, so that the person can type immediately.
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
