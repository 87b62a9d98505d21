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
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	sharedrelay "github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/tunnel"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// network gives an address to a relay that is made once its address is known.
type network struct{ handler http.Handler }

func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) { n.handler.ServeHTTP(w, r) }

// started starts a copy of the relay.
func started(t *testing.T, p installation.Parts) (*relay.Process, *url.URL) {
	t.Helper()
	n := &network{}
	server := httptest.NewServer(n)
	t.Cleanup(server.CloseClientConnections)
	made := relay.New(p, server.URL)
	n.handler = made
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		made.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return made, at
}

// office makes a tunnel that leads to a service, and gives its token.
func office(t *testing.T, p installation.Parts, endpoint string) (token string) {
	t.Helper()
	owner := auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{AccountID: "a-1", Permissions: auth.Full()}}
	request := func(id string) context.Context {
		return store.Decide(audit.With(t.Context(), &audit.Request{AccountID: "a-1", Action: "tunnel.create", Time: p.Now(), RequestID: id}))
	}
	s := tunnels.Open(p)
	if err := p.Table.Commit(t.Context(), store.Put(store.ProjectKey("a-1", "shop"), map[string]string{"id": "p-1", "name": "shop"})); err != nil {
		t.Fatal(err)
	}
	made, err := s.Create(request("1"), owner, "office")
	if err != nil {
		t.Fatal(err)
	}
	begun, err := s.Configure(request("2"), owner, made.ID, []tunnels.Spec{{
		Name: "stock", Endpoint: endpoint, Configurations: []tunnels.Configuration{{Project: "shop", AccessibleBy: []environment.Kind{environment.Production}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := operation.New(p.Table, s.Definitions(), operation.Options{Now: p.Now, Random: p.Random, Log: p.Log})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Run(t.Context(), begun.ID); err != nil {
		t.Fatal(err)
	}
	return made.Token
}

// TestRelayUsesWhatItDeclares, with all that it does: an agent at one copy, a gateway of
// another process that asks the other, and the end of both. What it declares is all that
// its role will allow.
func TestRelayUsesWhatItDeclares(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	defer service.Close()
	w := functionstest.New(t)
	p := w.Parts
	p.Now, p.Random, p.IDs, p.Log = time.Now, rand.Reader, ids.NewSource(rand.Reader, time.Now), slog.New(slog.DiscardHandler)
	token := office(t, p, service.URL)
	w.Uses.Clear()

	one, at := started(t, p)
	other, asked := started(t, p)
	agent := tunnel.NewAgent(tunnel.AgentOptions{Relay: at, Token: func() (string, error) { return token, nil }, Log: p.Log})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = agent.Run(ctx, time.Second)
	}()
	client := sharedrelay.NewClient(sharedrelay.ClientOptions{Relay: asked, Directory: tunnels.OpenDirectory(p), Key: p.Key, Now: p.Now})
	defer client.Close()
	for answered := false; !answered; {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://stock/things", nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := client.RoundTrip(r, "a-1", "stock", tunnel.Caller{Project: "shop", Environment: "production"})
		if err != nil {
			t.Log(err) // the agent is about to connect, and its relay to say so
			time.Sleep(20 * time.Millisecond)
			continue
		}
		body, err := io.ReadAll(out.Body)
		_ = out.Body.Close()
		if answered = true; err != nil || string(body) != "/things" {
			t.Errorf("the service answers %q (%v)", body, err)
		}
	}
	last, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	one.Drain(last)
	other.Drain(last)
	stop()
	<-ended
	for _, u := range relay.Service.Uses {
		if !slices.Contains(w.Uses.Done(), u) {
			t.Errorf("it declares that it does %q, and does not", u)
		}
	}
	for _, u := range w.Uses.Done() {
		if !slices.Contains(relay.Service.Uses, u) {
			t.Errorf("it does %q, which it does not declare", u)
		}
	}
}

// TestHealthIsThatOfNewWork: a load balancer sends connections elsewhere before
// they would be refused. Nothing else is answered to whoever asks.
func TestHealthIsThatOfNewWork(t *testing.T) {
	w := functionstest.New(t)
	p, err := relay.Open(w.Parts, "")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(path string) int {
		out := httptest.NewRecorder()
		p.ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return out.Code
	}
	if got := ask(relay.Service.Health); got != http.StatusOK {
		t.Errorf("its health is %d", got)
	}
	if got := ask("/"); got != http.StatusNotFound {
		t.Errorf("what it does not have is answered %d", got)
	}
	p.Drain(t.Context())
	if got := ask(relay.Service.Health); got != http.StatusServiceUnavailable {
		t.Errorf("its health is %d once it drains", got)
	}
	if done := w.Uses.Done(); len(done) > 0 {
		t.Errorf("that took %v", done)
	}
}
