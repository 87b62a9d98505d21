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

	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/shared/zone"
)

// The variables that point the tests at an installation.
const (
	varAPI     = "GATEWRIGHT_SCENARIO_API"
	varKey     = "GATEWRIGHT_SCENARIO_KEY"
	varGateway = "GATEWRIGHT_SCENARIO_GATEWAY"
	varRelay   = "GATEWRIGHT_SCENARIO_RELAY"
)

// varFunctions has the product that the tests start run its functions as
// processes (`make test-lambda`).
const varFunctions = "GATEWRIGHT_FUNCTIONS"

// target is the installation under test.
type target struct {
	api     string
	gateway string // where requests to deployments are sent, "" for where their URLs lead
	// relay is where agents connect, "" for an installation without one.
	relay   string
	key     string
	account string
	client  *http.Client
	// header is sent with each request to the management API.
	header http.Header
	// records is the file that stands for the DNS, "" where custom domains are looked for in
	// the DNS itself.
	records string
	// manyGateways says that requests to a deployment may be answered by one
	// process or another.
	manyGateways bool
}

// installation is made by TestMain, once for all stories: they share it as
// users do, and none knows of the others' names.
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
	t := &target{api: strings.TrimSuffix(os.Getenv(varAPI), "/"), gateway: os.Getenv(varGateway), relay: os.Getenv(varRelay), key: os.Getenv(varKey)}
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
		t.records = filepath.Join(p.Data(), zone.Name)
	}
	t.client = &http.Client{
		Timeout: 2 * time.Minute,
		// Its own: whoever closes an httptest.Server closes all that is idle of the default one, and a deployment that is gone
		// answers on a connection that there is, but to no new handshake where its certificate was an authority's.
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
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		// The stories wait most of their time: for builds, for keys to expire.
		if err := flag.Set("test.parallel", "16"); err != nil {
			return 1, err
		}
	}
	return m.Run(), nil
}

// start builds the product, the binary that `make run` starts too, and starts it
// in a directory of its own.
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

