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
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// holdings are the names of the services that each tunnel has.
type holdings map[string][]string

// at draws who has which names; nobody has some.
func at(r *rand.Rand, tunnels, names []string) holdings {
	h := holdings{}
	for _, name := range names {
		if i := r.IntN(len(tunnels) + 1); i < len(tunnels) {
			h[tunnels[i]] = append(h[tunnels[i]], name)
		}
	}
	return h
}

// file has the tunnels as files have them, in an order of their own.
func (h holdings) file(r *rand.Rand, tunnels []string) string {
	list := []any{}
	for _, i := range r.Perm(len(tunnels)) {
		services := []any{}
		for _, name := range h[tunnels[i]] {
			services = append(services, map[string]any{"name": name, "endpoint": "http://localhost:1", "configurations": []any{}})
		}
		list = append(list, map[string]any{"name": tunnels[i], "services": services})
	}
	text, _ := json.Marshal(map[string]any{"complete": []string{"tunnels"}, "tunnels": list})
	return string(text)
}

// reaches reports whether tunnels can come from what they have to what they are to have, each by one change: it makes those that nobody is in
// the way of, until none is left or all are in each other's.
func (h holdings) reaches(want holdings, tunnels []string) bool {
	left, now := slices.Clone(tunnels), holdings{}
	for _, t := range tunnels {
		now[t] = h[t]
	}
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(t string) bool {
			for _, name := range want[t] {
				for other, has := range now {
					if other != t && slices.Contains(has, name) {
						return false
					}
				}
			}
			return true
		})
		if i < 0 {
			return false
		}
		now[left[i]] = want[left[i]]
		left = slices.Delete(left, i, i+1)
	}
	return true
}

// TestNamesMoveBetweenTunnels moves services at random, out of tunnels that are deleted and into new ones too, against the product's own
// handlers, which let a name be one tunnel's alone: what can be done by a change for each tunnel is planned and applied, and all else is told.
func TestNamesMoveBetweenTunnels(t *testing.T) {
	t.Parallel()
	first := newProduct(t)
	all, names := []string{"attic", "depot", "office", "plant"}, []string{"a-box", "b-box", "c-box", "d-box", "e-box"}
	planned, refused := 0, 0
	runs := simulations.Runs(60)
	for seed := range runs {
		r := rand.New(rand.NewPCG(uint64(seed), 17))
		p := first.copied(t)
		stay := [][]string{all[1:], all[:3]}[seed%2] // the first is deleted and the last is made, or neither
		before, after := at(r, all[:3], names), at(r, stay, names)
		apply := func(h holdings, tunnels []string) error {
			plan, err := p.compared(written(t, h.file(r, tunnels)), true)
			if err != nil {
				return err
			}
			path := filepath.Join(t.TempDir(), fmt.Sprint(seed, len(tunnels), tunnels[0]))
			if err := plan.Write(path); err != nil {
				t.Fatal(err)
			}
			if err := p.applied(plan, path); err != nil {
				t.Fatalf("%d: from %v to %v it ends with %v", seed, before, h, err)
			}
			return nil
		}
		if err := apply(before, all[:3]); err != nil {
			t.Fatal(told(err))
		}
		err := apply(after, stay)
		if can := before.reaches(after, all); can != (err == nil) {
			t.Fatalf("%d: from %v to %v can be done: %v; it is told %q", seed, before, after, can, told(err))
		}
		if err != nil {
			if !strings.Contains(told(err), "neither can be first") {
				t.Errorf("%d: it is told as %q", seed, told(err))
			}
			refused++
			continue
		}
		planned++
		if plan, err := p.compared(written(t, after.file(r, stay)), true); err != nil || len(plan.Changes) > 0 {
			t.Errorf("%d: there is more to do: %v %s", seed, plan, told(err))
		}
	}
	if runs >= 60 && (planned < 30 || refused < 5) {
		t.Errorf("%d are planned and %d refused: the dice are loaded", planned, refused)
	}
}

// TestNameOfTwoTunnelsIsTold: the API would refuse it in the middle of an apply.
func TestNameOfTwoTunnelsIsTold(t *testing.T) {
	t.Parallel()
	f := newFake(t, "here")
	service := `services: [{name: stock-box, endpoint: "http://localhost:1", configurations: []}]`
	applied(t, f, "tunnels: [{name: office, "+service+"}]")
	_, err := compare(t.Context(), f, written(t, "tunnels:\n  - {name: depot, "+service+"}\n  - {name: office, "+service+"}\n"), files.Options{})
	if want := "3:30: stock-box is to be of the tunnel depot too, and is one tunnel's alone: leave it out of one of them.\n"; err == nil || told(err) != want {
		t.Errorf("it is told as %q, want %q", told(err), want)
	}
}

