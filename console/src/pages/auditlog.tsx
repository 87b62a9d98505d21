import { useEffect, useRef } from "preact/hooks";
import { useResource } from "../api/resource";
import { useRows, type RowOf } from "../api/rows";
import { account, session } from "../api/session";
import type { PageProps } from "../registry";
import { setQuery, useQuery } from "../router";
import { given } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { FilterField, FilterTime } from "../ui/filter";
import { CheckField, SelectField } from "../ui/form";
import { announce } from "../ui/live";
import { PageHead } from "../ui/page";
import { Source } from "../ui/source";
import { Empty, Loading, ProblemPanel, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, Details, many, Time } from "../ui/value";

type Entry = RowOf<"AuditLogsService_list">;

/** The command that shows the same, with the filters of the page. */
const command = { cli: "gatewright log list --action :action --actor :actor --success=:success --from :start --to :end --follow" };

/** How often the newest records are read while a person follows them, in milliseconds. */
const followEvery = 3_000;
/** The maximum time between the start and the end of a list, in milliseconds (docs/audit-logs.md). */
const longest = 30 * 86_400_000;

const outcomes = [["", "all"], ["true", "what was done"], ["false", "what was refused or failed"]] as const;

/** The name of a record in the address: its time, which is necessary to read it again, the ID of its request, and its action. */
const recordOf = (e: Entry) => `${e.timestamp} ${e.requestId} ${e.action}`;

/** Shows who has sent the request of a record. */
function Who({ entry }: { entry: Entry }) {
  const now = session.get();
  const own = now.at === "in" && now.session.sub === entry.actor.sub;
  return <><Text value={entry.actor.email ?? entry.actor.sub} />{own && <> <Badge tone="accent">this key</Badge></>}</>;
}

function Outcome({ success }: { success: boolean | null }) {
  if (success === null) return <Badge tone="warn">not known</Badge>;
  return success ? <Badge tone="good">done</Badge> : <Badge tone="bad">refused</Badge>;
}

/** Returns the resources of a record, by their names if they have names. */
function what(entry: Entry): string {
  return (entry.resources ?? []).map((r) => `${r.type} ${r.metadata?.["name"] ?? r.id}`).join(", ");
}

/** The audit log of the account. The address has every filter, and the record whose details are open. */
export default function AuditLog(_: PageProps) {
  const query = useQuery();
  const get = (name: string) => query.get(name) ?? "";
  const [action, actor, success, start, end] = [get("action"), get("actor"), get("success"), get("start"), get("end")];
  const follow = get("follow") === "yes" && end === "";
  // Without an end, the list ends now. Without a start, no time span is too long.
  const span = start === "" ? 1 : (end === "" ? Date.now() : new Date(end).getTime()) - new Date(start).getTime();
  const bad = span > longest ? "They are more than 30 days apart: ask in parts." : !(span > 0) ? "It has to be after the beginning." : undefined;
  const filters = {
    limit: 100, ...(action === "" ? {} : { action }), ...(actor === "" ? {} : { actor }), ...(success === "true" || success === "false" ? { success: success === "true" } : {}),
    ...(start === "" ? {} : { startDate: start }), ...(end === "" ? {} : { endDate: end }),
  };
  const path = { accountName: account() };
  const list = useRows("AuditLogsService_list", follow || bad ? null : { path, query: filters });
  const newest = useResource("AuditLogsService_list", follow && !bad ? { path, query: filters } : null, { every: followEvery });
  const followed = newest.now.at === "ready" ? newest.now.data.data : [];
  const rows = follow ? followed : list.rows;
  const total = follow && newest.now.at === "ready" ? newest.now.data.pagination.total : list.total;
  const filtered = action + actor + success + start + end !== "";
  useNews(follow && newest.now.at === "ready", followed);
  const values = { action, actor, success, start, end };
  const cli = given(follow ? command.cli : command.cli.replace(" --follow", ""), values);
  const record = get("record");
  return (
    <>
      <PageHead title="Audit log" cli={cli} values={values}>Every change that was asked for: by whom, of what, and what came of it. Records are kept for 90 days; a list goes over 30 of them.</PageHead>
      <div class="filters">
        <FilterField label="Action" name="action" hint={<>Such as <code>key-bucket.create</code></>} suggestions={[...new Set(rows.map((e) => e.action))].sort()} />
        <FilterField label="Who" name="actor" hint="An address, or the id of a key" />
        <SelectField label="Outcome" name="success" required value={success} options={outcomes} onInput={(value) => setQuery({ success: value })} />
        <FilterTime label="From" name="start" />
        <FilterTime label="To" name="end" fault={bad} />
        <CheckField label="Follow the newest" name="follow" value={follow} onInput={(on) => setQuery({ follow: on ? "yes" : "", ...(on ? { end: "" } : {}) })} />
        {filtered && <button type="button" class="quiet" onClick={() => setQuery({ action: "", actor: "", success: "", start: "", end: "" })}>Clear the filters</button>}
      </div>
      {follow ? (newest.now.at !== "ready" || newest.now.problem) && <Show resource={newest} what="Loading the newest records">{() => null}</Show> : (
        <>
          {list.problem && <ProblemPanel problem={list.problem} onRetry={rows.length > 0 ? list.more : list.reload} />}
          {rows.length === 0 && list.loading && <Loading what="Loading records" />}
        </>
      )}
      {rows.length === 0 && (follow ? newest.now.at === "ready" : list.complete) && <Empty title="No record">{filtered ? <p>None is like that within 30 days.</p> : <p>Nothing was changed within 30 days.</p>}</Empty>}
      {rows.length > 0 && (
        <>
          <p class="faint">{many(total ?? rows.length, "record")}{follow && ", of which the newest 100 are shown, asked for every 3 seconds while you look"}</p>
          <Table<Entry>
            caption="Audit records, the newest first" rows={rows} rowKey={recordOf}
            columns={[
              { title: "Action", cell: (e) => <button type="button" class="link" onClick={() => setQuery({ record: recordOf(e) }, false)}><Text value={e.action} /></button> },
              { title: "Outcome", cell: (e) => <Outcome success={e.success} /> },
              { title: "When", cell: (e) => <Time value={e.timestamp} /> },
              { title: "Who", minor: true, cell: (e) => <Who entry={e} /> },
              { title: "What", minor: true, cell: (e) => <Text value={e.success === false ? (e.error ?? "") : what(e)} clamp /> },
            ]}
          />
          {!follow && !list.complete && <p><button type="button" onClick={list.more}>{list.loading ? "One moment…" : "Load older ones"}</button></p>}
        </>
      )}
      {record !== "" && <Record record={record} rows={rows} onClose={() => setQuery({ record: "" })} />}
    </>
  );
}

