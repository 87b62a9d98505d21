package tunnels_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

func TestEndpointValidation(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	for endpoint, want := range map[string]string{
		"http://localhost:8080":                 "",
		"https://stock.internal/v1/":            "",
		"HTTP://10.0.0.1":                       "",
		"http://[::1]:65535/a%20b":              "",
		"http://xn--mnchen-3ya.example:1":       "",
		"http://" + strings.Repeat("a", 2041):   "",
		"http://" + strings.Repeat("a", 2042):   "2048 bytes",
		"":                                      "begin with http",
		"localhost:8080":                        "begin with http",
		"//localhost":                           "begin with http",
		"ftp://localhost":                       "begin with http",
		"unix:///run/stock.sock":                "begin with http",
		"javascript:alert(1)":                   "begin with http",
		"http://":                               "has no host",
		"http:///path":                          "has no host",
		"http:localhost":                        "has no host",
		"https://:8080":                         "has no host",
		"http://user@localhost":                 "user or a password",
		"http://user:secret@localhost":          "user or a password",
		"http://localhost?":                     "query or a fragment",
		"http://localhost/?a=b":                 "query or a fragment",
		"http://localhost/#":                    "query or a fragment",
		"http://localhost/#top":                 "query or a fragment",
		"http://localhost:":                     "empty port",
		"http://localhost:0":                    "port",
		"http://localhost:65536":                "port",
		"http://localhost:99999999999999999999": "port",
		"http://localhost:port":                 "is no URL",
		"http://localhost/%zz":                  "is no URL",
		"http://[::1":                           "is no URL",
		"http://local host":                     "percent-encode",
		"http://localhost/\r\nHost: other":      "percent-encode",
		"http://münchen.example":                "percent-encode",
		" http://localhost":                     "percent-encode",
		"http://localhost\x00":                  "percent-encode",
	} {
		_, err := fx.Configure(fx.requestContext(), acme, created.ID, []tunnels.Spec{service("stock", endpoint)})
		if want == "" && err != nil || want != "" && (!fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), "services[0].endpoint: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("Configure(endpoint %q) error = %v, want %v that contains %q (no error if this is empty)", endpoint, err,
				fault.Invalid, want)
		}
	}
}

// TestRelayEndpointIsRefused checks that a service whose endpoint is the relay is refused.
// Requests to such a service would return to the relay, and seem to come from the agent's network.
func TestRelayEndpointIsRefused(t *testing.T) {
	fx := newFixture(t)
	fx.parts.Config.Relay = "https://relay.example.com"
	fx.Service = tunnels.Open(fx.parts)
	created := fx.create(acme, "office")
	for endpoint, want := range map[string]bool{
		"https://relay.example.com": true, "https://RELAY.example.com:443/ask": true,
		"https://stock.example.com": false, "https://relay.example.com:8443": false,
	} {
		_, err := fx.Configure(fx.requestContext(), acme, created.ID, []tunnels.Spec{service("stock", endpoint)})
		if refused := fault.Is(err, fault.Invalid) &&
			strings.Contains(err.Error(), "services[0].endpoint: is the address of the relay"); refused != want {
			t.Errorf("Configure(%s) error = %v, want it refused as the relay: %t", endpoint, err, want)
		}
	}
}

// numberedServices returns n services with consecutive numbers.
func numberedServices(from, n int) (out []tunnels.Spec) {
	for i := range n {
		out = append(out, service(fmt.Sprintf("service-%04d", from+i), "http://localhost"))
	}
	return out
}

// withProjects returns a service with a configuration for each project, without kinds of environments.
func withProjects(projects ...string) []tunnels.Spec {
	s := tunnels.Spec{Name: "stock", Endpoint: "http://a"}
	for _, p := range projects {
		s.Configurations = append(s.Configurations, tunnels.Configuration{Project: p})
	}
	return []tunnels.Spec{s}
}

// withKinds returns a service that a project's environments of some kinds may use.
func withKinds(kinds ...environment.Kind) []tunnels.Spec {
	return []tunnels.Spec{{
		Name: "stock", Endpoint: "http://a",
		Configurations: []tunnels.Configuration{{Project: "shop", AccessibleBy: kinds}},
	}}
}

