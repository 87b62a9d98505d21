import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { Cli } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { EndField, isOpen, timeOf, type End } from "../ui/end";
import { Form, SecretField, SelectField, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { Secret } from "../ui/secret";
import { visible } from "../ui/text";
import { many } from "../ui/value";
import type { ConsumerPath } from "./consumerpath";

/** The maximum number of keys that are created at once (docs/limits.md). */
const most = 1000;

const kinds = [["one", "one key"], ["own", "one key of your own"], ["many", "many keys"], ["theirs", "many keys of another system"]] as const;

/** A key to create. */
interface NewKey {
  key?: string;
  description?: string;
}

/** Parses one key per line. A line is a description or, for keys of another system, a key and then its description. */
export function keysIn(lines: string, theirs: boolean): NewKey[] {
  return lines.split("\n").map((l) => l.trim()).filter((l) => l !== "").map((line) => {
    if (!theirs) return { description: line };
    const [, key, description] = /^(\S+)\s*(.*)$/.exec(line)!;
    return { key: key!, ...(description ? { description } : {}) };
  });
}

/** Creates keys of a consumer, and shows generated keys once. */
export function CreateKeys({ path, retrievable, onClose, onDone }: { path: ConsumerPath; retrievable: boolean; onClose: () => void; onDone: () => void }) {
  const one = useChange("ApiKeyKeysService_create");
  const bulk = useChange("ApiKeyKeysService_bulkCreate");
  const [kind, setKind] = useState("one");
  const [description, setDescription] = useState("");
  const [own, setOwn] = useState("");
  const [lines, setLines] = useState("");
  const [end, setEnd] = useState<End>({ choice: "never", at: "" });
  const [tried, setTried] = useState(false);
  const [made, setMade] = useState<{ text: string; count: number }>();
  const several = kind === "many" || kind === "theirs";
  const change = several ? bulk : one;
  const keys = several ? keysIn(lines, kind === "theirs") : [];
  const linesFault = keys.length === 0 ? "Write a line for each key." : keys.length > most ? `They are ${many(keys.length, "key")}, of at most ${most} at once.` : undefined;
  const values = { bucket: path.bucketName, consumer: path.consumerName };
  if (made) {
    return (
      <Dialog title={made.count === 1 ? "The new key" : `The ${many(made.count, "new key")}`} {...(retrievable ? { onClose } : {})}>
        <Secret label={made.count === 1 ? "The new key" : "The new keys"} value={made.text} />
        {made.count > 1 && <p>A line for each, in the order of yours: the key, a tab, its description.</p>}
        <p>{retrievable ? "Copy and hand over. They can be revealed again from the list." : <strong>It is shown here and never again: copy it before you close this.</strong>}</p>
        <div class="buttons"><button type="button" class="primary" onClick={onClose}>Done</button></div>
      </Dialog>
    );
  }
  const submit = async () => {
    setTried(true);
    if (isOpen(end) || (several && linesFault) || (kind === "own" && own === "")) return;
    const time = timeOf(end);
    const until = time === null ? {} : { expiresOn: time };
    const answer = several
      ? (await bulk.run({ path, body: keys.map((k) => ({ ...k, ...until })) }))?.data.data
      : await one.run({ path, body: { ...until, ...(description === "" ? {} : { description }), ...(kind === "own" ? { key: own } : {}) } }).then((a) => a && [a.data]);
    if (!answer) return;
    notify(`${visible(path.consumerName)} has ${many(answer.length, "new key")}.`);
    onDone();
    if (!change.here()) return;
    if (kind === "own" || kind === "theirs") return onClose();
    setMade({ count: answer.length, text: answer.length === 1 ? (answer[0]!.key ?? "") : answer.map((k) => `${k.key ?? ""}\t${k.description ?? ""}`).join("\n") });
  };
  return (
    <Dialog title={`Create keys of ${visible(path.consumerName)}`} onClose={onClose}>
      <Form submit="Create" busy={change.busy} problem={change.problem} dirty={description + own + lines !== ""} onCancel={onClose} onSubmit={() => void submit()}>
        <SelectField label="What to make" name="kind" required value={kind} onInput={(k) => { setKind(k); setTried(false); }} options={kinds} />
        {kind === "own" && <SecretField label="Key" name="key" required value={own} onInput={setOwn} fault={tried && own === "" ? "Type the key." : undefined} hint="16 to 256 printable ASCII characters without a space. Leak detection does not find it." />}
        {!several && <TextField label="Description" name="description" value={description} onInput={setDescription} hint="What it is for." />}
        {kind === "many" && <TextField label="A description on each line" name="lines" required rows={6} value={lines} onInput={setLines} fault={tried ? linesFault : undefined} hint={keys.length > 0 ? `${many(keys.length, "key")}, all or none are made.` : "At most 1,000 lines."} />}
        {kind === "theirs" && <SecretField label="A key on each line" name="lines" required rows={6} value={lines} onInput={setLines} fault={tried ? linesFault : undefined} hint={keys.length > 0 ? `${many(keys.length, "key")}, all or none are made.` : "Behind the key, after a space, its description. At most 1,000 lines."} />}
        <EndField label={several ? "They end" : "Ends"} name="expiresOn" value={end} onInput={setEnd} first={[["never", "never"]]} tried={tried} />
      </Form>
      {several
        ? <Cli line="gatewright consumer key create --bucket :bucket --consumer :consumer --from keys.csv" values={values} />
        : <Cli line="gatewright consumer key create --bucket :bucket --consumer :consumer" values={values} />}
    </Dialog>
  );
}
