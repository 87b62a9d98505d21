package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/runtime/cloud/container"
)

// processFixture is an installation that separate processes can use, with a deployment whose route has one rate limit
// for all callers.
type processFixture struct {
	*testing.T
	parts  installation.Parts
	env    []string
	binary string
	// holding receives a value for each request that the upstream holds. Each value that the test sends on the channel
	// release ends one held request.
	holding, release chan struct{}
	// upstream is the URL of the upstream. endpoint is the URL of the DynamoDB emulator.
	upstream, endpoint string
}

// heldQuery is the query of requests that the upstream holds.
const heldQuery = "held"

const processDomain = "gateway.test"

func newProcessFixture(t *testing.T, limit int) *processFixture {
	t.Helper()
	s := &processFixture{T: t, holding: make(chan struct{}, 1), release: make(chan struct{})}
	fx := functionstest.New(t).UseLiveClock()
	emulator := storetest.StartDynoxide(t, "")
	client := store.Connect(storetest.Config(), emulator.Endpoint)
	s.must(store.CreateTable(t.Context(), client, "table"))
	objects := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, object, err := fx.Objects.Get(r.Context(), strings.TrimPrefix(r.URL.Path, "/bucket/"), "", 1<<20)
		if err != nil {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		rw.Header().Set("Etag", `"`+object.ETag+`"`)
		_, _ = io.Copy(rw, body)
	}))
	t.Cleanup(objects.Close)
	key := filepath.Join(t.TempDir(), "root.key")
	s.parts = fx.Parts
	s.parts.Table, s.parts.Now, s.parts.Random = storetest.NewWithBackend(t, store.NewDynamoDB(client, "table")), time.Now,
		rand.Reader
	s.parts.IDs, s.parts.Key = ids.NewSource(rand.Reader, time.Now), seal.OpenFile(key)
	s.parts.Config.PrivateUpstreams = true
	upstreamServer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == heldQuery {
			s.holding <- struct{}{}
			<-s.release
		}
	}))
	t.Cleanup(upstreamServer.Close)
	s.upstream, s.endpoint = upstreamServer.URL, emulator.Endpoint

	limited := route("/x", upstreamServer.URL)
	limited.Inbound = []string{"limit"}
	s.deploy(shopName, &project.Artifact{
		Policies: map[string]project.Policy{"limit": {
			Name: "limit", Type: "rate-limit-inbound",
			Handler: component(
				fmt.Sprintf(`{"rateLimitBy":"all","requestsAllowed":%d,"timeWindowMinutes":525600,"mode":"strict"}`, limit)),
		}},
		Routes: []project.Route{limited},
	})

	s.env = append(os.Environ(), varAsProcess+"=yes",
		config.VarTable+"=table", config.VarBucket+"=bucket", config.VarKeyFile+"="+key, config.VarPrivateUpstreams+"=true",
		config.VarDeploymentURL+"=https://{deployment}."+processDomain, config.VarDynamoDBEndpoint+"="+emulator.Endpoint,
		config.VarS3Endpoint+"="+objects.URL,
		config.VarTLSAddr+"=127.0.0.1:0", config.VarAdminAddr+"=127.0.0.1:0", config.VarAnnounce+"=2s",
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local")
	var err error
	s.binary, err = os.Executable()
	s.must(err)
	return s
}

// component returns a component with these options. It is the handler of a route, or of a policy, for which Export does
// not matter.
func component(options string) project.Component {
	return project.Component{
		Export: "urlForwardHandler", Module: "$import(@gatewright/runtime)",
		Options: json.RawMessage(options),
	}
}

// route returns a route from a path to an upstream.
func route(path, upstreamURL string) project.Route {
	return project.Route{
		Method: http.MethodGet, Path: path, PathMode: project.OpenAPIPath,
		Handler: component(`{"baseUrl":"` + upstreamURL + `"}`), CORSPolicy: "none",
	}
}

// deploy makes gateways serve an artifact as a new deployment of the account a-1. name is the name of the deployment
// and of its project.
func (fx *processFixture) deploy(name string, a *project.Artifact) {
	fx.Helper()
	fx.deployFor("a-1", name, a)
}

func (fx *processFixture) deployFor(account, name string, a *project.Artifact) {
	fx.Helper()
	deploy(fx, fx.parts, account, name, a)
}

