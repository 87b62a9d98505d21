package scenario_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/readme"
)

// TestRetriesAndEditsOfTheDocs types what docs/api.md says of safe retries,
// concurrent edits and large lists. Its key is its own: curl gives up where other tests have asked as often as theirs may.
func TestRetriesAndEditsOfTheDocs(t *testing.T) {
	t.Parallel()
	in := installation
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("accounts/demo", "accounts/"+in.account, "partners", unique(t, "partners"))
	line := strings.NewReplacer()
	if strings.HasPrefix(in.api, "https:") { // by which HTTP/2 may be spoken
		line = strings.NewReplacer("HTTP/1.1", "HTTP/…")
	}
	made := in.ask(t, http.StatusCreated, http.MethodPost, in.path("/account-keys"), `{"label": "docs/api.md", "scopes": "all"}`)
	defer in.ask(t, http.StatusNoContent, http.MethodDelete, in.path("/account-keys/%s", made.text("id")), "")
	steps := []readme.Step{{Commands: fmt.Sprintf("api=%s", in.api)}}
	for _, heading := range []string{"Safe retries", "Concurrent edits", "Large lists"} {
		under, err := readme.Steps(string(text), heading)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, under...)
	}
	for i := range steps {
		steps[i].Commands, steps[i].Want = here.Replace(steps[i].Commands), here.Replace(line.Replace(steps[i].Want))
	}
	if _, err := readme.Run(t.Context(), "../..", append(os.Environ(), "account_key="+made.text("key")), steps); err != nil {
		t.Fatal(err)
	}
}

// TestCardsOfTheDocs types what docs/api.md says of them. It is about the local run, whose cards
// name the address that it listens on; another installation may be asked at an address that is not its public one.
func TestCardsOfTheDocs(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	steps, err := readme.Page("../../docs/api.md", "Found by MCP clients", nil)
	if err != nil {
		t.Fatal(err)
	}
	steps = append([]readme.Step{{Commands: fmt.Sprintf("api=%s", installation.api)}}, steps...)
	if _, err := readme.Run(t.Context(), "../..", os.Environ(), steps); err != nil {
		t.Fatal(err)
	}
}
