import { useEffect, useState } from "preact/hooks";
import { useChange } from "../api/change";
import type { Result } from "../api/client";
import { useEdit } from "../api/edit";
import { useResource, type Resource } from "../api/resource";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link } from "../router";
import { Expiry, PemField } from "../ui/certificate";
import { Confirm, ConfirmDelete } from "../ui/confirm";
import { Conflict } from "../ui/conflict";
import { Copy } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { CheckField, Form, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { PageHead, PageLink, Section } from "../ui/page";
import { Empty, Loading, ProblemPanel, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, Details, Time } from "../ui/value";
import { Status } from "./domains";

type Domain = Result<"CustomDomainsService_read">;
type Target = Domain["deployments"][number];

/** How often a domain that is not verified, or waits for its certificate, is read again, in milliseconds. */
const every = 5_000;

/** Reports whether the domain will still change without a request: it waits for its verification or for an ACME certificate. */
function waits(domain: Domain): boolean {
  return domain.status === "pending" || domain.certificate?.source === "acme" && domain.certificate.status !== "active";
}

/** A custom domain: the DNS records to create, its deployments, its certificate, and the forms that change them. */
export default function DomainPage({ params }: PageProps) {
  const hostname = params["domain"]!;
  const [waiting, setWaiting] = useState(false);
  const domain = useResource("CustomDomainsService_read", { path: { accountName: account(), hostname } }, { every: waiting ? every : 0 });
  const now = domain.now.at === "ready" ? domain.now : undefined;
  const more = now !== undefined && waits(now.data);
  const status = now?.data.status;
  const [before, setBefore] = useState<string>();
  useEffect(() => setWaiting(more), [more]);
  useEffect(() => {
    if (before === "pending" && status === "active") notify(`${visible(hostname)} is proven to be yours.`);
    setBefore(status);
  }, [status]);
  const [open, setOpen] = useState<"" | "delete" | "lead" | "also" | "certificate" | "no-certificate">("");
  const [leaving, setLeaving] = useState<Target>();
  const [serving, setServing] = useState<Target>();
  const close = () => setOpen("");
  return (
    <>
      <PageHead
        title={hostname} crumbs={[{ label: "Custom domains", href: link("/domains") }]} cli="gatewright domain get :domain" values={{ domain: hostname }}
        actions={now && may("CustomDomainsService_delete") && <button type="button" class="danger" onClick={() => setOpen("delete")}>Delete</button>}
      />
      <Show resource={domain} what="Loading the custom domain">
        {(data, etag) => (
          <>
            <Details
              entries={[
                ["Status", <Status status={data.status} />],
                ["TLS ends", data.provider === "alias" ? "before the gateway: it is an alias" : "at the gateway"],
                ["Project", data.projectName === "" ? "" : <PageLink to="/projects/:project" params={{ project: data.projectName }}><Text value={data.projectName} /></PageLink>],
                ["Id", <code>{data.id}</code>],
                ["Created", <Time value={data.createdOn} absolute />],
                ["Changed", <Time value={data.updatedOn} absolute />],
              ]}
            />
            <Records domain={data} resource={domain} />
            <Section
              title="Leads to"
              actions={(
                <>
                  {may("CustomDomainsService_update") && <button type="button" onClick={() => setOpen("lead")}>Change what is served</button>}
                  {may("CustomDomainsService_create") && data.deployments.some((d) => d.deploymentName) && <button type="button" onClick={() => setOpen("also")}>Add a deployment</button>}
                </>
              )}
            >
              {data.deployments.every((d) => !d.deploymentName)
                ? <Empty title="It leads nowhere yet"><p>Name a deployment, which is served at the hostname within 5 seconds.</p></Empty>
                : (
                  <Table<Target>
                    caption="Deployments that it leads to" rows={data.deployments.filter((d) => d.deploymentName)} rowKey={(d) => d.deploymentName!}
                    columns={[
                      { title: "Deployment", cell: (d) => <PageLink to="/deployments/:deployment" params={{ deployment: d.deploymentName! }}><Text value={d.deploymentName!} /></PageLink> },
                      { title: "Served", cell: (d) => (d.isDefault ? <Badge tone="good">served</Badge> : <span class="faint">no</span>) },
                      { title: "Branch", minor: true, cell: (d) => <Text value={d.branch ?? ""} /> },
                      { title: "Kind", minor: true, cell: (d) => (d.environmentType ? <Badge>{d.environmentType.toLowerCase().replace("_", " ")}</Badge> : null) },
                    ]}
                    actions={(d) => (
                      <span class="buttons">
                        {!d.isDefault && may("CustomDomainsService_update") && <button type="button" class="quiet" aria-label={`Serve ${d.deploymentName}`} onClick={() => setServing(d)}>Serve</button>}
                        {may("CustomDomainsService_delete") && <button type="button" class="quiet" aria-label={`Remove ${d.deploymentName}`} onClick={() => setLeaving(d)}>Remove</button>}
                      </span>
                    )}
                  />
                )}
            </Section>
            <Certificate domain={data} onUpload={() => setOpen("certificate")} onDelete={() => setOpen("no-certificate")} />
            {open === "lead" && <Lead domain={data} etag={etag} onClose={close} onSaved={domain.reload} />}
            {open === "also" && <Also domain={data} onClose={close} onSaved={domain.reload} />}
            {serving && <Serve hostname={hostname} target={serving} onClose={() => setServing(undefined)} onSaved={domain.reload} />}
            {open === "certificate" && <Upload domain={data} etag={etag} onClose={close} onSaved={domain.reload} />}
            {open === "no-certificate" && <DeleteCertificate hostname={hostname} onClose={close} onSaved={domain.reload} />}
            {open === "delete" && <Delete domain={data} onClose={close} />}
            {leaving && <Leave hostname={hostname} target={leaving} onClose={() => setLeaving(undefined)} onSaved={domain.reload} />}
          </>
        )}
      </Show>
    </>
  );
}

/** The DNS records to create. */
function Records({ domain, resource }: { domain: Domain; resource: Resource<Domain> }) {
  const verify = useChange("CustomDomainsService_verify");
  const proof = domain.ownershipVerification;
  const cname = domain.deployments[0]?.cname;
  const records = [...(proof ? [{ why: "proves that the hostname is yours", ...proof }] : []), ...(cname ? [{ why: "leads callers to the gateway", type: "CNAME", name: domain.hostname, value: cname }] : [])];
  return (
    <Section
      title="DNS"
      actions={proof && may("CustomDomainsService_verify") && (
        <button
          type="button" class="primary" aria-disabled={verify.busy}
          onClick={async () => {
            const answer = await verify.run({ path: { accountName: account(), hostname: domain.hostname } });
            if (answer) resource.reload();
          }}
        >{verify.busy ? "Looking…" : "Look for the record now"}</button>
      )}
    >
      {verify.problem && <ProblemPanel problem={verify.problem} compact />}
      {proof
        ? <Loading what="Set the TXT record where the zone is kept. It is looked for by itself for 7 days, and this page follows" />
        : <p><Badge tone="good">proven</Badge> The hostname is yours; its TXT record may go.</p>}
      {records.map((r) => (
        <Details
          key={r.type}
          entries={[
            [`Record that ${r.why}`, <strong>{r.type}</strong>],
            ["Its name", <><code><Text value={r.name} /></code> <Copy text={r.name} what={`Copy the name of the ${r.type} record`} /></>],
            ["Its value", <><code><Text value={r.value} /></code> <Copy text={r.value} what={`Copy the value of the ${r.type} record`} /></>],
          ]}
        />
      ))}
    </Section>
  );
}

/** The certificate of the domain, and the progress of an ACME certificate. */
function Certificate({ domain, onUpload, onDelete }: { domain: Domain; onUpload: () => void; onDelete: () => void }) {
  const { certificate } = domain;
  const upload = may("CustomDomainsService_uploadCertificate") && domain.provider !== "alias" && domain.status === "active";
  return (
    <Section
      title="Certificate"
      actions={(
        <>
          {upload && <button type="button" onClick={onUpload}>{certificate ? "Upload another one" : "Upload a certificate"}</button>}
          {certificate?.source === "uploaded" && may("CustomDomainsService_deleteCertificate") && <button type="button" class="danger" onClick={onDelete}>Delete the certificate</button>}
        </>
      )}
    >
      {!certificate && (
        <Empty title="No certificate">
          <p>{domain.provider === "alias" ? "An alias has none: TLS ends before the gateway." : domain.status === "pending" ? "One can be uploaded when the hostname is proven." : "The gateway serves it without TLS alone until there is one."}</p>
        </Empty>
      )}
      {certificate?.message && <div class="problem compact" role="alert"><p class="problem-title">The last attempt came to nothing</p><p><Text value={certificate.message} /></p></div>}
      {certificate && (
        <Details
          entries={[
            ["State", <Badge tone={certificate.status === "active" ? "good" : certificate.status === "failed" ? "bad" : "warn"}>{certificate.status}</Badge>],
            ["From", certificate.source === "acme" ? "an authority, renewed by itself" : "an upload: renew it yourself"],
            ["Issuer", certificate.issuer && <Text value={certificate.issuer} />],
            ["Valid from", certificate.validFrom && <Time value={certificate.validFrom} absolute />],
            ["Ends", certificate.validTo && <Expiry value={certificate.validTo} absolute />],
            ["Next attempt", certificate.renewsOn && <Time value={certificate.renewsOn} absolute />],
          ]}
        />
      )}
    </Section>
  );
}

/** Returns the deployment that is served at a hostname, or "" if there is none. */
function served(domain: Domain): string {
  return domain.deployments.find((d) => d.isDefault)?.deploymentName ?? "";
}

function Lead({ domain, etag, onClose, onSaved }: { domain: Domain; etag: string; onClose: () => void; onSaved: () => void }) {
  const path = { accountName: account() };
  const edit = useEdit("CustomDomainsService_update", "CustomDomainsService_read", { path: { ...path, hostname: domain.hostname } });
  const [base, setBase] = useState({ served: served(domain), etag });
  const [deployment, setDeployment] = useState(base.served);
  const theirs = edit.conflict?.data;
  const save = async (ifMatch: string) => {
    const answer = await edit.run({ path, body: { hostname: domain.hostname, ...(deployment === "" ? {} : { deploymentName: deployment }) }, ifMatch });
    if (!answer) return;
    notify(answer.data.deploymentName ? `${visible(domain.hostname)} leads to ${visible(answer.data.deploymentName)}.` : `${visible(domain.hostname)} leads nowhere.`);
    onSaved();
    if (edit.here()) onClose();
  };
  return (
    <>
      <Dialog title={`What ${visible(domain.hostname)} serves`} onClose={onClose}>
        <Form submit="Save" busy={edit.busy} problem={edit.problem} dirty={deployment !== base.served} onCancel={onClose} onSubmit={() => void save(base.etag)}>
          <TextField label="Deployment" name="deploymentName" mono value={deployment} onInput={setDeployment} hint="Its name. It is served in place of the one before; with none the hostname leads nowhere at all." />
        </Form>
      </Dialog>
      {theirs && (
        <Conflict
          what={visible(domain.hostname)} onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase({ served: served(theirs), etag: edit.conflict!.etag });
            setDeployment(served(theirs));
            edit.settle();
          }}
          versions={[{ label: "Deployment", mine: deployment, theirs: served(theirs) }]}
        />
      )}
    </>
  );
}

