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

	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/dev/lambdahost"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

func newGroup(name string, routes ...string) api.Group {
	g := api.Group{Name: name}
	for _, route := range routes {
		method, path, _ := strings.Cut(route, " ")
		g.Operations = append(g.Operations, api.Operation[struct{}, api.NoContent]{
			ID: name + route, Method: method,
			Path: path,
		})
	}
	return g
}

func newGateway(t *testing.T, functions ...apigateway.Function) *apigateway.Gateway {
	t.Helper()
	return newGatewayFor(t, nil, functions...)
}

func newGatewayFor(
	t *testing.T, authenticator api.Authenticator, functions ...apigateway.Function,
) *apigateway.Gateway {
	t.Helper()
	now := func() time.Time { return storetest.Epoch }
	return apigateway.New(apigateway.Options{
		Functions:     functions,
		Authenticator: authenticator,
		Domain:        "127.0.0.1",
		IDs:           ids.NewSource(storetest.Random(t), now),
		Now:           now,
		Log:           slog.New(slog.DiscardHandler),
	})
}

// echoFunction returns a function that responds with its name, the resource and the parameters.
func echoFunction(g api.Group) apigateway.Function {
	return apigateway.Function{Group: g, Edge: func(_ context.Context,
		e events.APIGatewayProxyRequest,
	) (events.APIGatewayProxyResponse, error) {
		body, err := json.Marshal(map[string]any{
			"function": g.Name, "resource": e.Resource, "parameters": e.PathParameters,
			"path": e.Path,
		})
		return events.APIGatewayProxyResponse{StatusCode: http.StatusOK, Body: string(body)}, err
	}}
}

func TestRequestReachesTheFunctionOfItsPath(t *testing.T) {
	g := newGateway(t,
		echoFunction(newGroup("platform", "GET /openapi")),
		echoFunction(newGroup("deployments", "POST /v1/deployments/sources", "GET /v1/deployments/{name}",
			"POST /v1/a/{account}/variables/{name}")),
		echoFunction(newGroup("keys", "POST /v1/keys/$bulk", "GET /v1/keys/{id}", "GET /v1/shared")),
		echoFunction(newGroup("other", "POST /v1/shared")),
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
			t.Fatalf("%s: body = %s, want JSON (%v)", tc.request, w.Body, err)
		}
		if got.Function != tc.function || got.Resource != tc.resource {
			t.Errorf("%s is served by %s as %s, want %s as %s",
				tc.request, got.Function, got.Resource, tc.function, tc.resource)
		}
		path, _, _ := strings.Cut(target, "?")
		if got.Path != path {
			t.Errorf("%s: path of the event = %s, want %s", tc.request, got.Path, path)
		}
		if got.Path == "/v1/deployments/a%2Fb" && got.Parameters["name"] != "a/b" {
			t.Errorf("%s: parameters = %v, want the name a/b", tc.request, got.Parameters)
		}
	}
}

func TestEventMatchesAWS(t *testing.T) {
	var got events.APIGatewayProxyRequest
	g := newGateway(t, apigateway.Function{
		Group: newGroup("consumers", "POST /v1/accounts/{accountName}/keys/$bulk"),
		Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			got = e
			return events.APIGatewayProxyResponse{StatusCode: http.StatusNoContent}, nil
		},
	})
	r := httptest.NewRequest(http.MethodPost,
		"http://127.0.0.1:9000/v1/accounts/a%20b/keys/%24bulk?tag.a=1&limit=5&tag.a=2&empty=",
		strings.NewReader(`{"name":"Zoë"}`))
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
		t.Fatalf("status = %d, want 204: %s", w.Code, w.Body)
	}
	text, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, "testdata/event.json", append(text, '\n'))
}

