import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { asProblem } from "../api/client";
import type { Problem } from "../api/problem";
import { leaveEnded, signIn } from "../api/session";
import { Dialog } from "./dialog";
import { ProblemPanel } from "./states";
import { Text } from "./text";

/**
 * The form that exchanges a key for a session. The key is in the field, which the browser is told not to store, until the form is sent. After that, nothing
 * stores it.
 */
function KeyForm({ submit }: { submit: string }) {
  const field = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const [empty, setEmpty] = useState(false);
  useLayoutEffect(() => field.current?.focus(), []);
  const invalid = empty || (problem !== undefined && problem.status === 401);
  return (
    <form
      noValidate autocomplete="off"
      onSubmit={(event) => {
        event.preventDefault();
        if (busy) return;
        const key = field.current!.value.trim();
        const looks = /^[\x21-\x7e]{1,1000}$/.test(key);
        setEmpty(!looks);
        setProblem(undefined);
        if (!looks) return field.current!.focus();
        // From here on, only this function has the key.
        field.current!.value = "";
        setBusy(true);
        signIn(key).catch((error: unknown) => {
          setProblem(asProblem(error));
          setBusy(false);
          field.current?.focus();
        });
      }}
    >
      {problem && (problem.status === 401
        ? <p class="problem compact" role="alert" id="signin-problem">This key opens nothing: it is mistyped, revoked, or has expired.</p>
        : <ProblemPanel problem={problem} compact />)}
      <div class="field">
        <label for="account-key">Account key</label>
        <p class="hint" id="account-key-hint">It begins with <code>gwa_</code>. This browser does not keep it.</p>
        <input
          ref={field} id="account-key" type="password" autocomplete="off" autocapitalize="off" spellcheck={false} data-1p-ignore data-lpignore="true" data-bwignore
          aria-describedby={`account-key-hint${empty ? " account-key-fault" : ""}${problem?.status === 401 ? " signin-problem" : ""}`} aria-invalid={invalid} required
        />
        {empty && <p class="fault" id="account-key-fault">Paste an account key: letters, digits and underscores in one line.</p>}
      </div>
      <div class="buttons"><button type="submit" class="primary" aria-disabled={busy}>{busy ? "One moment…" : submit}</button></div>
    </form>
  );
}

/** The page for a person who is not signed in. */
export function SignIn({ why }: { why?: string | undefined }) {
  return (
    <main class="signin">
      <div class="signin-card">
        <h1 tabIndex={-1}>Gatewright console</h1>
        {why && <p role="status">{why}</p>}
        {!window.isSecureContext && <p class="problem compact">This address is not HTTPS, so that the browser keeps no session and everybody on the way could read the key. Open the console by <code>https://</code>, or on the machine itself by <code>http://127.0.0.1</code>.</p>}
        <KeyForm submit="Sign in" />
        <p class="faint">Who runs the installation makes the first key; <code>gatewright account-key create</code> makes others, with no more rights than they need.</p>
      </div>
    </main>
  );
}

/** The form over the page of a session that has ended. The page keeps what was typed, and continues when the same key signs in. */
export function SignInAgain({ account, label }: { account: string; label: string }) {
  return (
    <Dialog title="Your session has ended" class="again">
      <p>Sign in again with the key <strong><Text value={label} /></strong> of <strong><Text value={account} /></strong> to go on where you were. Another key begins anew.</p>
      <KeyForm submit="Go on" />
      <div class="buttons"><button type="button" onClick={leaveEnded}>Leave the console</button></div>
    </Dialog>
  );
}
