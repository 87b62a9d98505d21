import type { ComponentChildren } from "preact";
import type { Result } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import { may } from "../api/session";
import { usePages } from "../registry";
import { link } from "../router";
import { PageHead, type Crumb } from "./page";
import { Badge } from "./value";

/** A deployment, as the API tells of one. */
export type Deployment = Result<"DeploymentsService_read">;

const tones = { STARTED: "good", BUILDING: "accent", FAILED: "bad", STOPPED: "plain" } as const;

/** What a deployment is doing. */
export function StateBadge({ state }: { state: Deployment["state"] }) {
  return <Badge tone={tones[state]}>{state.toLowerCase()}</Badge>;
}

/** What kind of environment a deployment is of. */
export function KindBadge({ kind }: { kind: Deployment["environmentType"] }) {
  return <Badge tone={kind === "PRODUCTION" ? "accent" : "plain"}>{kind.toLowerCase().replace("_", " ")}</Badge>;
}

/** A deployment by its name, asked again by a timer where every says so; nothing is asked of a key that may not. */
export function useDeployment(name: string, every = 0): Resource<Deployment> {
  return useResource("DeploymentsService_read", may("DeploymentsService_read") ? { path: { deploymentName: name } } : null, { every });
}

/** What a deployment's pages are called in their navigation. */
const parts = [
  ["/deployments/:deployment", "What serves"],
  ["/deployments/:deployment/routes", "Routes"],
  ["/deployments/:deployment/traffic", "Live traffic"],
  ["/deployments/:deployment/charts", "Charts"],
] as const;

/** The top of a deployment's pages: the way up to its project, and to its other pages. */
export function DeploymentHead({ name, at, title, deployment, actions, cli, values, children }: {
  name: string;
  /** Which of its pages this is: its path in src/pages.ts. */
  at: (typeof parts)[number][0];
  title: string;
  /** What is known of it; its project is in the way up as soon as that is known. */
  deployment: Deployment | undefined;
  actions?: ComponentChildren;
  cli: string;
  values?: Record<string, string>;
  children?: ComponentChildren;
}) {
  const pages = usePages();
  const project = deployment?.projectName;
  const crumbs: Crumb[] = [
    ...(may("ProjectsService_list") ? [{ label: "Projects", href: link("/projects") }] : []),
    ...(project !== undefined && may("ProjectsService_read") ? [{ label: project, href: link("/projects/:project", { project }) }] : []),
    ...(project !== undefined && may("DeploymentsService_list") ? [{ label: "Deployments", href: link("/projects/:project/deployments", { project }) }] : []),
    ...(at === "/deployments/:deployment" ? [] : [{ label: name, href: link("/deployments/:deployment", { deployment: name }) }]),
  ];
  const shown = parts.filter(([path]) => {
    const needs = pages.find((p) => p.path === path)?.needs;
    return needs === undefined || may(needs);
  });
  return (
    <>
      <PageHead title={title} crumbs={crumbs} actions={actions} cli={cli} values={{ deployment: name, ...values }}>{children}</PageHead>
      {shown.length > 1 && (
        <nav class="tabs" aria-label="Pages of the deployment">
          <ul>{shown.map(([path, label]) => <li key={path}><a href={link(path, { deployment: name })} aria-current={path === at ? "page" : undefined}>{label}</a></li>)}</ul>
        </nav>
      )}
    </>
  );
}

/** The address of a deployment, to open in another window. What is no address of the web is a text. */
export function Address({ url }: { url: string }) {
  if (!/^https?:\/\//.test(url)) return <span class="faint">none</span>;
  return <a class="address" href={url} target="_blank" rel="noopener noreferrer">{url.replace(/^https?:\/\//, "")}<span class="visually-hidden"> (opens another window)</span></a>;
}
