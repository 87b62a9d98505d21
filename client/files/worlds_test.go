package files_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// dice make worlds and files.
type dice struct {
	*rand.Rand
	// pem are certificates of CAs by their names.
	pem map[string]string
}

func (d dice) some(p float64) bool { return d.Float64() < p }

func one[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// pool has the names that objects of a kind may have.
var pool = map[string][]string{
	"projects": {"shop", "blog", "mail"}, "environments": {"next", "old"}, "variables": {"URL", "TOKEN", "MODE"},
	"keyBuckets": {"partners", "inside", "shop-production", "mail-preview"}, "consumers": {"ada", "bob", "cid", "dan"}, "managers": {"ada@example.com", "Bea@example.com", "cid@example.com"},
	"keys": {"phone"}, "tunnels": {"office", "depot"}, "meteringBuckets": {"sold", "lent", "given"}, "plans": {"all", "pro", "gold"}, "subscriptions": {"first", "second"},
	"caCertificates": {"devices", "partners"}, "customDomains": {"api.example.com", "docs.example.com"},
}

// field is a value of a field, as the API takes it.
func (d dice) field(name string) any {
	object := func() any {
		return one(d, value([]byte(`{"plan":"gold"}`)), value([]byte(`{"plan":"free","team":"blue"}`)), value([]byte(`{"fromEnv":"SHOP_TOKEN"}`)), value([]byte(`{"null":"1e3","ä: #":"yes"}`)), value([]byte(`{}`)))
	}
	switch name {
	case "description":
		return one[any](d, reference("SHOP_TOKEN"), "of us", "two\nlines: \"quoted\" # none", "1e3", " 名 ", "null", "{fromEnv: X}")
	case "tags":
		return object()
	case "metadata":
		return one(d, object(), value([]byte(`{"big":12345678901234567890,"one":1.0,"e":1e3,"deep":{"b":[1,null,{"a":true}],"a":""}}`)), value([]byte(`{"one":1,"e":1000}`)))
	case "isRetrievable", "isSecret":
		return d.some(0.5)
	case "environmentType":
		return "preview"
	case "value":
		return one[any](d, "a", "https://a.example/?b=c#d", "true", "-")
	case "expiresOn":
		return one[any](d, "2099-01-01T00:00:00Z", "2099-01-01T01:00:00+01:00", "2098-05-05T05:05:05.5Z")
	case "services":
		return one(d, value([]byte(`[]`)), value([]byte(`[{"name":"stock","endpoint":"http://localhost:1","configurations":[]}]`)), value([]byte(`[{"name":"stock","endpoint":"http://localhost:2","configurations":[]},{"name":"other","endpoint":"http://localhost:3","configurations":[]}]`)))
	case "label":
		return one[any](d, "Pro", "Free")
	case "meters":
		return one(d, value([]byte(`{"requests":{"label":"R","max":9007199254740991}}`)), value([]byte(`{"requests":{"label":"R","max":10},"calls":{"label":"C","max":1}}`)))
	case "trialDays":
		return json.Number(one(d, "3", "14"))
	case "sub":
		return one[any](d, "s1", "s2", reference("SHOP_TOKEN"))
	case "region":
		return "us-east1"
	case "renewalStrategy":
		return "monthly"
	case "status":
		return one[any](d, "active", "past-due")
	case "type":
		return "periodic"
	default:
		return one[any](d, "x", "y")
	}
}

// needed are the fields without which none is made.
func needed(k *row, name string) bool {
	return k.member == "environments" || k.member == "variables" || k.member == "managers" || k.member == "plans" && name != "trialDays" || k.member == "subscriptions" && name != "metadata"
}

// made is an object with random fields, all that it needs among them.
func (d dice) made(k *row, name string) *node {
	n := &node{row: k, name: name, fields: map[string]any{}}
	for _, f := range k.fields {
		if needed(k, f) || d.some(0.5) {
			n.fields[f] = d.field(f)
		}
	}
	n.ownServices()
	if k.member == "caCertificates" {
		n.fields["certificate"] = d.pem[name]
	}
	return n
}

// ownServices has the services of a tunnel have names that no other one's have, which the API does not take.
func (n *node) ownServices() {
	if services, is := n.fields["services"]; is && services != nil {
		text, _ := json.Marshal(services)
		n.fields["services"] = value([]byte(strings.NewReplacer(`"name":"stock"`, `"name":"stock-`+n.name+`"`, `"name":"other"`, `"name":"other-`+n.name+`"`).Replace(string(text))))
	}
}

// populate makes objects by the API alone.
func (d dice) populate(p *product, kinds []*row, above map[string]any, p1 float64) {
	for _, k := range kinds {
		if k.member == "branches" {
			d.populate(p, k.below, with(above, "branchName", "main"), p1)
			continue
		}
		for i, name := range pool[k.member] {
			own := k.member == "plans" && i == 0 // which no other bucket has
			if own {
				name += fmt.Sprint(above["bucketId"])
			}
			if !own && !d.some(p1) || k.member == "keyBuckets" && strings.Contains(name, "-") {
				continue
			}
			n := d.made(k, name)
			arguments := maps.Clone(above)
			for f, v := range n.fields {
				arguments[f] = resolved(v)
			}
			services := arguments["services"]
			delete(arguments, "services")
			if arguments[k.key] = name; k.key == "" {
				delete(arguments, "")
			}
			if k.member == "keys" {
				k.create = "ApiKeyKeysService_create"
			}
			if k.member == "subscriptions" {
				plans := p.plans(above)
				if len(plans) == 0 {
					continue
				}
				arguments["planIds"], arguments["planExternalIds"] = []string{plans[0][0]}, []string{plans[0][1]}
			}
			made := p.ask(k.create, arguments)
			id := name
			if k.key == "" || k.member == "tunnels" || k.member == "plans" {
				id, _ = made["id"].(string)
			}
			if k.member == "tunnels" {
				id, _ = made["tunnelId"].(string)
				if !nothing(services) {
					p.ask("TunneledServicesService_putServiceConfiguration", map[string]any{"tunnelId": id, "version": 1, "services": services})
				}
			}
			if k.argument != "" {
				d.populate(p, k.below, with(above, k.argument, id), 0.5)
			}
		}
	}
}

// plans are those of a metering bucket, each with its id and its name.
func (p *product) plans(of map[string]any) (all [][2]string) {
	document, err := p.api.List(p.Context(), "MeteringPlansService_list", maps.Clone(of))
	if err != nil {
		p.Fatal(err)
	}
	var listed struct {
		Data []struct{ ID, PlanExternalID string }
	}
	_ = json.Unmarshal(document, &listed)
	for _, one := range listed.Data {
		all = append(all, [2]string{one.ID, one.PlanExternalID})
	}
	return all
}

// wanted makes files of a world: with some of its objects as they are, some changed, some left out, and new ones.
func (d dice) wanted(kinds []*row, world, into *node) {
	for _, k := range kinds {
		there := world.list(k.member)
		if k.member != "branches" && k.member != "plans" && d.some(0.2) {
			continue // the files know no such list
		}
		taken := map[string]bool{}
		for _, w := range there {
			taken[k.fold(w.name)] = true
			own := k.member == "plans" && strings.HasPrefix(w.name, "all") || k.member == "plans" && strings.HasPrefix(w.name, "an-")
			if d.some(0.3) && !own {
				continue
			}
			f := &node{row: k, name: w.name, fields: map[string]any{}}
			for _, name := range k.fields {
				v, set := w.fields[name]
				switch {
				case name == "value" && w.fields["isSecret"] == true:
					if d.some(0.5) {
						f.fields[name] = reference("SHOP_TOKEN")
					}
				case d.some(0.3):
				case has(k.fixed, name), name == "planExternalIds":
					if set && name != "isSecret" {
						f.fields[name] = v
					}
				case d.some(0.15) && !needed(k, name) && k.member != "keys":
					f.fields[name] = nil
				case d.some(0.5):
					f.fields[name] = d.field(name)
				case set:
					f.fields[name] = v
				}
			}
			if k.member == "variables" && w.fields["isSecret"] == true {
				f.fields["isSecret"] = true
			}
			f.ownServices()
			into.below = append(into.below, f)
			d.wanted(k.below, w, f)
		}
		for _, name := range pool[k.member] {
			if k.member == "plans" {
				name = "extra-" + into.name + "-" + name
			}
			if taken[k.fold(name)] || k.create == "" || !d.some(0.25) {
				continue
			}
			f := d.made(k, name)
			if k.member == "keyBuckets" && strings.Contains(name, "-") {
				continue
			}
			if k.member == "managers" && world.row == nil && d.some(0.5) {
				delete(f.fields, "sub") // an invite, which is made with its consumer
			}
			if k.member == "variables" && f.fields["isSecret"] == true {
				f.fields["value"] = reference("SHOP_TOKEN")
			}
			if k.member == "subscriptions" {
				plans := into.list("plans")
				if len(plans) == 0 {
					continue
				}
				f.fields["planExternalIds"] = []any{plans[0].name}
			}
			into.below = append(into.below, f)
			if k.member == "projects" {
				f.below = []*node{{row: k.below[1], name: "main"}}
				d.wanted(k.below[1].below, &node{}, f.below[0])
				continue
			}
			if k.member == "meteringBuckets" {
				f.below = []*node{d.made(k.below[0], "an-"+name)}
			}
			d.wanted(k.below, &node{}, f)
		}
		if k.remove != "" && d.some(0.4) && k.member != "plans" {
			into.complete = append(into.complete, k.member)
		}
		if k.member == "subscriptions" && has(into.complete, k.member) && !slices.ContainsFunc(into.list(k.member), func(s *node) bool {
			return world.list(k.member) != nil && slices.ContainsFunc(world.list(k.member), func(w *node) bool { return w.name == s.name })
		}) {
			into.complete = append(into.complete, "plans") // which no subscription needs that stays
		}
	}
}

// write writes files into a folder: in any order, over several files and documents.
func (d dice) write(t *testing.T, f *node) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range d.parts(f) {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, one(d, "a.yaml", "b.yml", "c.yaml"))
		before, _ := os.ReadFile(name)
		if err := os.WriteFile(name, fmt.Appendf(before, "--- # a part\n%s\n", text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// parts are documents that together have what is within an object.
func (d dice) parts(f *node) (parts []map[string]any) {
	parts = []map[string]any{{}}
	if len(f.complete) > 0 {
		parts[0]["complete"] = f.complete
	}
	shuffled := slices.Clone(f.below)
	d.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, b := range shuffled {
		object := map[string]any{cmpKey(b.row): b.name}
		maps.Copy(object, b.fields)
		within := d.parts(b)
		maps.Copy(object, within[0])
		d.put(&parts, b.row.member, object)
		for _, more := range within[1:] {
			more[cmpKey(b.row)] = b.name
			parts = append(parts, map[string]any{b.row.member: []any{more}})
		}
	}
	return parts
}

func (d dice) put(parts *[]map[string]any, member string, object map[string]any) {
	if d.some(0.2) {
		*parts = append(*parts, map[string]any{member: []any{object}})
		return
	}
	list, _ := (*parts)[0][member].([]any)
	(*parts)[0][member] = append(list, object)
}

func cmpKey(k *row) string {
	if k.key == "" {
		return "name"
	}
	return k.key
}

// lines are the changes of a plan as the oracle writes them.
func lines(p *files.Plan) (all []string) {
	show := func(v files.Value) string { return canon(value(v)) }
	for _, c := range p.Changes {
		var fields []string
		for _, f := range c.Fields {
			switch {
			case f.Secret:
				fields = append(fields, f.Name+": a secret")
			case c.Do == files.Update:
				fields = append(fields, f.Name+": "+show(f.Before)+" → "+show(f.After))
			default:
				fields = append(fields, f.Name+": "+show(f.After))
			}
		}
		slices.Sort(fields)
		for _, what := range slices.Sorted(maps.Keys(c.Goes)) {
			fields = append(fields, fmt.Sprintf("%s: %d", what, c.Goes[what]))
		}
		all = append(all, strings.TrimSpace(c.Do+" "+c.Kind+" "+strings.Join(c.Name, " ")+" "+strings.Join(fields, ", ")))
	}
	slices.Sort(all)
	return all
}

func (p *product) compared(dir string, prune bool) (*files.Plan, error) {
	read, err := files.Read(p.Context(), dir)
	if err != nil {
		return nil, err
	}
	return files.Compare(p.Context(), p.api, read, files.Options{Prune: prune, Getenv: anything, Now: p.Parts.Now, Installation: "a"})
}

func (p *product) applied(plan *files.Plan, path string) error {
	_, err := files.Apply(p.Context(), p.api, plan, files.Applying{Path: path, Getenv: anything, Now: p.Parts.Now, Sleep: p.sleep, Installation: "a"})
	return err
}

func (p *product) exported() string {
	p.Helper()
	e, err := files.Export(p.Context(), p.api, nil)
	if err != nil {
		p.Fatal(err)
	}
	text, err := e.YAML()
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// move makes another account be as an export has it, with the secrets that it names.
func (d dice) move(t *testing.T, export string, to *product) {
	t.Helper()
	name := written(t, export)
	if err := os.Mkdir(filepath.Join(filepath.Dir(name), "certificates"), 0o700); err != nil {
		t.Fatal(err)
	}
	for ca, pem := range d.pem {
		if err := os.WriteFile(filepath.Join(filepath.Dir(name), "certificates", ca+".pem"), []byte(pem), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := to.compared(name, true)
	if err != nil {
		t.Fatalf("elsewhere it is not planned: %s", told(err))
	}
	if err := to.applied(plan, ""); err != nil {
		t.Fatalf("elsewhere it is not applied: %v", err)
	}
	if again := to.exported(); again != export {
		t.Errorf("elsewhere it is\n%s\nof\n%s", again, export)
	}
}

// anything is an environment in which each variable is set.
func anything(name string) string { return cmp.Or(getenv(name), "x") }

func difference(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if other, there := got[name]; !there || other != want[name] {
			t.Errorf("%s: %s is (%v) %q, want %q", what, name, there, other, want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[name]; !there {
			t.Errorf("%s: %s is there: %q", what, name, got[name])
		}
	}
}

// TestPlansAreThoseOfTheOracle plays worlds and files at random against the product's own handlers: a plan is what the rules say, an apply makes
// that and nothing else, and then nothing is left to do.
func TestPlansAreThoseOfTheOracle(t *testing.T) {
	t.Parallel()
	first := newProduct(t)
	pem := map[string]string{}
	for _, name := range pool["caCertificates"] {
		pem[name] = pkitest.CA(t, name, first.Parts.Now()).PEM()
	}
	for seed := range simulations.Runs(25) {
		d := dice{rand.New(rand.NewPCG(uint64(seed), 16)), pem}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { d.play(t, first.copied(t), first.copied(t)) })
	}
}

func (d dice) play(t *testing.T, p, elsewhere *product) {
	t.Helper()
	d.populate(p, rows(), map[string]any{}, 0.4)
	world := p.world()
	export := p.exported()
	if again := p.exported(); again != export {
		t.Errorf("an export is\n%s\nand again\n%s", export, again)
	}
	if plan, err := p.compared(written(t, export), true); err != nil || len(plan.Changes) > 0 {
		t.Errorf("what is exported is not as it is: %s\n%v\n%s", told(err), plan, export)
	}
	d.move(t, export, elsewhere)
	f := &node{}
	d.wanted(rows(), world, f)
	dir, prune := d.write(t, f), d.some(0.5)
	want := expect(world, f, prune)
	plan, err := p.compared(dir, prune)
	if want.against {
		if err == nil || !strings.Contains(told(err), "--prune deletes") {
			t.Errorf("what goes with a project is planned: %s", told(err))
		}
		return
	}
	if err != nil {
		t.Fatalf("it is not planned: %s", told(err))
	}
	if got := lines(plan); !slices.Equal(got, want.lines) {
		t.Fatalf("the plan is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want.lines, "\n"))
	}
	difference(t, "a plan has changed", p.world().bytesOf(map[string]string{}, nil), world.bytesOf(map[string]string{}, nil))
	path := filepath.Join(t.TempDir(), "plan")
	if err := plan.Write(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := files.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.applied(loaded, path); err != nil {
		t.Fatalf("it is not applied: %v", err)
	}
	after := p.world()
	difference(t, "after it", after.told(map[string]string{}, nil), want.after.told(map[string]string{}, nil))
	has := after.bytesOf(map[string]string{}, nil)
	for name, raw := range world.bytesOf(map[string]string{}, nil) {
		_, at, _ := strings.Cut(name[strings.Index(name, " ")+1:], " ")
		if now, there := has[name]; there && now != raw && !want.touched[at] {
			t.Errorf("%s is not the files', and has become %s of %s", name, now, raw)
		}
	}
	if plan, err = p.compared(dir, prune); err != nil || len(plan.Changes) > 0 {
		t.Errorf("there is more to do: %s %v", told(err), plan)
	}
	if plan, err = p.compared(dir, true); err == nil && !prune && len(plan.Changes) != want.extra {
		t.Errorf("a drift has %d, want %d that complete lists do not name", len(plan.Changes), want.extra)
	}
	if err := p.applied(loaded, path); exit.Of(err) != exit.OK {
		t.Errorf("applied again, it ends with %v", err)
	}
}
