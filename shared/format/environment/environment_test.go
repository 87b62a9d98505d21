package environment_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// TestSpellings checks the table of contract 3.10.
func TestSpellings(t *testing.T) {
	for _, c := range []struct {
		kind        environment.Kind
		upper, slug string
	}{
		{environment.Production, "PRODUCTION", "production"},
		{environment.Preview, "PREVIEW", "preview"},
		{environment.Development, "WORKING_COPY", "working-copy"},
	} {
		if c.kind.Upper() != c.upper || c.kind.Slug() != c.slug {
			t.Errorf("%s: Upper() = %s, Slug() = %s, want %s, %s", c.kind, c.kind.Upper(), c.kind.Slug(), c.upper, c.slug)
		}
		for _, text := range []string{string(c.kind), c.upper, c.slug} {
			if got, ok := environment.Parse(text); !ok || got != c.kind {
				t.Errorf("Parse(%s) = %q, %v, want %q, true", text, got, ok, c.kind)
			}
		}
	}
	if got, ok := environment.Parse("staging"); ok {
		t.Errorf("Parse(staging) = %q, true, want false", got)
	}
}

func TestForBranch(t *testing.T) {
	for branch, want := range map[string]environment.Kind{
		"main": environment.Production, "master": environment.Production, "production": environment.Production,
		"Main": environment.Preview, "feature/x": environment.Preview, "": environment.Preview,
	} {
		if got := environment.ForBranch(branch); got != want {
			t.Errorf("ForBranch(%q) = %s, want %s", branch, got, want)
		}
	}
}

// TestKindsAreDocumented compares the table in docs/projects.md with the kinds and their spellings.
func TestKindsAreDocumented(t *testing.T) {
	const path, begin, end = "../../../docs/projects.md", "<!-- table: environments -->\n", "<!-- end of the table -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: begin of the table of environments found = %v, end = %v, want both", path, found, closed)
	}
	branches := map[environment.Kind]string{
		environment.Production: "`main`, `master`, `production`", environment.Preview: "any other",
		environment.Development: "none: a developer's working copy, which nothing deploys yet",
	}
	var table strings.Builder
	table.WriteString("\n| git branch | permissions of account keys | tags, deployments | names of buckets " +
		"|\n|---|---|---|---|\n")
	for _, k := range environment.Kinds() {
		fmt.Fprintf(&table, "| %s | `%s` | `%s` | `-%s` |\n", branches[k], k, k.Upper(), k.Slug())
	}
	table.WriteString("\n")
	golden.Equal(t, path, before+begin+table.String()+end+after)
}
