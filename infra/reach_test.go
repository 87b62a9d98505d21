package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
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

// TestTheGatewaysRoleIsHeldToItsReach, that of the function and that of the tasks: every statement about items of the table has the
// condition, and none has more than is declared.
func TestTheGatewaysRoleIsHeldToItsReach(t *testing.T) {
	a := synthesise(t, serving(nil))
	reach := serves(t).Reach
	held := 0
	policies := map[string]resource{"GatewayPolicy": a.find("GatewayPolicy")}
	for file, stack := range a.stacks {
		if strings.Contains(file, "GatewayProcess") {
			policies["TaskPolicy"] = stack.Resources["TaskPolicy"]
		}
	}
	for id, p := range policies {
		list, _ := get(p.Properties, "PolicyDocument", "Statement").([]any)
		for _, s := range list {
			if !slices.Contains(texts(get(s, "Resource")), "${Table.Arn}") {
				continue
			}
			patterns := texts(get(s, "Condition", "ForAllValues:StringLike", "dynamodb:LeadingKeys"))
			held++
			want := reach.Reads
			if slices.Contains(texts(get(s, "Action")), "dynamodb:PutItem") {
				want = reach.Writes
			}
			if len(patterns) != 2*len(want) {
				t.Errorf("%s holds %v to %q", id, get(s, "Action"), patterns)
			}
			for _, space := range want {
				for _, pattern := range space.Leading() {
					if !slices.Contains(patterns, pattern) {
						t.Errorf("%s does not allow %s of %s", id, get(s, "Action"), pattern)
					}
				}
			}
		}
	}
	if held != 4 { // what is read, and what is written, of both
		t.Errorf("%d statements of the gateway's roles are held to spaces", held)
	}
	for _, space := range reach.Writes {
		if slices.Contains([]store.Space{"key-hash", "buckets", "consumers", "deployment", "account", "credential", "account-keys"}, space) {
			t.Errorf("the gateway may write %s, which accounts have made", space)
		}
	}
}

// TestWhoIsHeldToSpacesScansNothing: IAM knows no partition of a Scan, and a condition on it would be true.
func TestWhoIsHeldToSpacesScansNothing(t *testing.T) {
	for _, use := range serves(t).Uses {
		for _, g := range grantsOf(use) {
			if g.on == theTable && !slices.Contains(append(slices.Clone(readActions), writeActions...), any(g.action)) {
				t.Errorf("%q needs %s, of which IAM knows no partition", use, g.action)
			}
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a Scan is held to spaces")
		}
	}()
	within([]any{"dynamodb:Scan"}, serves(t).Reach, "table")
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
						n += strings.Count(text, "${") * len("arn:aws:dynamodb:ap-southeast-1:123456789012:table/gatewright-production-Table-XXXXXXXXXXXXX")
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
