package variables_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/variables"
)

const accountID, project = "a-1", "shop"

// fixture is the service over a table in memory, with one project.
type fixture struct {
	*testing.T
	*variables.Service
	memory   *memory.Backend
	table    *store.Table
	now      time.Time
	requests atomic.Int64
}

func newFixture(t *testing.T) *fixture {
	fx := &fixture{T: t, memory: memory.New(), now: storetest.Epoch}
	fx.table = storetest.NewWithBackend(t, fx.memory, storetest.Backoff(store.Backoff))
	fx.Service = variables.Open(installation.Parts{
		Table: fx.table, Key: testRootKey{}, Now: func() time.Time { return fx.now },
	})
	if err := fx.table.Commit(t.Context(), store.Put(store.ProjectKey(accountID, project), struct{}{})); err != nil {
		t.Fatal(err)
	}
	return fx
}

// testRootKey provides a root key that is only for tests.
type testRootKey struct{}

func (testRootKey) Root(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

// kindsViewer is a caller that sees one project in environments of these kinds.
type kindsViewer []string

func (k kindsViewer) CanSeeProject(name string) bool { return name == project }

func (k kindsViewer) CanSee(name, kind string) bool {
	return name == project && strings.Contains(strings.Join(k, " "), kind)
}

var allKinds = kindsViewer{"production", "preview", "development"}

func branchRef(branch string) variables.Branch {
	return variables.Branch{Owner: auth.Owner{AccountID: accountID, Viewer: allKinds}, Project: project, Branch: branch}
}

// request returns the context of one audited request.
func (fx *fixture) request() context.Context {
	return store.WithReadSet(audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: accountID, Action: "variable.create", Time: fx.now,
		RequestID: fmt.Sprint("request-", fx.requests.Add(1)),
	}))
}

func (fx *fixture) create(branch string, n variables.NewVariable) variables.Variable {
	fx.Helper()
	v, err := fx.Create(fx.request(), branchRef(branch), n)
	if err != nil {
		fx.Fatal(err)
	}
	return v
}

func (fx *fixture) resolve(branch string) map[string]string {
	fx.Helper()
	all, err := fx.Resolve(fx.Context(), accountID, project, branch)
	if err != nil {
		fx.Fatal(err)
	}
	return all
}

func TestCreatedVariableIsResolved(t *testing.T) {
	fx := newFixture(t)
	v := fx.create("feature/x", variables.NewVariable{Name: "UPSTREAM", Value: "http://a.example"})
	want := variables.Variable{
		Name: "UPSTREAM", Branch: "feature/x", Value: "http://a.example", CreatedOn: fx.now,
		UpdatedOn: fx.now,
	}
	if v != want {
		t.Errorf("Create() = %+v, want %+v", v, want)
	}
	if got := fx.resolve("feature/x"); !maps.Equal(got, map[string]string{"UPSTREAM": "http://a.example"}) {
		t.Errorf("Resolve(feature/x) = %v, want UPSTREAM=http://a.example", got)
	}
}

func TestSecretIsResolvedButNeverShown(t *testing.T) {
	fx := newFixture(t)
	if v := fx.create("main", variables.NewVariable{Name: "TOKEN", IsSecret: true, Value: "s3cret"}); v.Value != "" ||
		!v.IsSecret {
		t.Errorf("Create(secret) = %+v, want a secret without value", v)
	}
	for _, value := range []*string{nil, new("n3w")} {
		if v, err := fx.Update(fx.request(), branchRef("main"), "TOKEN", value); err != nil || v.Value != "" || !v.IsSecret {
			t.Errorf("Update(secret) = %+v, %v, want a secret without value", v, err)
		}
	}
	if got := fx.resolve("main"); got["TOKEN"] != "n3w" {
		t.Errorf("Resolve(main) = %v, want TOKEN=n3w", got)
	}
}

func TestBranchesDoNotShareVariables(t *testing.T) {
	fx := newFixture(t)
	for _, branch := range []string{"main", "main#x", "main/x", "main%23x"} {
		fx.create(branch, variables.NewVariable{Name: "WHERE", Value: branch})
	}
	for _, branch := range []string{"main", "main#x", "main/x", "main%23x"} {
		if got := fx.resolve(branch); !maps.Equal(got, map[string]string{"WHERE": branch}) {
			t.Errorf("Resolve(%s) = %v, want WHERE=%[1]s", branch, got)
		}
	}
	if got := fx.resolve("other"); len(got) != 0 {
		t.Errorf("Resolve(other) = %v, want none", got)
	}
}

