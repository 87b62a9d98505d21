package customdomains_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/deployments"
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

// zone is a DNS in memory. It is safe for concurrent use.
type zone struct {
	mu      sync.Mutex
	records map[string][]string
	failure error
}

func (z *zone) LookupTXT(_ context.Context, name string) ([]string, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.failure != nil {
		return nil, z.failure
	}
	if found := z.records[name]; found != nil {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (z *zone) set(p *customdomains.Proof) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records[p.Name+"."] = append(z.records[p.Name+"."], p.Value)
}

type root struct{}

func (root) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

type world struct {
	*testing.T
	*customdomains.Service
	items    *memory.Backend
	parts    installation.Parts
	dns      *zone
	now      atomic.Pointer[time.Time]
	requests atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, items: memory.New(), dns: &zone{records: map[string][]string{}}}
	w.set(storetest.Epoch)
	w.parts = installation.Parts{
		Config: config.Config{DeploymentURL: "https://{deployment}.gateway.test"},
		Table:  storetest.Over(t, w.items, storetest.Pause(store.Backoff), storetest.Clock(w.at)), Now: w.at, IDs: ids.NewSource(storetest.Random(t), w.at), Key: root{}, DNS: w.dns,
	}
	w.Service = customdomains.Open(w.parts)
	for _, d := range []deployments.Record{
		{Name: "shop-main-0123abc", AccountID: "a-1", Project: "shop", Branch: "main", Kind: environment.Production, Latest: 1},
		{Name: "shop-next-0123abc", AccountID: "a-1", Project: "shop", Branch: "next", Kind: environment.Preview, Latest: 1},
		{Name: "blog-main-0123abc", AccountID: "a-1", Project: "blog", Branch: "main", Kind: environment.Production, Latest: 1},
		{Name: "blog-mine-0123abc", AccountID: "a-1", Project: "blog", Branch: "mine", Kind: environment.Development, Latest: 1},
		{Name: "blog-idea-0123abc", AccountID: "a-1", Project: "blog", Branch: "idea", Kind: environment.Preview},
		{Name: "evil-main-0123abc", AccountID: "a-2", Project: "shop", Branch: "main", Kind: environment.Production, Latest: 1},
	} {
		w.put(deployments.Key(d.Name), d)
		w.put(store.ProjectKey(d.AccountID, d.Project), deployments.Project{ID: "p-" + d.Project, AccountID: d.AccountID, Name: d.Project})
	}
	return w
}

func (w *world) at() time.Time { return *w.now.Load() }

func (w *world) set(now time.Time) { w.now.Store(&now) }

