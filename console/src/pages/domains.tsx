import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { Expiry } from "../ui/certificate";
import { Dialog } from "../ui/dialog";
import { CheckField, Form, TextField } from "../ui/form";
import { Listed } from "../ui/listed";
import { notify } from "../ui/live";
import { PageHead, PageLink } from "../ui/page";
import { Search } from "../ui/search";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge } from "../ui/value";

type Domain = RowOf<"CustomDomainsService_list">;

/** The custom domains of the account, and the form that creates one. */
export default function Domains(_: PageProps) {
  const query = useQuery();
  const list = useRows("CustomDomainsService_list", { path: { accountName: account() } });
  const want = (query.get("find") ?? "").toLowerCase();
  const rows = list.rows.filter((d) => [d.hostname, d.projectName, d.status, ...d.deployments.map((to) => to.deploymentName ?? "")].some((t) => t.toLowerCase().includes(want)));
  const create = may("CustomDomainsService_create");
  return (
    <>
      <PageHead
        title="Custom domains" cli="gatewright domain list"
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Add a custom domain</button>}
      >A hostname of yours at which a deployment is served. A record in your DNS proves that it is yours.</PageHead>
      <Listed list={list} noun="custom domain" empty={create ? <p>Add the first one; its page says what to set in the DNS.</p> : <p>This key sees none.</p>}>
        <Search label="Filter by hostname, project or deployment" count={rows.length} noun="custom domain" />
        <Table<Domain>
          caption="Custom domains" rows={rows} rowKey={(d) => d.id}
          columns={[
            { title: "Hostname", by: (d) => d.hostname, cell: (d) => <PageLink to="/domains/:domain" params={{ domain: d.hostname }}><Text value={d.hostname} /></PageLink> },
            { title: "Status", by: (d) => d.status, cell: (d) => <Status status={d.status} /> },
            { title: "Leads to", minor: true, by: (d) => d.deployments[0]?.deploymentName ?? "", cell: (d) => (d.deployments[0]?.deploymentName ? <Text value={d.deployments[0].deploymentName} /> : <span class="faint">nothing</span>) },
            {
              title: "Certificate ends", minor: true, by: (d) => d.certificate?.validTo ?? "",
              cell: (d) => (d.provider === "alias" ? <Badge>alias</Badge> : d.certificate ? (d.certificate.validTo ? <Expiry value={d.certificate.validTo} /> : <Badge tone={d.certificate.status === "failed" ? "bad" : "warn"}>{d.certificate.status}</Badge>) : <span class="faint">none</span>),
            },
          ]}
        />
      </Listed>
      {create && query.get("create") === "yes" && <Create onClose={() => setQuery({ create: "" })} />}
    </>
  );
}

/** Shows whether a hostname is verified. */
export function Status({ status }: { status: Domain["status"] }) {
  return <Badge tone={status === "active" ? "good" : "warn"}>{status === "active" ? "active" : "pending: not proven yet"}</Badge>;
}

function Create({ onClose }: { onClose: () => void }) {
  const change = useChange("CustomDomainsService_create");
  const [hostname, setHostname] = useState("");
  const [deployment, setDeployment] = useState("");
  const [alias, setAlias] = useState(false);
  const [first, setFirst] = useState(false);
  return (
    <Dialog title="Add a custom domain" onClose={onClose}>
      <Form
        submit="Add" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={hostname !== "" || deployment !== ""}
        onSubmit={async () => {
          const body = { hostname, isAlias: alias, ...(deployment === "" ? {} : { deploymentName: deployment, isDefault: first }) };
          const made = await change.run({ path: { accountName: account() }, body });
          if (!made) return;
          notify(`The custom domain ${visible(made.data.hostname)} is added.`);
          if (change.here()) go(link("/domains/:domain", { domain: made.data.hostname }), true);
        }}
      >
        <TextField label="Hostname" name="hostname" required mono value={hostname} onInput={setHostname} hint="Such as api.example.com." />
        <TextField label="Deployment" name="deploymentName" mono value={deployment} onInput={setDeployment} hint="What it leads to, by the deployment’s name. It can be given later." />
        {deployment !== "" && <CheckField label="Serve this deployment" name="isDefault" value={first} onInput={setFirst} hint="Where the hostname leads to other deployments already: this one is served from now on." />}
        <CheckField label="It is an alias: TLS ends before the gateway" name="isAlias" value={alias} onInput={setAlias} hint="At a proxy of yours. No certificate is kept for it then. It can’t be changed later." />
      </Form>
    </Dialog>
  );
}