// TestForwardedClientOfTrustedProxyIsUsed checks the client address in events, which audit
// records and limits use. Forwarding header fields of an untrusted client are ignored.
func TestForwardedClientOfTrustedProxyIsUsed(t *testing.T) {
	var got events.APIGatewayProxyRequest
	g := apigateway.New(apigateway.Options{
		Functions: []apigateway.Function{{
			Group: newGroup("a", "GET /x"),
			Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
				got = e
				return events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil
			},
		}},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		IDs:            ids.NewSource(storetest.Random(t), time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	for from, want := range map[string]string{"10.0.0.7:1": "203.0.113.9 https", "192.0.2.1:1": "192.0.2.1 http"} {
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.RemoteAddr = from
		r.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.9")
		r.Header.Set("X-Forwarded-Proto", "https")
		g.ServeHTTP(httptest.NewRecorder(), r)
		if source := got.RequestContext.Identity.SourceIP + " " + got.Headers["X-Forwarded-Proto"]; source != want {
			t.Errorf("client of a request from %s = %s, want %s", from, source, want)
		}
	}
}

func TestBodiesPassUnchanged(t *testing.T) {
	echo := newGateway(t, apigateway.Function{
		Group: newGroup("echo", "POST /"),
		Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			return events.APIGatewayProxyResponse{
				StatusCode: http.StatusOK, Body: e.Body, IsBase64Encoded: e.IsBase64Encoded,
				MultiValueHeaders: map[string][]string{"content-type": {"application/octet-stream"}, "X-Two": {"1", "2"}},
				Headers:           map[string]string{"Content-Type": "ignored", "X-One": "1"},
			}, nil
		},
	})
	for _, body := range [][]byte{
		nil, []byte("text"), []byte("\xff\xfe\x00binary"),
		bytes.Repeat([]byte("0123456789"), 1<<20)[:apigateway.MaxBodyBytes],
	} {
		w := httptest.NewRecorder()
		echo.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body)))
		if !bytes.Equal(w.Body.Bytes(), body) {
			t.Errorf("a body of %d bytes is returned with %d bytes, want it unchanged", len(body), w.Body.Len())
		}
		want := http.Header{
			"Content-Type":     {"application/octet-stream"},
			"X-One":            {"1"},
			"X-Two":            {"1", "2"},
			"X-Amzn-Requestid": w.Header()["X-Amzn-Requestid"],
		}
		if diff := cmp.Diff(want, w.Header()); diff != "" {
			t.Errorf("the header of the response differs (-want +got):\n%s", diff)
		}
	}
}

func TestRefusalIsAProblem(t *testing.T) {
	responding := func(resp events.APIGatewayProxyResponse, err error) apigateway.Function {
		return apigateway.Function{
			Group: newGroup("f", "POST /"),
			Edge: func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
				return resp, err
			},
		}
	}
	okFunction := responding(events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil)
	for name, tc := range map[string]struct {
		function apigateway.Function
		target   string
		body     io.Reader
		status   int
	}{
		"body over the limit": {okFunction, "/", bytes.NewReader(make([]byte, apigateway.MaxBodyBytes+1)), 413},
		"body that breaks":    {okFunction, "/", io.MultiReader(strings.NewReader("a"), brokenReader{}), 400},
		"bare % in the query": {okFunction, "/?a=%", nil, 400},
		"failing function":    {responding(events.APIGatewayProxyResponse{}, errors.New("secret cause")), "/", nil, 502},
		"event too large": {responding(events.APIGatewayProxyResponse{},
			fmt.Errorf("call it: %w", lambdahost.ErrEventTooLarge)), "/", nil, 413},
		"unreadable response": {responding(events.APIGatewayProxyResponse{StatusCode: 200, IsBase64Encoded: true, Body: "?"},
			nil), "/", nil, 502},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			newGateway(t, tc.function).ServeHTTP(w, httptest.NewRequest(http.MethodPost, tc.target, tc.body))
			checkProblem(t, w, tc.status)
			if strings.Contains(w.Body.String(), "secret") {
				t.Errorf("response = %s, want no cause of the failure", w.Body)
			}
		})
	}
}

// TestRefusalContainsNoCredential checks that the problem and the log do not contain a key that a client has used as an
// ID in the path.
func TestRefusalContainsNoCredential(t *testing.T) {
	var log bytes.Buffer
	now := func() time.Time { return storetest.Epoch }
	refusal := apigateway.Refuser{
		IDs: ids.NewSource(storetest.Random(t), now), Now: now,
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	for _, key := range []string{
		"gwa_0123456789abcdefghijklmnopqrstuv_01234567",
		"gws%5F" + strings.Repeat("a", 43) + "_01234567",
	} {
		w := httptest.NewRecorder()
		refusal.Respond(w, httptest.NewRequest(http.MethodGet, "/v1/account-keys/"+key+"?a=%", nil), http.StatusBadRequest,
			"Do something else.")
		checkProblem(t, w, http.StatusBadRequest)
		for _, text := range []string{w.Body.String(), log.String()} {
			if strings.Contains(text, key[6:]) || !strings.Contains(text, "/v1/account-keys/withheld") {
				t.Errorf("output = %s, want /v1/account-keys/withheld and no credential", text)
			}
		}
	}
}

// fakeAuthenticator accepts the key "known", fails for the key "unlucky", and rejects all others.
type fakeAuthenticator struct{}

func (fakeAuthenticator) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	switch key {
	case "known":
		return auth.Principal{}, nil
	case "unlucky":
		return auth.Principal{}, errors.New("no table")
	}
	return auth.Principal{}, fault.New(fault.Unauthenticated, "The key is not valid.")
}

