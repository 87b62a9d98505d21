import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useResource } from "../api/resource";
import type { RowOf } from "../api/rows";
import type { PageProps } from "../registry";
import { setQuery, useQuery } from "../router";
import { DeploymentHead, useDeployment } from "../ui/deploymenthead";
import { SelectField } from "../ui/form";
import { announce } from "../ui/live";
import { Search } from "../ui/search";
import { Empty, Show } from "../ui/states";
import { Text } from "../ui/text";
import { Badge, many } from "../ui/value";
import { VirtualTable } from "../ui/virtual";

type Call = RowOf<"AnalyticsService_recentCalls">;
/** A call with a key that distinguishes it from other calls: the API returns no ID. */
type Row = Call & { key: string };

/** How often calls are read, in milliseconds. */
const every = 2_000;
/** How many of the newest calls are read: without a filter, and with one. */
const [few, most] = [200, 1000];

const classes = [["", "All"], ["2xx", "2xx, well"], ["3xx", "3xx, elsewhere"], ["4xx", "4xx, refused"], ["5xx", "5xx, failed"], ["policy", "Refused by a policy"]] as const;

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/** The latest calls of a deployment, updated as new calls come. */
export default function Traffic({ params }: PageProps) {
  const name = params["deployment"]!;
  const query = useQuery();
  const [paused, setPaused] = useState(false);
  const deployment = useDeployment(name);
  const path = (query.get("find") ?? "").toLowerCase();
  const status = query.get("status") ?? "";
  const consumer = query.get("consumer") ?? "";
  const filtered = path !== "" || status !== "" || consumer !== "";
  const calls = useResource(
    "AnalyticsService_recentCalls", { path: { deploymentName: name }, query: { consumers: [consumer === "" ? "*" : consumer], limit: filtered ? most : few } }, { every: paused ? 0 : every },
  );
  const pause = (to: boolean) => {
    setPaused(to);
    announce(to ? "Paused." : "Live again.");
    if (!to) calls.reload();
  };
  return (
    <>
      <DeploymentHead
        name={name} at="/deployments/:deployment/traffic" title={`Live traffic of ${name}`} deployment={deployment.now.at === "ready" ? deployment.now.data : undefined}
        cli={consumer === "" ? "gatewright analytics calls :deployment" : "gatewright analytics calls :deployment --consumer :consumer"} values={{ consumer }}
        actions={<button type="button" aria-pressed={paused} onClick={() => pause(!paused)}>{paused ? "Paused: go on" : "Pause"}</button>}
      >The newest calls of the last 24 hours, asked for every two seconds while this page is seen. A gateway tells of a call within 20 seconds.</DeploymentHead>
      <Show resource={calls} what="Loading calls">
        {({ data }) => <Calls data={data} filter={{ path, status, consumer }} filtered={filtered} paused={paused} />}
      </Show>
    </>
  );
}

interface Filter {
  path: string;
  status: string;
  consumer: string;
}

/**
 * Reports whether a call matches a status filter: 4xx matches all statuses that begin with 4, policy matches all calls that a policy has refused, and a number
 * matches that status.
 */
function ofStatus(call: Call, status: string): boolean {
  if (status === "") return true;
  if (status === "policy") return call.policy !== "";
  return status.endsWith("xx") ? call.statusCode.startsWith(status[0]!) : call.statusCode === status;
}

/** Adds a key to each call that stays the same when newer calls come. Equal calls are numbered, beginning with the oldest. */
function keyed(calls: Call[]): Row[] {
  const seen = new Map<string, number>();
  const rows: Row[] = [];
  for (let i = calls.length - 1; i >= 0; i--) {
    const c = calls[i]!;
    const of = JSON.stringify([c.timeStamp, c.method, c.routePath, c.statusCode, c.consumer, c.policy]);
    const n = (seen.get(of) ?? 0) + 1;
    seen.set(of, n);
    rows.push({ ...c, key: `${of}${n}` });
  }
  return rows.reverse();
}

