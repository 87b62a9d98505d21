package scenario_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/readme"
)

// TestPages types what every page of docs/ says under "By curl", one after the other
// against one product, and so sees on a running process how soon a gateway serves
// what a rollback returns to, and stops serving what is deleted.
func TestPages(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	p := running(t, t.TempDir(), "make", "run")
	here := strings.NewReplacer("http://127.0.0.1:9000", p.API, "http://127.0.0.1:9001", p.Gateway,
		"127.0.0.1:9443", strings.TrimPrefix(p.TLS, "https://"), ".gatewright/", p.Data()+"/")
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\n## By curl\n") {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
			steps, err := readme.Steps(string(text), "By curl")
			if err != nil {
				t.Fatal(err)
			}
			for i := range steps {
				steps[i].Commands = here.Replace(steps[i].Commands)
			}
			if _, err := readme.Run(t.Context(), t.TempDir(), os.Environ(), steps); err != nil {
				t.Fatal(err)
			}
		})
	}
}
