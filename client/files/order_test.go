package files_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// assignment has the names of the services of each tunnel.
type assignment map[string][]string

// randomAssignment assigns names to tunnels at random. Some names get no tunnel.
func randomAssignment(r *rand.Rand, tunnels, names []string) assignment {
	a := assignment{}
	for _, name := range names {
		if i := r.IntN(len(tunnels) + 1); i < len(tunnels) {
			a[tunnels[i]] = append(a[tunnels[i]], name)
		}
	}
	return a
}

// toYAML returns files with these tunnels and their services, in random order.
func (a assignment) toYAML(r *rand.Rand, tunnels []string) string {
	list := []any{}
	for _, i := range r.Perm(len(tunnels)) {
		services := []any{}
		for _, name := range a[tunnels[i]] {
			services = append(services, map[string]any{
				"name": name, "endpoint": "http://localhost:1",
				"configurations": []any{},
			})
		}
		list = append(list, map[string]any{"name": tunnels[i], "services": services})
	}
	text, _ := json.Marshal(map[string]any{"complete": []string{"tunnels"}, "tunnels": list})
	return string(text)
}

// canReach reports whether tunnels can change from their current to the wanted names with one change each. It makes
// every change that no other tunnel blocks, until no change remains or all remaining changes block each other.
func (a assignment) canReach(want assignment, tunnels []string) bool {
	remaining, current := slices.Clone(tunnels), assignment{}
	for _, t := range tunnels {
		current[t] = a[t]
	}
	for len(remaining) > 0 {
		i := slices.IndexFunc(remaining, func(t string) bool {
			for _, name := range want[t] {
				for other, owned := range current {
					if other != t && slices.Contains(owned, name) {
						return false
					}
				}
			}
			return true
		})
		if i < 0 {
			return false
		}
		current[remaining[i]] = want[remaining[i]]
		remaining = slices.Delete(remaining, i, i+1)
	}
	return true
}

// TestServiceNamesMoveBetweenTunnels moves services at random, also from deleted to new tunnels. It uses the product's
// own handlers, which allow a name in only one tunnel. Moves that need one change per tunnel must be planned and
// applied. All other moves must be reported.
func TestServiceNamesMoveBetweenTunnels(t *testing.T) {
	t.Parallel()
	first := newProduct(t)
	all, names := []string{"attic", "depot", "office", "plant"}, []string{"a-box", "b-box", "c-box", "d-box", "e-box"}
	planned, refused := 0, 0
	runs := simulations.Runs(60)
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 17))
		p := first.clone(t)
		kept := [][]string{all[1:], all[:3]}[seed%2] // delete the first tunnel and create the last, or neither
		before, after := randomAssignment(r, all[:3], names), randomAssignment(r, kept, names)
		apply := func(a assignment, tunnels []string) error {
			plan, err := p.compare(writeTemp(t, a.toYAML(r, tunnels)), true)
			if err != nil {
				return err
			}
			path := filepath.Join(t.TempDir(), fmt.Sprint(seed, len(tunnels), tunnels[0]))
			if err := plan.Write(path); err != nil {
				t.Fatal(err)
			}
			if err := p.apply(plan, path); err != nil {
				t.Fatalf("seed %d: Apply() from %v to %v: error = %v, want none", seed, before, a, err)
			}
			return nil
		}
		if err := apply(before, all[:3]); err != nil {
			t.Fatal(errorText(err))
		}
		err := apply(after, kept)
		if reachable := before.canReach(after, all); reachable != (err == nil) {
			t.Fatalf("seed %d: Apply() from %v to %v: error = %q, want none: %t",
				seed, before, after, errorText(err), reachable)
		}
		if err != nil {
			if !strings.Contains(errorText(err), "neither can be first") {
				t.Errorf("seed %d: Apply() error = %q, want \"neither can be first\"", seed, errorText(err))
			}
			refused++
			continue
		}
		planned++
		if plan, err := p.compare(writeTemp(t, after.toYAML(r, kept)), true); err != nil || len(plan.Changes) > 0 {
			t.Errorf("seed %d: Compare() after Apply() = %v %s, want no change", seed, plan, errorText(err))
		}
	}
	if runs >= 60 && (planned < 30 || refused < 5) {
		t.Errorf("%d seeds are planned and %d refused, want at least 30 and 5", planned, refused)
	}
}

