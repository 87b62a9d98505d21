package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/analytics/counts"
)

// The path and the key in the requests of keyedLoad.
const (
	target = "/repos/octo/hello/issues/42?state=open"
	key    = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
)

// childCommand is the first argument of a child process of this program. The arguments after it are the role, the address of the upstream,
// and a file for a CPU profile.
const childCommand = "child"

// The roles of child processes. The rungs of ladder.go are roles too.
const (
	roleUpstream   = "upstream"
	roleReverse    = "reverse"
	roleReverseTLS = "reverse-tls"
	roleGateway    = "gateway"
	roleGatewayTLS = "gateway-tls"
	roleQuota      = "quota"
)

// itemsPath is the path at which the gateway with a quota returns how many items it has written.
const itemsPath = "/.items"

// runRole serves a role until the standard input of the process ends.
func runRole(ctx context.Context, arguments []string) error {
	arguments = append(arguments, "", "", "") // a missing argument is ""
	role, upstream, profile := arguments[0], arguments[1], arguments[2]
	handler, end, err := newHandler(ctx, role, upstream)
	if err != nil {
		return err
	}
	defer end()
	if profile != "" {
		file, err := os.Create(profile) //nolint:gosec // G304: the user of the command chose the file
		if err != nil {
			return fmt.Errorf("write a profile: %w", err)
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("write a profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	return load.Serve(ctx, newServer(role, handler))
}

// newHandler returns the handler of a role, and a function that frees its resources.
func newHandler(ctx context.Context, role, upstream string) (handler http.Handler, end func(), err error) {
	end = func() {}
	switch role {
	case roleUpstream:
		return fixture.Handler(nil), end, nil
	case roleReverse, roleReverseTLS:
		return load.ReverseProxy(upstream), end, nil
	case roleGateway, roleGatewayTLS:
		return newGateway(ctx, upstream, nil), end, nil
	case roleQuota:
		handler, err = countingGateway(ctx, upstream)
		return handler, end, err
	}
	if slices.Contains(rungs(), role) {
		return rung(ctx, role, upstream)
	}
	return nil, nil, fmt.Errorf("%s is not a role", role)
}

// newServer returns the server of a role: the product's own server for gateways, and net/http's server for other roles.
func newServer(role string, handler http.Handler) load.Server {
	plain := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	switch role {
	case roleUpstream, roleReverse:
		return plain
	case roleReverseTLS:
		plain.TLSConfig, _ = localTLS()
		return tlsServer{plain}
	}
	o := listen.Options{
		Handler: handler, Settings: config.DefaultListener(), IDs: ids.NewSource(rand.Reader, time.Now),
		Log: slog.New(slog.DiscardHandler),
	}
	if role == roleGatewayTLS {
		o.TLS, _ = localTLS()
	}
	return listen.New(o)
}

// localTLS returns the TLS settings of a server and of its clients, with the certificate of package httptest for 127.0.0.1.
func localTLS() (server, client *tls.Config) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	server = &tls.Config{
		Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"},
		MinVersion: tls.VersionTLS13,
	}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return server, &tls.Config{RootCAs: roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS13}
}

// tlsServer is net/http's server with TLS.
type tlsServer struct{ *http.Server }

// Serve implements load.Server.
func (s tlsServer) Serve(l net.Listener) error { return s.ServeTLS(l, "", "") }

// newCalls returns a counter that counts requests as the product does, and writes the counts to a table in memory.
func newCalls(ctx context.Context) gateway.Calls {
	table := store.New(memory.New(), store.Options{Random: rand.Reader, Now: time.Now})
	c := counts.New(counts.Options{Table: table, Now: time.Now, Random: rand.Reader, Log: slog.Default()})
	go c.Run(ctx)
	return c
}

// newGateway returns a gateway with the routes of artifact, each with a key check. If s is not nil, each route also has a quota.
func newGateway(ctx context.Context, address string, s *soldQuotas) http.Handler {
	a, config := artifact(address), gatewayConfig()
	config.Calls = newCalls(ctx)
	if s != nil {
		a.Policies["quota"] = project.Policy{
			Name: "quota", Type: "quota-inbound",
			Handler: component("quotaInbound", map[string]any{"bucketId": s.bucketID, "meters": map[string]int{"requests": 1}}),
		}
		for i := range a.Routes {
			a.Routes[i].Inbound = append(a.Routes[i].Inbound, "quota")
		}
		config.Subscriptions, config.Quotas = s.subscriptions, s.quotas
	}
	config.Deployments = singleDeployment{&gateway.Deployment{Digest: "d", Artifact: a}}
	return gateway.New(config)
}

// artifact returns a project of 1,002 routes, each with a key check.
func artifact(address string) *project.Artifact {
	a := &project.Artifact{
		Format: project.ArtifactFormat,
		Identity: project.Identity{
			AccountID: "a", Project: "bench", Environment: "production",
			Deployment: "bench-main-0000000", BuildID: "b",
		},
		Policies: map[string]project.Policy{"key": {
			Name: "key", Type: "api-key-inbound", Handler: component("apiKeyInbound", map[string]any{"bucketName": "bench"}),
		}},
	}
	forward := component("urlForwardHandler", map[string]any{"baseUrl": "http://" + address})
	for i := range 200 {
		for _, path := range []string{
			"/repos/{owner}/{repo}/thing%d", "/orgs/{org}/thing%d/{id}", "/users/{user}/thing%d",
			"/thing%d", "/thing%d/{id}/parts",
		} {
			a.Routes = append(a.Routes, route(fmt.Sprintf(path, i), forward))
		}
	}
	a.Routes = append(a.Routes, route("/repos/{owner}/{repo}/issues/{number}", forward))
	upload := route("/upload", forward)
	upload.Method = http.MethodPost
	a.Routes = append(a.Routes, upload)
	return a
}

// gatewayConfig returns the configuration of a gateway that accepts every key. It contains no deployments.
func gatewayConfig() gateway.Config {
	return gateway.Config{
		Keys:     policy.NewKeyCache(allowAll{}, 1000, [32]byte{1}, time.Now),
		Upstream: upstream.New(upstream.Options{Guard: upstream.Guard{AllowPrivate: true}}),
		IDs:      ids.NewSource(rand.Reader, time.Now),
		Now:      time.Now,
		Log:      slog.Default(),
	}
}

func route(path string, handler project.Component) project.Route {
	return project.Route{
		Method: http.MethodGet, Path: path, PathMode: project.OpenAPIPath, Handler: handler,
		Inbound: []string{"key"}, CORSPolicy: "none",
	}
}

func component(export string, options any) project.Component {
	raw, err := json.Marshal(options)
	if err != nil {
		panic(err) // maps of strings always encode
	}
	return project.Component{Export: export, Module: "$import(@gatewright/runtime)", Options: raw}
}

// singleDeployment resolves all hosts to the same deployment.
type singleDeployment struct{ deployment *gateway.Deployment }

func (d singleDeployment) Resolve(context.Context, string) (*gateway.Deployment, error) {
	return d.deployment, nil
}

// allowAll accepts every key.
type allowAll struct{}

func (allowAll) Verify(context.Context, policy.BucketRef, string) (policy.KeyOwner, error) {
	return policy.KeyOwner{Sub: "acme"}, nil
}