func (w *world) put(k store.Key, record any) {
	w.Helper()
	if err := w.parts.Table.Commit(w.Context(), store.Put(k, record)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) request() context.Context {
	return store.Decide(audit.With(w.Context(), &audit.Request{
		AccountID: "a-1", Action: "custom-domain.update", Time: w.at(), RequestID: fmt.Sprint("request-", w.requests.Add(1)),
	}))
}

func owner(account string, change ...func(*auth.Permissions)) auth.Owner {
	p := auth.Full()
	for _, c := range change {
		c(&p)
	}
	return auth.Owner{AccountID: account, Account: "of " + account, Viewer: auth.Principal{Permissions: p}}
}

var acme, evil = owner("a-1"), owner("a-2")

const api = "api.example.com"

func (w *world) create(o auth.Owner, n customdomains.New) customdomains.Domain {
	w.Helper()
	made, err := w.Create(w.request(), o, n)
	if err != nil {
		w.Fatal(err)
	}
	return made
}

// active creates a custom domain and proves it.
func (w *world) active(o auth.Owner, n customdomains.New) customdomains.Domain {
	w.Helper()
	w.dns.set(w.create(o, n).Proof)
	d, err := w.Verify(w.request(), o, n.Hostname)
	if err != nil {
		w.Fatal(err)
	}
	return d
}

// counted is how many custom domains a deployment and a project count.
func (w *world) counted(deployment, project string) string {
	w.Helper()
	var d deployments.Record
	var p deployments.Project
	if err := w.parts.Table.Load(w.Context(), store.Want(deployments.Key(deployment), &d), store.Want(store.ProjectKey("a-1", project), &p)); err != nil {
		w.Fatal(err)
	}
	return fmt.Sprint(d.Domains, " ", p.Domains)
}

func led(d customdomains.Domain) (names []string) {
	for _, m := range d.Mappings {
		names = append(names, m.Deployment)
	}
	return names
}

func TestProofIsStableAndItsAccountsOwn(t *testing.T) {
	w := newWorld(t)
	first := w.create(acme, customdomains.New{Hostname: "API.Example.com"})
	if first.Hostname != api || first.Proof == nil || first.Proof.Name != "_gatewright."+api || first.Stage != customdomains.API {
		t.Errorf("made %+v", first)
	}
	if err := w.Delete(w.request(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	again, others := w.create(acme, customdomains.New{Hostname: api}), w.create(evil, customdomains.New{Hostname: api})
	if *again.Proof != *first.Proof || again.ID == first.ID {
		t.Errorf("made again it is %+v, %+v before", again, first)
	}
	if others.Proof.Value == first.Proof.Value {
		t.Error("another account has the same text to prove the hostname with")
	}
}

func TestHostnameIsTheAccountsThatProvesIt(t *testing.T) {
	w := newWorld(t)
	w.create(evil, customdomains.New{Hostname: api}) // a claim, which keeps nobody away
	made := w.create(acme, customdomains.New{Hostname: api})
	_, err := w.Verify(w.request(), acme, api)
	faulttest.Want(t, err, fault.Conflict, "no TXT record")
	w.dns.set(made.Proof)
	_, err = w.Verify(w.request(), evil, api)
	faulttest.Want(t, err, fault.Conflict, "no TXT record")
	for range 2 {
		if d, err := w.Verify(w.request(), acme, api); err != nil || d.Proof != nil {
			t.Errorf("verified %+v, %v", d, err)
		}
	}
	claim, err := w.Read(t.Context(), evil, api)
	if err != nil || claim.Proof == nil {
		t.Fatalf("the other account's is %+v, %v", claim, err)
	}
	w.dns.set(claim.Proof)
	_, err = w.Verify(w.request(), evil, api)
	faulttest.Want(t, err, fault.Conflict, "Another account")
	if err := w.Delete(w.request(), evil, api, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(w.request(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	w.active(evil, customdomains.New{Hostname: api})
}

func TestOneOfManyAtOnceGetsAHostname(t *testing.T) {
	w := newWorld(t)
	var accounts []auth.Owner
	for i := range 8 {
		o := owner(fmt.Sprint("b-", i))
		accounts = append(accounts, o)
		w.dns.set(w.create(o, customdomains.New{Hostname: api}).Proof)
	}
	var all sync.WaitGroup
	var won atomic.Int64
	for _, o := range accounts {
		all.Go(func() {
			switch _, err := w.Verify(w.request(), o, api); {
			case err == nil:
				won.Add(1)
			case !fault.Is(err, fault.Conflict):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 {
		t.Errorf("%d accounts have the hostname", won.Load())
	}
}

func TestSilentDNSProvesNothing(t *testing.T) {
	w := newWorld(t)
	w.dns.set(w.create(acme, customdomains.New{Hostname: api}).Proof)
	w.dns.failure = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	_, err := w.Verify(w.request(), acme, api)
	faulttest.Want(t, err, fault.Conflict, "does not answer")
	if its, ok := errors.AsType[*fault.Fault](err); !ok || strings.Contains(its.Public, "misbehaving") {
		t.Errorf("its owner is told %v", its)
	}
}

// stuck is a DNS that never answers.
type stuck struct{}

func (stuck) LookupTXT(ctx context.Context, _ string) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestNobodyWaitsLongForTheDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(acme, customdomains.New{Hostname: api})
		w.parts.DNS = stuck{}
		begun := time.Now()
		_, err := customdomains.Open(w.parts).Verify(w.request(), acme, api)
		faulttest.Want(t, err, fault.Conflict, "does not answer")
		if waited := time.Since(begun); waited > 5*time.Second {
			t.Errorf("it waits %s", waited)
		}
	})
}

func TestDomainLeadsToAtMostTenDeployments(t *testing.T) {
	w := newWorld(t)
	w.active(acme, customdomains.New{Hostname: api})
	var want []string
	for i := range customdomains.MaxDeployments + 1 {
		d := deployments.Record{Name: fmt.Sprintf("shop-b%d-0123abc", i), AccountID: "a-1", Project: "shop", Branch: "b", Kind: environment.Preview, Latest: 1}
		w.put(deployments.Key(d.Name), d)
		// Each second one is served from now on.
		got, err := w.Create(w.request(), acme, customdomains.New{Hostname: api, Deployment: d.Name, Default: i%2 == 0})
		if i == customdomains.MaxDeployments {
			faulttest.Want(t, err, fault.Conflict, "leads to 10 deployments")
			break
		}
		if want = append(want, d.Name); i%2 == 0 {
			want = append([]string{d.Name}, want[:i]...)
		}
		if err != nil || !slices.Equal(led(got), want) {
			t.Fatalf("it leads to %v, %v, want %v", led(got), err, want)
		}
	}
	if got := w.counted(want[0], "shop"); got != "1 10" {
		t.Errorf("counted %s", got)
	}
	w.wantServed(w.directory(), api, want[0])
	if d, err := w.Update(w.request(), acme, api, want[4], false); err != nil || led(d)[0] != want[4] {
		t.Errorf("it leads to %v, %v", led(d), err)
	}
	w.wantServed(w.directory(), api, want[4])
	if d, err := w.Update(w.request(), acme, api, "", false); err != nil || len(d.Mappings) > 0 {
		t.Errorf("detached it leads to %v, %v", led(d), err)
	}
	if got := w.counted(want[0], "shop"); got != "0 0" {
		t.Errorf("counted %s when it leads nowhere", got)
	}
}

func TestListHasTheAccountsOwn(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"b.example.com", api} {
		w.create(acme, customdomains.New{Hostname: name})
	}
	w.create(evil, customdomains.New{Hostname: "evil.example.com"})
	all, err := w.List(t.Context(), acme)
	if err != nil || len(all) != 2 || all[0].Hostname != api || all[1].Hostname != "b.example.com" || all[0].Proof == nil {
		t.Errorf("it lists %+v, %v", all, err)
	}
}

func TestChangesSayWhenTheyWere(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, customdomains.New{Hostname: api})
	w.dns.set(made.Proof)
	for _, change := range []func() (customdomains.Domain, error){
		func() (customdomains.Domain, error) { return w.Verify(w.request(), acme, api) },
		func() (customdomains.Domain, error) { return w.Verify(w.request(), acme, api) },
		func() (customdomains.Domain, error) {
			return w.Update(w.request(), acme, api, "shop-main-0123abc", false)
		},
		func() (customdomains.Domain, error) {
			w.upload(w.Service, api, pkitest.CA(t, "CA", w.at()))
			return w.Read(t.Context(), acme, api)
		},
	} {
		w.set(w.at().Add(time.Hour))
		if d, err := change(); err != nil || !d.UpdatedOn.Equal(w.at()) || !d.CreatedOn.Equal(made.CreatedOn) {
			t.Errorf("at %s it was changed on %s, and made on %s, %v", w.at(), d.UpdatedOn, d.CreatedOn, err)
		}
	}
}

func TestDomainLeadsToDeployments(t *testing.T) {
	w := newWorld(t)
	const main, next, blog = "shop-main-0123abc", "shop-next-0123abc", "blog-main-0123abc"
	want := func(d customdomains.Domain, err error, names ...string) {
		t.Helper()
		if err != nil || !slices.Equal(led(d), names) {
			t.Errorf("it leads to %v, %v, want %v", led(d), err, names)
		}
	}
	want(w.create(acme, customdomains.New{Hostname: api, Deployment: main}), nil, main)
	_, err := w.Create(w.request(), acme, customdomains.New{Hostname: api, Deployment: main})
	faulttest.Want(t, err, fault.Conflict, "has a custom domain of this hostname")
	_, err = w.Create(w.request(), acme, customdomains.New{Hostname: api})
	faulttest.Want(t, err, fault.Conflict, "has a custom domain of this hostname")
	want(w.create(acme, customdomains.New{Hostname: api, Deployment: next}), nil, main, next)
	for _, n := range []customdomains.New{{Hostname: api, Deployment: blog, Alias: true}, {Hostname: api, Deployment: blog, Stage: customdomains.DevPortal}} {
		_, err = w.Create(w.request(), acme, n)
		faulttest.Want(t, err, fault.Conflict, "another stage, or is an alias")
	}
	if got := w.counted(next, "shop"); got != "1 2" {
		t.Errorf("counted %s", got)
	}
	_, err = w.Update(w.request(), acme, api, main, true)
	faulttest.Want(t, err, fault.Conflict, "Make another one the default")
	d, err := w.Update(w.request(), acme, api, next, true)
	want(d, err, main, next)
	d, err = w.Update(w.request(), acme, api, next, false)
	want(d, err, next, main)
	d, err = w.Update(w.request(), acme, api, blog, false)
	want(d, err, blog, main)
	if got := w.counted(next, "shop") + ", " + w.counted(main, "shop") + ", " + w.counted(blog, "blog"); got != "0 1, 1 1, 1 1" {
		t.Errorf("counted %s", got)
	}
	faulttest.Want(t, w.Delete(w.request(), acme, api, next), fault.NotFound, "does not lead to")
	if err := w.Delete(w.request(), acme, api, blog); err != nil {
		t.Fatal(err)
	}
	d, err = w.Read(t.Context(), acme, api)
	want(d, err, main)
	d, err = w.Update(w.request(), acme, api, "", false)
	want(d, err)
	if got := w.counted(main, "shop") + ", " + w.counted(blog, "blog"); got != "0 0, 0 0" {
		t.Errorf("counted %s", got)
	}
	for range 2 { // the only one is served in any case
		d, err = w.Update(w.request(), acme, api, main, true)
		want(d, err, main)
	}
	if err := w.Delete(w.request(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	if got := w.counted(main, "shop"); got != "0 0" {
		t.Errorf("counted %s after its end", got)
	}
}

func TestDomainLeadsNowhereElse(t *testing.T) {
	w := newWorld(t)
	for name, text := range map[string]string{
		"shop-gone-0123abc": "deployment", "evil-main-0123abc": "deployment", "blog-idea-0123abc": "deployment", "../x": "deployment",
	} {
		_, err := w.Create(w.request(), acme, customdomains.New{Hostname: api, Deployment: name})
		faulttest.Want(t, err, fault.NotFound, text)
	}
	_, err := w.Create(w.request(), acme, customdomains.New{Hostname: api, Deployment: "blog-mine-0123abc"})
	faulttest.Want(t, err, fault.Invalid, "working copy")
	for _, gone := range []func() error{
		func() error { _, err := w.Read(t.Context(), acme, api); return err },
		func() error { _, err := w.Update(w.request(), acme, api, "", false); return err },
		func() error { _, err := w.Verify(w.request(), acme, api); return err },
		func() error { return w.Delete(w.request(), acme, api, "") },
		func() error { return w.Delete(w.request(), acme, "*", "") },
	} {
		faulttest.Want(t, gone(), fault.NotFound, "custom domain")
	}
}

func TestDomainHoldsItsDeploymentAndProject(t *testing.T) {
	w := newWorld(t)
	service := deployments.New(w.parts, nil)
	main := deployments.DeploymentAt{Owner: acme, Deployment: "shop-main-0123abc"}
	w.create(acme, customdomains.New{Hostname: api, Deployment: main.Deployment})
	faulttest.Want(t, service.DeleteDeployment(w.request(), main), fault.Conflict, "Custom domains lead to the deployment")
	_, err := service.DeleteProject(w.request(), acme, "shop")
	faulttest.Want(t, err, fault.Conflict, "Custom domains lead to deployments of the project")
	if _, err := w.Update(w.request(), acme, api, "", false); err != nil {
		t.Fatal(err)
	}
	if _, err := service.DeleteProject(w.request(), acme, "shop"); err != nil {
		t.Fatal(err)
	}
	_, err = w.Update(w.request(), acme, api, main.Deployment, false)
	faulttest.Want(t, err, fault.NotFound, "deployment")
}

func TestAccountHasAtMostThousandDomains(t *testing.T) {
	w := newWorld(t)
	w.put(store.Key{PK: "custom-domain-count#a-1", SK: "."}, map[string]int{"count": int(limits.CustomDomains.Default) - 1})
	w.create(acme, customdomains.New{Hostname: api})
	_, err := w.Create(w.request(), acme, customdomains.New{Hostname: "b.example.com"})
	faulttest.Want(t, err, fault.Forbidden, "its limit custom-domains is 1000")
	if err := w.Delete(w.request(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	w.create(acme, customdomains.New{Hostname: "b.example.com"})
}

func TestLimitedKeysSeeNoDomains(t *testing.T) {
	w := newWorld(t)
	w.active(acme, customdomains.New{Hostname: api, Deployment: "shop-main-0123abc"})
	for _, limit := range []func(*auth.Permissions){
		func(p *auth.Permissions) { p.Projects = []string{"shop"} },
		func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Production} },
	} {
		o := owner("a-1", limit)
		if all, err := w.List(t.Context(), o); err != nil || len(all) > 0 {
			t.Errorf("it sees %v, %v", all, err)
		}
		_, err := w.Read(t.Context(), o, api)
		faulttest.Want(t, err, fault.NotFound, "custom domain")
		_, err = w.Create(w.request(), o, customdomains.New{Hostname: "b.example.com"})
		faulttest.Want(t, err, fault.NotFound, "limited")
		faulttest.Want(t, w.Delete(w.request(), o, api, ""), fault.NotFound, "custom domain")
	}
}
