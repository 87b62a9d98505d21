import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import { useResource } from "../api/resource";
import { useRows, type RowOf } from "../api/rows";
import { may } from "../api/session";
import type { PageProps } from "../registry";
import { go, link, useQuery } from "../router";
import { ConfirmDelete } from "../ui/confirm";
import { Listed } from "../ui/listed";
import { notify } from "../ui/live";
import { PageHead, PageLink, Section } from "../ui/page";
import { Search } from "../ui/search";
import { Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text, visible } from "../ui/text";
import { Badge, Count, Details, many, Time } from "../ui/value";
import { NewPlan, PlanEditor, type Plan } from "./plans";
import { NewSubscription, SubscriptionStatus } from "./subscriptions";

type Subscription = RowOf<"MeteringSubscriptionsService_list">;

/** A metering bucket: its plans, its subscriptions, and the forms that create, change and delete them. */
export default function MeteringBucket({ params }: PageProps) {
  const bucketId = params["bucket"]!;
  const path = { bucketId };
  const bucket = useResource("MeteringBucketsService_read", { path });
  const plans = useRows("MeteringPlansService_list", may("MeteringPlansService_list") ? { path } : null);
  const subscriptions = useRows("MeteringSubscriptionsService_list", may("MeteringSubscriptionsService_list") ? { path } : null);
  const query = useQuery();
  const [open, setOpen] = useState<"" | "plan" | "subscription" | "delete">("");
  const [editing, setEditing] = useState<Plan>();
  const [deleting, setDeleting] = useState<Plan>();
  const want = (query.get("find") ?? "").toLowerCase();
  const found = subscriptions.rows.filter((s) => [s.id, s.customerKey, s.customerExternalId, s.subscriptionExternalId, s.status, ...s.planExternalIds].some((t) => t.toLowerCase().includes(want)));
  const ready = bucket.now.at === "ready";
  const changed = () => {
    plans.reload();
    subscriptions.reload();
  };
  return (
    <>
      <PageHead
        title={bucketId} crumbs={[{ label: "Metering", href: link("/metering") }]} cli="gatewright metering bucket get :bucket" values={{ bucket: bucketId }}
        actions={ready && may("MeteringBucketsService_delete") && <button type="button" class="danger" onClick={() => setOpen("delete")}>Delete</button>}
      />
      <Show resource={bucket} what="Loading the metering bucket">
        {(data) => (
          <>
            <Details entries={[["Created", <Time value={data.createdOn} absolute />], ["Changed", <Time value={data.updatedOn} absolute />]]} />
            <Section title="Plans" actions={may("MeteringPlansService_create") && <button type="button" onClick={() => setOpen("plan")}>Create a plan</button>}>
              <Listed list={plans} noun="plan" empty={<p>A plan has of each meter, such as <code>requests</code>, how many units a period has.</p>}>
                <Table<Plan>
                  caption="Plans" rows={plans.rows} rowKey={(p) => p.id}
                  columns={[
                    { title: "Plan", cell: (p) => <Text value={p.label} /> },
                    { title: "External id", cell: (p) => <code><Text value={p.planExternalId} /></code> },
                    { title: "Meters", cell: (p) => <ul class="plain">{Object.entries(p.meters).map(([meter, m]) => <li key={meter}><Text value={m.label ?? meter} />: <Count value={m.max} /></li>)}</ul> },
                    { title: "Trial", minor: true, cell: (p) => (p.trialDays ? many(p.trialDays, "day") : <span class="faint">none</span>) },
                    { title: "Subscriptions", minor: true, cell: (p) => (p.hasSubscriptions ? <Badge>some</Badge> : <span class="faint">none</span>) },
                  ]}
                  actions={(p) => (
                    <span class="buttons">
                      {may("MeteringPlansService_update") && <button type="button" class="quiet" aria-label={`Edit the plan ${p.label}`} onClick={() => setEditing(p)}>Edit</button>}
                      {may("MeteringPlansService_delete") && <button type="button" class="quiet" aria-label={`Delete the plan ${p.label}`} onClick={() => setDeleting(p)}>Delete</button>}
                    </span>
                  )}
                />
              </Listed>
            </Section>
            <Section
              title="Subscriptions"
              actions={may("MeteringSubscriptionsService_create") && plans.rows.length > 0 && <button type="button" onClick={() => setOpen("subscription")}>Create a subscription</button>}
            >
              <Listed list={subscriptions} noun="subscription" empty={<p>{plans.complete && plans.rows.length === 0 ? "It needs a plan: create one first." : "A subscription gives a customer the quotas of its plans, period by period."}</p>}>
                <Search label="Filter by customer, external id, plan or status" count={found.length} noun="subscription" />
                <Table<Subscription>
                  caption="Subscriptions" rows={found} rowKey={(s) => s.id}
                  columns={[
                    { title: "Customer", by: (s) => s.customerKey, cell: (s) => <PageLink to="/metering/:bucket/subscriptions/:subscription" params={{ bucket: bucketId, subscription: s.id }}><Text value={s.customerKey} /></PageLink> },
                    { title: "Status", by: (s) => s.status, cell: (s) => <SubscriptionStatus status={s.status} /> },
                    { title: "Plans", minor: true, cell: (s) => <Text value={s.planExternalIds.join(", ")} clamp /> },
                    { title: "Period ends", by: (s) => s.nextBillingCycle, cell: (s) => <Time value={s.nextBillingCycle} /> },
                    { title: "External id", minor: true, by: (s) => s.subscriptionExternalId, cell: (s) => <code><Text value={s.subscriptionExternalId} clamp /></code> },
                  ]}
                />
              </Listed>
            </Section>
            {open === "plan" && <NewPlan bucketId={bucketId} onClose={() => setOpen("")} onMade={plans.reload} />}
            {open === "subscription" && <NewSubscription bucketId={bucketId} plans={plans.rows} onClose={() => setOpen("")} />}
            {open === "delete" && <DeleteBucket bucketId={bucketId} plans={plans.total} subscriptions={subscriptions.total} onClose={() => setOpen("")} />}
            {editing && <PlanEditor bucketId={bucketId} planId={editing.id} label={editing.label} onClose={() => setEditing(undefined)} onSaved={changed} />}
            {deleting && <DeletePlan bucketId={bucketId} plan={deleting} onClose={() => setDeleting(undefined)} onDone={changed} />}
          </>
        )}
      </Show>
    </>
  );
}

