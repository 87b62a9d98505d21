package operations_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/operations"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// engine remembers what it was asked.
type engine struct {
	keys   []string
	sweeps int
	failed []int
	swept  error
	// reclaims is how often it was asked to give back, reclaimed how that is answered.
	reclaims  int
	reclaimed error
	// resumed is which operation was, refused how that is answered.
	resumed string
	refused error
	// rebuilds are the calls by which formats are kept, whether they were asked for, unbuilt how that is answered.
	rebuilds []bool
	unbuilt  error
}

func (e *engine) List(context.Context) ([]operation.Record, error) {
	return []operation.Record{{ID: "kop_1", Kind: "roll", Input: `"the-input"`, History: []operation.Entry{{Message: "no time"}}}}, nil
}

func (e *engine) Resume(_ context.Context, id string) (operation.Record, error) {
	e.resumed = id
	return operation.Record{ID: id}, e.refused
}

func (e *engine) HandleStream(_ context.Context, records []store.StreamRecord) []int {
	for _, r := range records {
		e.keys = append(e.keys, r.Key.PK)
	}
	return e.failed
}

func (e *engine) reclaim(context.Context) error {
	e.reclaims++
	return e.reclaimed
}

func (e *engine) rebuild(_ context.Context, asked bool) (string, error) {
	e.rebuilds = append(e.rebuilds, asked)
	return "rebuild-1", e.unbuilt
}

func (e *engine) Sweep(context.Context) error {
	e.sweeps++
	return e.swept
}

// rotating answers as a rotation does, or as one that goes on.
type rotating struct {
	refused error
	by      string
}

func (r *rotating) Start(_ context.Context, by string) (rotation.Status, error) {
	r.by = by
	return rotation.Status{Number: 1, Other: 2, Stage: "announce"}, r.refused
}

func (*rotating) Status(context.Context) (rotation.Status, error) {
	return rotation.Status{Number: 2}, nil
}

func TestWhoInvokesItRotatesTheRootKey(t *testing.T) {
	if answer, _, err := call(t, &engine{}, []byte(`{"do":"rotate-root-key"}`)); err != nil || answer != `{"rootKey":1,"otherRootKey":2,"stage":"announce"}` {
		t.Errorf("the answer is %s, %v", answer, err)
	}
	if answer, _, err := call(t, &engine{}, []byte(`{"do":"root-key"}`)); err != nil || answer != `{"rootKey":2}` {
		t.Errorf("its status is %s, %v", answer, err)
	}
	goesOn := &rotating{refused: fault.New(fault.Conflict, "One goes on.").Because(errors.New("the cause"))}
	_, err := operations.Handler(operations.Work{Engine: &engine{}, RootKey: goesOn})(t.Context(), []byte(`{"do":"rotate-root-key","by":"arn:aws:iam::0:user/auditor"}`))
	if goesOn.by != "arn:aws:iam::0:user/auditor" {
		t.Errorf("who asks for it is %q", goesOn.by)
	}
	if err == nil || err.Error() != "One goes on." {
		t.Errorf("a refusal is %v", err)
	}
}

func call(t *testing.T, e operations.Engine, payload []byte) (answer, log string, err error) {
	t.Helper()
	var lines bytes.Buffer
	none := func(context.Context) error { return nil }
	if e, ok := e.(*engine); ok {
		none = e.reclaim
	}
	rebuild := func(context.Context, bool) (string, error) { return "", nil }
	if e, ok := e.(*engine); ok {
		rebuild = e.rebuild
	}
	out, err := operations.Handler(operations.Work{Engine: e, RootKey: &rotating{}, Reclaim: none, Rebuild: rebuild, Log: slog.New(slog.NewTextHandler(&lines, nil))})(t.Context(), payload)
	text, encodeErr := json.Marshal(out)
	if encodeErr != nil {
		t.Fatal(encodeErr)
	}
	return string(text), lines.String(), err
}

