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
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// fakeEngine is an Engine that records its calls.
type fakeEngine struct {
	keys          []string
	sweeps        int
	failedRecords []int
	sweepErr      error
	// reclaims is the number of calls of Reclaim, and reclaimErr is the error that Reclaim returns.
	reclaims   int
	reclaimErr error
	// resumedID is the ID in the last call of Resume, and resumeErr is the error that Resume returns.
	resumedID string
	resumeErr error
	// rebuilds has the argument requested of each call of Rebuild, and rebuildErr is the error that Rebuild returns.
	rebuilds   []bool
	rebuildErr error
}

func (e *fakeEngine) List(context.Context) ([]operation.Record, error) {
	return []operation.Record{{
		ID: "kop_1", Kind: "roll", Input: `"the-input"`,
		History: []operation.Entry{{Message: "no time"}},
	}}, nil
}

func (e *fakeEngine) Resume(_ context.Context, id string) (operation.Record, error) {
	e.resumedID = id
	return operation.Record{ID: id}, e.resumeErr
}

func (e *fakeEngine) HandleStream(_ context.Context, records []store.StreamRecord) []int {
	for _, r := range records {
		e.keys = append(e.keys, r.Key.PK)
	}
	return e.failedRecords
}

func (e *fakeEngine) reclaim(context.Context) error {
	e.reclaims++
	return e.reclaimErr
}

func (e *fakeEngine) rebuild(_ context.Context, requested bool) (string, error) {
	e.rebuilds = append(e.rebuilds, requested)
	return "rebuild-1", e.rebuildErr
}

func (e *fakeEngine) Sweep(context.Context) error {
	e.sweeps++
	return e.sweepErr
}

// fakeRotation is a Rotation that returns fixed statuses.
type fakeRotation struct {
	err error
	by  string
}

func (r *fakeRotation) Start(_ context.Context, by string) (rotation.Status, error) {
	r.by = by
	return rotation.Status{Number: 1, Other: 2, Stage: "announce"}, r.err
}

func (*fakeRotation) Status(context.Context) (rotation.Status, error) {
	return rotation.Status{Number: 2}, nil
}

func TestRotateRootKeyAction(t *testing.T) {
	if result, _, err := call(t, &fakeEngine{}, []byte(`{"do":"rotate-root-key"}`)); err != nil ||
		result != `{"rootKey":1,"otherRootKey":2,"stage":"announce"}` {
		t.Errorf("rotate-root-key = %s, %v, want rootKey 1, otherRootKey 2 and stage announce", result, err)
	}
	if result, _, err := call(t, &fakeEngine{}, []byte(`{"do":"root-key"}`)); err != nil || result != `{"rootKey":2}` {
		t.Errorf("root-key = %s, %v, want rootKey 2", result, err)
	}
	ongoing := &fakeRotation{err: fault.New(fault.Conflict, "One goes on.").WithCause(errors.New("the cause"))}
	_, err := operations.Handler(operations.Work{Engine: &fakeEngine{}, RootKey: ongoing})(t.Context(),
		[]byte(`{"do":"rotate-root-key","by":"arn:aws:iam::0:user/auditor"}`))
	if ongoing.by != "arn:aws:iam::0:user/auditor" {
		t.Errorf("user of rotate-root-key = %q, want arn:aws:iam::0:user/auditor", ongoing.by)
	}
	if err == nil || err.Error() != "One goes on." {
		t.Errorf("rotate-root-key during a rotation: error = %v, want One goes on.", err)
	}
}

func call(t *testing.T, e operations.Engine, payload []byte) (result, log string, err error) {
	t.Helper()
	var lines bytes.Buffer
	reclaim := func(context.Context) error { return nil }
	if e, ok := e.(*fakeEngine); ok {
		reclaim = e.reclaim
	}
	rebuild := func(context.Context, bool) (string, error) { return "", nil }
	if e, ok := e.(*fakeEngine); ok {
		rebuild = e.rebuild
	}
	out, err := operations.Handler(operations.Work{
		Engine: e, RootKey: &fakeRotation{}, Reclaim: reclaim, Rebuild: rebuild,
		Log: slog.New(slog.NewTextHandler(&lines, nil)),
	})(t.Context(), payload)
	text, encodeErr := json.Marshal(out)
	if encodeErr != nil {
		t.Fatal(encodeErr)
	}
	return string(text), lines.String(), err
}

