package dev_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/client/dev"
	"github.com/gatewright/gatewright/shared/format/project"
)

const routes, policies = "config/routes.oas.json", "config/policies.json"

func newEchoUpstream(t testing.TB) string {
	return newUpstream(t, func(w http.ResponseWriter, r *http.Request) { writef(w, "upstream %s", r.URL.Path) })
}

func TestKeysAreChecked(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	s := start(t, map[string]string{
		routes: routesFile(route{path: "/shut", upstream: upstreamURL, inbound: []string{"who"}},
			route{path: "/open", upstream: upstreamURL}),
		policies: policiesFile(keyPolicy()),
	})
	s.waitForResponse("/open", "", http.StatusOK, "upstream /open")
	s.waitForResponse("/shut", "", http.StatusUnauthorized, "Unauthorized")
	s.waitForResponse("/shut", "gwk_0123456789abcdef0123456789abcdef_69ff2f90", http.StatusUnauthorized, "Unauthorized")
	key := s.shownKey("shop")
	s.waitForResponse("/shut", key, http.StatusOK, "upstream /shut")
	if line := s.waitForLogLine("401 GET "); !strings.Contains(line, "401 GET "+strings.TrimPrefix(s.url, "http://")+
		"/shut") || !strings.Contains(line, "answered by the policy who") {
		t.Errorf("log line of a refused request = %s, want its method, URL, and policy", line)
	}
	if strings.Contains(s.out.String(), key) {
		t.Error("the log lines of requests contain a key, want none")
	}
}

func TestKeysSurviveSave(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	s := start(t, map[string]string{
		routes:   routesFile(route{path: "/a", upstream: upstreamURL, inbound: []string{"who"}}),
		policies: policiesFile(keyPolicy()),
	})
	key := s.shownKey("shop")
	s.save(routes, routesFile(route{path: "/b", upstream: upstreamURL, inbound: []string{"who"}}))
	s.waitForResponse("/b", key, http.StatusOK, "upstream /b")
	if n := strings.Count(s.err.String(), "gwk_"); n != 1 {
		t.Errorf("%d keys are shown after a save, want 1", n)
	}
}

func TestLimitsAreExactAcrossSavesAndClients(t *testing.T) {
	const allowed = 120
	upstreamURL := newEchoUpstream(t)
	project := func(path string) string {
		return routesFile(route{path: "/limited", upstream: upstreamURL, inbound: []string{"who", "limit"}},
			route{path: path, upstream: upstreamURL})
	}
	s := start(t, map[string]string{routes: project("/0"), policies: policiesFile(keyPolicy(), limitPolicy(allowed))})
	key := s.shownKey("shop")
	var admitted, refused atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for range 4 {
				switch status, body := s.do(http.MethodGet, "/limited", key); status {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("GET /limited = %d %s, want status 200 or 429", status, body)
				}
			}
		})
	}
	s.save(routes, project("/1"))
	s.waitForResponse("/1", "", http.StatusOK, "")
	wg.Wait()
	if admitted.Load() != allowed || refused.Load() != 200-allowed {
		t.Errorf("%d of 200 requests admitted and %d refused, want %d and %d",
			admitted.Load(), refused.Load(), allowed, 200-allowed)
	}
}

