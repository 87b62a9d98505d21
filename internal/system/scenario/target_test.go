package scenario_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/shared/runtime/localdns"
)

// The variables that select the installation under test.
const (
	varAPI     = "GATEWRIGHT_SCENARIO_API"
	varKey     = "GATEWRIGHT_SCENARIO_KEY"
	varGateway = "GATEWRIGHT_SCENARIO_GATEWAY"
	varRelay   = "GATEWRIGHT_SCENARIO_RELAY"
)

// varFunctions makes the product that the tests start run its functions as processes (`make test-lambda`).
const varFunctions = "GATEWRIGHT_FUNCTIONS"

// target is the installation under test.
type target struct {
	api     string
	gateway string // the address for requests to deployments, "" for the addresses of their URLs
	// relay is the address to which agents connect, "" for an installation without a relay.
	relay   string
	key     string
	account string
	client  *http.Client
	// header is sent with each request to the management API.
	header http.Header
	// records is the file that the installation reads instead of the DNS, or "" if it looks up custom domains in the
	// DNS.
	records string
	// manyGateways reports whether several processes serve the requests to a deployment.
	manyGateways bool
}

// installation is the installation under test. TestMain sets it once for all stories. The stories share it as users do,
// and no story uses the names of another.
var installation *target

func TestMain(m *testing.M) {
	code, err := run(m)
	if clientFolder != "" {
		_ = os.RemoveAll(clientFolder)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scenario:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	t := &target{
		api: strings.TrimSuffix(os.Getenv(varAPI), "/"), gateway: os.Getenv(varGateway),
		relay: os.Getenv(varRelay), key: os.Getenv(varKey),
	}
	t.manyGateways = t.api != "" || os.Getenv(varFunctions) != ""
	if t.api == "" {
		p, err := start()
		if err != nil {
			return 1, err
		}
		defer func() {
			p.Stop()
			_ = os.RemoveAll(p.Dir)
		}()
		t.api, t.gateway, t.relay, t.key = p.API, p.Gateway, p.Relay, p.Key
		t.records = filepath.Join(p.Data(), localdns.FileName)
	}
	t.client = &http.Client{
		Timeout: 2 * time.Minute,
		// Use a separate transport, because closing an httptest.Server closes all idle connections of the default
		// transport. A deleted deployment still responds on an open connection, but a new handshake fails if its
		// certificate came from an authority.
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	status, body, err := t.do(context.Background(), http.MethodGet, "/v1/who-am-i", "")
	if err != nil {
		return 1, err
	}
	if status != http.StatusOK {
		return 1, fmt.Errorf("%s does not know the key: %d %s", t.api, status, body)
	}
	var caller struct{ Account string }
	if err := json.Unmarshal(body, &caller); err != nil {
		return 1, err
	}
	t.account = caller.Account
	installation = t
	parallelSet := false
	flag.Visit(func(f *flag.Flag) { parallelSet = parallelSet || f.Name == "test.parallel" })
	if !parallelSet {
		// The stories spend most of their time waiting: for builds, and for keys to expire.
		if err := flag.Set("test.parallel", "16"); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// start builds the product that all tests share, the binary that `make run` starts too, and starts it in a new
// directory.
func start() (*instance.Instance, error) {
	dir, err := os.MkdirTemp("", "gatewright-scenario-")
	if err != nil {
		return nil, err
	}
	build := exec.Command("make", "dist/local")
	build.Dir, build.Env = repository, withoutMake(os.Environ())
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the product: %w\n%s", err, out)
	}
	return instance.Start(context.Background(), dir, repository, "dist/local")
}

// startProduct starts a product for one test, with the data below dir. If the test fails, it logs the product's output.
func startProduct(t *testing.T, dir string, command ...string) *instance.Instance {
	t.Helper()
	p, err := instance.Start(t.Context(), dir, repository, command...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("the product printed:\n%s", p.Output())
		}
	})
	return p
}

// withoutMake returns an environment without the variables that `make test` sets for its child processes, because the
// tests run make as a user does.
func withoutMake(environ []string) []string {
	return append(environ, "MAKEFLAGS=", "MAKELEVEL=")
}

// repository is the checkout's folder. A user starts the product there.
var repository = filepath.Join("..", "..", "..")

// do sends a request to the management API.
func (ta *target) do(ctx context.Context, method, path, body string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, ta.api+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(r.Header, ta.header)
	r.Header.Set("Authorization", "Bearer "+ta.key)
	resp, err := retryThrottled(ta.client.Do, r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, raw, err
}

// retryThrottled sends a request to the management API, and retries while the API limits the rate: concurrent stories
// share a key with a rate limit.
func retryThrottled(send func(*http.Request) (*http.Response, error), r *http.Request) (*http.Response, error) {
	for {
		resp, err := send(r)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests {
			return resp, err
		}
		_ = resp.Body.Close()
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err != nil {
			return nil, fmt.Errorf("read Retry-After of a response with status 429: %w", err)
		}
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(time.Duration(seconds) * time.Second):
		}
		if r = r.Clone(r.Context()); r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	}
}

// as returns the installation for a client with another key and an additional header.
func (ta *target) as(key string, header http.Header) *target {
	other := *ta
	other.key, other.header = key, header
	return &other
}

// object is a decoded JSON response.
type object map[string]any

// text returns a string field, or "" if the object does not have it.
func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// number returns a number field, or 0 if the object does not have it.
func (o object) number(name string) float64 {
	n, _ := o[name].(float64)
	return n
}

// list returns the objects of a list field, or none if it is not a list.
func (o object) list(name string) []object {
	all, _ := o[name].([]any)
	out := make([]object, 0, len(all))
	for _, e := range all {
		m, _ := e.(map[string]any)
		out = append(out, m)
	}
	return out
}

// data returns the entries of a response that is a list, from its field "data".
func (o object) data(t *testing.T) []object {
	t.Helper()
	if _, ok := o["data"].([]any); !ok {
		t.Fatalf("the response is %v, want a list in \"data\"", o)
	}
	return o.list("data")
}

// ask sends a request, fails the test if the response has another status, and returns the response.
func (ta *target) ask(t *testing.T, status int, method, path, body string) object {
	t.Helper()
	got, raw, err := ta.do(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	if got != status {
		t.Fatalf("%s %s: status = %d, want %d: %s", method, path, got, status, raw)
	}
	if len(raw) == 0 {
		return nil
	}
	var out object
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s %s: decode the response: %v: %s", method, path, err, raw)
	}
	return out
}

// path returns a path below the account.
func (ta *target) path(format string, args ...any) string {
	return "/v1/accounts/" + ta.account + fmt.Sprintf(format, args...)
}

// unique returns a name that no other test and no other run uses. It has ten random digits and not the time, because
// two tests can start at the same time.
func unique(t *testing.T, name string) string {
	t.Helper()
	return fmt.Sprintf("%s-%010x", name, rand.Uint64()&0xffffffffff)
}

// files are the files of a project, by path.
type files map[string]string

// archive packs a project in the format of uploads.
func archive(t *testing.T, f files) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	a := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(f)) {
		err := a.WriteHeader(&tar.Header{Name: "./" + name, Typeflag: tar.TypeReg, Size: int64(len(f[name])), Mode: 0o644})
		if err == nil {
			_, err = io.WriteString(a, f[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(a.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// put sends an archive to an upload address, and returns the status of S3.
func (ta *target) put(t *testing.T, address string, body []byte) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := ta.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// upload requests an upload address and sends the archive there.
func (ta *target) upload(t *testing.T, project, branch string, body []byte) (statusID, address string) {
	t.Helper()
	issued := ta.ask(t, http.StatusOK, http.MethodPost, "/v1/deployments/sources",
		fmt.Sprintf(`{"accountName":%q,"projectName":%q,"branchName":%q}`, ta.account, project, branch))
	address = issued.text("uploadUrl")
	if status := ta.put(t, address, body); status != http.StatusOK {
		t.Fatalf("upload: status = %d, want 200", status)
	}
	return issued.text("deploymentId"), address
}

// buildTime is how long a client polls before it stops (contract 3.1).
const buildTime = 250 * time.Second

// awaitBuild polls a build until it has ended.
func (ta *target) awaitBuild(t *testing.T, project, statusID string) object {
	t.Helper()
	for end := time.Now().Add(buildTime); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		status := ta.ask(t, http.StatusOK, http.MethodGet, ta.path("/projects/%s/deployment-status/%s", project, statusID),
			"")
		if status.text("status") != "IN_PROGRESS" {
			return status
		}
	}
	t.Fatalf("the build %s runs for more than %s, want it ended", statusID, buildTime)
	return nil
}

// deploy uploads a project, requires that its build succeeds, and returns its URL.
func (ta *target) deploy(t *testing.T, project, branch string, f files) string {
	t.Helper()
	id, _ := ta.upload(t, project, branch, archive(t, f))
	status := ta.awaitBuild(t, project, id)
	if status.text("status") != "SUCCESS" {
		t.Fatalf("the build has ended with %v, want SUCCESS", status)
	}
	return status.text("url")
}

// resolve changes a request so that it is sent to the installation's address for deployments, with the same host name.
func (ta *target) resolve(r *http.Request) error {
	if ta.gateway == "" {
		return nil
	}
	g, err := url.Parse(ta.gateway)
	if err != nil {
		return err
	}
	u := r.URL
	r.Host = u.Host
	u.RawPath = strings.TrimSuffix(g.EscapedPath(), "/") + u.EscapedPath()
	u.Scheme, u.Host, u.Path = g.Scheme, g.Host, strings.TrimSuffix(g.Path, "/")+u.Path
	return nil
}

// call sends a request to a deployment.
func (ta *target) call(t *testing.T, method, address string, body io.Reader, header http.Header) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	if err := ta.resolve(r); err != nil {
		t.Fatal(err)
	}
	resp, err := ta.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// get calls a deployment with a consumer's key ("" for none). It returns the status and the body.
func (ta *target) get(t *testing.T, address, key string) (int, string) {
	t.Helper()
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	resp := ta.call(t, http.MethodGet, address, nil, header)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// eventually repeats a check until it succeeds. It fails the test after timeout.
func eventually(t *testing.T, description string, timeout time.Duration, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("after %s the condition is false, want: %s", timeout, description)
}
