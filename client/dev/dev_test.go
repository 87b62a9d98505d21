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
	"github.com/gatewright/gatewright/shared/project"
)

const routes, policies = "config/routes.oas.json", "config/policies.json"

func hello(t testing.TB) string {
	return upstreamOf(t, func(w http.ResponseWriter, r *http.Request) { say(w, "upstream %s", r.URL.Path) })
}

func TestKeysAreChecked(t *testing.T) {
	up := hello(t)
	r := start(t, map[string]string{
		routes:   routesFile(route{path: "/shut", upstream: up, inbound: []string{"who"}}, route{path: "/open", upstream: up}),
		policies: policiesFile(keyPolicy()),
	})
	r.want("/open", "", http.StatusOK, "upstream /open")
	r.want("/shut", "", http.StatusUnauthorized, "Unauthorized")
	r.want("/shut", "gwk_0123456789abcdef0123456789abcdef_69ff2f90", http.StatusUnauthorized, "Unauthorized")
	key := r.key("shop")
	r.want("/shut", key, http.StatusOK, "upstream /shut")
	if line := r.line("401 GET "); !strings.Contains(line, "401 GET "+strings.TrimPrefix(r.url, "http://")+"/shut") || !strings.Contains(line, "answered by the policy who") {
		t.Errorf("the line of a refused request is %s", line)
	}
	if strings.Contains(r.out.String(), key) {
		t.Error("a key stands in the lines of requests")
	}
}

func TestKeysOutliveASave(t *testing.T) {
	up := hello(t)
	r := start(t, map[string]string{
		routes:   routesFile(route{path: "/a", upstream: up, inbound: []string{"who"}}),
		policies: policiesFile(keyPolicy()),
	})
	key := r.key("shop")
	r.save(routes, routesFile(route{path: "/b", upstream: up, inbound: []string{"who"}}))
	r.want("/b", key, http.StatusOK, "upstream /b")
	if n := strings.Count(r.err.String(), "gwk_"); n != 1 {
		t.Errorf("%d keys are told", n)
	}
}

func TestLimitsAreExactOverSavesAndCallers(t *testing.T) {
	const allowed = 120
	up := hello(t)
	project := func(path string) string {
		return routesFile(route{path: "/limited", upstream: up, inbound: []string{"who", "limit"}}, route{path: path, upstream: up})
	}
	r := start(t, map[string]string{routes: project("/0"), policies: policiesFile(keyPolicy(), limitPolicy(allowed))})
	key := r.key("shop")
	var admitted, refused atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 4 {
				switch status, body := r.ask(http.MethodGet, "/limited", key); status {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				default:
					t.Errorf("%d %s", status, body)
				}
			}
		})
	}
	r.save(routes, project("/1"))
	r.want("/1", "", http.StatusOK, "")
	all.Wait()
	if admitted.Load() != allowed || refused.Load() != 200-allowed {
		t.Errorf("%d of 200 are admitted and %d refused, where %d are allowed", admitted.Load(), refused.Load(), allowed)
	}
}

func TestQuotasAreExact(t *testing.T) {
	up := hello(t)
	quota := policyOf("bought", "quota-inbound", "QuotaInboundPolicy", "runtime", map[string]any{"bucketId": "mtr_1", "meters": map[string]any{"requests": 1}})
	r := start(t, map[string]string{
		routes:   routesFile(route{path: "/sold", upstream: up, inbound: []string{"who", "bought"}}),
		policies: policiesFile(keyPolicy(), quota),
	}, func(o *dev.Options) { o.Units = 30 }, documents)
	key := r.key("shop")
	var admitted atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if status, _ := r.ask(http.MethodGet, "/sold", key); status == http.StatusOK {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	if admitted.Load() != 30 {
		t.Errorf("%d are admitted, where 30 are sold", admitted.Load())
	}
	if line := r.line(`"status":429`); !strings.Contains(line, `"policy":"bought"`) {
		t.Errorf("the line of one too many is %s", line)
	}
}

func TestEachRequestIsADocument(t *testing.T) {
	up := hello(t)
	r := start(t, map[string]string{
		routes:   routesFile(route{path: "/a/{id}", upstream: up, inbound: []string{"who"}}),
		policies: policiesFile(keyPolicy()),
	}, func(o *dev.Options) {
		o.Document = func(d []byte) error { _, err := o.Out.Write(append(d, '\n')); return err }
	})
	r.want("/a/%5b31m?hunter2", "", http.StatusUnauthorized, "")
	r.want("/a/x", r.key("shop"), http.StatusOK, "")
	r.line(`"/a/x"`)
	var got []map[string]any
	for line := range strings.Lines(r.out.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, one)
	}
	if len(got) != 2 || got[0]["status"] != 401.0 || got[0]["policy"] != "who" || got[0]["route"] != "/a/{id}" || got[0]["path"] != "/a/%5B31m" || got[0]["method"] != "GET" ||
		got[1]["status"] != 200.0 || got[1]["policy"] != nil || got[1]["latencyMs"].(float64) <= 0 || strings.Contains(r.out.String(), "hunter2") {
		t.Errorf("the lines are %s", r.out.String())
	}
}

