package files_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
)

// These are the files of the test cases, and the lists that all cases declare complete.
const (
	domainYAML   = "customDomains: [{hostname: api.example.com, deploymentName: a}]\n"
	caYAML       = "caCertificates: [{name: partners, certificate: PEM}]\n"
	managedYAML  = "keyBuckets: [{name: partners, consumers: [{name: ada, managers: [bea@example.com]}]}]\n"
	completeYAML = "\ncomplete: [tunnels, caCertificates, customDomains]\n"
)

// firstOf returns the first object of a list.
func (f *fakeAPI) firstOf(member string) *fakeObject {
	i := slices.IndexFunc(f.objects, func(o *fakeObject) bool { return o.kind.Member == member })
	return f.objects[i]
}

// recreate deletes the first object of a list, and calls the operation that creates a new one.
func (f *fakeAPI) recreate(member, operation string, arguments map[string]any) {
	f.remove(f.firstOf(member))
	arguments["idempotencyKey"] = "anew"
	mustCall(f, operation, arguments)
}

// changedObjects are changes by another client between Compare and Apply. want are texts in the error.
var changedObjects = map[string]struct {
	before, after string
	modify        func(*fakeAPI)
	want          []string
}{
	"changed custom domain": {domainYAML, strings.Replace(domainYAML, ": a}", ": b}", 1), func(f *fakeAPI) {
		mustCall(f, "CustomDomainsService_update", map[string]any{
			"hostname": "api.example.com", "deploymentName": "c",
			"ifMatch": "*", "idempotencyKey": "x",
		})
	}, []string{
		"custom domain api.example.com", `deploymentName was "a", and is "c"`,
		"customDomains.update, audit record request-",
	}},
	"changed custom domain that the plan deletes": {domainYAML, "", func(f *fakeAPI) {
		mustCall(f, "CustomDomainsService_update", map[string]any{
			"hostname": "api.example.com", "deploymentName": "c",
			"ifMatch": "*", "idempotencyKey": "x",
		})
	}, []string{`deploymentName was "a", and is "c"`, "customDomains.update, audit record request-"}},
	"renamed CA": {caYAML, "", func(f *fakeAPI) {
		o := f.firstOf("caCertificates")
		o.fields["name"] = json.RawMessage(`"suppliers"`)
		f.record("caCertificates.update", o)
	}, []string{
		"CA certificate partners", `name was "partners", and is "suppliers"`,
		"caCertificates.update, audit record request-",
	}},
	"recreated CA": {caYAML, "", func(f *fakeAPI) {
		f.recreate("caCertificates", "ClientMtlsCaCertificatesService_create",
			map[string]any{"name": "partners", "certificate": "PEM"})
	}, []string{"CA certificate partners", `id was "`, "caCertificates.create, audit record request-"}},
	"accepted invite": {managedYAML, strings.Replace(managedYAML, "managers: [bea@example.com]",
		"complete: [managers]", 1), func(f *fakeAPI) {
		f.recreate("managers", "ApiKeyConsumerManagers_create",
			map[string]any{"bucketName": "partners", "consumerName": "ada", "email": "Bea@example.com", "sub": "s1"})
	}, []string{
		"manager partners ada bea@example.com", `sub was not set, and is "s1"`, `id was "`,
		"managers.create, audit record request-",
	}},
	"manager with another subject": {managedYAML, strings.Replace(managedYAML, "managers: [bea@example.com]",
		"complete: [managers]",
		1), func(f *fakeAPI) {
		o := f.firstOf("managers")
		o.fields["sub"] = json.RawMessage(`"s2"`)
		f.record("managers.update", o)
	}, []string{`sub was not set, and is "s2"`, "managers.update, audit record request-"}},
}

// TestChangedObjectOfEachKindStopsApply changes objects after the plan was made: a custom domain, a CA certificate,
// whose paths have an ID and not its name, and a manager, whose ID changes when the invite is accepted. The error must
// name the field and the audit record of the change, and Apply must make no later change.
func TestChangedObjectOfEachKindStopsApply(t *testing.T) {
	t.Parallel()
	for name, tt := range changedObjects {
		f := newFakeAPI(t, "a")
		mustApply(t, f, tt.before+"tunnels: [{name: office}]\n")
		p := mustCompare(t, f, tt.after+completeYAML, files.Options{Prune: true})
		if len(p.Changes) != 2 || slices.ContainsFunc(p.Changes, func(c files.Change) bool {
			return c.IfMatch == "*" || c.IfMatch == ""
		}) {
			t.Errorf("%s: Compare() = %+v, want two changes with an ETag each", name, p.Changes)
		}
		i := slices.IndexFunc(p.Changes, func(c files.Change) bool { return c.Kind != "tunnel" })
		tt.modify(f)
		f.changes = nil
		_, err := files.Apply(t.Context(), f, p, applyOptions(f, ""))
		if exit.CodeOf(err) != exit.Conflict {
			t.Fatalf("%s: Apply() error = %v, want code %d", name, err, exit.Conflict)
		}
		for _, text := range tt.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: Apply() error = %v, want %q in it", name, err, text)
			}
		}
		if len(f.changes) != i {
			t.Errorf("%s: Apply() makes %d changes, want the %d before the conflict", name, len(f.changes), i)
		}
	}
}

