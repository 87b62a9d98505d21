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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// delayedDNS is a DNS as a worker of the simulation accesses it. It returns records from the third query on.
type delayedDNS struct {
	w       *operationtest.Worker
	inner   *fakeDNS
	queries *atomic.Int64
}

func (d delayedDNS) LookupTXT(ctx context.Context, name string) (found []string, err error) {
	callErr := d.w.Call(ctx, "look "+name, func() error {
		if d.queries.Add(1) > 2 {
			found, err = d.inner.LookupTXT(ctx, name)
		}
		return nil
	})
	if callErr != nil {
		return nil, callErr
	}
	return found, err
}

// TestVerificationSurvivesWorkerCrashes verifies two hostnames while workers die. The result must be the same as
// without crashes.
func TestVerificationSurvivesWorkerCrashes(t *testing.T) {
	operationtest.Simulate(t, func() operationtest.Scenario {
		dns, queries := &fakeDNS{records: map[string][]string{}}, new(atomic.Int64)
		service := func(w *operationtest.Worker, source *ids.Source) *customdomains.Service {
			return customdomains.Open(installation.Parts{
				Config: config.Config{DeploymentURL: "https://{deployment}.gateway.test"}, Key: zeroRootKey{},
				Table: w.Table, IDs: source, Now: time.Now, DNS: delayedDNS{w, dns, queries},
			})
		}
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				return service(w, ids.NewSource(rand.NewChaCha8([32]byte{8}), time.Now)).Definitions()
			},
			Setup: func(ctx context.Context, w *operationtest.Worker) error {
				source := ids.NewSource(rand.NewChaCha8([32]byte{7}), time.Now)
				s := service(w, source)
				for _, name := range []string{api, "b.example.com"} {
					request := store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
						AccountID: "a-1", RequestID: source.UUID(),
						Time: time.Now(),
					}))
					created, err := s.Create(request, acme, customdomains.CreateInput{Hostname: name})
					if err != nil {
						return err
					}
					dns.addRecord(created.Proof)
				}
				return nil
			},
			Ignore: []string{"updatedOn", "createdOn", "verifiedOn", api, "b.example.com"},
		}
	}, 60)
}

