import { useEffect, useState } from "preact/hooks";
import { useChange } from "../api/change";
import type { Result } from "../api/client";
import { useEdit } from "../api/edit";
import { useResource } from "../api/resource";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link } from "../router";
import { ConfirmDelete } from "../ui/confirm";
import { Conflict } from "../ui/conflict";
import { Dialog } from "../ui/dialog";
import { Form, TextField } from "../ui/form";
import { isExact, JsonField, jsonText, objectIn } from "../ui/json";
import { notify } from "../ui/live";
import { PageHead, Section } from "../ui/page";
import { objectOf, pairsOf, PairsField, type Pairs } from "../ui/pairs";
import { Source } from "../ui/source";
import { Show } from "../ui/states";
import { Text, visible } from "../ui/text";
import { Details, many, Tags, Time } from "../ui/value";
import { Keys } from "./consumerkeys";
import type { ConsumerPath } from "./consumerpath";
import { Managers } from "./managers";
import { Revoked } from "./revoked";

type Consumer = Result<"ApiKeyConsumersService_read">;

/** The maximum size of metadata, in bytes of JSON (docs/limits.md). */
export const metadataBytes = 1024;

/** A consumer: its properties, its keys and its managers. */
export default function ConsumerPage({ params }: PageProps) {
  const bucket = params["bucket"]!;
  const name = params["consumer"]!;
  const path = { accountName: account(), bucketName: bucket, consumerName: name };
  const consumer = useResource("ApiKeyConsumersService_read", { path });
  const [open, setOpen] = useState<"" | "edit" | "delete">("");
  const ready = consumer.now.at === "ready";
  return (
    <>
      <PageHead
        title={name} cli="gatewright consumer get :consumer --bucket :bucket" values={{ bucket, consumer: name }}
        crumbs={[{ label: "Key buckets", href: link("/buckets") }, { label: bucket, href: link("/buckets/:bucket", { bucket }) }, { label: "Consumers", href: link("/buckets/:bucket/consumers", { bucket }) }]}
        actions={ready && (
          <>
            {may("ApiKeyConsumersService_update") && <button type="button" onClick={() => setOpen("edit")}>Edit</button>}
            {may("ApiKeyConsumersService_delete") && <button type="button" class="danger" onClick={() => setOpen("delete")}>Delete</button>}
          </>
        )}
      />
      <Show resource={consumer} what="Loading the consumer">
        {(data, etag) => (
          <>
            <Details
              entries={[
                ["Description", data.description && <Text value={data.description} lines />],
                ["Tags", <Tags tags={data.tags} />],
                ["Id", <code>{data.id}</code>],
                ["Created", <Time value={data.createdOn} absolute />],
                ["Changed", <Time value={data.updatedOn} absolute />],
              ]}
            />
            {jsonText(data.metadata) !== "" && <Section title="Metadata"><Source text={jsonText(data.metadata)} language="json" label={`Metadata of ${visible(name)}`} /></Section>}
            <Revoked of={data.id}>A gateway that has just believed a key asks again after a minute. Where a route sets a longer <code>cacheTtlSeconds</code> in its policy, it asks after that.</Revoked>
            {may("ApiKeyKeysService_list") && <Keys path={path} id={data.id} />}
            {may("ApiKeyConsumerManagers_list") && <Managers path={path} />}
            {open === "edit" && <Edit path={path} consumer={data} etag={etag} onClose={() => setOpen("")} onSaved={consumer.reload} />}
            {open === "delete" && <Delete path={path} onClose={() => setOpen("")} />}
          </>
        )}
      </Show>
    </>
  );
}

/** The fields of the edit form, as they are typed. */
interface Draft {
  description: string;
  tags: Pairs;
  metadata: string;
}

const draftOf = (c: Consumer): Draft => ({ description: c.description ?? "", tags: pairsOf(c.tags), metadata: jsonText(c.metadata) });
const said = (pairs: Pairs) => pairsOf(objectOf(pairs)).map(([n, v]) => `${n}=${v}`).join("\n");

