import { useState } from "preact/hooks";
import { SecretField, TextField, type FieldProps } from "./form";
import { Badge, many, Time } from "./value";

/** The maximum size of a file that a field reads, in bytes. The API accepts no larger certificate (docs/limits.md). */
const longest = 65_536;

/**
 * A field for PEM text, which can also be read from a file. secret is for a private key: the field does not show it, and only the form stores it. The form must
 * clear it after sending it.
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
            // Do not keep the name of the file either.
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

/** The time before the end of a certificate during which a warning is shown, in milliseconds: 30 days. */
const warned = 30 * 86_400_000;

/** Shows when a certificate ends, with a warning in the last 30 days and after the end. */
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
