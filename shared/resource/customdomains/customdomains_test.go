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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// fakeDNS is a DNS in memory. It is safe for concurrent use.
type fakeDNS struct {
	mu      sync.Mutex
	records map[string][]string
	err     error
}

func (d *fakeDNS) LookupTXT(_ context.Context, name string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return nil, d.err
	}
	if found := d.records[name]; found != nil {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (d *fakeDNS) addRecord(p *customdomains.Proof) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records[p.Name+"."] = append(d.records[p.Name+"."], p.Value)
}

type zeroRootKey struct{}

func (zeroRootKey) Root(context.Context) ([]byte, error) { return make([]byte, 32), nil }

// fixture is a service with a table and a DNS in memory. The accounts a-1 and a-2 have deployments.
type fixture struct {
	*testing.T
	*customdomains.Service
	items    *memory.Backend
	parts    installation.Parts
	dns      *fakeDNS
	now      atomic.Pointer[time.Time]
	requests atomic.Int64
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{T: t, items: memory.New(), dns: &fakeDNS{records: map[string][]string{}}}
	fx.setClock(storetest.Epoch)
	fx.parts = installation.Parts{
		Config: config.Config{DeploymentURL: "https://{deployment}.gateway.test"},
		Table:  storetest.NewWithBackend(t, fx.items, storetest.Backoff(store.Backoff), storetest.Clock(fx.clock)),
		Now:    fx.clock, IDs: ids.NewSource(storetest.Random(t), fx.clock), Key: zeroRootKey{}, DNS: fx.dns,
	}
	fx.Service = customdomains.Open(fx.parts)
	for _, d := range []deployments.Record{
		{
			Name: "shop-main-0123abc", AccountID: "a-1", Project: "shop", Branch: "main", Kind: environment.Production,
			Latest: 1,
		},
		{Name: "shop-next-0123abc", AccountID: "a-1", Project: "shop", Branch: "next", Kind: environment.Preview, Latest: 1},
		{
			Name: "blog-main-0123abc", AccountID: "a-1", Project: "blog", Branch: "main", Kind: environment.Production,
			Latest: 1,
		},
		{
			Name: "blog-mine-0123abc", AccountID: "a-1", Project: "blog", Branch: "mine", Kind: environment.Development,
			Latest: 1,
		},
		{Name: "blog-idea-0123abc", AccountID: "a-1", Project: "blog", Branch: "idea", Kind: environment.Preview},
		{
			Name: "evil-main-0123abc", AccountID: "a-2", Project: "shop", Branch: "main", Kind: environment.Production,
			Latest: 1,
		},
	} {
		fx.putRecord(deployments.Key(d.Name), d)
		fx.putRecord(store.ProjectKey(d.AccountID, d.Project),
			deployments.Project{ID: "p-" + d.Project, AccountID: d.AccountID, Name: d.Project})
	}
	return fx
}

func (fx *fixture) clock() time.Time { return *fx.now.Load() }

func (fx *fixture) setClock(now time.Time) { fx.now.Store(&now) }

func (fx *fixture) putRecord(k store.Key, record any) {
	fx.Helper()
	if err := fx.parts.Table.Commit(fx.Context(), store.Put(k, record)); err != nil {
		fx.Fatal(err)
	}
}

func (fx *fixture) requestContext() context.Context {
	return store.WithReadSet(audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: "a-1", Action: "custom-domain.update", Time: fx.clock(),
		RequestID: fmt.Sprint("request-", fx.requests.Add(1)),
	}))
}

func owner(account string, changes ...func(*auth.Permissions)) auth.Owner {
	p := auth.Full()
	for _, c := range changes {
		c(&p)
	}
	return auth.Owner{AccountID: account, Account: "of " + account, Viewer: auth.Principal{Permissions: p}}
}

var acme, otherAccount = owner("a-1"), owner("a-2")

const api = "api.example.com"

func (fx *fixture) create(o auth.Owner, input customdomains.CreateInput) customdomains.Domain {
	fx.Helper()
	created, err := fx.Create(fx.requestContext(), o, input)
	if err != nil {
		fx.Fatal(err)
	}
	return created
}