function Edit({ path, consumer, etag, onClose, onSaved }: { path: ConsumerPath; consumer: Consumer; etag: string; onClose: () => void; onSaved: () => void }) {
  const edit = useEdit("ApiKeyConsumersService_update", "ApiKeyConsumersService_read", { path });
  // The form keeps its values when the page reads a newer version. The ETag shows whether both were changed.
  const [base, setBase] = useState({ draft: draftOf(consumer), etag, exact: isExact(consumer.metadata) });
  const [draft, setDraft] = useState(base.draft);
  const [tried, setTried] = useState(false);
  const data = objectIn(draft.metadata, metadataBytes);
  const dirty = draft.description !== base.draft.description || said(draft.tags) !== said(base.draft.tags) || draft.metadata !== base.draft.metadata;
  const save = async (ifMatch: string) => {
    setTried(true);
    if (base.exact && data.fault !== undefined) return;
    const body = {
      description: draft.description === "" ? null : draft.description, tags: objectOf(draft.tags),
      // Leave out metadata with numbers that the browser has rounded: what is left out stays unchanged.
      ...(base.exact ? { metadata: data.value ?? null } : {}),
    };
    if (!(await edit.run({ path, body, ifMatch }))) return;
    notify(`The consumer ${visible(path.consumerName)} is saved.`);
    onSaved();
    if (edit.here()) onClose();
  };
  const theirs = edit.conflict ? draftOf(edit.conflict.data) : undefined;
  return (
    <>
      <Dialog title={`Edit ${visible(path.consumerName)}`} onClose={onClose}>
        <Form submit="Save" busy={edit.busy} problem={edit.problem} dirty={dirty} onCancel={onClose} onSubmit={() => void save(base.etag)}>
          <TextField label="Description" name="description" value={draft.description} onInput={(description) => setDraft({ ...draft, description })} />
          <PairsField label="Tags" name="tags" noun="tag" value={draft.tags} onInput={(tags) => setDraft({ ...draft, tags })} hint="At most 5. They replace those that it has." />
          {base.exact
            ? <JsonField label="Metadata" name="metadata" value={draft.metadata} onInput={(metadata) => setDraft({ ...draft, metadata })} fault={tried ? data.fault : undefined} hint="A JSON object of at most 1,024 bytes. Gateways see it with the next check of each key." />
            : <p class="hint">The metadata has a number with more digits than a browser keeps, and stays what it is. Change it by the command <code>gatewright consumer update</code>.</p>}
        </Form>
      </Dialog>
      {theirs && (
        <Conflict
          what={`The consumer ${visible(path.consumerName)}`} onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase({ draft: theirs, etag: edit.conflict!.etag, exact: isExact(edit.conflict!.data.metadata) });
            setDraft(theirs);
            edit.settle();
          }}
          versions={[
            { label: "Description", mine: draft.description, theirs: theirs.description },
            { label: "Tags", mine: said(draft.tags), theirs: said(theirs.tags) },
            { label: "Metadata", mine: draft.metadata, theirs: theirs.metadata },
          ]}
        />
      )}
    </>
  );
}

function Delete({ path, onClose }: { path: ConsumerPath; onClose: () => void }) {
  const change = useChange("ApiKeyConsumersService_delete");
  const keys = useResource("ApiKeyKeysService_list", { path, query: { limit: 1, "key-format": "none" } });
  const managers = useResource("ApiKeyConsumerManagers_list", { path, query: { limit: 1 } });
  const [gone, setGone] = useState(false);
  useEffect(() => {
    if (gone) go(link("/buckets/:bucket/consumers", { bucket: path.bucketName }), true);
  }, [gone]);
  const counts = [
    ...(keys.now.at === "ready" ? [many(keys.now.data.total, "key")] : []),
    ...(managers.now.at === "ready" ? [many(managers.now.data.total, "manager")] : []),
  ];
  return (
    <ConfirmDelete
      noun="consumer" name={path.consumerName} busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright consumer delete :consumer --bucket :bucket" values={{ consumer: path.consumerName, bucket: path.bucketName }}
      onConfirm={async () => {
        if (!(await change.run({ path }))) return;
        notify(`The consumer ${visible(path.consumerName)} is deleted. Gateways that have believed its keys refuse them within a minute, or what their route says.`);
        setGone(true);
      }}
    >
      <p>
        {counts.length > 0 ? <>With it go <strong>{counts.join(" and ")}</strong>.</> : "With it go its keys and managers."}{" "}
        A gateway that has believed one of the keys refuses it within a minute, or after the <code>cacheTtlSeconds</code> of its route. It does not come back.
      </p>
    </ConfirmDelete>
  );
}
