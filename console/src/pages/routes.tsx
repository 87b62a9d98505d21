import { useEffect, useMemo } from "preact/hooks";
import { useRows, type RowOf } from "../api/rows";
import { may } from "../api/session";
import type { PageProps } from "../registry";
import { link, setQuery, useQuery } from "../router";
import { DeploymentHead, useDeployment } from "../ui/deploymenthead";
import { Dialog } from "../ui/dialog";
import { SelectField } from "../ui/form";
import { Search } from "../ui/search";
import { Empty, Loading, ProblemPanel } from "../ui/states";
import { Text, visible } from "../ui/text";
import { Badge, Details, many } from "../ui/value";
import { VirtualTable } from "../ui/virtual";

type Route = RowOf<"DeploymentsService_routes">;

/** Returns the name of a route in the address. A method and a path identify a route. */
const nameOf = (r: Route) => `${r.method} ${r.path}`;

/** The routes of a deployment, each with its policies in their order. All routes are loaded, but only the visible ones are rendered. */
export default function Routes({ params }: PageProps) {
  const name = params["deployment"]!;
  const query = useQuery();
  const deployment = useDeployment(name);
  const list = useRows("DeploymentsService_routes", { path: { deploymentName: name } });
  const { more, loading, complete, problem, rows } = list;
  // The filters search all routes, so load all of them.
  useEffect(() => {
    if (!loading && !complete && !problem) more();
  }, [more, loading, complete, problem]);
  const want = (query.get("find") ?? "").toLowerCase();
  const method = query.get("method") ?? "";
  const policy = query.get("policy") ?? "";
  const methods = useMemo(() => [...new Set(rows.map((r) => r.method))].sort(), [rows]);
  const policies = useMemo(() => [...new Set(rows.flatMap((r) => r.policies.map((p) => p.name)))].sort(), [rows]);
  const found = useMemo(() => rows.filter((r) => r.path.toLowerCase().includes(want) && (method === "" || r.method === method) && (policy === "" || r.policies.some((p) => p.name === policy))), [rows, want, method, policy]);
  const chosen = query.get("route") ?? "";
  const shown = chosen === "" ? undefined : rows.find((r) => nameOf(r) === chosen);
  const address = (r: Route) => link("/deployments/:deployment/routes", { deployment: name }, { ...Object.fromEntries(query), route: nameOf(r) });
  return (
    <>
      <DeploymentHead name={name} at="/deployments/:deployment/routes" title={`Routes of ${name}`} deployment={deployment.now.at === "ready" ? deployment.now.data : undefined} cli="gatewright deployment routes :deployment">
        What is served, in the order of the project’s files, paths and methods.
      </DeploymentHead>
      {problem && <ProblemPanel problem={problem} onRetry={rows.length > 0 ? more : list.reload} />}
      {!complete && !problem && <Loading what={rows.length === 0 ? "Loading routes" : `Loading routes: ${rows.length} of ${list.total ?? "more"}`} />}
      {complete && rows.length === 0 && <Empty title="No route is served yet"><p>There are routes as soon as a build has succeeded.</p></Empty>}
      {rows.length > 0 && (
        <>
          <div class="filter-row">
            <Search label="Filter by path" count={found.length} noun="route" />
            <SelectField label="Method" name="method" required value={method} options={choices(methods, method)} onInput={(v) => setQuery({ method: v })} />
            {(policies.length > 0 || policy !== "") && <SelectField label="Policy" name="policy" required value={policy} options={choices(policies, policy)} onInput={(v) => setQuery({ policy: v })} />}
          </div>
          {found.length === 0 ? <Empty title="None of these"><p><button type="button" onClick={() => setQuery({ find: "", method: "", policy: "" })}>Show all</button></p></Empty> : (
            <div class="first-wide">
              <VirtualTable<Route>
                caption="Routes" rows={found} rowKey={nameOf} onOpen={(r) => setQuery({ route: nameOf(r) }, false)}
                columns={[
                  { title: "Path", cell: (r) => <a tabIndex={-1} href={address(r)}><Text value={r.path} /></a> },
                  { title: "Method", cell: (r) => <code>{r.method}</code> },
                  { title: "Policies", cell: (r) => (r.policies.length === 0 ? <span class="faint">none</span> : <Text value={r.policies.map((p) => p.name).join(", ")} />) },
                  { title: "Handler", minor: true, cell: (r) => <Text value={r.handler} /> },
                  { title: "Operation", minor: true, cell: (r) => (r.operationId ? <Text value={r.operationId} /> : <span class="faint">none</span>) },
                ]}
              />
            </div>
          )}
        </>
      )}
      {shown && <OneRoute route={shown} deployment={name} onClose={() => setQuery({ route: "" })} />}
      {chosen !== "" && complete && !shown && (
        <Dialog title="No such route" onClose={() => setQuery({ route: "" })}><p>The deployment serves no route <code><Text value={chosen} /></code> now.</p></Dialog>
      )}
    </>
  );
}

/** Returns the choices of a filter: the existing values, and the value in the address even if no route has it. */
function choices(there: string[], chosen: string): [string, string][] {
  return [["", "All"], ...[...new Set([...there, ...(chosen === "" ? [] : [chosen])])].map((v): [string, string] => [v, visible(v)])];
}

function OneRoute({ route, deployment, onClose }: { route: Route; deployment: string; onClose: () => void }) {
  const inbound = route.policies.filter((p) => p.direction === "inbound");
  const outbound = route.policies.filter((p) => p.direction === "outbound");
  return (
    <Dialog title={`${route.method} ${visible(route.path)}`} onClose={onClose} wide>
      <Details
        entries={[
          ["Operation", route.operationId && <code><Text value={route.operationId} /></code>],
          ["Its path is matched", route.pathMode === "url-pattern" ? "as a URL pattern" : "as OpenAPI’s template"],
          ["CORS policy", <Text value={route.corsPolicy} />],
          ["GraphQL", route.graphql ? "yes" : "no"],
          ["Declared in", <code><Text value={route.file} /></code>],
          ["At", <code><Text value={route.pointer} /></code>],
        ]}
      />
      <h3 class="pipeline-title">What a request passes</h3>
      <ol class="pipeline">
        {inbound.map((p, i) => <li key={`i${i}`}><Badge>inbound</Badge> <strong><Text value={p.name} /></strong> <code class="faint"><Text value={p.policyType} /></code></li>)}
        <li><Badge tone="accent">handler</Badge> <strong><Text value={route.handler} /></strong></li>
        {outbound.map((p, i) => <li key={`o${i}`}><Badge>outbound</Badge> <strong><Text value={p.name} /></strong> <code class="faint"><Text value={p.policyType} /></code></li>)}
      </ol>
      {route.policies.length === 0 && <p class="faint">It has no policy: every request comes to the handler.</p>}
      <p class="buttons">
        {may("AnalyticsService_recentCalls") && <a href={link("/deployments/:deployment/traffic", { deployment }, { find: route.path })}>Its calls</a>}
        <span class="faint">{many(inbound.length, "policy", "policies")} before the handler, {outbound.length} behind it.</span>
      </p>
    </Dialog>
  );
}
