package platform_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/platform"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/cards"
)

// found are the paths of the cards and of the catalog, with what they are.
func found() map[string]string {
	out := map[string]string{cards.CatalogPath: cards.CatalogType}
	for _, s := range cards.Servers() {
		out[s.CardPath()] = cards.MediaType
	}
	return out
}

// ofCards are the headers of a card, in a 304 too (specification 4.1).
func ofCards() map[string]string {
	return map[string]string{
		"Access-Control-Allow-Headers": "Content-Type, If-None-Match", "Access-Control-Allow-Methods": "GET",
		"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "ETag", "Cache-Control": "public, max-age=3600",
	}
}

func TestCardsAreServedAsTheyAreWritten(t *testing.T) {
	w, _ := newWorld(t)
	address := w.Parts.Config.APIURL
	for _, s := range cards.Servers() {
		want, err := s.Card(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Call("", "GET", s.CardPath(), "").Want(200).Body; got != string(want) {
			t.Errorf("%s has %s, want %s", s.CardPath(), got, want)
		}
	}
	want, err := cards.Catalog(address)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Call("", "GET", cards.CatalogPath, "").Want(200).Body; got != string(want) {
		t.Errorf("the catalog has %s, want %s", got, want)
	}
}

// TestCatalogLeadsToCards: what stands in it is answered here.
func TestCatalogLeadsToCards(t *testing.T) {
	w, _ := newWorld(t)
	catalog := w.Call("", "GET", cards.CatalogPath, "").Want(200).JSON()
	if n := catalog.Len("entries"); n != len(cards.Servers()) {
		t.Fatalf("it has %d entries", n)
	}
	for i, s := range cards.Servers() {
		entry := catalog.At("entries." + strconv.Itoa(i))
		path, ours := strings.CutPrefix(entry.Text("url"), w.Parts.Config.APIURL)
		if !ours {
			t.Fatalf("the catalog leads to %s", entry.Text("url"))
		}
		card := w.Call("", "GET", path, "").Want(200).WantHeader("Content-Type", entry.Text("type")).JSON()
		if card.Text("name") != s.Name || card.Text("title") != entry.Text("displayName") {
			t.Errorf("%s leads to %s", entry, card)
		}
	}
}

// TestCardsAnswerConditions with the same headers whether or not there is a body.
func TestCardsAnswerConditions(t *testing.T) {
	w, full := newWorld(t)
	for path, mediaType := range found() {
		first := w.Call("", "GET", path, "").Want(200).WantHeader("Content-Type", mediaType)
		tag := first.Header.Get("ETag")
		if !strings.HasPrefix(tag, `"`) {
			t.Fatalf("%s has the ETag %q", path, tag)
		}
		for _, method := range []string{"GET", "HEAD"} {
			for condition, status := range map[string]int{
				tag: 304, "W/" + tag: 304, "*": 304, `"other", ` + tag: 304, `W/"other" , W/` + tag + `, "more"`: 304,
				`"other"`: 200, `W/"other"`: 200, `"*"`: 200,
			} {
				answer := w.Call("", method, path, "", "If-None-Match", condition).Want(status).WantHeader("ETag", tag)
				for name, value := range ofCards() {
					answer.WantHeader(name, value)
				}
				if status == 304 && (answer.Body != "" || answer.Header.Get("Content-Type") != "") {
					t.Errorf("%s with %s has a body of %q: %q", path, condition, answer.Header.Get("Content-Type"), answer.Body)
				}
			}
			answer := w.Call("", method, path, "").Want(200).WantHeader("Content-Type", mediaType).WantHeader("ETag", tag)
			for name, value := range ofCards() {
				answer.WantHeader(name, value)
			}
		}
		w.Call("", "GET", path, "", "If-None-Match", "without quotes").Want(400, "header.If-None-Match")
		w.Call("", "GET", path, "", "If-None-Match", `"other"`, "If-None-Match", tag).Want(304).WantHeader("ETag", tag)
		w.Call("", "GET", path, "", "If-None-Match", strings.Repeat(`"other", `, 251)+tag).Want(400, "header.If-None-Match", "2000 bytes")
		w.Call("garbage", "GET", path, "").Want(200).WantHeader("ETag", tag)
		w.Call(full, "GET", path+"/", "", "Accept", mediaType).Want(200).WantHeader("ETag", tag)
		w.Call("", "GET", path, "", "Accept", "text/html").Want(200).WantHeader("Content-Type", mediaType)
	}
}

// TestPagesOfOtherOriginsMayAskForCards, and for nothing beside them.
func TestPagesOfOtherOriginsMayAskForCards(t *testing.T) {
	w, _ := newWorld(t)
	preflight := []string{"Origin", "https://elsewhere.example", "Access-Control-Request-Method", "GET", "Access-Control-Request-Headers", "if-none-match"}
	for path := range found() {
		answer := w.Call("", "OPTIONS", path, "", preflight...).Want(204)
		for name, value := range ofCards() {
			if strings.HasPrefix(name, "Access-Control-") {
				answer.WantHeader(name, value)
			}
		}
		if answer.Body != "" {
			t.Errorf("the preflight of %s has the body %q", path, answer.Body)
		}
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
			w.Call("", method, path, "{}").Want(405, "does not take "+method).WantHeader("Allow", "GET, HEAD, OPTIONS")
		}
	}
	for _, path := range []string{openAPI, list, whoAmI} {
		if answer := w.Call("", "OPTIONS", path, "", preflight...).Want(405); answer.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s lets pages of other origins ask", path)
		}
	}
}

