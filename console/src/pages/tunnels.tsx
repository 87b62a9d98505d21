import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import type { Result } from "../api/client";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { Dialog } from "../ui/dialog";
import { Form, TextField } from "../ui/form";
import { Listed } from "../ui/listed";
import { notify } from "../ui/live";
import { PageHead } from "../ui/page";
import { Search } from "../ui/search";
import { Secret } from "../ui/secret";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";

type Tunnel = RowOf<"TunnelService_list">;

/** The tunnels of the account, and the form that creates one. */
export default function Tunnels(_: PageProps) {
  const query = useQuery();
  const list = useRows("TunnelService_list", { path: { accountName: account() } });
  const want = (query.get("find") ?? "").toLowerCase();
  const rows = list.rows.filter((t) => t.name.toLowerCase().includes(want) || t.id.toLowerCase().includes(want));
  const create = may("TunnelService_create");
  return (
    <>
      <PageHead
        title="Tunnels" cli="gatewright tunnel list"
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Create a tunnel</button>}
      >A tunnel leads to services that only machines of yours reach. An agent beside them dials out and shows the tunnel’s token; no port of your network is open.</PageHead>
      <Listed list={list} noun="tunnel" empty={create ? <p>Create one, start an agent with its token, and say which services are behind it.</p> : <p>This key sees none.</p>}>
        <Search label="Filter by name or id" count={rows.length} noun="tunnel" />
        <Table<Tunnel>
          caption="Tunnels" rows={rows} rowKey={(t) => t.id}
          columns={[
            { title: "Name", by: (t) => t.name, cell: (t) => (may("TunnelService_read") ? <a href={link("/tunnels/:tunnel", { tunnel: t.id })}><Text value={t.name} /></a> : <Text value={t.name} />) },
            { title: "Id", cell: (t) => <code><Text value={t.id} /></code> },
          ]}
        />
      </Listed>
      {create && query.get("create") === "yes" && <Create onClose={() => setQuery({ create: "" })} />}
    </>
  );
}

function Create({ onClose }: { onClose: () => void }) {
  const change = useChange("TunnelService_create");
  const [name, setName] = useState("");
  const [made, setMade] = useState<Result<"TunnelService_create">>();
  if (made) return <Made tunnel={made} />;
  return (
    <Dialog title="Create a tunnel" onClose={onClose}>
      <Form
        submit="Create" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={name !== ""}
        onSubmit={async () => {
          const answer = await change.run({ path: { accountName: account() }, body: { name } });
          if (!answer) return;
          notify(`The tunnel ${visible(answer.data.name)} is created.`);
          setMade(answer.data);
        }}
      >
        <TextField label="Name" name="name" required mono value={name} onInput={setName} hint="3 to 24 letters, digits and hyphens, unique in the account." />
      </Form>
    </Dialog>
  );
}

/** The new tunnel with its token. Only this dialog has the token: it is in no address, and is removed with the dialog. */
function Made({ tunnel }: { tunnel: Result<"TunnelService_create"> }) {
  const open = () => go(link("/tunnels/:tunnel", { tunnel: tunnel.tunnelId }), true);
  return (
    <Dialog title={`The tunnel ${visible(tunnel.name)} is created`} onClose={open}>
      <p>Put its token into a file that only the agent’s user reads, on the machine beside your services, and start the agent there.</p>
      <Secret label="Token of the tunnel" value={tunnel.token} />
      <Connect />
      <div class="buttons"><button type="button" class="primary" onClick={open}>Say what is behind it</button></div>
    </Dialog>
  );
}

/** The command that starts an agent. Only the operator of the installation knows the address of the relay. */
export function Connect() {
  return <p class="connect"><code>gatewright tunnel connect --relay RELAY --token-file FILE</code></p>;
}