// TestVerificationRunsForSevenDays checks that the intervals between queries do not become shorter, and that the
// operation ends after seven days with at most 400 queries. Verify must still work then.
func TestVerificationRunsForSevenDays(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, customdomains.CreateInput{Hostname: api})
	engine, err := operation.New(fx.parts.Table, fx.Definitions(),
		operation.Options{Now: fx.clock, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	var interval time.Duration
	for queries := 1; ; queries++ {
		r, err := engine.Run(t.Context(), "verify-"+created.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r.Ended() {
			if age := fx.clock().Sub(created.CreatedOn); age < 7*24*time.Hour || age > 8*24*time.Hour || queries > 400 ||
				r.Message == "" {
				t.Errorf("verification ends after %d queries and %s with %q, want at most 400, 7 to 8 days and a message",
					queries, age, r.Message)
			}
			break
		}
		if next := r.DueOn.Sub(fx.clock()); next < interval {
			t.Errorf("next query in %s, the one before in %s, want no shorter interval", next, interval)
		} else {
			interval = next
		}
		fx.setClock(r.DueOn)
	}
	fx.dns.addRecord(created.Proof)
	if d, err := fx.Verify(fx.requestContext(), acme, api); err != nil || d.Proof != nil {
		t.Errorf("Verify() after the record exists = %+v, %v, want a verified domain", d, err)
	}
}

// TestVerificationOfRecreatedDomainIsDropped tests the operation of a custom domain that was deleted and created again,
// and the operation of one that is already verified. Both must end without an effect.
func TestVerificationOfRecreatedDomainIsDropped(t *testing.T) {
	fx := newFixture(t)
	engine, err := operation.New(fx.parts.Table, fx.Definitions(),
		operation.Options{Now: fx.clock, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	runToEnd := func(created customdomains.Domain) {
		t.Helper()
		if r, err := engine.Run(t.Context(), "verify-"+created.ID); err != nil || r.Status != operation.Success ||
			r.Message != "" {
			t.Errorf("Run(verify-%s) = %+v, %v, want %s without message", created.ID, r, err, operation.Success)
		}
	}
	before := fx.create(acme, customdomains.CreateInput{Hostname: api})
	if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	created := fx.create(acme, customdomains.CreateInput{Hostname: api})
	fx.dns.addRecord(created.Proof)
	runToEnd(before)
	if d, err := fx.Read(t.Context(), acme, api); err != nil || d.Proof == nil {
		t.Errorf("Read() after the verification of the deleted domain = %+v, %v, want a domain with proof", d, err)
	}
	if _, err := fx.Verify(fx.requestContext(), acme, api); err != nil {
		t.Fatal(err)
	}
	runToEnd(created)
}

// interruptedDNS is a DNS that calls a function before it responds.
type interruptedDNS struct {
	*fakeDNS
	beforeLookup func()
}

func (d interruptedDNS) LookupTXT(ctx context.Context, name string) ([]string, error) {
	d.beforeLookup()
	return d.fakeDNS.LookupTXT(ctx, name)
}

// TestChangesDuringVerificationPersist checks that a deleted custom domain stays
// deleted, and that changes of the deployments during the verification persist.
func TestChangesDuringVerificationPersist(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		fx := newFixture(t)
		created := fx.create(acme, customdomains.CreateInput{Hostname: api})
		fx.dns.addRecord(created.Proof)
		first, p := true, fx.parts
		p.DNS = interruptedDNS{fx.dns, func() {
			if !first {
				return
			}
			first = false
			if deleted {
				if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
					t.Error(err)
				}
				return
			}
			for _, deployment := range []string{main, "blog-main-0123abc"} { // two changes of the served deployment
				if _, err := fx.Update(fx.requestContext(), acme, api, deployment, false); err != nil {
					t.Error(err)
				}
			}
		}}
		engine, err := operation.New(fx.parts.Table, customdomains.Open(p).Definitions(),
			operation.Options{Now: fx.clock, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			r, err := engine.Run(t.Context(), "verify-"+created.ID)
			if err != nil {
				t.Fatal(err)
			}
			if r.Ended() {
				break
			}
			fx.setClock(r.DueOn)
		}
		d, err := fx.Read(t.Context(), acme, api)
		if fault.Is(err, fault.NotFound) != deleted ||
			!deleted && (d.Proof != nil || !slices.Equal(deploymentNames(d), []string{"blog-main-0123abc"})) {
			t.Errorf("Read() with deleted %t = %+v, %v, want not found or the verified domain at blog-main-0123abc",
				deleted, d, err)
		}
		fx.checkConsistent(d)
	}
}

// TestUnresponsiveNameServerIsQueriedHourly checks that a name server that does not respond
// is queried again after an hour, because each query takes a worker some seconds.
func TestUnresponsiveNameServerIsQueriedHourly(t *testing.T) {
	for _, tt := range []struct {
		failure            error
		minDelay, maxDelay time.Duration
	}{
		{&net.DNSError{Err: "i/o timeout", IsTimeout: true}, time.Hour, time.Hour},
		{context.DeadlineExceeded, time.Hour, time.Hour},
		// A failure that is not a timeout.
		{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, time.Second, time.Minute},
	} {
		fx := newFixture(t)
		fx.dns.err = tt.failure
		created := fx.create(acme, customdomains.CreateInput{Hostname: api})
		engine, err := operation.New(fx.parts.Table, fx.Definitions(),
			operation.Options{Now: fx.clock, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		r, err := engine.Run(t.Context(), "verify-"+created.ID)
		if interval := r.DueOn.Sub(fx.clock()); err != nil || r.Ended() || interval < tt.minDelay || interval > tt.maxDelay {
			t.Errorf("%v: next query in %s (operation ended: %t), %v, want %s to %s",
				tt.failure, interval, r.Ended(), err, tt.minDelay, tt.maxDelay)
		}
	}
}
