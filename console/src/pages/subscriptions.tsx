import { useState } from "preact/hooks";
import { useChange } from "../api/change";
import type { Body } from "../api/client";
import type { RowOf } from "../api/rows";
import { go, link } from "../router";
import { Dialog } from "../ui/dialog";
import { Form, SelectField, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { visible } from "../ui/text";
import { Badge } from "../ui/value";
import type { Plan } from "./plans";

type Subscription = RowOf<"MeteringSubscriptionsService_list">;
export type Status = Subscription["status"];
type New = Body<"MeteringSubscriptionsService_create">;

/** The statuses of a subscription. */
export const statuses = ["active", "trialing", "incomplete", "past-due", "unpaid", "paused", "inactive", "canceled", "incomplete-expired"] as const satisfies readonly Status[];

/** The colors of the statuses: good if a gateway accepts the customer, and bad if the subscription is over. */
const tones: Partial<Record<Status, "good" | "bad" | "warn">> = { active: "good", trialing: "good", "past-due": "warn", unpaid: "warn", paused: "warn", canceled: "bad", "incomplete-expired": "bad" };

/** Shows the status of a subscription. */
export function SubscriptionStatus({ status }: { status: Status }) {
  return <Badge tone={tones[status] ?? "plain"}>{status}</Badge>;
}

/** The plans of a bucket, each with a checkbox. */
export function PlanChoice({ plans, value, onInput }: { plans: Plan[]; value: string[]; onInput: (value: string[]) => void }) {
  return (
    <fieldset>
      <legend>Plans: their quotas are added up</legend>
      {plans.map((p) => (
        <label key={p.id} class="choice">
          <input type="checkbox" checked={value.includes(p.id)} onChange={(e) => onInput(e.currentTarget.checked ? [...value, p.id] : value.filter((id) => id !== p.id))} /> {visible(p.label)} <span class="faint mono">{visible(p.planExternalId)}</span>
        </label>
      ))}
    </fieldset>
  );
}

/** Parses a typed JSON object. value is undefined if the text is empty. fault says why the text is not an object. */
export function metadataOf(text: string): { value?: Record<string, unknown>; fault?: string } {
  if (text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) return { value: value as Record<string, unknown> };
    return { fault: "It has to be an object, such as {\"team\": \"core\"}." };
  } catch (error) {
    return { fault: `It is no JSON: ${(error as Error).message}` };
  }
}

