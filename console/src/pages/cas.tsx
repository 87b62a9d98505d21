import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useEdit } from "../api/edit";
import { useResource } from "../api/resource";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { setQuery, useQuery } from "../router";
import { Expiry, PemField } from "../ui/certificate";
import { ConfirmDelete } from "../ui/confirm";
import { Conflict } from "../ui/conflict";
import { Dialog } from "../ui/dialog";
import { Form, TextField } from "../ui/form";
import { Listed } from "../ui/listed";
import { notify } from "../ui/live";
import { PageHead } from "../ui/page";
import { Search } from "../ui/search";
import { Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Time } from "../ui/value";

type CA = RowOf<"ClientMtlsCaCertificatesService_list">;

/** The hint about the characters of a name. */
const nameHint = "Letters, digits, _ and $, and no digit first; unique in the account.";

/** The CAs whose client certificates are accepted, and the forms that create, rename and delete one. */
export default function CAs(_: PageProps) {
  const query = useQuery();
  const list = useRows("ClientMtlsCaCertificatesService_list", { path: { accountName: account() } });
  const [renaming, setRenaming] = useState<CA>();
  const [deleting, setDeleting] = useState<CA>();
  const want = (query.get("find") ?? "").toLowerCase();
  const rows = list.rows.filter((c) => [c.name, c.certificateInfo.subject, c.certificateInfo.issuer, c.certificateInfo.serialNumber].some((t) => t.toLowerCase().includes(want)));
  const create = may("ClientMtlsCaCertificatesService_create");
  return (
    <>
      <PageHead
        title="Client CAs" cli="gatewright ca list"
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Add a CA</button>}
      >Routes with the policy <code>mtls-auth-inbound</code> let in clients whose certificate one of these CAs has signed, in all projects and environments.</PageHead>
      <Listed list={list} noun="client CA" empty={create ? <p>Add the certificate of the CA that signs those of your clients.</p> : <p>This key sees none.</p>}>
        <Search label="Filter by name, subject, issuer or serial number" count={rows.length} noun="CA" />
        <Table<CA>
          caption="Client CAs" rows={rows} rowKey={(c) => c.id}
          columns={[
            { title: "Name", by: (c) => c.name, cell: (c) => <Text value={c.name} /> },
            { title: "Subject", by: (c) => c.certificateInfo.subject, cell: (c) => <Text value={c.certificateInfo.subject} clamp /> },
            { title: "Serial number", minor: true, cell: (c) => <code><Text value={c.certificateInfo.serialNumber} /></code> },
            { title: "Ends", by: (c) => c.certificateInfo.validTo, cell: (c) => <Expiry value={c.certificateInfo.validTo} /> },
            { title: "Changed", minor: true, by: (c) => c.updatedOn, cell: (c) => <Time value={c.updatedOn} /> },
          ]}
          actions={(c) => (
            <span class="buttons">
              {may("ClientMtlsCaCertificatesService_update") && <button type="button" class="quiet" aria-label={`Rename ${c.name}`} onClick={() => setRenaming(c)}>Rename</button>}
              {may("ClientMtlsCaCertificatesService_delete") && <button type="button" class="quiet" aria-label={`Delete ${c.name}`} onClick={() => setDeleting(c)}>Delete</button>}
            </span>
          )}
        />
      </Listed>
      {create && query.get("create") === "yes" && <Create onClose={() => setQuery({ create: "" })} onMade={list.reload} />}
      {renaming && <Rename ca={renaming} onClose={() => setRenaming(undefined)} onSaved={list.reload} />}
      {deleting && <Delete ca={deleting} onClose={() => setDeleting(undefined)} onDone={list.reload} />}
    </>
  );
}

function Create({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const change = useChange("ClientMtlsCaCertificatesService_create");
  const [name, setName] = useState("");
  const [certificate, setCertificate] = useState("");
  return (
    <Dialog title="Add a client CA" onClose={onClose} wide>
      <Form
        submit="Add" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={name !== "" || certificate !== ""}
        onSubmit={async () => {
          const made = await change.run({ path: { accountName: account() }, body: { name, certificate } });
          if (!made) return;
          notify(`The CA ${visible(made.data.name)} is added. Its clients are let in from 5 seconds later on.`);
          onMade();
          if (change.here()) onClose();
        }}
      >
        <TextField label="Name" name="name" required mono value={name} onInput={setName} hint={nameHint} />
        <PemField label="Certificate" name="certificate" required value={certificate} onInput={setCertificate} hint="The CA’s own, in PEM: without a private key, and without other certificates." />
      </Form>
    </Dialog>
  );
}

function Rename({ ca, onClose, onSaved }: { ca: CA; onClose: () => void; onSaved: () => void }) {
  const there = useResource("ClientMtlsCaCertificatesService_read", { path: { accountName: account(), id: ca.id } });
  if (there.now.at !== "ready") return <Dialog title={`Rename ${visible(ca.name)}`} onClose={onClose}><Show resource={there}>{() => null}</Show></Dialog>;
  return <RenameForm ca={there.now.data} etag={there.now.etag} onClose={onClose} onSaved={onSaved} />;
}

function RenameForm({ ca, etag, onClose, onSaved }: { ca: CA; etag: string; onClose: () => void; onSaved: () => void }) {
  const path = { accountName: account(), id: ca.id };
  const edit = useEdit("ClientMtlsCaCertificatesService_update", "ClientMtlsCaCertificatesService_read", { path });
  const [base, setBase] = useState({ name: ca.name, etag });
  const [name, setName] = useState(ca.name);
  const theirs = edit.conflict?.data.name;
  const save = async (ifMatch: string) => {
    if (!(await edit.run({ path, body: { name }, ifMatch }))) return;
    notify(`The CA ${visible(name)} has its new name.`);
    onSaved();
    if (edit.here()) onClose();
  };
  return (
    <>
      <Dialog title={`Rename ${visible(ca.name)}`} onClose={onClose}>
        <Form submit="Rename" busy={edit.busy} problem={edit.problem} dirty={name !== base.name} onCancel={onClose} onSubmit={() => void save(base.etag)}>
          <TextField label="Name" name="name" required mono value={name} onInput={setName} hint={nameHint} />
        </Form>
      </Dialog>
      {theirs !== undefined && (
        <Conflict
          what={`The CA ${visible(ca.name)}`} onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase({ name: theirs, etag: edit.conflict!.etag });
            setName(theirs);
            edit.settle();
          }}
          versions={[{ label: "Name", mine: name, theirs }]}
        />
      )}
    </>
  );
}

function Delete({ ca, onClose, onDone }: { ca: CA; onClose: () => void; onDone: () => void }) {
  const change = useChange("ClientMtlsCaCertificatesService_delete");
  return (
    <ConfirmDelete
      noun="client CA" name={ca.name} busy={change.busy} problem={change.problem} onClose={onClose} cli="gatewright ca delete :ca" values={{ ca: ca.id }}
      onConfirm={async () => {
        if (!(await change.run({ path: { accountName: account(), id: ca.id } }))) return;
        notify(`The CA ${visible(ca.name)} is deleted. Its clients are refused from 5 seconds later on.`);
        onDone();
        if (change.here()) onClose();
      }}
    ><p>All clients whose certificates it has signed are refused from 5 seconds later on, on connections that they have open too.</p></ConfirmDelete>
  );
}
