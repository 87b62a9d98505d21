import { Dialog } from "./dialog";
import { Text } from "./text";

/** A field of an object that two people have changed: its value here, and its value in the API now. */
export interface Version {
  label: string;
  mine: string;
  theirs: string;
}

/** Shows both versions of an object that has changed since it was read. Nothing is lost before the person has chosen. */
export function Conflict({ what, versions, onMine, onTheirs, onClose }: {
  what: string;
  versions: Version[];
  /** Replaces their version with mine. */
  onMine: () => void;
  /** Loads their version into the form, and discards what was typed. */
  onTheirs: () => void;
  /** Closes the dialog and keeps what was typed. */
  onClose: () => void;
}) {
  return (
    <Dialog title={`${what} has changed meanwhile`} onClose={onClose} wide>
      <p>Somebody else has changed it since you opened it. Nothing of yours is saved yet.</p>
      <div class="table-frame" tabIndex={0} role="region" aria-label="Both versions">
        <table class="versions">
          <caption class="visually-hidden">Both versions</caption>
          <thead><tr><th scope="col">Field</th><th scope="col">Yours</th><th scope="col">Saved now</th></tr></thead>
          <tbody>
            {versions.map((v) => (
              <tr key={v.label} class={v.mine === v.theirs ? "" : "differs"}>
                <th scope="row">{v.label}{v.mine !== v.theirs && <span class="visually-hidden"> (differs)</span>}</th>
                <td>{v.mine === "" ? <span class="faint">none</span> : <Text value={v.mine} lines />}</td>
                <td>{v.theirs === "" ? <span class="faint">none</span> : <Text value={v.theirs} lines />}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <div class="buttons">
        <button type="button" class="primary" onClick={onMine}>Save mine over it</button>
        <button type="button" onClick={onTheirs}>Take what is saved</button>
        <button type="button" onClick={onClose}>Go on editing</button>
      </div>
    </Dialog>
  );
}
