package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
)

const whole = `
projects:
  - name: shop
    environments: [{branchName: next, environmentType: preview}]
    branches:
      - name: main
        variables:
          - {name: URL, isSecret: false, value: "https://a"}
          - {name: TOKEN, isSecret: true, value: {fromEnv: SHOP_TOKEN}}
keyBuckets:
  - name: shop-production
    description: of the shop
    consumers: [{name: inside}]
  - name: partners
    tags: {team: blue}
    consumers:
      - name: ada
        metadata: {big: 12345678901234567890, one: 1.0, e: 1e3}
        managers: [ada@example.com, {email: bea@example.com, sub: s1}]
      - {name: bob, tags: {plan: gold}}
tunnels:
  - name: office
    services: [{name: stock-box, endpoint: "http://localhost:1", configurations: []}]
meteringBuckets:
  - name: sold
    plans: [{planExternalId: pro, label: Pro, meters: {requests: {max: 9007199254740991}}}]
    subscriptions:
      - {subscriptionExternalId: sub, customerExternalId: c, customerKey: ada, planExternalIds: [pro], region: us-east1, renewalStrategy: monthly, status: active, type: periodic}
`

const token = "the-token-of-the-shop"

func getenv(name string) string {
	return map[string]string{"SHOP_TOKEN": token, "SHOP_MAIN_TOKEN": token}[name]
}

func now() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

// written is a file with a text, in a folder of its own.
func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "account.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func compared(t *testing.T, f *fake, text string, o files.Options) *files.Plan {
	t.Helper()
	p, err := compare(t.Context(), f, written(t, text), o)
	if err != nil {
		t.Fatal(told(err))
	}
	return p
}

func compare(ctx context.Context, f *fake, name string, o files.Options) (*files.Plan, error) {
	read, err := files.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	o.Getenv, o.Now, o.Installation = getenv, now, f.name
	return files.Compare(ctx, f, read, o)
}

// told is an error with all that is wrong with files.
func told(err error) string {
	var b strings.Builder
	if wrong, is := files.Invalid(err); is {
		for _, p := range wrong.Problems {
			fmt.Fprintf(&b, "%d:%d: %s\n", p.Line, p.Column, p.Message)
		}
		return b.String()
	}
	return fmt.Sprint(err)
}

