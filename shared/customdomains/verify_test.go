package customdomains_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// late is a DNS that tells of a record from the third look on, as a worker of the
// simulation sees it.
type late struct {
	w     *operationtest.Worker
	inner *zone
	looks *atomic.Int64
}

func (l late) LookupTXT(ctx context.Context, name string) (found []string, err error) {
	failed := l.w.Call(ctx, "look "+name, func() error {
		if l.looks.Add(1) > 2 {
			found, err = l.inner.LookupTXT(ctx, name)
		}
		return nil
	})
	if failed != nil {
		return nil, failed
	}
	return found, err
}

// TestProofIsFoundHoweverWorkersEnd has two hostnames proven while workers die.
func TestProofIsFoundHoweverWorkersEnd(t *testing.T) {
	operationtest.Simulate(t, func() operationtest.Scenario {
		dns, looks := &zone{records: map[string][]string{}}, new(atomic.Int64)
		service := func(w *operationtest.Worker, source *ids.Source) *customdomains.Service {
			return customdomains.Open(installation.Parts{
				Config: config.Config{DeploymentURL: "https://{deployment}.gateway.test"}, Key: root{},
				Table: w.Table, IDs: source, Now: time.Now, DNS: late{w, dns, looks},
			})
		}
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				return service(w, ids.NewSource(rand.NewChaCha8([32]byte{8}), time.Now)).Definitions()
			},
			Arrange: func(ctx context.Context, w *operationtest.Worker) error {
				source := ids.NewSource(rand.NewChaCha8([32]byte{7}), time.Now)
				s := service(w, source)
				for _, name := range []string{api, "b.example.com"} {
					request := store.Decide(audit.With(ctx, &audit.Request{AccountID: "a-1", RequestID: source.UUID(), Time: time.Now()}))
					made, err := s.Create(request, acme, customdomains.New{Hostname: name})
					if err != nil {
						return err
					}
					dns.set(made.Proof)
				}
				return nil
			},
			Ignore: []string{"updatedOn", "createdOn", "verifiedOn", api, "b.example.com"},
		}
	}, 60)
}

// TestProofIsLookedForSevenDays: ever less often, and not for ever.
func TestProofIsLookedForSevenDays(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, customdomains.New{Hostname: api})
	engine, err := operation.New(w.parts.Table, w.Definitions(), operation.Options{Now: w.at, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var pause time.Duration
	for looks := 1; ; looks++ {
		r, err := engine.Run(t.Context(), "verify-"+made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r.Ended() {
			if age := w.at().Sub(made.CreatedOn); age < 7*24*time.Hour || age > 8*24*time.Hour || looks > 400 || r.Message == "" {
				t.Errorf("%d looks until %s: %q", looks, age, r.Message)
			}
			break
		}
		if after := r.DueOn.Sub(w.at()); after < pause {
			t.Errorf("it is looked after %s, and after %s before", after, pause)
		} else {
			pause = after
		}
		w.set(r.DueOn)
	}
	w.dns.set(made.Proof)
	if d, err := w.Verify(w.request(), acme, api); err != nil || d.Proof != nil {
		t.Errorf("asked for later: %+v, %v", d, err)
	}
}

// TestProofOfAnotherIsNotLookedFor: not of one that was made again, for which another operation
// looks, and not where somebody was faster.
func TestProofOfAnotherIsNotLookedFor(t *testing.T) {
	w := newWorld(t)
	engine, err := operation.New(w.parts.Table, w.Definitions(), operation.Options{Now: w.at, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	end := func(made customdomains.Domain) {
		t.Helper()
		if r, err := engine.Run(t.Context(), "verify-"+made.ID); err != nil || r.Status != operation.Success || r.Message != "" {
			t.Errorf("it ends as %+v, %v", r, err)
		}
	}
	before := w.create(acme, customdomains.New{Hostname: api})
	if err := w.Delete(w.request(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	made := w.create(acme, customdomains.New{Hostname: api})
	w.dns.set(made.Proof)
	end(before)
	if d, err := w.Read(t.Context(), acme, api); err != nil || d.Proof == nil {
		t.Errorf("the one before proves %+v, %v", d, err)
	}
	if _, err := w.Verify(w.request(), acme, api); err != nil {
		t.Fatal(err)
	}
	end(made)
}

// overtaken is a DNS that something happens before the answer of.
type overtaken struct {
	*zone
	during func()
}

func (o overtaken) LookupTXT(ctx context.Context, name string) ([]string, error) {
	o.during()
	return o.zone.LookupTXT(ctx, name)
}

// TestProofThatIsOvertakenLosesNothing: a deleted custom domain stays so, and what it leads to is
// what it was led to meanwhile.
func TestProofThatIsOvertakenLosesNothing(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		w := newWorld(t)
		made := w.create(acme, customdomains.New{Hostname: api})
		w.dns.set(made.Proof)
		first, p := true, w.parts
		p.DNS = overtaken{w.dns, func() {
			if !first {
				return
			}
			first = false
			if deleted {
				if err := w.Delete(w.request(), acme, api, ""); err != nil {
					t.Error(err)
				}
				return
			}
			for _, deployment := range []string{main, "blog-main-0123abc"} { // two changes
				if _, err := w.Update(w.request(), acme, api, deployment, false); err != nil {
					t.Error(err)
				}
			}
		}}
		engine, err := operation.New(w.parts.Table, customdomains.Open(p).Definitions(), operation.Options{Now: w.at, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			r, err := engine.Run(t.Context(), "verify-"+made.ID)
			if err != nil {
				t.Fatal(err)
			}
			if r.Ended() {
				break
			}
			w.set(r.DueOn)
		}
		d, err := w.Read(t.Context(), acme, api)
		if fault.Is(err, fault.NotFound) != deleted || !deleted && (d.Proof != nil || !slices.Equal(led(d), []string{"blog-main-0123abc"})) {
			t.Errorf("deleted %v: it is %+v, %v", deleted, d, err)
		}
		w.wantTrue(d)
	}
}

// TestNameServerThatNeverAnswersIsAskedOnceAnHour: each look at it takes a worker some seconds.
func TestNameServerThatNeverAnswersIsAskedOnceAnHour(t *testing.T) {
	for _, tt := range []struct {
		failure     error
		least, most time.Duration
	}{
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, time.Hour, time.Hour},
		{context.DeadlineExceeded, time.Hour, time.Hour},
		{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, time.Second, time.Minute}, // which costs nothing
	} {
		w := newWorld(t)
		w.dns.failure = tt.failure
		made := w.create(acme, customdomains.New{Hostname: api})
		engine, err := operation.New(w.parts.Table, w.Definitions(), operation.Options{Now: w.at, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := engine.Run(t.Context(), "verify-"+made.ID)
		if pause := r.DueOn.Sub(w.at()); err != nil || r.Ended() || pause < tt.least || pause > tt.most {
			t.Errorf("%v: it is looked again in %s, %v", tt.failure, pause, err)
		}
	}
}
