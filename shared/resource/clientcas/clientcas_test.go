package clientcas_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
)

// fixture is a Service with a table in memory. A test sets the clock now.
type fixture struct {
	*testing.T
	*clientcas.Service
	items    *memory.Backend
	table    *store.Table
	now      time.Time
	requests atomic.Int64
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{T: t, items: memory.New(), now: storetest.Epoch}
	fx.table = storetest.NewWithBackend(t, fx.items, storetest.Backoff(store.Backoff))
	now := func() time.Time { return fx.now }
	fx.Service = clientcas.Open(installation.Parts{
		Table: fx.table, Now: now,
		IDs: ids.NewSource(storetest.Random(t), now),
	})
	return fx
}

// request returns the context of a request of account a-1 with a new request ID.
func (fx *fixture) request() context.Context {
	return store.WithReadSet(audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: "a-1", Action: "client-mtls-ca-certificate.create", Time: fx.now,
		RequestID: fmt.Sprint("request-", fx.requests.Add(1)),
	}))
}

// owner returns the owner with the account a-1. changes limit the permissions of the caller's key.
func owner(changes ...func(*auth.Permissions)) auth.Owner {
	p := auth.Full()
	for _, c := range changes {
		c(&p)
	}
	return auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: p}}
}

func previewsOnly(p *auth.Permissions)   { p.Environments = []environment.Kind{environment.Preview} }
func oneProjectOnly(p *auth.Permissions) { p.Projects = []string{"shop"} }

func (fx *fixture) create(name, text string) clientcas.CA {
	fx.Helper()
	ca, err := fx.Create(fx.request(), owner(), clientcas.CreateInput{Name: name, Certificate: text})
	if err != nil {
		fx.Fatalf("Create(%s) error = %v, want none", name, err)
	}
	return ca
}

// TestUploadedCAIsListedWithoutItsCertificate checks the public data of CAs, which do not contain the certificate. It
// also checks that a key that is limited to environments or projects can neither see, create nor change CAs.
func TestUploadedCAIsListedWithoutItsCertificate(t *testing.T) {
	fx := newFixture(t)
	cert := pkitest.CA(t, "Partners CA", fx.now)
	created := fx.create("partners", cert.PEM())
	if created.Info.Subject != "CN=Partners CA, O=Acme" || created.Info.Issuer != created.Info.Subject ||
		!created.Info.ValidTo.Equal(cert.NotAfter) {
		t.Errorf("Create(partners) = %+v, want subject and issuer CN=Partners CA, O=Acme, valid to %s",
			created, cert.NotAfter)
	}
	fx.create("devices", pkitest.CA(t, "Devices", fx.now).PEM())
	all, err := fx.List(fx.Context(), owner())
	if err != nil || len(all) != 2 || all[0].Name != "devices" || all[1] != created {
		t.Errorf("List() = %+v, %v, want devices and %+v", all, err, created)
	}
	for _, limit := range []func(*auth.Permissions){previewsOnly, oneProjectOnly} {
		if all, err := fx.List(fx.Context(), owner(limit)); err != nil || len(all) > 0 {
			t.Errorf("List() with a limited key = %+v, %v, want none and no error", all, err)
		}
		_, err := fx.Create(fx.request(), owner(limit),
			clientcas.CreateInput{Name: "more", Certificate: pkitest.CA(t, "X", fx.now).PEM()})
		faulttest.Check(t, err, fault.Forbidden, "limited")
		faulttest.Check(t, fx.Delete(fx.request(), owner(limit), created.ID), fault.NotFound, "")
		_, err = fx.Rename(fx.request(), owner(limit), created.ID, "other")
		faulttest.Check(t, err, fault.NotFound, "")
	}
}

func TestDuplicateCertificateIsRefusedInAnyEncoding(t *testing.T) {
	fx := newFixture(t)
	text := pkitest.CA(t, "Partners CA", fx.now).PEM()
	created := fx.create("partners", text)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for name, encoding := range map[string]string{
		"same encoding": text, "other line ends": strings.ReplaceAll(text, "\n", "\r\n"),
		"text before it": "subject=CN\n" + text,
		"one line":       lines[0] + "\n" + strings.Join(lines[1:len(lines)-1], "") + "\n" + lines[len(lines)-1] + "\n",
	} {
		_, err := fx.Create(fx.request(), owner(), clientcas.CreateInput{Name: "again", Certificate: encoding})
		if faulttest.Check(t, err, fault.Conflict, "already"); t.Failed() {
			t.Fatalf("Create(known certificate, %s) does not fail as wanted", name)
		}
	}
	// Another account can use the same name and certificate. After a deletion, the account itself can use them again.
	other := owner()
	other.AccountID = "a-2"
	if _, err := fx.Create(fx.request(), other, clientcas.CreateInput{Name: "partners", Certificate: text}); err != nil {
		t.Errorf("Create(partners) in another account: error = %v, want none", err)
	}
	if err := fx.Delete(fx.request(), owner(), created.ID); err != nil {
		t.Fatalf("Delete(partners) error = %v, want none", err)
	}
	fx.create("partners", text)
}