func TestQuotasAreExact(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	quota := policyEntry("bought", "quota-inbound", "QuotaInboundPolicy", "runtime",
		map[string]any{"bucketId": "mtr_1", "meters": map[string]any{"requests": 1}})
	s := start(t, map[string]string{
		routes:   routesFile(route{path: "/sold", upstream: upstreamURL, inbound: []string{"who", "bought"}}),
		policies: policiesFile(keyPolicy(), quota),
	}, func(o *dev.Options) { o.Units = 30 }, documents)
	key := s.shownKey("shop")
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if status, _ := s.do(http.MethodGet, "/sold", key); status == http.StatusOK {
				admitted.Add(1)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 30 {
		t.Errorf("%d of 50 requests admitted, want 30", admitted.Load())
	}
	if line := s.waitForLogLine(`"status":429`); !strings.Contains(line, `"policy":"bought"`) {
		t.Errorf("log line of a request past the quota = %s, want the policy bought", line)
	}
}

func TestRequestIsLoggedAsDocument(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	s := start(t, map[string]string{
		routes:   routesFile(route{path: "/a/{id}", upstream: upstreamURL, inbound: []string{"who"}}),
		policies: policiesFile(keyPolicy()),
	}, func(o *dev.Options) {
		o.Document = func(d []byte) error { _, err := o.Out.Write(append(d, '\n')); return err }
	})
	s.waitForResponse("/a/%5b31m?hunter2", "", http.StatusUnauthorized, "")
	s.waitForResponse("/a/x", s.shownKey("shop"), http.StatusOK, "")
	s.waitForLogLine(`"/a/x"`)
	var got []map[string]any
	for line := range strings.Lines(s.out.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("log line %q: %v, want a JSON document", line, err)
		}
		got = append(got, entry)
	}
	if len(got) != 2 {
		t.Fatalf("%d log lines, want 2:\n%s", len(got), s.out.String())
	}
	for i, want := range []map[string]any{
		{"status": 401.0, "policy": "who", "route": "/a/{id}", "path": "/a/%5B31m", "method": "GET"},
		{"status": 200.0, "policy": nil},
	} {
		for name, value := range want {
			if got[i][name] != value {
				t.Errorf("log line %d: %s = %v, want %v", i+1, name, got[i][name], value)
			}
		}
	}
	if latency, _ := got[1]["latencyMs"].(float64); latency <= 0 {
		t.Errorf("log line 2: latencyMs = %v, want a positive number", got[1]["latencyMs"])
	}
	if strings.Contains(s.out.String(), "hunter2") {
		t.Errorf("the log lines contain a query, want none:\n%s", s.out.String())
	}
}

func TestVariablesComeOnlyFromEnvFile(t *testing.T) {
	t.Setenv("UPSTREAM", "http://127.0.0.1:1")
	first, second := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		writef(w, "one")
	}), newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { writef(w, "two") })
	env := filepath.Join(t.TempDir(), "variables")
	set := func(text string) {
		if err := os.WriteFile(env, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("# where it is\nexport UPSTREAM='" + first + "'\n")
	files := map[string]string{routes: routesFile(route{path: "/a", upstream: "${env.UPSTREAM}"})}
	s := start(t, files, func(o *dev.Options) { o.EnvFile = env })
	s.waitForResponse("/a", "", http.StatusOK, "one")
	set("UPSTREAM=" + second)
	s.waitForResponse("/a", "", http.StatusOK, "two")
	set("UPSTREAM=" + second + "\nhunter2 is no variable\n")
	if output := s.waitForMessage("error: line 2 of "); strings.Contains(output, "hunter2") {
		t.Errorf("error of an invalid line of variables = %s, want no content of the line", output)
	}
	s.waitForResponse("/a", "", http.StatusOK, "two")

	withoutEnvFile := start(t, files)
	withoutEnvFile.waitForResponse("/a", "", http.StatusServiceUnavailable, "Set the variable UPSTREAM")
}

func TestKeyFileStoresKeys(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	file := filepath.Join(t.TempDir(), "keys.json")
	files := map[string]string{
		routes:   routesFile(route{path: "/a", upstream: upstreamURL, inbound: []string{"who"}}),
		policies: policiesFile(keyPolicy()),
	}
	withKeyFile := func(o *dev.Options) { o.KeyFile = file }
	s := start(t, files, withKeyFile)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key file = %v (%v), want 0600", info.Mode(), err)
	}
	var entries []struct{ Bucket, Consumer, Key string }
	if err := json.Unmarshal(data, &entries); err != nil || len(entries) != 1 || entries[0].Bucket != "shop" ||
		entries[0].Consumer != "dev" {
		t.Fatalf("the key file has %d entries (%v), want 1 for the bucket shop and the consumer dev", len(entries), err)
	}
	if strings.Contains(s.err.String(), entries[0].Key) {
		t.Error("a key of the key file is shown, want none")
	}
	s.waitForResponse("/a", entries[0].Key, http.StatusOK, "")
	second := start(t, files, withKeyFile)
	second.waitForResponse("/a", entries[0].Key, http.StatusOK, "")
	if after, err := os.ReadFile(file); err != nil || string(after) != string(data) {
		t.Errorf("the next run changes the key file (%v), want no change", err)
	}
}

