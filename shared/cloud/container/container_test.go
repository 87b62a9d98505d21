package container

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/release"
	"github.com/gatewright/gatewright/shared/service"
)

const listenAt = config.VarRelayAddr

func declared() service.Service {
	return service.Service{
		Name: "echo", Does: "Answers.", Port: service.Port{Public: 443, Listens: 8443, Protocol: service.TLS},
		Health: "/health", Copies: 2, Drain: time.Minute, Uses: []api.Use{api.GetItem},
		Listen: listenAt, Certificate: config.VarRelayCertificate,
	}
}

// task is the environment of a task of ECS beside an emulator.
func task(changes map[string]string) func(string) string {
	env := map[string]string{
		config.VarTable: "the-table", config.VarBucket: "the-bucket", config.VarKMSKey: "a-key",
		config.VarDeploymentURL: "https://{deployment}.apis.example.com",
		"AWS_REGION":            "eu-west-1", "AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret",
		listenAt: "127.0.0.1:0",
	}
	maps.Copy(env, changes)
	return func(name string) string { return env[name] }
}

// echo is a service's process that says its address and what has happened to it.
type echo struct {
	address            string
	draining, drained  chan struct{}
	running, endedLast chan struct{}
}

func newEcho() *echo {
	return &echo{draining: make(chan struct{}), drained: make(chan struct{}), running: make(chan struct{}), endedLast: make(chan struct{})}
}

func (e *echo) ServeHTTP(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, e.address) }

func (e *echo) Run(ctx context.Context) {
	close(e.running)
	<-ctx.Done()
	select {
	case <-e.drained:
		close(e.endedLast)
	default:
	}
}

func (e *echo) Drain(context.Context) {
	close(e.draining)
	<-e.drained
}

// started runs the service, and gives where it listens.
func started(t *testing.T, e *echo, getenv func(string) string) (origin string, stop func() error) {
	t.Helper()
	return startedAs(t, e, e, getenv)
}

func startedAs(t *testing.T, e *echo, process service.Process, getenv func(string) string) (origin string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log, lines := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, declared(), func(_ installation.Parts, address string) (service.Process, error) {
			e.address = address
			return process, nil
		}, nil, getenv, lines)
		_ = lines.CloseWithError(fmt.Errorf("the service has ended: %w", errors.Join(err, io.EOF)))
		ended <- err
	}()
	t.Cleanup(cancel)
	var line struct {
		Address, Version string
		TLS              bool
	}
	for scanner := bufio.NewReader(log); line.Address == ""; {
		text, err := scanner.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatal(err)
		}
	}
	if line.Version != release.Version() {
		t.Errorf("the log of a start has the version %q, want %q", line.Version, release.Version())
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	origin = "http://" + line.Address
	if line.TLS {
		origin = "https://" + line.Address
	}
	return origin, func() error {
		cancel()
		return <-ended
	}
}

func ask(t *testing.T, client *http.Client, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Body.Close() }()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestServiceIsAskedUntilItHasDrained: what is under way has to be carried, and a
// load balancer told, after the signal too. What runs beside it ends last.
func TestServiceIsAskedUntilItHasDrained(t *testing.T) {
	e := newEcho()
	origin, stop := started(t, e, task(map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}))
	<-e.running
	if got := ask(t, http.DefaultClient, origin+"/x"); got != "" {
		t.Errorf("outside ECS its copies reach it at %q", got)
	}
	ended := make(chan error, 1)
	go func() { ended <- stop() }()
	<-e.draining
	if got := ask(t, http.DefaultClient, origin+"/health"); got != "" {
		t.Errorf("while it drains it answers %q", got)
	}
	select {
	case err := <-ended:
		t.Fatalf("it has ended before it has drained: %v", err)
	default:
	}
	close(e.drained)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-e.endedLast
}

