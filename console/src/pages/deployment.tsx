import { useEffect, useRef, useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useResource } from "../api/resource";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link } from "../router";
import { Confirm, ConfirmDelete } from "../ui/confirm";
import { Cli } from "../ui/copy";
import { Address, DeploymentHead, KindBadge, StateBadge, useDeployment, type Deployment } from "../ui/deploymenthead";
import { announce, notify } from "../ui/live";
import { PageLink, Section } from "../ui/page";
import { Empty, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, Details, many, Time } from "../ui/value";

type Build = RowOf<"DeploymentsService_history">;

/** How often the deployment and its builds are read, in milliseconds: while it is being built, and otherwise. */
const [soon, later] = [2_000, 10_000];

const tones = { live: "good", previous: "plain", gone: "warn" } as const;

/** A deployment: its present build, the earlier builds that can be served again, and the forms that end it. */
export default function DeploymentPage({ params }: PageProps) {
  const name = params["deployment"]!;
  const path = { deploymentName: name };
  const [every, setEvery] = useState(later);
  const deployment = useDeployment(name, every);
  const data = deployment.now.at === "ready" ? deployment.now.data : undefined;
  const history = useResource("DeploymentsService_history", data && may("DeploymentsService_history") ? { path } : null, { every });
  const builds = history.now.at === "ready" ? history.now.data.data : [];
  const previous = builds.find((b) => b.state === "previous");
  const [asked, setAsked] = useState<{ what: "redeploy" | "delete" } | { what: "rollback"; to: Build }>();
  useEffect(() => setEvery(data?.state === "BUILDING" ? soon : later), [data?.state]);
  useStateSaid(data);
  const close = () => setAsked(undefined);
  return (
    <>
      <DeploymentHead
        name={name} at="/deployments/:deployment" title={name} deployment={data} cli="gatewright deployment history :deployment"
        actions={data && (
          <>
            {may("DeployService_redeploy") && <button type="button" onClick={() => setAsked({ what: "redeploy" })}>Deploy again</button>}
            {may("DeploymentsService_rollback") && previous && <button type="button" onClick={() => setAsked({ what: "rollback", to: previous })}>Roll back</button>}
            {may("DeploymentsService_delete") && <button type="button" class="danger" onClick={() => setAsked({ what: "delete" })}>Delete</button>}
          </>
        )}
      />
      <Show resource={deployment} what="Loading the deployment">
        {(d) => (
          <>
            <Details
              entries={[
                ["State", <StateBadge state={d.state} />],
                ["Address", <Address url={d.url} />],
                ["Project", <PageLink to="/projects/:project" params={{ project: d.projectName }}><Text value={d.projectName} /></PageLink>],
                ["Branch", <Text value={d.branchName} />],
                ["Kind", <KindBadge kind={d.environmentType} />],
                ["Variables", may("VariablesService_list") && <PageLink to="/projects/:project/branches/:branch/variables" params={{ project: d.projectName, branch: d.branchName }}>Variables of the branch</PageLink>],
                ["Its logs are found under", <code><Text value={d.loggingId} /></code>],
                ["Created", <Time value={d.createdOn} absolute />],
                ["Changed", <Time value={d.updatedOn} absolute />],
              ]}
            />
            {d.state === "BUILDING" && <p class="loading" role="status"><span class="spinner" aria-hidden="true" /> Its first build is under way…</p>}
            {d.state === "FAILED" && (
              <p class="below">Its first build has failed, and nothing is served. <code>gatewright deploy</code> tells what is wrong{may("DeploymentsService_list") && <>; a build is shown by its id <a href={link("/projects/:project/deployments", { project: d.projectName })}>among the project’s deployments</a></>}.</p>
            )}
            {may("DeploymentsService_history") && (
              <Section title="Builds that were served">
                <Show resource={history} what="Loading the history">
                  {(h) => <History builds={h.data} project={d.projectName} onRollback={may("DeploymentsService_rollback") ? (to) => setAsked({ what: "rollback", to }) : undefined} />}
                </Show>
              </Section>
            )}
            <Section title="Upload">
              <p>Sources are uploaded from the project’s folder. What is served stays until their build has succeeded.</p>
              <Cli line="gatewright deploy --project :project --branch :branch" values={{ project: d.projectName, branch: d.branchName }} />
            </Section>
            {asked?.what === "redeploy" && <Redeploy deployment={d} onClose={close} />}
            {asked?.what === "rollback" && <Rollback deployment={d} to={asked.to} onClose={close} onDone={() => { deployment.reload(); history.reload(); }} />}
            {asked?.what === "delete" && <Delete deployment={d} builds={builds.filter((b) => b.state !== "gone").length} onClose={close} />}
          </>
        )}
      </Show>
    </>
  );
}

/** Announces a new state of the deployment. */
function useStateSaid(data: Deployment | undefined): void {
  const before = useRef<string>(undefined);
  useEffect(() => {
    if (!data) return;
    if (before.current !== undefined && before.current !== data.state) announce(`The deployment is ${data.state.toLowerCase()}.`);
    before.current = data.state;
  }, [data?.state]);
}