/** Creates a subscription of a customer to plans. */
export function NewSubscription({ bucketId, plans, onClose }: { bucketId: string; plans: Plan[]; onClose: () => void }) {
  const change = useChange("MeteringSubscriptionsService_create");
  const [text, setText] = useState({ customerKey: "", customerExternalId: "", subscriptionExternalId: "", productKey: "", quotaResetAnchor: "", trialStartDate: "", trialEndDate: "", metadata: "" });
  const [chosen, setChosen] = useState<string[]>([]);
  const [kind, setKind] = useState<{ status: Status; region: New["region"]; renewalStrategy: New["renewalStrategy"]; trialEndStatus: NonNullable<New["trialEndStatus"]> | "" }>({ status: "active", region: "us-central1", renewalStrategy: "monthly", trialEndStatus: "" });
  const [asked, setAsked] = useState(false);
  const set = (name: keyof typeof text) => (value: string) => setText({ ...text, [name]: value });
  const metadata = metadataOf(text.metadata);
  const given = (name: "productKey" | "quotaResetAnchor" | "trialStartDate" | "trialEndDate") => (text[name].trim() === "" ? {} : { [name]: text[name].trim() });
  return (
    <Dialog title="Create a subscription" onClose={onClose} wide>
      <Form
        submit="Create" busy={change.busy} problem={change.problem} onCancel={onClose} dirty={chosen.length > 0 || Object.values(text).some((t) => t !== "")}
        onSubmit={async () => {
          setAsked(true);
          if (chosen.length === 0 || metadata.fault) return;
          const body: New = {
            customerKey: text.customerKey, customerExternalId: text.customerExternalId, subscriptionExternalId: text.subscriptionExternalId, type: "periodic",
            planIds: chosen, planExternalIds: chosen.map((id) => plans.find((p) => p.id === id)!.planExternalId), status: kind.status, region: kind.region, renewalStrategy: kind.renewalStrategy,
            ...given("productKey"), ...given("quotaResetAnchor"), ...given("trialStartDate"), ...given("trialEndDate"),
            ...(kind.trialEndStatus === "" ? {} : { trialEndStatus: kind.trialEndStatus }), ...(metadata.value ? { metadata: metadata.value } : {}),
          };
          const made = await change.run({ path: { bucketId }, body });
          if (!made) return;
          notify(`The subscription of ${visible(made.data.customerKey)} is created.`);
          if (change.here()) go(link("/metering/:bucket/subscriptions/:subscription", { bucket: bucketId, subscription: made.data.id }), true);
        }}
      >
        <div class="side-by-side">
          <TextField label="Customer" name="customerKey" required mono value={text.customerKey} onInput={set("customerKey")} hint="By what a gateway knows them, such as a consumer’s name." />
          <TextField label="Customer’s external id" name="customerExternalId" required mono value={text.customerExternalId} onInput={set("customerExternalId")} hint="Where it is paid." />
          <TextField label="Subscription’s external id" name="subscriptionExternalId" required mono value={text.subscriptionExternalId} onInput={set("subscriptionExternalId")} hint="Where it is paid, unique in the bucket." />
        </div>
        <PlanChoice plans={plans} value={chosen} onInput={setChosen} />
        {asked && chosen.length === 0 && <p class="fault" role="alert">Choose at least one plan.</p>}
        <div class="side-by-side">
          <SelectField label="Status" name="status" required value={kind.status} onInput={(v) => setKind({ ...kind, status: v as Status })} options={statuses.map((s) => [s, s] as const)} />
          <SelectField label="Renewal" name="renewalStrategy" required value={kind.renewalStrategy} onInput={(v) => setKind({ ...kind, renewalStrategy: v as New["renewalStrategy"] })} options={[["monthly", "monthly"], ["yearly", "yearly"]]} />
          <SelectField label="Region" name="region" required value={kind.region} onInput={(v) => setKind({ ...kind, region: v as New["region"] })} options={(["us-central1", "us-east1", "europe-west4"] as const).map((r) => [r, r] as const)} />
        </div>
        <details open={change.problem !== undefined || asked && metadata.fault !== undefined || undefined}>
          <summary>Periods, trial and notes</summary>
          <div class="side-by-side">
            <TextField label="Periods are counted from" name="quotaResetAnchor" mono value={text.quotaResetAnchor} onInput={set("quotaResetAnchor")} hint="Such as 2026-01-31T00:00:00Z; its creation otherwise." />
            <TextField label="Trial begins" name="trialStartDate" mono value={text.trialStartDate} onInput={set("trialStartDate")} hint="Its creation otherwise." />
            <TextField label="Trial ends" name="trialEndDate" mono value={text.trialEndDate} onInput={set("trialEndDate")} hint="What its plan says otherwise." />
            <SelectField label="After its trial it is" name="trialEndStatus" value={kind.trialEndStatus} onInput={(v) => setKind({ ...kind, trialEndStatus: v as typeof kind.trialEndStatus })} options={[["", "what its plan says, else canceled"], ...statuses.filter((s) => s !== "trialing").map((s) => [s, s] as const)]} />
            <TextField label="Product" name="productKey" mono value={text.productKey} onInput={set("productKey")} hint="Kept as it is." />
          </div>
          <TextField label="Metadata" name="metadata" mono rows={3} value={text.metadata} onInput={set("metadata")} fault={asked ? metadata.fault : undefined} hint="A JSON object of at most 1024 bytes." />
        </details>
      </Form>
    </Dialog>
  );
}
