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

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/shared/config"
)

const (
	account = "/v1/accounts/demo"
	// hostname is a custom domain, which leads to the project shop.
	hostname = "shop.example.com"
	// takes is the header field by which a request tells the upstream how long to take for its answer.
	takes = "X-Takes"
	// patience bounds what takes a fraction of a second.
	patience = time.Minute
)

// world is a data directory, and what is known of it from outside. It is the same over all versions.
type world struct {
	*testing.T
	dir       string
	addresses []string // as variables of an environment: what is told of deployments has them in it
	upstream  string
	binary    string // of the version that runs
	p         *instance.Instance

	key, token, other, subscription string // the consumer's, the tunnel's, another account's, and the id of what was bought
	urls                            map[string]string
	auditEnd                        string
	written                         map[string][]string // what each writer was told is there
	noted                           map[string]any      // answers, by their paths
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: t.TempDir(), urls: map[string]string{}, written: map[string][]string{}}
	for _, name := range []string{config.VarAPIAddr, config.VarGatewayAddr, config.VarTLSAddr, config.VarRelayAddr} {
		w.addresses = append(w.addresses, name+"="+free.Address(t).String())
	}
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if wait, err := time.ParseDuration(r.Header.Get(takes)); err == nil {
			time.Sleep(wait)
		}
		_, _ = io.WriteString(rw, "answer to "+r.URL.Path)
	}))
	t.Cleanup(upstream.Close)
	w.upstream = upstream.URL
	return w
}

// start starts a version over the data.
func (w *world) start(binary string) {
	w.Helper()
	p, err := instance.Start(w.Context(), w.dir, repository, append(append([]string{"env"}, w.addresses...), binary)...)
	if err != nil {
		w.Fatal(err)
	}
	w.binary, w.p = binary, p
	w.Cleanup(func() {
		p.Kill()
		if w.Failed() {
			w.Logf("%s printed:\n%s", binary, p.Output())
		}
	})
}

// stop ends it as an operator does.
func (w *world) stop() { w.p.Stop() }

// command runs one of the version that runs, which does what it asks, and gives what it prints and says.
func (w *world) command(args ...string) (printed, said string, err error) {
	cmd := exec.CommandContext(w.Context(), w.binary, args...)
	cmd.Env = append(os.Environ(), config.VarDataDir+"="+w.p.Data())
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return strings.TrimSpace(out.String()), problems.String(), err
}

// ask makes a request that has to succeed, and reads its answer.
func (w *world) ask(method, path, body string) (out map[string]any) {
	w.Helper()
	if err := w.p.Into(w.Context(), &out, method, path, body); err != nil {
		w.Fatal(err)
	}
	return out
}

// text is a field of an answer, which is text.
func (w *world) text(answer map[string]any, name string) string {
	w.Helper()
	s, ok := answer[name].(string)
	if !ok || s == "" {
		w.Fatalf("there is no %s in %v", name, answer)
	}
	return s
}

// until waits until something holds.
func (w *world) until(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("it never comes to that %s", what)
		}
	}
}
