package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestFunctionsThatUnwrapTheRootKeyAreDocumented checks that docs/security.md names exactly the functions whose role
// may unwrap the root key.
func TestFunctionsThatUnwrapTheRootKeyAreDocumented(t *testing.T) {
	var names []string
	for _, f := range functionSpecs(settingsFor(t, fullContext())) {
		if slices.ContainsFunc(uniqueGrants(f.uses), func(g grant) bool { return g.action == "kms:Decrypt" }) {
			names = append(names, "`"+f.name+"`")
		}
	}
	slices.Sort(names)
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "**Which functions can unwrap it:** " + strings.Join(names, ", ") + "."; !strings.Contains(string(page),
		want) {
		t.Errorf("docs/security.md lacks a line, want %q", want)
	}
}
