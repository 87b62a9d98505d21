package scenario_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestAccountKeysPage runs the commands of docs/account-keys.md.
func TestAccountKeysPage(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skipf("%s selects an installation, but the documented commands need a local installation that the test starts",
			varAPI)
	}
	t.Parallel()
	p, err := instance.Start(t.Context(), t.TempDir(), repository, "dist/local")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	replacer := strings.NewReplacer("http://127.0.0.1:9000", p.API, ".gatewright/", p.Data()+"/")
	steps, err := readme.ReadSteps("../../../docs/account-keys.md", "Commands", replacer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readme.Run(t.Context(), "../../..", os.Environ(), steps); err != nil {
		t.Fatalf("run the documented commands: %v, want no error", err)
	}
}