func TestInvalidConfigurationsAreRefused(t *testing.T) {
	var manyProjects, manyConfigurations []tunnels.Spec
	for i, s := range numberedServices(0, 51) {
		s.Configurations = []tunnels.Configuration{{Project: fmt.Sprintf("project-%d", i)}}
		manyProjects = append(manyProjects, s)
		s.Configurations = nil
		for j := range 20 {
			s.Configurations = append(s.Configurations, tunnels.Configuration{Project: fmt.Sprintf("project-%d", j)})
		}
		manyConfigurations = append(manyConfigurations, s)
	}
	for _, tt := range []struct {
		name     string
		services []tunnels.Spec
		kind     fault.Kind
		want     string
	}{
		{"one service too many", numberedServices(0, 101), fault.Invalid, "services: a tunnel has at most 100"},
		{"a thousand services", numberedServices(0, 1000), fault.Invalid, "services: a tunnel has at most 100"},
		{
			"an invalid name",
			[]tunnels.Spec{service("a b c", "http://a")},
			fault.Invalid,
			"services[0].name: has to be 3 to 24",
		},
		{"no name", []tunnels.Spec{service("", "http://a")}, fault.Invalid, "services[0].name: has to be 3 to 24"},
		{"a name twice", []tunnels.Spec{
			service("stock", "http://a"), service("other", "http://a"), service("stock", "http://b"),
		}, fault.Invalid, "services[2].name: is the name of services[0] too"},
		{
			"the name of a service of another tunnel",
			[]tunnels.Spec{service("mine", "http://a"), service("taken", "http://a")},
			fault.Conflict, "of these names: taken.",
		},
		{
			"a missing project", withProjects("shop", "nope"), fault.Invalid,
			"services[0].configurations[1].project: the account has no such project",
		},
		{"a project of another account", withProjects("theirs"), fault.Invalid, "services[0].configurations[0].project"},
		{"no project", withProjects(""), fault.Invalid, "services[0].configurations[0].project: has to be the name"},
		{
			"a project twice", withProjects("shop", "blog", "shop"), fault.Invalid,
			"services[0].configurations[2].project: is named twice",
		},
		{
			"a long project", withProjects(strings.Repeat("p", 64)), fault.Invalid,
			"services[0].configurations[0].project: has to be the name",
		},
		{
			"an unknown kind", withKinds("staging"), fault.Invalid,
			"services[0].configurations[0].accessibleBy[0]: has to be working-copy",
		},
		{
			"a kind twice", withKinds(environment.Preview, environment.Production, environment.Preview), fault.Invalid,
			"accessibleBy[2]: is there twice",
		},
		{"many projects", manyProjects, fault.Invalid, "more than 50 projects"},
		{"many configurations", manyConfigurations, fault.Invalid, "more than 1000 configurations"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			other, created := fx.create(acme, "other"), fx.create(acme, "office")
			fx.configure(other.ID, service("taken", "http://a"))
			before := fx.items.Items()
			_, err := fx.Configure(fx.requestContext(), acme, created.ID, tt.services)
			faulttest.Check(t, err, tt.kind, tt.want)
			if !maps.EqualFunc(before, fx.items.Items(), store.EqualItems) {
				t.Error("refused Configure() changes items, want no change")
			}
		})
	}
}

// TestServiceLimitOfAccount checks that an account cannot have more services than its limit, and that removed services
// no longer count.
func TestServiceLimitOfAccount(t *testing.T) {
	fx := newFixture(t)
	var ids []string
	for n := range int(limits.TunnelServices.Default) / tunnels.MaxServices {
		created := fx.create(acme, fmt.Sprintf("tunnel-%d", n))
		fx.configure(created.ID, numberedServices(n*tunnels.MaxServices, tunnels.MaxServices)...)
		ids = append(ids, created.ID)
	}
	extra := fx.create(acme, "one-more")
	_, err := fx.Configure(fx.requestContext(), acme, extra.ID, numberedServices(5000, 1))
	faulttest.Check(t, err, fault.Forbidden, "its limit tunnel-services is 1000")
	fx.configure(ids[0], numberedServices(0, tunnels.MaxServices-1)...)
	fx.configure(extra.ID, numberedServices(5000, 1)...)
}

// TestAccountOverLimitCanRemoveServices checks that an account over its limit of
// services can remove services, and can add services only up to the limit.
func TestAccountOverLimitCanRemoveServices(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	fx.configure(created.ID, numberedServices(0, 5)...)
	if err := counts.Open(fx.parts).Set(fx.requestContext(), acme.AccountID, limits.TunnelServices, 2); err != nil {
		t.Fatal(err)
	}
	_, err := fx.Configure(fx.requestContext(), acme, created.ID, numberedServices(0, 6))
	faulttest.Check(t, err, fault.Forbidden,
		"The account has 5 services behind tunnels, and its limit tunnel-services is 2.")
	fx.configure(created.ID, numberedServices(0, 4)...)
	fx.configure(created.ID, numberedServices(0, 1)...)
	fx.configure(created.ID, numberedServices(0, 2)...)
	_, err = fx.Configure(fx.requestContext(), acme, created.ID, numberedServices(0, 3))
	faulttest.Check(t, err, fault.Forbidden, "its limit tunnel-services is 2.")
}

