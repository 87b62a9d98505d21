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

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/variables"
)

const accountID, project = "a-1", "shop"

// world is the service over a table in memory, with one project.
type world struct {
	*testing.T
	*variables.Service
	memory   *memory.Backend
	table    *store.Table
	now      time.Time
	requests atomic.Int64
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, memory: memory.New(), now: storetest.Epoch}
	w.table = storetest.Over(t, w.memory, storetest.Pause(store.Backoff))
	w.Service = variables.Open(installation.Parts{
		Table: w.table, Key: root{}, Now: func() time.Time { return w.now },
	})
	if err := w.table.Commit(t.Context(), store.Put(store.ProjectKey(accountID, project), struct{}{})); err != nil {
		t.Fatal(err)
	}
	return w
}

// root is a root key that no installation has.
type root struct{}

func (root) Root(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

// kinds is a caller who sees one project in environments of these kinds.
type kinds []string

func (k kinds) SeesProject(name string) bool { return name == project }

func (k kinds) MaySee(name, kind string) bool {
	return name == project && strings.Contains(strings.Join(k, " "), kind)
}

var everything = kinds{"production", "preview", "development"}

func at(branch string) variables.Branch {
	return variables.Branch{Owner: auth.Owner{AccountID: accountID, Viewer: everything}, Project: project, Branch: branch}
}

// request is the context of one audited request.
func (w *world) request() context.Context {
	return store.Decide(audit.With(w.Context(), &audit.Request{
		AccountID: accountID, Action: "variable.create", Time: w.now,
		RequestID: fmt.Sprint("request-", w.requests.Add(1)),
	}))
}

func (w *world) create(branch string, n variables.NewVariable) variables.Variable {
	w.Helper()
	v, err := w.Create(w.request(), at(branch), n)
	if err != nil {
		w.Fatal(err)
	}
	return v
}

func (w *world) resolve(branch string) map[string]string {
	w.Helper()
	all, err := w.Resolve(w.Context(), accountID, project, branch)
	if err != nil {
		w.Fatal(err)
	}
	return all
}

func TestCreatedVariableIsResolved(t *testing.T) {
	w := newWorld(t)
	v := w.create("feature/x", variables.NewVariable{Name: "UPSTREAM", Value: "http://a.example"})
	want := variables.Variable{Name: "UPSTREAM", Branch: "feature/x", Value: "http://a.example", CreatedOn: w.now, UpdatedOn: w.now}
	if v != want {
		t.Errorf("created %+v, want %+v", v, want)
	}
	if got := w.resolve("feature/x"); !maps.Equal(got, map[string]string{"UPSTREAM": "http://a.example"}) {
		t.Errorf("resolved %v", got)
	}
}

func TestSecretIsNeverShownAndResolved(t *testing.T) {
	w := newWorld(t)
	if v := w.create("main", variables.NewVariable{Name: "TOKEN", IsSecret: true, Value: "s3cret"}); v.Value != "" || !v.IsSecret {
		t.Errorf("create shows %+v", v)
	}
	for _, value := range []*string{nil, new("n3w")} {
		if v, err := w.Update(w.request(), at("main"), "TOKEN", value); err != nil || v.Value != "" || !v.IsSecret {
			t.Errorf("update shows %+v, %v", v, err)
		}
	}
	if got := w.resolve("main"); got["TOKEN"] != "n3w" {
		t.Errorf("resolved %v", got)
	}
}

func TestBranchesDoNotShareVariables(t *testing.T) {
	w := newWorld(t)
	for _, branch := range []string{"main", "main#x", "main/x", "main%23x"} {
		w.create(branch, variables.NewVariable{Name: "WHERE", Value: branch})
	}
	for _, branch := range []string{"main", "main#x", "main/x", "main%23x"} {
		if got := w.resolve(branch); !maps.Equal(got, map[string]string{"WHERE": branch}) {
			t.Errorf("%s resolves %v", branch, got)
		}
	}
	if got := w.resolve("other"); len(got) != 0 {
		t.Errorf("a branch without variables resolves %v", got)
	}
}

func TestUpdateReplacesTheValueAlone(t *testing.T) {
	w := newWorld(t)
	made := w.create("main", variables.NewVariable{Name: "LEVEL", Value: "info"})
	w.now = w.now.Add(time.Hour)
	v, err := w.Update(w.request(), at("main"), "LEVEL", new("debug"))
	want := made
	want.Value, want.UpdatedOn = "debug", w.now
	if err != nil || v != want {
		t.Errorf("updated %+v, %v; want %+v", v, err, want)
	}
	w.now = w.now.Add(time.Hour)
	if v, err = w.Update(w.request(), at("main"), "LEVEL", nil); err != nil || v != want {
		t.Errorf("an update without a value answers %+v, %v; want %+v", v, err, want)
	}
	if v, err = w.Update(w.request(), at("main"), "LEVEL", new("")); err != nil || v.Value != "" {
		t.Errorf("an empty value answers %+v, %v", v, err)
	}
	if got, ok := w.resolve("main")["LEVEL"]; !ok || got != "" {
		t.Errorf("resolved %q, %v", got, ok)
	}
}

func TestBadInputNamesTheField(t *testing.T) {
	long := strings.Repeat("A", variables.MaxNameChars)
	full := strings.Repeat("v", variables.MaxValueBytes)
	tests := []struct {
		name, branch, variable, value string
		want                          string // "" for a good one
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
			w := newWorld(t)
			_, err := w.Create(w.request(), at(tt.branch), variables.NewVariable{Name: tt.variable, Value: tt.value})
			if tt.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			faulttest.Want(t, err, fault.Invalid, tt.want)
			for _, echo := range []string{tt.value, tt.variable, tt.branch} {
				if len(echo) > 3 && strings.Contains(err.Error(), echo) {
					t.Errorf("the error echoes the input: %v", err)
				}
			}
		})
	}
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	w := newWorld(t)
	_, err := w.Create(w.request(), at(""), variables.NewVariable{Name: "x", Value: "\x00"})
	f, ok := errors.AsType[*fault.Fault](err)
	if !ok || len(f.Details) != 3 {
		t.Errorf("got %v, want three fields", err)
	}
}