// TestUnauthenticatedBodyIsNotRead checks that the gateway does not wait for the body of an
// unauthenticated client, or for a body that has no effect. It calls the function without the body.
func TestUnauthenticatedBodyIsNotRead(t *testing.T) {
	type in struct {
		Body struct {
			Text string `json:"text"`
		}
	}
	received := make(chan string, 1)
	g := newGatewayFor(t, fakeAuthenticator{}, apigateway.Function{
		Group: api.Group{Name: "things", Operations: []api.AnyOperation{
			api.Operation[in, api.NoContent]{ID: "make", Method: "POST", Path: "/things"},
			api.Operation[struct{}, api.NoContent]{ID: "list", Method: "GET", Path: "/things"},
			api.Operation[in, api.NoContent]{ID: "tell", Method: "PUT", Path: "/things", Public: true},
		}},
		Edge: func(_ context.Context, e events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			received <- e.Body
			return events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil
		},
	})
	for _, tc := range []struct {
		name, method, path, authorization string
		status                            int
		wantRead                          bool
	}{
		{"no key", "POST", "/things", "", 200, false},
		{"another scheme", "POST", "/things", "Basic known", 200, false},
		{"an unknown key", "POST", "/things", "Bearer unknown", 200, false},
		{"a known key", "POST", "/things", "bearer known", 200, true},
		{"a failing look-up of the key", "POST", "/things", "Bearer unlucky", 200, true},
		{"a public operation", "PUT", "/things", "", 200, true},
		{"an operation without a body", "GET", "/things", "Bearer known", 200, false},
		{"another method", "PATCH", "/things", "Bearer known", 200, false},
		{"an unknown path", "POST", "/nothing", "Bearer known", 200, false},
	} {
		body := &readTracker{Reader: strings.NewReader(`{"text":"a"}`)}
		r := httptest.NewRequest(tc.method, tc.path, body)
		r.ContentLength = -1
		r.Header.Set("Authorization", tc.authorization)
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code != tc.status || body.wasRead != tc.wantRead {
			t.Errorf("%s: status = %d, body read: %v, want %d, %v", tc.name, w.Code, body.wasRead, tc.status, tc.wantRead)
		}
		if got := <-received; (got != "") != tc.wantRead {
			t.Errorf("%s: the function receives the body %q, want one: %v", tc.name, got, tc.wantRead)
		}
	}
}

// readTracker is a body that records whether it was read.
type readTracker struct {
	io.Reader
	wasRead bool
}

func (r *readTracker) Read(p []byte) (int, error) {
	r.wasRead = true
	return r.Reader.Read(p)
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestSlowFunctionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateway(t, apigateway.Function{
			Group: newGroup("slow", "POST /"),
			Edge: func(ctx context.Context, _ events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
				<-ctx.Done()
				return events.APIGatewayProxyResponse{}, ctx.Err()
			},
		})
		start := time.Now()
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
		checkProblem(t, w, http.StatusGatewayTimeout)
		if elapsed := time.Since(start); elapsed != apigateway.Timeout {
			t.Errorf("the gateway times out after %v, want %v", elapsed, apigateway.Timeout)
		}
	})
}

func TestFunctionContinuesAfterClientDisconnects(t *testing.T) {
	var ctxErr error
	g := newGateway(t, apigateway.Function{
		Group: newGroup("f", "POST /"),
		Edge: func(ctx context.Context, _ events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			ctxErr = ctx.Err()
			return events.APIGatewayProxyResponse{StatusCode: http.StatusOK}, nil
		},
	})
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(canceled, http.MethodPost, "/", nil))
	if ctxErr != nil {
		t.Errorf("error of the function's context = %v, want none", ctxErr)
	}
}

func checkProblem(t *testing.T, w *httptest.ResponseRecorder, status int) {
	t.Helper()
	if w.Code != status || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("status = %d, Content-Type = %s, want %d with a problem: %s", w.Code, w.Header().Get("Content-Type"),
			status, w.Body)
	}
	var p api.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("body = %s, want a problem in JSON (%v)", w.Body, err)
	}
	if p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" {
		t.Errorf("problem = %+v, want %d %q and a detail", p, status, http.StatusText(status))
	}
	if p.Trace == nil || p.Trace.RequestID == "" {
		t.Errorf("trace of the problem = %+v, want a request id", p.Trace)
	}
}

func TestBase64ResponseIsDecoded(t *testing.T) {
	g := newGateway(t, apigateway.Function{
		Group: newGroup("f", "GET /"),
		Edge: func(context.Context, events.APIGatewayProxyRequest) (events.APIGatewayProxyResponse, error) {
			return events.APIGatewayProxyResponse{
				StatusCode: 200, IsBase64Encoded: true,
				Body: base64.StdEncoding.EncodeToString([]byte{0, 255}),
			}, nil
		},
	})
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if !bytes.Equal(w.Body.Bytes(), []byte{0, 255}) {
		t.Errorf("body = %v, want [0 255]", w.Body.Bytes())
	}
}
