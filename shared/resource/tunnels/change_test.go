package tunnels_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// TestEachServiceChangeTakesEffect changes a service in one detail at a time, mostly its permitted callers. Each
// change must be provisioned, and gateways and agents must both permit exactly the callers of the changed service.
func TestEachServiceChangeTakesEffect(t *testing.T) {
	const production, preview, development = environment.Production, environment.Preview, environment.Development
	for name, change := range map[string]func(s *tunnels.Spec){
		"another endpoint": func(s *tunnels.Spec) { s.Endpoint = "http://b" },
		"another project": func(s *tunnels.Spec) {
			s.Configurations[1].Project = "shop"
			s.Configurations = s.Configurations[1:]
		},
		"another kind": func(s *tunnels.Spec) { s.Configurations[0].AccessibleBy[1] = preview },
		"the kinds of another project": func(s *tunnels.Spec) {
			s.Configurations[0].AccessibleBy, s.Configurations[1].AccessibleBy = s.Configurations[1].AccessibleBy,
				s.Configurations[0].AccessibleBy
		},
		"a removed kind": func(s *tunnels.Spec) {
			s.Configurations[0].AccessibleBy = s.Configurations[0].AccessibleBy[:1]
		},
		"no kind": func(s *tunnels.Spec) { s.Configurations[1].AccessibleBy = nil },
		"an added kind": func(s *tunnels.Spec) {
			s.Configurations[0].AccessibleBy = append(s.Configurations[0].AccessibleBy, preview)
		},
		"a removed project":            func(s *tunnels.Spec) { s.Configurations = s.Configurations[:1] },
		"no callers":                   func(s *tunnels.Spec) { s.Configurations = nil },
		"a name with a capital letter": func(s *tunnels.Spec) { s.Name = "Orders" },
		"kinds in another order":       func(s *tunnels.Spec) { slices.Reverse(s.Configurations[0].AccessibleBy) },
		"projects in another order":    func(s *tunnels.Spec) { slices.Reverse(s.Configurations) },
		"an endpoint with a slash":     func(s *tunnels.Spec) { s.Endpoint += "/" },
	} {
		fx := newFixture(t)
		spec := func() tunnels.Spec {
			return tunnels.Spec{Name: "orders", Endpoint: "http://a", Configurations: []tunnels.Configuration{
				{Project: "shop", AccessibleBy: []environment.Kind{production, development}},
				{Project: "blog", AccessibleBy: []environment.Kind{preview}},
			}}
		}
		created := fx.create(acme, "office")
		fx.runOperation(fx.configure(created.ID, spec()).ID)
		after := spec()
		change(&after)
		started := fx.configure(created.ID, after)
		if started.Status != operation.InProgress {
			t.Errorf("%s: Configure() = %+v, want %s", name, started, operation.InProgress)
		}
		if r := fx.runOperation(started.ID); r.Status != operation.Success {
			t.Errorf("%s: operation ends as %+v, want %s", name, r, operation.Success)
		}
		d := tunnels.OpenDirectory(fx.parts)
		services, err := d.Services(t.Context(), "a-1/"+created.ID)
		if err != nil || len(services) != 1 || services[0].Name != after.Name || services[0].Endpoint != after.Endpoint {
			t.Fatalf("Services() with %s = %v, %v, want %s at %s", name, services, err, after.Name, after.Endpoint)
		}
		for _, project := range []string{"shop", "blog"} {
			for _, kind := range environment.Kinds() {
				c, want := tunnel.Caller{Project: project, Environment: kind.Slug()}, false
				for _, allowed := range after.Configurations {
					for _, k := range allowed.AccessibleBy {
						want = want || allowed.Project == project && k == kind
					}
				}
				_, err := d.Find(t.Context(), "a-1", after.Name, c)
				if agents := services[0].Allows(c); agents != want || (err == nil) != want {
					text, _ := json.Marshal(after)
					t.Errorf("with %s (%s): Allows(%v) of the agent = %t, Find() of the gateway = %v, want permitted: %t",
						name, text, c, agents, err, want)
				}
			}
		}
	}
}

// TestTeardownRemovesAllServices tears down a tunnel with 0 to 5 services,
// in steps of two services. The service of another tunnel stays.
func TestTeardownRemovesAllServices(t *testing.T) {
	for count := range 6 {
		fx := newFixture(t)
		fx.Service = fx.LimitPerStep(2)
		created, other := fx.create(acme, "office"), fx.create(acme, "other")
		fx.runOperation(fx.configure(created.ID, numberedServices(0, count)...).ID)
		fx.runOperation(fx.configure(other.ID, service("stays", "http://a")).ID)
		teardown, err := fx.Delete(fx.requestContext(), acme, created.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r := fx.runOperation(teardown.ID); r.Status != operation.Success {
			t.Errorf("teardown ends as %+v, want %s", r, operation.Success)
		}
		fx.checkProvisioned("stays of " + other.ID + " at http://a for shop")
	}
}
