package scenario_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestDocumentedRetriesAndEdits runs the commands of docs/api.md about safe retries, concurrent edits and large lists.
// The test has its own key, because curl fails if other tests have used up the rate limit of a shared key.
func TestDocumentedRetriesAndEdits(t *testing.T) {
	t.Parallel()
	inst := installation
	text, err := os.ReadFile("../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	replacer := strings.NewReplacer("accounts/demo", "accounts/"+inst.account, "partners", unique(t, "partners"))
	lineReplacer := strings.NewReplacer()
	if strings.HasPrefix(inst.api, "https:") { // over HTTPS, the protocol can be HTTP/2
		lineReplacer = strings.NewReplacer("HTTP/1.1", "HTTP/…")
	}
	created := inst.ask(t, http.StatusCreated, http.MethodPost, inst.path("/account-keys"),
		`{"label": "docs/api.md", "scopes": "all"}`)
	defer inst.ask(t, http.StatusNoContent, http.MethodDelete, inst.path("/account-keys/%s", created.text("id")), "")
	steps := []readme.Step{{Commands: fmt.Sprintf("api=%s", inst.api)}}
	for _, heading := range []string{"Safe retries", "Concurrent edits", "Large lists"} {
		sectionSteps, err := readme.Steps(string(text), heading)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, sectionSteps...)
	}
	for i := range steps {
		steps[i].Commands, steps[i].Want = replacer.Replace(steps[i].Commands),
			replacer.Replace(lineReplacer.Replace(steps[i].Want))
	}
	if _, err := readme.Run(t.Context(), "../../..", append(os.Environ(), "account_key="+created.text("key")),
		steps); err != nil {
		t.Fatalf("run the documented commands: %v, want no error", err)
	}
}

// TestDocumentedServerCards runs the commands of docs/api.md about server cards. It needs the local run, whose cards
// contain the address where it listens. The cards of another installation contain its public address, which can differ
// from the address that the tests use.
func TestDocumentedServerCards(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	}
	t.Parallel()
	steps, err := readme.ReadSteps("../../../docs/api.md", "Found by MCP clients", nil)
	if err != nil {
		t.Fatal(err)
	}
	steps = append([]readme.Step{{Commands: fmt.Sprintf("api=%s", installation.api)}}, steps...)
	if _, err := readme.Run(t.Context(), "../../..", os.Environ(), steps); err != nil {
		t.Fatalf("run the documented commands: %v, want no error", err)
	}
}
