import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useEdit } from "../api/edit";
import { useResource } from "../api/resource";
import { useRows, type RowOf } from "../api/rows";
import { may } from "../api/session";
import { ConfirmDelete } from "../ui/confirm";
import { Conflict } from "../ui/conflict";
import { Cli } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { EndField, endOf, isOpen, timeOf } from "../ui/end";
import { Form, SecretField, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { Section } from "../ui/page";
import { Secret } from "../ui/secret";
import { Empty, Loading, ProblemPanel, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, many, Time } from "../ui/value";
import type { ConsumerPath } from "./consumerpath";
import { CreateKeys } from "./newkeys";
import { RollKeys } from "./rollkeys";
import { revoked } from "./revoked";

export type Key = RowOf<"ApiKeyKeysService_list">;

/** Returns the text that stands for a key in a list: its last characters, or its ID. */
export const shownOf = (key: Key) => key.key ?? key.id;

/** Shows the end of a key, and whether it has expired. */
export function Ends({ at }: { at: string | null }) {
  if (at === null) return <span class="faint">never</span>;
  return new Date(at).getTime() <= Date.now() ? <span><Badge tone="warn">expired</Badge> <Time value={at} /></span> : <Time value={at} />;
}

/** The keys of a consumer, masked, and the forms that create, roll, reveal, change and revoke them. */
export function Keys({ path, id }: { path: ConsumerPath; id: string }) {
  const list = useRows("ApiKeyKeysService_list", { path, query: { limit: 100, "key-format": "masked" } });
  const bucket = useResource("ApiKeyBucketsService_read", may("ApiKeyBucketsService_read") ? { path: { accountName: path.accountName, bucketName: path.bucketName } } : null, { secret: true });
  const retrievable = bucket.now.at === "ready" && bucket.now.data.isRetrievable;
  const [open, setOpen] = useState<"" | "create" | "roll">("");
  const [chosen, choose] = useState<{ to: "reveal" | "change" | "revoke"; key: Key }>();
  const close = () => {
    setOpen("");
    choose(undefined);
  };
  return (
    <Section
      title="Keys"
      actions={(
        <>
          {may("ApiKeyConsumersService_rollKey") && bucket.now.at === "ready" && <button type="button" onClick={() => setOpen("roll")}>Roll the keys</button>}
          {may("ApiKeyKeysService_create") && <button type="button" data-create onClick={() => setOpen("create")}>Create keys</button>}
        </>
      )}
    >
      {list.problem && <ProblemPanel problem={list.problem} onRetry={list.rows.length > 0 ? list.more : list.reload} />}
      {list.rows.length === 0 && list.loading && <Loading what="Loading keys" />}
      {list.rows.length === 0 && list.complete && <Empty title="No key yet"><p>Without one the consumer can call nothing.</p></Empty>}
      {list.rows.length > 0 && (
        <Table<Key>
          caption="Keys" rows={list.rows} rowKey={(k) => k.id}
          columns={[
            { title: "Key", cell: (k) => <code><Text value={shownOf(k)} /></code> },
            { title: "Description", minor: true, by: (k) => k.description ?? "", cell: (k) => <Text value={k.description ?? ""} clamp /> },
            { title: "Ends", by: (k) => k.expiresOn ?? "9999", cell: (k) => <Ends at={k.expiresOn} /> },
            { title: "Created", minor: true, by: (k) => k.createdOn, cell: (k) => <Time value={k.createdOn} /> },
          ]}
          actions={(k) => (
            <span class="buttons">
              {retrievable && may("ApiKeyKeysService_get") && <button type="button" class="quiet" aria-label={`Reveal ${shownOf(k)}`} onClick={() => choose({ to: "reveal", key: k })}>Reveal</button>}
              {may("ApiKeyKeysService_update") && <button type="button" class="quiet" aria-label={`Change ${shownOf(k)}`} onClick={() => choose({ to: "change", key: k })}>Change</button>}
              {may("ApiKeyKeysService_delete") && <button type="button" class="quiet" aria-label={`Revoke ${shownOf(k)}`} onClick={() => choose({ to: "revoke", key: k })}>Revoke</button>}
            </span>
          )}
        />
      )}
      {list.rows.length > 0 && !list.complete && <p><button type="button" onClick={list.more}>{list.loading ? "One moment…" : `Load more of ${many(list.total ?? 0, "key")}`}</button></p>}
      {open === "create" && <CreateKeys path={path} retrievable={retrievable} onClose={close} onDone={list.reload} />}
      {open === "roll" && <RollKeys path={path} retrievable={retrievable} onClose={close} onDone={list.reload} onCreate={() => setOpen("create")} />}
      {chosen?.to === "reveal" && <Reveal path={path} shown={chosen.key} onClose={close} />}
      {chosen?.to === "change" && <Change path={path} shown={chosen.key} onClose={close} onDone={list.reload} />}
      {chosen?.to === "revoke" && <Revoke path={path} shown={chosen.key} onClose={close} onDone={() => { revoked(id, shownOf(chosen.key)); list.reload(); }} />}
    </Section>
  );
}

/** Shows a key of a bucket with retrievable keys, for as long as Secret shows it. */
function Reveal({ path, shown, onClose }: { path: ConsumerPath; shown: Key; onClose: () => void }) {
  const key = useResource("ApiKeyKeysService_get", { path: { ...path, keyId: shown.id }, query: { "key-format": "visible" } }, { secret: true });
  return (
    <Dialog title={`The key ${shownOf(shown)}`} onClose={onClose}>
      <Show resource={key} what="Fetching the key">{(data) => <Secret label="Key" value={data.key ?? ""} open />}</Show>
      <Cli line="gatewright consumer key get :key --bucket :bucket --consumer :consumer --reveal" values={{ key: shown.id, bucket: path.bucketName, consumer: path.consumerName }} />
    </Dialog>
  );
}

function Change({ path, shown, onClose, onDone }: { path: ConsumerPath; shown: Key; onClose: () => void; onDone: () => void }) {
  const there = useResource("ApiKeyKeysService_get", { path: { ...path, keyId: shown.id } });
  if (there.now.at !== "ready") return <Dialog title={`Change ${shownOf(shown)}`} onClose={onClose}><Show resource={there} what="Loading the key">{() => null}</Show></Dialog>;
  return <ChangeForm path={path} key={shown.id} shown={there.now.data} etag={there.now.etag} onClose={onClose} onDone={onDone} />;
}

function ChangeForm({ path, shown, etag, onClose, onDone }: { path: ConsumerPath; shown: Key; etag: string; onClose: () => void; onDone: () => void }) {
  const of = { ...path, keyId: shown.id };
  const edit = useEdit("ApiKeyKeysService_update", "ApiKeyKeysService_get", { path: of });
  const [base, setBase] = useState({ key: shown, etag });
  const [description, setDescription] = useState(shown.description ?? "");
  const [end, setEnd] = useState(endOf(shown.expiresOn));
  const [own, setOwn] = useState("");
  const [tried, setTried] = useState(false);
  const was = endOf(base.key.expiresOn);
  const moved = end.choice !== was.choice || (end.choice === "at" && end.at !== was.at);
  const theirs = edit.conflict?.data;
  const save = async (ifMatch: string) => {
    setTried(true);
    if (isOpen(end)) return;
    // Do not write an end that was not changed: the field has no fractions of a second.
    const body = { description: description === "" ? null : description, ...(moved ? { expiresOn: timeOf(end) } : {}), ...(own === "" ? {} : { key: own }) };
    if (!(await edit.run({ path: of, body, ifMatch }))) return;
    notify(`The key ${shownOf(shown)} is saved.`);
    onDone();
    if (edit.here()) onClose();
  };
  const told = (iso: string | null | undefined) => iso ?? "never";
  return (
    <>
      <Dialog title={`Change ${shownOf(shown)}`} onClose={onClose}>
        <Form submit="Save" busy={edit.busy} problem={edit.problem} dirty={description !== (base.key.description ?? "") || moved || own !== ""} onCancel={onClose} onSubmit={() => void save(base.etag)}>
          <TextField label="Description" name="description" value={description} onInput={setDescription} />
          <EndField label="Ends" name="expiresOn" value={end} onInput={setEnd} first={[["never", "never"], ["now", "now"]]} tried={tried} />
          <SecretField label="Another key in its place" name="key" value={own} onInput={setOwn} hint="One of your own, of 16 to 256 printable ASCII characters. It ends the earlier one at once." />
        </Form>
        <Cli line="gatewright consumer key update :key --bucket :bucket --consumer :consumer --expires-in 24h" values={{ key: shown.id, bucket: path.bucketName, consumer: path.consumerName }} />
      </Dialog>
      {theirs && (
        <Conflict
          what={`The key ${shownOf(shown)}`} onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase({ key: theirs, etag: edit.conflict!.etag });
            setDescription(theirs.description ?? "");
            setEnd(endOf(theirs.expiresOn));
            setOwn("");
            edit.settle();
          }}
          versions={[
            { label: "Description", mine: description, theirs: theirs.description ?? "" },
            { label: "Ends", mine: moved ? told(timeOf(end)) : told(base.key.expiresOn), theirs: told(theirs.expiresOn) },
            { label: "Key", mine: own === "" ? shownOf(base.key) : "what you have typed, a secret", theirs: shownOf(theirs) },
          ]}
        />
      )}
    </>
  );
}

function Revoke({ path, shown, onClose, onDone }: { path: ConsumerPath; shown: Key; onClose: () => void; onDone: () => void }) {
  const change = useChange("ApiKeyKeysService_delete");
  return (
    <ConfirmDelete
      noun="key" name={shownOf(shown).replace(/^\*+/, "")} verb="Revoke" busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright consumer key delete :key --bucket :bucket --consumer :consumer" values={{ key: shown.id, bucket: path.bucketName, consumer: path.consumerName }}
      onConfirm={async () => {
        if (!(await change.run({ path: { ...path, keyId: shown.id } }))) return;
        notify(`The key ${shownOf(shown)} is revoked.`);
        onDone();
        if (change.here()) onClose();
      }}
    >
      {shown.description && <p>It is <Text value={shown.description} />.</p>}
      <p>
        {visible(path.consumerName)} can call nothing by it any more. A gateway that has just believed it refuses it within a minute, or after the <code>cacheTtlSeconds</code> of its route.
        It does not come back.
      </p>
    </ConfirmDelete>
  );
}
