import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import type { Result } from "../api/client";
import { useEdit } from "../api/edit";
import { useResource } from "../api/resource";
import { useRows } from "../api/rows";
import { may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, setQuery, useQuery } from "../router";
import { ConfirmDelete } from "../ui/confirm";
import { Conflict } from "../ui/conflict";
import { Dialog } from "../ui/dialog";
import { Form, SelectField, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { PageHead, Section } from "../ui/page";
import { Empty, ProblemPanel, Show } from "../ui/states";
import { Text, visible } from "../ui/text";
import { Count, Details, Time } from "../ui/value";
import type { Plan } from "./plans";
import { metadataOf, PlanChoice, statuses, SubscriptionStatus, type Status } from "./subscriptions";

type Subscription = Result<"MeteringSubscriptionsService_read">;

/** A subscription: its properties, its remaining quotas, and the forms that change and delete it. */
export default function SubscriptionPage({ params }: PageProps) {
  const bucketId = params["bucket"]!;
  const path = { bucketId, subscriptionId: params["subscription"]! };
  const subscription = useResource("MeteringSubscriptionsService_read", { path });
  const plans = useRows("MeteringPlansService_list", may("MeteringPlansService_list") ? { path: { bucketId } } : null);
  const [open, setOpen] = useState<"" | "edit" | "delete">("");
  const now = subscription.now.at === "ready" ? subscription.now : undefined;
  return (
    <>
      <PageHead
        title={now ? `Subscription of ${now.data.customerKey}` : "Subscription"} crumbs={[{ label: "Metering", href: link("/metering") }, { label: bucketId, href: link("/metering/:bucket", { bucket: bucketId }) }]}
        cli="gatewright metering subscription get :subscription --bucket :bucket" values={{ subscription: path.subscriptionId, bucket: bucketId }}
        actions={now && (
          <>
            {may("MeteringSubscriptionsService_update") && plans.complete && <button type="button" onClick={() => setOpen("edit")}>Edit</button>}
            {may("MeteringSubscriptionsService_delete") && <button type="button" class="danger" onClick={() => setOpen("delete")}>Delete</button>}
          </>
        )}
      />
      {plans.problem && <ProblemPanel problem={plans.problem} onRetry={plans.reload} compact />}
      <Show resource={subscription} what="Loading the subscription">
        {(data, etag) => (
          <>
            <Details
              entries={[
                ["Customer", <Text value={data.customerKey} />],
                ["Status", <SubscriptionStatus status={data.status} />],
                ["Plans", <Text value={data.planExternalIds.map((external) => plans.rows.find((p) => p.planExternalId === external)?.label ?? external).join(", ")} />],
                ["Renewal", data.renewalStrategy],
                ["Its period ends", <Time value={data.nextBillingCycle} absolute />],
                ["Periods are counted from", <Time value={data.quotaResetAnchor} absolute />],
                ["Trial ends", data.trialEndDate && <Time value={data.trialEndDate} absolute />],
                ["After its trial it is", data.trialEndStatus],
                ["Customer’s external id", <code><Text value={data.customerExternalId} /></code>],
                ["External id", <code><Text value={data.subscriptionExternalId} /></code>],
                ["Product", data.productKey && <Text value={data.productKey} />],
                ["Region", data.region],
                ["Metadata", data.metadata && <code><Text value={JSON.stringify(data.metadata)} /></code>],
                ["Id", <code>{data.id}</code>],
                ["Created", <Time value={data.createdOn} absolute />],
                ["Changed", <Time value={data.updatedOn} absolute />],
              ]}
            />
            {may("MeteringQuotasService_get") && <Quotas key={etag} path={path} subscription={data} plans={plans.rows} />}
            {open === "edit" && <Edit path={path} subscription={data} etag={etag} plans={plans.rows} onClose={() => setOpen("")} onSaved={subscription.reload} />}
            {open === "delete" && <Delete path={path} subscription={data} onClose={() => setOpen("")} />}
          </>
        )}
      </Show>
    </>
  );
}

/** The remaining units of each meter in a period, as a bar and as numbers. The address has the period. */
function Quotas({ path, subscription, plans }: { path: { bucketId: string; subscriptionId: string }; subscription: Subscription; plans: Plan[] }) {
  const period = useQuery().get("period") ?? "";
  const [typed, setTyped] = useState(period);
  const quotas = useResource("MeteringQuotasService_get", { path, query: { ...(period === "" ? {} : { period }) } }, { every: period === "" ? 30_000 : 0 });
  const of = subscription.planExternalIds.map((external) => plans.find((p) => p.planExternalId === external)).filter((p) => p !== undefined);
  const limit = (meter: string) => of.reduce((sum, p) => sum + (p.meters[meter]?.max ?? 0), 0);
  return (
    <Section title={period === "" ? "Quotas of the current period" : "Quotas of an earlier period"}>
      <form
        class="inline" noValidate
        onSubmit={(event) => {
          event.preventDefault();
          setQuery({ period: typed.trim() }, false);
        }}
      >
        <TextField label="An instant of the period" name="period" mono value={typed} onInput={setTyped} hint="Such as 2026-01-31T00:00:00Z; the current one otherwise." />
        <button type="submit">Show</button>
      </form>
      <Show resource={quotas} what="Loading the quotas">
        {(data) => (Object.keys(data).length === 0
          ? <Empty title="No meter"><p>Its plans have none.</p></Empty>
          : (
            <div class="table-frame" tabIndex={0} role="region" aria-label="Quotas">
              <table>
                <caption class="visually-hidden">Quotas</caption>
                <thead><tr><th scope="col">Meter</th><th scope="col" class="numeric">Left</th><th scope="col" class="numeric minor">Of, by its plans now</th><th scope="col">Left, as a bar</th></tr></thead>
                <tbody>
                  {Object.entries(data).map(([meter, left]) => {
                    const most = Math.max(limit(meter), left, 1);
                    return (
                      <tr key={meter}>
                        <th scope="row"><Text value={meter} /></th>
                        <td class="numeric"><Count value={left} /></td>
                        <td class="numeric minor">{of.length === 0 ? <span class="faint">unknown</span> : <Count value={limit(meter)} />}</td>
                        <td><meter class="left" min={0} max={most} low={most * 0.1} value={Math.max(left, 0)} aria-label={`Left of ${visible(meter)}`}>{left}</meter></td>
                      </tr>
                    );
                  })}
                </tbody>
              </table>
            </div>
          ))}
      </Show>
    </Section>
  );
}

/** Returns the fields of the edit form, as they are typed. */
function draftOf(s: Subscription, plans: Plan[]) {
  return {
    status: s.status, chosen: s.planExternalIds.flatMap((external) => plans.find((p) => p.planExternalId === external)?.id ?? []), prorate: "", trialEnd: s.trialEndDate ?? "",
    metadata: s.metadata && Object.keys(s.metadata).length > 0 ? JSON.stringify(s.metadata, null, 2) : "",
  };
}

function Edit({ path, subscription, etag, plans, onClose, onSaved }: {
  path: { bucketId: string; subscriptionId: string }; subscription: Subscription; etag: string; plans: Plan[]; onClose: () => void; onSaved: () => void;
}) {
  const edit = useEdit("MeteringSubscriptionsService_update", "MeteringSubscriptionsService_read", { path });
  const [base, setBase] = useState({ draft: draftOf(subscription, plans), etag });
  const [draft, setDraft] = useState(base.draft);
  const [asked, setAsked] = useState(false);
  const set = (to: Partial<typeof draft>) => setDraft({ ...draft, ...to });
  const metadata = metadataOf(draft.metadata);
  const names = (chosen: string[]) => chosen.map((id) => plans.find((p) => p.id === id)?.label ?? id).join(", ");
  const changed = (name: keyof typeof draft) => JSON.stringify(draft[name]) !== JSON.stringify(base.draft[name]);
  const save = async (ifMatch: string) => {
    setAsked(true);
    if (draft.chosen.length === 0 || metadata.fault) return;
    // Send only changed fields: a trialEndDate or status has an effect even if its value is the same, and prorate counts from now.
    const body = {
      ...(changed("status") ? { status: draft.status } : {}), ...(changed("trialEnd") ? { trialEndDate: draft.trialEnd.trim() === "" ? null : draft.trialEnd.trim() } : {}),
      ...(changed("chosen") ? { planExternalIds: draft.chosen.map((id) => plans.find((p) => p.id === id)!.planExternalId) } : {}),
      ...(draft.prorate.trim() === "" ? {} : { prorate: (/^\d*\.?\d+$/.test(draft.prorate.trim()) ? Number(draft.prorate) : draft.prorate) as number }),
      ...(changed("metadata") ? { metadata: metadata.value ?? null } : {}),
    };
    if (!(await edit.run({ path, body, ifMatch }))) return;
    notify(`The subscription of ${visible(subscription.customerKey)} is saved.`);
    onSaved();
    if (edit.here()) onClose();
  };
  const theirs = edit.conflict && draftOf(edit.conflict.data, plans);
  return (
    <>
      <Dialog title={`Edit the subscription of ${visible(subscription.customerKey)}`} onClose={onClose} wide>
        <Form submit="Save" busy={edit.busy} problem={edit.problem} dirty={JSON.stringify(draft) !== JSON.stringify(base.draft)} onCancel={onClose} onSubmit={() => void save(base.etag)}>
          <SelectField label="Status" name="status" required value={draft.status} onInput={(status) => set({ status: status as Status })} options={statuses.map((s) => [s, s] as const)} />
          <PlanChoice plans={plans} value={draft.chosen} onInput={(chosen) => set({ chosen })} />
          {asked && draft.chosen.length === 0 && <p class="fault" role="alert">Choose at least one plan.</p>}
          <TextField label="Part of the quotas that this period has" name="prorate" value={draft.prorate} onInput={(prorate) => set({ prorate })} hint="From 0 to 1, such as 0.75; the next period has the whole." />
          <TextField label="Trial ends" name="trialEndDate" mono value={draft.trialEnd} onInput={(trialEnd) => set({ trialEnd })} hint="Such as 2026-01-31T00:00:00Z." />
          <TextField label="Metadata" name="metadata" mono rows={4} value={draft.metadata} onInput={(text) => set({ metadata: text })} fault={asked ? metadata.fault : undefined} hint="A JSON object of at most 1024 bytes, which replaces the one before." />
        </Form>
      </Dialog>
      {theirs && (
        <Conflict
          what={`The subscription of ${visible(subscription.customerKey)}`} onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase({ draft: theirs, etag: edit.conflict!.etag });
            setDraft(theirs);
            edit.settle();
          }}
          versions={[
            { label: "Status", mine: draft.status, theirs: theirs.status },
            { label: "Plans", mine: names(draft.chosen), theirs: names(theirs.chosen) },
            { label: "Trial ends", mine: draft.trialEnd, theirs: theirs.trialEnd },
            { label: "Metadata", mine: draft.metadata, theirs: theirs.metadata },
          ]}
        />
      )}
    </>
  );
}

function Delete({ path, subscription, onClose }: { path: { bucketId: string; subscriptionId: string }; subscription: Subscription; onClose: () => void }) {
  const change = useChange("MeteringSubscriptionsService_delete");
  return (
    <ConfirmDelete
      noun="subscription of" name={subscription.customerKey} busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright metering subscription delete :subscription --bucket :bucket" values={{ subscription: path.subscriptionId, bucket: path.bucketId }}
      onConfirm={async () => {
        if (!(await change.run({ path }))) return;
        notify(`The subscription of ${visible(subscription.customerKey)} is deleted.`);
        if (change.here()) go(link("/metering/:bucket", { bucket: path.bucketId }), true);
      }}
    ><p>Its history goes with it. To end it and keep that, make its status <strong>canceled</strong>.</p></ConfirmDelete>
  );
}