// createVerified creates a custom domain and verifies it.
func (fx *fixture) createVerified(o auth.Owner, input customdomains.CreateInput) customdomains.Domain {
	fx.Helper()
	fx.dns.addRecord(fx.create(o, input).Proof)
	d, err := fx.Verify(fx.requestContext(), o, input.Hostname)
	if err != nil {
		fx.Fatal(err)
	}
	return d
}

// domainCounts returns the numbers of custom domains in the records of a deployment and a project.
func (fx *fixture) domainCounts(deployment, project string) string {
	fx.Helper()
	var d deployments.Record
	var p deployments.Project
	if err := fx.parts.Table.Load(fx.Context(), store.Get(deployments.Key(deployment), &d),
		store.Get(store.ProjectKey("a-1", project), &p)); err != nil {
		fx.Fatal(err)
	}
	return fmt.Sprint(d.Domains, " ", p.Domains)
}

func deploymentNames(d customdomains.Domain) (names []string) {
	for _, m := range d.Mappings {
		names = append(names, m.Deployment)
	}
	return names
}

func TestProofIsStableAndUniqueToAccount(t *testing.T) {
	fx := newFixture(t)
	first := fx.create(acme, customdomains.CreateInput{Hostname: "API.Example.com"})
	if first.Hostname != api || first.Proof == nil || first.Proof.Name != "_gatewright."+api ||
		first.Stage != customdomains.API {
		t.Errorf("Create(API.Example.com) = %s, proof %+v, stage %s, want %s, a proof at _gatewright.%[4]s, stage %s",
			first.Hostname, first.Proof, first.Stage, api, customdomains.API)
	}
	if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	recreated, other := fx.create(acme, customdomains.CreateInput{Hostname: api}),
		fx.create(otherAccount, customdomains.CreateInput{Hostname: api})
	if *recreated.Proof != *first.Proof || recreated.ID == first.ID {
		t.Errorf("second Create() = ID %s, proof %+v, want an ID other than %s, proof %+v",
			recreated.ID, recreated.Proof, first.ID, first.Proof)
	}
	if other.Proof.Value == first.Proof.Value {
		t.Errorf("proof in another account = %q, want another one than in the first account", other.Proof.Value)
	}
}

func TestHostnameBelongsToVerifyingAccount(t *testing.T) {
	fx := newFixture(t)
	fx.create(otherAccount, customdomains.CreateInput{Hostname: api}) // a claim must not block another account
	created := fx.create(acme, customdomains.CreateInput{Hostname: api})
	_, err := fx.Verify(fx.requestContext(), acme, api)
	faulttest.Check(t, err, fault.Conflict, "no TXT record")
	fx.dns.addRecord(created.Proof)
	_, err = fx.Verify(fx.requestContext(), otherAccount, api)
	faulttest.Check(t, err, fault.Conflict, "no TXT record")
	for range 2 {
		if d, err := fx.Verify(fx.requestContext(), acme, api); err != nil || d.Proof != nil {
			t.Errorf("Verify() = %+v, %v, want a domain without proof and no error", d, err)
		}
	}
	claim, err := fx.Read(t.Context(), otherAccount, api)
	if err != nil || claim.Proof == nil {
		t.Fatalf("Read(claim of another account) = %+v, %v, want a proof and no error", claim, err)
	}
	fx.dns.addRecord(claim.Proof)
	_, err = fx.Verify(fx.requestContext(), otherAccount, api)
	faulttest.Check(t, err, fault.Conflict, "Another account")
	if err := fx.Delete(fx.requestContext(), otherAccount, api, ""); err != nil {
		t.Fatal(err)
	}
	if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	fx.createVerified(otherAccount, customdomains.CreateInput{Hostname: api})
}

func TestConcurrentVerificationsHaveOneWinner(t *testing.T) {
	fx := newFixture(t)
	var accounts []auth.Owner
	for i := range 8 {
		o := owner(fmt.Sprint("b-", i))
		accounts = append(accounts, o)
		fx.dns.addRecord(fx.create(o, customdomains.CreateInput{Hostname: api}).Proof)
	}
	var wg sync.WaitGroup
	var verified atomic.Int64
	for _, o := range accounts {
		wg.Go(func() {
			switch _, err := fx.Verify(fx.requestContext(), o, api); {
			case err == nil:
				verified.Add(1)
			case !fault.Is(err, fault.Conflict):
				t.Errorf("Verify() error = %v, want none or %v", err, fault.Conflict)
			}
		})
	}
	wg.Wait()
	if verified.Load() != 1 {
		t.Errorf("%d accounts verify the hostname, want 1", verified.Load())
	}
}

