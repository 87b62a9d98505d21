import type { ComponentChildren } from "preact";
import type { Result } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import { may } from "../api/session";
import { usePages } from "../registry";
import { link } from "../router";
import { PageHead, type Crumb } from "./page";
import { Badge } from "./value";

/** A deployment, as the API returns it. */
export type Deployment = Result<"DeploymentsService_read">;

const tones = { STARTED: "good", BUILDING: "accent", FAILED: "bad", STOPPED: "plain" } as const;

/** Shows the state of a deployment. */
export function StateBadge({ state }: { state: Deployment["state"] }) {
  return <Badge tone={tones[state]}>{state.toLowerCase()}</Badge>;
}

/** Shows the kind of environment of a deployment. */
export function KindBadge({ kind }: { kind: Deployment["environmentType"] }) {
  return <Badge tone={kind === "PRODUCTION" ? "accent" : "plain"}>{kind.toLowerCase().replace("_", " ")}</Badge>;
}

/** Reads a deployment by its name, repeatedly if every is set. It sends no request if the key may not read deployments. */
export function useDeployment(name: string, every = 0): Resource<Deployment> {
  return useResource("DeploymentsService_read", may("DeploymentsService_read") ? { path: { deploymentName: name } } : null, { every });
}

/** The pages of a deployment, with their labels in its navigation. */
const parts = [
  ["/deployments/:deployment", "What serves"],
  ["/deployments/:deployment/routes", "Routes"],
  ["/deployments/:deployment/traffic", "Live traffic"],
  ["/deployments/:deployment/charts", "Charts"],
] as const;

/** The top of the pages of a deployment, with links to its project and to its other pages. */
export function DeploymentHead({ name, at, title, deployment, actions, cli, values, children }: {
  name: string;
  /** Which of these pages is shown: its path in src/pages.ts. */
  at: (typeof parts)[number][0];
  title: string;
  /** The deployment, if it is loaded. The link to its project needs it. */
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

/** A link to a deployment, which opens in another window. Any URL that is not HTTP or HTTPS is shown as none. */
export function Address({ url }: { url: string }) {
  if (!/^https?:\/\//.test(url)) return <span class="faint">none</span>;
  return <a class="address" href={url} target="_blank" rel="noopener noreferrer">{url.replace(/^https?:\/\//, "")}<span class="visually-hidden"> (opens another window)</span></a>;
}
