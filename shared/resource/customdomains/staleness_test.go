package customdomains_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// blockingBackend is a table whose reads of some items block until gate is closed or their context ends. While
// unavailable is true, all reads fail.
type blockingBackend struct {
	store.Backend
	prefix      string // key prefix of the items whose reads block
	gate        chan struct{}
	unavailable atomic.Bool
	reads       atomic.Int64
}

func (b *blockingBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.reads.Add(1)
	if b.unavailable.Load() {
		return nil, context.DeadlineExceeded
	}
	if b.gate != nil && strings.HasPrefix(keys[0].PK, b.prefix) {
		select {
		case <-b.gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return b.Backend.Read(ctx, keys)
}

// directoryOver returns a Directory that reads the fixture's table through backend.
func (fx *fixture) directoryOver(backend *blockingBackend) *customdomains.Directory {
	backend.Backend = fx.items
	fx.parts.Table = storetest.NewWithBackend(fx.T, backend, storetest.Backoff(storetest.NoBackoff))
	return fx.directory()
}

// TestOwnsIsTrueUntilNamesAreLoaded checks that Owns is true for every possible custom domain until the hostnames are
// loaded. After Staleness it must be true again, because Owns does not refresh the hostnames.
func TestOwnsIsTrueUntilNamesAreLoaded(t *testing.T) {
	fx := newFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
	d := fx.directory()
	checkOwns := func(name string, want bool) {
		t.Helper()
		if got := d.Owns(name); got != want {
			t.Errorf("Owns(%s) = %t, want %t", name, got, want)
		}
	}
	checkImpossible := func() {
		t.Helper()
		for _, name := range []string{
			main + ".gateway.test", "gateway.test", "intranet",
			strings.Repeat("a.", 120) + "example.com",
		} {
			checkOwns(name, false)
		}
	}
	checkOwns(api, true)
	checkOwns("stranger.example.com", true)
	checkImpossible()
	fx.wantServed(d, api, main)
	checkOwns(api, true)
	checkOwns("stranger.example.com", false)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: "new.example.com", Deployment: main})
	fx.setClock(fx.clock().Add(customdomains.Staleness))
	checkOwns("new.example.com", true)
	checkImpossible()
}

// TestInstallationHostIsNoCustomDomain assigns the hostname of an existing custom domain to the installation, and
// checks that the custom domain is not served.
func TestInstallationHostIsNoCustomDomain(t *testing.T) {
	fx := newFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
	fx.parts.Config.APIDomain = api
	fx.wantServed(fx.directory(), api, "")
}

func TestClockSetBackHidesNoChange(t *testing.T) {
	fx := newFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
	backend := &blockingBackend{}
	d := fx.directoryOver(backend)
	fx.wantServed(d, api, main)
	fx.setClock(fx.clock().Add(-time.Hour))
	if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	fx.wantServed(d, api, "")
	// A clock that was set back also does not prevent a refresh after a failed one.
	fx.createVerified(acme, customdomains.CreateInput{Hostname: "new.example.com", Deployment: main})
	fx.setClock(fx.clock().Add(2 * customdomains.Staleness))
	backend.unavailable.Store(true)
	fx.wantServed(d, "new.example.com", "")
	backend.unavailable.Store(false)
	fx.setClock(fx.clock().Add(-time.Millisecond))
	fx.wantServed(d, "new.example.com", main)
}

// TestOutageLimitsReads checks that the requests of one second cause only one attempt to read an unavailable table.
func TestOutageLimitsReads(t *testing.T) {
	fx := newFixture(t)
	backend := &blockingBackend{}
	d := fx.directoryOver(backend)
	backend.unavailable.Store(true)
	request := func() {
		t.Helper()
		if _, err := d.Deployment(t.Context(), api); err == nil || fault.Is(err, fault.NotFound) {
			t.Fatalf("Deployment() error = %v, want one that is not %v", err, fault.NotFound)
		}
	}
	request()
	firstReads := backend.reads.Load()
	for range 99 {
		fx.setClock(fx.clock().Add(9 * time.Millisecond))
		request()
	}
	if reads := backend.reads.Load(); reads != firstReads {
		t.Errorf("%d reads within a second of the outage, want %d", reads, firstReads)
	}
	backend.unavailable.Store(false)
	fx.setClock(fx.clock().Add(time.Second))
	fx.wantServed(d, api, "")
}

// TestReadOutlivesFirstCaller cancels the request that has begun a read, and checks that the read continues for the
// other waiting requests.
func TestReadOutlivesFirstCaller(t *testing.T) {
	for _, prefix := range []string{"custom-domain-versions", "custom-domain-host"} {
		t.Run(prefix, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newFixture(t)
				fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
				backend := &blockingBackend{prefix: prefix, gate: make(chan struct{})}
				d := fx.directoryOver(backend)
				firstCtx, cancel := context.WithCancel(t.Context())
				go func() { _, _ = d.Deployment(firstCtx, api) }()
				synctest.Wait()
				done := make(chan struct{})
				go func() { fx.wantServed(d, api, main); close(done) }()
				synctest.Wait()
				cancel()
				synctest.Wait()
				select {
				case <-done:
					t.Error("second Deployment() returns before the read has ended, want it to wait")
				default:
				}
				close(backend.gate)
				synctest.Wait()
			})
		})
	}
}

