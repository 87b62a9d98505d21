import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { Dialog } from "../ui/dialog";
import { Form, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { PageHead } from "../ui/page";
import { Search } from "../ui/search";
import { Empty, Loading, ProblemPanel } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { many, Time } from "../ui/value";

type Project = RowOf<"ProjectsService_list">;

/** The projects of the account, and the form that creates one. */
export default function Projects(_: PageProps) {
  const query = useQuery();
  const list = useRows("ProjectsService_list", {});
  const want = (query.get("find") ?? "").toLowerCase();
  const rows = list.rows.filter((p) => p.name.includes(want));
  const create = may("ProjectsService_create");
  return (
    <>
      <PageHead
        title="Projects" cli="gatewright project list"
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Create a project</button>}
      >A project is an OpenAPI description with handlers and policies beside its routes. Each of its branches is deployed by itself.</PageHead>
      {list.problem && <ProblemPanel problem={list.problem} onRetry={list.rows.length > 0 ? list.more : list.reload} />}
      {list.rows.length === 0 && list.loading && <Loading what="Loading projects" />}
      {list.rows.length === 0 && list.complete && (
        <Empty title="No project yet">{create ? <p><code>gatewright init</code> writes a first one into a folder, and <code>gatewright deploy</code> uploads it. Or create an empty one here.</p> : <p>This key sees none.</p>}</Empty>
      )}
      {list.rows.length > 0 && (
        <>
          <Search label="Filter by name" count={rows.length} noun="project" />
          <Table<Project>
            caption="Projects" rows={rows} rowKey={(p) => p.id}
            columns={[
              { title: "Name", by: (p) => p.name, cell: (p) => <a href={link("/projects/:project", { project: p.name })}><Text value={p.name} /></a> },
              { title: "Created", by: (p) => p.createdOn, cell: (p) => <Time value={p.createdOn} /> },
              { title: "Changed", minor: true, by: (p) => p.updatedOn, cell: (p) => <Time value={p.updatedOn} /> },
            ]}
          />
          {!list.complete && <p><button type="button" onClick={list.more}>{list.loading ? "One moment…" : `Load more of ${many(list.total ?? 0, "project")}`}</button></p>}
        </>
      )}
      {create && query.get("create") === "yes" && <Create onClose={() => setQuery({ create: "" })} />}
    </>
  );
}

function Create({ onClose }: { onClose: () => void }) {
  const change = useChange("ProjectsService_create");
  const [name, setName] = useState("");
  return (
    <Dialog title="Create a project" onClose={onClose}>
      <Form
        submit="Create" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={name !== ""}
        onSubmit={async () => {
          const made = await change.run({ query: { accountName: account() }, body: { name } });
          if (!made) return;
          notify(`The project ${visible(made.data.name)} is created.`);
          if (change.here()) go(link("/projects/:project", { project: made.data.name }), true);
        }}
      >
        <TextField label="Name" name="name" required mono value={name} onInput={setName} hint="At most 63 lower-case letters, digits and hyphens, with no hyphen at either end." />
      </Form>
    </Dialog>
  );
}
