package apigateway_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/lambdahost"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func group(name string, routes ...string) api.Group {
	g := api.Group{Name: name}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		g.Operations = append(g.Operations, api.Operation[struct{}, api.NoContent]{ID: name + route, Method: method, Path: path})
	}
	return g
}

func gateway(t *testing.T, functions ...apigateway.Function) *apigateway.Gateway {
	t.Helper()
	return gatewayFor(t, nil, functions...)
}

func gatewayFor(t *testing.T, callers api.Authenticator, functions ...apigateway.Function) *apigateway.Gateway {
	t.Helper()
	now := func() time.Time { return storetest.Epoch }
	return apigateway.New(apigateway.Options{
		Functions: functions,
		Callers:   callers,
		Domain:    "127.0.0.1",
		IDs:       ids.NewSource(storetest.Random(t), now),
		Now:       now,
		Log:       slog.New(slog.DiscardHandler),
	})
}

// named answers its name, the resource and the parameters it was given.
func named(g api.Group) apigateway.Function {
	return apigateway.Function{Group: g, Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
		body, err := json.Marshal(map[string]any{"function": g.Name, "resource": e.Resource, "parameters": e.PathParameters, "path": e.Path})
		return events.APIGatewayProxyResponse{StatusCode: http.StatusOK, Body: string(body)}, err
	}}
}

func TestRequestReachesTheFunctionOfItsPath(t *testing.T) {
	g := gateway(t,
		named(group("platform", "GET /openapi")),
		named(group("deployments", "POST /v1/deployments/sources", "GET /v1/deployments/{name}", "POST /v1/a/{account}/variables/{name}")),
		named(group("keys", "POST /v1/keys/$bulk", "GET /v1/keys/{id}", "GET /v1/shared")),
		named(group("other", "POST /v1/shared")),
	)
	for _, tc := range []struct{ request, function, resource string }{
		{"GET /openapi", "platform", "/openapi"},
		{"GET /openapi/", "platform", "/openapi"},
		{"GET /openapi?a=b", "platform", "/openapi"},
		{"GET /v1/deployments/shop", "deployments", "/v1/deployments/{name}"},
		{"GET /v1/deployments/a%2Fb", "deployments", "/v1/deployments/{name}"},
		{"DELETE /v1/deployments/shop", "deployments", "/v1/deployments/{name}"},
		{"POST /v1/deployments/sources", "deployments", "/v1/deployments/sources"},
		{"POST /v1/a/x/variables/y", "deployments", "/v1/a/{account}/variables/{name}"},
		{"POST /v1/keys/$bulk", "keys", "/v1/keys/$bulk"},
		{"POST /v1/keys/%24bulk", "keys", "/v1/keys/$bulk"},
		{"GET /v1/keys/1", "keys", "/v1/keys/{id}"},
		{"GET /v1/shared", "keys", "/v1/shared"},
		{"POST /v1/shared", "other", "/v1/shared"},
		{"PUT /v1/shared", "keys", "/v1/shared"},
		{"GET /", "platform", "/{proxy+}"},
		{"GET /v1/nothing", "platform", "/{proxy+}"},
		{"GET //v1//keys/1", "platform", "/{proxy+}"},
	} {
		method, target, _ := strings.Cut(tc.request, " ")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest(method, target, nil))
		var got struct {
			Function, Resource, Path string
			Parameters               map[string]string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %s", tc.request, w.Body)
		}
		if got.Function != tc.function || got.Resource != tc.resource {
			t.Errorf("%s went to %s as %s, want %s as %s", tc.request, got.Function, got.Resource, tc.function, tc.resource)
		}
		path, _, _ := strings.Cut(target, "?")
		if got.Path != path {
			t.Errorf("%s: the event has the path %s", tc.request, got.Path)
		}
		if got.Path == "/v1/deployments/a%2Fb" && got.Parameters["name"] != "a/b" {
			t.Errorf("%s: parameters %v", tc.request, got.Parameters)
		}
	}
}

