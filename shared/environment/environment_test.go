package environment_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/environment"
)

// TestSpellings holds the table of contract 3.10.
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
			t.Errorf("%s: %s and %s", c.kind, c.kind.Upper(), c.kind.Slug())
		}
		for _, text := range []string{string(c.kind), c.upper, c.slug} {
			if got, ok := environment.Parse(text); !ok || got != c.kind {
				t.Errorf("%s is read as %q", text, got)
			}
		}
	}
	if got, ok := environment.Parse("staging"); ok {
		t.Errorf("staging is read as %q", got)
	}
}

func TestBranchDecidesTheKind(t *testing.T) {
	for branch, want := range map[string]environment.Kind{
		"main": environment.Production, "master": environment.Production, "production": environment.Production,
		"Main": environment.Preview, "feature/x": environment.Preview, "": environment.Preview,
	} {
		if got := environment.OfBranch(branch); got != want {
			t.Errorf("%q is %s", branch, got)
		}
	}
}
