import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useEdit } from "../api/edit";
import { useResource } from "../api/resource";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { link, setQuery, useQuery } from "../router";
import { ConfirmDelete } from "../ui/confirm";
import { Conflict } from "../ui/conflict";
import { Dialog } from "../ui/dialog";
import { CheckField, Form, SecretField, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { PageHead } from "../ui/page";
import { Search } from "../ui/search";
import { Empty, Loading, ProblemPanel, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, Time } from "../ui/value";

type Variable = RowOf<"VariablesService_list">;

/** The maximum size of a value, in bytes of UTF-8 (docs/limits.md). */
const valueBytes = 5120;
const encoder = new TextEncoder();

/** Returns the fault of a value that is too long, before a request is sent. */
function tooLong(value: string): string | undefined {
  const bytes = encoder.encode(value).length;
  return bytes > valueBytes ? `It has ${bytes} bytes, of at most ${valueBytes}.` : undefined;
}

/** The variables of a branch, and the forms that create, change and delete one. */
export default function Variables({ params }: PageProps) {
  const project = params["project"]!;
  const branch = params["branch"]!;
  const path = { accountName: account(), projectName: project, branchName: branch };
  const query = useQuery();
  const list = useRows("VariablesService_list", { path });
  const [editing, setEditing] = useState<Variable>();
  const [deleting, setDeleting] = useState<Variable>();
  const want = (query.get("find") ?? "").toLowerCase();
  const rows = list.rows.filter((v) => v.name.toLowerCase().includes(want));
  const create = may("VariablesService_create");
  return (
    <>
      <PageHead
        title={`Variables of ${branch}`} cli="gatewright variable list --project :project --branch :branch" values={{ project, branch }}
        crumbs={[{ label: "Projects", href: link("/projects") }, { label: project, href: link("/projects/:project", { project }) }]}
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Create a variable</button>}
      >What a build of the branch reads as <code>{"${env.NAME}"}</code>. A change takes effect with the next build.</PageHead>
      {list.problem && <ProblemPanel problem={list.problem} onRetry={list.reload} />}
      {list.loading && list.rows.length === 0 && <Loading what="Loading variables" />}
      {list.complete && list.rows.length === 0 && <Empty title="No variable yet"><p>A branch has at most 100, and need not have been deployed yet.</p></Empty>}
      {list.rows.length > 0 && (
        <>
          <Search label="Filter by name" count={rows.length} noun="variable" />
          <Table<Variable>
            caption={`Variables of ${visible(branch)}`} rows={rows} rowKey={(v) => v.name}
            columns={[
              { title: "Name", by: (v) => v.name, cell: (v) => <code><Text value={v.name} /></code> },
              { title: "Value", cell: (v) => (v.isSecret ? <Badge tone="accent">secret</Badge> : v.value === "" ? <span class="faint">empty</span> : <span class="mono"><Text value={v.value} clamp /></span>) },
              { title: "Changed", minor: true, by: (v) => v.updatedOn, cell: (v) => <Time value={v.updatedOn} /> },
            ]}
            actions={(v) => (
              <span class="buttons">
                {may("VariablesService_update") && <button type="button" class="quiet" aria-label={`Change ${v.name}`} onClick={() => setEditing(v)}>Change</button>}
                {may("VariablesService_delete") && <button type="button" class="quiet" aria-label={`Delete ${v.name}`} onClick={() => setDeleting(v)}>Delete</button>}
              </span>
            )}
          />
        </>
      )}
      {create && query.get("create") === "yes" && <Create path={path} onClose={() => setQuery({ create: "" })} onMade={list.reload} />}
      {editing && <Edit path={path} variable={editing} onClose={() => setEditing(undefined)} onSaved={list.reload} />}
      {deleting && <Delete path={path} variable={deleting} onClose={() => setDeleting(undefined)} onDone={list.reload} />}
    </>
  );
}

interface BranchPath {
  accountName: string;
  projectName: string;
  branchName: string;
}

/** The field for the value of a variable. The value of a secret is not shown while it is typed. */
function ValueField({ secret, value, onInput, fault }: { secret: boolean; value: string; onInput: (value: string) => void; fault?: string | undefined }) {
  const field = { label: "Value", name: "value", required: true, value, onInput, rows: 4, fault: fault ?? tooLong(value), hint: `At most ${valueBytes} bytes.` };
  return secret ? <SecretField {...field} /> : <TextField {...field} mono />;
}

