package upstreamcerts_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
)

const accountID, project = "a-1", "shop"

type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

// fixture is the service over a table in memory. Its account a-1 has the project shop.
type fixture struct {
	*testing.T
	*upstreamcerts.Service
	items     *memory.Backend
	table     *store.Table
	ca        pkitest.Cert
	users     []string // the deployments that use a certificate, as UsersOf returns them
	onUsersOf func()   // if not nil, it is called in the next call of UsersOf
	now       time.Time
	requests  atomic.Int64
}

// UsersOf implements upstreamcerts.Deployments.
func (fx *fixture) UsersOf(context.Context, string, string, string) ([]string, error) {
	users := slices.Clone(fx.users)
	if onUsersOf := fx.onUsersOf; onUsersOf != nil {
		fx.onUsersOf = nil
		onUsersOf()
	}
	return users, nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{T: t, items: memory.New(), now: storetest.Epoch}
	fx.ca = pkitest.CA(t, "CA", fx.now)
	fx.table = storetest.NewWithBackend(t, fx.items, storetest.Backoff(store.Backoff))
	now := func() time.Time { return fx.now }
	fx.Service = upstreamcerts.Open(installation.Parts{
		Table: fx.table, Key: rootKey{}, Now: now, IDs: ids.NewSource(storetest.Random(t), now),
	}, fx)
	if err := fx.table.Commit(t.Context(), store.Put(store.ProjectKey(accountID, project), struct{}{})); err != nil {
		t.Fatal(err)
	}
	return fx
}

func (fx *fixture) request() context.Context {
	return store.WithReadSet(audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: accountID, Action: "mtls-certificate.create", Time: fx.now,
		RequestID: fmt.Sprint("request-", fx.requests.Add(1)),
	}))
}

// visibleProject returns the project for a key that can see environments of these kinds, or all if there are none.
func visibleProject(kinds ...environment.Kind) upstreamcerts.Project {
	p := auth.Full()
	if kinds != nil {
		p.Environments = kinds
	}
	return upstreamcerts.Project{
		Owner: auth.Owner{AccountID: accountID, Viewer: auth.Principal{Permissions: p}},
		Name:  project,
	}
}

func (fx *fixture) newUpload(name string, kinds ...environment.Kind) upstreamcerts.CreateInput {
	fx.Helper()
	cert := fx.ca.Client(fx.T, name, fx.now)
	return upstreamcerts.CreateInput{Name: name, Certificate: cert.PEM(), Key: cert.KeyPEM(fx.T), Environments: kinds}
}

func (fx *fixture) create(name string, kinds ...environment.Kind) upstreamcerts.Certificate {
	fx.Helper()
	created, err := fx.Create(fx.request(), visibleProject(), fx.newUpload(name, kinds...))
	if err != nil {
		fx.Fatal(err)
	}
	return created
}

func TestKeyIsSealedAndUnsealedForBuilds(t *testing.T) {
	fx := newFixture(t)
	n := fx.newUpload("warehouse", environment.Production)
	created, err := fx.Create(fx.request(), visibleProject(), n)
	if err != nil || created.Info.Subject != "CN=warehouse, O=Acme" {
		t.Fatalf("Create() = %+v, %v, want subject CN=warehouse, O=Acme", created, err)
	}
	keyLine := strings.Split(n.Key, "\n")[1]
	for key, item := range fx.items.Items() {
		var attributes map[string]any
		if err := store.Decode(item, &attributes); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(fmt.Sprintf("%v %s", key, attributes), keyLine) {
			t.Errorf("item %v contains the key in plain text, want it sealed", key)
		}
	}
	chain, key, err := fx.Unseal(t.Context(), accountID, project, created.ID)
	if err != nil || chain != n.Certificate || key != n.Key {
		t.Errorf("Unseal() = %d and %d bytes, %v, want the uploaded %d and %d",
			len(chain), len(key), err, len(n.Certificate), len(n.Key))
	}
	if _, _, err := fx.Unseal(t.Context(), accountID, "other", created.ID); err == nil {
		t.Error("Unseal(another project) succeeds, want an error")
	}
}

