package gateway_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// tunneledServices sends requests to services behind tunnels through a relay in this process.
type tunneledServices struct {
	directory *tunnels.Directory
	relay     *tunnel.Relay
}

var _ upstream.Services = tunneledServices{}

// RoundTrip implements upstream.Services. It repeats the request until the agent has connected.
func (s tunneledServices) RoundTrip(
	r *http.Request, accountID, service string, c tunnel.Caller,
) (*http.Response, error) {
	ref, err := s.directory.Find(r.Context(), accountID, service, c)
	if err != nil {
		return nil, err
	}
	for {
		response, err := s.relay.RoundTrip(r, ref, service, c)
		if !errors.Is(err, tunnel.ErrNoAgent) || r.Context().Err() != nil {
			return response, err
		}
		time.Sleep(time.Millisecond)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// deployStock deploys a project that forwards requests to the service Stock.
func deployStock(t *testing.T, p installation.Parts, accountID, name string, kind environment.Kind) {
	t.Helper()
	options, err := json.Marshal(map[string]string{"baseUrl": "service://Stock/v1"})
	must(t, err)
	deploymentName := name + "-main-0123abc"
	artifact, err := artifacts.Open(p).Put(t.Context(), deploymentName, &project.Artifact{
		Format: project.ArtifactFormat, Identity: project.Identity{
			AccountID: accountID, Project: name,
			Environment: string(kind), Deployment: deploymentName,
		},
		Routes: []project.Route{{
			Method: http.MethodGet, Path: "/items/{id}", PathMode: project.OpenAPIPath, CORSPolicy: "none",
			Handler: project.Component{Export: "urlForwardHandler", Module: "$import(@gatewright/runtime)", Options: options},
		}},
	})
	must(t, err)
	must(t, p.Table.Commit(t.Context(),
		store.Put(deployments.Key(deploymentName), deployments.Record{
			Name: deploymentName, AccountID: accountID, Project: name, Branch: "main", Kind: kind, Latest: 1,
			Served: &deployments.Served{Number: 1, Artifact: artifact},
		}),
		store.Put(store.ProjectKey(accountID, name), deployments.Project{ID: "p-" + name, AccountID: accountID, Name: name})))
}

// openTunnel creates a tunnel to the service Stock at an endpoint, for the production environments of two projects. It
// returns the token for the tunnel's agent.
func openTunnel(t *testing.T, p installation.Parts, endpoint string) string {
	t.Helper()
	owner := auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}
	requestCtx := func() context.Context {
		return store.WithReadSet(audit.WithRequest(t.Context(), &audit.Request{
			AccountID: "a-1", Action: "tunnel.create",
			Time: p.Now(), RequestID: p.IDs.UUID(),
		}))
	}
	service := tunnels.Open(p)
	created, err := service.Create(requestCtx(), owner, "office")
	must(t, err)
	op, err := service.Configure(requestCtx(), owner, created.ID,
		[]tunnels.Spec{{Name: "Stock", Endpoint: endpoint, Configurations: []tunnels.Configuration{
			{Project: "shop", AccessibleBy: []environment.Kind{environment.Production}},
			{Project: "next", AccessibleBy: []environment.Kind{environment.Production}},
		}}})
	must(t, err)
	engine, err := operation.New(p.Table, service.Definitions(),
		operation.Options{Now: p.Now, Random: rand.Reader, Log: p.Log})
	must(t, err)
	_, err = engine.Run(t.Context(), op.ID)
	must(t, err)
	return created.Token
}

// connectAgent starts a relay in this process, and an agent with the token that connects to it.
func connectAgent(t *testing.T, p installation.Parts, token string) tunneledServices {
	t.Helper()
	services := tunneledServices{directory: tunnels.OpenDirectory(p)}
	services.relay = tunnel.NewRelay(tunnel.RelayOptions{
		Authenticate: services.directory.Authenticate, Services: services.directory.Services,
		Log: slog.New(slog.DiscardHandler),
	})
	server := httptest.NewServer(services.relay)
	t.Cleanup(server.Close)
	relayURL, err := url.Parse(server.URL)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = tunnel.NewAgent(tunnel.AgentOptions{Relay: relayURL, Token: func() (string, error) {
			return token, nil
		}, Log: slog.New(slog.DiscardHandler)}).Run(ctx, time.Millisecond)
	}()
	t.Cleanup(func() {
		stop()
		<-finished
	})
	return services
}

// TestServiceAccessFollowsTunnelConfiguration sends requests to a service behind a tunnel that was created through the
// management API. Only deployments of the account, projects and kinds of environment in the tunnel's configuration must
// reach the service.
func TestServiceAccessFollowsTunnelConfiguration(t *testing.T) {
	fx := functionstest.New(t).UseLiveClock()
	p := fx.Parts
	p.Random, p.IDs = rand.Reader, ids.NewSource(rand.Reader, p.Now)
	upstreamServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Method, " ", r.RequestURI, " for ", r.Header.Get("X-Forwarded-Host"))
	}))
	t.Cleanup(upstreamServer.Close)

	deployStock(t, p, "a-1", "shop", environment.Production)
	deployStock(t, p, "a-1", "next", environment.Preview)
	deployStock(t, p, "a-1", "blog", environment.Production)
	deployStock(t, p, "a-2", "theirs", environment.Production)
	services := connectAgent(t, p, openTunnel(t, p, upstreamServer.URL+"/base"))

	g, err := gateway.New(p, gateway.Options{Services: services})
	must(t, err)
	withoutRelay, err := gateway.New(p, gateway.Options{})
	must(t, err)
	for _, tt := range []struct {
		name, project string
		g             *gateway.Service
		status        int
		want          string
	}{
		{
			"listed project", "shop", g, http.StatusOK,
			"GET /base/v1/items/7?page=2 for shop-main-0123abc.gateway.test",
		},
		{
			"another environment of a listed project", "next", g, http.StatusBadGateway,
			"not for this environment of the project",
		},
		{"unlisted project", "blog", g, http.StatusBadGateway, "not for this environment of the project"},
		{"another account", "theirs", g, http.StatusBadGateway, "No tunnel of the account has a service of this name"},
		{"an installation without a relay", "shop", withoutRelay, http.StatusBadGateway, "This installation has no relay"},
	} {
		resp := httptest.NewRecorder()
		tt.g.ServeHTTP(resp, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+tt.project+"-main-0123abc.gateway.test/items/7?page=2", http.NoBody))
		if resp.Code != tt.status || !strings.Contains(resp.Body.String(), tt.want) {
			t.Errorf("%s: response = %d %s, want %d %s", tt.name, resp.Code, resp.Body, tt.status, tt.want)
		}
	}
}
