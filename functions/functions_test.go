package functions_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
)

// TestOperationsAreListed shows a review what a change does to the surface of
// the product.
func TestOperationsAreListed(t *testing.T) {
	var out strings.Builder
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			scope := string(d.Scope)
			switch {
			case d.Public:
				scope = "public"
			case scope == "":
				scope = "any key"
			}
			audit := string(d.Audit)
			if audit == "" {
				audit = "-"
			}
			fmt.Fprintf(&out, "%-13s %-42s %-6s %-90s %d  %-20s %s\n", g.Name, d.ID, d.Method, d.Path, d.Status, scope, audit)
		}
	}
	golden.Equal(t, "operations.txt", out.String())
}

func TestOpenAPIDocumentIsUpToDate(t *testing.T) {
	document, err := api.Document(functions.Described())
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "platform/openapi.json", document)
}

func TestOperationsAreUnique(t *testing.T) {
	ids, routes := map[string]bool{}, map[string]bool{}
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			if ids[d.ID] {
				t.Errorf("two operations have the id %s", d.ID)
			}
			if r := d.Method + " " + d.Path; routes[r] {
				t.Errorf("two operations answer %s", r)
			} else {
				routes[r] = true
			}
			ids[d.ID] = true
		}
	}
}

// TestEveryOperationIsBound keeps a declared operation from having no answer.
func TestEveryOperationIsBound(t *testing.T) {
	for _, g := range functions.Groups() {
		var declared, bound []string
		for _, d := range g.Declarations() {
			declared = append(declared, d.ID)
		}
		for _, r := range g.Bind(functions.Services{}) {
			bound = append(bound, r.ID)
		}
		slices.Sort(declared)
		slices.Sort(bound)
		if !slices.Equal(declared, bound) {
			t.Errorf("group %s declares %v and binds %v", g.Name, declared, bound)
		}
	}
}

func TestEveryChangeNeedsAWriteScope(t *testing.T) {
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			if d.Public {
				continue
			}
			if writes := strings.HasSuffix(string(d.Scope), ":write"); writes != d.Mutates() {
				t.Errorf("%s has the scope %q and the audit action %q: one says that it changes something, the other that it does not", d.ID, d.Scope, d.Audit)
			}
		}
	}
}