/** Adds a deployment to a hostname. */
function Also({ domain, onClose, onSaved }: { domain: Domain; onClose: () => void; onSaved: () => void }) {
  const change = useChange("CustomDomainsService_create");
  const [deployment, setDeployment] = useState("");
  const [first, setFirst] = useState(false);
  return (
    <Dialog title={`Add a deployment to ${visible(domain.hostname)}`} onClose={onClose}>
      <Form
        submit="Add" busy={change.busy} problem={change.problem} dirty={deployment !== ""} onCancel={onClose}
        onSubmit={async () => {
          const body = { hostname: domain.hostname, deploymentName: deployment, isDefault: first, isAlias: domain.provider === "alias" };
          if (!(await change.run({ path: { accountName: account() }, body }))) return;
          notify(`${visible(domain.hostname)} leads to ${visible(deployment)} as well.`);
          onSaved();
          if (change.here()) onClose();
        }}
      >
        <TextField label="Deployment" name="deploymentName" required mono value={deployment} onInput={setDeployment} hint="Its name." />
        <CheckField label="Serve this deployment" name="isDefault" value={first} onInput={setFirst} hint="In place of the one that is served now, which stays in the list." />
      </Form>
    </Dialog>
  );
}

/** Makes another deployment of the hostname the one that is served. */
function Serve({ hostname, target, onClose, onSaved }: { hostname: string; target: Target; onClose: () => void; onSaved: () => void }) {
  const change = useChange("CustomDomainsService_update");
  const deploymentName = target.deploymentName!;
  return (
    <Confirm
      title={`Serve ${visible(deploymentName)} at ${visible(hostname)}?`} submit="Serve it" busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright domain update :hostname --deployment :deployment" values={{ hostname, deployment: deploymentName }}
      onConfirm={async () => {
        if (!(await change.run({ path: { accountName: account() }, body: { hostname, deploymentName } }))) return;
        notify(`${visible(hostname)} serves ${visible(deploymentName)}.`);
        onSaved();
        if (change.here()) onClose();
      }}
    ><p>The gateway goes by it 5 seconds later.</p></Confirm>
  );
}

