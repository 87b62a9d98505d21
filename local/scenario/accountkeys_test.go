package scenario_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/readme"
	"github.com/gatewright/gatewright/local/instance"
)

// TestPageOfAccountKeys types what docs/account-keys.md says.
func TestPageOfAccountKeys(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	p, err := instance.Start(t.Context(), t.TempDir(), repository, "dist/local")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	here := strings.NewReplacer("http://127.0.0.1:9000", p.API, ".gatewright/", p.Data()+"/")
	steps, err := readme.Page("../../docs/account-keys.md", "Commands", here)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readme.Run(t.Context(), "../..", os.Environ(), steps); err != nil {
		t.Fatal(err)
	}
}