func TestBuildsUseCertificatesOfTheirEnvironment(t *testing.T) {
	fx := newFixture(t)
	created := fx.create("warehouse", environment.Production)
	// enabled reports whether builds of environments of a kind can use the certificate. Usable and ServingWrites must
	// agree on this.
	enabled := func(kind environment.Kind) bool {
		t.Helper()
		all, err := fx.Usable(t.Context(), accountID, project, kind)
		if err != nil || all["warehouse"].ID != created.ID {
			t.Fatalf("Usable(%s) = %+v, %v, want warehouse with ID %s", kind, all, err, created.ID)
		}
		_, ok, err := fx.ServingWrites(t.Context(), accountID, project, kind, []string{created.ID})
		if err != nil || ok != all["warehouse"].Enabled {
			t.Errorf("ServingWrites(%s) = %t, %v, want %t and no error", kind, ok, err, all["warehouse"].Enabled)
		}
		return all["warehouse"].Enabled
	}
	if production, preview := enabled(environment.Production), enabled(environment.Preview); !production || preview {
		t.Errorf("enabled for production: %t, preview: %t, want true and false", production, preview)
	}
	for _, kinds := range [][]environment.Kind{{environment.Preview, environment.Development, environment.Preview}, {}} {
		got, err := fx.Enable(fx.request(), visibleProject(), created.ID, kinds)
		if err != nil || len(got.Environments) != min(len(kinds), 2) {
			t.Errorf("Enable(%v) = %+v, %v, want %d environments", kinds, got, err, min(len(kinds), 2))
		}
		if production, preview := enabled(environment.Production), enabled(environment.Preview); production ||
			preview != (len(kinds) > 0) {
			t.Errorf("after Enable(%v): enabled for production: %t, preview: %t, want false and %t",
				kinds, production, preview, len(kinds) > 0)
		}
	}
}

func TestInvisibleCertificateIsNotFound(t *testing.T) {
	fx := newFixture(t)
	created := fx.create("both", environment.Production, environment.Preview)
	limited := visibleProject(environment.Preview)
	_, missingErr := fx.Read(t.Context(), visibleProject(), "cert_0123456789ABCDEFGHIJKLMN")
	_, invisibleErr := fx.Read(t.Context(), limited, created.ID)
	if invisibleErr == nil || missingErr == nil || invisibleErr.Error() != missingErr.Error() {
		t.Errorf("Read(invisible) error = %v, want %v as for a missing certificate", invisibleErr, missingErr)
	}
	faulttest.Check(t, fx.Delete(fx.request(), limited, created.ID), fault.NotFound, "")
	_, err := fx.Enable(fx.request(), limited, created.ID, nil)
	faulttest.Check(t, err, fault.NotFound, "")
	if all, err := fx.List(t.Context(), limited); err != nil || len(all) > 0 {
		t.Errorf("List(restricted key) = %+v, %v, want none and no error", all, err)
	}
	_, err = fx.Create(fx.request(), limited, fx.newUpload("more", environment.Production))
	faulttest.Check(t, err, fault.Forbidden, "limited")
	preview, err := fx.Create(fx.request(), limited, fx.newUpload("preview", environment.Preview))
	if err != nil {
		t.Fatal(err)
	}
	_, err = fx.Enable(fx.request(), limited, preview.ID, []environment.Kind{environment.Production})
	faulttest.Check(t, err, fault.Forbidden, "limited")
}

func TestInvalidInputNamesField(t *testing.T) {
	fx := newFixture(t)
	valid := fx.newUpload("good", environment.Production)
	for field, change := range map[string]func(*upstreamcerts.CreateInput){
		"name":         func(n *upstreamcerts.CreateInput) { n.Name = "a-b" },
		"certificate":  func(n *upstreamcerts.CreateInput) { n.Certificate = n.Key },
		"key":          func(n *upstreamcerts.CreateInput) { n.Key = fx.newUpload("other").Key },
		"environments": func(n *upstreamcerts.CreateInput) { n.Environments = nil },
	} {
		n := valid
		change(&n)
		_, err := fx.Create(fx.request(), visibleProject(), n)
		faulttest.Check(t, err, fault.Invalid, field)
		if err != nil && strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("error = %v, want it without the sent certificate", err)
		}
	}
	fx.create("taken", environment.Production)
	_, err := fx.Create(fx.request(), visibleProject(), fx.newUpload("taken", environment.Production))
	faulttest.Check(t, err, fault.Conflict, "name")
	missingProject := visibleProject()
	missingProject.Name = "gone"
	_, err = fx.Create(fx.request(), missingProject, valid)
	faulttest.Check(t, err, fault.NotFound, "project")
	_, err = fx.List(t.Context(), missingProject)
	faulttest.Check(t, err, fault.NotFound, "project")
}

