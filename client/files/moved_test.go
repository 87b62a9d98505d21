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

// TestMovedObjectsOfEachKindEndAnApply has what is changed at another path than it is read at, or named by an id alone, move between
// the plan and its apply: it is told which field, and by whom, and nothing behind it is made.
func TestMovedObjectsOfEachKindEndAnApply(t *testing.T) {
	t.Parallel()
	const (
		domain  = "customDomains: [{hostname: api.example.com, deploymentName: a}]\n"
		ca      = "caCertificates: [{name: partners, certificate: PEM}]\n"
		managed = "keyBuckets: [{name: partners, consumers: [{name: ada, managers: [bea@example.com]}]}]\n"
		last    = "\ncomplete: [tunnels, caCertificates, customDomains]\n"
	)
	only := func(f *fake, member string) *thing {
		i := slices.IndexFunc(f.objects, func(o *thing) bool { return o.kind.Member == member })
		return f.objects[i]
	}
	again := func(f *fake, member, operation string, arguments map[string]any) {
		f.remove(only(f, member))
		arguments["idempotencyKey"] = "anew"
		ask(f, operation, arguments)
	}
	for name, tt := range map[string]struct {
		before, after string
		moves         func(*fake)
		says          []string
	}{
		"a custom domain that is changed": {domain, strings.Replace(domain, ": a}", ": b}", 1), func(f *fake) {
			ask(f, "CustomDomainsService_update", map[string]any{"hostname": "api.example.com", "deploymentName": "c", "ifMatch": "*", "idempotencyKey": "x"})
		}, []string{"custom domain api.example.com", `deploymentName was "a", and is "c"`, "customDomains.update, audit record request-"}},
		"a custom domain that is deleted": {domain, "", func(f *fake) {
			ask(f, "CustomDomainsService_update", map[string]any{"hostname": "api.example.com", "deploymentName": "c", "ifMatch": "*", "idempotencyKey": "x"})
		}, []string{`deploymentName was "a", and is "c"`, "customDomains.update, audit record request-"}},
		"a CA that is renamed": {ca, "", func(f *fake) {
			o := only(f, "caCertificates")
			o.fields["name"] = json.RawMessage(`"suppliers"`)
			f.record("caCertificates.update", o)
		}, []string{"CA certificate partners", `name was "partners", and is "suppliers"`, "caCertificates.update, audit record request-"}},
		"a CA that is made anew": {ca, "", func(f *fake) {
			again(f, "caCertificates", "ClientMtlsCaCertificatesService_create", map[string]any{"name": "partners", "certificate": "PEM"})
		}, []string{"CA certificate partners", `id was "`, "caCertificates.create, audit record request-"}},
		"an invite that is taken up": {managed, strings.Replace(managed, "managers: [bea@example.com]", "complete: [managers]", 1), func(f *fake) {
			again(f, "managers", "ApiKeyConsumerManagers_create", map[string]any{"bucketName": "partners", "consumerName": "ada", "email": "Bea@example.com", "sub": "s1"})
		}, []string{"manager partners ada bea@example.com", `sub was not set, and is "s1"`, `id was "`, "managers.create, audit record request-"}},
		"a manager who is another": {managed, strings.Replace(managed, "managers: [bea@example.com]", "complete: [managers]", 1), func(f *fake) {
			o := only(f, "managers")
			o.fields["sub"] = json.RawMessage(`"s2"`)
			f.record("managers.update", o)
		}, []string{`sub was not set, and is "s2"`, "managers.update, audit record request-"}},
	} {
		f := newFake(t, "a")
		applied(t, f, tt.before+"tunnels: [{name: office}]\n")
		p := compared(t, f, tt.after+last, files.Options{Prune: true})
		if len(p.Changes) != 2 || slices.ContainsFunc(p.Changes, func(c files.Change) bool { return c.IfMatch == "*" || c.IfMatch == "" }) {
			t.Errorf("%s: the plan has not two changes with their conditions: %+v", name, p.Changes)
		}
		i := slices.IndexFunc(p.Changes, func(c files.Change) bool { return c.Kind != "tunnel" })
		tt.moves(f)
		f.done = nil
		_, err := files.Apply(t.Context(), f, p, applying(f, ""))
		if exit.Of(err) != exit.Conflict {
			t.Fatalf("%s: it ends with %v", name, err)
		}
		for _, text := range tt.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: it does not say %q: %v", name, text, err)
			}
		}
		if len(f.done) != i {
			t.Errorf("%s: %d changes are made, of %d before it", name, len(f.done), i)
		}
	}
}