// TestNameOfATunnelThatStaysIsTold, whether files leave it out, or its services, or nobody prunes it. No other tunnel is asked for where no
// name is taken.
func TestNameOfATunnelThatStaysIsTold(t *testing.T) {
	t.Parallel()
	const stock, crane = `{name: stock-box, endpoint: "http://localhost:1", configurations: []}`, `{name: crane, endpoint: "http://localhost:1", configurations: []}`
	first := newProduct(t)
	begin, err := first.compared(written(t, "tunnels: [{name: attic}, {name: depot, services: ["+crane+"]}, {name: office, services: ["+stock+"]}]"), false)
	if err != nil {
		t.Fatal(told(err))
	}
	if err := first.applied(begin, ""); err != nil {
		t.Fatal(err)
	}
	const taken = "stock-box is of the tunnel office, and is one tunnel's alone: name that tunnel without it"
	for name, tt := range map[string]struct {
		text  string
		prune bool
		want  string
	}{
		"left out":                {"tunnels: [{name: depot, services: [" + crane + ", " + stock + "]}]", true, taken},
		"without its services":    {"tunnels: [{name: depot, services: [" + stock + "]}, {name: office}]", true, taken},
		"not pruned":              {"complete: [tunnels]\ntunnels: [{name: barn, services: [" + stock + "]}]", false, taken},
		"pruned":                  {"complete: [tunnels]\ntunnels: [{name: barn, services: [" + stock + "]}]", true, ""},
		"given up":                {"tunnels: [{name: depot, services: [" + stock + "]}, {name: office, services: []}]", false, ""},
		"of nobody":               {"tunnels: [{name: depot, services: [" + crane + ", " + strings.ReplaceAll(stock, "stock", "new") + "]}]", false, ""},
		"twice":                   {"tunnels: [{name: attic, services: [" + strings.Join([]string{stock, crane, stock}, ", ") + "]}, {name: office, services: []}, {name: depot, services: []}]", false, "stock-box stands twice in the services of the tunnel attic"},
		"from each other, and on": {"tunnels: [{name: depot, services: [" + stock + ", " + strings.ReplaceAll(stock, "stock", "new") + "]}, {name: office, services: [" + crane + "]}]", false, "The tunnel depot takes stock-box from one that takes a name of its own"},
	} {
		p := first.copied(t)
		plan, err := p.compared(written(t, tt.text), tt.prune)
		if got := told(err); (err == nil) != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: it is told as %q, want %q", name, got, tt.want)
		}
		if err != nil {
			continue
		}
		if err := p.applied(plan, ""); err != nil {
			t.Errorf("%s: it is planned, and ends with %v", name, err)
		}
	}
	f := newFake(t, "here")
	applied(t, f, "tunnels: [{name: depot, services: ["+crane+"]}, {name: office, services: ["+stock+"]}]")
	f.asked = nil
	compared(t, f, "tunnels: [{name: depot, services: ["+strings.ReplaceAll(crane, "localhost", "crane")+"]}]", files.Options{})
	if n := len(f.asked); n != 2 {
		t.Errorf("an endpoint that changes has %d requests be made: %q", n, f.asked)
	}
}

// blind finds nothing by one operation, and no deployments.
type blind struct {
	*fake
	operation string
}

func (b *blind) Named(ctx context.Context, name string, arguments map[string]any) (*call.Answer, error) {
	switch name {
	case b.operation:
		return nil, problem(http.StatusNotFound, exit.NotFound)
	case "DeploymentsService_list": // which are no kind of files
		return ok(map[string]any{"data": []any{}, "total": 0}), nil
	}
	return b.fake.Named(ctx, name, arguments)
}

// TestWhatIsNotFoundWhileItIsComparedEndsNothing: a tunnel that goes has no names, and of buckets that a key does not see all consumers go.
func TestWhatIsNotFoundWhileItIsComparedEndsNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t, "here")
	applied(t, f, "projects: [{name: shop}]\ntunnels: [{name: depot}]")
	plan := func(operation, text string) *files.Plan {
		read, err := files.Read(t.Context(), written(t, text))
		if err != nil {
			t.Fatal(told(err))
		}
		p, err := files.Compare(t.Context(), &blind{f, operation}, read, files.Options{Prune: true, Getenv: getenv, Now: now})
		if err != nil {
			t.Fatal(told(err))
		}
		return p
	}
	if p := plan("TunneledServicesService_getServiceConfiguration", `tunnels: [{name: barn, services: [{name: stock-box, endpoint: "http://localhost:1", configurations: []}]}]`); len(p.Changes) != 2 {
		t.Errorf("it is planned as %+v", p.Changes)
	}
	if p := plan("ApiKeyConsumersService_list", "complete: [projects]"); len(p.Changes) != 1 || p.Changes[0].Goes["consumers"] != -1 {
		t.Errorf("it is planned as %+v", p.Changes)
	}
}

