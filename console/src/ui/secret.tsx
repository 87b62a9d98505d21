import { useEffect, useId, useState } from "preact/hooks";
import { Copy } from "./copy";

/** How long a secret is shown, in seconds. */
const shownFor = 30;

/**
 * A secret that was answered once. It is hidden until it is asked for, shown for 30 seconds, and hidden again; copying needs no showing. Where it is gone for good when the dialog closes, say so
 * beside it. It is in the page only while it is shown. Several stand in one, a line each.
 */
export function Secret({ value, label, open = false }: { value: string; label: string; /** Whether it is shown from the beginning, because it was asked for. */ open?: boolean }) {
  const id = useId();
  // It may come when somebody has gone to another tab.
  const [left, setLeft] = useState(open && !document.hidden ? shownFor : 0);
  const shown = left > 0;
  useEffect(() => {
    if (!shown) return undefined;
    // By the clock, and by the seconds that were counted where that was put back: a device that slept has counted none.
    const end = Date.now() + shownFor * 1_000;
    const timer = setInterval(() => setLeft((before) => Math.min(before - 1, Math.ceil((end - Date.now()) / 1_000))), 1_000);
    return () => clearInterval(timer);
  }, [shown]);
  useEffect(() => {
    // Whoever comes to a tab that was left does not find it shown.
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