// TestServiceNameInTwoTunnelsIsRefused checks that Compare reports a service name that two tunnels in the files have:
// the API would refuse it while the plan is applied.
func TestServiceNameInTwoTunnelsIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "here")
	service := `services: [{name: stock-box, endpoint: "http://localhost:1", configurations: []}]`
	mustApply(t, f, "tunnels: [{name: office, "+service+"}]")
	_, err := compare(t.Context(), f,
		writeTemp(t, "tunnels:\n  - {name: depot, "+service+"}\n  - {name: office, "+service+"}\n"), files.Options{})
	want := "3:30: stock-box is to be of the tunnel depot too, and is one tunnel's alone: leave it out of " +
		"one of them.\n"
	if err == nil || errorText(err) != want {
		t.Errorf("Compare() error = %q, want %q", errorText(err), want)
	}
}

// TestServiceNameOfUnchangedTunnelIsRefused checks that a tunnel cannot get a service name of a tunnel that the plan
// does not change: the files omit the other tunnel or its services, or it is not pruned. It can get the name if the
// plan removes the name from the other tunnel. If no tunnel gets a new name, no other tunnel may be read.
func TestServiceNameOfUnchangedTunnelIsRefused(t *testing.T) {
	t.Parallel()
	const stock, crane = `{name: stock-box, endpoint: "http://localhost:1", configurations: []}`,
		`{name: crane, endpoint: "http://localhost:1", configurations: []}`
	first := newProduct(t)
	initial, err := first.compare(writeTemp(t, "tunnels: [{name: attic}, {name: depot, services: ["+
		crane+"]}, {name: office, services: ["+stock+"]}]"), false)
	if err != nil {
		t.Fatal(errorText(err))
	}
	if err := first.apply(initial, ""); err != nil {
		t.Fatal(err)
	}
	const takenMessage = "stock-box is of the tunnel office, and is one tunnel's alone: name that tunnel without it"
	for name, tt := range map[string]struct {
		text  string
		prune bool
		want  string
	}{
		"tunnel left out": {"tunnels: [{name: depot, services: [" + crane + ", " + stock + "]}]", true, takenMessage},
		"tunnel without services": {
			"tunnels: [{name: depot, services: [" + stock + "]}, {name: office}]", true,
			takenMessage,
		},
		"not pruned": {
			"complete: [tunnels]\ntunnels: [{name: barn, services: [" + stock + "]}]", false,
			takenMessage,
		},
		"pruned": {"complete: [tunnels]\ntunnels: [{name: barn, services: [" + stock + "]}]", true, ""},
		"service removed from the other tunnel": {
			"tunnels: [{name: depot, services: [" + stock + "]}, {name: office, services: []}]",
			false, "",
		},
		"unused name": {"tunnels: [{name: depot, services: [" + crane + ", " + strings.ReplaceAll(stock, "stock",
			"new") + "]}]", false, ""},
		"name twice in one tunnel": {
			"tunnels: [{name: attic, services: [" + strings.Join([]string{stock, crane, stock},
				", ") + "]}, {name: office, services: []}, {name: depot, services: []}]", false,
			"stock-box stands twice in the services of the tunnel attic",
		},
		"names swapped between tunnels": {
			"tunnels: [{name: depot, services: [" + stock + ", " + strings.ReplaceAll(stock, "stock",
				"new") + "]}, {name: office, services: [" + crane + "]}]", false,
			"The tunnel depot takes stock-box from one that takes a name of its own",
		},
	} {
		p := first.clone(t)
		plan, err := p.compare(writeTemp(t, tt.text), tt.prune)
		if got := errorText(err); (err == nil) != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: Compare() error = %q, want %q", name, got, tt.want)
		}
		if err != nil {
			continue
		}
		if err := p.apply(plan, ""); err != nil {
			t.Errorf("%s: Apply() error = %v, want none", name, err)
		}
	}
	f := newFakeAPI(t, "here")
	mustApply(t, f, "tunnels: [{name: depot, services: ["+crane+"]}, {name: office, services: ["+stock+"]}]")
	f.calls = nil
	mustCompare(t, f, "tunnels: [{name: depot, services: ["+strings.ReplaceAll(crane, "localhost", "crane")+"]}]",
		files.Options{})
	if n := len(f.calls); n != 2 {
		t.Errorf("Compare() with a changed endpoint sends %d requests %q, want 2", n, f.calls)
	}
}

