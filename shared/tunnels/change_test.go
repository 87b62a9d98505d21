package tunnels_test

import (
	"encoding/json"
	"testing"

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/tunnel"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// TestEachChangeOfAServiceHolds, of who may call it above all: none is taken for the configuration that is there
// already, and both ends of the allow-list get it.
func TestEachChangeOfAServiceHolds(t *testing.T) {
	const production, preview, own = environment.Production, environment.Preview, environment.Development
	for name, change := range map[string]func(s *tunnels.Spec){
		"another endpoint": func(s *tunnels.Spec) { s.Endpoint = "http://b" },
		"another project":  func(s *tunnels.Spec) { s.Configurations[1].Project = "shop"; s.Configurations = s.Configurations[1:] },
		"another kind":     func(s *tunnels.Spec) { s.Configurations[0].AccessibleBy[1] = preview },
		"the kinds of another": func(s *tunnels.Spec) {
			s.Configurations[0].AccessibleBy, s.Configurations[1].AccessibleBy = s.Configurations[1].AccessibleBy, s.Configurations[0].AccessibleBy
		},
		"one kind less": func(s *tunnels.Spec) { s.Configurations[0].AccessibleBy = s.Configurations[0].AccessibleBy[:1] },
		"no kind":       func(s *tunnels.Spec) { s.Configurations[1].AccessibleBy = nil },
		"one kind more": func(s *tunnels.Spec) {
			s.Configurations[0].AccessibleBy = append(s.Configurations[0].AccessibleBy, preview)
		},
		"one project less":         func(s *tunnels.Spec) { s.Configurations = s.Configurations[:1] },
		"nobody":                   func(s *tunnels.Spec) { s.Configurations = nil },
		"a name in other letters":  func(s *tunnels.Spec) { s.Name = "Orders" },
		"kinds in another order":   func(s *tunnels.Spec) { k := s.Configurations[0].AccessibleBy; k[0], k[1] = k[1], k[0] },
		"projects the other way":   func(s *tunnels.Spec) { c := s.Configurations; c[0], c[1] = c[1], c[0] },
		"an endpoint with a slash": func(s *tunnels.Spec) { s.Endpoint += "/" },
	} {
		w := newWorld(t)
		spec := func() tunnels.Spec {
			return tunnels.Spec{Name: "orders", Endpoint: "http://a", Configurations: []tunnels.Configuration{
				{Project: "shop", AccessibleBy: []environment.Kind{production, own}}, {Project: "blog", AccessibleBy: []environment.Kind{preview}},
			}}
		}
		made := w.create(acme, "office")
		w.run(w.configure(made.ID, spec()).ID)
		after := spec()
		change(&after)
		if begun := w.configure(made.ID, after); begun.Status != operation.InProgress || w.run(begun.ID).Status != operation.Success {
			t.Errorf("%s is %+v", name, begun)
		}
		d := tunnels.OpenDirectory(w.parts)
		told, err := d.Services(t.Context(), "a-1/"+made.ID)
		if err != nil || len(told) != 1 || told[0].Name != after.Name || told[0].Endpoint != after.Endpoint {
			t.Fatalf("with %s agents are told %v, %v", name, told, err)
		}
		for _, project := range []string{"shop", "blog"} {
			for _, kind := range environment.Kinds() {
				c, want := tunnel.Caller{Project: project, Environment: kind.Slug()}, false
				for _, its := range after.Configurations {
					for _, k := range its.AccessibleBy {
						want = want || its.Project == project && k == kind
					}
				}
				_, err := d.Find(t.Context(), "a-1", after.Name, c)
				if agents := told[0].Allows(c); agents != want || (err == nil) != want {
					text, _ := json.Marshal(after)
					t.Errorf("with %s (%s) %v may ask the agent: %t, the gateway: %v, want %t", name, text, c, agents, err, want)
				}
			}
		}
	}
}

// TestTeardownRemovesAllServices, in as many steps as it takes, of whichever number, and none of another tunnel.
func TestTeardownRemovesAllServices(t *testing.T) {
	for count := range 6 {
		w := newWorld(t)
		w.Service = w.InPortions(2)
		made, other := w.create(acme, "office"), w.create(acme, "other")
		w.run(w.configure(made.ID, many(0, count)...).ID)
		w.run(w.configure(other.ID, service("stays", "http://a")).ID)
		gone, err := w.Delete(w.request(), acme, made.ID)
		if err != nil {
			t.Fatal(err)
		}
		if r := w.run(gone.ID); r.Status != operation.Success {
			t.Errorf("it has come to %+v", r)
		}
		w.wantThere("stays of " + other.ID + " at http://a for shop")
	}
}
