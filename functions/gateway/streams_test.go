package gateway_test

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestStreamsAreBoundedOverFunctions, of which none runs two: an account has no more than its limit over all that there are, the
// end of one makes room for another, and so does the time after which one that is gone without a word cannot be there any more.
func TestStreamsAreBoundedOverFunctions(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer up.Close()
	w := functionstest.New(t)
	p := w.Parts
	var passed atomic.Int64
	from := p.Now()
	p.Now = func() time.Time { return from.Add(time.Duration(passed.Load())) }
	p.Table = storetest.Over(t, w.Items, storetest.Clock(p.Now))
	p.Random, p.IDs = rand.Reader, ids.NewSource(rand.Reader, p.Now)
	p.Config.PrivateUpstreams, p.Config.Streaming, p.Config.Limits = true, true, limits.Values{limits.FunctionStreams.Name: 2}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	artifact, err := artifacts.Open(p).Put(t.Context(), shopName, &project.Artifact{
		Format: project.ArtifactFormat, Identity: project.Identity{AccountID: "a-1", Deployment: shopName}, Routes: []project.Route{route("/events", up.URL)},
	})
	must(err)
	must(p.Table.Commit(t.Context(),
		store.Put(deployments.Key(shopName), deployments.Record{
			Name: shopName, AccountID: "a-1", Project: "shop", Branch: "main", Kind: environment.Production, Latest: 1,
			Served: &deployments.Served{Number: 1, Artifact: artifact},
		}),
		store.Put(store.ProjectKey("a-1", "shop"), deployments.Project{ID: "p-shop", AccountID: "a-1", Name: "shop"})))

	function := func() gateway.Streaming { // another process each time
		g, err := gateway.New(p, gateway.Options{})
		must(err)
		return gateway.Stream(p, g)
	}
	ask := func(ctx context.Context, f gateway.Streaming) (int, string, func()) {
		t.Helper()
		out, err := f(ctx, events.APIGatewayProxyRequest{
			HTTPMethod: http.MethodGet, Path: "/events", MultiValueHeaders: map[string][]string{"Host": {shopName + ".gateway.test"}, "Accept": {"text/event-stream"}},
		})
		must(err)
		part := make([]byte, 512)
		n, _ := out.Body.Read(part)
		return out.StatusCode, string(part[:n]), func() { _, _ = io.Copy(io.Discard, out.Body) }
	}
	invocation, ends := context.WithTimeout(t.Context(), 15*time.Minute)
	defer ends()
	first, leaves := context.WithCancel(invocation)
	status, body, drain := ask(first, function())
	if status != http.StatusOK || body != "data: one\n\n" {
		t.Fatalf("a stream is answered %d, %s", status, body)
	}
	again := function()
	if status, body, _ := ask(invocation, again); status != http.StatusOK {
		t.Fatalf("a second is answered %d, %s", status, body)
	}
	if status, body, _ := ask(invocation, function()); status != http.StatusTooManyRequests ||
		!strings.Contains(body, "The account has 2 streams under way at the gateway's function, and its limit function-streams is 2.") {
		t.Errorf("a third is answered %d, %s", status, body)
	}
	leaves()
	drain() // to the end of the invocation
	if status, body, _ := ask(invocation, again); status != http.StatusOK {
		t.Errorf("after one has ended: %d, %s", status, body)
	}
	passed.Add(int64(14 * time.Minute))
	if status, body, _ := ask(invocation, function()); status != http.StatusTooManyRequests {
		t.Errorf("while two may still be there: %d, %s", status, body)
	}
	passed.Add(int64(2 * time.Minute))
	if status, body, _ := ask(invocation, function()); status != http.StatusOK {
		t.Errorf("after their functions have ended without a word: %d, %s", status, body)
	}
}