// TestWhatGoesWhileItIsComparedEndsNothing has each object of an account be deleted before each request of a comparison, whether files name it,
// leave it be or prune it: it is planned as though it had never been there, or as before, and of what files name it is said that it went.
func TestWhatGoesWhileItIsComparedEndsNothing(t *testing.T) {
	t.Parallel()
	const (
		sold = `{name: sold, plans: [{planExternalId: pro, label: Pro, meters: {requests: {max: MAX}}}]}`
		more = `{name: more, plans: [{planExternalId: big, label: Big, meters: {requests: {max: 10}}}, {planExternalId: small, label: Small, meters: {requests: {max: 1}}}]}`
		one  = `tunnels: [{name: depot, services: [{name: stock-box, endpoint: "http://localhost:MAX", configurations: []}]}]
projects: [{name: shop, branches: [{name: main, variables: [{name: URL, isSecret: false, value: v-MAX}]}]}]
keyBuckets: [{name: partners, description: of MAX, consumers: [{name: ada, tags: {team: t-MAX}}]}]
meteringBuckets: [` + sold
	)
	world := strings.NewReplacer("MAX", "10", "projects: [", "projects: [{name: old-shop}, ", "keyBuckets: [", "keyBuckets: [{name: old-partners, consumers: [{name: bob}]}, ", "tunnels: [", "tunnels: [{name: barn}, ").Replace(one) + ", " + more + "]"
	f := newFake(t, "here")
	applied(t, f, world)
	objects, went, conflicts := slices.Clone(f.objects), 0, 0
	for _, text := range []string{
		strings.ReplaceAll(one, "MAX", "10") + "]", strings.ReplaceAll(one, "MAX", "11") + "]",
		"complete: [tunnels, projects, keyBuckets, meteringBuckets]\n" + strings.ReplaceAll(one, "MAX", "11") + "]",
	} {
		wanted, err := files.Read(t.Context(), written(t, text))
		if err != nil {
			t.Fatal(told(err))
		}
		for _, gone := range objects {
			for n, asked := 1, 1; n <= asked; n++ { // until it goes after the last request
				f.objects, f.asked = slices.Clone(objects), nil
				f.fails = func(request int, after bool) error {
					if request == n && !after {
						f.remove(gone)
					}
					return nil
				}
				_, err := files.Compare(t.Context(), &blind{fake: f}, wanted, files.Options{Prune: true, Getenv: getenv, Now: now})
				asked = len(f.asked)
				_, read := errors.AsType[*call.Problem](err)
				switch {
				case err == nil:
					went++
				case read:
					t.Errorf("%s %s goes before request %d, and a program reads a problem of the API: %s", gone.kind.One, gone.id, n, told(err))
				case exit.Of(err) == exit.Conflict && strings.Contains(told(err), "went while it was compared: plan again"):
					conflicts++
				default:
					t.Errorf("%s %s goes before request %d of %s: %s", gone.kind.One, gone.id, n, text, told(err))
				}
			}
		}
	}
	if t.Logf("%d comparisons, %d of which say that something went", went+conflicts, conflicts); conflicts == 0 {
		t.Error("nothing went while it was compared")
	}
}

// TestConsumersOfAPrunedProjectAreCounted, of each of the buckets that go with it, and none of another's; its variables are told, which nobody counts.
func TestConsumersOfAPrunedProjectAreCounted(t *testing.T) {
	t.Parallel()
	p := newProduct(t)
	for _, project := range []string{"shop", "shop-new"} {
		p.ask("ProjectsService_create", map[string]any{"name": project})
	}
	for _, bucket := range []string{"shop-production", "shop-preview", "shop-working-copy", "shop-new-preview"} {
		p.ask("ApiKeyConsumersService_create", map[string]any{"bucketName": bucket, "name": "acme"})
	}
	p.ask("ApiKeyConsumersService_create", map[string]any{"bucketName": "shop-production", "name": "more"})
	plan, err := p.compared(written(t, "complete: [projects]\nprojects: [{name: shop-new}]\n"), true)
	if err != nil {
		t.Fatal(told(err))
	}
	if len(plan.Changes) != 1 || plan.Changes[0].Goes["consumers"] != 4 || plan.Changes[0].Goes["variables"] != -1 {
		t.Errorf("it is planned as %+v", plan.Changes)
	}
}

// TestWhatGoesWithAProjectThatIsPrunedIsTold: it would be changed, and gone with its project, and never be as the files want it.
func TestWhatGoesWithAProjectThatIsPrunedIsTold(t *testing.T) {
	t.Parallel()
	p := newProduct(t)
	p.ask("ProjectsService_create", map[string]any{"name": "shop"})
	for text, want := range map[string]string{
		"keyBuckets:\n  - {name: shop-production, description: of us}\n": "3:12: The key bucket shop-production goes with the project shop",
		"tunnels:\n  - name: office\n    services: [{name: stock-box, endpoint: \"http://localhost:1\", configurations: [{project: shop, accessibleBy: [production]}]}]\n": "4:15: services[0] of the tunnel office is for the project shop",
	} {
		if _, err := p.compared(written(t, "complete: [projects]\n"+text), false); err != nil {
			t.Errorf("without --prune it is told: %s", told(err))
		}
		if _, err := p.compared(written(t, "complete: [projects]\nprojects: [{name: shop}]\n"+text), true); err != nil {
			t.Errorf("with its project it is told: %s", told(err))
		}
		if _, err := p.compared(written(t, "complete: [projects]\n"+text), true); err == nil || !strings.HasPrefix(told(err), want) || !strings.Contains(told(err), "--prune deletes") {
			t.Errorf("it is told as %q, want %q", told(err), want)
		}
	}
}