func TestEventIsWhatAWSMakes(t *testing.T) {
	var got events.APIGatewayProxyRequest
	g := gateway(t, apigateway.Function{
		Group: group("consumers", "POST /v1/accounts/{accountName}/keys/$bulk"),
		Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			got = e
			return events.APIGatewayProxyResponse{StatusCode: http.StatusNoContent}, nil
		},
	})
	r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:9000/v1/accounts/a%20b/keys/%24bulk?tag.a=1&limit=5&tag.a=2&empty=", strings.NewReader(`{"name":"Zoë"}`))
	r.RemoteAddr = "192.0.2.7:4711"
	r.Header = http.Header{
		"Accept":          {"application/json", "text/plain"},
		"Content-Type":    {"text/plain;charset=utf-8"},
		"User-Agent":      {"curl/8.0"},
		"Connection":      {"keep-alive, X-Hop"},
		"X-Hop":           {"1"},
		"X-Forwarded-For": {"198.51.100.1"},
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	if w.Code != http.StatusNoContent {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/event.json", append(text, '\n'))
}

// TestClientOfATrustedProxyIsWhoItSays in audit records and in limits by address, and a
// stranger's words count for nothing.
func TestClientOfATrustedProxyIsWhoItSays(t *testing.T) {
	var got events.APIGatewayProxyRequest
	g := apigateway.New(apigateway.Options{
		Functions: []apigateway.Function{{Group: group("a", "GET /x"), Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			got = e
			return events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil
		}}},
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		IDs:     ids.NewSource(storetest.Random(t), time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	for from, want := range map[string]string{"10.0.0.7:1": "203.0.113.9 https", "192.0.2.1:1": "192.0.2.1 http"} {
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.9")
		r.Header.Set("X-Forwarded-Proto", "https")
		g.ServeHTTP(httptest.NewRecorder(), r)
		if is := got.RequestContext.Identity.SourceIP + " " + got.Headers["X-Forwarded-Proto"]; is != want {
			t.Errorf("by %s it comes from %s, want %s", from, is, want)
		}
	}
}

func TestBodiesPassUnchangedBothWays(t *testing.T) {
	echo := gateway(t, apigateway.Function{
		Group: group("echo", "POST /"),
		Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			return events.APIGatewayProxyResponse{
				StatusCode: http.StatusOK, Body: e.Body, IsBase64Encoded: e.IsBase64Encoded,
				MultiValueHeaders: map[string][]string{"content-type": {"application/octet-stream"}, "X-Two": {"1", "2"}},
				Headers:           map[string]string{"Content-Type": "ignored", "X-One": "1"},
			}, nil
		},
	})
	for _, body := range [][]byte{nil, []byte("text"), []byte("\xff\xfe\x00binary"), bytes.Repeat([]byte("0123456789"), 1<<20)[:apigateway.MaxBodyBytes]} {
		w := httptest.NewRecorder()
		echo.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
		if !bytes.Equal(w.Body.Bytes(), body) {
			t.Errorf("%d bytes came back as %d", len(body), w.Body.Len())
		}
		want := http.Header{
			"Content-Type":     {"application/octet-stream"},
			"X-One":            {"1"},
			"X-Two":            {"1", "2"},
			"X-Amzn-Requestid": w.Header()["X-Amzn-Requestid"],
		}
		if diff := cmp.Diff(want, w.Header()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWhatAPIGatewayRefusesIsAProblem(t *testing.T) {
	answering := func(answer events.APIGatewayProxyResponse, err error) apigateway.Function {
		return apigateway.Function{
			Group: group("f", "POST /"),
			Edge: func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
				return answer, err
			},
		}
	}
	fine := answering(events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil)
	for name, tc := range map[string]struct {
		function apigateway.Function
		target   string
		body     io.Reader
		status   int
	}{
		"body over the limit": {fine, "/", bytes.NewReader(make([]byte, apigateway.MaxBodyBytes+1)), 413},
		"body that breaks":    {fine, "/", io.MultiReader(strings.NewReader("a"), broken{}), 400},
		"bare % in the query": {fine, "/?a=%", nil, 400},
		"failing function":    {answering(events.APIGatewayProxyResponse{}, errors.New("secret cause")), "/", nil, 502},
		"event too large":     {answering(events.APIGatewayProxyResponse{}, fmt.Errorf("call it: %w", lambdahost.ErrEventTooLarge)), "/", nil, 413},
		"unreadable answer":   {answering(events.APIGatewayProxyResponse{StatusCode: 200, IsBase64Encoded: true, Body: "?"}, nil), "/", nil, 502},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			gateway(t, tc.function).ServeHTTP(w, httptest.NewRequest(http.MethodPost, tc.target, tc.body))
			isProblem(t, w, tc.status)
			if strings.Contains(w.Body.String(), "secret") {
				t.Errorf("the cause is shown: %s", w.Body)
			}
		})
	}
}

// TestRefusalRepeatsNoCredential of who takes a key for its id, in the problem or the log.
func TestRefusalRepeatsNoCredential(t *testing.T) {
	var log bytes.Buffer
	now := func() time.Time { return storetest.Epoch }
	refusal := apigateway.Refusal{IDs: ids.NewSource(storetest.Random(t), now), Now: now, Log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, key := range []string{"gwa_0123456789abcdefghijklmnopqrstuv_01234567", "gws%5F" + strings.Repeat("a", 43) + "_01234567"} {
		w := httptest.NewRecorder()
		refusal.Answer(w, httptest.NewRequest(http.MethodGet, "/v1/account-keys/"+key+"?a=%", nil), http.StatusBadRequest, "Do something else.")
		isProblem(t, w, http.StatusBadRequest)
		for _, text := range []string{w.Body.String(), log.String()} {
			if strings.Contains(text, key[6:]) || !strings.Contains(text, "/v1/account-keys/withheld") {
				t.Errorf("told: %s", text)
			}
		}
	}
}

// callers knows one key.
type callers struct{}

func (callers) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	switch key {
	case "known":
		return auth.Principal{}, nil
	case "unlucky":
		return auth.Principal{}, errors.New("no table")
	}
	return auth.Principal{}, fault.New(fault.Unauthenticated, "The key is not valid.")
}

// TestNoStrangersBodyIsWaitedFor, and nobody's where it makes no difference: the function, which refuses strangers, is
// asked without it.
func TestNoStrangersBodyIsWaitedFor(t *testing.T) {
	type in struct {
		Body struct {
			Text string `json:"text"`
		}
	}
	asked := make(chan string, 1)
	g := gatewayFor(t, callers{}, apigateway.Function{
		Group: api.Group{Name: "things", Operations: []api.Declared{
			api.Operation[in, api.NoContent]{ID: "make", Method: "POST", Path: "/things"},
			api.Operation[struct{}, api.NoContent]{ID: "list", Method: "GET", Path: "/things"},
			api.Operation[in, api.NoContent]{ID: "tell", Method: "PUT", Path: "/things", Public: true},
		}},
		Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			asked <- e.Body
			return events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil
		},
	})
	for _, tc := range []struct {
		name, method, path, authorization string
		status                            int
		reads                             bool
	}{
		{"no key", "POST", "/things", "", 200, false},
		{"another scheme", "POST", "/things", "Basic known", 200, false},
		{"an unknown key", "POST", "/things", "Bearer unknown", 200, false},
		{"a known key", "POST", "/things", "bearer known", 200, true},
		{"a key that cannot be looked up", "POST", "/things", "Bearer unlucky", 200, true},
		{"anybody", "PUT", "/things", "", 200, true},
		{"an operation without a body", "GET", "/things", "Bearer known", 200, false},
		{"another method", "PATCH", "/things", "Bearer known", 200, false},
		{"nothing", "POST", "/nothing", "Bearer known", 200, false},
	} {
		body := &looked{Reader: strings.NewReader(`{"text":"a"}`)}
		r := httptest.NewRequest(tc.method, tc.path, body)
		r.ContentLength = -1
		r.Header.Set("Authorization", tc.authorization)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != tc.status || body.at != tc.reads {
			t.Errorf("%s: got %d, the body is read: %v", tc.name, w.Code, body.at)
		}
		if got := <-asked; (got != "") != tc.reads {
			t.Errorf("%s: the function gets the body %q", tc.name, got)
		}
	}
}

// looked is a body that knows whether it was looked at.
type looked struct {
	io.Reader
	at bool
}

func (l *looked) Read(p []byte) (int, error) {
	l.at = true
	return l.Reader.Read(p)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestSlowFunctionIsGivenUpAfter29Seconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateway(t, apigateway.Function{
			Group: group("slow", "POST /"),
			Edge: func(ctx context.Context, _ events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
				<-ctx.Done()
				return events.APIGatewayProxyResponse{}, ctx.Err()
			},
		})
		start := time.Now()
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		isProblem(t, w, http.StatusGatewayTimeout)
		if took := time.Since(start); took != apigateway.Timeout {
			t.Errorf("given up after %v", took)
		}
	})
}