// running is a product of the test's own, over the data below dir; what it printed is shown where
// the test fails.
func running(t *testing.T, dir string, command ...string) *instance.Instance {
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

// withoutMake gives an environment without what `make test` leaves there for makes
// below it: these are a user's.
func withoutMake(environ []string) []string {
	return append(environ, "MAKEFLAGS=", "MAKELEVEL=")
}

// repository is the checkout's folder, in which a user starts the product.
var repository = filepath.Join("..", "..")

// do makes a request to the management API.
func (in *target) do(ctx context.Context, method, path, body string) (int, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, in.api+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	maps.Copy(r.Header, in.header)
	r.Header.Set("Authorization", "Bearer "+in.key)
	out, err := patient(in.client.Do, r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = out.Body.Close() }()
	raw, err := io.ReadAll(out.Body)
	return out.StatusCode, raw, err
}

// patient sends a request to the management API until it is let in: the stories that go on at the same time share a key, which has a rate.
func patient(send func(*http.Request) (*http.Response, error), r *http.Request) (*http.Response, error) {
	for {
		out, err := send(r)
		if err != nil || out.StatusCode != http.StatusTooManyRequests {
			return out, err
		}
		_ = out.Body.Close()
		seconds, err := strconv.Atoi(out.Header.Get("Retry-After"))
		if err != nil {
			return nil, fmt.Errorf("a 429 says when to ask again: %w", err)
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

// by gives the installation as who has another key, and sends a header, sees it.
func (in *target) by(key string, header http.Header) *target {
	other := *in
	other.key, other.header = key, header
	return &other
}

// object is a decoded JSON answer.
type object map[string]any

// text gives a field's text, "" for none.
func (o object) text(name string) string {
	s, _ := o[name].(string)
	return s
}

// number gives a field's number, 0 for none.
func (o object) number(name string) float64 {
	n, _ := o[name].(float64)
	return n
}

// list gives the objects of a field, none for no list.
func (o object) list(name string) []object {
	all, _ := o[name].([]any)
	out := make([]object, 0, len(all))
	for _, e := range all {
		m, _ := e.(map[string]any)
		out = append(out, m)
	}
	return out
}

// data gives the entries of a list.
func (o object) data(t *testing.T) []object {
	t.Helper()
	if _, ok := o["data"].([]any); !ok {
		t.Fatalf("no list: %v", o)
	}
	return o.list("data")
}

// ask makes a request that has to be answered with status.
func (in *target) ask(t *testing.T, status int, method, path, body string) object {
	t.Helper()
	got, raw, err := in.do(t.Context(), method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	if got != status {
		t.Fatalf("%s %s answers %d, want %d: %s", method, path, got, status, raw)
	}
	if len(raw) == 0 {
		return nil
	}
	var out object
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%s %s: %v in %s", method, path, err, raw)
	}
	return out
}

// path is a path below the account.
func (in *target) path(format string, args ...any) string {
	return "/v1/accounts/" + in.account + fmt.Sprintf(format, args...)
}

// unique makes a name that no other test has, nor another run: ten random digits, since tests that begin together can have one time.
func unique(t *testing.T, name string) string {
	t.Helper()
	return fmt.Sprintf("%s-%010x", name, rand.Uint64()&0xffffffffff)
}

// files are a project, by path.
type files map[string]string

// archive packs a project as an upload has to be.
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

// put uploads an archive to an upload address and gives S3's status.
func (in *target) put(t *testing.T, address string, body []byte) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	out, err := in.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = out.Body.Close()
	return out.StatusCode
}

// upload asks for an address and puts the archive there.
func (in *target) upload(t *testing.T, project, branch string, body []byte) (statusID, address string) {
	t.Helper()
	issued := in.ask(t, http.StatusOK, http.MethodPost, "/v1/deployments/sources",
		fmt.Sprintf(`{"accountName":%q,"projectName":%q,"branchName":%q}`, in.account, project, branch))
	address = issued.text("uploadUrl")
	if status := in.put(t, address, body); status != http.StatusOK {
		t.Fatalf("the upload is answered with %d", status)
	}
	return issued.text("deploymentId"), address
}

// buildTime is how long a client polls before it gives up (contract 3.1).
const buildTime = 250 * time.Second

// built polls a build until it has ended.
func (in *target) built(t *testing.T, project, statusID string) object {
	t.Helper()
	for end := time.Now().Add(buildTime); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		status := in.ask(t, http.StatusOK, http.MethodGet, in.path("/projects/%s/deployment-status/%s", project, statusID), "")
		if status.text("status") != "IN_PROGRESS" {
			return status
		}
	}
	t.Fatalf("the build %s has not ended", statusID)
	return nil
}

// deploy uploads a project whose build has to succeed and gives its URL.
func (in *target) deploy(t *testing.T, project, branch string, f files) string {
	t.Helper()
	id, _ := in.upload(t, project, branch, archive(t, f))
	status := in.built(t, project, id)
	if status.text("status") != "SUCCESS" {
		t.Fatalf("the build fails: %v", status)
	}
	return status.text("url")
}

// aim sends a request to a deployment where the installation takes those, whatever its host.
func (in *target) aim(r *http.Request) error {
	if in.gateway == "" {
		return nil
	}
	g, err := url.Parse(in.gateway)
	if err != nil {
		return err
	}
	u := r.URL
	r.Host = u.Host
	u.RawPath = strings.TrimSuffix(g.EscapedPath(), "/") + u.EscapedPath()
	u.Scheme, u.Host, u.Path = g.Scheme, g.Host, strings.TrimSuffix(g.Path, "/")+u.Path
	return nil
}

// call makes a request to a deployment.
func (in *target) call(t *testing.T, method, address string, body io.Reader, header http.Header) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, body)
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(r.Header, header)
	if err := in.aim(r); err != nil {
		t.Fatal(err)
	}
	out, err := in.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Body.Close() })
	return out
}

// get calls a deployment with a consumer's key ("" for none) and gives the
// status and the body.
func (in *target) get(t *testing.T, address, key string) (int, string) {
	t.Helper()
	header := http.Header{}
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	out := in.call(t, http.MethodGet, address, nil, header)
	body, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return out.StatusCode, string(body)
}

// eventually repeats a check until it holds, within a bound that only a defect
// reaches.
func eventually(t *testing.T, what string, within time.Duration, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("after %s it still does not hold that %s", within, what)
}