/** Uploads a certificate with its key. Only the form stores the key, and it clears the key after sending it. */
function Upload({ domain, etag, onClose, onSaved }: { domain: Domain; etag: string; onClose: () => void; onSaved: () => void }) {
  const path = { accountName: account(), hostname: domain.hostname };
  const edit = useEdit("CustomDomainsService_uploadCertificate", "CustomDomainsService_read", { path });
  // The form changes the version that was there when it was opened.
  const [seen] = useState(etag);
  const [certificate, setCertificate] = useState("");
  const [key, setKey] = useState("");
  const theirs = edit.conflict;
  const ends = (d: Domain) => (d.certificate ? `${d.certificate.source}, until ${d.certificate.validTo ?? "unknown"}` : "none");
  const save = async (ifMatch: string) => {
    const answer = await edit.run({ path, body: { certificate, key }, ifMatch });
    if (!answer) return;
    setKey("");
    setCertificate("");
    notify(`${visible(domain.hostname)} is served with the certificate within 5 seconds.`);
    onSaved();
    if (edit.here()) onClose();
  };
  return (
    <>
      <Dialog title={`Upload a certificate for ${visible(domain.hostname)}`} onClose={onClose} wide>
        <Form submit="Upload" busy={edit.busy} problem={edit.problem} dirty={certificate !== "" || key !== ""} onCancel={onClose} onSubmit={() => void save(seen)}>
          <PemField label="Certificate" name="certificate" required value={certificate} onInput={setCertificate} hint="In PEM, with its intermediates behind it. The hostname has to be among its alternative names." />
          <PemField label="Private key" name="key" required secret value={key} onInput={setKey} hint="In PEM: RSA, ECDSA or Ed25519, not encrypted. It is sealed, and never shown again." />
        </Form>
      </Dialog>
      {theirs && (
        <Conflict
          what={visible(domain.hostname)} onClose={edit.settle} onMine={() => void save(theirs.etag)}
          onTheirs={() => {
            onSaved();
            onClose();
          }}
          versions={[{ label: "Certificate", mine: "what you have typed", theirs: ends(theirs.data) }]}
        />
      )}
    </>
  );
}

