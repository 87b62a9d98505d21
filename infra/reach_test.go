package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/store"
)

// serves is the function that serves deployments, as it is declared.
func serves(t *testing.T) functions.Function {
	t.Helper()
	all := functions.Triggered()
	i := slices.IndexFunc(all, func(f functions.Function) bool { return f.Name == gateway })
	if i < 0 {
		t.Fatal("no function serves deployments")
	}
	return all[i]
}

// reaches are what each role is held to, by the policy's name: those of functions, and those of services by the stack's.
func reaches(s Settings) map[string]store.Reach {
	out := map[string]store.Reach{}
	for _, f := range declaredFunctions(s) {
		out[exported(f.name)+"Policy"] = f.reach
	}
	for _, of := range functions.Services() {
		out[of.Name+" TaskPolicy"] = of.Reach
	}
	return out
}

// TestEveryRoleIsHeldToItsReach, those of functions and those of tasks: every statement about items of the table has the
// condition, with the patterns of what is declared and no others, and what reads all of the table is declared to.
func TestEveryRoleIsHeldToItsReach(t *testing.T) {
	a := synthesise(t, serving(nil))
	declared := reaches(settingsFor(t, serving(nil)))
	held := map[string]int{}
	for file, stack := range a.stacks {
		for id, p := range stack.Resources {
			if p.Type != "AWS::IAM::Policy" {
				continue
			}
			if id == "TaskPolicy" {
				for _, of := range functions.Services() {
					if strings.Contains(file, stackOf(of)) {
						id = of.Name + " TaskPolicy"
					}
				}
			}
			list, _ := get(p.Properties, "PolicyDocument", "Statement").([]any)
			for _, statement := range list {
				if !slices.Contains(texts(get(statement, "Resource")), "${Table.Arn}") {
					continue
				}
				reach, known := declared[id]
				if !known {
					t.Errorf("%s of %s may do something with items of the table, and no declaration is known of it", id, file)
				}
				held[id]++
				heldTo(t, id, statement, reach)
			}
		}
	}
	for id, reach := range declared {
		if n := len(reach.Reads) + len(reach.Writes); (n > 0) != (held[id] > 0) {
			t.Errorf("%s reaches %d spaces, and has %d statements about items", id, n, held[id])
		}
	}
	for _, space := range serves(t).Reach.Writes {
		if slices.Contains([]store.Space{"key-hash", "buckets", "consumers", "deployment", "account", "credential", "account-keys"}, space) {
			t.Errorf("the gateway may write %s, which accounts have made", space)
		}
	}
}

// stackOf is what the nested stack of a service has in its name.
func stackOf(of functions.Service) string {
	if of.Beside {
		return exported(of.Name) + "Process"
	}
	return exported(of.Name)
}

// heldTo compares a statement about items with what is declared.
func heldTo(t *testing.T, id string, statement any, reach store.Reach) {
	t.Helper()
	actions := texts(get(statement, "Action"))
	if slices.Equal(actions, []string{"dynamodb:Scan"}) {
		if !reach.Scans {
			t.Errorf("%s may scan, and does not declare it", id)
		}
		return
	}
	spaces, kind := reach.Reads, readActions
	if !slices.Contains(kind, any(actions[0])) {
		spaces, kind = reach.Writes, writeActions
	}
	for _, a := range actions {
		if !slices.Contains(kind, any(a)) {
			t.Errorf("%s may %v, of which some read and some write, or IAM knows no partition", id, actions)
		}
	}
	var want []string
	for _, space := range spaces {
		want = append(want, space.Leading()...)
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(texts(get(statement, "Condition", "ForAllValues:StringLike", "dynamodb:LeadingKeys")))); !slices.Equal(got, want) {
		t.Errorf("%s may %v of %q, and reaches %q", id, actions, got, want)
	}
}

// TestWhoScansDeclaresIt: IAM knows no partition of a Scan, so that a condition on it would be true, or nobody could.
func TestWhoScansDeclaresIt(t *testing.T) {
	for _, f := range declaredFunctions(settingsFor(t, serving(nil))) {
		if scans := slices.Contains(f.uses, api.ScanTable); scans != f.reach.Scans {
			t.Errorf("%s uses a scan: %v, and reaches all: %v", f.name, scans, f.reach.Scans)
		}
		for _, use := range f.uses {
			for _, g := range grantsOf(use) {
				if g.on == theTable && use != api.ScanTable && !slices.Contains(append(slices.Clone(readActions), writeActions...), any(g.action)) {
					t.Errorf("%q needs %s, of which IAM knows no partition", use, g.action)
				}
			}
		}
	}
	for _, of := range functions.Services() {
		if of.Reach.Scans {
			t.Errorf("the service %s reads all of the table", of.Name)
		}
	}
}

// TestNothingIsGrantedAllItems: what a role would be held to is listed, or there is no template.
func TestNothingIsGrantedAllItems(t *testing.T) {
	some := store.Reach{Reads: []store.Space{"a"}, Writes: []store.Space{"a"}}
	for name, test := range map[string]struct {
		actions []any
		reach   store.Reach
	}{
		"a read by who lists nothing":              {[]any{"dynamodb:GetItem"}, store.Reach{}},
		"a write by who lists what it reads alone": {[]any{"dynamodb:PutItem"}, store.Reach{Reads: []store.Space{"a"}}},
		"a scan that is not declared":              {[]any{"dynamodb:Scan"}, some},
		"an action that nobody knows":              {[]any{"dynamodb:PartiQLSelect"}, some},
		"one beside a scan":                        {[]any{"dynamodb:DeleteTable", "dynamodb:Scan"}, some.And(store.Reach{Scans: true})},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is granted", name)
				}
			}()
			within(test.actions, test.reach, "table")
		}()
	}
}

// TestPoliciesFitARole: IAM takes 10,240 characters of a role's own policies, without white space.
func TestPoliciesFitARole(t *testing.T) {
	const most = 10_240
	for id, n := range policySizes(t, synthesise(t, serving(nil))) {
		if n > most*3/4 {
			t.Errorf("%s has %d characters of %d", id, n, most)
		}
	}
}

// policySizes are the characters of the policies of roles, with what CloudFormation fills in at its longest.
func policySizes(t *testing.T, a assembly) map[string]int {
	t.Helper()
	out := map[string]int{}
	for file, stack := range a.stacks {
		for id, r := range stack.Resources {
			if r.Type != "AWS::IAM::Policy" {
				continue
			}
			list, _ := get(r.Properties, "PolicyDocument", "Statement").([]any)
			n := len(`{"Version":"2012-10-17","Statement":[]}`)
			for _, s := range list {
				for _, field := range []string{"Action", "Resource"} {
					for _, text := range texts(get(s, field)) {
						n += len(text) + len(`"",`)
						pseudo := strings.Count(text, "${AWS::") // the partition, the region, the account
						n += pseudo * len("ap-southeast-1")
						n += (strings.Count(text, "${") - pseudo) * len("arn:aws:dynamodb:ap-southeast-1:123456789012:table/gatewright-production-Table-XXXXXXXXXXXXX")
					}
				}
				n += len(`{"Effect":"Allow","Action":[],"Resource":[]},`) + len(render(get(s, "Condition")))
			}
			out[strings.TrimSuffix(file, ".template.json")+" "+id] = n
		}
	}
	if len(out) < len(functions.Groups()) {
		t.Fatalf("%d policies", len(out))
	}
	return out
}
