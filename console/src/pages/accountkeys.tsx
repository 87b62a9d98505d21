import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useRows, type RowOf } from "../api/rows";
import { account, leaveEnded, may, session, signOut } from "../api/session";
import type { PageProps } from "../registry";
import { setQuery, useQuery } from "../router";
import { ConfirmDelete } from "../ui/confirm";
import { CheckField } from "../ui/form";
import { notify } from "../ui/live";
import { PageHead } from "../ui/page";
import { Search } from "../ui/search";
import { Empty, Loading, ProblemPanel } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, many } from "../ui/value";
import { Ends } from "./consumerkeys";
import { CreateAccountKey } from "./newaccountkey";
import { Revoked, revoked } from "./revoked";

type Key = RowOf<"AccountKeysService_list">;

/** The name under which revoked account keys are counted down (Revoked). */
const here = "account keys";

const listed = (of: "all" | string[], none: string) => (of === "all" ? "all" : of.length === 0 ? none : of.join(", "));

/** The account keys that the session's key may see, and the forms that create and revoke one. */
export default function AccountKeys(_: PageProps) {
  const query = useQuery();
  const list = useRows("AccountKeysService_list", { path: { accountName: account() } });
  const [revoking, setRevoking] = useState<Key>();
  const now = session.get();
  const own = now.at === "in" ? now.session.sub : "";
  const want = (query.get("find") ?? "").toLowerCase();
  const rows = list.rows.filter((k) => [k.label, k.id, ...(k.scopes === "all" ? ["all"] : k.scopes)].some((t) => t.toLowerCase().includes(want)));
  const create = may("AccountKeysService_create");
  return (
    <>
      <PageHead
        title="Account keys" cli="gatewright account-key list"
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Create an account key</button>}
      >What manages the account: people, pipelines and tools, each with a key of its own that may no more than it needs. You see yours, and those that may no more than it.</PageHead>
      {list.problem && <ProblemPanel problem={list.problem} onRetry={list.rows.length > 0 ? list.more : list.reload} />}
      {list.rows.length === 0 && list.loading && <Loading what="Loading account keys" />}
      {list.rows.length === 0 && list.complete && <Empty title="No account key" />}
      {list.rows.length > 0 && (
        <>
          <Search label="Filter by label, id or scope" count={rows.length} noun="key" />
          <Table<Key>
            caption="Account keys" rows={rows} rowKey={(k) => k.id}
            columns={[
              { title: "Label", by: (k) => k.label, cell: (k) => <><Text value={k.label} clamp />{k.id === own && <> <Badge tone="accent">this key</Badge></>}<span class="faint mono under"><Text value={k.id} /></span></> },
              { title: "May", minor: true, cell: (k) => <><Text value={listed(k.scopes, "nothing")} clamp />{k.confirmDestructive && <> <Badge>asks before it removes</Badge></>}</> },
              { title: "Projects", minor: true, cell: (k) => <Text value={listed(k.projects, "none")} clamp /> },
              { title: "Environments", minor: true, cell: (k) => <Text value={k.environments.length === 3 ? "all" : listed(k.environments, "none")} /> },
              { title: "Ends", by: (k) => k.expiresOn ?? "9999", cell: (k) => <Ends at={k.expiresOn} /> },
              { title: "Used", minor: true, by: (k) => k.lastUsedOn ?? "", cell: (k) => (k.lastUsedOn ? <span class="day" title="The day, in UTC">{k.lastUsedOn}</span> : <span class="faint">never</span>) },
            ]}
            actions={(k) => may("AccountKeysService_delete") && <button type="button" class="quiet" aria-label={`Revoke ${visible(k.label)}`} onClick={() => setRevoking(k)}>Revoke</button>}
          />
          {!list.complete && <p><button type="button" onClick={list.more}>{list.loading ? "One moment…" : `Load more of ${many(list.total ?? 0, "key")}`}</button></p>}
        </>
      )}
      <Revoked of={here}>A process of the API that has just believed a key asks again within a minute.</Revoked>
      {create && query.get("create") === "yes" && <CreateAccountKey onClose={() => setQuery({ create: "" })} onMade={list.reload} />}
      {revoking && <Revoke of={revoking} own={revoking.id === own} onClose={() => setRevoking(undefined)} onDone={() => { revoked(here, revoking.label); list.reload(); }} />}
    </>
  );
}

function Revoke({ of, own, onClose, onDone }: { of: Key; own: boolean; onClose: () => void; onDone: () => void }) {
  const change = useChange("AccountKeysService_delete");
  const [force, setForce] = useState(false);
  // The API has said that this is the last key that can manage the account.
  const [last, setLast] = useState(false);
  if (change.problem?.status === 409 && !last) setLast(true);
  return (
    <ConfirmDelete
      noun="account key" name={of.label} verb="Revoke" busy={change.busy} problem={change.problem} onClose={onClose} cli="gatewright account-key delete :key" values={{ key: of.id }}
      onConfirm={async () => {
        const done = await change.run({ path: { accountName: account(), accountKeyId: of.id }, ...(force ? { query: { force: true } } : {}) });
        if (!done) return;
        notify(`The account key ${visible(of.label)} is revoked.`);
        if (own) await signOut().catch(leaveEnded);
        else {
          onDone();
          if (change.here()) onClose();
        }
      }}
    >
      {own && <p><strong>You are signed in with it: your session ends, and so do all others that were begun with it.</strong></p>}
      <p>
        Whatever calls with it is refused everywhere within a minute{of.lastUsedOn ? <>; it was last used on <strong>{of.lastUsedOn}</strong></> : "; it was never used"}. Sessions of this console that were begun with it end.
        An upload address that it was given works until its 15 minutes are over. It does not come back.
      </p>
      {last && <CheckField label="Revoke it, although it is the last that may everything" name="force" value={force} onInput={setForce} hint="Then no key makes or revokes all others: an operator has to make one beside the API." />}
    </ConfirmDelete>
  );
}
