import { useMemo } from "preact/hooks";
import type { Result } from "../api/client";
import { useResource } from "../api/resource";
import { may } from "../api/session";
import type { PageProps } from "../registry";
import { setQuery, useQuery } from "../router";
import { Chart, type Series } from "../ui/chart";
import { Cli } from "../ui/copy";
import { DeploymentHead, useDeployment } from "../ui/deploymenthead";
import { SelectField } from "../ui/form";
import { PageLink, Section } from "../ui/page";
import { Search } from "../ui/search";
import { Empty, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text } from "../ui/text";
import { Count, Details, many } from "../ui/value";

type Statuses = Result<"AnalyticsService_statsByStatusCode">["data"];
type Operations = Result<"AnalyticsService_graphqlOperations">["data"];

/** How often the numbers are read, in milliseconds. */
const every = 15_000;

/** The time ranges: back is the length of a range, and step is the time between two points, in seconds (docs/analytics.md). */
const ranges = {
  "last-hour": { label: "The last hour", back: 3_600, step: 300 },
  "last-24-hours": { label: "The last 24 hours", back: 86_400, step: 3_600 },
  "last-7-days": { label: "The last 7 days", back: 7 * 86_400, step: 86_400 },
  "last-30-days": { label: "The last 30 days", back: 30 * 86_400, step: 86_400 },
  "last-3-months": { label: "The last 3 months", back: 92 * 86_400, step: 7 * 86_400 },
} as const;
type Range = keyof typeof ranges;

const preset: Range = "last-24-hours";
/** Weeks begin this many seconds after a multiple of a week, because 1970-01-05 was a Monday. */
const monday = 4 * 86_400;

/** The calls of a deployment: by status over time, by consumer, and by GraphQL operation. */
export default function Charts({ params }: PageProps) {
  const name = params["deployment"]!;
  const query = useQuery();
  const asked = query.get("range") ?? "";
  const range: Range = asked in ranges ? (asked as Range) : preset;
  const consumer = query.get("consumer") ?? "";
  const deployment = useDeployment(name);
  const stats = useResource("AnalyticsService_statsByStatusCode", { path: { deploymentName: name }, query: { consumers: [consumer === "" ? "*" : consumer], filter: range } }, { every });
  const graphql = useResource("AnalyticsService_graphqlOperations", may("AnalyticsService_graphqlOperations") ? { path: { deploymentName: name }, query: { filter: range } } : null, { every });
  return (
    <>
      <DeploymentHead
        name={name} at="/deployments/:deployment/charts" title={`Charts of ${name}`} deployment={deployment.now.at === "ready" ? deployment.now.data : undefined}
        cli={consumer === "" ? "gatewright analytics status-codes :deployment --since :since" : "gatewright analytics status-codes :deployment --since :since --consumer :consumer"} values={{ since: range, consumer }}
      />
      <div class="filter-row">
        <SelectField label="How far back" name="range" required value={range} options={Object.entries(ranges).map(([value, { label }]) => [value, label] as const)} onInput={(v) => setQuery({ range: v })} />
        <Search label="Consumer, by the whole name" name="consumer" noun="consumer" />
      </div>
      <Show resource={stats} what="Loading the numbers">{({ data }) => <ByStatus data={data} range={range} deployment={name} />}</Show>
      {may("AnalyticsService_graphqlOperations") && (
        <Section title="GraphQL operations">
          <Show resource={graphql} what="Loading the operations">{({ data }) => <GraphQL data={data} />}</Show>
          <Cli line="gatewright analytics graphql :deployment --since :since" values={{ deployment: name, since: range }} />
        </Section>
      )}
    </>
  );
}

/** The lines of the chart. "other" counts the calls without an HTTP status from 200 to 599. */
const lines = [
  { label: "2xx", tone: "--chart-4" }, { label: "3xx", tone: "--chart-1" }, { label: "4xx", tone: "--chart-2" }, { label: "5xx", tone: "--chart-5" }, { label: "other", tone: "--chart-3" },
];

function lineOf(status: string): string {
  return /^[2-5]\d\d$/.test(status) ? `${status[0]}xx` : "other";
}

/** Returns the points of a chart: each step of the range, even without calls, and each time in the data. */
export function points(data: Statuses["details"], range: Range, now: number): { times: number[]; series: Series[] } {
  const { back, step } = ranges[range];
  const shift = range === "last-3-months" ? monday : 0;
  const begin = (time: number) => Math.floor((time - shift) / step) * step + shift;
  const sums = new Map<number, Map<string, number>>();
  for (let time = begin(now - back); time <= now; time += step) sums.set(time, new Map());
  for (const d of data) {
    const time = Math.floor(Date.parse(d.timeStamp) / 1000);
    const at = sums.get(time) ?? new Map<string, number>();
    for (const { statusCode, totalCalls } of d.callsByStatusCode) at.set(lineOf(statusCode), (at.get(lineOf(statusCode)) ?? 0) + totalCalls);
    sums.set(time, at);
  }
  const times = [...sums.keys()].sort((a, b) => a - b);
  const present = lines.filter(({ label }) => label === "2xx" || times.some((t) => sums.get(t)!.has(label)));
  return { times, series: present.map((line) => ({ ...line, values: times.map((t) => sums.get(t)!.get(line.label) ?? 0) })) };
}

