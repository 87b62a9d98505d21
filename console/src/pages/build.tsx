import { useEffect, useRef, useState } from "preact/hooks";
import type { Result } from "../api/client";
import { useResource } from "../api/resource";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { link, useQuery } from "../router";
import { Address } from "../ui/deploymenthead";
import { Findings } from "../ui/findings";
import { announce } from "../ui/live";
import { PageHead, PageLink, Section } from "../ui/page";
import { Show } from "../ui/states";
import { Text } from "../ui/text";
import { Badge, Details, many, Time } from "../ui/value";

type Status = Result<"V1_deploymentStatus">;

/** How often a running build is read, in milliseconds. */
const followed = 2_000;

const tones = { SUCCESS: "good", ERROR: "bad", IN_PROGRESS: "accent" } as const;
const words = { SUCCESS: "succeeded", ERROR: "failed", IN_PROGRESS: "under way" } as const;

/** A build: its progress, and its errors and warnings in the source. */
export default function BuildPage({ params }: PageProps) {
  const project = params["project"]!;
  const build = params["build"]!;
  const query = useQuery();
  const deployment = query.get("deployment") ?? "";
  const [ended, setEnded] = useState(false);
  const status = useResource("V1_deploymentStatus", { path: { accountName: account(), projectName: project, statusId: build } }, { every: ended ? 0 : followed });
  const data = status.now.at === "ready" ? status.now.data : undefined;
  useEffect(() => setEnded(data !== undefined && data.status !== "IN_PROGRESS"), [data?.status, build]);
  useStatusSaid(data);
  return (
    <>
      <PageHead
        title={`Build ${build.slice(0, 8)}`} cli="gatewright deployment status :build --project :project" values={{ project, build }}
        crumbs={[
          { label: "Projects", href: link("/projects") }, { label: project, href: link("/projects/:project", { project }) },
          { label: "Deployments", href: link("/projects/:project/deployments", { project }) },
          ...(deployment !== "" && may("DeploymentsService_read") ? [{ label: deployment, href: link("/deployments/:deployment", { deployment }) }] : []),
        ]}
      />
      <Show resource={status} what="Loading the build">{(s) => <Told status={s} project={project} build={build} />}</Show>
    </>
  );
}

/** Announces the end of a build that was running when the page was opened or later. */
function useStatusSaid(data: Status | undefined): void {
  const before = useRef<string>(undefined);
  useEffect(() => {
    if (!data) return;
    if (before.current === "IN_PROGRESS" && data.status !== "IN_PROGRESS") {
      announce(data.status === "SUCCESS" ? "The build has succeeded." : `The build has failed with ${many(data.buildResult.errors.length, "error")}.`);
    }
    before.current = data.status;
  }, [data?.status]);
}

function Told({ status, project, build }: { status: Status; project: string; build: string }) {
  const { errors, warnings } = status.buildResult;
  const host = /^https?:\/\/([^.:/]+)/.exec(status.url)?.[1];
  return (
    <>
      <Details
        entries={[
          ["Status", <Badge tone={tones[status.status]}>{words[status.status]}</Badge>],
          ["Errors", errors.length === 0 ? "none" : <strong>{errors.length}</strong>],
          ["Warnings", warnings.length === 0 ? "none" : String(warnings.length)],
          ["Address", <Address url={status.url} />],
          ["Deployment", host && <PageLink to="/deployments/:deployment" params={{ deployment: host }}><Text value={host} /></PageLink>],
          ["Id", <code>{build}</code>],
        ]}
      />
      <Steps steps={status.steps} ended={status.status !== "IN_PROGRESS"} />
      {errors.length > 0 && <Section title={many(errors.length, "error")}><Findings findings={errors} severity="error" project={project} build={build} /></Section>}
      {warnings.length > 0 && <Section title={many(warnings.length, "warning")}><Findings findings={warnings} severity="warning" project={project} build={build} /></Section>}
      {status.status === "SUCCESS" && errors.length + warnings.length === 0 && <Section title="Findings"><p>Nothing was found to be wrong.</p></Section>}
    </>
  );
}

/** The steps that every build has, in their order. */
const order = ["download", "validate", "build", "deploy"];

function Steps({ steps, ended }: { steps: Status["steps"]; ended: boolean }) {
  const names = [...order, ...Object.keys(steps).filter((name) => !order.includes(name))];
  return (
    <Section title="Steps">
      <ol class="steps">
        {names.map((name) => {
          const step = steps[name];
          return (
            <li key={name}>
              <span class="step-name"><Text value={name} /></span>
              {step ? <Badge tone={tones[step.status]}>{words[step.status]}</Badge> : <Badge>{ended ? "not begun" : "to come"}</Badge>}
              {" "}<span class="faint">{step && <Taken step={step} />}</span>
              {step?.message && <p class="step-message"><Text value={step.message} lines /></p>}
            </li>
          );
        })}
      </ol>
    </Section>
  );
}

const seconds = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });

function Taken({ step }: { step: Status["steps"][string] }) {
  if (!step.startedOn) return null;
  const took = step.finishedOn ? (Date.parse(step.finishedOn) - Date.parse(step.startedOn)) / 1000 : undefined;
  return <><Time value={step.startedOn} />{took !== undefined && took >= 0 && `, took ${seconds.format(took)} s`}</>;
}
