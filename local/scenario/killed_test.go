package scenario_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
)

// killing stands between a client and the API, and kills the client at one of its changes.
type killing struct {
	http.Handler
	mu sync.Mutex
	// kill ends the client; at is the change from 1 at which it is called, 0 for none, and answered says that the API has it by then.
	kill     func()
	at, n    int
	answered bool
}

func (k *killing) next(r *http.Request) (kill func(), answered bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Method == http.MethodGet {
		return nil, false
	}
	if k.n++; k.n != k.at {
		return nil, false
	}
	return k.kill, k.answered
}

func (k *killing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kill, answered := k.next(r)
	if kill != nil && !answered {
		kill()
		panic(http.ErrAbortHandler)
	}
	k.Handler.ServeHTTP(w, r)
	if kill != nil {
		kill() // before a byte of the answer is on its way: the proxy's is smaller than the server's buffer
		panic(http.ErrAbortHandler)
	}
}

// TestApplyIsKilledAtEachChange kills the client, which has no moment for a word, before and after the API has each change of a plan: the
// same command goes on from there, and the account is as the files have it, with nothing made twice.
func TestApplyIsKilledAtEachChange(t *testing.T) {
	client, in := ownClient(t), installation
	to, err := url.Parse(in.api)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: in.client.Transport,
	}
	k := &killing{Handler: proxy}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	const changes = 6 // of the files below
	for at := 1; at <= changes; at++ {
		for _, answered := range []bool{false, true} {
			dir, name := t.TempDir(), unique(t, "killed")
			what := fmt.Sprintf("change %d, which the API has: %v", at, answered)
			text := strings.ReplaceAll(`
projects: [{name: NAME}]
keyBuckets: [{name: NAME-b, tags: {team: blue}, consumers: [{name: ada, metadata: {big: 12345678901234567890}}]}]
meteringBuckets:
  - name: sold
    plans: [{planExternalId: NAME, label: Pro, meters: {requests: {max: 10}}}]
    subscriptions:
      - {subscriptionExternalId: sub, customerExternalId: c, customerKey: ada, planExternalIds: [NAME], region: us-east1, renewalStrategy: monthly, status: active, type: periodic}
`, "NAME", name)
			if err := errors.Join(os.WriteFile(filepath.Join(dir, "account.yaml"), []byte(text), 0o600), os.WriteFile(filepath.Join(dir, "key"), []byte(in.key+"\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) (code int, said string) {
				cmd := exec.CommandContext(t.Context(), client, args...)
				var out bytes.Buffer
				cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
				cmd.Env = append(os.Environ(), "CI=true", "NO_PROXY=127.0.0.1", "GATEWRIGHT_PROFILES="+filepath.Join(dir, "profiles.json"),
					"GATEWRIGHT_URL="+server.URL, "GATEWRIGHT_KEY_FILE="+filepath.Join(dir, "key"), "GATEWRIGHT_KEY=", "GATEWRIGHT_ACCOUNT=")
				k.mu.Lock() // until it is known whom to kill, it is told nothing
				err := cmd.Start()
				k.kill = func() { _ = cmd.Process.Kill() }
				k.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				return cmd.ProcessState.ExitCode(), out.String()
			}
			want := func(code exit.Code, args ...string) {
				t.Helper()
				if got, said := run(args...); got != int(code) {
					t.Fatalf("%s: %v ends with %d: %s", what, args, got, said)
				}
			}
			want(exit.OK, "plan", "account.yaml", "--out", "plan")
			k.mu.Lock()
			k.at, k.n, k.answered = at, 0, answered
			k.mu.Unlock()
			if code, said := run("apply", "plan"); code >= 0 {
				t.Fatalf("%s: it is not killed, and ends with %d: %s", what, code, said)
			}
			k.mu.Lock()
			k.at = 0
			k.mu.Unlock()
			want(exit.OK, "apply", "plan")
			want(exit.OK, "drift", "account.yaml")
			want(exit.OK, "apply", "plan") // once more, for which nothing is left
			buckets := in.metered(t, name)
			if len(buckets) != 1 {
				t.Errorf("%s: %d metering buckets have its plan", what, len(buckets))
			}
			for _, id := range buckets {
				in.ask(t, http.StatusNoContent, http.MethodDelete, "/v1/metering/"+id, "")
			}
			in.ask(t, http.StatusNoContent, http.MethodDelete, in.path("/key-buckets/%s-b", name), "")
			in.ask(t, http.StatusOK, http.MethodDelete, in.path("/projects/%s", name), "")
		}
	}
}

// metered are the metering buckets that have a plan.
func (in *target) metered(t *testing.T, plan string) (ids []string) {
	t.Helper()
	for _, bucket := range in.ask(t, http.StatusOK, http.MethodGet, "/v1/metering?limit=1000", "").data(t) {
		status, body, err := in.do(t.Context(), http.MethodGet, "/v1/metering/"+bucket.text("id")+"/plans", "")
		if err != nil {
			t.Fatal(err)
		}
		if status == http.StatusOK && bytes.Contains(body, []byte(`"`+plan+`"`)) {
			ids = append(ids, bucket.text("id"))
		}
	}
	return ids
}