// TestCardsNameTheConfiguredAddressAlone: whatever a request says of the host that it was sent
// to, as a function is called and as a server is.
func TestCardsNameTheConfiguredAddressAlone(t *testing.T) {
	w, _ := newWorld(t)
	p := w.Parts
	p.Config.APIURL = "https://api.example.com/dev"
	edge := api.Open(p, accounts.Open(p), platform.Bind(p)).Edge()
	for path, mediaType := range found() {
		ask := func(method string, headers http.Header) events.APIGatewayProxyResponse {
			t.Helper()
			answer, err := edge(t.Context(), events.APIGatewayProxyRequest{
				HTTPMethod: method, Path: path, MultiValueHeaders: headers,
				RequestContext: events.APIGatewayProxyRequestContext{DomainName: "evil.example", RequestID: "r"},
			})
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		lies := http.Header{"Host": {"evil.example"}, "X-Forwarded-Host": {"evil.example"}, "Forwarded": {"host=evil.example"}, "X-Forwarded-Proto": {"http"}}
		answer := ask("GET", lies)
		header := http.Header(answer.MultiValueHeaders)
		if answer.StatusCode != http.StatusOK || header.Get("Content-Type") != mediaType || answer.IsBase64Encoded {
			t.Fatalf("%s is answered %+v", path, answer)
		}
		if strings.Contains(answer.Body, "evil") || !strings.Contains(answer.Body, `"https://api.example.com/dev/mcp`) {
			t.Errorf("%s names %s", path, answer.Body)
		}
		lies.Set("If-None-Match", "W/"+header.Get("ETag"))
		if again := ask("GET", lies); again.StatusCode != http.StatusNotModified || again.Body != "" || http.Header(again.MultiValueHeaders).Get("Cache-Control") != "public, max-age=3600" {
			t.Errorf("%s is answered %+v", path, again)
		}
		if preflight := ask("OPTIONS", lies); preflight.StatusCode != http.StatusNoContent || http.Header(preflight.MultiValueHeaders).Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("the preflight of %s is answered %+v", path, preflight)
		}
	}
}

// TestInstallationWithoutAnAddressHasNoCards: one without addresses would lead nowhere.
func TestInstallationWithoutAnAddressHasNoCards(t *testing.T) {
	w, _ := newWorld(t)
	w.Parts.Config.APIURL = ""
	w.Restart()
	for path := range found() {
		w.Call("", "GET", path, "").Want(404, "set GATEWRIGHT_API_URL")
	}
}
