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
import { notify } from "../ui/live";
import { PageHead } from "../ui/page";
import { objectOf, pairsOf, PairsField, type Pairs } from "../ui/pairs";
import { Secret } from "../ui/secret";
import { Show } from "../ui/states";
import { Text, visible } from "../ui/text";
import { Badge, Details, many, Tags, Time } from "../ui/value";

type Bucket = Result<"ApiKeyBucketsService_read">;

/** A key bucket: its properties, and the forms that change and delete it. */
export default function BucketPage({ params }: PageProps) {
  const name = params["bucket"]!;
  const bucket = useResource("ApiKeyBucketsService_read", { path: { accountName: account(), bucketName: name } }, { secret: true });
  const [open, setOpen] = useState<"" | "edit" | "delete">("");
  const ready = bucket.now.at === "ready";
  return (
    <>
      <PageHead
        title={name} crumbs={[{ label: "Key buckets", href: link("/buckets") }]} cli="gatewright bucket get :bucket" values={{ bucket: name }}
        actions={ready && (
          <>
            {may("ApiKeyConsumersService_list") && <a class="button" href={link("/buckets/:bucket/consumers", { bucket: name })}>Consumers</a>}
            {may("ApiKeyBucketsService_update") && <button type="button" onClick={() => setOpen("edit")}>Edit</button>}
            {may("ApiKeyBucketsService_delete") && <button type="button" class="danger" onClick={() => setOpen("delete")}>Delete</button>}
          </>
        )}
      />
      <Show resource={bucket} what="Loading the key bucket">
        {(data, etag) => (
          <>
            <Details
              entries={[
                ["Description", data.description && <Text value={data.description} lines />],
                ["Tags", <Tags tags={data.tags} />],
                ["Keys can be shown again", data.isRetrievable ? <Badge>yes</Badge> : <Badge tone="accent">no, once only</Badge>],
                ["Id", <code>{data.id}</code>],
                ["Created", <Time value={data.createdOn} absolute />],
                ["Changed", <Time value={data.updatedOn} absolute />],
              ]}
            />
            {data.token && <div class="section"><Secret label="Token that connects to the bucket" value={data.token} /></div>}
            {open === "edit" && <Edit bucket={data} etag={etag} onClose={() => setOpen("")} onSaved={bucket.reload} />}
            {open === "delete" && <Delete bucket={data} onClose={() => setOpen("")} />}
          </>
        )}
      </Show>
    </>
  );
}

function Edit({ bucket, etag, onClose, onSaved }: { bucket: Bucket; etag: string; onClose: () => void; onSaved: () => void }) {
  const path = { accountName: account(), bucketName: bucket.name };
  const edit = useEdit("ApiKeyBucketsService_update", "ApiKeyBucketsService_read", { path });
  // The form keeps its values when the page reads a newer version. The ETag shows whether both were changed.
  const [base, setBase] = useState({ bucket, etag });
  const [description, setDescription] = useState(bucket.description ?? "");
  const [tags, setTags] = useState<Pairs>(pairsOf(bucket.tags));
  const said = (pairs: Pairs) => pairs.map(([n, v]) => `${n}=${v}`).join("\n");
  const dirty = description !== (base.bucket.description ?? "") || said(tags) !== said(pairsOf(base.bucket.tags));
  const save = async (ifMatch: string) => {
    const answer = await edit.run({ path, body: { description, tags: objectOf(tags) }, ifMatch });
    if (!answer) return;
    notify(`The key bucket ${visible(bucket.name)} is saved.`);
    onSaved();
    if (edit.here()) onClose();
  };
  const theirs = edit.conflict?.data;
  return (
    <>
      <Dialog title={`Edit ${visible(bucket.name)}`} onClose={onClose}>
        <Form submit="Save" busy={edit.busy} problem={edit.problem} dirty={dirty} onCancel={onClose} onSubmit={() => void save(base.etag)}>
          <TextField label="Description" name="description" value={description} onInput={setDescription} />
          <PairsField label="Tags" name="tags" noun="tag" value={tags} onInput={setTags} hint={<>They replace those that it has. <code>project</code> and <code>environmentType</code> stay what they were.</>} />
        </Form>
      </Dialog>
      {theirs && (
        <Conflict
          what={`The key bucket ${visible(bucket.name)}`} onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase({ bucket: theirs, etag: edit.conflict!.etag });
            setDescription(theirs.description ?? "");
            setTags(pairsOf(theirs.tags));
            edit.settle();
          }}
          versions={[
            { label: "Description", mine: description, theirs: theirs.description ?? "" },
            { label: "Tags", mine: said(pairsOf(objectOf(tags))), theirs: said(pairsOf(theirs.tags)) },
          ]}
        />
      )}
    </>
  );
}

function Delete({ bucket, onClose }: { bucket: Bucket; onClose: () => void }) {
  const change = useChange("ApiKeyBucketsService_delete");
  const path = { accountName: account(), bucketName: bucket.name };
  const consumers = useResource("ApiKeyConsumersService_list", { path, query: { limit: 1 } });
  const [gone, setGone] = useState(false);
  useEffect(() => {
    if (gone) go(link("/buckets"), true);
  }, [gone]);
  return (
    <ConfirmDelete
      noun="key bucket" name={bucket.name} busy={change.busy} problem={change.problem} onClose={onClose} cli="gatewright bucket delete :bucket" values={{ bucket: bucket.name }}
      onConfirm={async () => {
        if (!(await change.run({ path }))) return;
        notify(`The key bucket ${visible(bucket.name)} is deleted.`);
        setGone(true);
      }}
    >
      <p>
        {consumers.now.at === "ready"
          ? <>With it go <strong>{many(consumers.now.data.total, "consumer")}</strong>, with all their keys and managers.</>
          : "With it go its consumers, with all their keys and managers."}{" "}
        Gateways refuse the keys within a minute. It does not come back.
      </p>
    </ConfirmDelete>
  );
}
