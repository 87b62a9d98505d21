package openapi_test

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

// TestGeneratedClientsWork runs the clients that `make clients` has generated and compiled. `make clients` also sets
// the variable that enables the test. Without the variable, the test is skipped, because a plain `go test` has no
// generated clients.
func TestGeneratedClientsWork(t *testing.T) {
	if os.Getenv("GATEWRIGHT_CLIENTS") == "" {
		t.Skip("make clients generates the clients and runs this")
	}
	for _, c := range []struct {
		name, dir string
		command   []string
	}{
		{"TypeScript", "tsclient", []string{"node", filepath.Join("dist", "client.js")}},
		{"Go", "goclient", []string{"go", "test", "-count=1", "./..."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			address, key := serve(t)
			run := exec.CommandContext(t.Context(), c.command[0], c.command[1:]...)
			run.Dir = c.dir
			run.Env = append(os.Environ(), "GATEWRIGHT_API="+address, "GATEWRIGHT_KEY="+key)
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("%q: error = %v, want none:\n%s", c.command, err, out)
			}
		})
	}
}

// serve starts an installation with an account, and returns its address and the account's key.
func serve(t *testing.T) (address, key string) {
	t.Helper()
	random := storetest.Random(t)
	p := installation.Parts{
		Config: config.Config{DeploymentURL: "https://{deployment}.apis.example.com"},
		Table:  storetest.NewWithBackend(t, memory.New(), storetest.Clock(time.Now)),
		Bucket: blob.NewMemory(time.Now), Key: seal.OpenFile(filepath.Join(t.TempDir(), "key")),
		Random: random, Now: time.Now, IDs: ids.NewSource(random, time.Now), Log: slog.New(slog.DiscardHandler),
	}
	_, key, err := accounts.Open(p).Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	var routes []api.Route
	for _, g := range functions.Groups() {
		routes = append(routes, g.Bind(p)...)
	}
	server := httptest.NewServer(api.Open(p, accounts.Open(p), routes))
	t.Cleanup(server.Close)
	return server.URL, key
}
