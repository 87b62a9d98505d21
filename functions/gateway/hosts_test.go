package gateway_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// failingReads is a backend whose reads fail.
type failingReads struct{ store.Backend }

func (failingReads) Read(context.Context, []store.Key) ([]store.Item, error) {
	return nil, context.DeadlineExceeded
}

// TestCustomDomainsAreHosts checks ClientCAs and Owns with the host name of a deployment, its custom domain, and host
// names without a deployment. The gateway must serve the challenge of a certificate authority at the custom domain.
// ClientCAs must return an error if the table fails.
func TestCustomDomainsAreHosts(t *testing.T) {
	const name, host = "shop-main-0123abc", "api.example.com"
	fx := functionstest.New(t)
	p := fx.Parts
	owner := auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{Permissions: auth.Full()}}
	requestCtx := func() context.Context {
		return store.WithReadSet(audit.WithRequest(t.Context(), &audit.Request{
			AccountID: "a-1", Time: p.Now(),
			RequestID: p.IDs.UUID(),
		}))
	}
	artifact, err := artifacts.Open(p).Put(t.Context(), name,
		&project.Artifact{Format: project.ArtifactFormat, Identity: project.Identity{AccountID: "a-1", Deployment: name}})
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
	if _, err := clientcas.Open(p).Create(requestCtx(), owner,
		clientcas.CreateInput{Name: "ca", Certificate: pkitest.CA(t, "CA", p.Now()).PEM()}); err != nil {
		t.Fatal(err)
	}
	domains := customdomains.Open(p)
	created, err := domains.Create(requestCtx(), owner, customdomains.CreateInput{Hostname: host, Deployment: name})
	if err != nil {
		t.Fatal(err)
	}
	challenge := map[string]string{"id": created.ID, "token": "token", "keyAuth": "token.thumbprint"}
	if err := p.Table.Commit(t.Context(), store.Put(store.Key{PK: "custom-domain-challenge#" + host, SK: "."},
		challenge)); err != nil {
		t.Fatal(err)
	}
	if _, err := domains.Verify(requestCtx(), owner, host); err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(p, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for hostname, wantCAs := range map[string]bool{
		host: true, name + ".gateway.test": true, "stranger.example.com": false,
		"none-main-0123abc.gateway.test": false,
	} {
		if cas, err := g.ClientCAs(t.Context(), hostname); err != nil || (cas != nil) != wantCAs {
			t.Errorf("ClientCAs(%s) = %v, %v, want CAs: %t", hostname, cas, err, wantCAs)
		}
		wantOwned := hostname == name+".gateway.test" || hostname == "none-main-0123abc.gateway.test"
		if g.Owns(hostname) != wantOwned {
			t.Errorf("Owns(%s) = %t, want %t", hostname, !wantOwned, wantOwned)
		}
	}
	resp := httptest.NewRecorder()
	g.ServeHTTP(resp, httptest.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+host+"/.well-known/acme-challenge/token", http.NoBody))
	if resp.Code != http.StatusOK || resp.Body.String() != "token.thumbprint" {
		t.Errorf("GET of the ACME challenge = %d %s, want 200 token.thumbprint", resp.Code, resp.Body)
	}
	p.Table = storetest.NewWithBackend(t, failingReads{fx.Items}, storetest.Backoff(storetest.NoBackoff),
		storetest.Clock(time.Now))
	if cas, err := gateway.NewHosts(p).ClientCAs(t.Context(), host); err == nil {
		t.Errorf("ClientCAs(%s) of a failing table = %v, want an error", host, cas)
	}
}
