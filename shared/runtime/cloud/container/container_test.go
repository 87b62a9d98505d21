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

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/service"
)

const listenVariable = config.VarRelayAddr

func testService() service.Service {
	return service.Service{
		Name: "echo", Description: "Answers.", Port: service.Port{Public: 443, Listen: 8443, Protocol: service.TLS},
		Health: "/health", Copies: 2, Drain: time.Minute, Uses: []api.Use{api.GetItem},
		Listen: listenVariable, Certificate: config.VarRelayCertificate,
	}
}

// taskEnv returns the environment of an ECS task that uses an emulator.
func taskEnv(changes map[string]string) func(string) string {
	env := map[string]string{
		config.VarTable: "the-table", config.VarBucket: "the-bucket", config.VarKMSKey: "a-key",
		config.VarDeploymentURL: "https://{deployment}.apis.example.com",
		"AWS_REGION":            "eu-west-1", "AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret",
		listenVariable: "127.0.0.1:0",
	}
	maps.Copy(env, changes)
	return func(name string) string { return env[name] }
}

// echo is a service's process that responds with its address. It closes running and draining when Run and Drain begin.
// Drain returns when the test closes drained. If Run ends after that, it closes runEndedLast.
type echo struct {
	address               string
	draining, drained     chan struct{}
	running, runEndedLast chan struct{}
}

func newEcho() *echo {
	return &echo{
		draining: make(chan struct{}), drained: make(chan struct{}), running: make(chan struct{}),
		runEndedLast: make(chan struct{}),
	}
}

func (e *echo) ServeHTTP(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, e.address) }

func (e *echo) Run(ctx context.Context) {
	close(e.running)
	<-ctx.Done()
	select {
	case <-e.drained:
		close(e.runEndedLast)
	default:
	}
}

func (e *echo) Drain(context.Context) {
	close(e.draining)
	<-e.drained
}

// startEcho runs the service with the process e, and returns the origin
// of its listener. stop ends the service and returns the error of run.
func startEcho(t *testing.T, e *echo, getenv func(string) string) (origin string, stop func() error) {
	t.Helper()
	return startProcess(t, e, e, getenv)
}

// startProcess is like startEcho, and runs the service with a process that embeds e.
func startProcess(
	t *testing.T, e *echo, process service.Process, getenv func(string) string,
) (origin string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log, logWriter := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(ctx, testService(), func(_ installation.Parts, address string) (service.Process, error) {
			e.address = address
			return process, nil
		}, nil, getenv, logWriter)
		_ = logWriter.CloseWithError(fmt.Errorf("the service has ended: %w", errors.Join(err, io.EOF)))
		done <- err
	}()
	t.Cleanup(cancel)
	var line struct {
		Address, Version string
		TLS              bool
	}
	for reader := bufio.NewReader(log); line.Address == ""; {
		text, err := reader.ReadBytes('\n')
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
		return <-done
	}
}