// TestIncompleteKeyFileIsNotOverwritten saves the project while the file of keys is incomplete, as if a user is editing
// it. The file must stay unchanged.
func TestIncompleteKeyFileIsNotOverwritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	withoutKeys := routesFile(route{path: "/a", upstream: "http://127.0.0.1:9"})
	r := start(t, map[string]string{routes: withoutKeys}, func(o *dev.Options) { o.KeyFile = file })
	const incomplete = `[{"bucket": "other", "consumer": "mine", "key": "planted`
	if err := os.WriteFile(file, []byte(incomplete), 0o600); err != nil {
		t.Fatal(err)
	}
	r.save(policies, policiesFile(keyPolicy()))
	output := r.waitForMessage("has the key")
	if !strings.Contains(output, "is not a list of") || strings.Contains(output, "planted") {
		t.Errorf("message about an incomplete key file = %s, want the reason without its content", output)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != incomplete {
		t.Errorf("the incomplete key file is now %q, %v, want no change", after, err)
	}
}

// TestInvalidOptionIsRefused checks that an invalid option is refused with an error of one line that says what to do.
func TestInvalidOptionIsRefused(t *testing.T) {
	good := t.TempDir()
	if err := os.Mkdir(filepath.Join(good, "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(good, filepath.FromSlash(name))
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(routes, routesFile(route{path: "/a", upstream: "http://127.0.0.1:9"}), 0o644)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	exposed := write("exposed.json", "[]", 0o644)
	broken := write("broken.json", `[{"bucket": "b", "consumer": "c", "key": "planted`, 0o600)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if mkfifo(pipe) != nil {
		pipe = broken
	}
	for name, test := range map[string]struct {
		change func(*dev.Options)
		want   string
	}{
		"missing folder": {func(o *dev.Options) {
			o.Folder = filepath.Join(good, "a\x1b[31mb")
		}, "name the folder that config/ is in"},
		"file instead of a folder": {func(o *dev.Options) { o.Folder = exposed }, "is no folder"},
		"folder without a project": {func(o *dev.Options) {
			o.Folder = filepath.Join(good, "config")
		}, "it has no config/*.oas.json"},
		"port in use": {func(o *dev.Options) {
			o.Addr = listener.Addr().String()
		}, "another program listens on"},
		"address without a port":      {func(o *dev.Options) { o.Addr = "nowhere" }, "write host:port"},
		"key file readable by others": {func(o *dev.Options) { o.KeyFile = exposed }, "chmod 600"},
		"incomplete key file":         {func(o *dev.Options) { o.KeyFile = broken }, "is not a list of"},
		"pipe as the key file":        {func(o *dev.Options) { o.KeyFile = pipe }, "the file of keys"},
		"certificate that is no PEM": {func(o *dev.Options) {
			o.Certificates = map[string]project.ClientCertificate{"bank": {Chain: "planted", Key: "planted"}}
		}, "is not in PEM"},
		"negative units": {func(o *dev.Options) { o.Units = -1 }, "positive"},
	} {
		t.Run(name, func(t *testing.T) {
			ready := func(net.Addr) { t.Error("Run() serves a project with an invalid option, want an error") }
			o := dev.Options{Folder: good, Addr: "127.0.0.1:0", Out: &syncBuffer{}, Err: &syncBuffer{}, Ready: ready}
			test.change(&o)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := dev.Run(ctx, o)
			if _, ok := errors.AsType[*dev.UsageError](err); !ok || !strings.Contains(err.Error(), test.want) ||
				strings.ContainsAny(err.Error(), "\n\x1b") || strings.Contains(err.Error(), "planted") {
				t.Errorf("Run() error = %v, want a *UsageError with %q in one line, without content of a file", err, test.want)
			}
		})
	}
}

// TestKeyIsValidOnlyForItsBucket checks that a key is valid only for its bucket, as in an installation.
func TestKeyIsValidOnlyForItsBucket(t *testing.T) {
	upstreamURL := newEchoUpstream(t)
	other := policyEntry("other", "api-key-inbound", "ApiKeyInboundPolicy", "runtime",
		map[string]any{"bucketName": "depot"})
	s := start(t, map[string]string{
		routes: routesFile(route{path: "/a", upstream: upstreamURL, inbound: []string{"who"}},
			route{path: "/b", upstream: upstreamURL, inbound: []string{"other"}}),
		policies: policiesFile(keyPolicy(), other),
	})
	for bucket, want := range map[string][2]int{"shop": {200, 401}, "depot": {401, 200}} {
		key := s.shownKey(bucket)
		a, _ := s.do(http.MethodGet, "/a", key)
		b, _ := s.do(http.MethodGet, "/b", key)
		if got := [2]int{a, b}; got != want {
			t.Errorf("GET /a and /b with the key of %s = %v, want %v", bucket, got, want)
		}
	}
}
