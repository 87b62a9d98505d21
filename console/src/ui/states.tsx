import type { ComponentChildren } from "preact";
import type { Loaded } from "../api/resource";
import type { Problem } from "../api/problem";
import { Text } from "./text";

/** Shows that something is loading. */
export function Loading({ what = "Loading" }: { what?: string }) {
  return <p class="loading" role="status"><span class="spinner" aria-hidden="true" /> {what}…</p>;
}

/** Shows that a list is empty, and how to create the first entry. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty"><p class="empty-title">{title}</p>{children && <div>{children}</div>}</div>;
}

/** Shows what failed, what to do about it, and the ID of the request. */
export function ProblemPanel({ problem, onRetry, compact = false }: { problem: Problem; onRetry?: (() => void) | undefined; compact?: boolean }) {
  const offline = problem.status === 0;
  return (
    <div class={`problem ${offline ? "offline" : ""} ${compact ? "compact" : ""}`} role="alert">
      <p class="problem-title">{heading(problem)}</p>
      <p><Text value={problem.detail} /></p>
      {problem.fields.length > 0 && <ul>{problem.fields.map((f) => <li key={f.location + f.message}><code>{f.location}</code>: <Text value={f.message} /></li>)}</ul>}
      {problem.requestId !== "" && <p class="faint">To ask for help, quote the request <code>{problem.requestId}</code>.</p>}
      {onRetry && <p><button type="button" onClick={onRetry}>Try again</button></p>}
    </div>
  );
}

function heading(problem: Problem): string {
  switch (problem.status) {
    case 0: return problem.title;
    case 403: return "This key may not do that";
    case 404: return "Not found, or out of this key’s reach";
    case 429: return "Too many requests";
    default: return `${problem.status} ${problem.title}`;
  }
}

/** Shows a resource in each of its states. children is called when there are data to show. */
export function Show<T>({ resource, what, children }: { resource: { now: Loaded<T>; reload: () => void }; what?: string; children: (data: T, etag: string) => ComponentChildren }) {
  const { now } = resource;
  switch (now.at) {
    case "loading": return <Loading {...(what === undefined ? {} : { what })} />;
    case "failed": return <ProblemPanel problem={now.problem} onRetry={resource.reload} />;
    case "ready": return (
      <>
        {now.problem && <ProblemPanel problem={now.problem} onRetry={resource.reload} compact />}
        <div aria-busy={now.refreshing}>{children(now.data, now.etag)}</div>
      </>
    );
  }
}
