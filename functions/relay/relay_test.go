package relay_test

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/relay"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	sharedrelay "github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// lateHandler is a handler that is set after its server was started. A relay needs the address of its server when it is
// created.
type lateHandler struct{ handler http.Handler }

func (h *lateHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.handler.ServeHTTP(w, r) }

// startRelay starts a copy of the relay, and returns it with its address.
func startRelay(t *testing.T, p installation.Parts) (*relay.Process, *url.URL) {
	t.Helper()
	handler := &lateHandler{}
	server := httptest.NewServer(handler)
	t.Cleanup(server.CloseClientConnections)
	process := relay.New(p, server.URL)
	handler.handler = process
	ctx, stop := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		process.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-finished
	})
	relayURL, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return process, relayURL
}

// createTunnel creates a tunnel to a service, and returns its token.
func createTunnel(t *testing.T, p installation.Parts, endpoint string) (token string) {
	t.Helper()
	owner := auth.Owner{
		AccountID: "a-1", Account: "acme",
		Viewer: auth.Principal{AccountID: "a-1", Permissions: auth.Full()},
	}
	requestCtx := func(id string) context.Context {
		return store.WithReadSet(audit.WithRequest(t.Context(), &audit.Request{
			AccountID: "a-1", Action: "tunnel.create",
			Time: p.Now(), RequestID: id,
		}))
	}
	s := tunnels.Open(p)
	if err := p.Table.Commit(t.Context(), store.Put(store.ProjectKey("a-1", "shop"),
		map[string]string{"id": "p-1", "name": "shop"})); err != nil {
		t.Fatal(err)
	}
	created, err := s.Create(requestCtx("1"), owner, "office")
	if err != nil {
		t.Fatal(err)
	}
	op, err := s.Configure(requestCtx("2"), owner, created.ID, []tunnels.Spec{{
		Name: "stock", Endpoint: endpoint,
		Configurations: []tunnels.Configuration{{Project: "shop", AccessibleBy: []environment.Kind{environment.Production}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := operation.New(p.Table, s.Definitions(), operation.Options{Now: p.Now, Random: p.Random, Log: p.Log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Run(t.Context(), op.ID); err != nil {
		t.Fatal(err)
	}
	return created.Token
}

// TestRelayUsesDeclaredGrants makes a relay do all its work: an agent connects to one copy, a gateway in another
// process sends requests to the other copy, and both copies shut down. The uses must be those that the service
// declares, because the relay's role allows no others.
func TestRelayUsesDeclaredGrants(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path)
	}))
	defer service.Close()
	fx := functionstest.New(t)
	p := fx.Parts
	p.Now, p.Random, p.IDs, p.Log = time.Now, rand.Reader, ids.NewSource(rand.Reader, time.Now),
		slog.New(slog.DiscardHandler)
	token := createTunnel(t, p, service.URL)
	fx.Uses.Clear()

	first, firstURL := startRelay(t, p)
	second, secondURL := startRelay(t, p)
	agent := tunnel.NewAgent(tunnel.AgentOptions{Relay: firstURL, Token: func() (string, error) {
		return token, nil
	}, Log: p.Log})
	ctx, stop := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = agent.Run(ctx, time.Second)
	}()
	client := sharedrelay.NewClient(sharedrelay.ClientOptions{
		Relay: secondURL, Directory: tunnels.OpenDirectory(p),
		Key: p.Key, Now: p.Now,
	})
	defer client.Close()
	for responded := false; !responded; {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://stock/things", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.RoundTrip(r, "a-1", "stock", tunnel.Caller{Project: "shop", Environment: "production"})
		if err != nil {
			t.Log(err) // the agent has not connected yet, or the relay has not recorded it
			time.Sleep(20 * time.Millisecond)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if responded = true; err != nil || string(body) != "/things" {
			t.Errorf("response of the service = %q, %v, want /things", body, err)
		}
	}
	drainCtx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	first.Drain(drainCtx)
	second.Drain(drainCtx)
	stop()
	<-finished
	for _, u := range relay.Service.Uses {
		if !slices.Contains(fx.Uses.Recorded(), u) {
			t.Errorf("recorded uses have no %q, want each declared one", u)
		}
	}
	for _, u := range fx.Uses.Recorded() {
		if !slices.Contains(relay.Service.Uses, u) {
			t.Errorf("recorded uses have %q, want only declared ones", u)
		}
	}
}

// TestHealthFailsWhileDraining checks that the health check fails while the relay drains, so that a load balancer sends
// new connections to other copies.
func TestHealthFailsWhileDraining(t *testing.T) {
	fx := functionstest.New(t)
	p, err := relay.Open(fx.Parts, "")
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) int {
		recorder := httptest.NewRecorder()
		p.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return recorder.Code
	}
	if got := get(relay.Service.Health); got != http.StatusOK {
		t.Errorf("GET health = %d, want 200", got)
	}
	if got := get("/"); got != http.StatusNotFound {
		t.Errorf("GET / = %d, want 404", got)
	}
	p.Drain(t.Context())
	if got := get(relay.Service.Health); got != http.StatusServiceUnavailable {
		t.Errorf("GET health after Drain() = %d, want 503", got)
	}
	if uses := fx.Uses.Recorded(); len(uses) > 0 {
		t.Errorf("uses of the requests = %v, want none", uses)
	}
}
