import { useEffect, useState } from "preact/hooks";
import { useChange } from "../api/change";
import type { Result } from "../api/client";
import { useResource, type Resource } from "../api/resource";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { Confirm, ConfirmDelete } from "../ui/confirm";
import { notify } from "../ui/live";
import { PageHead, Section } from "../ui/page";
import { Secret } from "../ui/secret";
import { Loading, Show } from "../ui/states";
import { Text, visible } from "../ui/text";
import { Badge, Details, many } from "../ui/value";
import { Services } from "./services";
import { Connect } from "./tunnels";

type Tunnel = Result<"TunnelService_read">;

/** How often an operation is read, in milliseconds. */
const every = 2_000;

/** A tunnel: its token, the services behind it, and the forms that rotate the token and delete the tunnel; or the progress of its deletion. */
export default function TunnelPage({ params }: PageProps) {
  const id = params["tunnel"]!;
  const operation = useQuery().get("teardown");
  return operation ? <Teardown id={id} operation={operation} /> : <There id={id} />;
}

function There({ id }: { id: string }) {
  const path = { accountName: account(), tunnelId: id };
  const tunnel = useResource("TunnelService_read", { path }, { secret: true });
  const services = useResource("TunneledServicesService_getServiceConfiguration", may("TunneledServicesService_getServiceConfiguration") ? { path } : null);
  const operation = useQuery().get("provisioning");
  const [open, setOpen] = useState<"" | "rotate" | "delete">("");
  const ready = tunnel.now.at === "ready" ? tunnel.now.data : undefined;
  return (
    <>
      <PageHead
        title={ready?.name ?? "Tunnel"} crumbs={[{ label: "Tunnels", href: link("/tunnels") }]} cli="gatewright tunnel get :tunnel" values={{ tunnel: id }}
        actions={ready && (
          <>
            {may("TunnelService_update") && <button type="button" onClick={() => setOpen("rotate")}>Rotate the token</button>}
            {may("TunnelService_delete") && <button type="button" class="danger" onClick={() => setOpen("delete")}>Delete</button>}
          </>
        )}
      />
      <Show resource={tunnel} what="Loading the tunnel">
        {(data) => (
          <>
            <Details entries={[["Name", <Text value={data.name} />], ["Id", <code>{data.tunnelId}</code>]]} />
            <Section title="Connect an agent">
              <p>The agent runs beside your services. Put the token into a file that only its user reads; more agents with the same token share the load.</p>
              <Secret label="Token of the tunnel" value={data.token} />
              <Connect />
            </Section>
            {operation && <Provisioning id={id} operation={operation} />}
            {services.now.at !== "loading" || may("TunneledServicesService_getServiceConfiguration")
              ? <Services path={path} services={services} onPut={(put) => setQuery({ provisioning: put })} /> : null}
            {open === "rotate" && <Rotate tunnel={tunnel} id={id} name={data.name} onClose={() => setOpen("")} />}
            {open === "delete" && <Delete id={id} name={data.name} services={services.now.at === "ready" ? services.now.data.services.length : undefined} onClose={() => setOpen("")} />}
          </>
        )}
      </Show>
    </>
  );
}

/**
 * Shows the progress of the operation that applies the configuration of the services. The address has its ID, so that it is shown again after the page is
 * reloaded.
 */
function Provisioning({ id, operation }: { id: string; operation: string }) {
  const [ended, setEnded] = useState(false);
  const status = useResource("TunneledServicesService_getProvisioningStatus", { path: { accountName: account(), tunnelId: id, operationId: operation } }, { every: ended ? 0 : every });
  const state = status.now.at === "ready" ? status.now.data.status : "in-progress";
  useEffect(() => setEnded(state !== "in-progress"), [state, operation]);
  return (
    <Section title="Provisioning" actions={ended && <button type="button" class="quiet" onClick={() => setQuery({ provisioning: "" })}>Dismiss</button>}>
      <Show resource={status} what="Following the provisioning">
        {(data) => (data.status === "in-progress"
          ? <Loading what="The services are being made as they are configured" />
          : <p role="status"><Badge tone={data.status === "success" ? "good" : "bad"}>{data.status}</Badge> <Text value={data.message} />{data.details && <> <span class="faint"><Text value={data.details} /></span></>}</p>)}
      </Show>
    </Section>
  );
}

function Rotate({ tunnel, id, name, onClose }: { tunnel: Resource<Tunnel>; id: string; name: string; onClose: () => void }) {
  const change = useChange("TunnelService_update");
  return (
    <Confirm
      title={`Rotate the token of ${visible(name)}?`} submit="Rotate it" danger busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright tunnel rotate-token :tunnel" values={{ tunnel: id }}
      onConfirm={async () => {
        const answer = await change.run({ path: { accountName: account(), tunnelId: id } });
        if (!answer) return;
        tunnel.replace(answer);
        notify(`The tunnel ${visible(name)} has another token.`);
        if (change.here()) onClose();
      }}
    ><p>The token before opens nothing from then on: agents that have it lose their connections, and their services are not reached until they are given the new one.</p></Confirm>
  );
}

function Delete({ id, name, services, onClose }: { id: string; name: string; services: number | undefined; onClose: () => void }) {
  const change = useChange("TunnelService_delete");
  return (
    <ConfirmDelete
      noun="tunnel" name={name} busy={change.busy} problem={change.problem} onClose={onClose} cli="gatewright tunnel delete :tunnel" values={{ tunnel: id }}
      onConfirm={async () => {
        const begun = await change.run({ path: { accountName: account(), tunnelId: id } });
        if (!begun) return;
        if (!change.here()) return notify(`The deletion of the tunnel ${visible(name)} is begun.`);
        // Without the ID of the deletion, only the list shows whether the tunnel still exists.
        if (!begun.data) return go(link("/tunnels"), true);
        go(link("/tunnels/:tunnel", { tunnel: id }, { teardown: begun.data.id }), true);
      }}
    >
      <p>
        {services === undefined ? "With it go the services behind it. " : <>With it go <strong>{many(services, "service")}</strong>. </>}
        Its token opens nothing any more, agents are sent away, and routes that call its services fail. It does not come back.
      </p>
    </ConfirmDelete>
  );
}

/** Shows the progress of a deletion. */
function Teardown({ id, operation }: { id: string; operation: string }) {
  const [ended, setEnded] = useState(false);
  const status = useResource("TunnelService_getProvisioningStatus", { path: { accountName: account(), tunnelId: id, operationId: operation } }, { every: ended ? 0 : every });
  const state = status.now.at === "ready" ? status.now.data.status : "in-progress";
  useEffect(() => {
    setEnded(state !== "in-progress");
    if (state === "success") {
      notify("The tunnel is torn down.");
      go(link("/tunnels"));
    }
  }, [state]);
  return (
    <>
      <PageHead title="A tunnel that is torn down" crumbs={[{ label: "Tunnels", href: link("/tunnels") }]} />
      <Show resource={status} what="Following the deletion">
        {(data) => (
          <>
            {data.status === "in-progress" && <Loading what="Its services are being removed" />}
            {data.status === "error" && <div class="problem" role="alert"><p class="problem-title">It has failed</p><p><Text value={data.message} /> <Text value={data.details ?? ""} /></p></div>}
          </>
        )}
      </Show>
      <p class="faint">The tunnel is gone already; the operation <code>{operation}</code> goes on by itself: you may leave this page.</p>
    </>
  );
}