func TestFunctionGoesOnWhenTheClientHasGone(t *testing.T) {
	var during error
	g := gateway(t, apigateway.Function{
		Group: group("f", "POST /"),
		Edge: func(ctx context.Context, _ events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			during = ctx.Err()
			return events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil
		},
	})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(gone, http.MethodPost, "/", nil))
	if during != nil {
		t.Errorf("the function's context: %v", during)
	}
}

func isProblem(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("status %d, %s: %s", w.Code, w.Header().Get("Content-Type"), w.Body)
	}
	var p api.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	if p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" || p.Trace == nil || p.Trace.RequestID == "" {
		t.Errorf("problem %+v", p)
	}
}

// The road of a request must not change what an operation answers.
func TestServerAnswersTheSameBehindTheGateway(t *testing.T) {
	table := storetest.New(t)
	parts := installation.Parts{
		Table: table,
		Log:   slog.New(slog.DiscardHandler),
		IDs:   ids.NewSource(storetest.Random(t), time.Now),
		Now:   func() time.Time { return storetest.Epoch },
	}
	type in struct {
		Name  string   `path:"name"`
		Limit int      `query:"limit"`
		Tags  []string `query:"tag,explode"`
		Body  struct {
			Text string `json:"text"`
		}
	}
	type out struct{ Body in }
	op := api.Operation[in, out]{ID: "echo", Method: "POST", Path: "/v1/things/{name}/$do", Public: true}
	server := api.Open(parts, nobody{}, []api.Route{op.To(func(_ context.Context, i *in) (*out, error) { return &out{Body: *i}, nil })})
	g := gateway(t, apigateway.Function{Group: api.Group{Name: "echo", Operations: []api.Declared{op}}, Edge: server.Edge()})
	for _, tc := range []struct {
		method, target, body string
		status               int
	}{
		{"POST", "/v1/things/feature%2Fx/%24do?limit=3&tag=a&tag=b%26c", `{"text":"é"}`, 200},
		{"POST", "/v1/things/a/$do/", `{"text":""}`, 200},
		{"POST", "/v1/things/a/$do", "{\"text\":\"\xff\"}", 400},
		{"POST", "/v1/things/a/$do?limit=x", `{"text":"a"}`, 400},
		{"POST", "/v1/things/a/$do", `{"text":`, 400},
		{"POST", "/v1/things/a%00b/$do", `{"text":"a"}`, 400},
		{"POST", "/v1/things/a/$do", `{"text":"` + strings.Repeat("a", api.MaxBodyBytes) + `"}`, 413},
		{"GET", "/v1/things/a/$do", "", 405},
		{"GET", "/v1/things//$do", "", 404},
		{"GET", "/v1/other", "", 404},
	} {
		direct, behind := httptest.NewRecorder(), httptest.NewRecorder()
		request := func() *http.Request {
			return httptest.NewRequest(tc.method, tc.target, strings.NewReader(tc.body))
		}
		server.ServeHTTP(direct, request())
		g.ServeHTTP(behind, request())
		if direct.Code != tc.status || behind.Code != tc.status {
			t.Errorf("%s %s: %d directly, %d behind the gateway, want %d: %s", tc.method, tc.target, direct.Code, behind.Code, tc.status, behind.Body)
			continue
		}
		if diff := cmp.Diff(comparable(direct), comparable(behind)); diff != "" {
			t.Errorf("%s %s: %s", tc.method, tc.target, diff)
		}
	}
}

