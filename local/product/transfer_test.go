package product

import (
	"net/http"
	"os"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// consumer makes a consumer of the bucket that the project hello names, and writes its key into a
// file: `consumer FILE`.
func consumer(ts *testscript.TestScript, _ bool, args []string) {
	var made struct {
		APIKeys []struct{ Key string } `json:"apiKeys"`
	}
	call(ts, http.MethodPost, "/v1/accounts/demo/key-buckets/hello-consumers/consumers?with-api-key=true", map[string]string{"name": "acme"}, &made)
	if len(made.APIKeys) != 1 {
		ts.Fatalf("the consumer has %d keys", len(made.APIKeys))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(made.APIKeys[0].Key), 0o600))
}

// noted verifies an account's audit log from an end that a file has: `noted ACCOUNT FILE`.
func noted(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("local", "audit", "verify", "--noted", strings.TrimSpace(ts.ReadFile(args[1])), args[0]))
}
