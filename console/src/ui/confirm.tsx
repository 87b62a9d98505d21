import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Problem } from "../api/problem";
import { Cli } from "./copy";
import { Dialog } from "./dialog";
import { Form, TextField } from "./form";
import { Text, visible } from "./text";

/** Asks before something is deleted for good: the person has to type its name. children say what is deleted with it, and how many of each. */
export function ConfirmDelete({ noun, name, busy, problem, onConfirm, onClose, children, cli, values, verb = "Delete" }: {
  /** The kind of object, such as key bucket. */
  noun: string;
  name: string;
  busy: boolean;
  problem: Problem | undefined;
  onConfirm: () => void;
  onClose: () => void;
  children?: ComponentChildren;
  /** The command that does the same. */
  cli?: string;
  values?: Record<string, string>;
  verb?: string;
}) {
  const [typed, setTyped] = useState("");
  const [fault, setFault] = useState(false);
  return (
    <Dialog title={`${verb} the ${noun} ${visible(name)}?`} onClose={busy ? undefined : onClose}>
      <Form
        submit={`${verb} it`} danger busy={busy} problem={problem} onCancel={onClose}
        onSubmit={() => {
          const same = typed === name;
          setFault(!same);
          if (same) onConfirm();
        }}
      >
        {children}
        <TextField
          label="Its name, to confirm" name="confirm-name" required value={typed} mono hint={<>Type <strong class="mono"><Text value={name} /></strong></>}
          fault={fault && typed !== name ? "It is another name." : undefined} onInput={setTyped}
        />
      </Form>
      {cli && <Cli line={cli} values={values ?? {}} />}
    </Dialog>
  );
}

/** Asks before a change that ends something without loss of data, such as a rollback. */
export function Confirm({ title, submit, busy, problem, onConfirm, onClose, children, danger = false, cli, values }: {
  title: string;
  submit: string;
  busy: boolean;
  problem: Problem | undefined;
  onConfirm: () => void;
  onClose: () => void;
  children?: ComponentChildren;
  danger?: boolean;
  cli?: string;
  values?: Record<string, string>;
}) {
  return (
    <Dialog title={title} onClose={busy ? undefined : onClose}>
      <Form submit={submit} danger={danger} busy={busy} problem={problem} onCancel={onClose} onSubmit={onConfirm}>{children}</Form>
      {cli && <Cli line={cli} values={values ?? {}} />}
    </Dialog>
  );
}
