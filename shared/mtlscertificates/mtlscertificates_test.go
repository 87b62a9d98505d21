package mtlscertificates_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

const accountID, project = "a-1", "shop"

type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

// world is the service over a table in memory, in which a-1 has the project shop.
type world struct {
	*testing.T
	*mtlscertificates.Service
	items    *memory.Backend
	table    *store.Table
	ca       pkitest.Cert
	users    []string
	asked    func()
	now      time.Time
	requests atomic.Int64
}

// UsersOf implements mtlscertificates.Deployments.
func (w *world) UsersOf(context.Context, string, string, string) ([]string, error) {
	users := slices.Clone(w.users)
	if asked := w.asked; asked != nil {
		w.asked = nil
		asked()
	}
	return users, nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, items: memory.New(), now: storetest.Epoch}
	w.ca = pkitest.CA(t, "CA", w.now)
	w.table = storetest.Over(t, w.items, storetest.Pause(store.Backoff))
	now := func() time.Time { return w.now }
	w.Service = mtlscertificates.Open(installation.Parts{
		Table: w.table, Key: rootKey{}, Now: now, IDs: ids.NewSource(storetest.Random(t), now),
	}, w)
	if err := w.table.Commit(t.Context(), store.Put(store.ProjectKey(accountID, project), struct{}{})); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) request() context.Context {
	return store.Decide(audit.With(w.Context(), &audit.Request{
		AccountID: accountID, Action: "mtls-certificate.create", Time: w.now, RequestID: fmt.Sprint("request-", w.requests.Add(1)),
	}))
}

func at(kinds ...environment.Kind) mtlscertificates.Project {
	p := auth.Full()
	if kinds != nil {
		p.Environments = kinds
	}
	return mtlscertificates.Project{Owner: auth.Owner{AccountID: accountID, Viewer: auth.Principal{Permissions: p}}, Name: project}
}

func (w *world) upload(name string, kinds ...environment.Kind) mtlscertificates.New {
	w.Helper()
	its := w.ca.Client(w.T, name, w.now)
	return mtlscertificates.New{Name: name, Certificate: its.PEM(), Key: its.KeyPEM(w.T), Environments: kinds}
}

func (w *world) create(name string, kinds ...environment.Kind) mtlscertificates.Certificate {
	w.Helper()
	made, err := w.Create(w.request(), at(), w.upload(name, kinds...))
	if err != nil {
		w.Fatal(err)
	}
	return made
}

func TestKeyIsSealedAndOpenedByBuildsAlone(t *testing.T) {
	w := newWorld(t)
	n := w.upload("warehouse", environment.Production)
	made, err := w.Create(w.request(), at(), n)
	if err != nil || made.Info.Subject != "CN=warehouse, O=Acme" {
		t.Fatalf("%+v, %v", made, err)
	}
	inner := strings.Split(n.Key, "\n")[1]
	for key, item := range w.items.Items() {
		if strings.Contains(fmt.Sprintf("%v %+v", key, item), inner) {
			t.Errorf("the key stands in plain text at %v", key)
		}
	}
	chain, key, err := w.Unseal(t.Context(), accountID, project, made.ID)
	if err != nil || chain != n.Certificate || key != n.Key {
		t.Errorf("opened %d and %d bytes, %v", len(chain), len(key), err)
	}
	if _, _, err := w.Unseal(t.Context(), accountID, "other", made.ID); err == nil {
		t.Error("another project opens it")
	}
}

func TestBuildsUseWhatIsEnabledForTheirEnvironment(t *testing.T) {
	w := newWorld(t)
	made := w.create("warehouse", environment.Production)
	enabled := func(kind environment.Kind) bool {
		t.Helper()
		all, err := w.Usable(t.Context(), accountID, project, kind)
		if err != nil || all["warehouse"].ID != made.ID {
			t.Fatalf("%+v, %v", all, err)
		}
		_, ok, err := w.Serving(t.Context(), accountID, project, kind, []string{made.ID})
		if err != nil || ok != all["warehouse"].Enabled {
			t.Errorf("served %v, built %v, %v", ok, all["warehouse"].Enabled, err)
		}
		return all["warehouse"].Enabled
	}
	if !enabled(environment.Production) || enabled(environment.Preview) {
		t.Error("not production alone")
	}
	for _, kinds := range [][]environment.Kind{{environment.Preview, environment.Development, environment.Preview}, {}} {
		got, err := w.Enable(w.request(), at(), made.ID, kinds)
		if err != nil || len(got.Environments) != min(len(kinds), 2) {
			t.Errorf("enabled %+v, %v", got, err)
		}
		if enabled(environment.Production) || enabled(environment.Preview) != (len(kinds) > 0) {
			t.Errorf("after %v", kinds)
		}
	}
}

