import { useState } from "preact/hooks";
import type { Result } from "../api/client";
import { useResource } from "../api/resource";
import { account, may } from "../api/session";
import { ProblemPanel, Loading } from "./states";
import type { Mark } from "./editor";
import { Source } from "./source";
import { Text, visible } from "./text";
import { Badge, many } from "./value";

/** An error or a warning of a build. */
type Finding = Result<"V1_deploymentStatus">["buildResult"]["errors"][number];

/** The number of files whose source is shown immediately. For the other files, a button shows it. */
const shownFiles = 3;

interface Of {
  severity: "error" | "warning";
  project: string;
  build: string;
}

/** The errors or warnings of a build, file by file, each in its source if the installation still has it. */
export function Findings({ findings, ...of }: { findings: Finding[] } & Of) {
  const files = new Map<string, Finding[]>();
  for (const f of findings) files.set(f.file, [...(files.get(f.file) ?? []), f]);
  return (
    <div class="files">
      {[...files].map(([file, found], i) => (
        <section class="file" key={file} aria-label={`${file === "" ? "No file" : visible(file)}: ${of.severity}s`}>
          <h3>{file === "" ? "Of no file" : <code><Text value={file} /></code>} <span class="faint">{many(found.length, of.severity)}</span></h3>
          <FileFindings file={file} findings={found} begins={i < shownFiles} {...of} />
        </section>
      ))}
    </div>
  );
}

function FileFindings({ file, findings, begins, ...of }: { file: string; findings: Finding[]; begins: boolean } & Of) {
  const [opened, setOpened] = useState(begins);
  const placed = findings.filter((f) => f.line !== undefined).sort((a, b) => a.line! - b.line! || (a.column ?? 1) - (b.column ?? 1));
  const placeless = findings.filter((f) => f.line === undefined);
  if (!may("DeployService_source")) return <Listed findings={findings} {...of} />;
  return (
    <>
      {placeless.length > 0 && <Listed findings={placeless} {...of} />}
      {placed.length > 0 && (opened
        ? <Excerpt file={file} findings={placed} {...of} />
        : <><Listed findings={placed} {...of} /><p><button type="button" onClick={() => setOpened(true)}>Show the source<span class="visually-hidden"> of {visible(file)}</span></button></p></>)}
    </>
  );
}

/** Shows findings without their source. */
function Listed({ findings, severity }: { findings: Finding[] } & Of) {
  return (
    <ul class="marks">
      {findings.map((f, i) => (
        <li key={i}>
          <Badge tone={severity === "error" ? "bad" : "warn"}>{severity}</Badge>
          {f.line !== undefined && <> line {f.line}{f.column !== undefined && `, column ${f.column}`}:</>} <Text value={f.message} lines />
          {f.path !== "" && <> <code class="faint"><Text value={f.path} clamp /></code></>}
        </li>
      ))}
    </ul>
  );
}

/** The source around the first of the findings, with marks for all findings in it. The other findings follow below, in excerpts of their own. */
function Excerpt({ file, findings, ...of }: { file: string; findings: Finding[] } & Of) {
  const [first] = findings;
  const source = useResource("DeployService_source", {
    path: { accountName: account(), projectName: of.project, statusId: of.build }, query: { file, line: first!.line!, ...(first!.column === undefined ? {} : { column: first!.column }) },
  });
  const { now } = source;
  if (now.at === "loading") return <Loading what={`Loading ${visible(file)}`} />;
  if (now.at === "failed") {
    return (
      <>
        <Listed findings={findings} {...of} />
        {now.problem.status === 404 ? <p class="faint">The source is not there any more: sources are kept for a day, and as long as what was made of them can serve.</p> : <ProblemPanel problem={now.problem} onRetry={source.reload} compact />}
      </>
    );
  }
  const { text, startLine, startColumn, moreBefore, moreAfter } = now.data;
  const lines = text.split("\n");
  const last = startLine + lines.length - (text.endsWith("\n") ? 2 : 1);
  // If a line is longer than the excerpt, the column decides whether a finding is in it.
  const end = lines.length === 1 && moreAfter ? startColumn + [...text].length : Infinity;
  const within = (f: Finding) => f === first || (f.line! >= startLine && f.line! <= last && !(f.line === startLine && (f.column ?? 1) < startColumn) && (f.column ?? 1) < end);
  const here = findings.filter(within);
  const elsewhere = findings.filter((f) => !within(f));
  const marks = here.map((f): Mark => ({ line: f.line!, severity: of.severity, message: f.message, ...(f.column === undefined ? {} : { column: f.column }) }));
  return (
    <>
      <Source
        text={text.endsWith("\n") ? text.slice(0, -1) : text} marks={marks} first={startLine} firstColumn={startColumn} label={`${file} from line ${startLine}, with its ${of.severity}s`}
        language={/\.jsonc?$/.test(file) ? "json" : /\.ya?ml$/.test(file) ? "yaml" : "text"}
      />
      {(moreBefore || moreAfter) && <p class="faint">The file has more {moreBefore && moreAfter ? "before and after this" : moreBefore ? "before this" : "after this"}.</p>}
      {elsewhere.length > 0 && <Excerpt file={file} findings={elsewhere} {...of} />}
    </>
  );
}
