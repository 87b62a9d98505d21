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
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// populate creates random objects through the API.
func (g generator) populate(p *testProduct, kinds []*kindSpec, parentArguments map[string]any, probability float64) {
	for _, k := range kinds {
		if k.member == "branches" {
			g.populate(p, k.children, withArgument(parentArguments, "branchName", "main"), probability)
			continue
		}
		for i, name := range namePool[k.member] {
			isUnique := k.member == "plans" && i == 0 // no other bucket has this plan
			if isUnique {
				name += fmt.Sprint(parentArguments["bucketId"])
			}
			if !isUnique && !g.chance(probability) || k.member == "keyBuckets" && strings.Contains(name, "-") {
				continue
			}
			n := g.newObject(k, name)
			arguments := maps.Clone(parentArguments)
			for f, v := range n.fields {
				arguments[f] = resolveValue(v)
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
				plans := p.plans(parentArguments)
				if len(plans) == 0 {
					continue
				}
				arguments["planIds"], arguments["planExternalIds"] = []string{plans[0][0]}, []string{plans[0][1]}
			}
			created := p.call(k.create, arguments)
			id := name
			if k.key == "" || k.member == "tunnels" || k.member == "plans" {
				id, _ = created["id"].(string)
			}
			if k.member == "tunnels" {
				id, _ = created["tunnelId"].(string)
				if !isEmptyValue(services) {
					p.call("TunneledServicesService_putServiceConfiguration",
						map[string]any{"tunnelId": id, "version": 1, "services": services})
				}
			}
			if k.argument != "" {
				g.populate(p, k.children, withArgument(parentArguments, k.argument, id), 0.5)
			}
		}
	}
}

// plans returns the ID and the name of each plan of a metering bucket.
func (p *testProduct) plans(arguments map[string]any) (all [][2]string) {
	document, err := p.api.List(p.Context(), "MeteringPlansService_list", maps.Clone(arguments))
	if err != nil {
		p.Fatal(err)
	}
	var listed struct {
		Data []struct{ ID, PlanExternalID string }
	}
	_ = json.Unmarshal(document, &listed)
	for _, plan := range listed.Data {
		all = append(all, [2]string{plan.ID, plan.PlanExternalID})
	}
	return all
}

// modifiedObject returns an object of the account for files. Some of its fields are changed, and some are omitted.
func (g generator) modifiedObject(k *kindSpec, existing *node) *node {
	f := &node{kind: k, name: existing.name, fields: map[string]any{}}
	for _, name := range k.fields {
		v, set := existing.fields[name]
		switch {
		case name == "value" && existing.fields["isSecret"] == true:
			if g.chance(0.5) {
				f.fields[name] = envReference("SHOP_TOKEN")
			}
		case g.chance(0.3):
		case contains(k.immutable, name), name == "planExternalIds":
			if set && name != "isSecret" {
				f.fields[name] = v
			}
		case g.chance(0.15) && !isRequired(k, name) && k.member != "keys":
			f.fields[name] = nil
		case g.chance(0.5):
			f.fields[name] = g.field(name)
		case set:
			f.fields[name] = v
		}
	}
	if k.member == "variables" && existing.fields["isSecret"] == true {
		f.fields["isSecret"] = true
	}
	f.makeServiceNamesUnique()
	return f
}

// addedObject returns a new object for files, or nil if none is possible.
func (g generator) addedObject(k *kindSpec, name string, current, parent *node) *node {
	f := g.newObject(k, name)
	if k.member == "keyBuckets" && strings.Contains(name, "-") {
		return nil
	}
	if k.member == "managers" && current.kind == nil && g.chance(0.5) {
		delete(f.fields, "sub") // an invite, which the API creates with its consumer
	}
	if k.member == "variables" && f.fields["isSecret"] == true {
		f.fields["value"] = envReference("SHOP_TOKEN")
	}
	if k.member == "subscriptions" {
		plans := parent.list("plans")
		if len(plans) == 0 {
			return nil
		}
		f.fields["planExternalIds"] = []any{plans[0].name}
	}
	return f
}