func TestUnavailableDNSFailsVerification(t *testing.T) {
	fx := newFixture(t)
	fx.dns.addRecord(fx.create(acme, customdomains.CreateInput{Hostname: api}).Proof)
	fx.dns.err = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	_, err := fx.Verify(fx.requestContext(), acme, api)
	faulttest.Check(t, err, fault.Conflict, "does not answer")
	if f, ok := errors.AsType[*fault.Fault](err); ok && strings.Contains(f.Public, "misbehaving") {
		t.Errorf("public text of the error = %q, want it without the text of the DNS error", f.Public)
	}
}

// unresponsiveDNS is a DNS that never responds.
type unresponsiveDNS struct{}

func (unresponsiveDNS) LookupTXT(ctx context.Context, _ string) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestDNSQueryTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		fx.create(acme, customdomains.CreateInput{Hostname: api})
		fx.parts.DNS = unresponsiveDNS{}
		startedAt := time.Now()
		_, err := customdomains.Open(fx.parts).Verify(fx.requestContext(), acme, api)
		faulttest.Check(t, err, fault.Conflict, "does not answer")
		if elapsed := time.Since(startedAt); elapsed > 5*time.Second {
			t.Errorf("Verify() takes %s, want at most 5s", elapsed)
		}
	})
}

func TestDomainHasAtMostTenDeployments(t *testing.T) {
	fx := newFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
	var want []string
	for i := range customdomains.MaxDeployments + 1 {
		d := deployments.Record{
			Name: fmt.Sprintf("shop-b%d-0123abc", i), AccountID: "a-1", Project: "shop", Branch: "b",
			Kind: environment.Preview, Latest: 1,
		}
		fx.putRecord(deployments.Key(d.Name), d)
		// Every second deployment becomes the served one.
		got, err := fx.Create(fx.requestContext(), acme, customdomains.CreateInput{
			Hostname: api, Deployment: d.Name, Default: i%2 == 0,
		})
		if i == customdomains.MaxDeployments {
			faulttest.Check(t, err, fault.Conflict, "leads to 10 deployments")
			break
		}
		if want = append(want, d.Name); i%2 == 0 {
			want = append([]string{d.Name}, want[:i]...)
		}
		if err != nil || !slices.Equal(deploymentNames(got), want) {
			t.Fatalf("Create(%s) = %v, %v, want the deployments %v", d.Name, deploymentNames(got), err, want)
		}
	}
	if got := fx.domainCounts(want[0], "shop"); got != "1 10" {
		t.Errorf("counts of the deployment and its project = %s, want 1 10", got)
	}
	fx.wantServed(fx.directory(), api, want[0])
	if d, err := fx.Update(fx.requestContext(), acme, api, want[4], false); err != nil ||
		deploymentNames(d)[0] != want[4] {
		t.Errorf("Update(%s) = %v, %v, want %[1]s first and no error", want[4], deploymentNames(d), err)
	}
	fx.wantServed(fx.directory(), api, want[4])
	if d, err := fx.Update(fx.requestContext(), acme, api, "", false); err != nil || len(d.Mappings) > 0 {
		t.Errorf("Update(no deployment) = %v, %v, want no mappings and no error", deploymentNames(d), err)
	}
	if got := fx.domainCounts(want[0], "shop"); got != "0 0" {
		t.Errorf("counts of the detached deployment = %s, want 0 0", got)
	}
}

func TestListReturnsOwnDomainsOnly(t *testing.T) {
	fx := newFixture(t)
	for _, name := range []string{"b.example.com", api} {
		fx.create(acme, customdomains.CreateInput{Hostname: name})
	}
	fx.create(otherAccount, customdomains.CreateInput{Hostname: "evil.example.com"})
	all, err := fx.List(t.Context(), acme)
	if err != nil || len(all) != 2 || all[0].Hostname != api || all[1].Hostname != "b.example.com" {
		t.Fatalf("List() = %+v, %v, want %s and b.example.com", all, err, api)
	}
	if all[0].Proof == nil {
		t.Errorf("List() = %s without proof, want one", api)
	}
}

