package scenario_test

import (
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/readme"
)

// TestReadmeFiveMinutes types what the README says, from its own text, with
// `make run` in another terminal.
func TestReadmeFiveMinutes(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := readme.Steps(string(text), "Five minutes")
	if err != nil {
		t.Fatal(err)
	}
	if steps[0].Commands != "make run" {
		t.Fatalf("the first step is no longer make run, but %s", steps[0].Commands)
	}
	p, err := startAs(t.TempDir(), "make", "run")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	// What differs here: free ports and a data directory of the test's own.
	here := strings.NewReplacer(
		"http://127.0.0.1:9000", p.api,
		".gatewright/", p.dir+"/data/",
	)
	steps = steps[1:]
	for i := range steps {
		steps[i].Commands = here.Replace(steps[i].Commands)
	}
	env := append(os.Environ(), "GATEWRIGHT_DATA_DIR="+p.dir+"/data")
	if _, err := readme.Run(t.Context(), "../..", env, steps); err != nil {
		t.Fatal(err)
	}
}