func applying(f *fake, path string) files.Applying {
	return files.Applying{Path: path, Getenv: getenv, Now: now, Installation: f.name, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

// applied makes an installation be as a text has it.
func applied(t *testing.T, f *fake, text string) {
	t.Helper()
	if _, err := files.Apply(t.Context(), f, compared(t, f, text, files.Options{}), applying(f, "")); err != nil {
		t.Fatal(err)
	}
}

func exported(t *testing.T, f *fake) string {
	t.Helper()
	e, err := files.Export(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := e.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestExportIsTheSameElsewhere: what is exported changes nothing here, makes the same elsewhere, and is exported there byte for byte.
func TestExportIsTheSameElsewhere(t *testing.T) {
	t.Parallel()
	here, there := newFake(t, "here"), newFake(t, "there")
	applied(t, here, whole)
	text := exported(t, here)
	if p := compared(t, here, text, files.Options{}); len(p.Changes) > 0 {
		t.Errorf("what was exported changes %d objects: %+v\n%s", len(p.Changes), p.Changes, text)
	}
	there.n = 1000 // its ids are others
	applied(t, there, text)
	if again := exported(t, there); again != text {
		t.Errorf("elsewhere it is\n%s\nof\n%s", again, text)
	}
	for _, never := range []string{token, "here_", "createdOn", "2030-"} {
		if strings.Contains(text, never) {
			t.Errorf("it has %s:\n%s", never, text)
		}
	}
	for _, has := range []string{"12345678901234567890", "1.0\n", "1e3\n", "9007199254740991", "fromEnv: SHOP_MAIN_TOKEN"} {
		if !strings.Contains(text, has) {
			t.Errorf("it has no %q:\n%s", has, text)
		}
	}
}

// TestWhatGoesDuringAnExportIsLeftOut: an object that somebody deletes between the list that has it and what is asked about it is
// not there, and all others are exported.
func TestWhatGoesDuringAnExportIsLeftOut(t *testing.T) {
	t.Parallel()
	roots := []string{"ProjectsService_list", "ApiKeyBucketsService_list", "TunnelService_list", "MeteringBucketsService_list", "ClientMtlsCaCertificatesService_list", "CustomDomainsService_list"}
	f := newFake(t, "here")
	applied(t, f, whole)
	f.asked = nil
	exported(t, f)
	asked := slices.Clone(f.asked)
	gone := 0
	for at, operation := range asked {
		f.asked = nil
		f.fails = func(n int, after bool) error {
			if n == at+1 && !after {
				return problem(http.StatusNotFound, exit.NotFound)
			}
			return nil
		}
		_, err := files.Export(t.Context(), f, nil)
		if root := slices.Contains(roots, operation); root != (err != nil) {
			t.Errorf("request %d, %s, finds nothing: %v", at+1, operation, err)
		} else if !root {
			gone++
		}
	}
	if gone < 5 {
		t.Errorf("only %d requests were about an object, of %v", gone, asked)
	}
}

// TestKilledApplyMakesNothingTwice kills it before and behind each request, in whose place a reply is lost, and has the same command go on.
func TestKilledApplyMakesNothingTwice(t *testing.T) {
	t.Parallel()
	first := newFake(t, "a")
	applied(t, first, before)
	plan := compared(t, first, after, files.Options{Prune: true})
	if _, err := files.Apply(t.Context(), first, plan, applying(first, "")); err != nil {
		t.Fatal(err)
	}
	want, requests := exported(t, first), len(plan.Changes)
	if created, changed, deleted := plan.Counts(); created < 3 || changed < 3 || deleted < 2 {
		t.Fatalf("the plan is too little: %s", plan.Summary())
	}
	for _, behind := range []bool{false, true} {
		for _, torn := range []bool{false, true} {
			for kill := 1; kill <= 3*requests; kill++ {
				f := newFake(t, "a")
				applied(t, f, before)
				path := filepath.Join(t.TempDir(), "plan")
				if err := compared(t, f, after, files.Options{Prune: true}).Write(path); err != nil {
					t.Fatal(err)
				}
				p, err := files.Load(path)
				if err != nil {
					t.Fatal(err)
				}
				f.done = nil
				killed := errors.New("killed")
				begun := len(f.asked)
				f.fails = func(n int, after bool) error {
					if n == begun+kill && after == behind || n > begun+kill {
						return killed
					}
					return nil
				}
				if _, err = files.Apply(t.Context(), f, p, applying(f, path)); err == nil {
					break // it has no more requests
				}
				if !errors.Is(err, killed) {
					t.Fatalf("at request %d it ends with %v", kill, err)
				}
				if torn {
					tear(t, path+".progress")
				}
				f.fails = nil
				if _, err := files.Apply(t.Context(), f, p, applying(f, path)); err != nil {
					t.Fatalf("after request %d, behind it %t, it does not go on: %v", kill, behind, err)
				}
				if got := exported(t, f); got != want {
					t.Fatalf("after request %d, behind it %t, it is\n%s\nwant\n%s", kill, behind, got, want)
				}
				if len(f.done) != requests {
					t.Fatalf("after request %d, behind it %t, %d changes are made of %d: %v", kill, behind, len(f.done), requests, f.done)
				}
				if result, err := files.Apply(t.Context(), f, p, applying(f, path)); err != nil || result.Made != 0 || len(f.done) != requests {
					t.Fatalf("once more it makes %+v, %v", result, err)
				}
			}
		}
	}
}

const (
	before = `
keyBuckets:
  - name: partners
    consumers: [{name: ada, tags: {plan: free}}, {name: gone}, {name: later}]
tunnels: [{name: office, services: [{name: stock-box, endpoint: "http://localhost:1", configurations: []}]}]
projects: [{name: shop, branches: [{name: main, variables: [{name: URL, isSecret: false, value: a}]}]}]
`
	after = `
keyBuckets:
  - name: partners
    description: d
    complete: [consumers]
    consumers: [{name: ada, tags: {plan: gold}}, {name: new}]
tunnels:
  - {name: office, services: [{name: stock-box, endpoint: "http://localhost:2", configurations: []}]}
  - {name: second, services: [{name: other-box, endpoint: "http://localhost:2", configurations: []}]}
meteringBuckets: [{name: sold, plans: [{planExternalId: pro, label: Pro, meters: {}}]}]
projects: [{name: shop, branches: [{name: main, variables: [{name: URL, isSecret: false, value: b}]}]}]
`
)

// tear adds a beginning of a line, as a process that is killed while it writes leaves it.
func tear(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(`{"n":99,"do`); err != nil {
		t.Fatal(err)
	}
}

// TestMovedObjectEndsAnApply: it is told what has moved, and by whom, and nothing behind it is made.
func TestMovedObjectEndsAnApply(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		moves func(*fake)
		says  []string
	}{
		"changed": {func(f *fake) {
			ask(f, "ApiKeyConsumersService_update", map[string]any{"bucketName": "partners", "consumerName": "ada", "description": "another", "ifMatch": "*", "idempotencyKey": "x"})
		}, []string{"consumer partners ada", `description was not set, and is "another"`, "akey_other", "consumers.update, audit record request-"}},
		"gone": {func(f *fake) {
			ask(f, "ApiKeyConsumersService_delete", map[string]any{"bucketName": "partners", "consumerName": "ada", "ifMatch": "*"})
		}, []string{"consumer partners ada", "is gone"}},
	} {
		f := newFake(t, "a")
		applied(t, f, before)
		p := compared(t, f, after, files.Options{Prune: true})
		i := slices.IndexFunc(p.Changes, func(c files.Change) bool { return slices.Equal(c.Name, []string{"partners", "ada"}) })
		tt.moves(f)
		f.done = nil
		_, err := files.Apply(t.Context(), f, p, applying(f, ""))
		if exit.Of(err) != exit.Conflict {
			t.Fatalf("%s: it ends with %v", name, err)
		}
		for _, text := range append(tt.says, fmt.Sprintf("%d of %d changes are made", i, len(p.Changes))) {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: it does not say %q: %v", name, text, err)
			}
		}
		if len(f.done) != i {
			t.Errorf("%s: %d changes are made, of %d before it", name, len(f.done), i)
		}
	}
}

func ask(f *fake, name string, arguments map[string]any) {
	if _, err := f.Named(context.Background(), name, arguments); err != nil {
		f.t.Fatal(err)
	}
}

// TestWhatFilesDoNotNameStays: other objects, and other fields, but where a list is complete and --prune is typed.
func TestWhatFilesDoNotNameStays(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	applied(t, f, whole)
	count := func(text string, prune bool) (deleted, extra int) {
		p := compared(t, f, text, files.Options{Prune: prune})
		created, changed, deleted := p.Counts()
		if created+changed > 0 {
			t.Errorf("%s changes %d objects", text, created+changed)
		}
		return deleted, len(p.Extra)
	}
	const one = "keyBuckets: [{name: partners, consumers: [{name: ada}]}]"
	complete := strings.Replace(one, "name: partners", "name: partners, complete: [consumers]", 1)
	for _, tt := range []struct {
		text           string
		prune          bool
		deleted, extra int
	}{
		{one, false, 0, 0},
		{one, true, 0, 0},
		{complete, false, 0, 1},
		{complete, true, 1, 0},
		{"complete: [tunnels]", true, 1, 0},
		{"complete: [tunnels, meteringBuckets]\ntunnels: [{name: office}]", true, 1, 0},
		{"keyBuckets: [{name: partners, consumers: [{name: ada, complete: [managers], managers: [ada@example.com]}]}]", true, 1, 0},
	} {
		if deleted, extra := count(tt.text, tt.prune); deleted != tt.deleted || extra != tt.extra {
			t.Errorf("%s, with --prune %t: %d are deleted and %d more are there, want %d and %d", tt.text, tt.prune, deleted, extra, tt.deleted, tt.extra)
		}
	}
}

// TestNoSecretIsInAPlan: nor in how far it is, and the API is sent it.
func TestNoSecretIsInAPlan(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	path := filepath.Join(t.TempDir(), "plan")
	p := compared(t, f, whole, files.Options{})
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Apply(t.Context(), f, p, applying(f, path)); err != nil {
		t.Fatal(err)
	}
	document, err := p.Document()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".progress"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %v, %v", name, info.Mode(), err)
		}
		if strings.Contains(string(text)+string(document), token) {
			t.Errorf("%s has the secret", name)
		}
	}
	if n := strings.Count(f.sent.String(), token); n != 1 {
		t.Errorf("the API is sent the secret %d times", n)
	}
	if p := compared(t, f, whole, files.Options{SetSecrets: true}); len(p.Changes) != 1 || p.Changes[0].Secrets["value"].Env != "SHOP_TOKEN" || !p.Changes[0].Fields[0].Secret {
		t.Errorf("to set secrets anew is %+v", p.Changes)
	}
}

