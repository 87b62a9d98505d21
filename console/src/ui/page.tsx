import type { ComponentChildren } from "preact";
import { may } from "../api/session";
import { usePages } from "../registry";
import { link } from "../router";
import { Cli } from "./copy";
import { Text } from "./text";

/** A step up, or down, of where a page stands. */
export interface Crumb {
  label: string;
  href: string;
}

/** The top of a page: its heading, which has the focus when the page is opened, what can be done on it, and its command. */
export function PageHead({ title, crumbs = [], actions, cli, values, children }: {
  title: string;
  crumbs?: Crumb[];
  /** Buttons, of which the one that creates has the attribute data-create. */
  actions?: ComponentChildren;
  cli?: string;
  values?: Record<string, string>;
  /** A sentence on what the page is about. */
  children?: ComponentChildren;
}) {
  return (
    <header class="page-head">
      {crumbs.length > 0 && <nav aria-label="Where this stands"><ol class="crumbs">{crumbs.map((c) => <li key={c.href}><a href={c.href}><Text value={c.label} /></a></li>)}</ol></nav>}
      <div class="page-title">
        <h1 tabIndex={-1}><Text value={title} /></h1>
        {actions && <div class="buttons">{actions}</div>}
      </div>
      {children && <p class="lead">{children}</p>}
      {cli && <Cli line={cli} values={values ?? {}} />}
    </header>
  );
}

/** A part of a page under a heading of its own. */
export function Section({ title, actions, children }: { title: string; actions?: ComponentChildren; children: ComponentChildren }) {
  return <section class="section"><div class="section-title"><h2>{title}</h2>{actions && <div class="buttons">{actions}</div>}</div>{children}</section>;
}

/** A link to a page; its text alone where there is no such page, or the key may not see it. */
export function PageLink({ to, params = {}, query = {}, children }: { to: string; params?: Record<string, string>; query?: Record<string, string>; children: ComponentChildren }) {
  const page = usePages().find((p) => p.path === to);
  if (!page || (page.needs !== undefined && !may(page.needs))) return <>{children}</>;
  return <a href={link(to, params, query)}>{children}</a>;
}