// comparable is an answer without what differs between any two requests.
func comparable(w *httptest.ResponseRecorder) map[string]any {
	body := map[string]any{}
	_ = json.Unmarshal(w.Body.Bytes(), &body)
	delete(body, "trace")
	return map[string]any{"body": body, "type": w.Header().Get("Content-Type"), "allow": w.Header().Get("Allow")}
}

type nobody struct{ api.Authenticator }

func TestBase64OfTheAnswerIsDecoded(t *testing.T) {
	g := gateway(t, apigateway.Function{
		Group: group("f", "GET /"),
		Edge: func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			return events.APIGatewayProxyResponse{StatusCode: 200, IsBase64Encoded: true, Body: base64.StdEncoding.EncodeToString([]byte{0, 255})}, nil
		},
	})
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if !bytes.Equal(w.Body.Bytes(), []byte{0, 255}) {
		t.Errorf("body %v", w.Body.Bytes())
	}
}

// BenchmarkRoad compares an operation called directly with the same one behind
// the gateway.
func BenchmarkRoad(b *testing.B) {
	op := api.Operation[struct{}, api.NoContent]{ID: "nothing", Method: "GET", Path: "/v1/nothing", Status: http.StatusNoContent, Public: true}
	table := storetest.New(b)
	server := api.Open(installation.Parts{
		Table: table, Log: slog.New(slog.DiscardHandler),
		IDs: ids.NewSource(storetest.Random(b), time.Now), Now: time.Now,
	}, nobody{}, []api.Route{op.To(func(context.Context, *struct{}) (*api.NoContent, error) { return &api.NoContent{}, nil })})
	behind := apigateway.New(apigateway.Options{
		Functions: []apigateway.Function{{Group: api.Group{Name: "nothing", Operations: []api.Declared{op}}, Edge: server.Edge()}},
		Domain:    "127.0.0.1", IDs: ids.NewSource(storetest.Random(b), time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	for name, h := range map[string]http.Handler{"direct": server, "behind": behind} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/nothing", nil))
				if w.Code != http.StatusNoContent {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