// TestRefreshAgeCountsFromItsStart checks that the age of a refresh counts from its start: if a refresh takes as long
// as Staleness, the next request refreshes again and sees later changes.
func TestRefreshAgeCountsFromItsStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
		backend := &blockingBackend{prefix: "custom-domain-index", gate: make(chan struct{})}
		d := fx.directoryOver(backend)
		done := make(chan struct{})
		go func() { fx.wantServed(d, api, main); close(done) }()
		synctest.Wait()
		select {
		case <-done:
			t.Error("Deployment() returns before the refresh has ended, want it to wait")
		default:
		}
		fx.setClock(fx.clock().Add(customdomains.Staleness))
		close(backend.gate)
		synctest.Wait()
		if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
			t.Fatal(err)
		}
		fx.wantServed(d, api, "")
	})
}

// TestFailedReadIsNotCached checks that a failed read is repeated.
func TestFailedReadIsNotCached(t *testing.T) {
	fx := newFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
	backend := &blockingBackend{}
	d := fx.directoryOver(backend)
	fx.wantServed(d, "stranger.example.com", "") // after this request the hostnames are cached
	backend.unavailable.Store(true)
	if _, err := d.Deployment(t.Context(), api); err == nil || fault.Is(err, fault.NotFound) {
		t.Errorf("Deployment() while the table is unavailable: error = %v, want one other than %v", err, fault.NotFound)
	}
	backend.unavailable.Store(false)
	fx.wantServed(d, api, main)
}

// TestUploadReplacesCertificate checks that gateways serve the last uploaded certificate, and that it is read only once
// until the next upload.
func TestUploadReplacesCertificate(t *testing.T) {
	fx := newFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
	d, ca := fx.directory(), pkitest.CA(t, "CA", fx.clock())
	for range 2 {
		uploaded := fx.upload(fx.Service, api, ca)
		fx.setClock(fx.clock().Add(customdomains.Staleness))
		first, err := d.Certificate(t.Context(), api)
		if err != nil || first == nil || !first.Leaf.Equal(uploaded) {
			t.Fatalf("Certificate() = %s, %v, want the uploaded certificate", certificateText(first), err)
		}
		if second, err := d.Certificate(t.Context(), api); second != first || err != nil {
			t.Errorf("second Certificate() = %s, %v, want the cached certificate", certificateText(second), err)
		}
		domain, err := fx.Read(t.Context(), acme, api)
		if err != nil {
			t.Errorf("Read() error = %v, want none", err)
		}
		if c := domain.Certificate; c.Source != customdomains.Uploaded || c.Issuer != "CN=CA, O=Acme" {
			t.Errorf("certificate = %+v, want source %s and issuer CN=CA, O=Acme", c, customdomains.Uploaded)
		}
		if c := domain.Certificate; !c.ValidFrom.Equal(uploaded.NotBefore) || !c.ValidTo.Equal(uploaded.NotAfter) {
			t.Errorf("certificate = valid %s to %s, want %s to %s",
				c.ValidFrom, c.ValidTo, uploaded.NotBefore, uploaded.NotAfter)
		}
	}
}

// TestKeyIsBoundToItsDomain checks that a stored key is refused if its record has another id, account or
// hostname. Otherwise an attacker with write access to the table could serve another account's certificate.
func TestKeyIsBoundToItsDomain(t *testing.T) {
	recordKey := store.Key{PK: "custom-domain-host#" + api, SK: "."}
	for _, field := range []string{"id", "accountId", "hostname"} {
		fx := newFixture(t)
		fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
		fx.upload(fx.Service, api, pkitest.CA(t, "CA", fx.clock()))
		var stored struct {
			Certificate struct {
				Key []byte `dynamodbav:"key"`
			} `dynamodbav:"certificate"`
		}
		if err := fx.parts.Table.Get(t.Context(), recordKey, &stored); err != nil ||
			strings.Contains(string(stored.Certificate.Key), "PRIVATE KEY") || len(stored.Certificate.Key) == 0 {
			t.Fatalf("stored key = %q, %v, want it sealed", stored.Certificate.Key, err)
		}
		if err := fx.parts.Table.Commit(t.Context(),
			store.Update(recordKey, store.Set(store.At(field), "other.example.com"))); err != nil {
			t.Fatal(err)
		}
		if c, err := fx.directory().Certificate(t.Context(), api); err == nil || c != nil {
			t.Errorf("Certificate() with another %s = %s, %v, want an error", field, certificateText(c), err)
		}
	}
}
