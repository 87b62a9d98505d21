import { useChange } from "../api/change";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { Confirm } from "../ui/confirm";
import { Listed } from "../ui/listed";
import { notify } from "../ui/live";
import { PageHead, PageLink } from "../ui/page";
import { Search } from "../ui/search";
import { Table } from "../ui/table";
import { Text } from "../ui/text";
import { Time } from "../ui/value";

type Bucket = RowOf<"MeteringBucketsService_list">;

/** The metering buckets of the account, and the form that creates one. */
export default function Metering(_: PageProps) {
  const query = useQuery();
  const list = useRows("MeteringBucketsService_list", {});
  const want = (query.get("find") ?? "").toLowerCase();
  const rows = list.rows.filter((b) => b.id.toLowerCase().includes(want));
  const create = may("MeteringBucketsService_create");
  return (
    <>
      <PageHead
        title="Metering" cli="gatewright metering bucket list"
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Create a metering bucket</button>}
      >What you sell by the unit: a metering bucket has plans with quotas, and the subscriptions of your customers to them.</PageHead>
      <Listed list={list} noun="metering bucket" empty={create ? <p>Create one, then its plans; a policy of a route names it by its id.</p> : <p>This key sees none.</p>}>
        <Search label="Filter by id" count={rows.length} noun="metering bucket" />
        <Table<Bucket>
          caption="Metering buckets" rows={rows} rowKey={(b) => b.id}
          columns={[
            { title: "Id", by: (b) => b.id, cell: (b) => <PageLink to="/metering/:bucket" params={{ bucket: b.id }}><Text value={b.id} /></PageLink> },
            { title: "Created", by: (b) => b.createdOn, cell: (b) => <Time value={b.createdOn} /> },
            { title: "Changed", minor: true, by: (b) => b.updatedOn, cell: (b) => <Time value={b.updatedOn} /> },
          ]}
        />
      </Listed>
      {create && query.get("create") === "yes" && <Create onClose={() => setQuery({ create: "" })} />}
    </>
  );
}

function Create({ onClose }: { onClose: () => void }) {
  const change = useChange("MeteringBucketsService_create");
  return (
    <Confirm
      title="Create a metering bucket?" submit="Create" busy={change.busy} problem={change.problem} onClose={onClose} cli="gatewright metering bucket create"
      onConfirm={async () => {
        const made = await change.run({});
        if (!made) return;
        notify("The metering bucket is created.");
        if (change.here()) go(link("/metering/:bucket", { bucket: made.data.id }), true);
      }}
    ><p>It has no name: it is known by the id that it is given. The account <strong><Text value={account()} /></strong> has at most 100.</p></Confirm>
  );
}
