package platform_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/servercards"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

// mediaTypes returns the paths of the cards and of the catalog, with their media types.
func mediaTypes() map[string]string {
	out := map[string]string{servercards.CatalogPath: servercards.CatalogType}
	for _, s := range servercards.Servers() {
		out[s.CardPath()] = servercards.MediaType
	}
	return out
}

// wantCardHeaders returns the expected headers of a card. A 304 response has them too (specification 4.1).
func wantCardHeaders() map[string]string {
	return map[string]string{
		"Access-Control-Allow-Headers": "Content-Type, If-None-Match", "Access-Control-Allow-Methods": "GET",
		"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "ETag", "Cache-Control": "public, max-age=3600",
	}
}

func TestCardsAreServedUnchanged(t *testing.T) {
	fx, _ := newFixture(t)
	address := fx.Parts.Config.APIURL
	for _, s := range servercards.Servers() {
		want, err := s.Card(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := fx.Call("", "GET", s.CardPath(), "").Want(200).Body; got != string(want) {
			t.Errorf("GET %s: body = %s, want %s", s.CardPath(), got, want)
		}
	}
	want, err := servercards.Catalog(address)
	if err != nil {
		t.Fatal(err)
	}
	if got := fx.Call("", "GET", servercards.CatalogPath, "").Want(200).Body; got != string(want) {
		t.Errorf("GET %s: body = %s, want %s", servercards.CatalogPath, got, want)
	}
}

// TestCatalogListsServedCards checks that the platform serves each card in the catalog.
func TestCatalogListsServedCards(t *testing.T) {
	fx, _ := newFixture(t)
	catalog := fx.Call("", "GET", servercards.CatalogPath, "").Want(200).JSON()
	if n := catalog.Len("entries"); n != len(servercards.Servers()) {
		t.Fatalf("entries of the catalog = %d, want %d", n, len(servercards.Servers()))
	}
	for i, s := range servercards.Servers() {
		entry := catalog.At("entries." + strconv.Itoa(i))
		path, ok := strings.CutPrefix(entry.Text("url"), fx.Parts.Config.APIURL)
		if !ok {
			t.Fatalf("URL of a catalog entry = %s, want one that begins with %s", entry.Text("url"), fx.Parts.Config.APIURL)
		}
		card := fx.Call("", "GET", path, "").Want(200).WantHeader("Content-Type", entry.Text("type")).JSON()
		if card.Text("name") != s.Name || card.Text("title") != entry.Text("displayName") {
			t.Errorf("card of %s = %s, want the name %s and the entry's title", entry, card, s.Name)
		}
	}
}

// TestCardsSupportConditionalRequests checks conditional and HEAD requests. Responses with and without a body must have
// the same headers.
func TestCardsSupportConditionalRequests(t *testing.T) {
	fx, fullKey := newFixture(t)
	for path, mediaType := range mediaTypes() {
		first := fx.Call("", "GET", path, "").Want(200).WantHeader("Content-Type", mediaType)
		tag := first.Header.Get("ETag")
		if !strings.HasPrefix(tag, `"`) {
			t.Fatalf("ETag of %s = %q, want a strong one", path, tag)
		}
		for _, method := range []string{"GET", "HEAD"} {
			for condition, status := range map[string]int{
				tag: 304, "W/" + tag: 304, "*": 304, `"other", ` + tag: 304, `W/"other" , W/` + tag + `, "more"`: 304,
				`"other"`: 200, `W/"other"`: 200, `"*"`: 200,
			} {
				resp := fx.Call("", method, path, "", "If-None-Match", condition).Want(status).WantHeader("ETag", tag)
				for name, value := range wantCardHeaders() {
					resp.WantHeader(name, value)
				}
				if status == 304 && (resp.Body != "" || resp.Header.Get("Content-Type") != "") {
					t.Errorf("304 of %s with %s = %q %q, want no body and no Content-Type",
						path, condition, resp.Header.Get("Content-Type"), resp.Body)
				}
			}
			resp := fx.Call("", method, path, "").Want(200).WantHeader("Content-Type", mediaType).WantHeader("ETag", tag)
			for name, value := range wantCardHeaders() {
				resp.WantHeader(name, value)
			}
		}
		fx.Call("", "GET", path, "", "If-None-Match", "without quotes").Want(400, "header.If-None-Match")
		fx.Call("", "GET", path, "", "If-None-Match", `"other"`, "If-None-Match", tag).Want(304).WantHeader("ETag", tag)
		fx.Call("", "GET", path, "", "If-None-Match", strings.Repeat(`"other", `, 251)+tag).Want(400, "header.If-None-Match",
			"2000 bytes")
		fx.Call("garbage", "GET", path, "").Want(200).WantHeader("ETag", tag)
		fx.Call(fullKey, "GET", path+"/", "", "Accept", mediaType).Want(200).WantHeader("ETag", tag)
		fx.Call("", "GET", path, "", "Accept", "text/html").Want(200).WantHeader("Content-Type", mediaType)
	}
}

// TestCardsAllowOtherOrigins checks that the cards allow other origins, and that other paths do not.
func TestCardsAllowOtherOrigins(t *testing.T) {
	fx, _ := newFixture(t)
	preflight := []string{
		"Origin", "https://elsewhere.example", "Access-Control-Request-Method", "GET",
		"Access-Control-Request-Headers", "if-none-match",
	}
	for path := range mediaTypes() {
		resp := fx.Call("", "OPTIONS", path, "", preflight...).Want(204)
		for name, value := range wantCardHeaders() {
			if strings.HasPrefix(name, "Access-Control-") {
				resp.WantHeader(name, value)
			}
		}
		if resp.Body != "" {
			t.Errorf("OPTIONS %s: body = %q, want none", path, resp.Body)
		}
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			fx.Call("", method, path, "{}").Want(405, "does not take "+method).WantHeader("Allow", "GET, HEAD, OPTIONS")
		}
	}
	for _, path := range []string{openAPI, accountsPath, whoAmI} {
		if resp := fx.Call("", "OPTIONS", path, "",
			preflight...).Want(405); resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("OPTIONS %s: Access-Control-Allow-Origin = %q, want none",
				path, resp.Header.Get("Access-Control-Allow-Origin"))
		}
	}
}

