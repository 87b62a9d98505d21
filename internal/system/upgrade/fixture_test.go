package upgrade_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/testing/freeport"
)

const (
	account = "/v1/accounts/demo"
	// hostname is a custom domain that serves the project shop.
	hostname = "shop.example.com"
	// delayHeader is the header field of a request that sets how long the upstream waits before it responds.
	delayHeader = "X-Takes"
	// timeout bounds operations that take a fraction of a second.
	timeout = time.Minute
)

// fixture is the data directory that all versions use, with the facts that the test remembers about it.
type fixture struct {
	*testing.T
	dir       string
	addresses []string // environment variables that set the addresses, which are part of the URLs of deployments
	upstream  string   // the URL of the upstream
	binary    string   // of the running version
	p         *instance.Instance

	// key is the key of the consumer, token is the token of the tunnel, other is the key of another account, and
	// subscription is the path of the subscription.
	key, token, other, subscription string
	urls                            map[string]string   // the URLs of the deployments, by project
	auditEnd                        string              // the end of the audit log that recordAudit has noted
	written                         map[string][]string // the consumers that were created, by writer
	recorded                        map[string]any      // responses, by path
}

// newFixture returns a fixture with an empty data directory, free addresses and an upstream. No version runs yet.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{T: t, dir: t.TempDir(), urls: map[string]string{}, written: map[string][]string{}}
	for _, name := range []string{config.VarAPIAddr, config.VarGatewayAddr, config.VarTLSAddr, config.VarRelayAddr} {
		fx.addresses = append(fx.addresses, name+"="+freeport.Address(t).String())
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if wait, err := time.ParseDuration(r.Header.Get(delayHeader)); err == nil {
			time.Sleep(wait)
		}
		_, _ = io.WriteString(rw, "answer to "+r.URL.Path)
	}))
	t.Cleanup(upstream.Close)
	fx.upstream = upstream.URL
	return fx
}

// start starts a version with the data.
func (fx *fixture) start(binary string) {
	fx.Helper()
	p, err := instance.Start(fx.Context(), fx.dir, repository, append(append([]string{"env"}, fx.addresses...), binary)...)
	if err != nil {
		fx.Fatal(err)
	}
	fx.binary, fx.p = binary, p
	fx.Cleanup(func() {
		p.Kill()
		if fx.Failed() {
			fx.Logf("%s printed:\n%s", binary, p.Output())
		}
	})
}

// stop stops the product as an operator does.
func (fx *fixture) stop() { fx.p.Stop() }

// command runs a command of the running version against the product, and returns the command's stdout and stderr.
func (fx *fixture) command(args ...string) (stdout, output string, err error) {
	cmd := exec.CommandContext(fx.Context(), fx.binary, args...)
	cmd.Env = append(os.Environ(), config.VarDataDir+"="+fx.p.Data())
	var stdoutBuffer, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdoutBuffer, &stderr
	err = cmd.Run()
	return strings.TrimSpace(stdoutBuffer.String()), stderr.String(), err
}

// ask sends a request that must succeed, and returns its decoded response.
func (fx *fixture) ask(method, path, body string) (out map[string]any) {
	fx.Helper()
	if err := fx.p.RequestJSON(fx.Context(), &out, method, path, body); err != nil {
		fx.Fatal(err)
	}
	return out
}

// text returns a field of a response that must be a string and not empty.
func (fx *fixture) text(response map[string]any, name string) string {
	fx.Helper()
	s, ok := response[name].(string)
	if !ok || s == "" {
		fx.Fatalf("the response has no %s, want one: %v", name, response)
	}
	return s
}

// until waits until a condition holds.
func (fx *fixture) until(description string, condition func() bool) {
	fx.Helper()
	for end := time.Now().Add(timeout); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			fx.Fatalf("after %s the condition is false, want: %s", timeout, description)
		}
	}
}
