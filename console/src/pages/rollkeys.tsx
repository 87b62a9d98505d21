import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useResource } from "../api/resource";
import { may } from "../api/session";
import { Cli } from "../ui/copy";
import { Dialog } from "../ui/dialog";
import { EndField, isOpen, timeOf, type End } from "../ui/end";
import { Form } from "../ui/form";
import { notify } from "../ui/live";
import { Secret } from "../ui/secret";
import { Show } from "../ui/states";
import { visible } from "../ui/text";
import type { ConsumerPath } from "./consumerpath";

/**
 * Rolls the keys of a consumer: it creates a new key, and sets an end on keys that have none. The new key can then be shown in the list. In a bucket without
 * retrievable keys it could never be seen, so there the form offers to create a key instead.
 */
export function RollKeys({ path, retrievable, onClose, onDone, onCreate }: { path: ConsumerPath; retrievable: boolean; onClose: () => void; onDone: () => void; onCreate: () => void }) {
  const change = useChange("ApiKeyConsumersService_rollKey");
  const [end, setEnd] = useState<End>({ choice: "86400", at: "" });
  const [tried, setTried] = useState(false);
  const [rolled, setRolled] = useState(false);
  const title = `Roll the keys of ${visible(path.consumerName)}`;
  if (rolled) return <Rolled path={path} onClose={onClose} />;
  if (!retrievable) {
    return (
      <Dialog title={title} onClose={onClose}>
        <p>This bucket shows a key when it is made and never again, and a roll does not show the new one. Create a key, hand it over, and change when the others end.</p>
        <div class="buttons"><button type="button" class="primary" onClick={onCreate}>Create a key</button><button type="button" onClick={onClose}>Cancel</button></div>
      </Dialog>
    );
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <Form
        submit="Roll" busy={change.busy} problem={change.problem} onCancel={onClose}
        onSubmit={async () => {
          setTried(true);
          if (isOpen(end) || !(await change.run({ path, body: { expiresOn: timeOf(end)! } }))) return;
          notify(`The keys of ${visible(path.consumerName)} are rolled.`);
          setRolled(true);
          onDone();
        }}
      >
        <p>It gets a new key. Those that have no end yet get the one you choose, so that callers can change over; the others keep theirs.</p>
        <EndField label="The earlier ones end" name="expiresOn" value={end} onInput={setEnd} first={[["now", "now"]]} tried={tried} />
        {end.choice === "now" && <p>A gateway that has just believed one of them refuses it within a minute, or after the <code>cacheTtlSeconds</code> of its route.</p>}
      </Form>
      <Cli line="gatewright consumer key roll --bucket :bucket --consumer :consumer --expires-in 24h" values={{ bucket: path.bucketName, consumer: path.consumerName }} />
    </Dialog>
  );
}

function Rolled({ path, onClose }: { path: ConsumerPath; onClose: () => void }) {
  const list = useResource("ApiKeyKeysService_list", may("ApiKeyKeysService_list") ? { path, query: { limit: 1, "key-format": "visible" } } : null, { secret: true });
  return (
    <Dialog title="The new key" onClose={onClose}>
      <Show resource={list} what="Fetching the new key">{(data) => (data.data[0]?.key ? <Secret label="The new key" value={data.data[0].key} /> : <p>It is gone already: somebody else has changed the keys.</p>)}</Show>
      <p>Copy it and hand it over. It can be revealed again from the list.</p>
      <div class="buttons"><button type="button" class="primary" onClick={onClose}>Done</button></div>
    </Dialog>
  );
}