// hidingAPI returns NotFound for one operation, and an empty list of deployments.
type hidingAPI struct {
	*fakeAPI
	operation string
}

func (a *hidingAPI) Call(ctx context.Context, name string, arguments map[string]any) (*call.Response, error) {
	switch name {
	case a.operation:
		return nil, newProblem(http.StatusNotFound, exit.NotFound)
	case "DeploymentsService_list": // deployments are not a kind of files
		return ok(map[string]any{"data": []any{}, "total": 0}), nil
	}
	return a.fakeAPI.Call(ctx, name, arguments)
}

// TestCompareToleratesMissingObjects checks that Compare ignores the service names of a tunnel that was deleted after
// the list was read. It also checks a project whose buckets the key cannot see: the number of its consumers must be
// unknown.
func TestCompareToleratesMissingObjects(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "here")
	mustApply(t, f, "projects: [{name: shop}]\ntunnels: [{name: depot}]")
	plan := func(operation, text string) *files.Plan {
		desired, err := files.Read(t.Context(), writeTemp(t, text))
		if err != nil {
			t.Fatal(errorText(err))
		}
		p, err := files.Compare(t.Context(), &hidingAPI{f, operation}, desired,
			files.Options{Prune: true, Getenv: testGetenv, Now: testNow})
		if err != nil {
			t.Fatal(errorText(err))
		}
		return p
	}
	if p := plan("TunneledServicesService_getServiceConfiguration",
		`tunnels: [{name: barn, services: [{name: stock-box, endpoint: "http://localhost:1", configurations: []}]}]`); len(
		p.Changes) != 2 {
		t.Errorf("Compare() with another tunnel that is missing = %+v, want 2 changes", p.Changes)
	}
	if p := plan("ApiKeyConsumersService_list", "complete: [projects]"); len(p.Changes) != 1 ||
		p.Changes[0].Dependents["consumers"] != -1 {
		t.Errorf("Compare() with consumers that cannot be listed = %+v, want one change with -1 consumers", p.Changes)
	}
}

// TestCompareToleratesDeletions deletes each object of an account before each request of a comparison. The files
// contain the object, omit it, or prune it. Compare must succeed, or return the error that the object was deleted.
func TestCompareToleratesDeletions(t *testing.T) {
	t.Parallel()
	const (
		soldBucket  = `{name: sold, plans: [{planExternalId: pro, label: Pro, meters: {requests: {max: MAX}}}]}`
		otherBucket = `{name: more, plans: [{planExternalId: big, label: Big, meters: {requests: {max: 10}}}, ` +
			`{planExternalId: small, label: Small, meters: {requests: {max: 1}}}]}`
		base = `tunnels: [{name: depot, services: [{name: stock-box, endpoint: "http://localhost:MAX", configurations: []}]}]
projects: [{name: shop, branches: [{name: main, variables: [{name: URL, isSecret: false, value: v-MAX}]}]}]
keyBuckets: [{name: partners, description: of MAX, consumers: [{name: ada, tags: {team: t-MAX}}]}]
meteringBuckets: [` + soldBucket
	)
	account := strings.NewReplacer("MAX", "10", "projects: [", "projects: [{name: old-shop}, ", "keyBuckets: [",
		"keyBuckets: [{name: old-partners, consumers: [{name: bob}]}, ", "tunnels: [",
		"tunnels: [{name: barn}, ").Replace(base) + ", " + otherBucket + "]"
	f := newFakeAPI(t, "here")
	mustApply(t, f, account)
	objects, succeeded, conflicts := slices.Clone(f.objects), 0, 0
	for _, text := range []string{
		strings.ReplaceAll(base, "MAX", "10") + "]", strings.ReplaceAll(base, "MAX", "11") + "]",
		"complete: [tunnels, projects, keyBuckets, meteringBuckets]\n" + strings.ReplaceAll(base, "MAX", "11") + "]",
	} {
		desired, err := files.Read(t.Context(), writeTemp(t, text))
		if err != nil {
			t.Fatal(errorText(err))
		}
		for _, target := range objects {
			for n, calls := 1, 1; n <= calls; n++ { // until the object is deleted after the last request
				f.objects, f.calls = slices.Clone(objects), nil
				f.onCall = func(request int, after bool) error {
					if request == n && !after {
						f.remove(target)
					}
					return nil
				}
				_, err := files.Compare(t.Context(), &hidingAPI{fakeAPI: f}, desired,
					files.Options{Prune: true, Getenv: testGetenv, Now: testNow})
				calls = len(f.calls)
				_, isProblem := errors.AsType[*call.Problem](err)
				switch {
				case err == nil:
					succeeded++
				case isProblem:
					t.Errorf("%s %s deleted before request %d: error = %s, want no problem of the API",
						target.kind.Singular, target.id, n, errorText(err))
				case exit.CodeOf(err) == exit.Conflict &&
					strings.Contains(errorText(err), "went while it was compared: plan again"):
					conflicts++
				default:
					t.Errorf("%s %s deleted before request %d of %s: error = %s, want none or code %d and \"plan again\"",
						target.kind.Singular, target.id, n, text, errorText(err), exit.Conflict)
				}
			}
		}
	}
	if t.Logf("%d comparisons, %d of which say that something went", succeeded+conflicts, conflicts); conflicts == 0 {
		t.Error("no comparison ends with a conflict, want at least one")
	}
}