// TestCANamesAreValidAndUnique checks the rules for names when CAs are created and renamed, and that a former name can
// be used again.
func TestCANamesAreValidAndUnique(t *testing.T) {
	fx := newFixture(t)
	text := pkitest.CA(t, "Partners CA", fx.now).PEM()
	for _, name := range []string{
		"", "1a", "a-b", "a b", "ä", "a\n", "class", "CLASS", "Await", "null",
		strings.Repeat("a", 121),
	} {
		_, err := fx.Create(fx.request(), owner(), clientcas.CreateInput{Name: name, Certificate: text})
		if faulttest.Check(t, err, fault.Invalid, "name"); t.Failed() {
			t.Fatalf("Create(name %q) does not fail as wanted", name)
		}
	}
	created := fx.create(strings.Repeat("a", 120), text)
	other := fx.create("$_9", pkitest.CA(t, "Other", fx.now).PEM())
	_, err := fx.Create(fx.request(), owner(),
		clientcas.CreateInput{Name: "$_9", Certificate: pkitest.CA(t, "Third", fx.now).PEM()})
	faulttest.Check(t, err, fault.Conflict, "name")
	_, err = fx.Rename(fx.request(), owner(), created.ID, "$_9")
	faulttest.Check(t, err, fault.Conflict, "name")
	_, err = fx.Rename(fx.request(), owner(), created.ID, "class")
	faulttest.Check(t, err, fault.Invalid, "reserved")
	fx.now = fx.now.Add(time.Hour)
	for _, name := range []string{"partners", "partners", "devices"} {
		got, err := fx.Rename(fx.request(), owner(), created.ID, name)
		if err != nil || got.Name != name || got.Info != created.Info {
			t.Errorf("Rename(%s) = %s %+v, %v, want %[1]s %+[5]v and no error", name, got.Name, got.Info, err, created.Info)
		}
		if !got.UpdatedOn.Equal(fx.now) || !got.CreatedOn.Equal(created.CreatedOn) {
			t.Errorf("Rename(%s): updated on %s, created on %s, want %s, %s",
				name, got.UpdatedOn, got.CreatedOn, fx.now, created.CreatedOn)
		}
	}
	// After the renames, the name "partners" is free.
	if _, err := fx.Rename(fx.request(), owner(), other.ID, "partners"); err != nil {
		t.Errorf("Rename(partners) to a former name: error = %v, want none", err)
	}
}

func TestUnknownCAIsNotFound(t *testing.T) {
	fx := newFixture(t)
	created := fx.create("partners", pkitest.CA(t, "Partners CA", fx.now).PEM())
	foreign := owner()
	foreign.AccountID = "a-2"
	faulttest.Check(t, fx.Delete(fx.request(), foreign, created.ID), fault.NotFound, "")
	for _, id := range []string{"", "mtlsca_0", "partners", "mtlsca_0123456789ABCDEFGHIJKLMN", strings.Repeat("a", 5000)} {
		faulttest.Check(t, fx.Delete(fx.request(), owner(), id), fault.NotFound, "")
		_, err := fx.Rename(fx.request(), owner(), id, "a")
		if faulttest.Check(t, err, fault.NotFound, ""); t.Failed() {
			t.Fatalf("Delete(%.40q) or Rename(%.40[1]q) does not fail as wanted", id)
		}
	}
}

// TestConcurrentCreatesRespectLimit checks that concurrent requests create no more CAs than the limit allows, and that
// a deletion allows another CA.
func TestConcurrentCreatesRespectLimit(t *testing.T) {
	fx := newFixture(t)
	texts := make([]string, int(limits.ClientCAs.Default)+5)
	for i := range texts {
		texts[i] = pkitest.CA(t, fmt.Sprint("CA ", i), fx.now).PEM()
	}
	var created, refused atomic.Int64
	var wg sync.WaitGroup
	for worker := range 5 {
		wg.Go(func() {
			for k := worker; k < len(texts); k += 5 {
				_, err := fx.Create(fx.request(), owner(), clientcas.CreateInput{Name: fmt.Sprint("ca_", k), Certificate: texts[k]})
				switch {
				case err == nil:
					created.Add(1)
				case fault.Is(err, fault.Forbidden):
					refused.Add(1)
				default:
					t.Errorf("Create(ca_%d) error = %v, want none or %v", k, err, fault.Forbidden)
				}
			}
		})
	}
	wg.Wait()
	if created.Load() != limits.ClientCAs.Default || refused.Load() != 5 {
		t.Errorf("concurrent Create calls: %d succeed, %d fail, want %d and 5",
			created.Load(), refused.Load(), limits.ClientCAs.Default)
	}
	list, err := fx.List(fx.Context(), owner())
	if err != nil || len(list) != int(limits.ClientCAs.Default) {
		t.Fatalf("List() = %d CAs, %v, want %d and no error", len(list), err, limits.ClientCAs.Default)
	}
	if err := fx.Delete(fx.request(), owner(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	fx.create("last", pkitest.CA(t, "Last", fx.now).PEM())
}