// desiredFiles creates the objects of files from an account. Some objects are unchanged, some are changed, some are
// omitted, and some are new.
func (g generator) desiredFiles(kinds []*kindSpec, current, parent *node) {
	for _, k := range kinds {
		existing := current.list(k.member)
		if k.member != "branches" && k.member != "plans" && g.chance(0.2) {
			continue // the files do not have this list
		}
		used := map[string]bool{}
		for _, object := range existing {
			used[k.fold(object.name)] = true
			// The files keep the first plan of a metering bucket, which identifies the bucket.
			isUnique := k.member == "plans" && strings.HasPrefix(object.name, "all") || k.member == "plans" &&
				strings.HasPrefix(object.name, "an-")
			if g.chance(0.3) && !isUnique {
				continue
			}
			f := g.modifiedObject(k, object)
			parent.children = append(parent.children, f)
			g.desiredFiles(k.children, object, f)
		}
		for _, name := range namePool[k.member] {
			if k.member == "plans" {
				name = "extra-" + parent.name + "-" + name
			}
			if used[k.fold(name)] || k.create == "" || !g.chance(0.25) {
				continue
			}
			f := g.addedObject(k, name, current, parent)
			if f == nil {
				continue
			}
			parent.children = append(parent.children, f)
			if k.member == "projects" {
				f.children = []*node{{kind: k.children[1], name: "main"}}
				g.desiredFiles(k.children[1].children, &node{}, f.children[0])
				continue
			}
			if k.member == "meteringBuckets" {
				f.children = []*node{g.newObject(k.children[0], "an-"+name)}
			}
			g.desiredFiles(k.children, &node{}, f)
		}
		if k.deletable != "" && g.chance(0.4) && k.member != "plans" {
			parent.complete = append(parent.complete, k.member)
		}
		if k.member == "subscriptions" && contains(parent.complete, k.member) && !slices.ContainsFunc(parent.list(k.member),
			func(s *node) bool {
				return current.list(k.member) != nil && slices.ContainsFunc(current.list(k.member), func(object *node) bool {
					return object.name == s.name
				})
			}) {
			parent.complete = append(parent.complete, "plans") // no remaining subscription needs the other plans
		}
	}
}