func TestProjectHasAtMostFiftyCertificates(t *testing.T) {
	fx := newFixture(t)
	for i := range upstreamcerts.MaxCertificates {
		fx.create(fmt.Sprint("c_", i), environment.Production)
	}
	_, err := fx.Create(fx.request(), visibleProject(), fx.newUpload("more", environment.Production))
	faulttest.Check(t, err, fault.Invalid, "50")
	all, err := fx.List(t.Context(), visibleProject())
	if err != nil || len(all) != upstreamcerts.MaxCertificates {
		t.Fatalf("List() = %d certificates, %v, want %d", len(all), err, upstreamcerts.MaxCertificates)
	}
	if err := fx.Delete(fx.request(), visibleProject(), all[0].ID); err != nil {
		t.Fatal(err)
	}
	fx.create(all[0].Name, environment.Production)
}

func TestCertificateInUseCannotBeDeleted(t *testing.T) {
	fx := newFixture(t)
	created := fx.create("warehouse", environment.Production)
	fx.users = []string{"shop-main-1234567"}
	faulttest.Check(t, fx.Delete(fx.request(), visibleProject(), created.ID), fault.Conflict, "shop-main-1234567")
	fx.users = slices.Repeat(fx.users, 7)
	faulttest.Check(t, fx.Delete(fx.request(), visibleProject(), created.ID), fault.Conflict, "2 more")
	fx.users = nil
	if err := fx.Delete(fx.request(), visibleProject(), created.ID); err != nil {
		t.Fatal(err)
	}
	_, ok, err := fx.ServingWrites(t.Context(), accountID, project, environment.Production, []string{created.ID})
	if ok || err != nil {
		t.Errorf("ServingWrites(deleted certificate) = %t, %v, want false and no error", ok, err)
	}
}

// TestDeletionDetectsConcurrentlyServedBuild serves a build that uses the certificate, between the read and the commit
// of the deletion. The deletion must be refused.
func TestDeletionDetectsConcurrentlyServedBuild(t *testing.T) {
	fx := newFixture(t)
	created := fx.create("warehouse", environment.Production)
	fx.onUsersOf = func() {
		writes, ok, err := fx.ServingWrites(t.Context(), accountID, project, environment.Production, []string{created.ID})
		if !ok || err != nil {
			t.Fatalf("ServingWrites() = %t, %v, want true and no error", ok, err)
		}
		if err := fx.table.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
		fx.users = []string{"shop-main-1234567"}
	}
	faulttest.Check(t, fx.Delete(fx.request(), visibleProject(), created.ID), fault.Conflict, "in use")
	if _, err := fx.Read(t.Context(), visibleProject(), created.ID); err != nil {
		t.Errorf("Read() after a refused Delete() error = %v, want none", err)
	}
}

func TestSealedKeyIsBoundToItsRecord(t *testing.T) {
	fx := newFixture(t)
	first, second := fx.create("one", environment.Production), fx.create("two", environment.Production)
	visible := visibleProject()
	var stolen struct {
		Key []byte `dynamodbav:"key"`
	}
	if err := fx.table.Get(t.Context(), visible.Key(first.ID), &stolen); err != nil {
		t.Fatal(err)
	}
	if err := fx.table.Commit(t.Context(), store.Update(visible.Key(second.ID),
		store.Set(store.At("key"), stolen.Key))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := fx.Unseal(t.Context(), accountID, project, second.ID); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("Unseal(moved key) error = %v, want %v", err, seal.ErrSealed)
	}
}