func TestUpdateReplacesOnlyValue(t *testing.T) {
	fx := newFixture(t)
	created := fx.create("main", variables.NewVariable{Name: "LEVEL", Value: "info"})
	fx.now = fx.now.Add(time.Hour)
	v, err := fx.Update(fx.request(), branchRef("main"), "LEVEL", new("debug"))
	want := created
	want.Value, want.UpdatedOn = "debug", fx.now
	if err != nil || v != want {
		t.Errorf("Update() = %+v, %v, want %+v", v, err, want)
	}
	fx.now = fx.now.Add(time.Hour)
	if v, err = fx.Update(fx.request(), branchRef("main"), "LEVEL", nil); err != nil || v != want {
		t.Errorf("Update(no value) = %+v, %v, want %+v", v, err, want)
	}
	if v, err = fx.Update(fx.request(), branchRef("main"), "LEVEL", new("")); err != nil || v.Value != "" {
		t.Errorf("Update(empty value) = %+v, %v, want an empty value and no error", v, err)
	}
	if got, ok := fx.resolve("main")["LEVEL"]; !ok || got != "" {
		t.Errorf("resolved LEVEL = %q, %t, want an empty value", got, ok)
	}
}

func TestInvalidInputNamesField(t *testing.T) {
	long := strings.Repeat("A", variables.MaxNameChars)
	full := strings.Repeat("v", variables.MaxValueBytes)
	tests := []struct {
		name, branch, variable, value string
		want                          string // "" for a valid name and value
	}{
		{"shortest name", "main", "A", "", ""},
		{"longest name", "main", long, "", ""},
		{"digits and underscores", "main", "A_1__2_", "", ""},
		{"public prefix", "main", "GATEWRIGHT_PUBLIC_URL", "", ""},
		{"prefix without its underscore", "main", "GATEWRIGHTS", "", ""},
		{"longest value", "main", "FULL", full, ""},
		{"lines in the value", "main", "PEM", "-----\n\t\r\n-----", ""},
		{"no name", "main", "", "", "name"},
		{"lower case", "main", "Name", "", "name"},
		{"digit first", "main", "1A", "", "name"},
		{"underscore first", "main", "_A", "", "name"},
		{"hyphen", "main", "A-B", "", "name"},
		{"newline after the name", "main", "A\n", "", "name"},
		{"letters of other scripts", "main", "Ä", "", "name"},
		{"name too long", "main", long + "A", "", "name"},
		{"reserved prefix", "main", "GATEWRIGHT_URL", "", "reserved"},
		{"reserved hidden prefix", "main", "__GATEWRIGHT_X", "", "reserved"},
		{"value too long", "main", "A", full + "v", "value"},
		{"value too long in bytes", "main", "A", strings.Repeat("ä", variables.MaxValueBytes/2+1), "value"},
		{"NUL", "main", "A", "a\x00b", "value"},
		{"no UTF-8", "main", "A", "\xff", "value"},
		{"no branch", "", "A", "", "branchName"},
		{"branch too long", strings.Repeat("b", 256), "A", "", "branchName"},
		{"branch with control characters", "a\tb", "A", "", "branchName"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			_, err := fx.Create(fx.request(), branchRef(tt.branch), variables.NewVariable{Name: tt.variable, Value: tt.value})
			if tt.want == "" {
				if err != nil {
					t.Errorf("Create() error = %v, want none", err)
				}
				return
			}
			faulttest.Check(t, err, fault.Invalid, tt.want)
			for _, echo := range []string{tt.value, tt.variable, tt.branch} {
				if len(echo) > 3 && strings.Contains(err.Error(), echo) {
					t.Errorf("error = %v, want it without the input %q", err, echo)
				}
			}
		})
	}
}

func TestAllInvalidFieldsAreReported(t *testing.T) {
	fx := newFixture(t)
	_, err := fx.Create(fx.request(), branchRef(""), variables.NewVariable{Name: "x", Value: "\x00"})
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok {
		t.Errorf("Create() error = %v, want a fault", err)
	} else if len(f.Details) != 3 {
		t.Errorf("Create() error = %v with fields %+v, want 3 fields", err, f.Details)
	}
}

func TestNameInUseIsAConflict(t *testing.T) {
	fx := newFixture(t)
	fx.create("main", variables.NewVariable{Name: "A", Value: "1"})
	_, err := fx.Create(fx.request(), branchRef("main"), variables.NewVariable{Name: "A", Value: "2"})
	faulttest.Check(t, err, fault.Conflict, "")
	if got := fx.resolve("main")["A"]; got != "1" {
		t.Errorf("value after a refused Create() = %q, want 1", got)
	}
}

