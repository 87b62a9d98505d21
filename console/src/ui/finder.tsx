import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { account, may } from "../api/session";
import { aborted, call } from "../api/client";
import { usePages } from "../registry";
import { go, link } from "../router";
import { announce } from "./live";
import { Dialog } from "./dialog";
import { opened } from "./shortcuts";
import { Text } from "./text";

/** Something that can be found: its name, its kind, and its address. */
interface Found {
  name: string;
  kind: string;
  href: string;
}

/** The maximum number of projects whose deployments are read: each needs a request. */
const projectsSearched = 20;

/** The lists with the names. Each reads one page of a list. The names are searched here. */
const sources: { allowed: () => boolean; ask: (signal: AbortSignal) => Promise<Found[]> }[] = [
  {
    allowed: () => may("ProjectsService_list"),
    ask: async (signal) => (await call("ProjectsService_list", { signal })).data.data
      .map((p) => ({ name: p.name, kind: "Project", href: link("/projects/:project", { project: p.name }) })),
  },
  {
    allowed: () => may("ProjectsService_list") && may("DeploymentsService_list"),
    ask: async (signal) => {
      const projects = (await call("ProjectsService_list", { query: { limit: projectsSearched }, signal })).data.data;
      const lists = await Promise.all(projects.map((p) => call("DeploymentsService_list", { path: { accountName: account(), projectName: p.name }, signal })));
      return lists.flatMap(({ data }) => data.data).flatMap((d) => [
        { name: d.name, kind: `Deployment of ${d.branchName}`, href: link("/deployments/:deployment", { deployment: d.name }) },
        ...(may("DeploymentsService_routes") ? [{ name: `Routes of ${d.name}`, kind: "Routes", href: link("/deployments/:deployment/routes", { deployment: d.name }) }] : []),
        ...(may("AnalyticsService_recentCalls") ? [{ name: `Live traffic of ${d.name}`, kind: "Traffic", href: link("/deployments/:deployment/traffic", { deployment: d.name }) }] : []),
        ...(may("AnalyticsService_statsByStatusCode") ? [{ name: `Charts of ${d.name}`, kind: "Charts", href: link("/deployments/:deployment/charts", { deployment: d.name }) }] : []),
      ]);
    },
  },
  {
    allowed: () => may("ApiKeyBucketsService_list"),
    ask: async (signal) => (await call("ApiKeyBucketsService_list", { path: { accountName: account() }, signal })).data.data
      .flatMap((b) => [
        { name: b.name, kind: "Key bucket", href: link("/buckets/:bucket", { bucket: b.name }) },
        ...(may("ApiKeyConsumersService_list") ? [{ name: `${b.name} consumers`, kind: "Consumers", href: link("/buckets/:bucket/consumers", { bucket: b.name }) }] : []),
      ]),
  },
  {
    allowed: () => may("TunnelService_list") && may("TunnelService_read"),
    ask: async (signal) => (await call("TunnelService_list", { path: { accountName: account() }, signal })).data.data
      .map((t) => ({ name: t.name, kind: "Tunnel", href: link("/tunnels/:tunnel", { tunnel: t.id }) })),
  },
  {
    allowed: () => may("CustomDomainsService_list"),
    ask: async (signal) => (await call("CustomDomainsService_list", { path: { accountName: account() }, signal })).data.data
      .map((d) => ({ name: d.hostname, kind: "Custom domain", href: link("/domains/:domain", { domain: d.hostname }) })),
  },
  {
    allowed: () => may("MeteringBucketsService_list"),
    ask: async (signal) => (await call("MeteringBucketsService_list", { signal })).data.data
      .map((b) => ({ name: b.id, kind: "Metering bucket", href: link("/metering/:bucket", { bucket: b.id }) })),
  },
];

/**
 * The maximum number of buckets whose consumers are searched, with a request for each; the maximum number of consumers from each; and the time after the last
 * key until the search begins, in milliseconds.
 */
const bucketsSearched = 20;
const consumersOfEach = 5;
const typingPause = 300;

/** The beginning of a consumer name that is searched for. It has at least two characters, because there may be a hundred thousand consumers. */
const beginning = /^[a-z0-9_-]{2,128}$/;

