package customdomains_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// meanwhile gives the service over a table in which something happens between what the next
// operation reads and what it commits.
func (w *world) meanwhile(f func()) *customdomains.Service {
	p := w.parts
	p.Table = storetest.Over(w.T, &storetest.Interrupted{Backend: w.items, First: f}, storetest.Pause(storetest.AtOnce))
	return customdomains.Open(p)
}

// TestChangesAtOnceLoseNothing: what is there afterwards is what one after the other leaves,
// and what deployments, projects and the account count is what there is.
func TestChangesAtOnceLoseNothing(t *testing.T) {
	const main, next, blog = "shop-main-0123abc", "shop-next-0123abc", "blog-main-0123abc"
	attach := func(deployment string) func(*world, *customdomains.Service) error {
		return func(w *world, s *customdomains.Service) error {
			_, err := s.Create(w.request(), acme, customdomains.New{Hostname: api, Deployment: deployment})
			return err
		}
	}
	reassign := func(deployment string) func(*world, *customdomains.Service) error {
		return func(w *world, s *customdomains.Service) error {
			_, err := s.Update(w.request(), acme, api, deployment, false)
			return err
		}
	}
	verify := func(w *world, s *customdomains.Service) error {
		_, err := s.Verify(w.request(), acme, api)
		return err
	}
	remove := func(w *world, s *customdomains.Service) error { return s.Delete(w.request(), acme, api, "") }
	upload := func(w *world, s *customdomains.Service) error {
		w.upload(s, api, pkitest.CA(w.T, "CA", w.at()))
		return nil
	}
	anew := func(w *world, s *customdomains.Service) error {
		return errors.Join(remove(w, s), attach(blog)(w, s), verify(w, s))
	}
	for _, tt := range []struct {
		name          string
		claim, absent bool // of the custom domain before; else it is proven, and leads to main
		own, other    func(*world, *customdomains.Service) error
		leads         []string
		certificate   bool
	}{
		{"two attachments", false, false, attach(next), attach(blog), []string{main, blog, next}, false},
		{"two creations", false, true, attach(next), attach(blog), []string{blog, next}, false},
		{"a reassignment and an attachment", false, false, reassign(blog), attach(next), []string{blog, next}, false},
		{"a reassignment and an upload", false, false, reassign(blog), upload, []string{blog}, true},
		{"an upload and a reassignment", false, false, upload, reassign(blog), []string{blog}, true},
		{"a proof and an attachment", true, false, verify, reassign(next), []string{next}, false},
		{"an attachment and a proof", true, false, reassign(next), verify, []string{next}, false},
		{"a proof anew and an upload", false, false, verify, upload, []string{main}, true},
		{"an upload and a proof anew", false, false, upload, verify, []string{main}, true},
		{"a deletion and an attachment", false, false, remove, attach(next), nil, false},
		{"an attachment and a deletion", false, false, attach(next), remove, []string{next}, false},
		{"an attachment and one made anew", false, false, attach(next), anew, []string{blog, next}, false},
		{"an upload and one made anew", false, false, upload, anew, []string{blog}, true},
		{"a deletion and one made anew", false, false, remove, anew, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			if !tt.absent {
				made := w.create(acme, customdomains.New{Hostname: api, Deployment: main})
				w.dns.set(made.Proof)
			}
			if !tt.absent && !tt.claim {
				if err := verify(w, w.Service); err != nil {
					t.Fatal(err)
				}
			}
			err := tt.own(w, w.meanwhile(func() {
				if err := tt.other(w, w.Service); err != nil {
					t.Error("meanwhile:", err)
				}
			}))
			if err != nil {
				t.Error(err)
			}
			d, err := w.Read(t.Context(), acme, api)
			if !slices.Equal(led(d), tt.leads) || fault.Is(err, fault.NotFound) != (tt.leads == nil) || (d.Certificate != nil) != tt.certificate {
				t.Errorf("it leads to %v with %+v, %v, want %v", led(d), d.Certificate, err, tt.leads)
			}
			w.wantTrue(d)
		})
	}
}

// TestDeploymentThatIsDeletedMeanwhileIsLedToByNothing: an attachment that found it there comes too late.
func TestDeploymentThatIsDeletedMeanwhileIsLedToByNothing(t *testing.T) {
	const next = "shop-next-0123abc"
	w := newWorld(t)
	w.active(acme, customdomains.New{Hostname: api})
	_, err := w.meanwhile(func() {
		if err := deployments.New(w.parts, nil).DeleteDeployment(w.request(), deployments.DeploymentAt{Owner: acme, Deployment: next}); err != nil {
			t.Error(err)
		}
	}).Update(w.request(), acme, api, next, false)
	faulttest.Want(t, err, fault.NotFound, "deployment")
	d, err := w.Read(t.Context(), acme, api)
	if err != nil || len(d.Mappings) > 0 {
		t.Errorf("it leads to %v, %v", led(d), err)
	}
	w.wantTrue(d)
}

// wantTrue checks that all that is kept beside a custom domain, the only one, says what it says.
func (w *world) wantTrue(d customdomains.Domain) {
	w.Helper()
	domains := 0
	if d.ID != "" {
		domains = 1
	}
	var count struct {
		Count int `dynamodbav:"count"`
	}
	if err := w.parts.Table.Load(w.Context(), store.Want(store.Key{PK: "custom-domain-count#a-1", SK: "."}, &count)); err != nil || count.Count != domains {
		w.Errorf("the account counts %d custom domains, want %d; %v", count.Count, domains, err)
	}
	projects := map[string]int{}
	for _, m := range d.Mappings {
		projects[m.Project]++
	}
	for deployment, project := range map[string]string{"shop-main-0123abc": "shop", "shop-next-0123abc": "shop", "blog-main-0123abc": "blog"} {
		own := 0
		if slices.Contains(led(d), deployment) {
			own = 1
		}
		if got, want := w.counted(deployment, project), fmt.Sprint(own, " ", projects[project]); got != want {
			w.Errorf("%s and its project count %s, want %s", deployment, got, want)
		}
	}
	served := ""
	if d.Proof == nil && len(d.Mappings) > 0 {
		served = led(d)[0]
	}
	w.wantServed(w.directory(), api, served)
}
