import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useChange } from "../api/change";
import type { Body } from "../api/client";
import type { Problem } from "../api/problem";
import { useEdit } from "../api/edit";
import { useResource } from "../api/resource";
import type { RowOf } from "../api/rows";
import { Conflict } from "../ui/conflict";
import { Dialog } from "../ui/dialog";
import { CheckField, Form, SelectField, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { Show } from "../ui/states";
import { visible } from "../ui/text";

export type Plan = RowOf<"MeteringPlansService_list">;

/** The fields of a meter, as they are typed. */
interface Meter {
  key: string;
  label: string;
  max: string;
}

/** The fields of a plan, as they are typed. */
interface Draft {
  label: string;
  external: string;
  meters: Meter[];
  days: string;
  end: "" | "paused" | "canceled";
  payment: boolean;
}

function draftOf(plan?: Plan): Draft {
  return {
    label: plan?.label ?? "", external: plan?.planExternalId ?? "",
    meters: plan ? Object.entries(plan.meters).map(([key, m]) => ({ key, label: m.label ?? "", max: String(m.max) })) : [{ key: "requests", label: "", max: "" }],
    days: plan?.trialDays === undefined ? "" : String(plan.trialDays), end: plan?.trialEndStatus ?? "", payment: plan?.isTrialCollectPayment ?? false,
  };
}

/** Converts a typed number. A text that is not a number is sent as it is, so that the API reports the fault at its field. */
function number(text: string): number {
  return (/^\d+$/.test(text.trim()) ? Number(text) : text) as number;
}

/** Returns the body of the request. null removes a value that is empty in the form. */
function bodyOf(draft: Draft): Body<"MeteringPlansService_create"> {
  return {
    label: draft.label, planExternalId: draft.external,
    meters: Object.fromEntries(draft.meters.map((m) => [m.key.trim(), { max: number(m.max), label: m.label === "" ? null : m.label }])),
    trialDays: draft.days === "" ? null : number(draft.days), trialEndStatus: draft.end === "" ? null : draft.end, isTrialCollectPayment: draft.payment,
  };
}

/** The texts of a plan that a person compares if there are two versions. */
const told = {
  meters: (d: Draft) => d.meters.map((m) => `${m.key}: ${m.max}${m.label === "" ? "" : ` (${m.label})`}`).join("\n"),
  trial: (d: Draft) => [d.days === "" ? "" : `${d.days} days`, d.end === "" ? "" : `then ${d.end}`, d.payment ? "asks for a means of payment" : ""].filter((x) => x !== "").join(", "),
};

/** Creates a plan. */
export function NewPlan({ bucketId, onClose, onMade }: { bucketId: string; onClose: () => void; onMade: () => void }) {
  const change = useChange("MeteringPlansService_create");
  const [draft, setDraft] = useState(draftOf);
  const [first] = useState(() => JSON.stringify(draft));
  return (
    <Dialog title="Create a plan" onClose={onClose} wide>
      <PlanForm
        draft={draft} onInput={setDraft} submit="Create" busy={change.busy} problem={change.problem} dirty={JSON.stringify(draft) !== first} onCancel={onClose}
        onSubmit={async () => {
          if (!(await change.run({ path: { bucketId }, body: bodyOf(draft) }))) return;
          notify(`The plan ${visible(draft.label)} is created.`);
          onMade();
          if (change.here()) onClose();
        }}
      />
    </Dialog>
  );
}

/** Reads a plan and changes it. */
export function PlanEditor({ bucketId, planId, label, onClose, onSaved }: { bucketId: string; planId: string; label: string; onClose: () => void; onSaved: () => void }) {
  const there = useResource("MeteringPlansService_read", { path: { bucketId, planId } });
  const title = `Edit the plan ${visible(label)}`;
  if (there.now.at !== "ready") return <Dialog title={title} onClose={onClose}><Show resource={there}>{() => null}</Show></Dialog>;
  return <EditPlan title={title} bucketId={bucketId} plan={there.now.data} etag={there.now.etag} onClose={onClose} onSaved={onSaved} />;
}

function EditPlan({ title, bucketId, plan, etag, onClose, onSaved }: { title: string; bucketId: string; plan: Plan; etag: string; onClose: () => void; onSaved: () => void }) {
  const path = { bucketId, planId: plan.id };
  const edit = useEdit("MeteringPlansService_update", "MeteringPlansService_read", { path });
  const [base, setBase] = useState({ draft: draftOf(plan), etag });
  const [draft, setDraft] = useState(base.draft);
  const save = async (ifMatch: string) => {
    if (!(await edit.run({ path, body: bodyOf(draft), ifMatch }))) return;
    notify(`The plan ${visible(draft.label)} is saved. It counts for all its subscriptions at once.`);
    onSaved();
    if (edit.here()) onClose();
  };
  const theirs = edit.conflict && draftOf(edit.conflict.data);
  return (
    <>
      <Dialog title={title} onClose={onClose} wide>
        <p>What changes in its meters counts for all its subscriptions at once, in the current period too.</p>
        <PlanForm
          draft={draft} onInput={setDraft} submit="Save" busy={edit.busy} problem={edit.problem} dirty={JSON.stringify(draft) !== JSON.stringify(base.draft)} onCancel={onClose}
          onSubmit={() => void save(base.etag)}
        />
      </Dialog>
      {theirs && (
        <Conflict
          what={`The plan ${visible(plan.label)}`} onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase({ draft: theirs, etag: edit.conflict!.etag });
            setDraft(theirs);
            edit.settle();
          }}
          versions={[
            { label: "Label", mine: draft.label, theirs: theirs.label },
            { label: "External id", mine: draft.external, theirs: theirs.external },
            { label: "Meters", mine: told.meters(draft), theirs: told.meters(theirs) },
            { label: "Trial", mine: told.trial(draft), theirs: told.trial(theirs) },
          ]}
        />
      )}
    </>
  );
}