// write writes the objects of files to a folder, in random order and spread over several files and documents.
func (g generator) write(t *testing.T, f *node) string {
	t.Helper()
	dir := t.TempDir()
	for _, part := range g.parts(f) {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, pick(g, "a.yaml", "b.yml", "c.yaml"))
		existing, _ := os.ReadFile(name)
		if err := os.WriteFile(name, fmt.Appendf(existing, "--- # a part\n%s\n", text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// parts returns documents that together contain the children of an object.
func (g generator) parts(f *node) (parts []map[string]any) {
	parts = []map[string]any{{}}
	if len(f.complete) > 0 {
		parts[0]["complete"] = f.complete
	}
	shuffled := slices.Clone(f.children)
	g.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, b := range shuffled {
		object := map[string]any{keyOf(b.kind): b.name}
		maps.Copy(object, b.fields)
		nested := g.parts(b)
		maps.Copy(object, nested[0])
		g.addPart(&parts, b.kind.member, object)
		for _, extra := range nested[1:] {
			extra[keyOf(b.kind)] = b.name
			parts = append(parts, map[string]any{b.kind.member: []any{extra}})
		}
	}
	return parts
}

func (g generator) addPart(parts *[]map[string]any, member string, object map[string]any) {
	if g.chance(0.2) {
		*parts = append(*parts, map[string]any{member: []any{object}})
		return
	}
	list, _ := (*parts)[0][member].([]any)
	(*parts)[0][member] = append(list, object)
}

func keyOf(k *kindSpec) string {
	if k.key == "" {
		return "name"
	}
	return k.key
}

// planLines returns the changes of a plan in the form of oracle.lines.
func planLines(p *files.Plan) (all []string) {
	show := func(v files.Value) string { return canonicalText(parseJSON(v)) }
	for _, c := range p.Changes {
		var fields []string
		for _, f := range c.Fields {
			switch {
			case f.Secret:
				fields = append(fields, f.Name+": a secret")
			case c.Action == files.Update:
				fields = append(fields, f.Name+": "+show(f.Before)+" → "+show(f.After))
			default:
				fields = append(fields, f.Name+": "+show(f.After))
			}
		}
		slices.Sort(fields)
		for _, kind := range slices.Sorted(maps.Keys(c.Dependents)) {
			fields = append(fields, fmt.Sprintf("%s: %d", kind, c.Dependents[kind]))
		}
		all = append(all, strings.TrimSpace(c.Action+" "+c.Kind+" "+strings.Join(c.Name, " ")+" "+strings.Join(fields, ", ")))
	}
	slices.Sort(all)
	return all
}

func (p *testProduct) compare(dir string, prune bool) (*files.Plan, error) {
	desired, err := files.Read(p.Context(), dir)
	if err != nil {
		return nil, err
	}
	return files.Compare(p.Context(), p.api, desired,
		files.Options{Prune: prune, Getenv: getenvOrDefault, Now: p.Parts.Now, Installation: "a"})
}

func (p *testProduct) apply(plan *files.Plan, path string) error {
	_, err := files.Apply(p.Context(), p.api, plan, files.ApplyOptions{
		Path: path, Getenv: getenvOrDefault,
		Now: p.Parts.Now, Sleep: p.sleep, Installation: "a",
	})
	return err
}

func (p *testProduct) export() string {
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

// checkMove applies an export and its secrets to another account, and checks that an export of that account is the
// same.
func (g generator) checkMove(t *testing.T, export string, target *testProduct) {
	t.Helper()
	name := writeTemp(t, export)
	if err := os.Mkdir(filepath.Join(filepath.Dir(name), "certificates"), 0o700); err != nil {
		t.Fatal(err)
	}
	for ca, pem := range g.pem {
		if err := os.WriteFile(filepath.Join(filepath.Dir(name), "certificates", ca+".pem"), []byte(pem), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := target.compare(name, true)
	if err != nil {
		t.Fatalf("Compare() with the other account: %s, want no error", errorText(err))
	}
	if err := target.apply(plan, ""); err != nil {
		t.Fatalf("Apply() to the other account: %v, want no error", err)
	}
	if reexported := target.export(); reexported != export {
		t.Errorf("Export() of the other account =\n%s\nwant\n%s", reexported, export)
	}
}

// getenvOrDefault returns "x" for a variable that testGetenv does not have.
func getenvOrDefault(name string) string { return cmp.Or(testGetenv(name), "x") }

func checkEqual(t *testing.T, description string, got, want map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if value, exists := got[name]; !exists || value != want[name] {
			t.Errorf("%s: %s = %q (exists: %t), want %q", description, name, value, exists, want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, exists := want[name]; !exists {
			t.Errorf("%s: %s = %q, want no such object", description, name, got[name])
		}
	}
}

// TestPlansMatchOracle checks plans for random accounts and random files, with the product's own handlers. A plan must
// equal the oracle's plan, an apply must make exactly these changes, and the next plan must be empty.
func TestPlansMatchOracle(t *testing.T) {
	t.Parallel()
	first := newProduct(t)
	pem := map[string]string{}
	for _, name := range namePool["caCertificates"] {
		pem[name] = pkitest.CA(t, name, first.Parts.Now()).PEM()
	}
	for seed := range simulations.Runs(25) {
		g := generator{rand.New(rand.NewPCG(uint64(seed), 16)), pem}
		t.Run(fmt.Sprint(seed), func(t *testing.T) { g.run(t, first.clone(t), first.clone(t)) })
	}
}

func (g generator) run(t *testing.T, p, target *testProduct) {
	t.Helper()
	g.populate(p, kindSpecs(), map[string]any{}, 0.4)
	current := p.snapshot()
	export := p.export()
	if reexported := p.export(); reexported != export {
		t.Errorf("two Export() =\n%s\nand\n%s\nwant the same", export, reexported)
	}
	if plan, err := p.compare(writeTemp(t, export), true); err != nil || len(plan.Changes) > 0 {
		t.Errorf("Compare() of an export = %v, %s, want no change:\n%s", plan, errorText(err), export)
	}
	g.checkMove(t, export, target)
	f := &node{}
	g.desiredFiles(kindSpecs(), current, f)
	dir, prune := g.write(t, f), g.chance(0.5)
	want := expect(current, f, prune)
	plan, err := p.compare(dir, prune)
	if want.conflicting {
		if err == nil || !strings.Contains(errorText(err), "--prune deletes") {
			t.Errorf("Compare() of files with objects of a deleted project: error = %s, want \"--prune deletes\"",
				errorText(err))
		}
		return
	}
	if err != nil {
		t.Fatalf("Compare() error = %s, want none", errorText(err))
	}
	if got := planLines(plan); !slices.Equal(got, want.lines) {
		t.Fatalf("Compare() plans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want.lines, "\n"))
	}
	checkEqual(t, "account after Compare()", p.snapshot().rawByLocation(map[string]string{}, nil),
		current.rawByLocation(map[string]string{}, nil))
	path := filepath.Join(t.TempDir(), "plan")
	if err := plan.Write(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := files.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.apply(loaded, path); err != nil {
		t.Fatalf("Apply() error = %v, want none", err)
	}
	after := p.snapshot()
	checkEqual(t, "account after Apply()", after.flatten(map[string]string{}, nil),
		want.after.flatten(map[string]string{}, nil))
	rawAfter := after.rawByLocation(map[string]string{}, nil)
	for name, raw := range current.rawByLocation(map[string]string{}, nil) {
		_, location, _ := strings.Cut(name[strings.Index(name, " ")+1:], " ")
		if value, exists := rawAfter[name]; exists && value != raw && !want.touched[location] {
			t.Errorf("%s, which the plan does not change, is %s after Apply(), want %s", name, value, raw)
		}
	}
	if plan, err = p.compare(dir, prune); err != nil || len(plan.Changes) > 0 {
		t.Errorf("Compare() after Apply() = %v, %s, want no change", plan, errorText(err))
	}
	if plan, err = p.compare(dir, true); err == nil && !prune && len(plan.Changes) != want.unlisted {
		t.Errorf("Compare() with Prune = %d changes, want %d deletions of unlisted objects", len(plan.Changes), want.unlisted)
	}
	if err := p.apply(loaded, path); exit.CodeOf(err) != exit.OK {
		t.Errorf("repeated Apply() error = %v, want none", err)
	}
}
