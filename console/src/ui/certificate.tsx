import { useState } from "preact/hooks";
import { SecretField, TextField, type FieldProps } from "./form";
import { Badge, many, Time } from "./value";

/** The largest file that a field takes over, in bytes: no certificate of the API's is longer (docs/limits.md). */
const longest = 65_536;

/**
 * A field of PEM, which can be read from a file as well. secret is for a private key, which is not shown as it is typed, and which nothing but the form holds: who uses it clears it
 * when it is sent.
 */
export function PemField({ secret = false, value, onInput, ...field }: FieldProps & { secret?: boolean; value: string; onInput: (value: string) => void }) {
  const [fault, setFault] = useState<string>();
  const given = { ...field, value, rows: 5, fault: fault ?? field.fault, onInput: (text: string) => {
    setFault(undefined);
    onInput(text);
  } };
  return (
    <div class="pem">
      {secret ? <SecretField {...given} /> : <TextField {...given} mono />}
      <label class="file">
        <span class="faint">or from a file:</span>
        <input
          type="file" accept=".pem,.crt,.cer,.key" aria-label={`${field.label} from a file`}
          onChange={(event) => {
            const input = event.currentTarget;
            const file = input.files?.[0];
            // The name of the file is not kept either.
            input.value = "";
            if (!file) return;
            if (file.size > longest) return setFault(`The file has ${many(file.size, "byte")}, of at most ${many(longest, "byte")}.`);
            setFault(undefined);
            file.text().then(onInput, () => setFault("The file can’t be read."));
          }}
        />
      </label>
    </div>
  );
}

/** How long before its end a certificate is warned of, in milliseconds: 30 days. */
const warned = 30 * 86_400_000;

/** When a certificate ends, with a warning from 30 days before on. */
export function Expiry({ value, absolute = false }: { value: string | null | undefined; absolute?: boolean }) {
  if (!value) return <span class="faint">unknown</span>;
  const left = new Date(value).getTime() - Date.now();
  return (
    <>
      {left <= 0 && <><Badge tone="bad">expired</Badge> </>}
      {left > 0 && left <= warned && <><Badge tone="warn">ends soon</Badge> </>}
      <Time value={value} absolute={absolute} />
    </>
  );
}
