package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// away is a table that does not answer.
type away struct{ store.Backend }

func (away) Read(context.Context, []store.Key) ([]store.Item, error) {
	return nil, context.DeadlineExceeded
}

// TestCustomDomainsAreHosts of the gateway: what they lead to is served there, whose clients are
// asked for certificates, and authorities have their challenges answered.
func TestCustomDomainsAreHosts(t *testing.T) {
	const name, host = "shop-main-0123abc", "api.example.com"
	w := functionstest.New(t)
	p := w.Parts
	owner := auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}
	request := func() context.Context {
		return store.Decide(audit.With(t.Context(), &audit.Request{AccountID: "a-1", Time: p.Now(), RequestID: p.IDs.UUID()}))
	}
	artifact, err := artifacts.Open(p).Put(t.Context(), name, &project.Artifact{Format: project.ArtifactFormat, Identity: project.Identity{AccountID: "a-1", Deployment: name}})
	if err != nil {
		t.Fatal(err)
	}
	err = p.Table.Commit(t.Context(),
		store.Put(deployments.Key(name), deployments.Record{
			Name: name, AccountID: "a-1", Project: "shop", Branch: "main", Kind: environment.Production, Latest: 1,
			Served: &deployments.Served{Number: 1, Artifact: artifact},
		}),
		store.Put(store.ProjectKey("a-1", "shop"), deployments.Project{ID: "p-shop", AccountID: "a-1", Name: "shop"}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := certificates.Open(p).Create(request(), owner, certificates.New{Name: "ca", Certificate: pkitest.CA(t, "CA", p.Now()).PEM()}); err != nil {
		t.Fatal(err)
	}
	domains := customdomains.Open(p)
	made, err := domains.Create(request(), owner, customdomains.New{Hostname: host, Deployment: name})
	if err != nil {
		t.Fatal(err)
	}
	challenge := map[string]string{"id": made.ID, "token": "token", "keyAuth": "token.thumbprint"}
	if err := p.Table.Commit(t.Context(), store.Put(store.Key{PK: "custom-domain-challenge#" + host, SK: "."}, challenge)); err != nil {
		t.Fatal(err)
	}
	if _, err := domains.Verify(request(), owner, host); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(p, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for at, asked := range map[string]bool{host: true, name + ".gateway.test": true, "stranger.example.com": false, "none-main-0123abc.gateway.test": false} {
		if cas, err := g.ClientCAs(t.Context(), at); err != nil || (cas != nil) != asked {
			t.Errorf("clients of %s are asked for %v, %v", at, cas, err)
		}
		if own := at == name+".gateway.test" || at == "none-main-0123abc.gateway.test"; g.Owns(at) != own {
			t.Errorf("%s is a deployment's: %v", at, !own)
		}
	}
	answer := httptest.NewRecorder()
	g.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+"/.well-known/acme-challenge/token", http.NoBody))
	if answer.Code != http.StatusOK || answer.Body.String() != "token.thumbprint" {
		t.Errorf("the authority is answered %d %s", answer.Code, answer.Body)
	}
	p.Table = storetest.Over(t, away{w.Items}, storetest.Pause(storetest.AtOnce), storetest.Clock(time.Now))
	if cas, err := gateway.NewHosts(p).ClientCAs(t.Context(), host); err == nil {
		t.Errorf("while the table is away, clients are asked for %v", cas)
	}
}
