import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { account, may } from "../api/session";
import { useRows, type RowOf } from "../api/rows";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { Dialog } from "../ui/dialog";
import { CheckField, Form, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { PageHead } from "../ui/page";
import { objectOf, PairsField, type Pairs } from "../ui/pairs";
import { Search } from "../ui/search";
import { Empty, Loading, ProblemPanel } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { many, Tags, Time } from "../ui/value";

type Bucket = RowOf<"ApiKeyBucketsService_list">;

/** The key buckets of the account, and the form that creates one. */
export default function Buckets(_: PageProps) {
  const query = useQuery();
  const list = useRows("ApiKeyBucketsService_list", { path: { accountName: account() } });
  const want = (query.get("find") ?? "").toLowerCase();
  const rows = list.rows.filter((b) => [b.name, b.description ?? "", ...Object.entries(b.tags ?? {}).map(([n, v]) => `${n}=${v}`)].some((t) => t.toLowerCase().includes(want)));
  const create = may("ApiKeyBucketsService_create");
  return (
    <>
      <PageHead
        title="Key buckets" cli="gatewright bucket list"
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Create a bucket</button>}
      >A gateway looks for the keys of those who call your APIs in a bucket. Its tags place it at a project and a kind of environment.</PageHead>
      {list.problem && <ProblemPanel problem={list.problem} onRetry={list.rows.length > 0 ? list.more : list.reload} />}
      {list.rows.length === 0 && list.loading && <Loading what="Loading key buckets" />}
      {list.rows.length === 0 && list.complete && (
        <Empty title="No key bucket yet">{create ? <p>Create one, add consumers with keys to it, and name it in the policy of a route.</p> : <p>This key sees none.</p>}</Empty>
      )}
      {list.rows.length > 0 && (
        <>
          <Search label="Filter by name, description or tag" count={rows.length} noun="bucket" />
          <Table<Bucket>
            caption="Key buckets" rows={rows} rowKey={(b) => b.id}
            columns={[
              { title: "Name", by: (b) => b.name, cell: (b) => <a href={link("/buckets/:bucket", { bucket: b.name })}><Text value={b.name} /></a> },
              { title: "Description", minor: true, cell: (b) => <Text value={b.description ?? ""} clamp /> },
              { title: "Tags", minor: true, cell: (b) => <Tags tags={b.tags} /> },
              { title: "Changed", by: (b) => b.updatedOn, cell: (b) => <Time value={b.updatedOn} /> },
            ]}
          />
          {!list.complete && <p><button type="button" onClick={list.more}>{list.loading ? "One moment…" : `Load more of ${many(list.total ?? 0, "bucket")}`}</button></p>}
        </>
      )}
      {create && query.get("create") === "yes" && <Create onClose={() => setQuery({ create: "" })} />}
    </>
  );
}

function Create({ onClose }: { onClose: () => void }) {
  const change = useChange("ApiKeyBucketsService_create");
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [tags, setTags] = useState<Pairs>([]);
  const [retrievable, setRetrievable] = useState(true);
  return (
    <Dialog title="Create a key bucket" onClose={onClose}>
      <Form
        submit="Create" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={name !== "" || description !== "" || tags.length > 0}
        onSubmit={async () => {
          const body = { name, tags: objectOf(tags), isRetrievable: retrievable, ...(description === "" ? {} : { description }) };
          const made = await change.run({ path: { accountName: account() }, body });
          if (!made) return;
          notify(`The key bucket ${visible(made.data.name)} is created.`);
          if (change.here()) go(link("/buckets/:bucket", { bucket: made.data.name }), true);
        }}
      >
        <TextField label="Name" name="name" required mono value={name} onInput={setName} hint="5 to 128 lower-case letters, digits and hyphens." />
        <TextField label="Description" name="description" value={description} onInput={setDescription} />
        <PairsField label="Tags" name="tags" noun="tag" value={tags} onInput={setTags} hint={<>The tag <code>project</code> places it at a project for good, and <code>environmentType</code> (PRODUCTION, PREVIEW or WORKING_COPY) at a kind of environment.</>} />
        <CheckField label="Its keys can be shown again" name="isRetrievable" value={retrievable} onInput={setRetrievable} hint="Otherwise a key is shown when it is made and never again. It can’t be changed later." />
      </Form>
    </Dialog>
  );
}