/** Returns consumers whose names begin with prefix. The API searches for them, because the list of all would be too long to read here. */
async function consumersBy(prefix: string, signal: AbortSignal): Promise<Found[]> {
  const buckets = (await call("ApiKeyBucketsService_list", { path: { accountName: account() }, query: { limit: bucketsSearched }, signal })).data.data;
  const lists = await Promise.all(buckets.map(async (b) => (await call("ApiKeyConsumersService_list", {
    path: { accountName: account(), bucketName: b.name }, query: { "name-prefix": prefix, limit: consumersOfEach }, signal,
  })).data.data.map((c) => ({ name: c.name, kind: `Consumer of ${b.name}`, href: link("/buckets/:bucket/consumers/:consumer", { bucket: b.name, consumer: c.name }) }))));
  return lists.flat();
}

/** The maximum number of results that are shown. */
const shownAtMost = 30;

/** Finds pages and objects whose names contain the text. Names that begin with it come first. */
export function Finder() {
  const pages = usePages();
  const [typed, setTyped] = useState("");
  const [names, setNames] = useState<Found[]>([]);
  // The chosen result, by its address: results that come later may be listed before it.
  const [chosen, choose] = useState("");
  const [missing, setMissing] = useState(false);
  const [consumers, setConsumers] = useState<{ of: string; found: Found[] }>({ of: "", found: [] });
  const list = useId();
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), []);
  useEffect(() => {
    const controller = new AbortController();
    for (const source of sources) {
      if (!source.allowed()) continue;
      source.ask(controller.signal).then((more) => setNames((before) => [...before, ...more]), (error) => {
        if (!aborted(error)) setMissing(true);
      });
    }
    return () => controller.abort();
  }, []);
  const want = typed.trim().toLowerCase();
  const prefix = beginning.test(want) && may("ApiKeyBucketsService_list") && may("ApiKeyConsumersService_list") && may("ApiKeyConsumersService_read") ? want : "";
  useEffect(() => {
    if (prefix === "") return;
    const controller = new AbortController();
    const timer = setTimeout(() => {
      consumersBy(prefix, controller.signal).then((found) => setConsumers({ of: prefix, found }), (error) => {
        if (aborted(error)) return;
        setMissing(true);
        setConsumers({ of: prefix, found: [] });
      });
    }, typingPause);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [prefix]);
  const looking = prefix !== "" && consumers.of !== prefix;
  const all: Found[] = [
    ...pages.filter((p) => !p.path.includes(":") && (p.needs === undefined || may(p.needs))).map((p) => ({ name: p.nav?.label ?? p.title, kind: "Page", href: link(p.path) })),
    ...names,
    ...(prefix === "" ? [] : consumers.found),
  ];
  const rank = (f: Found) => (f.name.toLowerCase().startsWith(want) ? 0 : 1);
  const found = all.filter((f) => f.name.toLowerCase().includes(want)).sort((a, b) => rank(a) - rank(b)).slice(0, shownAtMost);
  const active = found.length === 0 ? -1 : Math.max(0, found.findIndex((f) => f.href === chosen));
  const close = () => opened.set("");
  const open = (f: Found | undefined) => {
    if (!f) return;
    close();
    go(f.href);
  };
  useEffect(() => {
    if (want !== "" && !looking) announce(found.length === 0 ? "Nothing found" : `${found.length} found`);
  }, [want, found.length, looking]);
  useEffect(() => choose(""), [want]);
  useEffect(() => document.getElementById(`${list}-${active}`)?.scrollIntoView({ block: "nearest" }), [active, list]);
  return (
    <Dialog title="Find" onClose={close} class="finder">
      <input
        ref={input} type="text" role="combobox" aria-label="Find a page, or something by its name" aria-expanded="true" aria-controls={list} aria-autocomplete="list"
        aria-activedescendant={active >= 0 ? `${list}-${active}` : undefined} placeholder="A page, or a name" value={typed} autocomplete="off" spellcheck={false}
        onInput={(e) => setTyped(e.currentTarget.value)}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown" || e.key === "ArrowUp") {
            e.preventDefault();
            choose(found[(active + (e.key === "ArrowDown" ? 1 : found.length - 1)) % Math.max(1, found.length)]?.href ?? "");
          } else if (e.key === "Enter") {
            e.preventDefault();
            open(found[active]);
          }
        }}
      />
      <ul id={list} role="listbox" aria-label="Found">
        {found.map((f, i) => (
          <li key={f.href} id={`${list}-${i}`} role="option" aria-selected={i === active} onClick={() => open(f)} onPointerMove={() => choose(f.href)}>
            <span><Text value={f.name} /></span><span class="faint"><Text value={f.kind} /></span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p class="faint">{looking ? "Looking for it…" : "Nothing of that name."}</p>}
      {missing && <p class="faint">Not everything could be asked for: some names are missing.</p>}
    </Dialog>
  );
}
