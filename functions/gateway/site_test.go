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
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/cloud/container"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// site is an installation that processes of their own can open, with a deployment whose
// route has a strict limit for all.
type site struct {
	*testing.T
	parts  installation.Parts
	env    []string
	binary string
	// held is sent to for each request that the upstream holds, until released is.
	held, released chan struct{}
	// upstream is its address, endpoint the emulator's of DynamoDB.
	upstream, endpoint string
}

// held is the query of a request that the upstream holds.
const held = "held"

const processDomain = "gateway.test"

func newSite(t *testing.T, limit int) *site {
	t.Helper()
	s := &site{T: t, held: make(chan struct{}, 1), released: make(chan struct{})}
	w := functionstest.New(t).Live()
	emulator := storetest.StartDynoxide(t, "")
	client := store.Connect(storetest.Config(), emulator.Endpoint)
	s.must(store.CreateTable(t.Context(), client, "table"))
	objects := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, object, err := w.Objects.Get(r.Context(), strings.TrimPrefix(r.URL.Path, "/bucket/"), "", 1<<20)
		if err != nil {
			out.WriteHeader(http.StatusNotFound)
			return
		}
		out.Header().Set("Etag", `"`+object.ETag+`"`)
		_, _ = io.Copy(out, body)
	}))
	t.Cleanup(objects.Close)
	key := filepath.Join(t.TempDir(), "root.key")
	s.parts = w.Parts
	s.parts.Table, s.parts.Now, s.parts.Random = storetest.Over(t, store.NewDynamoDB(client, "table")), time.Now, rand.Reader
	s.parts.IDs, s.parts.Key = ids.NewSource(rand.Reader, time.Now), seal.OpenFile(key)
	s.parts.Config.PrivateUpstreams = true
	up := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery == held {
			s.held <- struct{}{}
			<-s.released
		}
	}))
	t.Cleanup(up.Close)
	s.upstream, s.endpoint = up.URL, emulator.Endpoint

	limited := route("/x", up.URL)
	limited.Inbound = []string{"limit"}
	s.deploy(shopName, &project.Artifact{
		Policies: map[string]project.Policy{"limit": {
			Name: "limit", Type: "rate-limit-inbound", Handler: component(fmt.Sprintf(`{"rateLimitBy":"all","requestsAllowed":%d,"timeWindowMinutes":525600,"mode":"strict"}`, limit)),
		}},
		Routes: []project.Route{limited},
	})

	s.env = append(os.Environ(), asProcess+"=yes",
		config.VarTable+"=table", config.VarBucket+"=bucket", config.VarKeyFile+"="+key, config.VarPrivateUpstreams+"=true",
		config.VarDeploymentURL+"=https://{deployment}."+processDomain, config.VarDynamoDBEndpoint+"="+emulator.Endpoint, config.VarS3Endpoint+"="+objects.URL,
		config.VarTLSAddr+"=127.0.0.1:0", config.VarAdminAddr+"=127.0.0.1:0", config.VarAnnounce+"=2s",
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local")
	var err error
	s.binary, err = os.Executable()
	s.must(err)
	return s
}

func component(options string) project.Component {
	return project.Component{Export: "urlForwardHandler", Module: "$import(@gatewright/runtime)", Options: json.RawMessage(options)}
}

// route leads from a path to an upstream.
func route(path, to string) project.Route {
	return project.Route{Method: http.MethodGet, Path: path, PathMode: project.OpenAPIPath, Handler: component(`{"baseUrl":"` + to + `"}`), CORSPolicy: "none"}
}

// deploy serves an artifact by a name that nobody has asked for.
func (s *site) deploy(name string, a *project.Artifact) {
	s.Helper()
	s.deployFor("a-1", name, a)
}

func (s *site) deployFor(account, name string, a *project.Artifact) {
	s.Helper()
	deploy(s, s.parts, account, name, a)
}

// deploy serves an artifact of an account, in an installation, by a name that nobody has asked for.
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
		store.Put(store.ProjectKey(account, name), deployments.Project{ID: "p-" + name, AccountID: account, Name: name})); err != nil {
		t.Fatal(err)
	}
}

// asProcess has the tests' own binary be the process: it is built of what is tested, planted
// defects too.
const asProcess = "GATEWRIGHT_TEST_AS_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) == "" {
		os.Exit(m.Run())
	}
	container.Start(context.Background(), gateway.Beside, gateway.OpenProcess)
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// running is a gateway process.
type running struct {
	*site
	cmd            *exec.Cmd
	address, admin string
	ready          atomic.Bool
	ended          chan error
	// output is what it has printed, once it has ended, and answered are requests that were.
	output   bytes.Buffer
	answered atomic.Int64
}

// lines are those of requests, once it has ended.
func (p *running) lines() int { return strings.Count(p.output.String(), `"msg":"request"`) }

// start starts one, and returns when it serves.
func (s *site) start() *running {
	s.Helper()
	p := &running{site: s, cmd: exec.CommandContext(s.Context(), s.binary), ended: make(chan error, 1)}
	p.cmd.Env = s.env
	out, err := p.cmd.StdoutPipe()
	s.must(err)
	s.must(p.cmd.Start())
	lines := bufio.NewScanner(out)
	for p.admin == "" && lines.Scan() {
		var line struct{ Msg, Address, Admin, Error string }
		s.must(json.Unmarshal(lines.Bytes(), &line))
		if line.Address != "" {
			p.address = line.Address
		}
		p.admin = line.Admin
	}
	if p.admin == "" {
		s.Fatalf("it does not listen: %s", lines.Text())
	}
	go func() {
		_, _ = io.Copy(io.MultiWriter(s.Output(), &p.output), out)
		p.ended <- p.cmd.Wait()
	}()
	p.ready.Store(true)
	return p
}

// stop has it end, and waits until it has.
func (p *running) stop() {
	p.Helper()
	p.must(p.cmd.Process.Signal(syscall.SIGTERM))
	if err := <-p.ended; err != nil {
		p.Errorf("it ends with %v", err)
	}
}

// get asks at a path of the address for operators.
func (p *running) get(path string) (int, string) {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.admin+path, nil)
	p.must(err)
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = out.Body.Close() }()
	body, err := io.ReadAll(out.Body)
	p.must(err)
	return out.StatusCode, string(body)
}

// ask asks for the deployment, and gives the status.
func (p *running) ask(client *http.Client) (int, error) { return p.askFor(client, "/x") }

func (p *running) askFor(client *http.Client, path string) (int, error) {
	return p.askOf(client, shopName, path)
}

func (p *running) askOf(client *http.Client, deployment, path string) (int, error) {
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.address+path, nil)
	if err != nil {
		return 0, err
	}
	r.Host = deployment + "." + processDomain
	out, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, out.Body)
	if err == nil {
		p.answered.Add(1)
	}
	return out.StatusCode, errors.Join(err, out.Body.Close())
}