func TestMissingVariableIsNotFound(t *testing.T) {
	fx := newFixture(t)
	fx.create("main", variables.NewVariable{Name: "A", Value: "1"})
	otherProject := branchRef("main")
	otherProject.Project = "other"
	otherProject.Viewer = fullViewer{}
	_, err := fx.Create(fx.request(), otherProject, variables.NewVariable{Name: "A"})
	faulttest.Check(t, err, fault.NotFound, "project")
	for _, name := range []string{"B", "a", "", "GATEWRIGHT_X", strings.Repeat("A", 5000)} {
		_, err := fx.Update(fx.request(), branchRef("main"), name, new("2"))
		faulttest.Check(t, err, fault.NotFound, "variable")
	}
	_, err = fx.Update(fx.request(), branchRef("other"), "A", new("2"))
	faulttest.Check(t, err, fault.NotFound, "variable")
}

// interruptedBackend calls a function before the next commit, once.
type interruptedBackend struct {
	store.Backend
	beforeCommit func()
}

// Transact implements store.Backend.
func (i *interruptedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if beforeCommit := i.beforeCommit; beforeCommit != nil {
		i.beforeCommit = nil
		beforeCommit()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// TestUpdateDoesNotCreateVariable deletes the variable between the read and the commit of its update.
func TestUpdateDoesNotCreateVariable(t *testing.T) {
	fx := newFixture(t)
	fx.create("main", variables.NewVariable{Name: "A", Value: "1"})
	deleteVariable := func() {
		if err := fx.Delete(fx.request(), branchRef("main"), "A"); err != nil {
			t.Error(err)
		}
	}
	concurrent := variables.Open(installation.Parts{
		Table: storetest.NewWithBackend(t, &interruptedBackend{fx.memory, deleteVariable}), Key: testRootKey{},
		Now: func() time.Time { return fx.now },
	})
	_, err := concurrent.Update(fx.request(), branchRef("main"), "A", new("2"))
	faulttest.Check(t, err, fault.NotFound, "variable")
	if got := fx.resolve("main"); len(got) > 0 {
		t.Errorf("Resolve(main) = %v, want none", got)
	}
}

type fullViewer struct{}

func (fullViewer) CanSeeProject(string) bool { return true }

func (fullViewer) CanSee(string, string) bool { return true }

func TestInvisibleEnvironmentIsNotFound(t *testing.T) {
	fx := newFixture(t)
	fx.create("main", variables.NewVariable{Name: "A", Value: "1"})
	limited := branchRef("main")
	limited.Viewer = kindsViewer{"preview"}

	_, invisibleErr := fx.Create(fx.request(), limited, variables.NewVariable{Name: "B"})
	missingProject := branchRef("main")
	missingProject.Project, missingProject.Viewer = "gone", fullViewer{}
	_, missingErr := fx.Create(fx.request(), missingProject, variables.NewVariable{Name: "B"})
	if invisibleErr == nil || missingErr == nil || invisibleErr.Error() != missingErr.Error() {
		t.Errorf("Create(invisible) error = %v, want %v as for a missing project", invisibleErr, missingErr)
	}

	_, invisibleErr = fx.Update(fx.request(), limited, "A", new("2"))
	_, missingErr = fx.Update(fx.request(), branchRef("main"), "B", new("2"))
	if invisibleErr == nil || missingErr == nil || invisibleErr.Error() != missingErr.Error() {
		t.Errorf("Update(invisible) error = %v, want %v as for a missing variable", invisibleErr, missingErr)
	}
	if got := fx.resolve("main"); got["A"] != "1" || len(got) != 1 {
		t.Errorf("Resolve(main) after refused changes = %v, want A=1", got)
	}

	limited.Branch = "feature"
	if _, err := fx.Create(fx.request(), limited, variables.NewVariable{Name: "B"}); err != nil {
		t.Errorf("Create(preview variable) with a key for previews: error = %v, want none", err)
	}
}

func TestConcurrentCreatesRespectLimit(t *testing.T) {
	fx := newFixture(t)
	var created, refused atomic.Int64
	var wg sync.WaitGroup
	for g := range 6 {
		wg.Go(func() {
			for k := range 20 {
				_, err := fx.Create(fx.request(), branchRef("main"), variables.NewVariable{Name: fmt.Sprintf("V_%d_%d", g, k)})
				switch {
				case err == nil:
					created.Add(1)
				case fault.Is(err, fault.Invalid):
					refused.Add(1)
				default:
					t.Errorf("concurrent Create() error = %v, want none or %v", err, fault.Invalid)
				}
			}
		})
	}
	wg.Wait()
	if created.Load() != variables.MaxVariables || refused.Load() != 20 ||
		len(fx.resolve("main")) != variables.MaxVariables {
		t.Errorf("%d creations succeed, %d fail, %d variables, want %d, 20, %[4]d",
			created.Load(), refused.Load(), len(fx.resolve("main")), variables.MaxVariables)
	}
	// Each branch has its own limit. A name in use is a Conflict, even if the branch already has MaxVariables.
	fx.create("other", variables.NewVariable{Name: "A"})
	for name := range fx.resolve("main") {
		_, err := fx.Create(fx.request(), branchRef("main"), variables.NewVariable{Name: name})
		faulttest.Check(t, err, fault.Conflict, "")
	}
}

func TestRefusedVariableDoesNotCount(t *testing.T) {
	fx := newFixture(t)
	fx.create("main", variables.NewVariable{Name: "FIRST"})
	for range 150 {
		_, err := fx.Create(fx.request(), branchRef("main"), variables.NewVariable{Name: "FIRST"})
		faulttest.Check(t, err, fault.Conflict, "")
	}
	for k := range variables.MaxVariables - 1 {
		fx.create("main", variables.NewVariable{Name: fmt.Sprint("V_", k)})
	}
}

// TestChangesAreAuditedAndReadsAreNot also checks that no item, such as an audit entry, contains a value in plain text.
func TestChangesAreAuditedAndReadsAreNot(t *testing.T) {
	fx := newFixture(t)
	count := func() (n int) {
		for key := range fx.memory.Items() {
			if audit.IsRecord(key) {
				n++
			}
		}
		return n
	}
	fx.create("main", variables.NewVariable{Name: "TOKEN", IsSecret: true, Value: "very-secret-text"})
	if count() != 1 {
		t.Errorf("%d audit entries after a create, want 1", count())
	}
	if _, err := fx.Update(fx.request(), branchRef("main"), "TOKEN", new("other-secret-text")); err != nil ||
		count() != 2 {
		t.Errorf("%d audit entries after an update, %v, want 2 and no error", count(), err)
	}
	if _, err := fx.Update(fx.request(), branchRef("main"), "TOKEN", nil); err != nil || count() != 2 {
		t.Errorf("%d audit entries after an update without a change, %v, want 2 and no error", count(), err)
	}
	fx.resolve("main")
	if count() != 2 {
		t.Errorf("%d audit entries after a read, want 2", count())
	}
	for key, item := range fx.memory.Items() {
		var attributes map[string]any
		if err := store.Decode(item, &attributes); err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprintf("%v %s", key, attributes); strings.Contains(text, "secret-text") {
			t.Errorf("item %v contains a value in plain text, want it sealed", key)
		}
	}
}

func TestSealedValueIsBoundToItsVariable(t *testing.T) {
	fx := newFixture(t)
	fx.create("main", variables.NewVariable{Name: "A", IsSecret: true, Value: "s3cret"})
	var stolen struct {
		Sealed []byte `dynamodbav:"sealed"`
	}
	if err := fx.table.Get(t.Context(), branchRef("main").Key("A"), &stolen); err != nil {
		t.Fatal(err)
	}
	// An attacker who can write to the table must not be able to
	// read a secret by copying it to a variable that is not secret.
	fx.create("main", variables.NewVariable{Name: "B", Value: "x"})
	if err := fx.table.Commit(t.Context(), store.Update(branchRef("main").Key("B"),
		store.Set(store.At("sealed"), stolen.Sealed))); err != nil {
		t.Fatal(err)
	}
	if v, err := fx.Update(fx.request(), branchRef("main"), "B", nil); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("Update(variable with a moved value) = %+v, %v, want %v", v, err, seal.ErrSealed)
	}
	if _, err := fx.Resolve(t.Context(), accountID, project, "main"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("Resolve(moved value) error = %v, want %v", err, seal.ErrSealed)
	}
}

// TestCostDoesNotGrowWithTheBranch checks the number of requests to the table in a branch with 80 variables. Their read
// and write units are not compared.
func TestCostDoesNotGrowWithTheBranch(t *testing.T) {
	fx := newFixture(t)
	for k := range 80 {
		fx.create("main", variables.NewVariable{Name: fmt.Sprint("V_", k), Value: "x"})
	}
	tests := []struct {
		name string
		call func(ctx context.Context) error
		want store.Usage
	}{
		{"create", func(ctx context.Context) error {
			_, err := fx.Create(ctx, branchRef("main"), variables.NewVariable{Name: "NEW", Value: "x"})
			return err
		}, store.Usage{Commits: 1}},
		{"update", func(ctx context.Context) error {
			_, err := fx.Update(ctx, branchRef("main"), "NEW", new("y"))
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"resolve", func(ctx context.Context) error {
			_, err := fx.Resolve(ctx, accountID, project, "main")
			return err
		}, store.Usage{Queries: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var meter store.Meter
			if err := tt.call(store.WithMeter(fx.request(), &meter)); err != nil {
				t.Fatal(err)
			}
			got := meter.Usage()
			got.ReadUnits, got.WriteUnits = 0, 0
			if got != tt.want {
				t.Errorf("usage = %+v, want %+v", got, tt.want)
			}
		})
	}
}
