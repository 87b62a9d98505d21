package certificates_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

type world struct {
	*testing.T
	*certificates.Service
	items    *memory.Backend
	table    *store.Table
	now      time.Time
	requests atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, items: memory.New(), now: storetest.Epoch}
	w.table = storetest.Over(t, w.items, storetest.Pause(store.Backoff))
	now := func() time.Time { return w.now }
	w.Service = certificates.Open(installation.Parts{Table: w.table, Now: now, IDs: ids.NewSource(storetest.Random(t), now)})
	return w
}

func (w *world) request() context.Context {
	return store.Decide(audit.With(w.Context(), &audit.Request{
		AccountID: "a-1", Action: "client-mtls-ca-certificate.create", Time: w.now, RequestID: fmt.Sprint("request-", w.requests.Add(1)),
	}))
}

func owner(change ...func(*auth.Permissions)) auth.Owner {
	p := auth.Full()
	for _, c := range change {
		c(&p)
	}
	return auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: p}}
}

func previews(p *auth.Permissions)   { p.Environments = []environment.Kind{environment.Preview} }
func oneProject(p *auth.Permissions) { p.Projects = []string{"shop"} }

func (w *world) create(name, text string) certificates.CA {
	w.Helper()
	ca, err := w.Create(w.request(), owner(), certificates.New{Name: name, Certificate: text})
	if err != nil {
		w.Fatal(err)
	}
	return ca
}

func TestUploadedCAIsListedWithoutItsCertificate(t *testing.T) {
	w := newWorld(t)
	its := pkitest.CA(t, "Partners CA", w.now)
	made := w.create("partners", its.PEM())
	if made.Info.Subject != "CN=Partners CA, O=Acme" || made.Info.Issuer != made.Info.Subject || !made.Info.ValidTo.Equal(its.NotAfter) {
		t.Errorf("made %+v", made)
	}
	w.create("devices", pkitest.CA(t, "Devices", w.now).PEM())
	all, err := w.List(w.Context(), owner())
	if err != nil || len(all) != 2 || all[0].Name != "devices" || all[1] != made {
		t.Errorf("listed %+v, %v", all, err)
	}
	for _, limit := range []func(*auth.Permissions){previews, oneProject} {
		if all, err := w.List(w.Context(), owner(limit)); err != nil || len(all) > 0 {
			t.Errorf("a key with limits sees %+v, %v", all, err)
		}
		_, err := w.Create(w.request(), owner(limit), certificates.New{Name: "more", Certificate: pkitest.CA(t, "X", w.now).PEM()})
		faulttest.Want(t, err, fault.Forbidden, "limited")
		faulttest.Want(t, w.Delete(w.request(), owner(limit), made.ID), fault.NotFound, "")
		_, err = w.Rename(w.request(), owner(limit), made.ID, "other")
		faulttest.Want(t, err, fault.NotFound, "")
	}
}

func TestCertificateIsUploadedOnceHoweverItIsEncoded(t *testing.T) {
	w := newWorld(t)
	text := pkitest.CA(t, "Partners CA", w.now).PEM()
	made := w.create("partners", text)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for name, again := range map[string]string{
		"the same": text, "other line ends": strings.ReplaceAll(text, "\n", "\r\n"), "text before it": "subject=CN\n" + text,
		"one line": lines[0] + "\n" + strings.Join(lines[1:len(lines)-1], "") + "\n" + lines[len(lines)-1] + "\n",
	} {
		_, err := w.Create(w.request(), owner(), certificates.New{Name: "again", Certificate: again})
		if faulttest.Want(t, err, fault.Conflict, "already"); t.Failed() {
			t.Fatal(name)
		}
	}
	// It is unique in its account, and again when it is gone.
	other := owner()
	other.AccountID = "a-2"
	if _, err := w.Create(w.request(), other, certificates.New{Name: "partners", Certificate: text}); err != nil {
		t.Error(err)
	}
	if err := w.Delete(w.request(), owner(), made.ID); err != nil {
		t.Fatal(err)
	}
	w.create("partners", text)
}

func TestNames(t *testing.T) {
	w := newWorld(t)
	text := pkitest.CA(t, "Partners CA", w.now).PEM()
	for _, name := range []string{"", "1a", "a-b", "a b", "ä", "a\n", "class", "CLASS", "Await", "null", strings.Repeat("a", 121)} {
		_, err := w.Create(w.request(), owner(), certificates.New{Name: name, Certificate: text})
		faulttest.Want(t, err, fault.Invalid, "name")
	}
	made := w.create(strings.Repeat("a", 120), text)
	other := w.create("$_9", pkitest.CA(t, "Other", w.now).PEM())
	_, err := w.Create(w.request(), owner(), certificates.New{Name: "$_9", Certificate: pkitest.CA(t, "Third", w.now).PEM()})
	faulttest.Want(t, err, fault.Conflict, "name")
	_, err = w.Rename(w.request(), owner(), made.ID, "$_9")
	faulttest.Want(t, err, fault.Conflict, "name")
	_, err = w.Rename(w.request(), owner(), made.ID, "class")
	faulttest.Want(t, err, fault.Invalid, "reserved")
	w.now = w.now.Add(time.Hour)
	for _, name := range []string{"partners", "partners", "devices"} {
		if got, err := w.Rename(w.request(), owner(), made.ID, name); err != nil || got.Name != name || got.Info != made.Info || !got.UpdatedOn.Equal(w.now) || !got.CreatedOn.Equal(made.CreatedOn) {
			t.Errorf("renamed %+v, %v", got, err)
		}
	}
	// What it was called is free.
	if _, err := w.Rename(w.request(), owner(), other.ID, "partners"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotThereIsMissing(t *testing.T) {
	w := newWorld(t)
	made := w.create("partners", pkitest.CA(t, "Partners CA", w.now).PEM())
	foreign := owner()
	foreign.AccountID = "a-2"
	faulttest.Want(t, w.Delete(w.request(), foreign, made.ID), fault.NotFound, "")
	for _, id := range []string{"", "mtlsca_0", "partners", "mtlsca_0123456789ABCDEFGHIJKLMN", strings.Repeat("a", 5000)} {
		faulttest.Want(t, w.Delete(w.request(), owner(), id), fault.NotFound, "")
		_, err := w.Rename(w.request(), owner(), id, "a")
		faulttest.Want(t, err, fault.NotFound, "")
	}
}

func TestHundredIsTheMostHoweverManyAreMadeAtOnce(t *testing.T) {
	w := newWorld(t)
	texts := make([]string, int(limits.ClientCAs.Default)+5)
	for i := range texts {
		texts[i] = pkitest.CA(t, fmt.Sprint("CA ", i), w.now).PEM()
	}
	var made, refused atomic.Int64
	var all sync.WaitGroup
	for g := range 5 {
		all.Go(func() {
			for k := g; k < len(texts); k += 5 {
				_, err := w.Create(w.request(), owner(), certificates.New{Name: fmt.Sprint("ca_", k), Certificate: texts[k]})
				switch {
				case err == nil:
					made.Add(1)
				case fault.Is(err, fault.Forbidden):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if made.Load() != limits.ClientCAs.Default || refused.Load() != 5 {
		t.Errorf("%d were made and %d refused", made.Load(), refused.Load())
	}
	list, err := w.List(w.Context(), owner())
	if err != nil || len(list) != int(limits.ClientCAs.Default) {
		t.Fatalf("%d are listed, %v", len(list), err)
	}
	if err := w.Delete(w.request(), owner(), list[0].ID); err != nil {
		t.Fatal(err)
	}
	w.create("last", pkitest.CA(t, "Last", w.now).PEM())
}
