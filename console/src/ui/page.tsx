import type { ComponentChildren } from "preact";
import { may } from "../api/session";
import { usePages } from "../registry";
import { link } from "../router";
import { Cli } from "./copy";
import { Text } from "./text";

/** A link to a page above this one. */
export interface Crumb {
  label: string;
  href: string;
}

/** The top of a page: its heading, which gets the focus when the page is opened, its buttons, and its command. */
export function PageHead({ title, crumbs = [], actions, cli, values, children }: {
  title: string;
  crumbs?: Crumb[];
  /** Buttons. The one that creates something has the attribute data-create. */
  actions?: ComponentChildren;
  cli?: string;
  values?: Record<string, string>;
  /** A sentence about the page. */
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

/** A part of a page with its own heading. */
export function Section({ title, actions, children }: { title: string; actions?: ComponentChildren; children: ComponentChildren }) {
  return <section class="section"><div class="section-title"><h2>{title}</h2>{actions && <div class="buttons">{actions}</div>}</div>{children}</section>;
}

/** A link to a page. It shows only the text if there is no such page or the key may not see it. */
export function PageLink({ to, params = {}, query = {}, children }: { to: string; params?: Record<string, string>; query?: Record<string, string>; children: ComponentChildren }) {
  const page = usePages().find((p) => p.path === to);
  if (!page || (page.needs !== undefined && !may(page.needs))) return <>{children}</>;
  return <a href={link(to, params, query)}>{children}</a>;
}
