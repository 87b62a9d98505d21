import { useEffect, useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useResource } from "../api/resource";
import { useRows, type RowOf } from "../api/rows";
import { account, may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { given } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { FilterField } from "../ui/filter";
import { CheckField, Form, TextField } from "../ui/form";
import { JsonField, objectIn } from "../ui/json";
import { announce, notify } from "../ui/live";
import { PageHead } from "../ui/page";
import { objectOf, PairsField, type Pairs } from "../ui/pairs";
import { Secret } from "../ui/secret";
import { Empty, Loading, ProblemPanel } from "../ui/states";
import { visible } from "../ui/text";
import { Count, many } from "../ui/value";
import { VirtualTable } from "../ui/virtual";
import { metadataBytes } from "./consumer";

type Consumer = RowOf<"ApiKeyConsumersService_list">;

/** The command that shows the same, with the filters of the page. */
const command = { cli: "gatewright consumer list --bucket :bucket --name-prefix :prefix --tag :tag --manager-email :manager" };

/** The format of the time of a change. A Time in each row has a clock, and would take too long when rows are rendered again while scrolling. */
const changed = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

/** Parses a filter of tags, such as plan=gold, team=core. A comma belongs to a value if no name follows it. Returns undefined for an invalid filter. */
export function tagsIn(text: string): Record<string, string> | undefined {
  const out: Record<string, string> = {};
  for (const one of text.split(/,\s*(?=[^,=]+=)/)) {
    if (one.trim() === "") continue;
    const at = one.indexOf("=");
    if (at <= 0) return undefined;
    out[`tag.${one.slice(0, at).trim()}`] = one.slice(at + 1).trim();
  }
  return out;
}

/** The consumers of a key bucket, with filters by the beginning of the name, by tags and by manager, and the form that creates one. */
export default function Consumers({ params }: PageProps) {
  const bucket = params["bucket"]!;
  const query = useQuery();
  const path = { accountName: account(), bucketName: bucket };
  const prefix = query.get("prefix") ?? "";
  const tag = query.get("tag") ?? "";
  const manager = query.get("manager") ?? "";
  const filtered = prefix + tag + manager !== "";
  const badPrefix = prefix === "" || /^[a-z0-9_-]{1,128}$/.test(prefix) ? undefined : "Names have lower-case letters, digits, - and _ alone.";
  const tags = tagsIn(tag);
  const badTag = tags === undefined ? "Write it as name=value." : undefined;
  const wrong = badPrefix !== undefined || badTag !== undefined;
  const list = useRows("ApiKeyConsumersService_list", wrong ? null : {
    path, query: { limit: 1000, ...(prefix === "" ? {} : { "name-prefix": prefix }), ...(manager === "" ? {} : { "manager-email": manager }), ...(tag === "" ? {} : { tag: tags! }) },
  });
  const [all, setAll] = useState(false);
  // Read page by page until everything is loaded or a request fails.
  useEffect(() => {
    if (all && (list.complete || list.problem)) setAll(false);
    else if (all && !list.loading) list.more();
  }, [all, list.complete, list.loading, list.problem, list.more]);
  useEffect(() => {
    if (list.total !== undefined) announce(`${many(list.total, "consumer")}`);
  }, [list.total]);
  const create = may("ApiKeyConsumersService_create");
  // The command takes the flag once for each tag.
  const tagged = Object.entries(tags ?? {}).map(([n, v], i) => [`tag${i}`, `${n.slice(4)}=${v}`] as const);
  const values = { bucket, prefix, tag, manager, ...Object.fromEntries(tagged) };
  const cli = given(command.cli, values).replace(" --tag :tag", tagged.map(([n]) => ` --tag :${n}`).join(""));
  return (
    <>
      <PageHead
        title="Consumers" crumbs={[{ label: "Key buckets", href: link("/buckets") }, { label: bucket, href: link("/buckets/:bucket", { bucket }) }]}
        cli={cli} values={values}
        actions={create && <button type="button" class="primary" data-create onClick={() => setQuery({ create: "yes" }, false)}>Create a consumer</button>}
      >Who calls your APIs: partners, apps, people. Each has keys of its own, and its name reaches what is behind the gateway.</PageHead>
      <div class="filters">
        <FilterField label="Name begins with" name="prefix" fault={badPrefix} />
        <FilterField label="Tags" name="tag" fault={badTag} hint={<>Such as <code>plan=gold</code></>} />
        <FilterField label="Manager’s address" name="manager" />
        {list.total !== undefined && <span class="faint">{many(list.total, "consumer")}</span>}
      </div>
      {list.problem && <ProblemPanel problem={list.problem} onRetry={list.rows.length > 0 ? list.more : list.reload} />}
      {list.rows.length === 0 && list.loading && <Loading what="Loading consumers" />}
      {list.rows.length === 0 && list.complete && (filtered
        ? <Empty title="No consumer is like that"><p><button type="button" onClick={() => setQuery({ prefix: "", tag: "", manager: "" })}>Show all</button></p></Empty>
        : <Empty title="No consumer yet">{create && <p>Create one with its first key, and hand the key over.</p>}</Empty>)}
      {list.rows.length > 0 && (
        <>
          <VirtualTable<Consumer>
            caption={`Consumers of ${visible(bucket)}`} rows={list.rows} total={list.total} rowKey={(c) => c.id} onNear={list.more}
            onOpen={(c) => go(link("/buckets/:bucket/consumers/:consumer", { bucket, consumer: c.name }))}
            columns={[
              { title: "Name", cell: (c) => <a href={link("/buckets/:bucket/consumers/:consumer", { bucket, consumer: c.name })}>{visible(c.name)}</a> },
              { title: "Description", minor: true, cell: (c) => visible(c.description ?? "") },
              { title: "Tags", minor: true, cell: (c) => visible(Object.entries(c.tags ?? {}).map(([n, v]) => `${n}=${v}`).join(", ")) },
              { title: "Changed", cell: (c) => changed.format(new Date(c.updatedOn)) },
            ]}
          />
          {!list.complete && (
            <p class="buttons loaded">
              <span class="faint"><Count value={list.rows.length} /> of {many(list.total ?? 0, "consumer")} are loaded; more come as they are scrolled to.</span>
              <button type="button" onClick={() => setAll(!all)}>{all ? "Stop" : "Load all"}</button>
            </p>
          )}
        </>
      )}
      {create && query.get("create") === "yes" && <Create bucket={bucket} onClose={() => setQuery({ create: "" })} />}
    </>
  );
}

function Create({ bucket, onClose }: { bucket: string; onClose: () => void }) {
  const change = useChange("ApiKeyConsumersService_create");
  const path = { accountName: account(), bucketName: bucket };
  const there = useResource("ApiKeyBucketsService_read", may("ApiKeyBucketsService_read") ? { path } : null, { secret: true });
  const once = there.now.at === "ready" && !there.now.data.isRetrievable;
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [tags, setTags] = useState<Pairs>([]);
  const [metadata, setMetadata] = useState("");
  const [managers, setManagers] = useState("");
  const [withKey, setWithKey] = useState(true);
  const [tried, setTried] = useState(false);
  const [made, setMade] = useState<{ name: string; key: string }>();
  const data = objectIn(metadata, metadataBytes);
  const addresses = managers.split(/[\n,;]+/).map((m) => m.trim()).filter((m) => m !== "");
  const open = (consumer: string) => go(link("/buckets/:bucket/consumers/:consumer", { bucket, consumer }), true);
  if (made) {
    return (
      <Dialog title={`The key of ${visible(made.name)}`}>
        <Secret label="Its first key" value={made.key} />
        <p>{once ? <strong>It is shown here and never again: copy it before you go on.</strong> : "Copy it and hand it over. The page of the consumer can show it again."}</p>
        <div class="buttons"><button type="button" class="primary" onClick={() => open(made.name)}>Go on to the consumer</button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title="Create a consumer" onClose={onClose}>
      <Form
        submit="Create" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={name + description + metadata + managers !== "" || tags.length > 0}
        onSubmit={async () => {
          setTried(true);
          if (data.fault !== undefined) return;
          const body = {
            name, ...(description === "" ? {} : { description }), ...(tags.length > 0 ? { tags: objectOf(tags) } : {}), ...(data.value ? { metadata: data.value } : {}),
            ...(addresses.length > 0 ? { managers: addresses } : {}),
          };
          const answer = await change.run({ path, query: { "with-api-key": withKey }, body });
          if (!answer) return;
          notify(`The consumer ${visible(answer.data.name)} is created.`);
          const key = answer.data.apiKeys?.[0]?.key;
          if (key) setMade({ name: answer.data.name, key });
          else if (change.here()) open(answer.data.name);
        }}
      >
        <TextField label="Name" name="name" required mono value={name} onInput={setName} hint={<>Lower-case letters, digits, <code>-</code> and <code>_</code>, at most 128. It is the user’s <code>sub</code> in the gateway, and stays.</>} />
        <TextField label="Description" name="description" value={description} onInput={setDescription} />
        <PairsField label="Tags" name="tags" noun="tag" value={tags} onInput={setTags} hint="At most 5, to find it by." />
        <JsonField label="Metadata" name="metadata" value={metadata} onInput={setMetadata} fault={tried ? data.fault : undefined} hint={<>A JSON object of at most 1,024 bytes, which what is behind the gateway is told of the user.</>} />
        <TextField label="People to invite as managers" name="managers" rows={2} value={managers} onInput={setManagers} hint="An address on each line, at most 50." />
        <CheckField label="With a first key" name="with-api-key" value={withKey} onInput={setWithKey} />
      </Form>
    </Dialog>
  );
}
