package functions_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// failureMode is a way that calls of the table fail.
type failureMode struct {
	name string
	// err is the error of the call. If applied is true, the call took effect nevertheless.
	err     error
	applied bool
	// always makes all later calls fail too.
	always bool
}

// failureModes returns the ways that calls of the table fail. The tests of package store cover more of them.
func failureModes() []failureMode {
	errLost := fmt.Errorf("%w: %w", store.ErrRetryable, store.ErrOutcomeUnknown)
	return []failureMode{
		{"a throttle", store.ErrRetryable, false, false},
		{"endless throttles", store.ErrRetryable, false, true},
		{"a lost request", errLost, false, false},
		{"a lost reply", errLost, true, false},
		{"an outage", errLost, false, true},
		{"an outage after the commit", errLost, true, true},
		{"no permission", errors.New("AccessDeniedException"), false, true},
		{"an unknown failure", fmt.Errorf("%w: what is this", store.ErrOutcomeUnknown), true, true},
	}
}

// failingBackend is a backend whose call with the number failAt fails, counted from 0. If always is true, all later
// calls fail too. The writes of refusals' audit records are not counted and do not fail.
type failingBackend struct {
	store.Backend
	failureMode
	failAt int
	calls  atomic.Int64 // atomic, because some calls are concurrent
}

// noCall is the value of failAt for which no call fails.
const noCall = -1

func (f *failingBackend) maybeFail(call func() error) error {
	n := int(f.calls.Add(1)) - 1
	if f.failAt == noCall || n < f.failAt || n > f.failAt && !f.always {
		return call()
	}
	if f.applied {
		if err := call(); err != nil {
			return err
		}
	}
	return f.err
}

// Read implements store.Backend.
func (f *failingBackend) Read(ctx context.Context, keys []store.Key) (items []store.Item, err error) {
	err = f.maybeFail(func() (err error) { items, err = f.Backend.Read(ctx, keys); return err })
	return items, err
}

// Query implements store.Backend.
func (f *failingBackend) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	err = f.maybeFail(func() (err error) { items, next, err = f.Backend.Query(ctx, q); return err })
	return items, next, err
}

// Transact implements store.Backend.
func (f *failingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if len(writes) == 1 && audit.IsRecord(writes[0].Key) {
		return f.Backend.Transact(ctx, token, writes)
	}
	return f.maybeFail(func() error { return f.Backend.Transact(ctx, token, writes) })
}

// TestResponseReportsResultOfFailedTableCall makes each table call of a valid request fail in each way. If the response
// is a success, the change must have been made exactly once. If it is an error, either the change was made and the
// error says that this is not known, or the change was not made and a repeat makes it. The audit record must have the
// same result.
func TestResponseReportsResultOfFailedTableCall(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(mutates), func(t *testing.T, d api.Declaration) {
		for i, r := range variants(p.sampleSet, d) {
			if r.ChangesNothing {
				continue
			}
			reference := p.runFailing(t, d, r, &failingBackend{failAt: noCall})
			if reference.status != d.Status {
				t.Fatalf("%s without failures = %d %s, want %d", d.ID, reference.status, reference.detail, d.Status)
			}
			for callNumber := range reference.calls {
				for _, f := range failureModes() {
					if i > 0 && !f.always {
						continue
					}
					got := p.runFailing(t, d, r, &failingBackend{failureMode: f, failAt: callNumber})
					if problem := got.check(d, reference, callNumber > 0, i == 0); problem != "" {
						t.Errorf("%s at call %d: response = %d %q, want one that fits the table: %s",
							f.name, callNumber, got.status, got.detail, problem)
					}
				}
			}
		}
	})
}

// requestResult is the result of a request: its response, and the contents of the table.
type requestResult struct {
	status             int
	detail             string
	calls              int
	unchanged          bool
	outcome            string // the result of the function outcome
	successes          int    // the number of audit records of a successful change
	refusals           int
	repeatStatus       int // the status of a repeated request
	outcomeAfterRepeat string
}

// runFailing sends a request to a copy of the fixture whose table fails.
func (p populatedFixture) runFailing(
	t *testing.T, d api.Declaration, r events.Request, f *failingBackend,
) (out requestResult) {
	t.Helper()
	fx, n := p.Copy(t), maps.Clone(p.values)
	if err := p.sampleSet.RunSteps(fx.Client(p.key), n, r.Prerequisites); err != nil {
		t.Fatal(err)
	}
	path, body := requestTarget(t, d, r, n)
	before := fx.Items.Snapshot()
	f.Backend = fx.Items
	fx.Parts.Table = storetest.NewWithBackend(t, f, storetest.Clock(fx.Parts.Now))
	fx.Now = fx.Now.Add(time.Second) // so that the audit records of the steps have different ids
	fx.Restart()
	resp := fx.Call(p.key, d.Method, path, body)
	out = requestResult{status: resp.Status, calls: int(f.calls.Load()), outcome: outcome(nil, fx), unchanged: true}
	if resp.Status >= http.StatusBadRequest {
		out.detail = resp.JSON().Text("detail")
	}
	after := fx.Items.Snapshot()
	for key, item := range after {
		if audit.IsRecord(key) {
			continue
		}
		if !store.EqualItems(before[key], item) {
			out.unchanged = false
		}
		delete(before, key)
	}
	for key := range before {
		if !audit.IsRecord(key) {
			out.unchanged = false
		}
	}
	f.failAt = noCall
	for _, e := range newAuditRecords(fx, p.Items.Snapshot()) {
		if *e.Success {
			out.successes++
		} else {
			out.refusals++
		}
	}
	if resp.Status >= http.StatusBadRequest {
		fx.Now = fx.Now.Add(time.Second)
		fx.Restart()
		out.repeatStatus = fx.Call(p.key, d.Method, path, body).Status
		out.outcomeAfterRepeat = outcome(nil, fx)
	}
	return out
}

// check returns what is wrong with a result, or "". A refusal must have an audit record, unless it happened before the
// authentication.
func (r requestResult) check(d api.Declaration, reference requestResult, authenticated, isPlain bool) string {
	reportedUnknown := strings.Contains(r.detail, "not known whether this was done")
	applied := r.outcome == reference.outcome && !r.unchanged
	// If the request is not plain, hidden records may differ. The hash record of a deleted consumer's key may be
	// missing, or hidden keys of an abandoned bulk request may remain.
	repeatable := r.repeatStatus == d.Status && (r.outcomeAfterRepeat == reference.outcome || !isPlain)
	switch {
	case r.status == d.Status && !applied:
		return "the change was not made exactly once: outcome =\n" + r.outcome + "\nwant\n" + reference.outcome
	case r.status == d.Status:
		return ""
	case r.status != http.StatusTooManyRequests && r.status != http.StatusInternalServerError:
		return "it is no success, 429 or 500"
	case !r.unchanged && !applied && !repeatable:
		return "a part of the change was made: outcome =\n" + r.outcome
	case applied && !reportedUnknown:
		return "the change was made, but the response does not say that this is not known"
	case !applied && r.successes != reference.successes-1, applied && r.successes != reference.successes:
		return fmt.Sprintf("%d audit records say that the change was made", r.successes)
	case authenticated && !applied && r.refusals != reference.refusals+1:
		return "no audit record says that the change was refused"
	case r.unchanged && !repeatable:
		return fmt.Sprintf("the status of its repeat is %d, with the outcome\n%s\nwant\n%s",
			r.repeatStatus, r.outcomeAfterRepeat, reference.outcome)
	}
	return ""
}