function DeleteCertificate({ hostname, onClose, onSaved }: { hostname: string; onClose: () => void; onSaved: () => void }) {
  const change = useChange("CustomDomainsService_deleteCertificate");
  return (
    <Confirm
      title={`Delete the certificate of ${visible(hostname)}?`} submit="Delete it" danger busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright domain certificate delete :hostname" values={{ hostname }}
      onConfirm={async () => {
        const answer = await change.run({ path: { accountName: account(), hostname } });
        if (!answer) return;
        notify(`The uploaded certificate of ${visible(hostname)} is deleted.`);
        onSaved();
        if (change.here()) onClose();
      }}
    ><p>Where the installation obtains certificates from an authority it does so from now on, and serves this one until that is there. Otherwise the hostname is not served by TLS any more, 5 seconds later.</p></Confirm>
  );
}

function Leave({ hostname, target, onClose, onSaved }: { hostname: string; target: Target; onClose: () => void; onSaved: () => void }) {
  const change = useChange("CustomDomainsService_delete");
  const deploymentName = target.deploymentName!;
  return (
    <Confirm
      title={`Lead ${visible(hostname)} to ${visible(deploymentName)} no more?`} submit="Remove it" danger busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright domain delete :hostname --deployment :deployment" values={{ hostname, deployment: deploymentName }}
      onConfirm={async () => {
        if (!(await change.run({ path: { accountName: account() }, query: { hostname, deploymentName } }))) return;
        notify(`${visible(hostname)} leads to ${visible(deploymentName)} no more.`);
        onSaved();
        if (change.here()) onClose();
      }}
    ><p>The custom domain stays. The gateway serves the deployment at it no more 5 seconds later.</p></Confirm>
  );
}

function Delete({ domain, onClose }: { domain: Domain; onClose: () => void }) {
  const change = useChange("CustomDomainsService_delete");
  const { hostname } = domain;
  return (
    <ConfirmDelete
      noun="custom domain" name={hostname} busy={change.busy} problem={change.problem} onClose={onClose} cli="gatewright domain delete :hostname" values={{ hostname }}
      onConfirm={async () => {
        if (!(await change.run({ path: { accountName: account() }, query: { hostname } }))) return;
        notify(`The custom domain ${visible(hostname)} is deleted.`);
        if (change.here()) go(link("/domains"), true);
      }}
    ><p>{domain.certificate ? "With it goes its certificate. " : ""}It is served no more 5 seconds later, and may be another account’s then, if that proves it.</p></ConfirmDelete>
  );
}