// TestPlanIsAppliedByOne at a time.
func TestPlanIsAppliedByOne(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	path := filepath.Join(t.TempDir(), "plan")
	p := compared(t, f, before, files.Options{})
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	var second error
	f.fails = func(int, bool) error {
		f.fails = nil
		_, second = files.Apply(t.Context(), f, p, applying(f, path))
		return nil
	}
	_, err := files.Apply(t.Context(), f, p, applying(f, path))
	if err != nil || exit.Of(second) != exit.Usage || len(f.done) != len(p.Changes) {
		t.Errorf("the first ends with %v, the second with %v, and %d changes are made", err, second, len(f.done))
	}
}

// TestPlanThatWasChangedIsNotApplied, nor one of elsewhere, or torn.
func TestPlanThatWasChangedIsNotApplied(t *testing.T) {
	t.Parallel()
	f := newFake(t, "a")
	path := filepath.Join(t.TempDir(), "plan")
	p := compared(t, f, before, files.Options{})
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]string{
		"another value": strings.Replace(string(text), `"free"`, `"gold"`, 1), "torn": string(text[:len(text)/2]), "more": string(text) + "{}", "empty": "", "no plan": `{"format":0}`, "a later format": strings.Replace(string(text), `"format": 2`, `"format": 3`, 1), "an earlier format": strings.Replace(string(text), `"format": 2`, `"format": 1`, 1),
	} {
		if err := os.WriteFile(path, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Load(path); exit.Of(err) != exit.Invalid || strings.HasSuffix(name, "r format") != strings.Contains(err.Error(), "does not read") {
			t.Errorf("%s is loaded: %v", name, err)
		}
	}
	if err := os.WriteFile(path, []byte("keyBuckets: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(path); exit.Of(err) != exit.Usage {
		t.Errorf("a plan is written over another file: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Write(path), p.Write(path)); err != nil {
		t.Errorf("a plan is not written over a plan: %v", err)
	}
	f.done = nil
	for _, o := range []files.Applying{{Installation: "elsewhere"}, {Installation: f.name, Getenv: func(string) string { return "" }, Path: path, Now: now}} {
		wants := compared(t, newFake(t, f.name), whole, files.Options{})
		if _, err := files.Apply(t.Context(), f, wants, o); exit.Of(err) != exit.Usage || len(f.done) > 0 {
			t.Errorf("it ends with %v, and has made %v", err, f.done)
		}
	}
}

// TestComparingAsksForListsAlone: 20,000 objects are 20 requests, and one more tells the ETags of all that change.
func TestComparingAsksForListsAlone(t *testing.T) {
	t.Parallel()
	const consumers, changed = 20_000, 300
	var here, wanted strings.Builder
	head := "keyBuckets:\n  - name: partners\n    consumers:\n"
	here.WriteString(head)
	wanted.WriteString(head)
	for i := range consumers {
		fmt.Fprintf(&here, "      - {name: c%05d, tags: {plan: free}}\n", i)
		plan := "free"
		if i%(consumers/changed) == 0 && i/(consumers/changed) < changed {
			plan = "gold"
		}
		fmt.Fprintf(&wanted, "      - {name: c%05d, tags: {plan: %s}}\n", i, plan)
	}
	f := newFake(t, "a")
	bucket := files.Kinds()[1]
	f.objects = append(f.objects, &thing{kind: bucket, id: "partners", fields: map[string]json.RawMessage{}})
	for i := range consumers {
		name, _ := json.Marshal(fmt.Sprintf("c%05d", i))
		f.objects = append(f.objects, &thing{kind: bucket.Below[0], scope: "/bucketName=partners", id: text(name), fields: map[string]json.RawMessage{"name": name, "tags": json.RawMessage(`{"plan":"free"}`)}})
	}
	if p := compared(t, f, here.String(), files.Options{}); len(p.Changes) > 0 || len(f.asked) != 1+consumers/1000 {
		t.Errorf("%d changes after %d requests", len(p.Changes), len(f.asked))
	}
	f.asked = nil
	p := compared(t, f, wanted.String(), files.Options{})
	if len(p.Changes) != changed || len(f.asked) != 1+consumers/1000+1 {
		t.Errorf("%d changes after %d requests", len(p.Changes), len(f.asked))
	}
	f.asked = nil
	if _, err := files.Apply(t.Context(), f, p, applying(f, "")); err != nil || len(f.asked) != changed {
		t.Errorf("%d requests for %d changes: %v", len(f.asked), changed, err)
	}
	// Where a list tells another thing than a read does, each is read.
	f.odd, f.asked = true, nil
	p = compared(t, f, here.String(), files.Options{})
	if len(p.Changes) != changed || len(f.asked) != 1+consumers/1000+changed {
		t.Errorf("%d changes after %d requests", len(p.Changes), len(f.asked))
	}
	if _, err := files.Apply(t.Context(), f, p, applying(f, "")); err != nil {
		t.Error(err)
	}
}
