package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestFunctionsThatUnwrapTheRootKeyAreDocumented: docs/security.md names each function whose role may unwrap the root key, and no other.
func TestFunctionsThatUnwrapTheRootKeyAreDocumented(t *testing.T) {
	var names []string
	for _, f := range declaredFunctions(settingsFor(t, everything())) {
		if slices.ContainsFunc(union(f.uses), func(g grant) bool { return g.action == "kms:Decrypt" }) {
			names = append(names, "`"+f.name+"`")
		}
	}
	slices.Sort(names)
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "**Which functions can unwrap it:** " + strings.Join(names, ", ") + "."; !strings.Contains(string(page), want) {
		t.Errorf("docs/security.md does not say %q", want)
	}
}
