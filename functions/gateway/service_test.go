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
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnel"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// tunnelled are the services of an installation whose relay is in this process.
type tunnelled struct {
	directory *tunnels.Directory
	relay     *tunnel.Relay
}

var _ upstream.Services = tunnelled{}

// RoundTrip implements upstream.Services. It waits for the agent, which comes sooner or later.
func (s tunnelled) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
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

// TestDeploymentCallsTheServicesThatItMay, from the management API's tunnel to the service: of its
// account, of its project and kind of environment.
func TestDeploymentCallsTheServicesThatItMay(t *testing.T) {
	w := functionstest.New(t).Live()
	p := w.Parts
	p.Random, p.IDs = rand.Reader, ids.NewSource(rand.Reader, p.Now)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, r.Method, " ", r.RequestURI, " for ", r.Header.Get("X-Forwarded-Host"))
	}))
	t.Cleanup(up.Close)

	// What an owner does.
	owner := auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}
	request := func() context.Context {
		return store.Decide(audit.With(t.Context(), &audit.Request{AccountID: "a-1", Action: "tunnel.create", Time: p.Now(), RequestID: p.IDs.UUID()}))
	}
	deploy := func(accountID, name string, kind environment.Kind) {
		t.Helper()
		options, err := json.Marshal(map[string]string{"baseUrl": "service://Stock/v1"})
		must(err)
		host := name + "-main-0123abc"
		artifact, err := artifacts.Open(p).Put(t.Context(), host, &project.Artifact{
			Format: project.ArtifactFormat, Identity: project.Identity{AccountID: accountID, Project: name, Environment: string(kind), Deployment: host},
			Routes: []project.Route{{
				Method: http.MethodGet, Path: "/items/{id}", PathMode: project.OpenAPIPath, CORSPolicy: "none",
				Handler: project.Component{Export: "urlForwardHandler", Module: "$import(@gatewright/runtime)", Options: options},
			}},
		})
		must(err)
		must(p.Table.Commit(t.Context(),
			store.Put(deployments.Key(host), deployments.Record{
				Name: host, AccountID: accountID, Project: name, Branch: "main", Kind: kind, Latest: 1, Served: &deployments.Served{Number: 1, Artifact: artifact},
			}),
			store.Put(store.ProjectKey(accountID, name), deployments.Project{ID: "p-" + name, AccountID: accountID, Name: name})))
	}
	deploy("a-1", "shop", environment.Production)
	deploy("a-1", "next", environment.Preview)
	deploy("a-1", "blog", environment.Production)
	deploy("a-2", "theirs", environment.Production)
	service := tunnels.Open(p)
	made, err := service.Create(request(), owner, "office")
	must(err)
	begun, err := service.Configure(request(), owner, made.ID, []tunnels.Spec{{Name: "Stock", Endpoint: up.URL + "/base", Configurations: []tunnels.Configuration{
		{Project: "shop", AccessibleBy: []environment.Kind{environment.Production}}, {Project: "next", AccessibleBy: []environment.Kind{environment.Production}},
	}}})
	must(err)
	engine, err := operation.New(p.Table, service.Definitions(), operation.Options{Now: p.Now, Random: rand.Reader, Log: p.Log})
	must(err)
	_, err = engine.Run(t.Context(), begun.ID)
	must(err)

	// What carries requests.
	services := tunnelled{directory: tunnels.OpenDirectory(p)}
	services.relay = tunnel.NewRelay(tunnel.RelayOptions{
		Authorize: services.directory.Authorize, Services: services.directory.Services, Log: slog.New(slog.DiscardHandler),
	})
	server := httptest.NewServer(services.relay)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	must(err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tunnel.NewAgent(tunnel.AgentOptions{Relay: at, Token: func() (string, error) { return made.Token, nil }, Log: slog.New(slog.DiscardHandler)}).Run(ctx, time.Millisecond)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})

	g, err := gateway.New(p, gateway.Options{Services: services})
	must(err)
	none, err := gateway.New(p, gateway.Options{})
	must(err)
	for _, tt := range []struct {
		name, project string
		g             *gateway.Service
		status        int
		want          string
	}{
		{"a project that is listed", "shop", g, http.StatusOK, "GET /base/v1/items/7?page=2 for shop-main-0123abc.gateway.test"},
		{"another environment of one that is", "next", g, http.StatusBadGateway, "not for this environment of the project"},
		{"a project that is not", "blog", g, http.StatusBadGateway, "not for this environment of the project"},
		{"another account", "theirs", g, http.StatusBadGateway, "No tunnel of the account has a service of this name"},
		{"an installation without a relay", "shop", none, http.StatusBadGateway, "This installation has no relay"},
	} {
		answer := httptest.NewRecorder()
		tt.g.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+tt.project+"-main-0123abc.gateway.test/items/7?page=2", http.NoBody))
		if answer.Code != tt.status || !strings.Contains(answer.Body.String(), tt.want) {
			t.Errorf("%s is answered %d %s, want %d %s", tt.name, answer.Code, answer.Body, tt.status, tt.want)
		}
	}
}
