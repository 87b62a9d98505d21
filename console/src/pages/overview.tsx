import type { Operation } from "../api/client";
import { useResource } from "../api/resource";
import { account, may, session } from "../api/session";
import { usePages, type PageProps } from "../registry";
import { link } from "../router";
import { useStore } from "../store";
import { PageHead, Section } from "../ui/page";
import { Empty, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text } from "../ui/text";
import { Badge, Count, Details, Time } from "../ui/value";

/** The lists whose total numbers are shown. */
const counted = [
  ["Projects", "/projects", "ProjectsService_list"],
  ["Key buckets", "/buckets", "ApiKeyBucketsService_list"],
  ["Custom domains", "/domains", "CustomDomainsService_list"],
  ["Tunnels", "/tunnels", "TunnelService_list"],
  ["Client CAs", "/client-cas", "ClientMtlsCaCertificatesService_list"],
  ["Account keys", "/account-keys", "AccountKeysService_list"],
] as const satisfies readonly (readonly [string, string, Operation])[];

/** The overview: the number of objects, recent activity, and the permissions of the key. */
export default function Overview(_: PageProps) {
  const state = useStore(session);
  if (state.at !== "in") return null;
  const { session: who } = state;
  const shown = counted.filter(([, , operation]) => may(operation));
  return (
    <>
      <PageHead title="Overview" cli="gatewright whoami">The account <strong><Text value={account()} /></strong>, as the key <strong><Text value={who.label} /></strong> sees it.</PageHead>
      {shown.length > 0 && <ul class="cards">{shown.map(([label, path, operation]) => <Counted key={operation} label={label} path={path} operation={operation} />)}</ul>}
      {may("AuditLogsService_list") && <Lately />}
      <Section title="What this key may">
        <Details
          entries={[
            ["Key", <><Text value={who.label} /> <code class="faint">{who.sub}</code></>],
            ["Ends", who.keyExpiresOn ? <Time value={who.keyExpiresOn} absolute /> : "never by itself"],
            ["Scopes", <Names names={who.scopes} all="all, and those to come" />],
            ["Projects", <Names names={who.projects} all="all" />],
            ["Kinds of environment", <Names names={who.environments} all="all" />],
            ["This session", who.session ? <>ends <Time value={who.session.expiresOn} />, or {Math.round(who.session.idleSeconds / 60)} minutes after you last did something</> : undefined],
          ]}
        />
      </Section>
    </>
  );
}

function Counted({ label, path, operation }: { label: string; path: string; operation: (typeof counted)[number][2] }) {
  const list = useResource(operation, (operation === "ProjectsService_list" ? { query: { limit: 1 } } : { path: { accountName: account() }, query: { limit: 1 } }) as never);
  const total = list.now.at === "ready" ? (list.now.data as { total: number }).total : undefined;
  const number = <span class="number">{total !== undefined ? <Count value={total} /> : list.now.at === "failed" ? <span title={list.now.problem.detail}>–</span> : "…"}</span>;
  const there = usePages().some((p) => p.path === path);
  return <li>{there ? <a href={link(path)}>{number}<span>{label}</span></a> : <>{number}<span class="faint">{label}</span></>}</li>;
}

function Names({ names, all }: { names: unknown; all: string }) {
  if (names === "all") return <>{all}</>;
  const list = names as string[];
  return list.length === 0 ? <span class="faint">none</span> : <ul class="tags">{list.map((n) => <li key={n}><Text value={n} /></li>)}</ul>;
}

/** The newest records of the audit log. */
function Lately() {
  const pages = usePages();
  const log = useResource("AuditLogsService_list", { path: { accountName: account() }, query: { limit: 10 } });
  return (
    <Section title="Lately" actions={pages.some((p) => p.path === "/audit-log") && <a href={link("/audit-log")}>The whole audit log</a>}>
      <Show resource={log} what="Loading what happened lately">
        {(data) => data.data.length === 0
          ? <Empty title="Nothing yet">Every change of this account is told here.</Empty>
          : (
            <Table
              caption="What happened lately" rows={data.data} rowKey={(e) => e.requestId + e.timestamp + e.action}
              columns={[
                { title: "What", cell: (e) => <Text value={e.action} /> },
                { title: "Of what", cell: (e) => (e.resources ?? []).map((r, i) => <span key={r.id}>{i > 0 && ", "}<Text value={r.metadata?.["name"] ?? r.id} /></span>) },
                { title: "Outcome", cell: (e) => e.success === true ? <Badge tone="good">done</Badge> : e.success === false ? <Badge tone="bad">refused</Badge> : <Badge tone="warn">unknown</Badge> },
                { title: "When", cell: (e) => <Time value={e.timestamp} /> },
              ]}
            />
          )}
      </Show>
    </Section>
  );
}