// TestTLSEndsInTheProcess with what the platform has put into one variable, and copies
// are told the address that ECS names.
func TestTLSEndsInTheProcess(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"DockerId":"x","Networks":[{"NetworkMode":"awsvpc","IPv4Addresses":["10.0.2.106"]}]}`)
	}))
	defer metadata.Close()
	ca := pkitest.CA(t, "CA", time.Now())
	server := ca.Server(t, time.Now())
	e := newEcho()
	close(e.drained)
	origin, stop := started(t, e, task(map[string]string{
		config.VarRelayCertificate: server.PEM() + server.KeyPEM(t), varMetadata: metadata.URL,
	}))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS13}}
	defer transport.CloseIdleConnections()
	if got := ask(t, &http.Client{Transport: transport}, origin+"/x"); got != "https://10.0.2.106:8443" {
		t.Errorf("its copies reach it at %q", got)
	}
	if !strings.HasPrefix(origin, "https:") {
		t.Errorf("it is at %s", origin)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// TestServiceThatCannotBeIsRefused before it listens, by the variable and without its value.
func TestServiceThatCannotBeIsRefused(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	nameless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"Networks":[]}`) }))
	defer nameless.Close()
	one, other := pkitest.CA(t, "CA", time.Now()), pkitest.CA(t, "another", time.Now())
	good := one.PEM() + one.KeyPEM(t)
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"no certificate":     {nil, config.VarRelayCertificate},
		"no PEM":             {map[string]string{config.VarRelayCertificate: "a-secret"}, config.VarRelayCertificate},
		"no key":             {map[string]string{config.VarRelayCertificate: one.PEM()}, config.VarRelayCertificate},
		"another's key":      {map[string]string{config.VarRelayCertificate: one.PEM() + other.KeyPEM(t)}, config.VarRelayCertificate},
		"no table":           {map[string]string{config.VarTable: ""}, config.VarTable},
		"a name misspelt":    {map[string]string{config.VarRelayCertificate: good, "GATEWRIGHT_CONNECTION": "a-secret"}, "did you mean GATEWRIGHT_CONNECTIONS?"},
		"no region":          {map[string]string{"AWS_REGION": ""}, "AWS_REGION"},
		"a bound":            {map[string]string{config.VarRelayCertificate: good, config.VarHeaderBytes: "a-secret"}, config.VarHeaderBytes},
		"no metadata":        {map[string]string{config.VarRelayCertificate: good, varMetadata: gone.URL}, "404"},
		"no address":         {map[string]string{config.VarRelayCertificate: good, varMetadata: nameless.URL}, "names none"},
		"a port's name":      {map[string]string{config.VarRelayCertificate: good, listenAt: "127.0.0.1:http-alt"}, listenAt},
		"no address's text":  {map[string]string{config.VarRelayCertificate: good, listenAt: "a-secret"}, listenAt},
		"a port that is not": {map[string]string{config.VarRelayCertificate: good, listenAt: "127.0.0.1:99999"}, listenAt},
	} {
		var environ []string
		for name, value := range c.env {
			environ = append(environ, name+"="+value)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := run(ctx, declared(), func(installation.Parts, string) (service.Process, error) {
			cancel() // it has come too far
			e := newEcho()
			close(e.drained)
			return e, nil
		}, environ, task(c.env), io.Discard)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "a-secret") {
			t.Errorf("%s: error %v, want one with %s", name, err, c.want)
		}
	}
}

// TestCredentialsAreThoseOfTheTask, and are asked for again before they expire.
func TestCredentialsAreThoseOfTheTask(t *testing.T) {
	asked := 0
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/v2/credentials/the-task" {
			t.Errorf("asked is %s", r.URL)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"AccessKeyId": fmt.Sprintf("id-%d", asked), "SecretAccessKey": "a-secret", "Token": "a-token",
			"Expiration": time.Now().Add(2 * time.Minute), // which is too near
		})
	}))
	defer agent.Close()
	by := credentials(agent.URL, func(name string) string {
		return map[string]string{varCredentials: "/v2/credentials/the-task"}[name]
	})
	for i := range 2 {
		got, err := by.Retrieve(t.Context())
		if want := fmt.Sprintf("id-%d", i+1); err != nil || got.AccessKeyID != want || got.SessionToken != "a-token" {
			t.Errorf("credentials %q of %q (%v), want %q", got.AccessKeyID, got.Source, err, want)
		}
	}
	if credentials(agent.URL, func(string) string { return "" }) != nil {
		t.Error("a process beside an emulator asks for a task's credentials")
	}
}

// TestLoadBalancerIsNoClient: all connections come from its few addresses.
func TestLoadBalancerIsNoClient(t *testing.T) {
	for text, want := range map[string]int{"": 0, "7": 7} {
		got, err := settingsOf(func(name string) string {
			return map[string]string{config.VarConnectionsPerAddress: text}[name]
		})
		if err != nil || got.ConnectionsPerAddress != want {
			t.Errorf("%q: %d connections of an address (%v), want %d", text, got.ConnectionsPerAddress, err, want)
		}
	}
}
