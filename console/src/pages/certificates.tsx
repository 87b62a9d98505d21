import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useEdit } from "../api/edit";
import { useResource } from "../api/resource";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { link, setQuery, useQuery } from "../router";
import { Expiry, PemField } from "../ui/certificate";
import { ConfirmDelete } from "../ui/confirm";
import { Conflict } from "../ui/conflict";
import { Dialog } from "../ui/dialog";
import { CheckField, Form, TextField } from "../ui/form";
import { Listed } from "../ui/listed";
import { notify } from "../ui/live";
import { PageHead } from "../ui/page";
import { Search } from "../ui/search";
import { Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, Time } from "../ui/value";

type Certificate = RowOf<"MtlsCertificatesService_list">;
type Kind = keyof Certificate["environments"];
type ProjectPath = { accountName: string; projectName: string };

const kinds = ["production", "preview", "development"] as const satisfies readonly Kind[];

/** Returns the kinds of environment for which a certificate is enabled. */
function enabled(certificate: Certificate): Kind[] {
  return kinds.filter((k) => certificate.environments[k]);
}

/** The client certificates of a project, and the forms that create, enable and delete one. */
export default function Certificates({ params }: PageProps) {
  const project = params["project"]!;
  const path = { accountName: account(), projectName: project };
  const query = useQuery();
  const list = useRows("MtlsCertificatesService_list", { path });
  const [editing, setEditing] = useState<Certificate>();
  const [deleting, setDeleting] = useState<Certificate>();
  const want = (query.get("find") ?? "").toLowerCase();
  const rows = list.rows.filter((c) => [c.name, c.certificateInfo.subject, c.certificateInfo.issuer, c.certificateInfo.serialNumber].some((t) => t.toLowerCase().includes(want)));
  const create = may("MtlsCertificatesService_create");
  return (
    <>
      <PageHead
        title={`mTLS certificates of ${project}`} cli="gatewright certificate list --project :project" values={{ project }}
        crumbs={[{ label: "Projects", href: link("/projects") }, { label: project, href: link("/projects/:project", { project }) }]}
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Upload a certificate</button>}
      >Handlers show one to an upstream that demands a client certificate, by their option <code>mtlsCertificate</code>. A certificate is never replaced: upload its successor under another name, deploy with that, and delete it.</PageHead>
      <Listed list={list} noun="certificate" empty={create ? <p>Upload the first one, with its private key.</p> : <p>This key sees none.</p>}>
        <Search label="Filter by name, subject, issuer or serial number" count={rows.length} noun="certificate" />
        <Table<Certificate>
          caption={`mTLS certificates of ${visible(project)}`} rows={rows} rowKey={(c) => c.id}
          columns={[
            { title: "Name", by: (c) => c.name, cell: (c) => <code><Text value={c.name} /></code> },
            { title: "Subject", minor: true, by: (c) => c.certificateInfo.subject, cell: (c) => <Text value={c.certificateInfo.subject} clamp /> },
            { title: "Enabled for", cell: (c) => (enabled(c).length === 0 ? <Badge tone="warn">none</Badge> : <span class="badges">{enabled(c).map((k) => <Badge key={k}>{k}</Badge>)}</span>) },
            { title: "Ends", by: (c) => c.certificateInfo.validTo, cell: (c) => <Expiry value={c.certificateInfo.validTo} /> },
            { title: "Changed", minor: true, by: (c) => c.updatedOn, cell: (c) => <Time value={c.updatedOn} /> },
          ]}
          actions={(c) => (
            <span class="buttons">
              {may("MtlsCertificatesService_update") && <button type="button" class="quiet" aria-label={`Enable ${c.name}`} onClick={() => setEditing(c)}>Enable</button>}
              {may("MtlsCertificatesService_delete") && <button type="button" class="quiet" aria-label={`Delete ${c.name}`} onClick={() => setDeleting(c)}>Delete</button>}
            </span>
          )}
        />
      </Listed>
      {create && query.get("create") === "yes" && <Create path={path} onClose={() => setQuery({ create: "" })} onMade={list.reload} />}
      {editing && <Edit path={path} certificate={editing} onClose={() => setEditing(undefined)} onSaved={list.reload} />}
      {deleting && <Delete path={path} certificate={deleting} onClose={() => setDeleting(undefined)} onDone={list.reload} />}
    </>
  );
}

/** The kinds of environment, each with a checkbox. */
function Kinds({ value, onInput }: { value: Kind[]; onInput: (value: Kind[]) => void }) {
  return (
    <fieldset>
      <legend>Kinds of environment whose builds may use it</legend>
      {kinds.map((kind) => <CheckField key={kind} label={kind} name={kind} value={value.includes(kind)} onInput={(on) => onInput(kinds.filter((k) => (k === kind ? on : value.includes(k))))} />)}
    </fieldset>
  );
}