func TestNameInUseIsAConflict(t *testing.T) {
	w := newWorld(t)
	w.create("main", variables.NewVariable{Name: "A", Value: "1"})
	_, err := w.Create(w.request(), at("main"), variables.NewVariable{Name: "A", Value: "2"})
	faulttest.Want(t, err, fault.Conflict, "")
	if got := w.resolve("main")["A"]; got != "1" {
		t.Errorf("the value is %q after a refused change", got)
	}
}

func TestWhatIsNotThereIsMissing(t *testing.T) {
	w := newWorld(t)
	w.create("main", variables.NewVariable{Name: "A", Value: "1"})
	elsewhere := at("main")
	elsewhere.Project = "other"
	elsewhere.Viewer = anything{}
	_, err := w.Create(w.request(), elsewhere, variables.NewVariable{Name: "A"})
	faulttest.Want(t, err, fault.NotFound, "project")
	for _, name := range []string{"B", "a", "", "GATEWRIGHT_X", strings.Repeat("A", 5000)} {
		_, err := w.Update(w.request(), at("main"), name, new("2"))
		faulttest.Want(t, err, fault.NotFound, "variable")
	}
	_, err = w.Update(w.request(), at("other"), "A", new("2"))
	faulttest.Want(t, err, fault.NotFound, "variable")
}

// interrupted has something happen before the next commit, once.
type interrupted struct {
	store.Backend
	before func()
}

// Transact implements store.Backend.
func (i *interrupted) Transact(ctx context.Context, token string, writes []store.Write) error {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
	return i.Backend.Transact(ctx, token, writes)
}

// TestUpdateMakesNoVariable has the variable go between what its update reads
// and what that commits.
func TestUpdateMakesNoVariable(t *testing.T) {
	w := newWorld(t)
	w.create("main", variables.NewVariable{Name: "A", Value: "1"})
	gone := func() {
		if err := w.Delete(w.request(), at("main"), "A"); err != nil {
			t.Error(err)
		}
	}
	late := variables.Open(installation.Parts{
		Table: storetest.Over(t, &interrupted{w.memory, gone}), Key: root{}, Now: func() time.Time { return w.now },
	})
	_, err := late.Update(w.request(), at("main"), "A", new("2"))
	faulttest.Want(t, err, fault.NotFound, "variable")
	if got := w.resolve("main"); len(got) > 0 {
		t.Errorf("resolved %v", got)
	}
}

type anything struct{}

func (anything) SeesProject(string) bool { return true }

func (anything) MaySee(string, string) bool { return true }

func TestInvisibleEnvironmentReadsLikeAnAbsentOne(t *testing.T) {
	w := newWorld(t)
	w.create("main", variables.NewVariable{Name: "A", Value: "1"})
	limited := at("main")
	limited.Viewer = kinds{"preview"}

	_, unseen := w.Create(w.request(), limited, variables.NewVariable{Name: "B"})
	gone := at("main")
	gone.Project, gone.Viewer = "gone", anything{}
	_, absent := w.Create(w.request(), gone, variables.NewVariable{Name: "B"})
	if unseen == nil || absent == nil || unseen.Error() != absent.Error() {
		t.Errorf("create: %v and %v", unseen, absent)
	}

	_, unseen = w.Update(w.request(), limited, "A", new("2"))
	_, absent = w.Update(w.request(), at("main"), "B", new("2"))
	if unseen == nil || absent == nil || unseen.Error() != absent.Error() {
		t.Errorf("update: %v and %v", unseen, absent)
	}
	if got := w.resolve("main"); got["A"] != "1" || len(got) != 1 {
		t.Errorf("the variables are %v after refused changes", got)
	}

	limited.Branch = "feature"
	if _, err := w.Create(w.request(), limited, variables.NewVariable{Name: "B"}); err != nil {
		t.Errorf("a preview's variable is refused to a key for previews: %v", err)
	}
}

