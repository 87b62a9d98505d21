import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useResource } from "../api/resource";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { ConfirmDelete } from "../ui/confirm";
import { Dialog } from "../ui/dialog";
import { Form, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { PageHead, PageLink, Section } from "../ui/page";
import { Empty, Loading, ProblemPanel, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, Details, many, Time } from "../ui/value";

type Environment = RowOf<"EnvironmentsService_list">;

/** A project: its environments, and the forms that create one and delete the project. */
export default function ProjectPage({ params }: PageProps) {
  const name = params["project"]!;
  const query = useQuery();
  const operation = query.get("deletion");
  return operation ? <Deletion project={name} operation={operation} /> : <There name={name} />;
}

function There({ name }: { name: string }) {
  const query = useQuery();
  const path = { accountName: account(), projectName: name };
  const project = useResource("ProjectsService_read", { path });
  const seesEnvironments = may("EnvironmentsService_list");
  const environments = useRows("EnvironmentsService_list", seesEnvironments ? { query: { accountName: account(), projectName: name } } : null);
  const [deleting, setDeleting] = useState(false);
  const ready = project.now.at === "ready";
  return (
    <>
      <PageHead
        title={name} crumbs={[{ label: "Projects", href: link("/projects") }]} cli="gatewright project get :project" values={{ project: name }}
        actions={ready && may("ProjectsService_delete") && <button type="button" class="danger" onClick={() => setDeleting(true)}>Delete</button>}
      />
      <Show resource={project} what="Loading the project">
        {(data) => (
          <>
            <Details
              entries={[
                ["Id", <code>{data.id}</code>],
                ["Its gateway is run", <Text value={data.type} />],
                ...(may("MtlsCertificatesService_list") ? [["For upstreams that demand one", <PageLink to="/projects/:project/certificates" params={{ project: name }}>mTLS certificates</PageLink>] as [string, ComponentChildren]] : []),
                ["Created", <Time value={data.createdOn} absolute />],
                ["Changed", <Time value={data.updatedOn} absolute />],
              ]}
            />
            {may("DeploymentsService_list") && <p class="below"><a href={link("/projects/:project/deployments", { project: name })}>Deployments</a> <span class="faint">are what is served of its branches.</span></p>}
            {seesEnvironments && (
              <Section
                title="Environments"
                actions={may("EnvironmentsService_create") && <button type="button" data-create onClick={() => setQuery({ create: "yes" }, false)}>Create an environment</button>}
              >
                {environments.problem && <ProblemPanel problem={environments.problem} onRetry={environments.reload} />}
                {environments.loading && environments.rows.length === 0 && <Loading what="Loading environments" />}
                {environments.complete && environments.rows.length === 0 && <Empty title="No environment yet"><p>A branch has one from its first upload on: <code>gatewright deploy</code>. Or give it one here, to set its variables before.</p></Empty>}
                {environments.rows.length > 0 && (
                  <Table<Environment>
                    caption="Environments" rows={environments.rows} rowKey={(e) => e.name}
                    columns={[
                      { title: "Branch", by: (e) => e.branchName, cell: (e) => <Text value={e.branchName} /> },
                      { title: "Kind", by: (e) => e.environmentType, cell: (e) => <Badge tone={e.environmentType === "production" ? "accent" : "plain"}>{e.environmentType}</Badge> },
                      { title: "Deployment", minor: true, cell: (e) => <PageLink to="/deployments/:deployment" params={{ deployment: e.name }}><Text value={e.name} /></PageLink> },
                      { title: "Created", minor: true, by: (e) => e.createdOn, cell: (e) => <Time value={e.createdOn} /> },
                    ]}
                    actions={(e) => <PageLink to="/projects/:project/branches/:branch/variables" params={{ project: name, branch: e.branchName }}>Variables<span class="visually-hidden"> of {visible(e.branchName)}</span></PageLink>}
                  />
                )}
              </Section>
            )}
            {may("VariablesService_list") && <OtherBranch project={name} />}
            {deleting && <Delete name={name} environments={environments.total} onClose={() => setDeleting(false)} />}
          </>
        )}
      </Show>
      {query.get("create") === "yes" && may("EnvironmentsService_create") && (
        <Create project={name} onClose={() => setQuery({ create: "" })} onMade={environments.reload} />
      )}
    </>
  );
}

/** Opens the variables of a branch that has no environment yet. */
function OtherBranch({ project }: { project: string }) {
  const [branch, setBranch] = useState("");
  const [fault, setFault] = useState(false);
  return (
    <Section title="Variables of a branch without an environment">
      <form
        class="inline" noValidate
        onSubmit={(event) => {
          event.preventDefault();
          setFault(branch.trim() === "");
          if (branch.trim() !== "") go(link("/projects/:project/branches/:branch/variables", { project, branch: branch.trim() }));
        }}
      >
        <TextField label="Branch" name="branch" required mono value={branch} onInput={setBranch} fault={fault && branch.trim() === "" ? "Type the name of a branch." : undefined} />
        <button type="submit">Open</button>
      </form>
    </Section>
  );
}

/** The branches with production environments. All other branches have preview environments. */
const production = ["main", "master", "production"];

function Create({ project, onClose, onMade }: { project: string; onClose: () => void; onMade: () => void }) {
  const change = useChange("EnvironmentsService_create");
  const [branch, setBranch] = useState("");
  const kind = production.includes(branch) ? "production" : "preview";
  return (
    <Dialog title="Create an environment" onClose={onClose}>
      <Form
        submit="Create" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={branch !== ""}
        onSubmit={async () => {
          const made = await change.run({ body: { accountName: account(), projectName: project, branchName: branch, environmentType: kind } });
          if (!made) return;
          notify(`The branch ${visible(branch)} has the environment ${visible(made.data.name)}.`);
          onMade();
          if (change.here()) onClose();
        }}
      >
        <TextField label="Branch" name="branchName" required mono value={branch} onInput={setBranch} hint={<><code>main</code>, <code>master</code> and <code>production</code> are production; others are previews.</>} />
        <p>Its kind is <strong>{kind}</strong>.</p>
      </Form>
    </Dialog>
  );
}

function Delete({ name, environments, onClose }: { name: string; environments: number | undefined; onClose: () => void }) {
  const change = useChange("ProjectsService_delete");
  const path = { accountName: account(), projectName: name };
  const deployments = useResource("DeploymentsService_list", may("DeploymentsService_list") ? { path, query: { limit: 1 } } : null);
  const counts = [
    ...(environments === undefined ? [] : [many(environments, "environment")]),
    ...(deployments.now.at === "ready" ? [many(deployments.now.data.total, "deployment")] : []),
  ];
  return (
    <ConfirmDelete
      noun="project" name={name} busy={change.busy} problem={change.problem} onClose={onClose} cli="gatewright project delete :project" values={{ project: name }}
      onConfirm={async () => {
        const begun = await change.run({ path });
        if (!begun) return;
        if (!change.here()) return notify(`The deletion of the project ${visible(name)} is begun.`);
        // Without the ID of the deletion, only the list shows whether the project still exists.
        if (!begun.data) return go(link("/projects"), true);
        go(link("/projects/:project", { project: name }, { deletion: begun.data.id }), true);
      }}
    >
      <p>
        {counts.length > 0 && <>With it go <strong>{counts.join(" and ")}</strong>. </>}
        Its deployments are stopped at once, and its variables and own key buckets, with their consumers and keys, are removed. It does not come back.
      </p>
    </ConfirmDelete>
  );
}

/** Shows the progress of a deletion. The address has its ID, so that it is shown again after the page is reloaded. */
function Deletion({ project, operation }: { project: string; operation: string }) {
  const [ended, setEnded] = useState(false);
  const status = useResource("ProjectsService_operation", { path: { accountName: account(), projectName: project, operationId: operation } }, { every: ended ? 0 : 2_000 });
  const state = status.now.at === "ready" ? status.now.data.status : "in-progress";
  useEffect(() => {
    setEnded(state !== "in-progress");
    if (state === "success") {
      notify(`The project ${visible(project)} is deleted.`);
      go(link("/projects"));
    }
  }, [state, project]);
  return (
    <>
      <PageHead title={project} crumbs={[{ label: "Projects", href: link("/projects") }]} />
      <Show resource={status} what="Following the deletion">
        {(data) => (
          <>
            {data.status === "in-progress" && <Loading what="The project is being deleted" />}
            {data.status === "error" && <div class="problem" role="alert"><p class="problem-title">The deletion has failed</p><p><Text value={data.message} /></p></div>}
          </>
        )}
      </Show>
      <p class="faint">The operation <code>{operation}</code> goes on by itself: you may leave this page.</p>
    </>
  );
}