/** Uploads a certificate with its key. Only the form stores the key, and it clears the key after sending it. */
function Create({ path, onClose, onMade }: { path: ProjectPath; onClose: () => void; onMade: () => void }) {
  const change = useChange("MtlsCertificatesService_create");
  const [name, setName] = useState("");
  const [certificate, setCertificate] = useState("");
  const [key, setKey] = useState("");
  const [environments, setEnvironments] = useState<Kind[]>(["production"]);
  const [none, setNone] = useState(false);
  return (
    <Dialog title="Upload an mTLS certificate" onClose={onClose} wide>
      <Form
        submit="Upload" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={name !== "" || certificate !== "" || key !== ""}
        onSubmit={async () => {
          setNone(environments.length === 0);
          if (environments.length === 0) return;
          const made = await change.run({ path, body: { name, certificate, key, environments } });
          if (!made) return;
          setKey("");
          notify(`The certificate ${visible(made.data.name)} is uploaded. Builds from now on may use it.`);
          onMade();
          if (change.here()) onClose();
        }}
      >
        <TextField label="Name" name="name" required mono value={name} onInput={setName} hint="Letters, digits and _, and no digit first; unique in the project." />
        <PemField label="Certificate" name="certificate" required value={certificate} onInput={setCertificate} hint="In PEM, with its intermediates behind it if it has any." />
        <PemField label="Private key" name="key" required secret value={key} onInput={setKey} hint="In PEM: RSA, ECDSA or Ed25519, not encrypted. It is sealed, and never shown again." />
        <Kinds value={environments} onInput={setEnvironments} />
        {none && environments.length === 0 && <p class="fault" role="alert">Choose at least one kind of environment.</p>}
      </Form>
    </Dialog>
  );
}

function Edit({ path, certificate, onClose, onSaved }: { path: ProjectPath; certificate: Certificate; onClose: () => void; onSaved: () => void }) {
  const there = useResource("MtlsCertificatesService_read", { path: { ...path, mtlsCertificateId: certificate.id } });
  if (there.now.at !== "ready") return <Dialog title={`Where ${visible(certificate.name)} is enabled`} onClose={onClose}><Show resource={there}>{() => null}</Show></Dialog>;
  return <EditForm path={path} certificate={there.now.data} etag={there.now.etag} onClose={onClose} onSaved={onSaved} />;
}

function EditForm({ path, certificate, etag, onClose, onSaved }: { path: ProjectPath; certificate: Certificate; etag: string; onClose: () => void; onSaved: () => void }) {
  const of = { ...path, mtlsCertificateId: certificate.id };
  const edit = useEdit("MtlsCertificatesService_update", "MtlsCertificatesService_read", { path: of });
  const [base, setBase] = useState({ environments: enabled(certificate), etag });
  const [environments, setEnvironments] = useState(base.environments);
  const theirs = edit.conflict?.data;
  const save = async (ifMatch: string) => {
    if (!(await edit.run({ path: of, body: { environments }, ifMatch }))) return;
    notify(`Builds go by where ${visible(certificate.name)} is enabled from now on.`);
    onSaved();
    if (edit.here()) onClose();
  };
  return (
    <>
      <Dialog title={`Where ${visible(certificate.name)} is enabled`} onClose={onClose}>
        <Form submit="Save" busy={edit.busy} problem={edit.problem} dirty={environments.join() !== base.environments.join()} onCancel={onClose} onSubmit={() => void save(base.etag)}>
          <Kinds value={environments} onInput={setEnvironments} />
          <p class="faint">What is deployed stays as it is until it is built again. None disables it.</p>
        </Form>
      </Dialog>
      {theirs && (
        <Conflict
          what={`The certificate ${visible(certificate.name)}`} onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase({ environments: enabled(theirs), etag: edit.conflict!.etag });
            setEnvironments(enabled(theirs));
            edit.settle();
          }}
          versions={[{ label: "Enabled for", mine: environments.join(", "), theirs: enabled(theirs).join(", ") }]}
        />
      )}
    </>
  );
}

function Delete({ path, certificate, onClose, onDone }: { path: ProjectPath; certificate: Certificate; onClose: () => void; onDone: () => void }) {
  const change = useChange("MtlsCertificatesService_delete");
  return (
    <ConfirmDelete
      noun="certificate" name={certificate.name} busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright certificate delete :id --project :project" values={{ id: certificate.id, project: path.projectName }}
      onConfirm={async () => {
        if (!(await change.run({ path: { ...path, mtlsCertificateId: certificate.id } }))) return;
        notify(`The certificate ${visible(certificate.name)} is deleted, with its private key.`);
        onDone();
        if (change.here()) onClose();
      }}
    ><p>With it goes its private key. It is refused while a deployment is served with it.</p></ConfirmDelete>
  );
}