// batch returns an event of the stream with records of the operations first and second, and an unreadable record.
func batch(t *testing.T) []byte {
	t.Helper()
	payload, err := os.ReadFile("testdata/stream.json")
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func TestUnreadableRecordsOfBatchAreSkipped(t *testing.T) {
	e := &fakeEngine{}
	result, log, err := call(t, e, batch(t))
	if err != nil || result != `{"batchItemFailures":[]}` {
		t.Errorf("result of the batch = %s, %v, want no failures", result, err)
	}
	if !slices.Equal(e.keys, []string{"operation#first", "operation#second"}) || e.sweeps != 0 {
		t.Errorf("keys of the engine = %v with %d sweeps, want operation#first and operation#second with 0",
			e.keys, e.sweeps)
	}
	if !strings.Contains(log, "sequenceNumber=4421584500000000017450439092") {
		t.Errorf("log = %s, want the sequence number of the skipped record", log)
	}
}

func TestFailedRecordsAreReportedBySequenceNumber(t *testing.T) {
	result, _, err := call(t, &fakeEngine{failedRecords: []int{1}}, batch(t))
	if want := `{"batchItemFailures":[{"itemIdentifier":"4421584500000000017450439093"}]}`; err != nil || result != want {
		t.Errorf("response = %s, %v, want %s and no error", result, err, want)
	}
}

func TestScheduleSweeps(t *testing.T) {
	e := &fakeEngine{}
	if _, _, err := call(t, e, []byte(`{"schedule":"sweep"}`)); err != nil || e.sweeps != 1 || e.keys != nil {
		t.Errorf("schedule = %d sweeps, keys %v, %v, want 1 sweep and no keys", e.sweeps, e.keys, err)
	}
	e.sweepErr = errors.New("no store")
	if _, _, err := call(t, e, []byte(`{"schedule":"sweep"}`)); !errors.Is(err, e.sweepErr) {
		t.Errorf("schedule with a failing sweep: error = %v, want %v", err, e.sweepErr)
	}
	// If Reclaim fails, Sweep still runs.
	e.sweepErr, e.reclaimErr = nil, errors.New("no journals")
	if _, _, err := call(t, e, []byte(`{"schedule":"sweep"}`)); !errors.Is(err, e.reclaimErr) || e.sweeps != 3 ||
		e.reclaims != 3 {
		t.Errorf("schedule = %d sweeps, %d reclaims, %v, want 3, 3 and %v", e.sweeps, e.reclaims, err, e.reclaimErr)
	}
}

func TestListAndResumeActions(t *testing.T) {
	e := &fakeEngine{}
	result, _, err := call(t, e, []byte(`{"do":"list"}`))
	if err != nil || !strings.Contains(result, `"id":"kop_1","kind":"roll"`) ||
		!strings.Contains(result, `"lastFailure":"no time"`) || strings.Contains(result, "the-input") {
		t.Errorf("list = %s, %v, want kop_1 with its last failure and without its input", result, err)
	}
	if result, _, err = call(t, e, []byte(`{"do":"resume","id":"kop_1"}`)); err != nil || e.resumedID != "kop_1" ||
		!strings.Contains(result, `"kop_1"`) {
		t.Errorf("resume kop_1 = %s, %v, with %s resumed, want kop_1", result, err, e.resumedID)
	}
	e.resumeErr = fault.New(fault.Conflict, "It runs.").WithCause(errors.New("the cause"))
	if _, _, err = call(t, e, []byte(`{"do":"resume","id":"kop_1"}`)); err == nil || err.Error() != "It runs." {
		t.Errorf("resume of a running operation: error = %v, want It runs.", err)
	}
	if e.sweeps != 0 || e.keys != nil {
		t.Errorf("list and resume = %d sweeps, keys %v, want none", e.sweeps, e.keys)
	}
}

func TestUnknownEventIsAnError(t *testing.T) {
	for _, payload := range []string{`{}`, `null`, `[]`, `{"do":"end"}`, `"sweep"`, `{`, ``} {
		e := &fakeEngine{}
		if _, _, err := call(t, e, []byte(payload)); err == nil || e.sweeps != 0 || e.keys != nil {
			t.Errorf("event %q: error = %v, %d sweeps, keys %v, want an error alone", payload, err, e.sweeps, e.keys)
		}
	}
}

func TestBatchRunsOperations(t *testing.T) {
	table := storetest.New(t)
	runs := 0
	e, err := operation.New(table, []operation.Definition{{Kind: "count", First: "one", States: map[string]operation.State{
		"one": {Next: operation.Succeed, Task: func(context.Context, operation.Step) (operation.Result, error) {
			runs++
			return operation.Result{}, nil
		}},
	}}}, operation.Options{Now: func() time.Time {
		return storetest.Epoch
	}, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler), Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"first", "second"} {
		if err := table.Commit(t.Context(), operation.Create(operation.Start{ID: id, Kind: "count"},
			storetest.Epoch)); err != nil {
			t.Fatal(err)
		}
	}
	if result, _, err := call(t, e, batch(t)); err != nil || result != `{"batchItemFailures":[]}` {
		t.Errorf("result of the batch = %s, %v, want no failures", result, err)
	}
	if runs != 2 {
		t.Errorf("operations that ran = %d, want 2", runs)
	}
}

// TestStreamFilterMatchesUnownedOperations checks which records the stream's filter matches. An operation without a
// worker that the filter drops would wait up to a minute for the sweep.
func TestStreamFilterMatchesUnownedOperations(t *testing.T) {
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
	for _, source := range operations.Function.Events {
		if !source.FromStream {
			continue
		}
		d := json.NewDecoder(strings.NewReader(source.FilterPattern))
		d.DisallowUnknownFields()
		if err := d.Decode(&pattern); err != nil {
			t.Fatal(err)
		}
		pk, owner := pattern.DynamoDB.Keys.PK.S, pattern.DynamoDB.NewImage.Lease.M.Owner.S
		if len(pk) != 1 || pk[0].Prefix != operation.Key("").PK {
			t.Errorf("filter = %s, want keys that begin with %q", source.FilterPattern, operation.Key("").PK)
		}
		if len(owner) != 1 || owner[0].Exists == nil || *owner[0].Exists {
			t.Errorf("filter = %s, want only items without a lease.owner", source.FilterPattern)
		}
		return
	}
	t.Error("the stream does not call the function, want it to")
}

// TestScheduleRebuildsOldArtifacts checks that the schedule calls Rebuild, and sweeps even if Rebuild fails. It also
// checks that an operator's call begins a requested rebuild.
func TestScheduleRebuildsOldArtifacts(t *testing.T) {
	e := &fakeEngine{rebuildErr: errors.New("no table")}
	if _, _, err := call(t, e, []byte(`{"schedule":"sweep"}`)); err == nil || e.sweeps != 1 ||
		!slices.Equal(e.rebuilds, []bool{false}) {
		t.Errorf("schedule = rebuilds %v, %d sweeps, %v, want [false], 1 and an error", e.rebuilds, e.sweeps, err)
	}
	e = &fakeEngine{}
	result, _, err := call(t, e, []byte(`{"do":"rebuild"}`))
	if err != nil || !slices.Equal(e.rebuilds, []bool{true}) || !strings.Contains(result, "kop_1") {
		t.Errorf("rebuild = %s, %v, with rebuilds %v, want kop_1 with [true]", result, err, e.rebuilds)
	}
}
