import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Answer, Result } from "../api/client";
import { useEdit } from "../api/edit";
import type { Resource } from "../api/resource";
import { useRows } from "../api/rows";
import { may } from "../api/session";
import { Conflict } from "../ui/conflict";
import { Dialog } from "../ui/dialog";
import { Field, Form, TextField } from "../ui/form";
import { notify } from "../ui/live";
import { Section } from "../ui/page";
import { Empty, Show } from "../ui/states";
import { Table } from "../ui/table";
import { Text } from "../ui/text";
import { many } from "../ui/value";

type Configuration = Result<"TunneledServicesService_getServiceConfiguration">;
type Service = Configuration["services"][number];
type Access = Service["configurations"][number];
type Kind = Access["accessibleBy"][number];
type TunnelPath = { accountName: string; tunnelId: string };

/** The kinds of environment, by their names in a configuration. */
const kinds = ["production", "preview", "working-copy"] as const satisfies readonly Kind[];

/** Returns the projects that may call a service as text, with one project per line. */
function callers(service: Service): string {
  return service.configurations.map((c) => `${c.project}: ${c.accessibleBy.join(", ") || "nobody"}`).join("\n");
}

/** Returns a configuration as text, to compare two versions. */
function told({ services }: Configuration): string {
  return services.map((s) => [`${s.name} → ${s.endpoint}`, ...callers(s).split("\n").filter((c) => c !== "").map((c) => `  ${c}`)].join("\n")).join("\n");
}

/** The services behind a tunnel, and the form that replaces their configuration. onPut receives the ID of the operation that applies it. */
export function Services({ path, services, onPut }: { path: TunnelPath; services: Resource<Configuration>; onPut: (operation: string) => void }) {
  const [editing, setEditing] = useState<Answer<Configuration>>();
  const { now } = services;
  return (
    <Section
      title="Services behind it"
      actions={now.at === "ready" && may("TunneledServicesService_putServiceConfiguration") && <button type="button" onClick={() => setEditing({ data: now.data, etag: now.etag })}>Edit services</button>}
    >
      <Show resource={services} what="Loading its services">
        {(data) => (data.services.length === 0
          ? <Empty title="No service yet"><p>Routes reach a service behind the tunnel by its name: say which there are, and which projects may call them.</p></Empty>
          : (
            <Table<Service>
              caption="Services behind the tunnel" rows={data.services} rowKey={(s) => s.name}
              columns={[
                { title: "Service", by: (s) => s.name, cell: (s) => <Text value={s.name} /> },
                { title: "Endpoint", by: (s) => s.endpoint, cell: (s) => <code><Text value={s.endpoint} clamp /></code> },
                { title: "May be called by", cell: (s) => (s.configurations.length === 0 ? <span class="faint">nobody</span> : <Text value={callers(s)} lines />) },
              ]}
            />
          ))}
      </Show>
      {editing && (
        <Edit
          path={path} from={editing} onClose={() => setEditing(undefined)}
          onSaved={(operation) => {
            services.reload();
            onPut(operation);
          }}
        />
      )}
    </Section>
  );
}

