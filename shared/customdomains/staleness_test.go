package customdomains_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// slow is a table whose reads of some items end when they are let go, or with who reads.
type slow struct {
	store.Backend
	of    string // how the keys of those items begin
	gate  chan struct{}
	away  atomic.Bool
	reads atomic.Int64
}

func (s *slow) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	s.reads.Add(1)
	if s.away.Load() {
		return nil, context.DeadlineExceeded
	}
	if s.gate != nil && strings.HasPrefix(keys[0].PK, s.of) {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return s.Backend.Read(ctx, keys)
}

// over is a Directory over a slow table.
func (w *world) over(s *slow) *customdomains.Directory {
	s.Backend = w.items
	w.parts.Table = storetest.Over(w.T, s, storetest.Pause(storetest.AtOnce))
	return w.directory()
}

// TestNamesAreTakenForOnesOwnUntilTheyAreKnown: not those that can be none, and not longer
// than Staleness, since nobody else looks for new ones where all that comes are handshakes.
func TestNamesAreTakenForOnesOwnUntilTheyAreKnown(t *testing.T) {
	w := newWorld(t)
	w.active(acme, customdomains.New{Hostname: api, Deployment: main})
	d := w.directory()
	want := func(name string, want bool) {
		t.Helper()
		if got := d.Owns(name); got != want {
			t.Errorf("it owns %s: %v", name, got)
		}
	}
	impossible := func() {
		t.Helper()
		for _, name := range []string{main + ".gateway.test", "gateway.test", "intranet", strings.Repeat("a.", 120) + "example.com"} {
			want(name, false)
		}
	}
	want(api, true)
	want("stranger.example.com", true)
	impossible()
	w.wantServed(d, api, main)
	want(api, true)
	want("stranger.example.com", false)
	w.active(acme, customdomains.New{Hostname: "new.example.com", Deployment: main})
	w.set(w.at().Add(customdomains.Staleness))
	want("new.example.com", true)
	impossible()
}

// TestOurOwnHostIsNobodysFromNowOn: also where the installation has got it after somebody else has.
func TestOurOwnHostIsNobodysFromNowOn(t *testing.T) {
	w := newWorld(t)
	w.active(acme, customdomains.New{Hostname: api, Deployment: main})
	w.parts.Config.APIDomain = api
	w.wantServed(w.directory(), api, "")
}

func TestClockThatIsSetBackHidesNoChange(t *testing.T) {
	w := newWorld(t)
	w.active(acme, customdomains.New{Hostname: api, Deployment: main})
	its := &slow{}
	d := w.over(its)
	w.wantServed(d, api, main)
	w.set(w.at().Add(-time.Hour))
	if err := w.Delete(w.request(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	w.wantServed(d, api, "")
	// Nor does it keep anybody from looking again after a look in vain.
	w.active(acme, customdomains.New{Hostname: "new.example.com", Deployment: main})
	w.set(w.at().Add(2 * customdomains.Staleness))
	its.away.Store(true)
	w.wantServed(d, "new.example.com", "")
	its.away.Store(false)
	w.set(w.at().Add(-time.Millisecond))
	w.wantServed(d, "new.example.com", main)
}

// TestOutageCostsFewLooks: not every request waits for a table that is away.
func TestOutageCostsFewLooks(t *testing.T) {
	w := newWorld(t)
	its := &slow{}
	d := w.over(its)
	its.away.Store(true)
	ask := func() {
		t.Helper()
		if _, err := d.Deployment(t.Context(), api); err == nil || fault.Is(err, fault.NotFound) {
			t.Fatalf("got %v, want that nobody knows", err)
		}
	}
	ask()
	once := its.reads.Load()
	for range 99 {
		w.set(w.at().Add(9 * time.Millisecond))
		ask()
	}
	if reads := its.reads.Load(); reads != once {
		t.Errorf("%d reads in a second, %d of the first look", reads, once)
	}
	its.away.Store(false)
	w.set(w.at().Add(time.Second))
	w.wantServed(d, api, "")
}

// TestReadDoesNotEndWithTheFirstWhoAsks: others wait for it.
func TestReadDoesNotEndWithTheFirstWhoAsks(t *testing.T) {
	for _, of := range []string{"custom-domain-versions", "custom-domain-host"} {
		t.Run(of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.active(acme, customdomains.New{Hostname: api, Deployment: main})
				its := &slow{of: of, gate: make(chan struct{})}
				d := w.over(its)
				first, leave := context.WithCancel(t.Context())
				go func() { _, _ = d.Deployment(first, api) }()
				synctest.Wait()
				go w.wantServed(d, api, main)
				synctest.Wait()
				leave()
				synctest.Wait()
				close(its.gate)
				synctest.Wait()
			})
		})
	}
}

