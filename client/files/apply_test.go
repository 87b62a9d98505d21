package files_test

import (
	"context"
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

const fullYAML = `
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

func testGetenv(name string) string {
	return map[string]string{"SHOP_TOKEN": token, "SHOP_MAIN_TOKEN": token}[name]
}

func testNow() time.Time { return time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) }

// writeTemp writes a file with this text to a new folder, and returns its path.
func writeTemp(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "account.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func mustCompare(t *testing.T, f *fakeAPI, text string, o files.Options) *files.Plan {
	t.Helper()
	p, err := compare(t.Context(), f, writeTemp(t, text), o)
	if err != nil {
		t.Fatal(errorText(err))
	}
	return p
}

func compare(ctx context.Context, f *fakeAPI, name string, o files.Options) (*files.Plan, error) {
	desired, err := files.Read(ctx, name)
	if err != nil {
		return nil, err
	}
	o.Getenv, o.Now, o.Installation = testGetenv, testNow, f.name
	return files.Compare(ctx, f, desired, o)
}

// errorText returns the text of an error, with all problems of the files.
func errorText(err error) string {
	var b strings.Builder
	if invalid, ok := files.AsInvalid(err); ok {
		for _, p := range invalid.Problems {
			fmt.Fprintf(&b, "%d:%d: %s\n", p.Line, p.Column, p.Message)
		}
		return b.String()
	}
	return fmt.Sprint(err)
}

func applyOptions(f *fakeAPI, path string) files.ApplyOptions {
	return files.ApplyOptions{
		Path: path, Getenv: testGetenv, Now: testNow, Installation: f.name,
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}

// mustApply applies files with this text to an installation.
func mustApply(t *testing.T, f *fakeAPI, text string) {
	t.Helper()
	if _, err := files.Apply(t.Context(), f, mustCompare(t, f, text, files.Options{}), applyOptions(f, "")); err != nil {
		t.Fatal(err)
	}
}

func mustExport(t *testing.T, f *fakeAPI) string {
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

// TestExportIsPortable checks that an export changes nothing when it is applied to its own account. When it is applied
// to another account, it must create the same objects, so that an export of that account has the same bytes.
func TestExportIsPortable(t *testing.T) {
	t.Parallel()
	source, target := newFakeAPI(t, "here"), newFakeAPI(t, "there")
	mustApply(t, source, fullYAML)
	text := mustExport(t, source)
	if p := mustCompare(t, source, text, files.Options{}); len(p.Changes) > 0 {
		t.Errorf("Compare() of an export = %d changes %+v, want none:\n%s", len(p.Changes), p.Changes, text)
	}
	target.created = 1000 // so that the other account has other IDs
	mustApply(t, target, text)
	if reexported := mustExport(t, target); reexported != text {
		t.Errorf("Export() of the other account =\n%s\nwant\n%s", reexported, text)
	}
	for _, forbidden := range []string{token, "here_", "createdOn", "2030-"} {
		if strings.Contains(text, forbidden) {
			t.Errorf("Export() has %s, want it left out:\n%s", forbidden, text)
		}
	}
	for _, want := range []string{
		"12345678901234567890", "1.0\n", "1e3\n", "9007199254740991",
		"fromEnv: SHOP_MAIN_TOKEN",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("Export() =\n%s\nwant %q", text, want)
		}
	}
}

// TestExportSkipsObjectDeletedMeanwhile lets each request of an export find nothing, as if an object was deleted after
// its list was read. The export must succeed, unless the request is for a top-level list.
func TestExportSkipsObjectDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	topLevelLists := []string{
		"ProjectsService_list", "ApiKeyBucketsService_list", "TunnelService_list",
		"MeteringBucketsService_list", "ClientMtlsCaCertificatesService_list", "CustomDomainsService_list",
	}
	f := newFakeAPI(t, "here")
	mustApply(t, f, fullYAML)
	f.calls = nil
	mustExport(t, f)
	calls := slices.Clone(f.calls)
	skipped := 0 // the number of requests without which an export succeeds
	for i, operation := range calls {
		f.calls = nil
		f.onCall = func(n int, after bool) error {
			if n == i+1 && !after {
				return newProblem(http.StatusNotFound, exit.NotFound)
			}
			return nil
		}
		_, err := files.Export(t.Context(), f, nil)
		if isTopLevel := slices.Contains(topLevelLists, operation); isTopLevel != (err != nil) {
			t.Errorf("Export() with status 404 at request %d, %s: error = %v, want an error: %t",
				i+1, operation, err, isTopLevel)
		} else if !isTopLevel {
			skipped++
		}
	}
	if skipped < 5 {
		t.Errorf("Export() succeeds with status 404 at %d requests, want at least 5 of %v", skipped, calls)
	}
}

// TestInterruptedApplyResumes stops an apply before or after each request, with or without an incomplete line in the
// journal. The same command must then complete the plan.
func TestInterruptedApplyResumes(t *testing.T) {
	t.Parallel()
	undisturbed := newFakeAPI(t, "a")
	mustApply(t, undisturbed, beforeYAML)
	plan := mustCompare(t, undisturbed, afterYAML, files.Options{Prune: true})
	if _, err := files.Apply(t.Context(), undisturbed, plan, applyOptions(undisturbed, "")); err != nil {
		t.Fatal(err)
	}
	want, changeCount := mustExport(t, undisturbed), len(plan.Changes)
	if created, changed, deleted := plan.Counts(); created < 3 || changed < 3 || deleted < 2 {
		t.Fatalf("Counts() = %d, %d, %d of %s, want at least 3, 3, 2", created, changed, deleted, plan.Summary())
	}
	for _, afterRequest := range []bool{false, true} {
		for _, partialLine := range []bool{false, true} {
			for failAt := 1; failAt <= 3*changeCount; failAt++ {
				f := newFakeAPI(t, "a")
				mustApply(t, f, beforeYAML)
				path := filepath.Join(t.TempDir(), "plan")
				if err := mustCompare(t, f, afterYAML, files.Options{Prune: true}).Write(path); err != nil {
					t.Fatal(err)
				}
				p, err := files.Load(path)
				if err != nil {
					t.Fatal(err)
				}
				f.changes = nil
				errKilled := errors.New("killed")
				callsBefore := len(f.calls)
				f.onCall = func(n int, after bool) error {
					if n == callsBefore+failAt && after == afterRequest || n > callsBefore+failAt {
						return errKilled
					}
					return nil
				}
				if _, err = files.Apply(t.Context(), f, p, applyOptions(f, path)); err == nil {
					break // failAt is greater than the number of requests
				}
				if !errors.Is(err, errKilled) {
					t.Fatalf("Apply() killed at request %d: error = %v, want %v", failAt, err, errKilled)
				}
				if partialLine {
					appendPartialLine(t, path+".progress")
				}
				f.onCall = nil
				if _, err := files.Apply(t.Context(), f, p, applyOptions(f, path)); err != nil {
					t.Fatalf("Apply() killed at request %d, after it: %t: second Apply() error = %v, want none",
						failAt, afterRequest, err)
				}
				if got := mustExport(t, f); got != want {
					t.Fatalf("Apply() killed at request %d, after it: %t: Export() after the second Apply() =\n%s\nwant\n%s",
						failAt, afterRequest, got, want)
				}
				if len(f.changes) != changeCount {
					t.Fatalf("Apply() killed at request %d, after it: %t: both Apply() make the changes %v, want %d",
						failAt, afterRequest, f.changes, changeCount)
				}
				if result, err := files.Apply(t.Context(), f, p, applyOptions(f, path)); err != nil || result.Applied != 0 ||
					len(f.changes) != changeCount {
					t.Fatalf("third Apply() = %+v, %v after the changes %v, want 0 applied after %d",
						result, err, f.changes, changeCount)
				}
			}
		}
	}
}

const (
	beforeYAML = `
keyBuckets:
  - name: partners
    consumers: [{name: ada, tags: {plan: free}}, {name: gone}, {name: later}]
tunnels: [{name: office, services: [{name: stock-box, endpoint: "http://localhost:1", configurations: []}]}]
projects: [{name: shop, branches: [{name: main, variables: [{name: URL, isSecret: false, value: a}]}]}]
`
	afterYAML = `
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

// appendPartialLine adds an incomplete line, like a process that is killed during a write.
func appendPartialLine(t *testing.T, path string) {
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

// TestChangedObjectStopsApply checks that Apply stops if an object was changed or deleted since the plan was made. The
// error must say what has changed and, for a changed object, who has changed it.
func TestChangedObjectStopsApply(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		modify func(*fakeAPI)
		want   []string
	}{
		"changed": {func(f *fakeAPI) {
			mustCall(f, "ApiKeyConsumersService_update", map[string]any{
				"bucketName": "partners", "consumerName": "ada",
				"description": "another", "ifMatch": "*", "idempotencyKey": "x",
			})
		}, []string{
			"consumer partners ada", `description was not set, and is "another"`, "akey_other",
			"consumers.update, audit record request-",
		}},
		"deleted": {func(f *fakeAPI) {
			mustCall(f, "ApiKeyConsumersService_delete", map[string]any{
				"bucketName": "partners", "consumerName": "ada",
				"ifMatch": "*",
			})
		}, []string{"consumer partners ada", "is gone"}},
	} {
		f := newFakeAPI(t, "a")
		mustApply(t, f, beforeYAML)
		p := mustCompare(t, f, afterYAML, files.Options{Prune: true})
		i := slices.IndexFunc(p.Changes, func(c files.Change) bool {
			return slices.Equal(c.Name, []string{"partners", "ada"})
		})
		tt.modify(f)
		f.changes = nil
		_, err := files.Apply(t.Context(), f, p, applyOptions(f, ""))
		if exit.CodeOf(err) != exit.Conflict {
			t.Fatalf("%s: Apply() error = %v, want code %d", name, err, exit.Conflict)
		}
		for _, text := range append(tt.want, fmt.Sprintf("%d of %d changes are made", i, len(p.Changes))) {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: Apply() error = %v, want %q in it", name, err, text)
			}
		}
		if len(f.changes) != i {
			t.Errorf("%s: Apply() makes %d changes, want the %d before the conflict", name, len(f.changes), i)
		}
	}
}

func mustCall(f *fakeAPI, name string, arguments map[string]any) {
	if _, err := f.Call(context.Background(), name, arguments); err != nil {
		f.t.Fatal(err)
	}
}

// TestConcurrentApplyIsRefused checks that only one process at a time applies a plan.
func TestConcurrentApplyIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	path := filepath.Join(t.TempDir(), "plan")
	p := mustCompare(t, f, beforeYAML, files.Options{})
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	var secondErr error
	f.onCall = func(int, bool) error {
		f.onCall = nil
		_, secondErr = files.Apply(t.Context(), f, p, applyOptions(f, path))
		return nil
	}
	_, err := files.Apply(t.Context(), f, p, applyOptions(f, path))
	if err != nil || len(f.changes) != len(p.Changes) {
		t.Errorf("first of two Apply() at once: error = %v after the changes %v, want none after %d changes",
			err, f.changes, len(p.Changes))
	}
	if exit.CodeOf(secondErr) != exit.Usage {
		t.Errorf("second of two Apply() at once: error = %v, want code %d", secondErr, exit.Usage)
	}
}