function Calls({ data, filter, filtered, paused }: { data: Call[]; filter: Filter; filtered: boolean; paused: boolean }) {
  const all = useMemo(() => keyed(data), [data]);
  const rows = all.filter((c) => c.routePath.toLowerCase().includes(filter.path) && ofStatus(c, filter.status));
  const held = useHeld(rows, JSON.stringify(filter));
  const known = classes.some(([value]) => value === filter.status);
  return (
    <>
      <div class="filter-row">
        <Search label="Filter by path" count={held.rows.length} noun="call" />
        <SelectField label="Status" name="status" required value={filter.status} options={known ? classes : [...classes, [filter.status, filter.status] as const]} onInput={(v) => setQuery({ status: v })} />
        <Search label="Consumer, by the whole name" name="consumer" noun="call" />
      </div>
      {held.rows.length === 0
        ? <Empty title={filtered ? "None of the newest is such a call" : "Nobody has called it in the last 24 hours"}>{filtered ? <p><button type="button" onClick={() => setQuery({ find: "", status: "", consumer: "" })}>Show all</button></p> : <p>{paused ? "It is not asked while this is paused." : "A call is here within 20 seconds."}</p>}</Empty>
        : (
          <div ref={held.frame} class="first-wide">
            <p class="held">{held.newer > 0
              ? <button type="button" onClick={held.show}>Show {many(held.newer, "newer call")}</button>
              : <span class="faint">{paused ? "Paused" : held.holding ? "Newer calls wait while you are in the table" : "The newest are at the top"}</span>}</p>
            <VirtualTable<Row>
              caption="Calls, the newest first" rows={held.rows} rowKey={(c) => c.key}
              columns={[
                { title: "Call", cell: (c) => <><code><Text value={c.method} /></code> {c.routePath === "" ? <span class="faint">no route</span> : <Text value={c.routePath} />}</> },
                { title: "Status", cell: (c) => <Status code={c.statusCode} /> },
                { title: "Refused by", cell: (c) => (c.policy === "" ? <span class="faint">–</span> : <Text value={c.policy} />) },
                { title: "Consumer", minor: true, cell: (c) => (c.consumer === "" ? <span class="faint">none</span> : <Text value={c.consumer} />) },
                { title: "Time", minor: true, cell: (c) => <When value={c.timeStamp} /> },
              ]}
              onOpen={(c) => setQuery({ find: c.routePath, status: c.statusCode }, false)}
            />
          </div>
        )}
    </>
  );
}

function Status({ code }: { code: string }) {
  return <Badge tone={code.startsWith("2") ? "good" : code.startsWith("5") ? "bad" : code.startsWith("4") ? "warn" : "plain"}>{code}</Badge>;
}

function When({ value }: { value: string }) {
  const at = new Date(value);
  if (Number.isNaN(at.getTime())) return <Text value={value} />;
  return <time dateTime={value}>{at.toDateString() === new Date().toDateString() ? "" : `${day.format(at)}, `}{clock.format(at)}</time>;
}

/**
 * Holds newer rows back while a person uses the table, with the focus in it or scrolled down, so that the rows stay where they are. The newer rows are counted.
 * They are shown at the click of a button, or when the person leaves the table. of identifies the list: rows of another list are shown immediately.
 */
function useHeld(rows: Row[], of: string) {
  const frame = useRef<HTMLDivElement>(null);
  const [holding, setHolding] = useState(false);
  const [shown, setShown] = useState({ rows, of });
  const there = rows.length > 0;
  useEffect(() => {
    const table = frame.current?.querySelector<HTMLElement>(".virtual");
    if (!table) return undefined;
    const look = () => setHolding(table.scrollTop > 0 || table.contains(document.activeElement));
    const later = () => queueMicrotask(look);
    table.addEventListener("scroll", look, { passive: true });
    table.addEventListener("focusin", look);
    table.addEventListener("focusout", later);
    return () => {
      table.removeEventListener("scroll", look);
      table.removeEventListener("focusin", look);
      table.removeEventListener("focusout", later);
    };
  }, [there, of]);
  const live = !holding || shown.of !== of;
  const newest = useRef(rows);
  newest.current = rows;
  const latest = rows[0]?.key ?? "";
  useEffect(() => {
    if (live) setShown({ rows: newest.current, of });
  }, [live, latest, rows.length, of]);
  const out = live ? rows : shown.rows;
  const known = new Set(out.map((r) => r.key));
  return {
    frame, holding, rows: out, newer: live ? 0 : rows.filter((r) => !known.has(r.key)).length,
    show: () => {
      setShown({ rows, of });
      const table = frame.current?.querySelector<HTMLElement>(".virtual");
      if (table) table.scrollTop = 0;
      announce(many(rows.length, "call"));
    },
  };
}