func TestHundredIsTheMostHoweverManyAreMadeAtOnce(t *testing.T) {
	w := newWorld(t)
	var made, refused atomic.Int64
	var all sync.WaitGroup
	for g := range 6 {
		all.Go(func() {
			for k := range 20 {
				_, err := w.Create(w.request(), at("main"), variables.NewVariable{Name: fmt.Sprintf("V_%d_%d", g, k)})
				switch {
				case err == nil:
					made.Add(1)
				case fault.Is(err, fault.Invalid):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if made.Load() != variables.MaxVariables || refused.Load() != 20 || len(w.resolve("main")) != variables.MaxVariables {
		t.Errorf("%d were made and %d refused, %d are there", made.Load(), refused.Load(), len(w.resolve("main")))
	}
	// The limit is a branch's own, and a name in use is told as one on a full branch too.
	w.create("other", variables.NewVariable{Name: "A"})
	for name := range w.resolve("main") {
		_, err := w.Create(w.request(), at("main"), variables.NewVariable{Name: name})
		faulttest.Want(t, err, fault.Conflict, "")
	}
}

func TestRefusedVariableDoesNotCount(t *testing.T) {
	w := newWorld(t)
	w.create("main", variables.NewVariable{Name: "FIRST"})
	for range 150 {
		_, err := w.Create(w.request(), at("main"), variables.NewVariable{Name: "FIRST"})
		faulttest.Want(t, err, fault.Conflict, "")
	}
	for k := range variables.MaxVariables - 1 {
		w.create("main", variables.NewVariable{Name: fmt.Sprint("V_", k)})
	}
}

func TestChangesAreAuditedAndReadsAreNot(t *testing.T) {
	w := newWorld(t)
	count := func() (n int) {
		for key := range w.memory.Items() {
			if audit.IsRecord(key) {
				n++
			}
		}
		return n
	}
	w.create("main", variables.NewVariable{Name: "TOKEN", IsSecret: true, Value: "very-secret-text"})
	if count() != 1 {
		t.Errorf("%d records after a create", count())
	}
	if _, err := w.Update(w.request(), at("main"), "TOKEN", new("other-secret-text")); err != nil || count() != 2 {
		t.Errorf("%d records after an update, %v", count(), err)
	}
	if _, err := w.Update(w.request(), at("main"), "TOKEN", nil); err != nil || count() != 2 {
		t.Errorf("%d records after an update that changes nothing, %v", count(), err)
	}
	w.resolve("main")
	if count() != 2 {
		t.Errorf("%d records after a read", count())
	}
	for key, item := range w.memory.Items() {
		if text := fmt.Sprintf("%v %+v", key, item); strings.Contains(text, "secret-text") {
			t.Errorf("a value stands in the table in plain text, at %v", key)
		}
	}
}

func TestSealedValueOpensOnlyInItsPlace(t *testing.T) {
	w := newWorld(t)
	w.create("main", variables.NewVariable{Name: "A", IsSecret: true, Value: "s3cret"})
	var stolen struct {
		Sealed []byte `dynamodbav:"sealed"`
	}
	if err := w.table.Get(t.Context(), at("main").Key("A"), &stolen); err != nil {
		t.Fatal(err)
	}
	// Whoever can write to the table must not make a secret readable by
	// putting it where values are shown.
	w.create("main", variables.NewVariable{Name: "B", Value: "x"})
	if err := w.table.Commit(t.Context(), store.Update(at("main").Key("B"), store.Set(store.At("sealed"), stolen.Sealed))); err != nil {
		t.Fatal(err)
	}
	if v, err := w.Update(w.request(), at("main"), "B", nil); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("the moved value is shown: %+v, %v", v, err)
	}
	if _, err := w.Resolve(t.Context(), accountID, project, "main"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("the moved value is resolved: %v", err)
	}
}

func TestCostDoesNotGrowWithTheBranch(t *testing.T) {
	w := newWorld(t)
	for k := range 80 {
		w.create("main", variables.NewVariable{Name: fmt.Sprint("V_", k), Value: "x"})
	}
	tests := []struct {
		name string
		do   func(ctx context.Context) error
		want store.Usage
	}{
		{"create", func(ctx context.Context) error {
			_, err := w.Create(ctx, at("main"), variables.NewVariable{Name: "NEW", Value: "x"})
			return err
		}, store.Usage{Commits: 1}},
		{"update", func(ctx context.Context) error {
			_, err := w.Update(ctx, at("main"), "NEW", new("y"))
			return err
		}, store.Usage{Reads: 1, Commits: 1}},
		{"resolve", func(ctx context.Context) error {
			_, err := w.Resolve(ctx, accountID, project, "main")
			return err
		}, store.Usage{Queries: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var meter store.Meter
			if err := tt.do(store.WithMeter(w.request(), &meter)); err != nil {
				t.Fatal(err)
			}
			got := meter.Usage()
			got.ReadUnits, got.WriteUnits = 0, 0
			if got != tt.want {
				t.Errorf("%+v round trips, want %+v", got, tt.want)
			}
		})
	}
}