function History({ builds, project, onRollback }: { builds: Build[]; project: string; onRollback: ((to: Build) => void) | undefined }) {
  if (builds.length === 0) return <Empty title="Nothing was served yet"><p>A build that succeeds is.</p></Empty>;
  return (
    <Table<Build>
      caption="Builds that were served" rows={builds} rowKey={(b) => b.buildId}
      columns={[
        { title: "Build", cell: (b) => <PageLink to="/projects/:project/builds/:build" params={{ project, build: b.buildId }}><code class="nowrap">{b.buildId.slice(0, 8)}</code></PageLink> },
        { title: "Commit", cell: (b) => (b.sha ? <code><Text value={b.sha} clamp /></code> : <span class="faint">not told</span>) },
        { title: "State", cell: (b) => <Badge tone={tones[b.state]}>{b.state}</Badge> },
        { title: "First served", minor: true, cell: (b) => <Time value={b.createdOn} /> },
      ]}
      {...(onRollback ? { actions: (b: Build) => b.state === "previous" && <button type="button" class="quiet" aria-label={`Roll back to ${nameOf(b)}`} onClick={() => onRollback(b)}>Roll back</button> } : {})}
    />
  );
}

/** Returns the name of a build for a question. */
function nameOf(b: Build): string {
  return b.sha ? `the build ${b.buildId.slice(0, 8)} of ${visible(b.sha.slice(0, 40))}` : `the build ${b.buildId.slice(0, 8)}`;
}

function Redeploy({ deployment, onClose }: { deployment: Deployment; onClose: () => void }) {
  const change = useChange("DeployService_redeploy");
  return (
    <Confirm
      title={`Deploy ${visible(deployment.name)} again?`} submit="Deploy again" busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright deployment redeploy :deployment" values={{ deployment: deployment.name }}
      onConfirm={async () => {
        const begun = await change.run({ path: { deploymentName: deployment.name } });
        if (!begun) return;
        notify("The build is begun.");
        if (change.here()) go(link("/projects/:project/builds/:build", { project: deployment.projectName, build: begun.data.deploymentId }, { deployment: deployment.name }), true);
      }}
    >
      <p>What is served is built once more, with the branch’s variables as they are now. It is still served until that has succeeded.</p>
    </Confirm>
  );
}

function Rollback({ deployment, to, onClose, onDone }: { deployment: Deployment; to: Build; onClose: () => void; onDone: () => void }) {
  const change = useChange("DeploymentsService_rollback");
  return (
    <Confirm
      title={`Roll back to ${nameOf(to)}?`} submit="Roll back" busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright deployment rollback :deployment --to :build" values={{ deployment: deployment.name, build: to.buildId }}
      onConfirm={async () => {
        if (!(await change.run({ path: { deploymentName: deployment.name }, body: { to: to.buildId } }))) return;
        notify(`${visible(deployment.name)} serves ${nameOf(to)} within seconds.`);
        onDone();
        if (change.here()) onClose();
      }}
    >
      <p>Gateways serve it within seconds, without a build, with the variables of then: it was first served <Time value={to.createdOn} />. Builds that are under way now are not served when they end. You can return to what is live now in the same way.</p>
    </Confirm>
  );
}

function Delete({ deployment, builds, onClose }: { deployment: Deployment; builds: number; onClose: () => void }) {
  const change = useChange("DeploymentsService_delete");
  const routes = useResource("DeploymentsService_routes", may("DeploymentsService_routes") ? { path: { deploymentName: deployment.name }, query: { limit: 1 } } : null);
  const domains = useRows("CustomDomainsService_list", may("CustomDomainsService_list") ? { path: { accountName: account() } } : null);
  const leading = domains.rows.filter((d) => d.deployments.some((to) => to.deploymentName === deployment.name));
  const counts = [...(builds > 0 ? [many(builds, "build")] : []), ...(routes.now.at === "ready" && routes.now.data.total > 0 ? [many(routes.now.data.total, "route")] : [])];
  return (
    <ConfirmDelete
      noun="deployment" name={deployment.name} busy={change.busy} problem={change.problem} onClose={onClose} cli="gatewright deployment delete :deployment" values={{ deployment: deployment.name }}
      onConfirm={async () => {
        if (!(await change.run({ path: { deploymentName: deployment.name } }))) return;
        notify(`The deployment ${visible(deployment.name)} is deleted.`);
        if (change.here()) go(may("DeploymentsService_list") ? link("/projects/:project/deployments", { project: deployment.projectName }) : link("/"), true);
      }}
    >
      {leading.length > 0 && (
        <div class="problem compact"><p>{many(leading.length, "domain leads", "domains lead")} to it, and {leading.length === 1 ? "has" : "have"} to go first: {leading.slice(0, 5).map((d, i) => <>{i > 0 && ", "}<Text value={d.hostname} /></>)}{leading.length > 5 && " and others"}.</p></div>
      )}
      <p>
        Gateways stop serving it within seconds. {counts.length > 0 && <>With it go <strong>{counts.join(" and ")}</strong>. </>}
        The branch’s variables and the project’s key buckets stay. A later upload of the branch makes another deployment, of another name.
      </p>
    </ConfirmDelete>
  );
}
