import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useResource } from "../api/resource";
import { useRows } from "../api/rows";
import { may } from "../api/session";
import { Confirm } from "../ui/confirm";
import { Dialog } from "../ui/dialog";
import { Form, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { Section } from "../ui/page";
import { Empty, Loading, ProblemPanel } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, many, Time } from "../ui/value";
import type { ConsumerPath } from "./consumerpath";

/** A manager of a consumer, or a person who is invited to be one. */
interface Person {
  id: string;
  email: string;
  /** Undefined for a person who is invited. */
  sub?: string;
  createdOn: string;
}

/** The managers of a consumer and the invited persons, and the forms that add and remove them. */
export function Managers({ path }: { path: ConsumerPath }) {
  const list = useRows("ApiKeyConsumerManagers_list", { path });
  const invited = useResource("ApiKeyConsumersService_read", { path, query: { "include-manager-invites": true } });
  const [adding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<Person>();
  const invites: Person[] = invited.now.at === "ready" ? (invited.now.data.managerInvites ?? []) : [];
  const people: Person[] = [...list.rows, ...invites];
  const done = () => {
    list.reload();
    invited.reload();
  };
  return (
    <Section title="Managers" actions={may("ApiKeyConsumerManagers_create") && <button type="button" onClick={() => setAdding(true)}>Add a manager</button>}>
      {list.problem && <ProblemPanel problem={list.problem} onRetry={list.rows.length > 0 ? list.more : list.reload} />}
      {invited.now.at === "failed" && <ProblemPanel problem={invited.now.problem} onRetry={invited.reload} />}
      {people.length === 0 && list.loading && <Loading what="Loading managers" />}
      {people.length === 0 && list.complete && invited.now.at === "ready" && <Empty title="No manager"><p>People who look after the consumer in your own pages.</p></Empty>}
      {people.length > 0 && (
        <Table<Person>
          caption="Managers" rows={people} rowKey={(p) => p.id}
          columns={[
            { title: "Address", by: (p) => p.email, cell: (p) => <Text value={p.email} clamp /> },
            { title: "Signs in as", minor: true, cell: (p) => (p.sub === undefined ? <Badge tone="warn">invited</Badge> : <code><Text value={p.sub} clamp /></code>) },
            { title: "Since", minor: true, by: (p) => p.createdOn, cell: (p) => <Time value={p.createdOn} /> },
          ]}
          actions={(p) => may("ApiKeyConsumerManagers_delete") && <button type="button" class="quiet" aria-label={`Remove ${visible(p.email)}`} onClick={() => setRemoving(p)}>Remove</button>}
        />
      )}
      {list.rows.length > 0 && !list.complete && <p><button type="button" onClick={list.more}>{list.loading ? "One moment…" : `Load more of ${many(list.total ?? 0, "manager")}`}</button></p>}
      {adding && <Add path={path} onClose={() => setAdding(false)} onDone={done} />}
      {removing && <Remove path={path} person={removing} onClose={() => setRemoving(undefined)} onDone={done} />}
    </Section>
  );
}

function Add({ path, onClose, onDone }: { path: ConsumerPath; onClose: () => void; onDone: () => void }) {
  const change = useChange("ApiKeyConsumerManagers_create");
  const [email, setEmail] = useState("");
  const [sub, setSub] = useState("");
  return (
    <Dialog title="Add a manager" onClose={onClose}>
      <Form
        submit="Add" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={email + sub !== ""}
        onSubmit={async () => {
          if (!(await change.run({ path, body: { email, sub } }))) return;
          notify(`${visible(email)} is a manager of ${visible(path.consumerName)}.`);
          onDone();
          if (change.here()) onClose();
        }}
      >
        <TextField label="Address" name="email" required value={email} onInput={setEmail} hint="Who is invited by this address becomes a manager." />
        <TextField label="Identity where they sign in" name="sub" required mono value={sub} onInput={setSub} hint="Their sub, by which your own pages know them." />
      </Form>
    </Dialog>
  );
}

function Remove({ path, person, onClose, onDone }: { path: ConsumerPath; person: Person; onClose: () => void; onDone: () => void }) {
  const change = useChange("ApiKeyConsumerManagers_delete");
  const invited = person.sub === undefined;
  return (
    <Confirm
      title={invited ? `Withdraw the invite of ${visible(person.email)}?` : `Remove the manager ${visible(person.email)}?`} submit={invited ? "Withdraw it" : "Remove"} danger
      busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright consumer manager delete :manager --bucket :bucket --consumer :consumer" values={{ manager: person.id, bucket: path.bucketName, consumer: path.consumerName }}
      onConfirm={async () => {
        if (!(await change.run({ path: { ...path, managerId: person.id } }))) return;
        notify(invited ? `The invite of ${visible(person.email)} is withdrawn.` : `${visible(person.email)} is no manager any more.`);
        onDone();
        if (change.here()) onClose();
      }}
    ><p>The consumer and its keys stay. They can be added again.</p></Confirm>
  );
}
