import { useEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren } from "preact";
import { checkEnd, idleEnd, may, signOut, stay, waiting, type Session } from "../api/session";
import { asProblem } from "../api/client";
import { sections, usePages, type Page } from "../registry";
import { link } from "../router";
import { useStore } from "../store";
import { announce, notify } from "./live";
import { Finder } from "./finder";
import { opened, Shortcuts, useShortcuts } from "./shortcuts";
import { choose, theme, type Theme } from "./theme";
import { Text } from "./text";

/** The time before the end of a session when the person is asked whether to stay, in milliseconds. */
const warned = 120_000;

/** The frame of every page: a link that skips to the page, the navigation, the account, and the bars that apply to all pages. */
export function Shell({ session, page, children }: { session: Session; page: Page | undefined; children: ComponentChildren }) {
  const [open, setOpen] = useState(false);
  const which = useStore(opened);
  const pages = usePages();
  useShortcuts();
  useEffect(() => setOpen(false), [page]);
  const navigation = useRef<HTMLElement>(null);
  useFocusKept();
  return (
    <div class={`shell ${open ? "open" : ""}`}>
      <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.querySelector<HTMLElement>("main h1")?.focus(); }}>Skip to the page</a>
      <header class="top">
        <button type="button" class="quiet menu" aria-expanded={open} aria-controls="navigation" onClick={() => setOpen(!open)}>Menu</button>
        <a class="brand" href={link("/")}><Mark /> Gatewright</a>
        <button type="button" class="find" onClick={() => opened.set("finder")}>Find <kbd>Ctrl</kbd><kbd>K</kbd></button>
        <Account session={session} />
      </header>
      <nav id="navigation" ref={navigation} aria-label="Pages">
        {sections.map((section) => {
          const there = pages.filter((p) => p.nav?.section === section && (p.needs === undefined || may(p.needs)));
          if (there.length === 0) return null;
          return (
            <div key={section}>
              {section !== "" && <h2>{section}</h2>}
              <ul>{there.map((p) => <li key={p.path}><a href={link(p.path)} aria-current={p === page ? "page" : page && within(page, p, pages) ? "true" : undefined}>{p.nav!.label}</a></li>)}</ul>
            </div>
          );
        })}
        <div class="nav-foot"><button type="button" class="quiet" onClick={() => opened.set("shortcuts")}>Shortcuts <kbd>?</kbd></button><ThemeChoice /></div>
      </nav>
      <div class="middle"><Bars /><main id="main">{children}</main></div>
      {which === "finder" && <Finder />}
      {which === "shortcuts" && <Shortcuts />}
    </div>
  );
}

/**
 * Keeps the place of the focus when the focused element is removed, such as the row of a deleted object, which disappears long after the dialog was closed. It
 * then focuses the nearest remaining element that can have the focus, or the heading.
 */
function useFocusKept(): void {
  useEffect(() => {
    const main = document.getElementById("main")!;
    let around: HTMLElement[] = [];
    const noted = (event: FocusEvent) => {
      around = [];
      for (let e = event.target as HTMLElement | null; e && e !== main; e = e.parentElement) around.push(e);
    };
    const gone = new MutationObserver(() => {
      if (around.length === 0 || around[0]!.isConnected || document.activeElement !== document.body) return;
      const next = around.filter((e) => e.isConnected).map((e) => (e.hasAttribute("tabindex") ? e : e.querySelector<HTMLElement>(".table-frame"))).find((e) => e !== null) ?? main.querySelector<HTMLElement>("h1");
      around = [];
      next?.focus({ preventScroll: true });
    });
    // Forget the place if a person clicks where nothing can have the focus. Chromium sends focusout before it removes an element, so check whether the element
    // is still there.
    const left = ({ target, relatedTarget }: FocusEvent) => relatedTarget === null && queueMicrotask(() => {
      if ((target as Node).isConnected && document.activeElement === document.body) around = [];
    });
    main.addEventListener("focusin", noted);
    main.addEventListener("focusout", left);
    gone.observe(main, { childList: true, subtree: true });
    return () => {
      main.removeEventListener("focusin", noted);
      main.removeEventListener("focusout", left);
      gone.disconnect();
    };
  }, []);
}

/** Reports whether a page is below another page of the navigation. */
function within(page: Page, above: Page, pages: readonly Page[]): boolean {
  for (let up = page.up; up !== undefined; up = pages.find((p) => p.path === up)?.up) if (up === above.path) return true;
  return false;
}

function Mark() {
  return <svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><path d="M5 28V14a11 11 0 0 1 22 0v14h-5.5V14.500a5.500 5.500 0 0 0-11 0V28z" fill="currentColor" /><path d="M13.800 28v-7.800a2.200 2.200 0 0 1 4.400 0V28z" fill="var(--mark)" /></svg>;
}

function Account({ session }: { session: Session }) {
  const [busy, setBusy] = useState(false);
  return (
    <div class="account">
      <span class="who"><Text value={session.account ?? ""} /><span class="faint"> · <Text value={session.label} /></span></span>
      <button
        type="button" aria-disabled={busy}
        onClick={() => {
          if (busy) return;
          setBusy(true);
          signOut().catch((error: unknown) => {
            setBusy(false);
            notify(`You are still signed in: ${asProblem(error).detail}`);
          });
        }}
      >Sign out</button>
    </div>
  );
}

function ThemeChoice() {
  const now = useStore(theme);
  return (
    <label class="theme">Look{" "}
      <select value={now} onChange={(e) => choose(e.currentTarget.value as Theme)}>
        <option value="system">As the system</option><option value="light">Light</option><option value="dark">Dark</option>
      </select>
    </label>
  );
}

/** The bars that apply to all pages: no connection, a wait after a 429, a session that is about to end. */
function Bars() {
  const [online, setOnline] = useState(navigator.onLine);
  const seconds = useStore(waiting);
  const end = useStore(idleEnd);
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const change = () => {
      setOnline(navigator.onLine);
      announce(navigator.onLine ? "Connected again." : "This device is offline.");
    };
    window.addEventListener("online", change);
    window.addEventListener("offline", change);
    return () => {
      window.removeEventListener("online", change);
      window.removeEventListener("offline", change);
    };
  }, []);
  const left = end - now;
  useEffect(() => {
    if (end === 0) return undefined;
    const wait = Math.max(1_000, end - Date.now() > warned ? Math.min(end - Date.now() - warned, 60_000) : 1_000);
    const timer = setTimeout(() => setNow(Date.now()), wait);
    return () => clearTimeout(timer);
  }, [end, now]);
  const ends = end > 0 && left <= warned;
  const over = ends && left <= 0;
  useEffect(() => {
    if (over) checkEnd();
  }, [over]);
  useEffect(() => {
    if (ends) announce("You will be signed out in two minutes, because nothing was done here.");
  }, [ends]);
  if (online && seconds === 0 && (!ends || over)) return null;
  return (
    <section class="bars" aria-label="What holds for every page">
      {!online && <p class="bar warn">This device is offline. What is shown may be old.</p>}
      {seconds > 0 && <p class="bar" role="status">The API asks to wait; it is asked again in <span aria-hidden="true">{seconds} s</span><span class="visually-hidden">a moment</span>.</p>}
      {ends && !over && <p class="bar warn">You will be signed out in {Math.ceil(left / 1000)} s, because nothing was done here. <button type="button" onClick={() => void stay().catch(() => {})}>Stay signed in</button></p>}
    </section>
  );
}