func TestCertificateOfAnUnseenEnvironmentReadsLikeAnAbsentOne(t *testing.T) {
	w := newWorld(t)
	made := w.create("both", environment.Production, environment.Preview)
	limited := at(environment.Preview)
	_, absent := w.Read(t.Context(), at(), "cert_0123456789ABCDEFGHIJKLMN")
	_, unseen := w.Read(t.Context(), limited, made.ID)
	if unseen == nil || absent == nil || unseen.Error() != absent.Error() {
		t.Errorf("%v and %v", unseen, absent)
	}
	faulttest.Want(t, w.Delete(w.request(), limited, made.ID), fault.NotFound, "")
	_, err := w.Enable(w.request(), limited, made.ID, nil)
	faulttest.Want(t, err, fault.NotFound, "")
	if all, err := w.List(t.Context(), limited); err != nil || len(all) > 0 {
		t.Errorf("listed %+v, %v", all, err)
	}
	_, err = w.Create(w.request(), limited, w.upload("more", environment.Production))
	faulttest.Want(t, err, fault.Forbidden, "limited")
	preview, err := w.Create(w.request(), limited, w.upload("preview", environment.Preview))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Enable(w.request(), limited, preview.ID, []environment.Kind{environment.Production})
	faulttest.Want(t, err, fault.Forbidden, "limited")
}

func TestBadInputNamesTheField(t *testing.T) {
	w := newWorld(t)
	good := w.upload("good", environment.Production)
	for field, change := range map[string]func(*mtlscertificates.New){
		"name":         func(n *mtlscertificates.New) { n.Name = "a-b" },
		"certificate":  func(n *mtlscertificates.New) { n.Certificate = n.Key },
		"key":          func(n *mtlscertificates.New) { n.Key = w.upload("other").Key },
		"environments": func(n *mtlscertificates.New) { n.Environments = nil },
	} {
		n := good
		change(&n)
		_, err := w.Create(w.request(), at(), n)
		faulttest.Want(t, err, fault.Invalid, field)
		if err != nil && strings.Contains(err.Error(), "BEGIN") {
			t.Errorf("the error repeats what was sent: %v", err)
		}
	}
	w.create("taken", environment.Production)
	_, err := w.Create(w.request(), at(), w.upload("taken", environment.Production))
	faulttest.Want(t, err, fault.Conflict, "name")
	elsewhere := at()
	elsewhere.Name = "gone"
	_, err = w.Create(w.request(), elsewhere, good)
	faulttest.Want(t, err, fault.NotFound, "project")
	_, err = w.List(t.Context(), elsewhere)
	faulttest.Want(t, err, fault.NotFound, "project")
}

func TestProjectHasFiftyAtMost(t *testing.T) {
	w := newWorld(t)
	for i := range mtlscertificates.MaxCertificates {
		w.create(fmt.Sprint("c_", i), environment.Production)
	}
	_, err := w.Create(w.request(), at(), w.upload("more", environment.Production))
	faulttest.Want(t, err, fault.Invalid, "50")
	all, err := w.List(t.Context(), at())
	if err != nil || len(all) != mtlscertificates.MaxCertificates {
		t.Fatalf("%d, %v", len(all), err)
	}
	if err := w.Delete(w.request(), at(), all[0].ID); err != nil {
		t.Fatal(err)
	}
	w.create(all[0].Name, environment.Production)
}

func TestCertificateInUseStays(t *testing.T) {
	w := newWorld(t)
	made := w.create("warehouse", environment.Production)
	w.users = []string{"shop-main-1234567"}
	faulttest.Want(t, w.Delete(w.request(), at(), made.ID), fault.Conflict, "shop-main-1234567")
	w.users = slices.Repeat(w.users, 7)
	faulttest.Want(t, w.Delete(w.request(), at(), made.ID), fault.Conflict, "2 more")
	w.users = nil
	if err := w.Delete(w.request(), at(), made.ID); err != nil {
		t.Fatal(err)
	}
	_, ok, err := w.Serving(t.Context(), accountID, project, environment.Production, []string{made.ID})
	if ok || err != nil {
		t.Errorf("a build comes to be served with a deleted certificate: %v", err)
	}
}

// TestBuildAndDeletionDoNotPassEachOther has a build come to be served between what a
// deletion finds and what it commits.
func TestBuildAndDeletionDoNotPassEachOther(t *testing.T) {
	w := newWorld(t)
	made := w.create("warehouse", environment.Production)
	w.asked = func() {
		writes, ok, err := w.Serving(t.Context(), accountID, project, environment.Production, []string{made.ID})
		if !ok || err != nil {
			t.Fatal(err)
		}
		if err := w.table.Commit(t.Context(), writes...); err != nil {
			t.Fatal(err)
		}
		w.users = []string{"shop-main-1234567"}
	}
	faulttest.Want(t, w.Delete(w.request(), at(), made.ID), fault.Conflict, "in use")
	if _, err := w.Read(t.Context(), at(), made.ID); err != nil {
		t.Errorf("it is gone: %v", err)
	}
}

func TestSealedKeyOpensInItsPlaceAlone(t *testing.T) {
	w := newWorld(t)
	one, two := w.create("one", environment.Production), w.create("two", environment.Production)
	place := at()
	var stolen struct {
		Key []byte `dynamodbav:"key"`
	}
	if err := w.table.Get(t.Context(), place.Key(one.ID), &stolen); err != nil {
		t.Fatal(err)
	}
	if err := w.table.Commit(t.Context(), store.Update(place.Key(two.ID), store.Set(store.At("key"), stolen.Key))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Unseal(t.Context(), accountID, project, two.ID); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("the moved key opens: %v", err)
	}
}
