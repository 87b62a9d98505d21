import { useEffect, useRef, useState } from "preact/hooks";
import { useResource } from "../api/resource";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { Cli } from "../ui/copy";
import { Address, KindBadge, StateBadge, type Deployment } from "../ui/deploymenthead";
import { SelectField, TextField } from "../ui/form";
import { announce } from "../ui/live";
import { PageHead, PageLink, Section } from "../ui/page";
import { Search } from "../ui/search";
import { Empty, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { many, Time } from "../ui/value";

/** The maximum number of deployments on a page. */
const perPage = 1000;
/** How often the list is read, in milliseconds: while a deployment is being built, and otherwise. */
const [soon, later] = [2_000, 15_000];

const states = [["", "All"], ["started", "Started"], ["building", "Building"], ["failed", "Failed"], ["stopped", "Stopped"]] as const;

/** The deployments of a project, one for each branch. The list is read more often while one is being built. */
export default function Deployments({ params }: PageProps) {
  const project = params["project"]!;
  const query = useQuery();
  const offset = Math.max(0, Number.parseInt(query.get("offset") ?? "", 10) || 0);
  const [building, setBuilding] = useState(false);
  const list = useResource("DeploymentsService_list", { path: { accountName: account(), projectName: project }, query: { limit: perPage, ...(offset > 0 ? { offset } : {}) } }, { every: building ? soon : later });
  const all = list.now.at === "ready" ? list.now.data.data : undefined;
  useEffect(() => setBuilding(all?.some((d) => d.state === "BUILDING") ?? false), [all]);
  useChangesSaid(all);
  return (
    <>
      <PageHead
        title={`Deployments of ${project}`} crumbs={[{ label: "Projects", href: link("/projects") }, { label: project, href: link("/projects/:project", { project }) }]}
        cli="gatewright deployment list --project :project" values={{ project }}
      >A deployment is what the gateway serves for a branch: the newest of its builds that succeeded, or an earlier one after a rollback.</PageHead>
      <Show resource={list} what="Loading deployments">
        {(data) => (data.total === 0 ? (
          <Empty title="No deployment yet">
            <p>A project is uploaded from its folder, which makes the deployment of a branch:</p>
            <Cli line="gatewright deploy --project :project" values={{ project }} />
          </Empty>
        ) : <List data={data.data} total={data.total} offset={offset} />)}
      </Show>
      <OpenBuild project={project} />
    </>
  );
}

function List({ data, total, offset }: { data: Deployment[]; total: number; offset: number }) {
  const query = useQuery();
  const want = (query.get("find") ?? "").toLowerCase();
  const state = query.get("state") ?? "";
  const rows = data.filter((d) => (d.branchName.toLowerCase().includes(want) || d.name.toLowerCase().includes(want)) && (state === "" || d.state.toLowerCase() === state));
  return (
    <>
      <div class="filter-row">
        <Search label="Filter by branch or name" count={rows.length} noun="deployment" />
        <SelectField label="State" name="state" required value={state} options={states} onInput={(v) => setQuery({ state: v })} />
      </div>
      {rows.length === 0
        ? <Empty title="None of these"><p><button type="button" onClick={() => setQuery({ find: "", state: "" })}>Show all</button></p></Empty>
        : (
          <Table<Deployment>
            caption="Deployments" rows={rows} rowKey={(d) => d.name}
            columns={[
              { title: "Branch", by: (d) => d.branchName, cell: (d) => <PageLink to="/deployments/:deployment" params={{ deployment: d.name }}><Text value={d.branchName} clamp /></PageLink> },
              { title: "State", by: (d) => d.state, cell: (d) => <StateBadge state={d.state} /> },
              { title: "Kind", by: (d) => d.environmentType, cell: (d) => <KindBadge kind={d.environmentType} /> },
              { title: "Address", minor: true, by: (d) => d.url, cell: (d) => <Address url={d.url} /> },
              { title: "Changed", minor: true, by: (d) => d.updatedOn, cell: (d) => <Time value={d.updatedOn} /> },
              { title: "Created", minor: true, by: (d) => d.createdOn, cell: (d) => <Time value={d.createdOn} /> },
            ]}
          />
        )}
      {(total > offset + data.length || offset > 0) && (
        <p class="buttons">
          {offset > 0 && <button type="button" onClick={() => setQuery({ offset: String(Math.max(0, offset - perPage)) }, false)}>Before these</button>}
          {total > offset + data.length && <button type="button" onClick={() => setQuery({ offset: String(offset + data.length) }, false)}>After these</button>}
          <span class="faint">From {offset + 1} to {offset + data.length} of {many(total, "deployment")}</span>
        </p>
      )}
    </>
  );
}

/** Announces which deployments have another state than when the list was last read. */
function useChangesSaid(all: Deployment[] | undefined): void {
  const before = useRef(new Map<string, string>());
  useEffect(() => {
    if (!all) return;
    const changed = all.filter((d) => before.current.has(d.name) && before.current.get(d.name) !== d.state);
    before.current = new Map(all.map((d) => [d.name, d.state]));
    if (changed.length > 0) announce(changed.slice(0, 3).map((d) => `${visible(d.branchName)} is ${d.state.toLowerCase()}`).join(", "));
  }, [all]);
}

/** Opens a build by its ID, which the upload has returned: a failed build is in no list. */
function OpenBuild({ project }: { project: string }) {
  const [build, setBuild] = useState("");
  const [fault, setFault] = useState(false);
  const id = build.trim();
  if (!may("V1_deploymentStatus")) return null;
  const known = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id);
  return (
    <Section title="Follow a build">
      <form
        class="inline" noValidate
        onSubmit={(event) => {
          event.preventDefault();
          setFault(!known);
          if (known) go(link("/projects/:project/builds/:build", { project, build: id }));
        }}
      >
        <TextField
          label="Its id" name="build" required mono value={build} onInput={setBuild} fault={fault && !known ? "It is a UUID, such as 3f0c6a52-8f0e-4d0b-9c3e-2f1a7b6c5d4e." : undefined}
          hint={<><code>gatewright deploy --output json</code> has it as <code>statusId</code>, an upload’s answer as <code>deploymentId</code>.</>}
        />
        <button type="submit">Open</button>
      </form>
    </Section>
  );
}
