package tunnels_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnels"
)

func TestEndpointsAreAddressesOfServices(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
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
		_, err := w.Configure(w.request(), acme, made.ID, []tunnels.Spec{service("stock", endpoint)})
		if want == "" && err != nil || want != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "services[0].endpoint: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", endpoint, err, want)
		}
	}
}

// TestNoServiceIsTheRelay: its requests would come back to the relay, and as an agent's
// neighbour's at that.
func TestNoServiceIsTheRelay(t *testing.T) {
	w := newWorld(t)
	w.parts.Config.Relay = "https://relay.example.com"
	w.Service = tunnels.Open(w.parts)
	made := w.create(acme, "office")
	for endpoint, want := range map[string]bool{
		"https://relay.example.com": true, "https://RELAY.example.com:443/ask": true,
		"https://stock.example.com": false, "https://relay.example.com:8443": false,
	} {
		_, err := w.Configure(w.request(), acme, made.ID, []tunnels.Spec{service("stock", endpoint)})
		if refused := fault.Is(err, fault.Invalid) && strings.Contains(err.Error(), "services[0].endpoint: is the address of the relay"); refused != want {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// many are services that an account may have, from a number on.
func many(from, n int) (out []tunnels.Spec) {
	for i := range n {
		out = append(out, service(fmt.Sprintf("service-%04d", from+i), "http://localhost"))
	}
	return out
}

func TestConfigurationsAreRefusedBeforeAnythingIsBegun(t *testing.T) {
	named := func(projects ...string) []tunnels.Spec {
		s := tunnels.Spec{Name: "stock", Endpoint: "http://a"}
		for _, p := range projects {
			s.Configurations = append(s.Configurations, tunnels.Configuration{Project: p})
		}
		return []tunnels.Spec{s}
	}
	kinds := func(kinds ...environment.Kind) []tunnels.Spec {
		return []tunnels.Spec{{Name: "stock", Endpoint: "http://a", Configurations: []tunnels.Configuration{{Project: "shop", AccessibleBy: kinds}}}}
	}
	var wide, broad []tunnels.Spec
	for i, s := range many(0, 51) {
		s.Configurations = []tunnels.Configuration{{Project: fmt.Sprintf("project-%d", i)}}
		wide = append(wide, s)
		s.Configurations = nil
		for j := range 20 {
			s.Configurations = append(s.Configurations, tunnels.Configuration{Project: fmt.Sprintf("project-%d", j)})
		}
		broad = append(broad, s)
	}
	for _, tt := range []struct {
		name     string
		services []tunnels.Spec
		kind     fault.Kind
		want     string
	}{
		{"more than it may have", many(0, 101), fault.Invalid, "services: a tunnel has at most 100"},
		{"a thousand", many(0, 1000), fault.Invalid, "services: a tunnel has at most 100"},
		{"a name that is none", []tunnels.Spec{service("a b c", "http://a")}, fault.Invalid, "services[0].name: has to be 3 to 24"},
		{"no name", []tunnels.Spec{service("", "http://a")}, fault.Invalid, "services[0].name: has to be 3 to 24"},
		{"a name twice", []tunnels.Spec{service("stock", "http://a"), service("other", "http://a"), service("stock", "http://b")}, fault.Invalid, "services[2].name: is the name of services[0] too"},
		{"a name of another tunnel's", []tunnels.Spec{service("mine", "http://a"), service("taken", "http://a")}, fault.Conflict, "of these names: taken."},
		{"a project that is not there", named("shop", "nope"), fault.Invalid, "services[0].configurations[1].project: the account has no such project"},
		{"a project of another account", named("theirs"), fault.Invalid, "services[0].configurations[0].project"},
		{"no project", named(""), fault.Invalid, "services[0].configurations[0].project: has to be the name"},
		{"a project twice", named("shop", "blog", "shop"), fault.Invalid, "services[0].configurations[2].project: is named twice"},
		{"a long project", named(strings.Repeat("p", 64)), fault.Invalid, "services[0].configurations[0].project: has to be the name"},
		{"a kind that is none", kinds("staging"), fault.Invalid, "services[0].configurations[0].accessibleBy[0]: has to be working-copy"},
		{"a kind twice", kinds(environment.Preview, environment.Production, environment.Preview), fault.Invalid, "accessibleBy[2]: is there twice"},
		{"many projects", wide, fault.Invalid, "more than 50 projects"},
		{"many configurations", broad, fault.Invalid, "more than 1000 configurations"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			other, made := w.create(acme, "other"), w.create(acme, "office")
			w.configure(other.ID, service("taken", "http://a"))
			before := w.items.Items()
			_, err := w.Configure(w.request(), acme, made.ID, tt.services)
			faulttest.Want(t, err, tt.kind, tt.want)
			if !maps.EqualFunc(before, w.items.Items(), store.EqualItems) {
				t.Error("something has changed")
			}
		})
	}
}

// TestAccountHasNoMoreServicesThanItMay, and their names are bound to nobody that has left them.
func TestAccountHasNoMoreServicesThanItMay(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for n := range int(limits.TunnelServices.Default) / tunnels.MaxServices {
		made := w.create(acme, fmt.Sprintf("tunnel-%d", n))
		w.configure(made.ID, many(n*tunnels.MaxServices, tunnels.MaxServices)...)
		ids = append(ids, made.ID)
	}
	more := w.create(acme, "one-more")
	_, err := w.Configure(w.request(), acme, more.ID, many(5000, 1))
	faulttest.Want(t, err, fault.Forbidden, "its limit tunnel-services is 1000")
	w.configure(ids[0], many(0, tunnels.MaxServices-1)...)
	w.configure(more.ID, many(5000, 1)...)
}

// TestAccountOverItsLimitTakesServicesAway, and puts none in their place.
func TestAccountOverItsLimitTakesServicesAway(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	w.configure(made.ID, many(0, 5)...)
	if err := counts.Open(w.parts).Set(w.request(), acme.AccountID, limits.TunnelServices, 2); err != nil {
		t.Fatal(err)
	}
	_, err := w.Configure(w.request(), acme, made.ID, many(0, 6))
	faulttest.Want(t, err, fault.Forbidden, "The account has 5 services behind tunnels, and its limit tunnel-services is 2.")
	w.configure(made.ID, many(0, 4)...)
	w.configure(made.ID, many(0, 1)...)
	w.configure(made.ID, many(0, 2)...)
	_, err = w.Configure(w.request(), acme, made.ID, many(0, 3))
	faulttest.Want(t, err, fault.Forbidden, "its limit tunnel-services is 2.")
}

// TestLargestConfigurationIsProvisioned: what may be put fits the table.
func TestLargestConfigurationIsProvisioned(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	var writes []store.Write
	project := func(i int) string { return fmt.Sprintf("%s-%02d", strings.Repeat("p", 60), i) }
	for i := range tunnels.MaxProjects {
		writes = append(writes, store.Put(store.ProjectKey("a-1", project(i)), map[string]string{"id": project(i)}))
	}
	if err := w.parts.Table.Commit(t.Context(), writes...); err != nil {
		t.Fatal(err)
	}
	var services []tunnels.Spec
	for i := range tunnels.MaxServices {
		s := tunnels.Spec{Name: fmt.Sprintf("service-%s-%03d", strings.Repeat("s", 12), i), Endpoint: "http://" + strings.Repeat("a", tunnels.MaxEndpointBytes-7)}
		for j := range tunnels.MaxConfigurations / tunnels.MaxServices {
			s.Configurations = append(s.Configurations, tunnels.Configuration{Project: project((i + j) % tunnels.MaxProjects), AccessibleBy: environment.Kinds()})
		}
		services = append(services, s)
	}
	over := slices.Clone(services)
	over[0].Configurations = append(slices.Clone(over[0].Configurations), tunnels.Configuration{Project: project(20)})
	_, err := w.Configure(w.request(), acme, made.ID, over)
	faulttest.Want(t, err, fault.Invalid, "more than 1000 configurations")
	if r := w.run(w.configure(made.ID, services...).ID); r.Status != operation.Success {
		t.Errorf("it has come to %+v", r)
	}
	found, err := w.Provisioned(t.Context(), "a-1")
	if err != nil || len(found) != tunnels.MaxServices {
		t.Errorf("%d services are there, %v", len(found), err)
	}
}

// TestWhatDiffersIsProvisionedAndNothingElse: services that stay are not written.
func TestWhatDiffersIsProvisionedAndNothingElse(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	w.run(w.configure(made.ID, service("kept", "http://a"), service("changed", "http://a"), service("removed", "http://a")).ID)
	before := w.items.Items()
	r := w.run(w.configure(made.ID, service("added", "http://a"), service("changed", "http://b"), service("kept", "http://a")).ID)
	if r.Status != operation.Success || r.Message != "The tunnel's services are as configured." {
		t.Errorf("it has come to %+v", r)
	}
	w.wantThere("added of "+made.ID+" at http://a for shop", "changed of "+made.ID+" at http://b for shop", "kept of "+made.ID+" at http://a for shop")
	var touched []string
	after := w.items.Items()
	for key := range after {
		if strings.HasPrefix(key.PK, "tunnel-service#") && !store.EqualItems(before[key], after[key]) {
			touched = append(touched, key.SK)
		}
	}
	slices.Sort(touched)
	if !slices.Equal(touched, []string{"added", "changed"}) {
		t.Errorf("written were %q", touched)
	}
	want := []string{"added", "changed", "kept"} // in the order in which they were put
	if got, err := w.Configured(t.Context(), acme, made.ID); err != nil || len(got) != 3 || got[0].Name != want[0] || got[1].Name != want[1] || got[2].Name != want[2] {
		t.Errorf("configured are %+v, %v", got, err)
	}
	w.wantClaims(made.ID, want...)
}

// TestSameConfigurationAgainChangesNothing: while it is provisioned, the operation that does it is
// answered, so that none takes the place of another; afterwards one that is over.
func TestSameConfigurationAgainChangesNothing(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	if none := w.configure(made.ID); none.Status != operation.Success {
		t.Errorf("no services of none are %+v", none)
	}
	first := w.configure(made.ID, service("orders", "http://a"))
	if again := w.configure(made.ID, service("orders", "http://a")); again != first {
		t.Errorf("again it is %+v, want %+v", again, first)
	}
	if r := w.run(first.ID); r.Status != operation.Success {
		t.Errorf("it has come to %+v", r)
	}
	before := w.items.Items()
	again := w.configure(made.ID, service("orders", "http://a"))
	if read, err := w.Provisioning(t.Context(), acme, made.ID, again.ID); again.ID == first.ID || again.Status != operation.Success || err != nil || read != again {
		t.Errorf("again it is %+v, read as %+v, %v", again, read, err)
	}
	for key, item := range w.items.Items() {
		if strings.HasPrefix(key.PK, "tunnel") && !store.EqualItems(item, before[key]) {
			t.Errorf("%s %s has changed", key.PK, key.SK)
		}
	}
	// Another order is shown as it was put, and is another configuration of the same services.
	w.run(w.configure(made.ID, service("orders", "http://a"), service("stock", "http://a")).ID)
	if turned := w.configure(made.ID, service("stock", "http://a"), service("orders", "http://a")); turned.Status != operation.InProgress {
		t.Errorf("another order is %+v", turned)
	}
	if got, err := w.Configured(t.Context(), acme, made.ID); err != nil || got[0].Name != "stock" {
		t.Errorf("configured are %+v, %v", got, err)
	}
}

// TestLaterConfigurationTakesThePlace of one that is not provisioned yet, whose operation says so and
// changes nothing any more.
func TestLaterConfigurationTakesThePlace(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	first := w.configure(made.ID, service("early", "http://a"))
	second := w.configure(made.ID, service("late", "http://a"))
	r := w.run(first.ID)
	if r.Status != operation.Failure || !strings.Contains(r.Message, second.ID) {
		t.Errorf("the first has come to %+v", r)
	}
	w.wantThere()
	if r := w.run(second.ID); r.Status != operation.Success {
		t.Errorf("the second has come to %+v", r)
	}
	w.wantThere("late of " + made.ID + " at http://a for shop")
}

// TestNamesAreFreeAtOnce: those of services that are left out, and of a tunnel that is deleted, with all
// its services; who takes them has them, whichever operation comes first.
func TestNamesAreFreeAtOnce(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		for _, oldFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("deleted: %v, the old one's operation first: %v", deleted, oldFirst), func(t *testing.T) {
				w := newWorld(t)
				old := w.create(acme, "office")
				w.run(w.configure(old.ID, service("orders", "http://a"), service("stock", "http://a")).ID)
				name := "office-2"
				var left tunnels.Operation
				if deleted {
					var err error
					if left, err = w.Delete(w.request(), acme, old.ID); err != nil {
						t.Fatal(err)
					}
					name = "office"
				} else {
					left = w.configure(old.ID)
				}
				made := w.create(acme, name)
				taken := w.configure(made.ID, service("orders", "http://b"))
				order := []string{taken.ID, left.ID}
				if oldFirst {
					slices.Reverse(order)
				}
				for _, id := range order {
					if r := w.run(id); r.Status != operation.Success {
						t.Errorf("it has come to %+v", r)
					}
				}
				w.wantThere("orders of " + made.ID + " at http://b for shop")
				w.wantClaims(old.ID)
				w.wantClaims(made.ID, "orders")
			})
		}
	}
}

// TestNothingIsProvisionedForADeletedTunnel: an operation that comes too late says so.
func TestNothingIsProvisionedForADeletedTunnel(t *testing.T) {
	w := newWorld(t)
	made := w.create(acme, "office")
	put := w.configure(made.ID, service("orders", "http://a"))
	gone, err := w.Delete(w.request(), acme, made.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.run(gone.ID)
	if r := w.run(put.ID); r.Status != operation.Failure || !strings.Contains(r.Message, "was deleted") {
		t.Errorf("it has come to %+v", r)
	}
	w.wantThere()
	for key := range w.items.Items() {
		if strings.HasPrefix(key.PK, "tunnel") && !strings.HasPrefix(key.PK, "tunnel-register#") {
			t.Errorf("%s %s is left", key.PK, key.SK)
		}
	}
}