// TestLargestConfigurationIsProvisioned checks that the largest valid configuration fits into the table.
func TestLargestConfigurationIsProvisioned(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	var writes []store.Write
	project := func(i int) string { return fmt.Sprintf("%s-%02d", strings.Repeat("p", 60), i) }
	for i := range tunnels.MaxProjects {
		writes = append(writes, store.Put(store.ProjectKey("a-1", project(i)), map[string]string{"id": project(i)}))
	}
	if err := fx.parts.Table.Commit(t.Context(), writes...); err != nil {
		t.Fatal(err)
	}
	var services []tunnels.Spec
	for i := range tunnels.MaxServices {
		s := tunnels.Spec{
			Name:     fmt.Sprintf("service-%s-%03d", strings.Repeat("s", 12), i),
			Endpoint: "http://" + strings.Repeat("a", tunnels.MaxEndpointBytes-7),
		}
		for j := range tunnels.MaxConfigurations / tunnels.MaxServices {
			s.Configurations = append(s.Configurations, tunnels.Configuration{
				Project:      project((i + j) % tunnels.MaxProjects),
				AccessibleBy: environment.Kinds(),
			})
		}
		services = append(services, s)
	}
	tooLarge := slices.Clone(services)
	tooLarge[0].Configurations = append(slices.Clone(tooLarge[0].Configurations),
		tunnels.Configuration{Project: project(20)})
	_, err := fx.Configure(fx.requestContext(), acme, created.ID, tooLarge)
	faulttest.Check(t, err, fault.Invalid, "more than 1000 configurations")
	if r := fx.runOperation(fx.configure(created.ID, services...).ID); r.Status != operation.Success {
		t.Errorf("operation ends as %+v, want %s", r, operation.Success)
	}
	found, err := fx.Provisioned(t.Context(), "a-1")
	if err != nil || len(found) != tunnels.MaxServices {
		t.Errorf("Provisioned() = %d services, %v, want %d", len(found), err, tunnels.MaxServices)
	}
}

// TestOnlyChangedServicesAreWritten checks that unchanged services are not written.
func TestOnlyChangedServicesAreWritten(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	fx.runOperation(fx.configure(created.ID, service("kept", "http://a"), service("changed", "http://a"),
		service("removed", "http://a")).ID)
	before := fx.items.Items()
	r := fx.runOperation(fx.configure(created.ID, service("added", "http://a"), service("changed", "http://b"),
		service("kept", "http://a")).ID)
	if r.Status != operation.Success || r.Message != "The tunnel's services are as configured." {
		t.Errorf("operation ends as %+v, want %s and its message", r, operation.Success)
	}
	fx.checkProvisioned("added of "+created.ID+" at http://a for shop", "changed of "+created.ID+" at http://b for shop",
		"kept of "+created.ID+" at http://a for shop")
	var written []string
	after := fx.items.Items()
	for key := range after {
		if strings.HasPrefix(key.PK, "tunnel-service#") && !store.EqualItems(before[key], after[key]) {
			written = append(written, key.SK)
		}
	}
	slices.Sort(written)
	if !slices.Equal(written, []string{"added", "changed"}) {
		t.Errorf("written services = %q, want [added changed]", written)
	}
	want := []string{"added", "changed", "kept"} // in the order of the configuration
	got, err := fx.ConfiguredServices(t.Context(), acme, created.ID)
	names := make([]string, len(got))
	for i, s := range got {
		names[i] = s.Name
	}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("ConfiguredServices() = %q, %v, want %q", names, err, want)
	}
	fx.checkClaims(created.ID, want...)
}

