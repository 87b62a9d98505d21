package customdomains_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// interruptedService returns a service that calls f once, between the reads and the commit of its next operation.
func (fx *fixture) interruptedService(f func()) *customdomains.Service {
	p := fx.parts
	p.Table = storetest.NewWithBackend(fx.T, &storetest.Interrupted{Backend: fx.items, BeforeCommit: f},
		storetest.Backoff(storetest.NoBackoff))
	return customdomains.Open(p)
}

// TestConcurrentChangesLoseNothing checks that concurrent changes have the same result as sequential changes, and that
// the counters of deployments, projects and the account match.
func TestConcurrentChangesLoseNothing(t *testing.T) {
	const main, next, blog = "shop-main-0123abc", "shop-next-0123abc", "blog-main-0123abc"
	attach := func(deployment string) func(*fixture, *customdomains.Service) error {
		return func(fx *fixture, s *customdomains.Service) error {
			_, err := s.Create(fx.requestContext(), acme, customdomains.CreateInput{Hostname: api, Deployment: deployment})
			return err
		}
	}
	reassign := func(deployment string) func(*fixture, *customdomains.Service) error {
		return func(fx *fixture, s *customdomains.Service) error {
			_, err := s.Update(fx.requestContext(), acme, api, deployment, false)
			return err
		}
	}
	verify := func(fx *fixture, s *customdomains.Service) error {
		_, err := s.Verify(fx.requestContext(), acme, api)
		return err
	}
	remove := func(fx *fixture, s *customdomains.Service) error { return s.Delete(fx.requestContext(), acme, api, "") }
	upload := func(fx *fixture, s *customdomains.Service) error {
		fx.upload(s, api, pkitest.CA(fx.T, "CA", fx.clock()))
		return nil
	}
	recreate := func(fx *fixture, s *customdomains.Service) error {
		return errors.Join(remove(fx, s), attach(blog)(fx, s), verify(fx, s))
	}
	for _, tt := range []struct {
		name string
		// the initial state; if both are false, the custom domain is verified and has the deployment main
		unverified, absent bool
		change, concurrent func(*fixture, *customdomains.Service) error
		wantDeployments    []string
		wantCertificate    bool
	}{
		{"two attachments", false, false, attach(next), attach(blog), []string{main, blog, next}, false},
		{"two creations", false, true, attach(next), attach(blog), []string{blog, next}, false},
		{"a reassignment and an attachment", false, false, reassign(blog), attach(next), []string{blog, next}, false},
		{"a reassignment and an upload", false, false, reassign(blog), upload, []string{blog}, true},
		{"an upload and a reassignment", false, false, upload, reassign(blog), []string{blog}, true},
		{"a verification and a reassignment", true, false, verify, reassign(next), []string{next}, false},
		{"a reassignment and a verification", true, false, reassign(next), verify, []string{next}, false},
		{"a second verification and an upload", false, false, verify, upload, []string{main}, true},
		{"an upload and a second verification", false, false, upload, verify, []string{main}, true},
		{"a deletion and an attachment", false, false, remove, attach(next), nil, false},
		{"an attachment and a deletion", false, false, attach(next), remove, []string{next}, false},
		{"an attachment and a recreation", false, false, attach(next), recreate, []string{blog, next}, false},
		{"an upload and a recreation", false, false, upload, recreate, []string{blog}, true},
		{"a deletion and a recreation", false, false, remove, recreate, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			if !tt.absent {
				created := fx.create(acme, customdomains.CreateInput{Hostname: api, Deployment: main})
				fx.dns.addRecord(created.Proof)
			}
			if !tt.absent && !tt.unverified {
				if err := verify(fx, fx.Service); err != nil {
					t.Fatal(err)
				}
			}
			err := tt.change(fx, fx.interruptedService(func() {
				if err := tt.concurrent(fx, fx.Service); err != nil {
					t.Errorf("concurrent change: error = %v, want none", err)
				}
			}))
			if err != nil {
				t.Errorf("change with a concurrent change: error = %v, want none", err)
			}
			d, err := fx.Read(t.Context(), acme, api)
			if got, want := fault.Is(err, fault.NotFound), tt.wantDeployments == nil; got != want {
				t.Errorf("Read() error = %v, want NotFound = %t", err, want)
			}
			fx.checkDomain(d, tt.wantDeployments, tt.wantCertificate)
			fx.checkConsistent(d)
		})
	}
}

// checkDomain checks the deployments of the custom domain d, and whether d has a certificate.
func (fx *fixture) checkDomain(d customdomains.Domain, wantDeployments []string, wantCertificate bool) {
	fx.Helper()
	if got := deploymentNames(d); !slices.Equal(got, wantDeployments) {
		fx.Errorf("deployments of Read() = %q, want %q", got, wantDeployments)
	}
	if got := d.Certificate != nil; got != wantCertificate {
		fx.Errorf("certificate of Read() = %+v, want a certificate = %t", d.Certificate, wantCertificate)
	}
}

// TestConcurrentlyDeletedDeploymentIsNotAttached deletes a deployment after an attachment has read it, and checks that
// the attachment fails.
func TestConcurrentlyDeletedDeploymentIsNotAttached(t *testing.T) {
	const next = "shop-next-0123abc"
	fx := newFixture(t)
	fx.createVerified(acme, customdomains.CreateInput{Hostname: api})
	_, err := fx.interruptedService(func() {
		if err := deployments.New(fx.parts, nil).DeleteDeployment(fx.requestContext(),
			deployments.DeploymentLocator{Owner: acme, Deployment: next}); err != nil {
			t.Error(err)
		}
	}).Update(fx.requestContext(), acme, api, next, false)
	faulttest.Check(t, err, fault.NotFound, "deployment")
	d, err := fx.Read(t.Context(), acme, api)
	if err != nil || len(d.Mappings) > 0 {
		t.Errorf("Read(domain after the conflict) = %v, %v, want no deployments and no error", deploymentNames(d), err)
	}
	fx.checkConsistent(d)
}

// checkConsistent checks that all records agree with the custom domain d, the only one of the account. d has no ID if
// the account has none.
func (fx *fixture) checkConsistent(d customdomains.Domain) {
	fx.Helper()
	domains := 0
	if d.ID != "" {
		domains = 1
	}
	var count struct {
		Count int `dynamodbav:"count"`
	}
	if err := fx.parts.Table.Load(fx.Context(), store.Get(store.Key{PK: "custom-domain-count#a-1", SK: "."},
		&count)); err != nil || count.Count != domains {
		fx.Errorf("number of custom domains in the account = %d, %v, want %d and no error", count.Count, err, domains)
	}
	projects := map[string]int{}
	for _, m := range d.Mappings {
		projects[m.Project]++
	}
	for deployment, project := range map[string]string{
		"shop-main-0123abc": "shop", "shop-next-0123abc": "shop",
		"blog-main-0123abc": "blog",
	} {
		wantDomains := 0
		if slices.Contains(deploymentNames(d), deployment) {
			wantDomains = 1
		}
		if got, want := fx.domainCounts(deployment, project), fmt.Sprint(wantDomains, " ", projects[project]); got != want {
			fx.Errorf("numbers of custom domains of %s and of its project = %s, want %s", deployment, got, want)
		}
	}
	served := ""
	if d.Proof == nil && len(d.Mappings) > 0 {
		served = deploymentNames(d)[0]
	}
	fx.wantServed(fx.directory(), api, served)
}