/** Announces how many new records have come. */
function useNews(on: boolean, rows: Entry[]): void {
  const before = useRef<string>(undefined);
  const first = rows[0] && recordOf(rows[0]);
  useEffect(() => {
    if (on && before.current !== undefined && first !== before.current) {
      const at = rows.findIndex((e) => recordOf(e) === before.current);
      announce(many(at < 0 ? rows.length : at, "new record"));
    }
    before.current = on ? (first ?? "") : undefined;
  }, [on, first]);
}

/** The details of a record, which is in the list or which only the address names. */
function Record({ record, rows, onClose }: { record: string; rows: Entry[]; onClose: () => void }) {
  const listed = rows.find((e) => recordOf(e) === record);
  const time = new Date(record.split(" ")[0]!);
  const known = !Number.isNaN(time.getTime());
  const asked = useResource("AuditLogsService_list", listed || !known ? null : {
    path: { accountName: account() }, query: { limit: 100, startDate: time.toISOString(), endDate: new Date(time.getTime() + 1).toISOString() },
  });
  const found = listed ?? (asked.now.at === "ready" ? asked.now.data.data.find((e) => recordOf(e) === record) : undefined);
  return (
    <Dialog title={found ? visible(found.action) : "A record"} wide onClose={onClose}>
      {found ? <RecordDetails entry={found} onClose={onClose} /> : !known ? <p>The address names no record.</p> : (
        <Show resource={asked} what="Fetching the record">{() => <p>There is no such record any more, or it is of another account.</p>}</Show>
      )}
    </Dialog>
  );
}

function RecordDetails({ entry, onClose }: { entry: Entry; onClose: () => void }) {
  const { actor, context, route } = entry;
  return (
    <>
      <Details
        entries={[
          ["Outcome", <Outcome success={entry.success} />],
          ["When", <Time value={entry.timestamp} absolute />],
          ["Who", <><Who entry={entry} /> <span class="faint">({actor.type})</span></>],
          ["For", actor.actingAs && <Text value={actor.actingAs.email ?? actor.actingAs.sub} />],
          ["What", entry.resources && entry.resources.length > 0 && <Text value={what(entry)} />],
          ["What the caller was told", entry.error && <Text value={entry.error} lines />],
          ["From", context.ipAddress && <code><Text value={context.ipAddress} /></code>],
          ["With", context.userAgent && <Text value={context.userAgent} />],
          ["Request", <code><Text value={[route.method, route.url].filter((x) => x !== null).join(" ")} /></code>],
          ["Asked by", route.source && <Text value={route.source} />],
          ["Request’s id", <code><Text value={entry.requestId} /></code>],
        ]}
      />
      <div class="section"><Source text={JSON.stringify(entry, null, 2)} language="json" label="The record" /></div>
      <div class="buttons">
        <button type="button" onClick={() => setQuery({ record: "", actor: actor.email ?? actor.sub })}>Only of who asked this</button>
        <button type="button" onClick={() => setQuery({ record: "", action: entry.action })}>Only this action</button>
        <button type="button" onClick={onClose}>Close</button>
      </div>
    </>
  );
}