// TestConflictingCreationStopsApply creates an object of the same name, or deletes its parent, after the plan was made.
// The API then refuses the planned creation. The same plan cannot succeed later, so the error must say to plan again.
func TestConflictingCreationStopsApply(t *testing.T) {
	t.Parallel()
	const account = `projects: [{name: shop}]
keyBuckets: [{name: partners, consumers: [{name: ada}]}]
meteringBuckets: [{name: sold, plans: [{planExternalId: pro, label: Pro, meters: {requests: {max: 1}}}]}]
`
	create := func(f *fakeAPI, operation string, arguments map[string]any) {
		arguments["idempotencyKey"] = "theirs"
		mustCall(f, operation, arguments)
	}
	for name, tt := range map[string]struct {
		desired string
		modify  func(*fakeAPI)
		want    []string
	}{
		"project created": {"projects: [{name: mall}]\n", func(f *fakeAPI) {
			create(f, "ProjectsService_create", map[string]any{"name": "mall"})
		}, []string{"project mall", "the project was not there, and is there", "projects.create, audit record request-"}},
		"consumer created": {"keyBuckets: [{name: partners, consumers: [{name: bea}]}]\n", func(f *fakeAPI) {
			create(f, "ApiKeyConsumersService_create", map[string]any{"bucketName": "partners", "name": "bea"})
		}, []string{
			"consumer partners bea", "the consumer was not there, and is there",
			"consumers.create, audit record request-",
		}},
		"bucket deleted": {"keyBuckets: [{name: partners, consumers: [{name: bea}]}]\n", func(f *fakeAPI) {
			mustCall(f, "ApiKeyBucketsService_delete", map[string]any{"bucketName": "partners", "ifMatch": "*"})
		}, []string{"key bucket partners", "the key bucket was there, and is gone"}},
		"project deleted": {"projects: [{name: shop, branches: [{name: main, variables: [{name: URL, isSecret: " +
			"false, value: v}]}]}]\n", func(f *fakeAPI) {
			mustCall(f, "ProjectsService_delete", map[string]any{"projectName": "shop", "ifMatch": "*"})
		}, []string{"The project shop", "the project was there, and is gone"}},
	} {
		f := newFakeAPI(t, "a")
		mustApply(t, f, account)
		p := mustCompare(t, f, tt.desired, files.Options{})
		tt.modify(f)
		_, err := files.Apply(t.Context(), f, p, applyOptions(f, ""))
		if exit.CodeOf(err) != exit.Conflict {
			t.Errorf("%s: Apply() error = %v, want code %d", name, err, exit.Conflict)
			continue
		}
		for _, text := range append(tt.want, "0 of 1 changes are made. Plan again.") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: Apply() error = %v, want %q in it", name, err, text)
			}
		}
		conflict, ok := errors.AsType[*files.ConflictError](err)
		if !ok || !json.Valid(conflict.Document()) {
			t.Errorf("%s: Apply() error = %v, want a *files.ConflictError with a document in JSON", name, err)
		}
	}
}

// TestDeletionOfMissingObjectSucceeds checks that the deletion of an object that no longer exists counts as done.
func TestDeletionOfMissingObjectSucceeds(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, "caCertificates: [{name: partners, certificate: PEM}, {name: others, certificate: PEM}]")
	p := mustCompare(t, f, "complete: [caCertificates]", files.Options{Prune: true})
	f.remove(f.objects[0])
	if result, err := files.Apply(t.Context(), f, p, applyOptions(f, "")); err != nil || result.Applied != 2 ||
		len(f.objects) != 0 {
		t.Errorf("Apply() of 2 deletions, one of them done = %+v, %v with %d objects left, want 2 applied and 0 left",
			result, err, len(f.objects))
	}
}