// TestPrunedProjectCountsConsumers checks that the plan counts the consumers of exactly the buckets that are deleted
// with the project. The number of its variables must be unknown.
func TestPrunedProjectCountsConsumers(t *testing.T) {
	t.Parallel()
	p := newProduct(t)
	for _, project := range []string{"shop", "shop-new"} {
		p.call("ProjectsService_create", map[string]any{"name": project})
	}
	for _, bucket := range []string{"shop-production", "shop-preview", "shop-working-copy", "shop-new-preview"} {
		p.call("ApiKeyConsumersService_create", map[string]any{"bucketName": bucket, "name": "acme"})
	}
	p.call("ApiKeyConsumersService_create", map[string]any{"bucketName": "shop-production", "name": "more"})
	plan, err := p.compare(writeTemp(t, "complete: [projects]\nprojects: [{name: shop-new}]\n"), true)
	if err != nil {
		t.Fatal(errorText(err))
	}
	if len(plan.Changes) != 1 || plan.Changes[0].Dependents["consumers"] != 4 ||
		plan.Changes[0].Dependents["variables"] != -1 {
		t.Errorf("Compare() = %+v, want one change with 4 consumers and -1 variables", plan.Changes)
	}
}

// TestObjectOfPrunedProjectIsRefused checks that Compare reports objects that would be changed, and then deleted with
// their project: the account could never match the files.
func TestObjectOfPrunedProjectIsRefused(t *testing.T) {
	t.Parallel()
	p := newProduct(t)
	p.call("ProjectsService_create", map[string]any{"name": "shop"})
	for text, want := range map[string]string{
		"keyBuckets:\n  - {name: shop-production, description: of us}\n": "3:12: The key bucket shop-production goes with " +
			"the project shop",
		"tunnels:\n  - name: office\n    services: [{name: stock-box, endpoint: \"http://localhost:1\", configurations: " +
			"[{project: shop, accessibleBy: " +
			"[production]}]}]\n": "4:15: services[0] of the tunnel office is for the project shop",
	} {
		if _, err := p.compare(writeTemp(t, "complete: [projects]\n"+text), false); err != nil {
			t.Errorf("Compare() without --prune: error = %s, want none", errorText(err))
		}
		if _, err := p.compare(writeTemp(t, "complete: [projects]\nprojects: [{name: shop}]\n"+text), true); err != nil {
			t.Errorf("Compare() with the project in the files: error = %s, want none", errorText(err))
		}
		if _, err := p.compare(writeTemp(t, "complete: [projects]\n"+text), true); err == nil ||
			!strings.HasPrefix(errorText(err), want) || !strings.Contains(errorText(err), "--prune deletes") {
			t.Errorf("Compare() with --prune: error = %q, want %q and \"--prune deletes\"", errorText(err), want)
		}
	}
}
