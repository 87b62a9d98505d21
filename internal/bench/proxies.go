package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/shared/analytics/counts"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// What the client asks for, and with which key.
const (
	target = "/repos/octo/hello/issues/42?state=open"
	key    = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
)

// answerBytes is the size of the upstream's answers.
const answerBytes = 1024

// serve plays a role until its input ends.
func serve(ctx context.Context, role, address, profile string) error {
	var (
		handler http.Handler
		counted *sold
		err     error
	)
	switch role {
	case "upstream":
		handler = answers()
	case "reverse", roleReverseTLS:
		handler = load.ReverseProxy(address)
	case "gateway", roleGatewayTLS:
		handler = newGateway(ctx, address, nil)
	case rungBare, rungKey, rungLimit, rungLines, rungMetrics:
		var end func()
		if handler, end, err = rung(ctx, role, address); err != nil {
			return err
		}
		defer end()
	case "quota":
		if handler, counted, err = countingGateway(ctx, address); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s is no role", role)
	}
	if profile != "" {
		file, err := os.Create(profile) //nolint:gosec // whoever runs this chose it
		if err != nil {
			return fmt.Errorf("write a profile: %w", err)
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return fmt.Errorf("write a profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	var server load.Server = &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	if role != "upstream" && role != "reverse" && role != roleReverseTLS { // as the product serves it
		o := listen.Options{Handler: handler, Settings: config.DefaultListener(), IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler)}
		if role == roleGatewayTLS {
			o.TLS, _ = localTLS()
		}
		server = listen.New(o)
	}
	if role == roleReverseTLS {
		own, _ := localTLS()
		server = byTLS{&http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, TLSConfig: own}}
	}
	var asked map[string]func() int64
	if counted != nil {
		asked = map[string]func() int64{"items": counted.table.items.Load}
	}
	return load.Serve(ctx, server, asked)
}

func answers() http.Handler {
	body := []byte(strings.Repeat("x", answerBytes))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = w.Write(body)
	})
}

// counting counts requests as the product does, and writes what it has counted into a table in memory.
func counting(ctx context.Context) gateway.Calls {
	table := store.New(memory.New(), store.Options{Random: rand.Reader, Now: time.Now})
	c := counts.New(counts.Options{Table: table, Now: time.Now, Random: rand.Reader, Log: slog.Default()})
	go c.Run(ctx)
	return c
}

// newGateway serves the artifact, each route with a key check, and with a quota where one is sold.
func newGateway(ctx context.Context, address string, s *sold) http.Handler {
	a, config := artifact(address), gatewayConfig()
	config.Calls = counting(ctx)
	if s != nil {
		a.Policies["quota"] = project.Policy{
			Name: "quota", Type: "quota-inbound", Handler: component("quotaInbound", map[string]any{"bucketId": s.bucketID, "meters": map[string]int{"requests": 1}}),
		}
		for i := range a.Routes {
			a.Routes[i].Inbound = append(a.Routes[i].Inbound, "quota")
		}
		config.Subscriptions, config.Quotas = s.subscriptions, s.quotas
	}
	config.Deployments = one{&gateway.Deployment{Digest: "d", Artifact: a}}
	return gateway.New(config)
}

// artifact is a project of a thousand routes, each with a key check.
func artifact(address string) *project.Artifact {
	a := &project.Artifact{
		Format:   project.ArtifactFormat,
		Identity: project.Identity{AccountID: "a", Project: "bench", Environment: "production", Deployment: "bench-main-0000000", BuildID: "b"},
		Policies: map[string]project.Policy{"key": {
			Name: "key", Type: "api-key-inbound", Handler: component("apiKeyInbound", map[string]any{"bucketName": "bench"}),
		}},
	}
	forward := component("urlForwardHandler", map[string]any{"baseUrl": "http://" + address})
	for i := range 200 {
		for _, path := range []string{"/repos/{owner}/{repo}/thing%d", "/orgs/{org}/thing%d/{id}", "/users/{user}/thing%d", "/thing%d", "/thing%d/{id}/parts"} {
			a.Routes = append(a.Routes, route(fmt.Sprintf(path, i), forward))
		}
	}
	a.Routes = append(a.Routes, route("/repos/{owner}/{repo}/issues/{number}", forward))
	upload := route("/upload", forward)
	upload.Method = http.MethodPost
	a.Routes = append(a.Routes, upload)
	return a
}

// gatewayConfig is that of a gateway that everybody has a key of, without what it serves.
func gatewayConfig() gateway.Config {
	return gateway.Config{
		Keys:     policy.NewKeyCache(everybody{}, 1000, [32]byte{1}, time.Now),
		Upstream: upstream.New(upstream.Options{Guard: upstream.Guard{AllowPrivate: true}}),
		IDs:      ids.NewSource(rand.Reader, time.Now),
		Now:      time.Now,
		Log:      slog.Default(),
	}
}

func route(path string, handler project.Component) project.Route {
	return project.Route{Method: http.MethodGet, Path: path, PathMode: project.OpenAPIPath, Handler: handler, Inbound: []string{"key"}, CORSPolicy: "none"}
}

func component(export string, options any) project.Component {
	raw, err := json.Marshal(options)
	if err != nil {
		panic(err) // maps of strings always encode
	}
	return project.Component{Export: export, Module: "$import(@gatewright/runtime)", Options: raw}
}

type one struct{ deployment *gateway.Deployment }

func (o one) Resolve(context.Context, string) (*gateway.Deployment, error) { return o.deployment, nil }

type everybody struct{}

func (everybody) Verify(context.Context, policy.BucketRef, string) (policy.Identity, error) {
	return policy.Identity{Sub: "acme"}, nil
}