// TestSameConfigurationChangesNothing configures the services that a tunnel already has. Configure
// returns the operation in progress, or, after its end, a new operation that has already succeeded.
func TestSameConfigurationChangesNothing(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	if empty := fx.configure(created.ID); empty.Status != operation.Success {
		t.Errorf("Configure(no services) = %+v, want %s", empty, operation.Success)
	}
	first := fx.configure(created.ID, service("orders", "http://a"))
	if second := fx.configure(created.ID, service("orders", "http://a")); second != first {
		t.Errorf("same Configure() again = %+v, want %+v", second, first)
	}
	if r := fx.runOperation(first.ID); r.Status != operation.Success {
		t.Errorf("operation ends as %+v, want %s", r, operation.Success)
	}
	before := fx.items.Items()
	second := fx.configure(created.ID, service("orders", "http://a"))
	if read, err := fx.Provisioning(t.Context(), acme, created.ID, second.ID); second.ID == first.ID ||
		second.Status != operation.Success || err != nil || read != second {
		t.Errorf("same Configure() again = %+v, read as %+v, %v, want another operation with %s, read as the same",
			second, read, err, operation.Success)
	}
	for key, item := range fx.items.Items() {
		if strings.HasPrefix(key.PK, "tunnel") && !store.EqualItems(item, before[key]) {
			t.Errorf("item %s %s has changed, want no change", key.PK, key.SK)
		}
	}
	// The order of services is part of a configuration, so another order is a change.
	fx.runOperation(fx.configure(created.ID, service("orders", "http://a"), service("stock", "http://a")).ID)
	if reordered := fx.configure(created.ID, service("stock", "http://a"),
		service("orders", "http://a")); reordered.Status != operation.InProgress {
		t.Errorf("Configure(another order) = %+v, want %s", reordered, operation.InProgress)
	}
	if got, err := fx.ConfiguredServices(t.Context(), acme, created.ID); err != nil || got[0].Name != "stock" {
		t.Errorf("ConfiguredServices() = %+v, %v, want stock first", got, err)
	}
}

// TestLaterConfigurationSupersedesEarlier replaces a configuration that is not provisioned yet. The
// operation of the replaced configuration fails, names the later operation, and provisions nothing.
func TestLaterConfigurationSupersedesEarlier(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	first := fx.configure(created.ID, service("early", "http://a"))
	second := fx.configure(created.ID, service("late", "http://a"))
	r := fx.runOperation(first.ID)
	if r.Status != operation.Failure || !strings.Contains(r.Message, second.ID) {
		t.Errorf("first operation ends as %+v, want %s that names %s", r, operation.Failure, second.ID)
	}
	fx.checkProvisioned()
	if r := fx.runOperation(second.ID); r.Status != operation.Success {
		t.Errorf("second operation ends as %+v, want %s", r, operation.Success)
	}
	fx.checkProvisioned("late of " + created.ID + " at http://a for shop")
}

// TestNamesAreFreedImmediately assigns the names of removed services, or of a deleted tunnel and its services, to
// another tunnel. The other tunnel must get the names in either order of the two operations.
func TestNamesAreFreedImmediately(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		for _, oldFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("deleted=%t, old operation first=%t", deleted, oldFirst), func(t *testing.T) {
				fx := newFixture(t)
				old := fx.create(acme, "office")
				fx.runOperation(fx.configure(old.ID, service("orders", "http://a"), service("stock", "http://a")).ID)
				name := "office-2"
				var oldOperation tunnels.Operation
				if deleted {
					var err error
					if oldOperation, err = fx.Delete(fx.requestContext(), acme, old.ID); err != nil {
						t.Fatal(err)
					}
					name = "office"
				} else {
					oldOperation = fx.configure(old.ID)
				}
				created := fx.create(acme, name)
				newOperation := fx.configure(created.ID, service("orders", "http://b"))
				order := []string{newOperation.ID, oldOperation.ID}
				if oldFirst {
					slices.Reverse(order)
				}
				for _, id := range order {
					if r := fx.runOperation(id); r.Status != operation.Success {
						t.Errorf("operation ends as %+v, want %s", r, operation.Success)
					}
				}
				fx.checkProvisioned("orders of " + created.ID + " at http://b for shop")
				fx.checkClaims(old.ID)
				fx.checkClaims(created.ID, "orders")
			})
		}
	}
}

// TestDeletedTunnelIsNotProvisioned checks that a provisioning operation that runs
// after the deletion of its tunnel fails, and that only the account's register remains.
func TestDeletedTunnelIsNotProvisioned(t *testing.T) {
	fx := newFixture(t)
	created := fx.create(acme, "office")
	configureOp := fx.configure(created.ID, service("orders", "http://a"))
	teardown, err := fx.Delete(fx.requestContext(), acme, created.ID)
	if err != nil {
		t.Fatal(err)
	}
	fx.runOperation(teardown.ID)
	if r := fx.runOperation(configureOp.ID); r.Status != operation.Failure || !strings.Contains(r.Message, "was deleted") {
		t.Errorf("operation of the deleted tunnel ends as %+v, want %s: was deleted", r, operation.Failure)
	}
	fx.checkProvisioned()
	for key := range fx.items.Items() {
		if strings.HasPrefix(key.PK, "tunnel") && !strings.HasPrefix(key.PK, "tunnel-register#") {
			t.Errorf("item %s %s remains, want none", key.PK, key.SK)
		}
	}
}