// TestWhatIsInTheWayOfACreationEndsAnApply: an object that somebody has made meanwhile, whose name the API then refuses, or the lack of
// what one is to be in. The same plan makes neither, so that who applies it is told to plan again.
func TestWhatIsInTheWayOfACreationEndsAnApply(t *testing.T) {
	t.Parallel()
	const world = `projects: [{name: shop}]
keyBuckets: [{name: partners, consumers: [{name: ada}]}]
meteringBuckets: [{name: sold, plans: [{planExternalId: pro, label: Pro, meters: {requests: {max: 1}}}]}]
`
	anew := func(f *fake, operation string, arguments map[string]any) {
		arguments["idempotencyKey"] = "theirs"
		ask(f, operation, arguments)
	}
	for name, tt := range map[string]struct {
		wanted string
		moves  func(*fake)
		says   []string
	}{
		"a project": {"projects: [{name: mall}]\n", func(f *fake) {
			anew(f, "ProjectsService_create", map[string]any{"name": "mall"})
		}, []string{"project mall", "the project was not there, and is there", "projects.create, audit record request-"}},
		"a consumer": {"keyBuckets: [{name: partners, consumers: [{name: bea}]}]\n", func(f *fake) {
			anew(f, "ApiKeyConsumersService_create", map[string]any{"bucketName": "partners", "name": "bea"})
		}, []string{"consumer partners bea", "the consumer was not there, and is there", "consumers.create, audit record request-"}},
		"a bucket that is gone": {"keyBuckets: [{name: partners, consumers: [{name: bea}]}]\n", func(f *fake) {
			ask(f, "ApiKeyBucketsService_delete", map[string]any{"bucketName": "partners", "ifMatch": "*"})
		}, []string{"key bucket partners", "the key bucket was there, and is gone"}},
		"a project that is gone": {"projects: [{name: shop, branches: [{name: main, variables: [{name: URL, isSecret: false, value: v}]}]}]\n", func(f *fake) {
			ask(f, "ProjectsService_delete", map[string]any{"projectName": "shop", "ifMatch": "*"})
		}, []string{"The project shop", "the project was there, and is gone"}},
	} {
		f := newFake(t, "a")
		applied(t, f, world)
		p := compared(t, f, tt.wanted, files.Options{})
		tt.moves(f)
		_, err := files.Apply(t.Context(), f, p, applying(f, ""))
		if exit.Of(err) != exit.Conflict {
			t.Errorf("%s: it ends with %v", name, err)
			continue
		}
		for _, text := range append(tt.says, "0 of 1 changes are made. Plan again.") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: it does not say %q: %v", name, text, err)
			}
		}
		moved, is := errors.AsType[*files.MovedError](err)
		if !is || !json.Valid(moved.Document()) {
			t.Errorf("%s: no program reads what has moved: %v", name, err)
		}
	}
}

// TestDeletionOfWhatIsGoneIsDone, also where it was sent before, and another object has its name since then.
func TestDeletionOfWhatIsGoneIsDone(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	applied(t, f, "caCertificates: [{name: partners, certificate: PEM}, {name: others, certificate: PEM}]")
	p := compared(t, f, "complete: [caCertificates]", files.Options{Prune: true})
	f.remove(f.objects[0])
	if result, err := files.Apply(t.Context(), f, p, applying(f, "")); err != nil || result.Made != 2 || len(f.objects) != 0 {
		t.Errorf("%+v of %d changes, %v, and %d are left", result, len(p.Changes), err, len(f.objects))
	}
}
