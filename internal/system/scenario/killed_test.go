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

// killProxy is a proxy between a client and the API. It kills the client when the client sends change number killAt.
type killProxy struct {
	http.Handler
	mu sync.Mutex
	// kill kills the client. The proxy calls it at change number killAt, counted from 1, or never if killAt is 0. If
	// afterResponse is true, it calls kill after the API has made the change, otherwise before.
	kill            func()
	killAt, changes int
	afterResponse   bool
}

// next counts a change. It returns nil unless this is the change at which the client is killed.
func (k *killProxy) next(r *http.Request) (kill func(), afterResponse bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if r.Method == http.MethodGet {
		return nil, false
	}
	if k.changes++; k.changes != k.killAt {
		return nil, false
	}
	return k.kill, k.afterResponse
}

// ServeHTTP implements http.Handler.
func (k *killProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kill, afterResponse := k.next(r)
	if kill != nil && !afterResponse {
		kill()
		panic(http.ErrAbortHandler)
	}
	k.Handler.ServeHTTP(w, r)
	if kill != nil {
		kill() // before the client receives a byte of the response: the response fits into the server's buffer
		panic(http.ErrAbortHandler)
	}
}

// TestApplyIsKilledAtEachChange kills the client before and after the API makes each change of a plan. It then runs the
// same command again, and checks that the account matches the files and that nothing was created twice.
func TestApplyIsKilledAtEachChange(t *testing.T) {
	client, inst := isolatedClient(t), installation
	api, err := url.Parse(inst.api)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(api) },
		Transport: inst.client.Transport,
	}
	k := &killProxy{Handler: proxy}
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	const changes = 6 // the number of changes that the files below need
	for change := 1; change <= changes; change++ {
		for _, afterResponse := range []bool{false, true} {
			dir, name := t.TempDir(), unique(t, "killed")
			description := fmt.Sprintf("killed at change %d, after the API made the change = %v", change, afterResponse)
			text := strings.ReplaceAll(`
projects: [{name: NAME}]
keyBuckets: [{name: NAME-b, tags: {team: blue}, consumers: [{name: ada, metadata: {big: 12345678901234567890}}]}]
meteringBuckets:
  - name: sold
    plans: [{planExternalId: NAME, label: Pro, meters: {requests: {max: 10}}}]
    subscriptions:
      - {subscriptionExternalId: sub, customerExternalId: c, customerKey: ada, planExternalIds: [NAME],
         region: us-east1, renewalStrategy: monthly, status: active, type: periodic}
`, "NAME", name)
			if err := errors.Join(os.WriteFile(filepath.Join(dir, "account.yaml"), []byte(text), 0o600),
				os.WriteFile(filepath.Join(dir, "key"), []byte(inst.key+"\n"), 0o600)); err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) (code int, output string) {
				cmd := exec.CommandContext(t.Context(), client, args...)
				var out bytes.Buffer
				cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
				cmd.Env = append(os.Environ(), "CI=true", "NO_PROXY=127.0.0.1",
					"GATEWRIGHT_PROFILES="+filepath.Join(dir, "profiles.json"),
					"GATEWRIGHT_URL="+server.URL, "GATEWRIGHT_KEY_FILE="+filepath.Join(dir, "key"), "GATEWRIGHT_KEY=",
					"GATEWRIGHT_ACCOUNT=")
				k.mu.Lock() // hold the client's requests until its process is known
				err := cmd.Start()
				k.kill = func() { _ = cmd.Process.Kill() }
				k.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
				return cmd.ProcessState.ExitCode(), out.String()
			}
			mustExit := func(code exit.Code, args ...string) {
				t.Helper()
				if got, output := run(args...); got != int(code) {
					t.Fatalf("%s: %v: exit code = %d, want %d: %s", description, args, got, int(code), output)
				}
			}
			mustExit(exit.OK, "plan", "account.yaml", "--out", "plan")
			k.mu.Lock()
			k.killAt, k.changes, k.afterResponse = change, 0, afterResponse
			k.mu.Unlock()
			if code, output := run("apply", "plan"); code >= 0 {
				t.Fatalf("%s: apply: exit code = %d, want it killed: %s", description, code, output)
			}
			k.mu.Lock()
			k.killAt = 0
			k.mu.Unlock()
			mustExit(exit.OK, "apply", "plan")
			mustExit(exit.OK, "drift", "account.yaml")
			mustExit(exit.OK, "apply", "plan") // the next run has nothing to change
			buckets := inst.bucketsWithPlan(t, name)
			if len(buckets) != 1 {
				t.Errorf("%s: %d metering buckets have the plan, want 1", description, len(buckets))
			}
			for _, id := range buckets {
				inst.ask(t, http.StatusNoContent, http.MethodDelete, "/v1/metering/"+id, "")
			}
			inst.ask(t, http.StatusNoContent, http.MethodDelete, inst.path("/key-buckets/%s-b", name), "")
			inst.ask(t, http.StatusOK, http.MethodDelete, inst.path("/projects/%s", name), "")
		}
	}
}

// bucketsWithPlan returns the ids of the metering buckets that have a plan.
func (ta *target) bucketsWithPlan(t *testing.T, plan string) (ids []string) {
	t.Helper()
	for _, bucket := range ta.ask(t, http.StatusOK, http.MethodGet, "/v1/metering?limit=1000", "").data(t) {
		status, body, err := ta.do(t.Context(), http.MethodGet, "/v1/metering/"+bucket.text("id")+"/plans", "")
		if err != nil {
			t.Fatal(err)
		}
		if status == http.StatusOK && bytes.Contains(body, []byte(`"`+plan+`"`)) {
			ids = append(ids, bucket.text("id"))
		}
	}
	return ids
}