// deploy makes the gateways of an installation serve an artifact as a new deployment. name is the name of the
// deployment and of its project, and account is the ID of the account.
func deploy(t testing.TB, p installation.Parts, account, name string, a *project.Artifact) {
	t.Helper()
	a.Format, a.Identity = project.ArtifactFormat, project.Identity{AccountID: account, Deployment: name}
	artifact, err := artifacts.Open(p).Put(t.Context(), name, a)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Table.Commit(t.Context(),
		store.Put(deployments.Key(name), deployments.Record{
			Name: name, AccountID: account, Project: name, Branch: "main", Kind: environment.Production, Latest: 1,
			Served: &deployments.Served{Number: 1, Artifact: artifact},
		}),
		store.Put(store.ProjectKey(account, name), deployments.Project{
			ID: "p-" + name, AccountID: account,
			Name: name,
		})); err != nil {
		t.Fatal(err)
	}
}

// varAsProcess is the environment variable that makes the test binary run as a gateway process. So the process contains
// the code under test, including planted defects.
const varAsProcess = "GATEWRIGHT_TEST_AS_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(varAsProcess) == "" {
		os.Exit(m.Run())
	}
	container.Start(context.Background(), gateway.ProcessService, gateway.OpenProcess)
}

func (fx *processFixture) must(err error) {
	fx.Helper()
	if err != nil {
		fx.Fatal(err)
	}
}

// gatewayProcess is a running gateway process.
type gatewayProcess struct {
	*processFixture
	cmd            *exec.Cmd
	address, admin string
	// ready is true from the start until a test changes it. exited receives the result of the process when it ends.
	ready  atomic.Bool
	exited chan error
	// output is the standard output of the process after the log line with its admin address. Read it only after the
	// process has ended. responses is the number of requests that got a complete response.
	output    bytes.Buffer
	responses atomic.Int64
}

// requestLines returns the number of log lines of requests. Call it after the process has ended.
func (p *gatewayProcess) requestLines() int {
	return strings.Count(p.output.String(), `"msg":"request"`)
}

// start starts a gateway process, and waits until it serves requests.
func (fx *processFixture) start() *gatewayProcess {
	fx.Helper()
	p := &gatewayProcess{
		processFixture: fx, cmd: exec.CommandContext(fx.Context(), fx.binary),
		exited: make(chan error, 1),
	}
	p.cmd.Env = fx.env
	out, err := p.cmd.StdoutPipe()
	fx.must(err)
	fx.must(p.cmd.Start())
	lines := bufio.NewScanner(out)
	var lastLine string
	for p.admin == "" && lines.Scan() {
		lastLine = lines.Text()
		var line struct{ Msg, Address, Admin, Error string }
		fx.must(json.Unmarshal(lines.Bytes(), &line))
		if line.Address != "" {
			p.address = line.Address
		}
		p.admin = line.Admin
	}
	if p.admin == "" {
		fx.Fatalf("the process has ended without an admin address, want one; its last log line: %q", lastLine)
	}
	go func() {
		_, _ = io.Copy(io.MultiWriter(fx.Output(), &p.output), out)
		p.exited <- p.cmd.Wait()
	}()
	p.ready.Store(true)
	return p
}

// stop sends SIGTERM to the process, and waits until it has ended.
func (p *gatewayProcess) stop() {
	p.Helper()
	p.must(p.cmd.Process.Signal(syscall.SIGTERM))
	if err := <-p.exited; err != nil {
		p.Errorf("exit of the process: error = %v, want none", err)
	}
}

// getAdmin requests a path at the admin address. It returns the status and the body of the response. If the request
// fails, it returns 0 and the text of the error.
func (p *gatewayProcess) getAdmin(path string) (int, string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.admin+path, nil)
	p.must(err)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	p.must(err)
	return resp.StatusCode, string(body)
}

// request sends a request to the deployment, and returns the status of the response.
func (p *gatewayProcess) request(client *http.Client) (int, error) {
	return p.requestPath(client, "/x")
}

func (p *gatewayProcess) requestPath(client *http.Client, path string) (int, error) {
	return p.requestDeployment(client, shopName, path)
}

func (p *gatewayProcess) requestDeployment(client *http.Client, deployment, path string) (int, error) {
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return 0, err
	}
	r.Host = deployment + "." + processDomain
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err == nil {
		p.responses.Add(1)
	}
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}