// TestCardsUseConfiguredAddress checks that the function handler serves cards with the configured address, even if the
// domain name, the Host and the forwarding headers of a request name another host.
func TestCardsUseConfiguredAddress(t *testing.T) {
	fx, _ := newFixture(t)
	p := fx.Parts
	p.Config.APIURL = "https://api.example.com/dev"
	edge := api.Open(p, accounts.Open(p), platform.Bind(p)).Edge()
	for path, mediaType := range mediaTypes() {
		send := func(method string, headers http.Header) events.APIGatewayProxyResponse {
			t.Helper()
			resp, err := edge(t.Context(), events.APIGatewayProxyRequest{
				HTTPMethod: method, Path: path, MultiValueHeaders: headers,
				RequestContext: events.APIGatewayProxyRequestContext{DomainName: "evil.example", RequestID: "r"},
			})
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		spoofed := http.Header{
			"Host": {"evil.example"}, "X-Forwarded-Host": {"evil.example"},
			"Forwarded": {"host=evil.example"}, "X-Forwarded-Proto": {"http"},
		}
		resp := send("GET", spoofed)
		header := http.Header(resp.MultiValueHeaders)
		if resp.StatusCode != http.StatusOK || header.Get("Content-Type") != mediaType || resp.IsBase64Encoded {
			t.Fatalf("GET %s = %+v, want 200 with %s as text", path, resp, mediaType)
		}
		if strings.Contains(resp.Body, "evil") || !strings.Contains(resp.Body, `"https://api.example.com/dev/mcp`) {
			t.Errorf("GET %s: body = %s, want https://api.example.com/dev/mcp, and no evil", path, resp.Body)
		}
		spoofed.Set("If-None-Match", "W/"+header.Get("ETag"))
		if notModified := send("GET", spoofed); notModified.StatusCode != http.StatusNotModified || notModified.Body != "" ||
			http.Header(notModified.MultiValueHeaders).Get("Cache-Control") != "public, max-age=3600" {
			t.Errorf("GET %s with If-None-Match = %+v, want 304 without a body, with public, max-age=3600",
				path, notModified)
		}
		if preflight := send("OPTIONS", spoofed); preflight.StatusCode != http.StatusNoContent ||
			http.Header(preflight.MultiValueHeaders).Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("OPTIONS %s = %+v, want 204 for all origins", path, preflight)
		}
	}
}

// TestInstallationWithoutAnAddressHasNoCards checks that no cards are served without a configured address, because
// clients could not use them.
func TestInstallationWithoutAnAddressHasNoCards(t *testing.T) {
	fx, _ := newFixture(t)
	fx.Parts.Config.APIURL = ""
	fx.Restart()
	for path := range mediaTypes() {
		fx.Call("", "GET", path, "").Want(404, "set GATEWRIGHT_API_URL")
	}
}
