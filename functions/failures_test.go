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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// failure is what happens to calls of the table.
type failure struct {
	name string
	// err is what the call answers, after it took effect if applied.
	err     error
	applied bool
	// always has every call fail from the first one that does, not it alone.
	always bool
}

// failures are the ways in which the table fails: those of package store are
// told apart by its own tests.
func failures() []failure {
	lost := fmt.Errorf("%w: %w", store.ErrRepeat, store.ErrLost)
	return []failure{
		{"a throttle", store.ErrRepeat, false, false},
		{"throttles without end", store.ErrRepeat, false, true},
		{"a lost request", lost, false, false},
		{"a lost reply", lost, true, false},
		{"an outage", lost, false, true},
		{"an outage after the commit", lost, true, true},
		{"no permission", errors.New("AccessDeniedException"), false, true},
		{"a failure that nobody knows", fmt.Errorf("%w: what is this", store.ErrLost), true, true},
	}
}

// failing is a backend of which the call number at fails, from 0. The records of
// refusals are no calls of the request's.
type failing struct {
	store.Backend
	failure
	at    int
	calls atomic.Int64 // some are made at once
}

// none is the number of no call.
const none = -1

func (f *failing) do(call func() error) error {
	n := int(f.calls.Add(1)) - 1
	if f.at == none || n < f.at || n > f.at && !f.always {
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
func (f *failing) Read(ctx context.Context, keys []store.Key) (items []store.Item, err error) {
	err = f.do(func() (err error) { items, err = f.Backend.Read(ctx, keys); return err })
	return items, err
}

// Query implements store.Backend.
func (f *failing) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	err = f.do(func() (err error) { items, next, err = f.Backend.Query(ctx, q); return err })
	return items, next, err
}

// Transact implements store.Backend.
func (f *failing) Transact(ctx context.Context, token string, writes []store.Write) error {
	if len(writes) == 1 && audit.IsRecord(writes[0].Key) {
		return f.Backend.Transact(ctx, token, writes)
	}
	return f.do(func() error { return f.Backend.Transact(ctx, token, writes) })
}

// TestAnswersTellWhatWasDoneHoweverTheTableFails has each call that a good
// request makes to the table fail in each way: a 429 says that nothing was done,
// and repeating it is safe; a success that it was done once; a 500 tells where
// it is not known. The audit record says what came of it.
func TestAnswersTellWhatWasDoneHoweverTheTableFails(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(changing), func(t *testing.T, d api.Declaration) {
		for i, r := range variants(p.book, d) {
			if r.ChangesNothing {
				continue
			}
			reference := p.fail(t, d, r, &failing{at: none})
			if reference.status != d.Status {
				t.Fatalf("undisturbed it answers %d %s", reference.status, reference.detail)
			}
			for at := range reference.calls {
				for _, f := range failures() {
					if i > 0 && !f.always {
						continue
					}
					got := p.fail(t, d, r, &failing{failure: f, at: at})
					if wrong := got.judge(d, reference, at > 0, i == 0); wrong != "" {
						t.Errorf("%s at call %d: %d %q: %s", f.name, at, got.status, got.detail, wrong)
					}
				}
			}
		}
	})
}

// told is what came of a request: what was answered, and what is in the table.
type told struct {
	status        int
	detail        string
	calls         int
	unchanged     bool
	done          string // as outcome tells it
	successes     int    // records that say that it was done
	refusals      int
	repeated      int // what a repeat was answered
	doneByRepeats string
}

// fail makes a request in a copy of the world whose table fails.
func (p populated) fail(t *testing.T, d api.Declaration, r events.Request, f *failing) (out told) {
	t.Helper()
	w, n := p.Copy(t), maps.Clone(p.names)
	if err := p.book.Steps(w.Client(p.key), n, r.After); err != nil {
		t.Fatal(err)
	}
	path, body := target(t, d, r, n)
	before := w.Items.Snapshot()
	f.Backend = w.Items
	w.Parts.Table = storetest.Over(t, f, storetest.Clock(w.Parts.Now))
	w.Now = w.Now.Add(time.Second) // audit records of the steps have other ids
	w.Restart()
	a := w.Call(p.key, d.Method, path, body)
	out = told{status: a.Status, calls: int(f.calls.Load()), done: outcome(t, nil, w), unchanged: true}
	if a.Status >= http.StatusBadRequest {
		out.detail = a.JSON().Text("detail")
	}
	after := w.Items.Snapshot()
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
	f.at = none
	for _, e := range recorded(w, p.Items.Snapshot()) {
		if *e.Success {
			out.successes++
		} else {
			out.refusals++
		}
	}
	if a.Status >= http.StatusBadRequest {
		w.Now = w.Now.Add(time.Second)
		w.Restart()
		out.repeated = w.Call(p.key, d.Method, path, body).Status
		out.doneByRepeats = outcome(t, nil, w)
	}
	return out
}

// judge says what is wrong with an outcome, "" for nothing. A refusal is recorded
// unless it is not known yet who asks.
func (o told) judge(d api.Declaration, reference told, known, plain bool) string {
	unknown := strings.Contains(o.detail, "not known whether this was done")
	done := o.done == reference.done && !o.unchanged
	// What nobody sees may be gone, such as a deleted consumer's key of the text, or
	// be there, such as the hidden keys of a bulk that its operation deletes.
	safe := o.repeated == d.Status && (o.doneByRepeats == reference.done || !plain)
	switch {
	case o.status == d.Status && !done:
		return "it was not done, or not once:\n" + o.done + "\nand not\n" + reference.done
	case o.status == d.Status:
		return ""
	case o.status != http.StatusTooManyRequests && o.status != http.StatusInternalServerError:
		return "it is neither done nor refused nor unknown"
	case !o.unchanged && !done && !safe:
		return "it was done in part:\n" + o.done
	case done && !unknown:
		return "it was done, which the answer denies"
	case !done && o.successes != reference.successes-1, done && o.successes != reference.successes:
		return fmt.Sprintf("%d audit records say that it was done", o.successes)
	case known && !done && o.refusals != reference.refusals+1:
		return "no audit record says that it was refused"
	case o.unchanged && !safe:
		return fmt.Sprintf("its repeat answers %d and comes to\n%s\nand not\n%s", o.repeated, o.doneByRepeats, reference.done)
	}
	return ""
}
