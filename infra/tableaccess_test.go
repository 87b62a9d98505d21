package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// gatewayFunction returns the declaration of the function that serves deployments.
func gatewayFunction(t *testing.T) functions.Function {
	t.Helper()
	all := functions.Triggered()
	i := slices.IndexFunc(all, func(f functions.Function) bool { return f.Name == gateway })
	if i < 0 {
		t.Fatal("no function serves deployments, want the gateway")
	}
	return all[i]
}

// tableAccessByPolicy returns the declared table access of each function and service, by the name of its policy.
func tableAccessByPolicy(s Settings) map[string]store.TableAccess {
	out := map[string]store.TableAccess{}
	for _, f := range functionSpecs(s) {
		out[logicalID(f.name)+"Policy"] = f.access
	}
	for _, svc := range functions.Services() {
		out[svc.Name+" TaskPolicy"] = svc.TableAccess
	}
	return out
}

// TestEveryRoleIsLimitedToItsTableAccess checks the roles of functions and of tasks. Every statement about items of the
// table must have a condition with exactly the declared key patterns. Only roles that declare a scan can scan the
// table. The gateway writes no entity that accounts create.
func TestEveryRoleIsLimitedToItsTableAccess(t *testing.T) {
	a := synthesize(t, servicesContext(nil))
	limits := tableAccessByPolicy(settingsFor(t, servicesContext(nil)))
	counts := map[string]int{}
	for file, stack := range a.stacks {
		for id, p := range stack.Resources {
			if p.Type != "AWS::IAM::Policy" {
				continue
			}
			if id == "TaskPolicy" {
				for _, svc := range functions.Services() {
					if strings.Contains(file, serviceStackName(svc)) {
						id = svc.Name + " TaskPolicy"
					}
				}
			}
			statements, _ := get(p.Properties, "PolicyDocument", "Statement").([]any)
			for _, statement := range statements {
				if !slices.Contains(texts(get(statement, "Resource")), "${Table.Arn}") {
					continue
				}
				access, ok := limits[id]
				if !ok {
					t.Errorf("%s of %s accesses items of the table, want a declaration of its table access", id, file)
				}
				counts[id]++
				checkTableAccess(t, id, statement, access)
			}
		}
	}
	for id, access := range limits {
		if n := len(access.Reads) + len(access.Writes); (n > 0) != (counts[id] > 0) {
			t.Errorf("%s declares %d key prefixes and has %d statements about items, want both or none", id, n, counts[id])
		}
	}
	for _, prefix := range gatewayFunction(t).TableAccess.Writes {
		if slices.Contains([]store.KeyPrefix{
			"key-hash", "buckets", "consumers", "deployment", "account", "credential",
			"account-keys",
		}, prefix) {
			t.Errorf("the gateway may write %s, want no write to entities that accounts create", prefix)
		}
	}
}

// serviceStackName returns the part of a nested stack's name that identifies a service.
func serviceStackName(svc functions.Service) string {
	if svc.AlsoFunction {
		return logicalID(svc.Name) + "Process"
	}
	return logicalID(svc.Name)
}

// checkTableAccess compares a statement about items with the declaration.
func checkTableAccess(t *testing.T, id string, statement any, access store.TableAccess) {
	t.Helper()
	actions := texts(get(statement, "Action"))
	if slices.Equal(actions, []string{"dynamodb:Scan"}) {
		if !access.Scans {
			t.Errorf("%s may scan the table, want this declared", id)
		}
		return
	}
	prefixes, allowed := access.Reads, readActions
	if !slices.Contains(allowed, any(actions[0])) {
		prefixes, allowed = access.Writes, writeActions
	}
	for _, a := range actions {
		if !slices.Contains(allowed, any(a)) {
			t.Errorf("%s may %v, want only reads or only writes that IAM can limit to key prefixes", id, actions)
		}
	}
	var want []string
	for _, prefix := range prefixes {
		want = append(want, prefix.LeadingKeyPatterns()...)
	}
	slices.Sort(want)
	got := slices.Sorted(
		slices.Values(texts(get(statement, "Condition", "ForAllValues:StringLike", "dynamodb:LeadingKeys"))))
	if !slices.Equal(got, want) {
		t.Errorf("%s may %v of the key prefixes %q, want %q", id, actions, got, want)
	}
}