func batch(t *testing.T) []byte {
	t.Helper()
	payload, err := os.ReadFile("testdata/stream.json")
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func TestBatchIsHandedOverWithoutWhatCannotBeRead(t *testing.T) {
	e := &engine{}
	answer, log, err := call(t, e, batch(t))
	if err != nil || answer != `{"batchItemFailures":[]}` {
		t.Errorf("the answer is %s, %v", answer, err)
	}
	if !slices.Equal(e.keys, []string{"operation#first", "operation#second"}) || e.sweeps != 0 {
		t.Errorf("the engine got %v and %d sweeps", e.keys, e.sweeps)
	}
	if !strings.Contains(log, "sequenceNumber=4421584500000000017450439092") {
		t.Errorf("the log does not name the record that was passed over: %s", log)
	}
}

func TestFailedRecordsAreNamedByTheirSequenceNumbers(t *testing.T) {
	answer, _, err := call(t, &engine{failed: []int{1}}, batch(t))
	if want := `{"batchItemFailures":[{"itemIdentifier":"4421584500000000017450439093"}]}`; err != nil || answer != want {
		t.Errorf("the answer is %s, %v; want %s", answer, err, want)
	}
}

func TestScheduleSweeps(t *testing.T) {
	e := &engine{}
	if _, _, err := call(t, e, []byte(`{"schedule":"sweep"}`)); err != nil || e.sweeps != 1 || e.keys != nil {
		t.Errorf("%d sweeps, records of %v, %v", e.sweeps, e.keys, err)
	}
	e.swept = errors.New("no store")
	if _, _, err := call(t, e, []byte(`{"schedule":"sweep"}`)); !errors.Is(err, e.swept) {
		t.Errorf("a sweep that fails answers %v", err)
	}
	// One that fails keeps the other from nothing.
	e.swept, e.reclaimed = nil, errors.New("no journals")
	if _, _, err := call(t, e, []byte(`{"schedule":"sweep"}`)); !errors.Is(err, e.reclaimed) || e.sweeps != 3 || e.reclaims != 3 {
		t.Errorf("%d sweeps, %d times given back, %v", e.sweeps, e.reclaims, err)
	}
}

func TestWhoInvokesItListsAndResumes(t *testing.T) {
	e := &engine{}
	answer, _, err := call(t, e, []byte(`{"do":"list"}`))
	if err != nil || !strings.Contains(answer, `"id":"kop_1","kind":"roll"`) || !strings.Contains(answer, `"lastFailure":"no time"`) || strings.Contains(answer, "the-input") {
		t.Errorf("the list is %s, %v", answer, err)
	}
	if answer, _, err = call(t, e, []byte(`{"do":"resume","id":"kop_1"}`)); err != nil || e.resumed != "kop_1" || !strings.Contains(answer, `"kop_1"`) {
		t.Errorf("it resumes %s: %s, %v", e.resumed, answer, err)
	}
	e.refused = fault.New(fault.Conflict, "It runs.").Because(errors.New("the cause"))
	if _, _, err = call(t, e, []byte(`{"do":"resume","id":"kop_1"}`)); err == nil || err.Error() != "It runs." {
		t.Errorf("a refusal is %v", err)
	}
	if e.sweeps != 0 || e.keys != nil {
		t.Errorf("%d sweeps, records of %v", e.sweeps, e.keys)
	}
}

func TestUnknownEventIsAnError(t *testing.T) {
	for _, payload := range []string{`{}`, `null`, `[]`, `{"do":"end"}`, `"sweep"`, `{`, ``} {
		e := &engine{}
		if _, _, err := call(t, e, []byte(payload)); err == nil || e.sweeps != 0 || e.keys != nil {
			t.Errorf("event %q: error %v, %d sweeps, records of %v", payload, err, e.sweeps, e.keys)
		}
	}
}

func TestOperationsOfABatchRun(t *testing.T) {
	table := storetest.New(t)
	counted := 0
	e, err := operation.New(table, []operation.Definition{{Kind: "count", First: "one", States: map[string]operation.State{
		"one": {Next: operation.Succeed, Task: func(context.Context, operation.Step) (operation.Result, error) {
			counted++
			return operation.Result{}, nil
		}},
	}}}, operation.Options{Now: func() time.Time { return storetest.Epoch }, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler), Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"first", "second"} {
		if err := table.Commit(t.Context(), operation.Begin(operation.Start{ID: id, Kind: "count"}, storetest.Epoch)); err != nil {
			t.Fatal(err)
		}
	}
	if answer, _, err := call(t, e, batch(t)); err != nil || answer != `{"batchItemFailures":[]}` {
		t.Errorf("the answer is %s, %v", answer, err)
	}
	if counted != 2 {
		t.Errorf("%d of 2 operations ran", counted)
	}
}

// TestStreamsFilterLetsEveryWaitingOperationThrough: a record that the filter
// holds back would wait for the sweep, a minute.
func TestStreamsFilterLetsEveryWaitingOperationThrough(t *testing.T) {
	var pattern struct {
		DynamoDB struct {
			Keys struct {
				PK struct {
					S []struct{ Prefix string }
				}
			}
			NewImage struct {
				Lease struct {
					M struct {
						Owner struct {
							S []struct{ Exists *bool }
						}
					}
				}
			}
		}
	}
	for _, on := range operations.Function.On {
		if !on.StreamRecords {
			continue
		}
		d := json.NewDecoder(strings.NewReader(on.FilterPattern))
		d.DisallowUnknownFields()
		if err := d.Decode(&pattern); err != nil {
			t.Fatal(err)
		}
		pk, owner := pattern.DynamoDB.Keys.PK.S, pattern.DynamoDB.NewImage.Lease.M.Owner.S
		if len(pk) != 1 || pk[0].Prefix != operation.Key("").PK {
			t.Errorf("operations' keys begin with %q, the filter is %s", operation.Key("").PK, on.FilterPattern)
		}
		if len(owner) != 1 || owner[0].Exists == nil || *owner[0].Exists {
			t.Errorf("the filter is %s", on.FilterPattern)
		}
		return
	}
	t.Error("the stream does not call the function")
}

// TestScheduleKeepsTheFormatOfArtifacts, and sweeps whether or not it can; who asks has a pass at once.
func TestScheduleKeepsTheFormatOfArtifacts(t *testing.T) {
	e := &engine{unbuilt: errors.New("no table")}
	if _, _, err := call(t, e, []byte(`{"schedule":"sweep"}`)); err == nil || e.sweeps != 1 || !slices.Equal(e.rebuilds, []bool{false}) {
		t.Errorf("it has kept %v and swept %d times, %v", e.rebuilds, e.sweeps, err)
	}
	e = &engine{}
	answer, _, err := call(t, e, []byte(`{"do":"rebuild"}`))
	if err != nil || !slices.Equal(e.rebuilds, []bool{true}) || !strings.Contains(answer, "kop_1") {
		t.Errorf("it is answered %s, %v, after %v", answer, err, e.rebuilds)
	}
}