func TestChangesSetUpdatedOn(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, customdomains.CreateInput{Hostname: api})
	fx.dns.addRecord(created.Proof)
	for i, change := range []func() (customdomains.Domain, error){
		func() (customdomains.Domain, error) { return fx.Verify(fx.requestContext(), acme, api) },
		func() (customdomains.Domain, error) { return fx.Verify(fx.requestContext(), acme, api) },
		func() (customdomains.Domain, error) {
			return fx.Update(fx.requestContext(), acme, api, "shop-main-0123abc", false)
		},
		func() (customdomains.Domain, error) {
			fx.upload(fx.Service, api, pkitest.CA(t, "CA", fx.clock()))
			return fx.Read(t.Context(), acme, api)
		},
	} {
		fx.setClock(fx.clock().Add(time.Hour))
		if d, err := change(); err != nil || !d.UpdatedOn.Equal(fx.clock()) || !d.CreatedOn.Equal(created.CreatedOn) {
			t.Errorf("change %d: updated on %s, created on %s, %v, want updated on %s, created on %s",
				i, d.UpdatedOn, d.CreatedOn, err, fx.clock(), created.CreatedOn)
		}
	}
}

func TestDomainMapsToDeployments(t *testing.T) {
	fx := newFixture(t)
	const main, next, blog = "shop-main-0123abc", "shop-next-0123abc", "blog-main-0123abc"
	check := func(d customdomains.Domain, err error, names ...string) {
		t.Helper()
		if err != nil || !slices.Equal(deploymentNames(d), names) {
			t.Errorf("deployments = %v, %v, want %v", deploymentNames(d), err, names)
		}
	}
	check(fx.create(acme, customdomains.CreateInput{Hostname: api, Deployment: main}), nil, main)
	_, err := fx.Create(fx.requestContext(), acme, customdomains.CreateInput{Hostname: api, Deployment: main})
	faulttest.Check(t, err, fault.Conflict, "has a custom domain of this hostname")
	_, err = fx.Create(fx.requestContext(), acme, customdomains.CreateInput{Hostname: api})
	faulttest.Check(t, err, fault.Conflict, "has a custom domain of this hostname")
	check(fx.create(acme, customdomains.CreateInput{Hostname: api, Deployment: next}), nil, main, next)
	for _, n := range []customdomains.CreateInput{
		{Hostname: api, Deployment: blog, Alias: true},
		{Hostname: api, Deployment: blog, Stage: customdomains.DevPortal},
	} {
		_, err = fx.Create(fx.requestContext(), acme, n)
		faulttest.Check(t, err, fault.Conflict, "another stage, or is an alias")
	}
	if got := fx.domainCounts(next, "shop"); got != "1 2" {
		t.Errorf("counts of next and shop = %s, want 1 2", got)
	}
	_, err = fx.Update(fx.requestContext(), acme, api, main, true)
	faulttest.Check(t, err, fault.Conflict, "Make another one the default")
	d, err := fx.Update(fx.requestContext(), acme, api, next, true)
	check(d, err, main, next)
	d, err = fx.Update(fx.requestContext(), acme, api, next, false)
	check(d, err, next, main)
	d, err = fx.Update(fx.requestContext(), acme, api, blog, false)
	check(d, err, blog, main)
	if got := fx.domainCounts(next, "shop") + ", " + fx.domainCounts(main, "shop") + ", " + fx.domainCounts(blog,
		"blog"); got != "0 1, 1 1, 1 1" {
		t.Errorf("counts of the three deployments = %s, want 0 1, 1 1, 1 1", got)
	}
	faulttest.Check(t, fx.Delete(fx.requestContext(), acme, api, next), fault.NotFound, "does not lead to")
	if err := fx.Delete(fx.requestContext(), acme, api, blog); err != nil {
		t.Fatal(err)
	}
	d, err = fx.Read(t.Context(), acme, api)
	check(d, err, main)
	d, err = fx.Update(fx.requestContext(), acme, api, "", false)
	check(d, err)
	if got := fx.domainCounts(main, "shop") + ", " + fx.domainCounts(blog, "blog"); got != "0 0, 0 0" {
		t.Errorf("counts after the last mapping is removed = %s, want 0 0, 0 0", got)
	}
	for range 2 { // notDefault is accepted for the only deployment
		d, err = fx.Update(fx.requestContext(), acme, api, main, true)
		check(d, err, main)
	}
	if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	if got := fx.domainCounts(main, "shop"); got != "0 0" {
		t.Errorf("counts after Delete() = %s, want 0 0", got)
	}
}