function ByStatus({ data, range, deployment }: { data: Statuses; range: Range; deployment: string }) {
  const { times, series } = useMemo(() => points(data.details, range, Date.now() / 1000), [data, range]);
  const total = data.stats.reduce((sum, s) => sum + s.totalCalls, 0);
  const statuses = [...new Set(data.stats.flatMap((s) => s.callsByStatusCode.map((c) => c.statusCode)))].sort();
  if (total === 0) return <Empty title="No calls"><p>Nobody has called it in that time.</p></Empty>;
  return (
    <>
      <Chart title={`Calls by status: ${many(total, "call")}`} times={times} series={series} unit="calls" />
      <Section title="By consumer">
        <Table<Statuses["stats"][number]>
          caption="Calls by consumer" rows={data.stats.slice(0, shownConsumers)} rowKey={(s) => s.consumer}
          columns={[
            { title: "Consumer", by: (s) => s.consumer, cell: (s) => (s.consumer === "" ? <span class="faint">without one</span> : <PageLink to="/deployments/:deployment/traffic" params={{ deployment }} query={{ consumer: s.consumer }}><Text value={s.consumer} /></PageLink>) },
            { title: "Calls", numeric: true, by: (s) => s.totalCalls, cell: (s) => <Count value={s.totalCalls} /> },
            ...statuses.map((code) => ({
              title: code, numeric: true, minor: true, by: (s: Statuses["stats"][number]) => calls(s, code), cell: (s: Statuses["stats"][number]) => (calls(s, code) === 0 ? <span class="faint">–</span> : <Count value={calls(s, code)} />),
            })),
          ]}
        />
        {data.stats.length > shownConsumers && <p class="faint">The first {shownConsumers} of {many(data.stats.length, "consumer")}: filter for another one by its name.</p>}
      </Section>
    </>
  );
}

/** The maximum number of consumers in the table, which has those with the most calls. */
const shownConsumers = 100;

function calls(s: Statuses["stats"][number], code: string): number {
  return s.callsByStatusCode.find((c) => c.statusCode === code)?.totalCalls ?? 0;
}

const percent = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 2 });
const milliseconds = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1, style: "unit", unit: "millisecond" });

function GraphQL({ data }: { data: Operations }) {
  const { totals, operations } = data;
  if (totals.operations === 0) return <Empty title="No GraphQL operation"><p>Routes with the policy <code>graphql-analytics-outbound</code> are measured; none of them was called in that time.</p></Empty>;
  const { errorClasses: classes } = totals;
  type Operation = Operations["operations"][number];
  return (
    <>
      <Details
        entries={[
          ["Operations", <Count value={totals.operations} />],
          ["Well", percent.format(totals.successRate)],
          ["Failed", <Count value={totals.errors} />],
          ["Why they failed", totals.errors === 0 ? "" : `syntax ${classes.syntax}, validation ${classes.validation}, auth ${classes.auth}, timeout ${classes.timeout}, resolver ${classes.resolver}`],
          ["Latency: p50, p95, p99", `${milliseconds.format(totals.p50Ms)}, ${milliseconds.format(totals.p95Ms)}, ${milliseconds.format(totals.p99Ms)}`],
          ["Of that the upstream: p50, p95, p99", `${milliseconds.format(totals.resolverP50Ms)}, ${milliseconds.format(totals.resolverP95Ms)}, ${milliseconds.format(totals.resolverP99Ms)}`],
        ]}
      />
      <div class="below">
        <Table<Operation>
          caption="GraphQL operations" rows={operations} rowKey={(o) => `${o.type} ${o.operation}`}
          columns={[
            { title: "Operation", by: (o) => o.operation, cell: (o) => <Text value={o.operation} clamp /> },
            { title: "Type", minor: true, by: (o) => o.type, cell: (o) => (o.type === "" ? <span class="faint">none</span> : o.type) },
            { title: "Count", numeric: true, by: (o) => o.operations, cell: (o) => <Count value={o.operations} /> },
            { title: "Failed", numeric: true, by: (o) => o.errorRate, cell: (o) => (o.errors === 0 ? <span class="faint">–</span> : percent.format(o.errorRate)) },
            { title: "p50", numeric: true, minor: true, by: (o) => o.p50Ms, cell: (o) => milliseconds.format(o.p50Ms) },
            { title: "p95", numeric: true, by: (o) => o.p95Ms, cell: (o) => milliseconds.format(o.p95Ms) },
            { title: "p99", numeric: true, minor: true, by: (o) => o.p99Ms, cell: (o) => milliseconds.format(o.p99Ms) },
            { title: "Complexity, most", numeric: true, minor: true, by: (o) => o.complexity.max, cell: (o) => <Count value={o.complexity.max} /> },
          ]}
        />
      </div>
    </>
  );
}