function PlanForm({ draft, onInput, ...form }: {
  draft: Draft; onInput: (draft: Draft) => void; submit: string; busy: boolean; problem: Problem | undefined; dirty: boolean; onCancel: () => void; onSubmit: () => void;
}) {
  const set = (to: Partial<Draft>) => onInput({ ...draft, ...to });
  const [twice, setTwice] = useState(false);
  const keys = draft.meters.map((m) => m.key.trim());
  const double = keys.find((key, i) => keys.indexOf(key) !== i);
  return (
    <Form
      {...form}
      onSubmit={() => {
        // If two meters had the same name, the second would replace the first.
        setTwice(double !== undefined);
        if (double === undefined) form.onSubmit();
      }}
    >
      <div class="side-by-side">
        <TextField label="Label" name="label" required value={draft.label} onInput={(label) => set({ label })} hint="What people call it." />
        <TextField label="External id" name="planExternalId" required mono value={draft.external} onInput={(external) => set({ external })} hint="What it is called where it is sold, unique in the bucket." />
      </div>
      <Meters value={draft.meters} onInput={(meters) => set({ meters })} fault={twice && double !== undefined ? `The meter ${visible(double)} stands there twice.` : undefined} />
      <fieldset>
        <legend>Trial</legend>
        <div class="side-by-side">
          <TextField label="Days" name="trialDays" value={draft.days} onInput={(days) => set({ days })} hint="0 to 3650." />
          <SelectField label="Then it is" name="trialEndStatus" hint="What a subscription is after it." value={draft.end} onInput={(end) => set({ end: end as Draft["end"] })} options={[["", "what the subscription says"], ["paused", "paused"], ["canceled", "canceled"]]} />
        </div>
        <CheckField label="It asks for a means of payment" name="isTrialCollectPayment" value={draft.payment} onInput={(payment) => set({ payment })} hint="Kept for who takes payments." />
      </fieldset>
    </Form>
  );
}

/** The meters of a plan, as rows to edit. */
function Meters({ value, onInput, fault }: { value: Meter[]; onInput: (value: Meter[]) => void; fault: string | undefined }) {
  const rows = useRef<HTMLFieldSetElement>(null);
  const added = useRef(false);
  useLayoutEffect(() => {
    if (added.current) rows.current?.querySelector<HTMLElement>(".meter:last-of-type input")?.focus();
    added.current = false;
  });
  const set = (i: number, to: Partial<Meter>) => onInput(value.map((m, k) => (k === i ? { ...m, ...to } : m)));
  return (
    <fieldset ref={rows}>
      <legend>Meters</legend>
      {value.map((m, i) => (
        <div class="meter" key={i}>
          <TextField label={`Meter ${i + 1}`} name={`meter-${i}`} required mono value={m.key} onInput={(key) => set(i, { key })} />
          <TextField label="Units a period" name={`meters.${m.key.trim()}.max`} required value={m.max} onInput={(max) => set(i, { max })} />
          <TextField label="Label" name={`meters.${m.key.trim()}.label`} value={m.label} onInput={(label) => set(i, { label })} />
          <button
            type="button" class="quiet" aria-label={`Remove meter ${i + 1}`}
            onClick={() => {
              onInput(value.filter((_, k) => k !== i));
              rows.current?.querySelector<HTMLElement>(".add")?.focus();
            }}
          >×</button>
        </div>
      ))}
      {fault && <p class="fault" role="alert">{fault}</p>}
      <button
        type="button" class="add"
        onClick={() => {
          onInput([...value, { key: "", label: "", max: "" }]);
          added.current = true;
        }}
      >Add a meter</button>
    </fieldset>
  );
}