func TestVariablesAreOfTheirFileAlone(t *testing.T) {
	t.Setenv("UPSTREAM", "http://127.0.0.1:1")
	one, two := upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) { say(w, "one") }), upstreamOf(t, func(w http.ResponseWriter, _ *http.Request) { say(w, "two") })
	env := filepath.Join(t.TempDir(), "variables")
	set := func(text string) {
		if err := os.WriteFile(env, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set("# where it is\nexport UPSTREAM='" + one + "'\n")
	files := map[string]string{routes: routesFile(route{path: "/a", upstream: "${env.UPSTREAM}"})}
	r := start(t, files, func(o *dev.Options) { o.EnvFile = env })
	r.want("/a", "", http.StatusOK, "one")
	set("UPSTREAM=" + two)
	r.want("/a", "", http.StatusOK, "two")
	set("UPSTREAM=" + two + "\nhunter2 is no variable\n")
	if all := r.told("error: line 2 of "); strings.Contains(all, "hunter2") {
		t.Errorf("a line that may be a secret is told: %s", all)
	}
	r.want("/a", "", http.StatusOK, "two")

	bare := start(t, files)
	bare.want("/a", "", http.StatusServiceUnavailable, "Set the variable UPSTREAM")
}

func TestKeyFileKeepsKeys(t *testing.T) {
	up := hello(t)
	file := filepath.Join(t.TempDir(), "keys.json")
	files := map[string]string{routes: routesFile(route{path: "/a", upstream: up, inbound: []string{"who"}}), policies: policiesFile(keyPolicy())}
	with := func(o *dev.Options) { o.KeyFile = file }
	r := start(t, files, with)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v (%v)", info.Mode(), err)
	}
	var entries []struct{ Bucket, Consumer, Key string }
	if err := json.Unmarshal(data, &entries); err != nil || len(entries) != 1 || entries[0].Bucket != "shop" || entries[0].Consumer != "dev" {
		t.Fatalf("it holds %d entries (%v)", len(entries), err)
	}
	if strings.Contains(r.err.String(), entries[0].Key) {
		t.Error("a key that has a file is told")
	}
	r.want("/a", entries[0].Key, http.StatusOK, "")
	again := start(t, files, with)
	again.want("/a", entries[0].Key, http.StatusOK, "")
	if now, err := os.ReadFile(file); err != nil || string(now) != string(data) {
		t.Errorf("the next run has changed the file (%v)", err)
	}
}

// TestKeysThatAreBeingWrittenAreNotWrittenOver is about a save of the project while its user is in the middle of the file of keys.
func TestKeysThatAreBeingWrittenAreNotWrittenOver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.json")
	without := routesFile(route{path: "/a", upstream: "http://127.0.0.1:9"})
	r := start(t, map[string]string{routes: without}, func(o *dev.Options) { o.KeyFile = file })
	const half = `[{"bucket": "other", "consumer": "mine", "key": "planted`
	if err := os.WriteFile(file, []byte(half), 0o600); err != nil {
		t.Fatal(err)
	}
	r.save(policies, policiesFile(keyPolicy()))
	told := r.told("has the key")
	if !strings.Contains(told, "is not a list of") || strings.Contains(told, "planted") {
		t.Errorf("it tells %s", told)
	}
	if now, err := os.ReadFile(file); err != nil || string(now) != half {
		t.Errorf("the file has become %q, %v", now, err)
	}
}

// TestBadOptionsAreOneLine, which says what to do, and serve nothing.
func TestBadOptionsAreOneLine(t *testing.T) {
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
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
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
		"no folder":    {func(o *dev.Options) { o.Folder = filepath.Join(good, "a\x1b[31mb") }, "name the folder that config/ is in"},
		"a file":       {func(o *dev.Options) { o.Folder = exposed }, "is no folder"},
		"no project":   {func(o *dev.Options) { o.Folder = filepath.Join(good, "config") }, "it has no config/*.oas.json"},
		"port in use":  {func(o *dev.Options) { o.Addr = taken.Addr().String() }, "another program listens on"},
		"no address":   {func(o *dev.Options) { o.Addr = "nowhere" }, "write host:port"},
		"exposed keys": {func(o *dev.Options) { o.KeyFile = exposed }, "chmod 600"},
		"broken keys":  {func(o *dev.Options) { o.KeyFile = broken }, "is not a list of"},
		"a pipe":       {func(o *dev.Options) { o.KeyFile = pipe }, "the file of keys"},
		"no certificate": {func(o *dev.Options) {
			o.Certificates = map[string]project.ClientCertificate{"bank": {Chain: "planted", Key: "planted"}}
		}, "is not in PEM"},
		"no units": {func(o *dev.Options) { o.Units = -1 }, "positive"},
	} {
		t.Run(name, func(t *testing.T) {
			o := dev.Options{Folder: good, Addr: "127.0.0.1:0", Out: &buffer{}, Err: &buffer{}, Ready: func(net.Addr) { t.Error("it is served") }}
			test.change(&o)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := dev.Run(ctx, o)
			if _, ok := errors.AsType[*dev.UsageError](err); !ok || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n\x1b") || strings.Contains(err.Error(), "planted") {
				t.Errorf("it says %v", err)
			}
		})
	}
}

// TestAKeyOpensItsOwnBucketAlone, as in an installation.
func TestAKeyOpensItsOwnBucketAlone(t *testing.T) {
	up := hello(t)
	other := policyOf("other", "api-key-inbound", "ApiKeyInboundPolicy", "runtime", map[string]any{"bucketName": "depot"})
	r := start(t, map[string]string{
		routes:   routesFile(route{path: "/a", upstream: up, inbound: []string{"who"}}, route{path: "/b", upstream: up, inbound: []string{"other"}}),
		policies: policiesFile(keyPolicy(), other),
	})
	for bucket, want := range map[string][2]int{"shop": {200, 401}, "depot": {401, 200}} {
		key := r.key(bucket)
		a, _ := r.ask(http.MethodGet, "/a", key)
		b, _ := r.ask(http.MethodGet, "/b", key)
		if got := [2]int{a, b}; got != want {
			t.Errorf("the key of %s is answered %v, not %v", bucket, got, want)
		}
	}
}
