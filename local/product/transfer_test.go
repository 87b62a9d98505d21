package product

import (
	"net/http"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// createConsumer creates a consumer in the key bucket that the project
// hello names, and writes the consumer's key to a file: `consumer FILE`.
func createConsumer(ts *testscript.TestScript, _ bool, args []string) {
	var created struct {
		APIKeys []struct{ Key string } `json:"apiKeys"`
	}
	call(ts, http.MethodPost, "/v1/accounts/demo/key-buckets/hello-consumers/consumers?with-api-key=true",
		map[string]string{"name": "acme"}, &created)
	if len(created.APIKeys) != 1 {
		ts.Fatalf("the consumer has %d keys, want 1", len(created.APIKeys))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(created.APIKeys[0].Key), 0o600))
}

// verifyNoted verifies that an account's audit log continues
// from the end that is stored in a file: `verify-noted ACCOUNT FILE`.
func verifyNoted(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("local", "audit", "verify", "--noted", strings.TrimSpace(ts.ReadFile(args[1])), args[0]))
}
