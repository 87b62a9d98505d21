import { useEffect, useId, useState } from "preact/hooks";
import { Copy } from "./copy";

/** How long a secret is shown, in seconds. */
const shownFor = 30;

/**
 * Shows a secret that the API has returned. It is hidden at first, shown for 30 seconds after a click, and hidden again. Copying does not need to show it. The
 * document contains it only while it is shown. If it is lost when the dialog closes, say so next to it. A value can contain several secrets, one per line.
 */
export function Secret({ value, label, open = false }: { value: string; label: string; /** Whether it is shown at first, because the person has asked for it. */ open?: boolean }) {
  const id = useId();
  // The response may come after the person has gone to another tab.
  const [left, setLeft] = useState(open && !document.hidden ? shownFor : 0);
  const shown = left > 0;
  useEffect(() => {
    if (!shown) return undefined;
    // Count by the clock, because the timer stands still while a device sleeps. Also count the ticks, in case the clock is set back.
    const end = Date.now() + shownFor * 1_000;
    const timer = setInterval(() => setLeft((before) => Math.min(before - 1, Math.ceil((end - Date.now()) / 1_000))), 1_000);
    return () => clearInterval(timer);
  }, [shown]);
  useEffect(() => {
    // A person who comes to a tab that was left must not find the secret shown.
    const hide = () => document.hidden && setLeft(0);
    document.addEventListener("visibilitychange", hide);
    return () => document.removeEventListener("visibilitychange", hide);
  }, []);
  return (
    <div class="secret">
      <span class="secret-label" id={id}>{label}</span>
      <output class="mono" aria-labelledby={id}>{shown ? value : "•".repeat(24)}</output>
      <span class="buttons">
        <button type="button" aria-pressed={shown} onClick={() => setLeft(shown ? 0 : shownFor)}>{shown ? `Hide (${left} s)` : "Show"}</button>
        <Copy text={value} what={`Copy ${label.toLowerCase()}`} />
      </span>
    </div>
  );
}