function Create({ path, onClose, onMade }: { path: BranchPath; onClose: () => void; onMade: () => void }) {
  const change = useChange("VariablesService_create");
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const [secret, setSecret] = useState(true);
  return (
    <Dialog title="Create a variable" onClose={onClose}>
      <Form
        submit="Create" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={name !== "" || value !== ""}
        onSubmit={async () => {
          if (tooLong(value) || !(await change.run({ path, body: { name, value, isSecret: secret } }))) return;
          notify(`The variable ${visible(name)} is created. It takes effect with the next build.`);
          onMade();
          if (change.here()) onClose();
        }}
      >
        <TextField label="Name" name="name" required mono value={name} onInput={(v) => setName(v.toUpperCase())} hint={<>In <code>SCREAMING_SNAKE_CASE</code>.</>} />
        <CheckField label="It is a secret" name="isSecret" value={secret} onInput={setSecret} hint="Its value is never shown again. It can’t be changed later." />
        <ValueField secret={secret} value={value} onInput={setValue} />
      </Form>
    </Dialog>
  );
}

function Edit({ path, variable, onClose, onSaved }: { path: BranchPath; variable: Variable; onClose: () => void; onSaved: () => void }) {
  const there = useResource("VariablesService_read", { path: { ...path, variableName: variable.name } }, { secret: true });
  if (there.now.at !== "ready") return <Dialog title={`Change ${visible(variable.name)}`} onClose={onClose}><Show resource={there}>{() => null}</Show></Dialog>;
  return <EditForm path={path} variable={there.now.data} etag={there.now.etag} onClose={onClose} onSaved={onSaved} />;
}

function EditForm({ path, variable, etag, onClose, onSaved }: { path: BranchPath; variable: Variable; etag: string; onClose: () => void; onSaved: () => void }) {
  const of = { ...path, variableName: variable.name };
  const secret = variable.isSecret;
  const edit = useEdit("VariablesService_update", "VariablesService_read", { path: of });
  const [base, setBase] = useState({ value: variable.value, etag });
  const [value, setValue] = useState(variable.value);
  const [empty, setEmpty] = useState(false);
  const theirs = edit.conflict?.data;
  const save = async (ifMatch: string) => {
    // The value of a secret is not shown, so an empty field could mean an empty value or the present one. Require a new value.
    setEmpty(secret && value === "");
    if (secret && value === "" || tooLong(value) || !(await edit.run({ path: of, body: { value }, ifMatch }))) return;
    notify(`The variable ${visible(variable.name)} is saved. It takes effect with the next build.`);
    onSaved();
    if (edit.here()) onClose();
  };
  return (
    <>
      <Dialog title={`Change ${visible(variable.name)}`} onClose={onClose}>
        <Form submit="Save" busy={edit.busy} problem={edit.problem} dirty={value !== base.value} onCancel={onClose} onSubmit={() => void save(base.etag)}>
          {secret && <p>It is a secret: what it is now is not shown. What you type replaces it.</p>}
          <ValueField secret={secret} value={value} onInput={setValue} fault={empty && value === "" ? "Type the new value." : undefined} />
        </Form>
      </Dialog>
      {theirs && (
        <Conflict
          what={`The variable ${visible(variable.name)}`} onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase({ value: theirs.value, etag: edit.conflict!.etag });
            setValue(theirs.value);
            edit.settle();
          }}
          versions={[{ label: "Value", mine: secret ? "what you have typed, a secret" : value, theirs: secret ? `another secret, since ${theirs.updatedOn}` : theirs.value }]}
        />
      )}
    </>
  );
}

function Delete({ path, variable, onClose, onDone }: { path: BranchPath; variable: Variable; onClose: () => void; onDone: () => void }) {
  const change = useChange("VariablesService_delete");
  return (
    <ConfirmDelete
      noun="variable" name={variable.name} busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright variable delete :name --project :project --branch :branch" values={{ name: variable.name, project: path.projectName, branch: path.branchName }}
      onConfirm={async () => {
        if (!(await change.run({ path: { ...path, variableName: variable.name } }))) return;
        notify(`The variable ${visible(variable.name)} is deleted. Builds from now on do without it.`);
        onDone();
        if (change.here()) onClose();
      }}
    ><p>What is deployed keeps it until its branch is built again; that build is made without it.</p></ConfirmDelete>
  );
}