// TestScansAreDeclared checks that exactly the functions that use a scan declare it, and that no service declares a
// scan. A condition cannot limit a scan, because a scan has no partition key. For everything else that a function uses,
// IAM must be able to limit the actions on the table to key prefixes.
func TestScansAreDeclared(t *testing.T) {
	for _, f := range functionSpecs(settingsFor(t, servicesContext(nil))) {
		if scans := slices.Contains(f.uses, api.ScanTable); scans != f.access.Scans {
			t.Errorf("%s uses a scan: %v, declares it: %v, want the same", f.name, scans, f.access.Scans)
		}
		for _, use := range f.uses {
			for _, g := range grantsOf(use) {
				if g.target == targetTable && use != api.ScanTable &&
					!slices.Contains(append(slices.Clone(readActions), writeActions...), any(g.action)) {
					t.Errorf("%q needs %s, want an action that IAM can limit to key prefixes", use, g.action)
				}
			}
		}
	}
	for _, svc := range functions.Services() {
		if svc.TableAccess.Scans {
			t.Errorf("the service %s declares a scan of the table, want none", svc.Name)
		}
	}
}

// TestUndeclaredTableAccessPanics checks that no template is created if a role accesses items without declared key
// prefixes. The same holds for an undeclared scan, for an unknown action, and for a scan with any other action.
func TestUndeclaredTableAccessPanics(t *testing.T) {
	declared := store.TableAccess{Reads: []store.KeyPrefix{"a"}, Writes: []store.KeyPrefix{"a"}}
	for name, test := range map[string]struct {
		actions []any
		access  store.TableAccess
	}{
		"read without declared keys": {[]any{"dynamodb:GetItem"}, store.TableAccess{}},
		"write with only declared reads": {
			[]any{"dynamodb:PutItem"},
			store.TableAccess{Reads: []store.KeyPrefix{"a"}},
		},
		"undeclared scan": {[]any{"dynamodb:Scan"}, declared},
		"unknown action":  {[]any{"dynamodb:PartiQLSelect"}, declared},
		"another action with a scan": {
			[]any{"dynamodb:DeleteTable", "dynamodb:Scan"},
			declared.Union(store.TableAccess{Scans: true}),
		},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("tableStatements(%s) does not panic, want a panic", name)
				}
			}()
			tableStatements(test.actions, test.access, "table")
		}()
	}
}

// TestPoliciesFitIntoARole checks that each policy has at most three quarters of IAM's limit: 10,240 characters for the
// inline policies of a role, without white space.
func TestPoliciesFitIntoARole(t *testing.T) {
	const maxCharacters = 10_240
	for id, n := range policySizes(t, synthesize(t, servicesContext(nil))) {
		if n > maxCharacters*3/4 {
			t.Errorf("policy of %s has %d characters, want at most three quarters of %d", id, n, maxCharacters)
		}
	}
}

// policySizes returns the number of characters in the policies of roles. It assumes long values for the references that
// CloudFormation resolves.
func policySizes(t *testing.T, a assembly) map[string]int {
	t.Helper()
	out := map[string]int{}
	for file, stack := range a.stacks {
		for id, r := range stack.Resources {
			if r.Type != "AWS::IAM::Policy" {
				continue
			}
			statements, _ := get(r.Properties, "PolicyDocument", "Statement").([]any)
			n := len(`{"Version":"2012-10-17","Statement":[]}`)
			for _, s := range statements {
				for _, field := range []string{"Action", "Resource"} {
					for _, text := range texts(get(s, field)) {
						n += len(text) + len(`"",`)
						pseudo := strings.Count(text, "${AWS::") // the partition, the region, the account
						n += pseudo * len("ap-southeast-1")
						n += (strings.Count(text, "${") - pseudo) * len(
							"arn:aws:dynamodb:ap-southeast-1:123456789012:table/gatewright-production-Table-XXXXXXXXXXXXX")
					}
				}
				n += len(`{"Effect":"Allow","Action":[],"Resource":[]},`) + len(render(get(s, "Condition")))
			}
			out[strings.TrimSuffix(file, ".template.json")+" "+id] = n
		}
	}
	if len(out) < len(functions.Groups()) {
		t.Fatalf("the templates have %d policies, want at least %d", len(out), len(functions.Groups()))
	}
	return out
}