// TestInvalidDeploymentsAreRefused also checks that the refused creations leave no custom domain.
func TestInvalidDeploymentsAreRefused(t *testing.T) {
	fx := newFixture(t)
	for _, name := range []string{"shop-gone-0123abc", "evil-main-0123abc", "blog-idea-0123abc", "../x"} {
		_, err := fx.Create(fx.requestContext(), acme, customdomains.CreateInput{Hostname: api, Deployment: name})
		faulttest.Check(t, err, fault.NotFound, "deployment")
	}
	_, err := fx.Create(fx.requestContext(), acme,
		customdomains.CreateInput{Hostname: api, Deployment: "blog-mine-0123abc"})
	faulttest.Check(t, err, fault.Invalid, "working copy")
	for _, call := range []func() error{
		func() error { _, err := fx.Read(t.Context(), acme, api); return err },
		func() error { _, err := fx.Update(fx.requestContext(), acme, api, "", false); return err },
		func() error { _, err := fx.Verify(fx.requestContext(), acme, api); return err },
		func() error { return fx.Delete(fx.requestContext(), acme, api, "") },
		func() error { return fx.Delete(fx.requestContext(), acme, "*", "") },
	} {
		faulttest.Check(t, call(), fault.NotFound, "custom domain")
	}
}

func TestMappedDeploymentCannotBeDeleted(t *testing.T) {
	fx := newFixture(t)
	service := deployments.New(fx.parts, nil)
	main := deployments.DeploymentLocator{Owner: acme, Deployment: "shop-main-0123abc"}
	fx.create(acme, customdomains.CreateInput{Hostname: api, Deployment: main.Deployment})
	faulttest.Check(t, service.DeleteDeployment(fx.requestContext(), main), fault.Conflict,
		"Custom domains lead to the deployment")
	_, err := service.DeleteProject(fx.requestContext(), acme, "shop")
	faulttest.Check(t, err, fault.Conflict, "Custom domains lead to deployments of the project")
	if _, err := fx.Update(fx.requestContext(), acme, api, "", false); err != nil {
		t.Fatal(err)
	}
	if _, err := service.DeleteProject(fx.requestContext(), acme, "shop"); err != nil {
		t.Fatal(err)
	}
	_, err = fx.Update(fx.requestContext(), acme, api, main.Deployment, false)
	faulttest.Check(t, err, fault.NotFound, "deployment")
}

func TestDomainLimitOfAccount(t *testing.T) {
	fx := newFixture(t)
	fx.putRecord(store.Key{PK: "custom-domain-count#a-1", SK: "."},
		map[string]int{"count": int(limits.CustomDomains.Default) - 1})
	fx.create(acme, customdomains.CreateInput{Hostname: api})
	_, err := fx.Create(fx.requestContext(), acme, customdomains.CreateInput{Hostname: "b.example.com"})
	faulttest.Check(t, err, fault.Forbidden, "its limit custom-domains is 1000")
	if err := fx.Delete(fx.requestContext(), acme, api, ""); err != nil {
		t.Fatal(err)
	}
	fx.create(acme, customdomains.CreateInput{Hostname: "b.example.com"})
}

func TestRestrictedKeysSeeNoDomains(t *testing.T) {
	fx := newFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api, Deployment: "shop-main-0123abc"})
	for _, limit := range []func(*auth.Permissions){
		func(p *auth.Permissions) { p.Projects = []string{"shop"} },
		func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Production} },
	} {
		o := owner("a-1", limit)
		if all, err := fx.List(t.Context(), o); err != nil || len(all) > 0 {
			t.Errorf("List() with a restricted key = %v, %v, want none and no error", all, err)
		}
		_, err := fx.Read(t.Context(), o, api)
		faulttest.Check(t, err, fault.NotFound, "custom domain")
		_, err = fx.Create(fx.requestContext(), o, customdomains.CreateInput{Hostname: "b.example.com"})
		faulttest.Check(t, err, fault.NotFound, "limited")
		faulttest.Check(t, fx.Delete(fx.requestContext(), o, api, ""), fault.NotFound, "custom domain")
	}
}