// TestLookIsAsOldAsItsBegin: what changes while it goes on is seen all the same.
func TestLookIsAsOldAsItsBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.active(acme, customdomains.New{Hostname: api, Deployment: main})
		its := &slow{of: "custom-domain-index", gate: make(chan struct{})}
		d := w.over(its)
		go w.wantServed(d, api, main)
		synctest.Wait()
		w.set(w.at().Add(customdomains.Staleness))
		close(its.gate)
		synctest.Wait()
		if err := w.Delete(w.request(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		w.wantServed(d, api, "")
	})
}

// TestReadInVainIsNotKept: what a table that was away has not said is asked again.
func TestReadInVainIsNotKept(t *testing.T) {
	w := newWorld(t)
	w.active(acme, customdomains.New{Hostname: api, Deployment: main})
	its := &slow{}
	d := w.over(its)
	w.wantServed(d, "stranger.example.com", "") // the names are known now
	its.away.Store(true)
	if _, err := d.Deployment(t.Context(), api); err == nil || fault.Is(err, fault.NotFound) {
		t.Errorf("got %v, want that nobody knows", err)
	}
	its.away.Store(false)
	w.wantServed(d, api, main)
}

// TestCertificateIsReplacedByTheNextUpload, and read once by then.
func TestCertificateIsReplacedByTheNextUpload(t *testing.T) {
	w := newWorld(t)
	w.active(acme, customdomains.New{Hostname: api})
	d, ca := w.directory(), pkitest.CA(t, "CA", w.at())
	for range 2 {
		its := w.upload(w.Service, api, ca)
		w.set(w.at().Add(customdomains.Staleness))
		first, err := d.Certificate(t.Context(), api)
		if err != nil || first == nil || !first.Leaf.Equal(its) {
			t.Fatalf("served with %v, %v", first, err)
		}
		if again, err := d.Certificate(t.Context(), api); again != first || err != nil {
			t.Errorf("read again: %v, %v", again, err)
		}
		shown, err := w.Read(t.Context(), acme, api)
		if c := shown.Certificate; err != nil || c.Source != customdomains.Uploaded || c.Issuer != "CN=CA, O=Acme" || !c.ValidFrom.Equal(its.NotBefore) || !c.ValidTo.Equal(its.NotAfter) {
			t.Errorf("it is told %+v, %v", c, err)
		}
	}
}

// TestKeyOpensForItsDomainAlone: whoever could write the table would have another's
// certificate served, were it not so.
func TestKeyOpensForItsDomainAlone(t *testing.T) {
	at := store.Key{PK: "custom-domain-host#" + api, SK: "."}
	for _, field := range []string{"id", "accountId", "hostname"} {
		w := newWorld(t)
		w.active(acme, customdomains.New{Hostname: api})
		w.upload(w.Service, api, pkitest.CA(t, "CA", w.at()))
		var kept struct {
			Certificate struct {
				Key []byte `dynamodbav:"key"`
			} `dynamodbav:"certificate"`
		}
		if err := w.parts.Table.Get(t.Context(), at, &kept); err != nil || strings.Contains(string(kept.Certificate.Key), "PRIVATE KEY") || len(kept.Certificate.Key) == 0 {
			t.Fatalf("the key lies as %q, %v", kept.Certificate.Key, err)
		}
		if err := w.parts.Table.Commit(t.Context(), store.Update(at, store.Set(store.At(field), "other.example.com"))); err != nil {
			t.Fatal(err)
		}
		if c, err := w.directory().Certificate(t.Context(), api); err == nil || c != nil {
			t.Errorf("with another %s it is served with %v", field, c)
		}
	}
}