func getBody(t *testing.T, client *http.Client, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestServiceServesUntilItHasDrained checks that the process still
// serves requests while it drains, and that its Run ends after Drain.
func TestServiceServesUntilItHasDrained(t *testing.T) {
	e := newEcho()
	origin, stop := startEcho(t, e, taskEnv(map[string]string{"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}))
	<-e.running
	if got := getBody(t, http.DefaultClient, origin+"/x"); got != "" {
		t.Errorf("origin for copies outside ECS = %q, want none", got)
	}
	stopErr := make(chan error, 1)
	go func() { stopErr <- stop() }()
	<-e.draining
	if got := getBody(t, http.DefaultClient, origin+"/health"); got != "" {
		t.Errorf("GET /health while it drains = %q, want an empty body", got)
	}
	select {
	case err := <-stopErr:
		t.Fatalf("the service stops before it has drained: %v, want it to wait", err)
	default:
	}
	close(e.drained)
	if err := <-stopErr; err != nil {
		t.Errorf("run() error after the drain = %v, want none", err)
	}
	<-e.runEndedLast
}

// TestProcessTerminatesTLS checks that the process serves TLS with the certificate of the variable. The address for
// other copies is the address that ECS reports.
func TestProcessTerminatesTLS(t *testing.T) {
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"DockerId":"x","Networks":[{"NetworkMode":"awsvpc","IPv4Addresses":["10.0.2.106"]}]}`)
	}))
	defer metadata.Close()
	ca := pkitest.CA(t, "CA", time.Now())
	server := ca.Server(t, time.Now())
	e := newEcho()
	close(e.drained)
	origin, stop := startEcho(t, e, taskEnv(map[string]string{
		config.VarRelayCertificate: server.PEM() + server.KeyPEM(t), varMetadata: metadata.URL,
	}))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS13}}
	defer transport.CloseIdleConnections()
	if got := getBody(t, &http.Client{Transport: transport}, origin+"/x"); got != "https://10.0.2.106:8443" {
		t.Errorf("origin for copies = %q, want https://10.0.2.106:8443", got)
	}
	if !strings.HasPrefix(origin, "https:") {
		t.Errorf("origin = %s, want https", origin)
	}
	if err := stop(); err != nil {
		t.Errorf("run() error = %v, want none", err)
	}
}

// TestInvalidSettingIsRefused checks that an invalid setting is an error before the service opens. The error names the
// variable or the cause, and does not contain the value.
func TestInvalidSettingIsRefused(t *testing.T) {
	missing := httptest.NewServer(http.NotFoundHandler())
	defer missing.Close()
	withoutAddress := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"Networks":[]}`)
	}))
	defer withoutAddress.Close()
	cert, otherCert := pkitest.CA(t, "CA", time.Now()), pkitest.CA(t, "another", time.Now())
	good := cert.PEM() + cert.KeyPEM(t)
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"no certificate": {nil, config.VarRelayCertificate},
		"no PEM":         {map[string]string{config.VarRelayCertificate: "a-secret"}, config.VarRelayCertificate},
		"no key":         {map[string]string{config.VarRelayCertificate: cert.PEM()}, config.VarRelayCertificate},
		"the key of another certificate": {
			map[string]string{config.VarRelayCertificate: cert.PEM() + otherCert.KeyPEM(t)},
			config.VarRelayCertificate,
		},
		"no table": {map[string]string{config.VarTable: ""}, config.VarTable},
		"a misspelled name": {
			map[string]string{config.VarRelayCertificate: good, "GATEWRIGHT_CONNECTION": "a-secret"},
			"did you mean GATEWRIGHT_CONNECTIONS?",
		},
		"no region": {map[string]string{"AWS_REGION": ""}, "AWS_REGION"},
		"an invalid limit": {
			map[string]string{config.VarRelayCertificate: good, config.VarHeaderBytes: "a-secret"},
			config.VarHeaderBytes,
		},
		"no metadata": {map[string]string{config.VarRelayCertificate: good, varMetadata: missing.URL}, "404"},
		"metadata without an address": {
			map[string]string{config.VarRelayCertificate: good, varMetadata: withoutAddress.URL},
			"names none",
		},
		"a port's name": {
			map[string]string{config.VarRelayCertificate: good, listenVariable: "127.0.0.1:http-alt"},
			listenVariable,
		},
		"an invalid address": {
			map[string]string{config.VarRelayCertificate: good, listenVariable: "a-secret"},
			listenVariable,
		},
		"a port out of range": {
			map[string]string{config.VarRelayCertificate: good, listenVariable: "127.0.0.1:99999"},
			listenVariable,
		},
	} {
		var environ []string
		for name, value := range c.env {
			environ = append(environ, name+"="+value)
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := run(ctx, testService(), func(installation.Parts, string) (service.Process, error) {
			cancel() // the invalid setting was not detected: end the service
			e := newEcho()
			close(e.drained)
			return e, nil
		}, environ, taskEnv(c.env), io.Discard)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "a-secret") {
			t.Errorf("%s: run() = %v, want an error with %s", name, err, c.want)
		}
	}
}

// TestTaskCredentialsAreRefreshed checks that credentials are requested again before they expire.
func TestTaskCredentialsAreRefreshed(t *testing.T) {
	requests := 0
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if r.URL.Path != "/v2/credentials/the-task" {
			t.Errorf("request %s, want /v2/credentials/the-task", r.URL)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"AccessKeyId": fmt.Sprintf("id-%d", requests), "SecretAccessKey": "a-secret", "Token": "a-token",
			"Expiration": time.Now().Add(2 * time.Minute), // so soon that each Retrieve requests them again
		})
	}))
	defer agent.Close()
	provider := credentials(agent.URL, func(name string) string {
		return map[string]string{varCredentials: "/v2/credentials/the-task"}[name]
	})
	for i := range 2 {
		got, err := provider.Retrieve(t.Context())
		if want := fmt.Sprintf("id-%d", i+1); err != nil || got.AccessKeyID != want || got.SessionToken != "a-token" {
			t.Errorf("Retrieve() = %q from %q, %v, want %q with the token a-token", got.AccessKeyID, got.Source, err, want)
		}
	}
	if credentials(agent.URL, func(string) string { return "" }) != nil {
		t.Error("credentials(no task) = a provider, want nil")
	}
}

// TestConnectionsPerAddressAreUnlimitedByDefault checks that connections per address are limited
// only if the variable is set, because all connections come from the load balancer's few addresses.
func TestConnectionsPerAddressAreUnlimitedByDefault(t *testing.T) {
	for text, want := range map[string]int{"": 0, "7": 7} {
		got, err := listenerSettings(func(name string) string {
			return map[string]string{config.VarConnectionsPerAddress: text}[name]
		})
		if err != nil || got.ConnectionsPerAddress != want {
			t.Errorf("listenerSettings(%q) = %d connections per address, %v, want %d",
				text, got.ConnectionsPerAddress, err, want)
		}
	}
}
