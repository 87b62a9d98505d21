import { useState } from "preact/hooks";
import { scopes as allScopes } from "../../generated/operations";
import { useChange } from "../api/change";
import type { Body } from "../api/client";
import { account, hasScope, session } from "../api/session";
import { Cli } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { EndField, isOpen, timeOf, type End } from "../ui/end";
import { CheckField, Field, Form, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { Secret } from "../ui/secret";
import { visible } from "../ui/text";

/** Returns the resources with their access levels, read and write. It leaves out the levels that the session's key does not have and may not pass on. */
const resources = () => {
  const all = new Set(allScopes.filter((s) => s.includes(":")));
  const names = [...new Set([...all].map((s) => s.split(":")[0]!))].sort();
  return names.map((name) => ({ name, levels: ["read", "write"].filter((l) => all.has(`${name}:${l}`) && hasScope(`${name}:${l}`)) })).filter((r) => r.levels.length > 0);
};

const kinds = ["production", "preview", "development"] as const;
type Kind = (typeof kinds)[number];

/** The command that creates a key. A flag is repeated for each of its values. */
const command = { cli: "gatewright account-key create --label :label --scope :scope --project :project --environment :environment --expires-in :expires --confirm-destructive" };

/** Returns the command for the choices of the form, with its values. */
function commandOf(label: string, scopes: string[], projects: string[], environments: string[], end: End, confirm: boolean): { line: string; values: Record<string, string> } {
  const values: Record<string, string> = label === "" ? {} : { label };
  let line = command.cli;
  for (const [name, all] of [["scope", scopes], ["project", projects], ["environment", environments]] as const) {
    if (name === "scope" && all.length === 0) continue;
    line = line.replace(` --${name} :${name}`, all.map((_, i) => ` --${name} :${name}${i}`).join(""));
    for (const [i, value] of all.entries()) values[`${name}${i}`] = value;
  }
  const time = timeOf(end);
  if (time === null) line = line.replace(" --expires-in :expires", "");
  else values["expires"] = Number(end.choice) > 0 ? `${Number(end.choice) / 3600}h` : time;
  return { line: confirm ? line : line.replace(" --confirm-destructive", ""), values };
}

/** Creates an account key that has no more permissions than the session's key, and shows it once. */
export function CreateAccountKey({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const change = useChange("AccountKeysService_create");
  const now = session.get();
  const own = now.at === "in" ? now.session : undefined;
  const ownProjects = own && own.projects !== "all" ? own.projects : undefined;
  const mayAll = own?.scopes === "all";
  const reachable = kinds.filter((k) => !own || own.environments.length === 0 || own.environments.includes(k));
  const [label, setLabel] = useState("");
  const [everything, setEverything] = useState(false);
  const [scopes, setScopes] = useState<Record<string, string>>({});
  const [projects, setProjects] = useState((ownProjects ?? []).join("\n"));
  const [environments, setEnvironments] = useState<Kind[]>([...reachable]);
  const [confirm, setConfirm] = useState(own?.confirmDestructive ?? false);
  const [end, setEnd] = useState<End>({ choice: own?.keyExpiresOn ? "86400" : "never", at: "" });
  const [tried, setTried] = useState(false);
  const [made, setMade] = useState<{ label: string; key: string }>();
  const chosen = Object.entries(scopes).filter(([, level]) => level !== "").map(([name, level]) => `${name}:${level}`);
  const names = projects.split(/[\n,]+/).map((p) => p.trim()).filter((p) => p !== "");
  const noScope = tried && !everything && chosen.length === 0 ? "Choose what it may do." : undefined;
  const noKind = tried && environments.length === 0 ? "Choose one at least." : undefined;
  if (made) {
    return (
      <Dialog title={`The account key ${visible(made.label)}`}>
        <Secret label="Account key" value={made.key} />
        <p><strong>It is shown here and never again: copy it before you close this.</strong></p>
        <div class="buttons"><button type="button" class="primary" onClick={onClose}>I have kept it</button></div>
      </Dialog>
    );
  }
  const submit = async () => {
    setTried(true);
    if (isOpen(end) || (!everything && chosen.length === 0) || environments.length === 0) return;
    const time = timeOf(end);
    const body: Body<"AccountKeysService_create"> = {
      label, scopes: everything ? "all" : chosen, projects: names.length === 0 ? "all" : names, environments,
      ...(time === null ? {} : { expiresOn: time }), ...(confirm ? { confirmDestructive: true } : {}),
    };
    const answer = await change.run({ path: { accountName: account() }, body });
    if (!answer) return;
    notify(`The account key ${visible(label)} is created.`);
    setMade({ label, key: answer.data.key });
    onMade();
  };
  return (
    <Dialog title="Create an account key" onClose={onClose} wide>
      <Form submit="Create" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={label !== "" || chosen.length > 0} onSubmit={() => void submit()}>
        <TextField label="Label" name="label" required value={label} onInput={setLabel} hint="Who or what uses it, such as ci." />
        {mayAll && <CheckField label="It may everything" name="scopes-all" value={everything} onInput={setEverything} hint="Also what comes later. Few things need it." />}
        {!everything && (
          <Field
            label="What it may do" name="scopes" required hint="Who may write may read too." fault={noScope}
            input={(a) => (
              <div class="scopes" role="group" id={a.id} tabIndex={-1} aria-label="What it may do" aria-describedby={a["aria-describedby"]}>
                {resources().map(({ name, levels }) => (
                  <label key={name}>
                    <span>{name}</span>
                    <select value={scopes[name] ?? ""} onChange={(e) => setScopes({ ...scopes, [name]: e.currentTarget.value })}>
                      <option value="">nothing</option>
                      {levels.map((l) => <option key={l} value={l}>{l}</option>)}
                    </select>
                  </label>
                ))}
              </div>
            )}
          />
        )}
        <TextField
          label="Projects" name="projects" mono rows={2} required={ownProjects !== undefined} value={projects} onInput={setProjects}
          hint={ownProjects ? `A name on each line, of those of your own key: ${ownProjects.join(", ")}.` : "A name on each line; all projects where there is none."}
        />
        <Field
          label="Environments" name="environments" required fault={noKind}
          input={(a) => (
            <div role="group" id={a.id} class="buttons" tabIndex={-1} aria-label="Environments" aria-describedby={a["aria-describedby"]}>
              {reachable.map((k) => (
                <CheckField key={k} label={k} name={`environment-${k}`} value={environments.includes(k)} onInput={(on) => setEnvironments(on ? [...environments, k] : environments.filter((e) => e !== k))} />
              ))}
            </div>
          )}
        />
        <EndField
          label="Ends" name="expiresOn" value={end} onInput={setEnd} first={own?.keyExpiresOn ? [] : [["never", "never"]]} tried={tried}
          {...(own?.keyExpiresOn ? { hint: `Not later than your own key, which ends at ${own.keyExpiresOn}.` } : {})}
        />
        <CheckField label="A person confirms what removes" name="confirmDestructive" value={confirm} onInput={setConfirm} hint="In MCP clients, before a tool removes or replaces something with it." />
      </Form>
      <Cli {...commandOf(label, everything ? ["all"] : chosen, names, environments.length === reachable.length ? [] : environments, end, confirm)} />
    </Dialog>
  );
}