function DeleteBucket({ bucketId, plans, subscriptions, onClose }: { bucketId: string; plans: number | undefined; subscriptions: number | undefined; onClose: () => void }) {
  const change = useChange("MeteringBucketsService_delete");
  return (
    <ConfirmDelete
      noun="metering bucket" name={bucketId} busy={change.busy} problem={change.problem} onClose={onClose} cli="gatewright metering bucket delete :bucket" values={{ bucket: bucketId }}
      onConfirm={async () => {
        if (!(await change.run({ path: { bucketId } }))) return;
        notify("The metering bucket is deleted.");
        if (change.here()) go(link("/metering"), true);
      }}
    >
      <p>With it go <strong>{many(plans ?? 0, "plan")} and {many(subscriptions ?? 0, "subscription")}</strong>, with their history. Gateways refuse its customers a few seconds later. It does not come back.</p>
    </ConfirmDelete>
  );
}

function DeletePlan({ bucketId, plan, onClose, onDone }: { bucketId: string; plan: Plan; onClose: () => void; onDone: () => void }) {
  const change = useChange("MeteringPlansService_delete");
  return (
    <ConfirmDelete
      noun="plan" name={plan.label} busy={change.busy} problem={change.problem} onClose={onClose}
      cli="gatewright metering plan delete :plan --bucket :bucket" values={{ plan: plan.id, bucket: bucketId }}
      onConfirm={async () => {
        if (!(await change.run({ path: { bucketId, planId: plan.id } }))) return;
        notify(`The plan ${visible(plan.label)} is deleted.`);
        onDone();
        if (change.here()) onClose();
      }}
    ><p>{plan.hasSubscriptions ? "It has subscriptions, and is not deleted before they have another plan." : "No subscription is of it."}</p></ConfirmDelete>
  );
}