function Edit({ path, from, onClose, onSaved }: { path: TunnelPath; from: Answer<Configuration>; onClose: () => void; onSaved: (operation: string) => void }) {
  const edit = useEdit("TunneledServicesService_putServiceConfiguration", "TunneledServicesService_getServiceConfiguration", { path });
  const projects = useRows("ProjectsService_list", may("ProjectsService_list") ? {} : null);
  const [base, setBase] = useState(from);
  const [services, setServices] = useState(from.data.services);
  const known = useId();
  const list = useRef<HTMLDivElement>(null);
  const [added, setAdded] = useState(0);
  useLayoutEffect(() => {
    if (added > 0) list.current?.querySelector<HTMLElement>("fieldset:last-of-type input")?.focus();
  }, [added]);
  const mine: Configuration = { version: 1, services };
  const change = (i: number, to: Partial<Service>) => setServices(services.map((s, k) => (k === i ? { ...s, ...to } : s)));
  const save = async (ifMatch: string) => {
    const answer = await edit.run({ path, body: mine, ifMatch });
    if (!answer) return;
    notify(`The configuration of ${many(services.length, "service")} is saved.`);
    if (!edit.here()) return;
    onSaved(answer.data.id);
    onClose();
  };
  const theirs = edit.conflict?.data;
  return (
    <>
      <Dialog title="Edit the services" onClose={onClose} wide>
        <p>What stands here replaces the whole configuration: services that are left out are removed.</p>
        <Form submit="Save" busy={edit.busy} problem={edit.problem} dirty={told(mine) !== told(base.data)} onCancel={onClose} onSubmit={() => void save(base.etag)}>
          <datalist id={known}>{projects.rows.map((p) => <option key={p.id} value={p.name} />)}</datalist>
          <div ref={list} class="services">
            {services.map((service, i) => (
              <fieldset key={i}>
                <legend>Service {i + 1}</legend>
                <div class="side-by-side">
                  <TextField label="Name" name={`services[${i}].name`} required mono value={service.name} onInput={(name) => change(i, { name })} hint="3 to 24 letters, digits and hyphens." />
                  <TextField label="Endpoint" name={`services[${i}].endpoint`} required mono value={service.endpoint} onInput={(endpoint) => change(i, { endpoint })} hint="An http or https URL in your network." />
                </div>
                <Callers
                  service={i} value={service.configurations} known={known} onInput={(configurations) => change(i, { configurations })}
                />
                <button
                  type="button" class="quiet"
                  onClick={() => {
                    setServices(services.filter((_, k) => k !== i));
                    list.current?.querySelector<HTMLElement>(".add-service")?.focus();
                  }}
                >Remove service {i + 1}</button>
              </fieldset>
            ))}
            <button
              type="button" class="add-service"
              onClick={() => {
                setServices([...services, { name: "", endpoint: "", configurations: [] }]);
                setAdded(added + 1);
              }}
            >Add a service</button>
          </div>
        </Form>
      </Dialog>
      {theirs && (
        <Conflict
          what="The configuration" onClose={edit.settle} onMine={() => void save(edit.conflict!.etag)}
          onTheirs={() => {
            setBase(edit.conflict!);
            setServices(theirs.services);
            edit.settle();
          }}
          versions={[{ label: "Services", mine: told(mine), theirs: told(theirs) }]}
        />
      )}
    </>
  );
}

/** The projects that may call a service, each with its permitted kinds of environment. */
function Callers({ service, value, known, onInput }: { service: number; value: Access[]; known: string; onInput: (value: Access[]) => void }) {
  const at = `services[${service}].configurations`;
  const change = (j: number, to: Partial<Access>) => onInput(value.map((a, k) => (k === j ? { ...a, ...to } : a)));
  return (
    <div class="callers">
      {value.map((access, j) => (
        <div class="caller" key={j}>
          <Field
            label={`Project ${j + 1} that may call it`} name={`${at}[${j}]`} required
            input={(a) => <input {...a} type="text" class="mono" list={known} autocomplete="off" spellcheck={false} value={access.project} onInput={(e) => change(j, { project: e.currentTarget.value })} />}
          />
          <div class="kinds" role="group" aria-label={`Kinds of environment of project ${j + 1}`}>
            {kinds.map((kind) => (
              <label key={kind}>
                <input
                  type="checkbox" checked={access.accessibleBy.includes(kind)}
                  onChange={(e) => change(j, { accessibleBy: kinds.filter((k) => (k === kind ? e.currentTarget.checked : access.accessibleBy.includes(k))) })}
                /> {kind}
              </label>
            ))}
            <button type="button" class="quiet" aria-label={`Remove project ${j + 1} of service ${service + 1}`} onClick={() => onInput(value.filter((_, k) => k !== j))}>×</button>
          </div>
        </div>
      ))}
      <button type="button" onClick={() => onInput([...value, { project: "", accessibleBy: ["production"] }])}>Let a project call it</button>
    </div>
  );
}
