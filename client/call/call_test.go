package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// newTestAPI returns an API client for a test server, the client's key, and the waits that it has recorded.
func newTestAPI(t *testing.T, handler http.HandlerFunc) (api *call.API, key string, sleeps *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	key = credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil))
	access, err := (&profile.Profiles{
		Current:  "a",
		Profiles: map[string]profile.Profile{"a": {URL: server.URL, Account: "acme", Key: key}},
	}).Resolve(profile.Overrides{},
		func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	sleeps = new([]time.Duration)
	return &call.API{Access: access, HTTP: call.NewHTTPClient(), Sleep: func(ctx context.Context, d time.Duration) error {
		*sleeps = append(*sleeps, d)
		return ctx.Err()
	}}, key, sleeps
}

// tool returns the declaration of an operation.
func tool(t *testing.T, name string) *apitools.Tool {
	t.Helper()
	all, err := apitools.Load()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(t apitools.Tool) bool { return t.Name == name })
	if i < 0 {
		t.Fatalf("the API declares no operation %s, want one", name)
	}
	return &all[i]
}

// encode returns an argument in JSON.
func encode(t *testing.T, v any) json.RawMessage {
	t.Helper()
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func TestDoSendsOperationRequest(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	api, key, _ := newTestAPI(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"id":"x"}`)
	})
	resp, err := api.Do(t.Context(), tool(t, "ApiKeyConsumersService_create"), map[string]json.RawMessage{
		"bucketName": encode(t, "a/../b"), "with-api-key": encode(t, true), "name": encode(t, "ada"),
		"tags": encode(t, map[string]string{"team": "blue"}),
	})
	if err != nil {
		t.Fatalf("Do(ApiKeyConsumersService_create) error = %v, want none", err)
	}
	if string(resp.Body) != `{"id":"x"}` {
		t.Fatalf("Do(ApiKeyConsumersService_create) body = %s, want {\"id\":\"x\"}", resp.Body)
	}
	if got.Method != http.MethodPost ||
		got.RequestURI != "/v1/accounts/acme/key-buckets/a%2F..%2Fb/consumers?with-api-key=true" {
		t.Errorf("the request is %s %s, want POST and both arguments escaped in the URL", got.Method, got.RequestURI)
	}
	if got.Header.Get("Authorization") != "Bearer "+key || got.Header.Get("Idempotency-Key") == "" ||
		got.Header.Get("Content-Type") != "application/json" ||
		!strings.HasPrefix(got.Header.Get("User-Agent"), "gatewright/") {
		t.Errorf("request header = %v, want the key, an Idempotency-Key, application/json and the User-Agent gatewright/…",
			got.Header)
	}
	if string(body) != `{"name":"ada","tags":{"team":"blue"}}` {
		t.Errorf(`request body = %s, want {"name":"ada","tags":{"team":"blue"}}`, body)
	}
}

func TestPublicOperationSendsNoKey(t *testing.T) {
	t.Parallel()
	api, _, _ := newTestAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the request of a public operation has an Authorization header, want none")
		}
		_, _ = io.WriteString(w, `{}`)
	})
	if _, err := api.Do(t.Context(), tool(t, "openApi"), map[string]json.RawMessage{}); err != nil {
		t.Errorf("Do(openApi) error = %v, want none", err)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	var otherRequests atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { otherRequests.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		api, key, _ := newTestAPI(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/"+r.Header.Get("Authorization"), status)
		})
		_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
		if err == nil || exit.CodeOf(err) != exit.Failure || !strings.Contains(err.Error(), other.URL) ||
			strings.Contains(err.Error(), key) {
			t.Errorf("Do() after a redirect with status %d: error = %v, want code %d, the new address and no key",
				status, err, exit.Failure)
		}
	}
	api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", strings.TrimPrefix(other.URL, "http:"))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
	if err == nil || !strings.Contains(err.Error(), "a redirect to "+strings.TrimPrefix(other.URL, "http://")+",") {
		t.Errorf("Do() after a redirect without a scheme: error = %v, want the new address", err)
	}
	if n := otherRequests.Load(); n > 0 {
		t.Errorf("the target of the redirect has %d requests, want 0", n)
	}
}

func TestStatusDeterminesExitCode(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]exit.Code{
		400: exit.Invalid, 401: exit.NotAllowed, 402: exit.NotAllowed, 403: exit.NotAllowed, 404: exit.NotFound,
		405: exit.Failure, 408: exit.TimedOut, 409: exit.Conflict, 410: exit.NotFound, 412: exit.Conflict,
		413: exit.Invalid, 415: exit.Invalid, 418: exit.Failure, 422: exit.Invalid, 423: exit.Conflict, 428: exit.Conflict,
		500: exit.Failure, 504: exit.TimedOut,
	} {
		api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w,
				`{"type":"x","title":"T","status":%d,"detail":"What to do.","errors":[{"location":"body.name","message":"m"}],`+
					`"trace":{"requestId":"r"}}`, status)
		})
		_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
		p, ok := errors.AsType[*call.Problem](err)
		if !ok {
			t.Errorf("Do() with status %d: error = %v, want a *call.Problem", status, err)
			continue
		}
		if code := exit.CodeOf(err); code != want || p.Status != status {
			t.Errorf("Do() with status %d: exit code = %d and Problem.Status = %d, want %d and %d",
				status, code, p.Status, want, status)
		}
		if !strings.HasPrefix(err.Error(), "What to do.\nbody.name: m") || !json.Valid(p.Document()) {
			t.Errorf("Do() with status %d: error = %v with the document %s, want detail and field, and valid JSON",
				status, err, p.Document())
		}
	}
	// A detail that only repeats the fields must be shown once.
	for detail, want := range map[string]string{
		"body.a: x; body.b: y": "body.a: x\nbody.b: y",
		"Both are wrong.":      "Both are wrong.\nbody.a: x\nbody.b: y",
	} {
		api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w,
				`{"title":"T","detail":%q,"errors":[{"location":"body.a","message":"x"},{"location":"body.b","message":"y"}]}`,
				detail)
		})
		if _, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{}); err == nil ||
			err.Error() != want {
			t.Errorf("Do() with the detail %q: error = %v, want %q", detail, err, want)
		}
	}
	htmlAPI, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>\x1b") })
	if _, err := htmlAPI.Do(t.Context(), tool(t, "ApiKeyBucketsService_create"),
		map[string]json.RawMessage{"name": encode(t, "b")}); exit.CodeOf(err) != exit.Failure ||
		strings.Contains(err.Error(), "html") {
		t.Errorf("Do() with a page of HTML as response: error = %v, want code %d and no HTML", err, exit.Failure)
	}
	api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<html>\x1b", http.StatusForbidden)
	})
	if _, err := api.Do(t.Context(), tool(t, "AccountService_list"),
		map[string]json.RawMessage{}); exit.CodeOf(err) != exit.NotAllowed || strings.Contains(err.Error(), "html") {
		t.Errorf("Do() with a page of HTML and status 403: error = %v, want code %d and no HTML", err, exit.NotAllowed)
	}
}

func TestCanceledContextEndsBackoff(t *testing.T) {
	t.Parallel()
	api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	api.Sleep = call.Sleep
	ctx, cancel := context.WithCancelCause(t.Context())
	api.OnWait = func(string, time.Duration) { cancel(exit.ErrInterrupted) }
	_, err := api.Do(ctx, tool(t, "AccountService_list"), map[string]json.RawMessage{})
	if exit.CodeOf(err) != exit.Interrupted {
		t.Errorf("Do() with a context that is canceled during a wait: error = %v, want code %d", err, exit.Interrupted)
	}
}

func TestConnectionErrorIsExplained(t *testing.T) {
	t.Parallel()
	api, key, _ := newTestAPI(t, nil)
	for address, want := range map[string]string{
		"http://127.0.0.1:1":                "nothing listens there",
		"https://gatewright-nobody.invalid": "no machine of this name",
	} {
		origin, err := profile.ParseOrigin(address)
		if err != nil {
			t.Fatal(err)
		}
		api.Access.Origin = origin
		_, err = api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
		if exit.CodeOf(err) != exit.Failure || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), key) {
			t.Errorf("Do() at %s: error = %v, want code %d and %q, without the key", address, err, exit.Failure, want)
		}
	}
}

// TestConnectionErrorOmitsURL checks that errors contain no path or query: these may be user input that must not be in
// logs.
func TestConnectionErrorOmitsURL(t *testing.T) {
	t.Parallel()
	api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "no HTTP\r\n\r\n")
		_ = c.Close()
	})
	_, err := api.Do(t.Context(), tool(t, "ApiKeyBucketsService_read"),
		map[string]json.RawMessage{"bucketName": encode(t, "of-a-customer")})
	if exit.CodeOf(err) != exit.Failure || !strings.Contains(err.Error(), "what is no HTTP") ||
		strings.Contains(err.Error(), "net/http") || strings.Contains(err.Error(), "of-a-customer") {
		t.Errorf("Do() with a response that is not HTTP: error = %v, want code %d, the reason, and no URL",
			err, exit.Failure)
	}
}

// TestSwitchingProtocolsIsRefused checks that a response with status 101 is an error. The test server then sends
// nothing, so reading the connection would block forever.
func TestSwitchingProtocolsIsRefused(t *testing.T) {
	t.Parallel()
	api, _, sleeps := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	})
	_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
	if exit.CodeOf(err) != exit.Failure || !strings.Contains(err.Error(), "it answers 101") || len(*sleeps) > 0 {
		t.Errorf("Do() with status 101: error = %v after the waits %v, want code %d and the status after no wait",
			err, *sleeps, exit.Failure)
	}
}

// TestListEndsWithoutNextCursor adds and removes entries while a list is read, so the total is wrong. The list must end
// at the page that has no next cursor.
func TestListEndsWithoutNextCursor(t *testing.T) {
	t.Parallel()
	for name, total := range map[string]int{"entries removed meanwhile": 1, "entries added meanwhile": 9} {
		var n atomic.Int32
		api, _, _ := newTestAPI(t, func(w http.ResponseWriter, r *http.Request) {
			switch n.Add(1); r.FormValue("after") {
			case "":
				_, _ = fmt.Fprintf(w, `{"data":[{"name":"a"},{"name":"b"}],"total":%d,"next":"after-b"}`, total)
			case "after-b":
				_, _ = fmt.Fprintf(w, `{"data":[{"name":"c"}],"total":%d}`, total)
			default:
				w.WriteHeader(http.StatusTeapot)
			}
		})
		got, err := api.List(t.Context(), "ApiKeyConsumersService_list", map[string]any{"bucketName": "b"})
		if want := fmt.Sprintf(`{"data":[{"name":"a"},{"name":"b"},{"name":"c"}],"total":%d}`, total); err != nil ||
			string(got) != want || n.Load() != 2 {
			t.Errorf("%s: List() = %s, %v after %d requests, want %s after 2", name, got, err, n.Load(), want)
		}
	}
}

func TestRepeatedCursorFailsList(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) > 9 {
			w.WriteHeader(http.StatusTeapot) // end a client that reads too many pages
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"name":"a"}],"total":9,"next":"same"}`)
	})
	_, err := api.List(t.Context(), "ApiKeyConsumersService_list", map[string]any{"bucketName": "b"})
	if err == nil || !strings.Contains(err.Error(), "after itself") || n.Load() != 2 {
		t.Errorf("List() with a repeated cursor: error = %v after %d requests, want \"after itself\" after 2", err, n.Load())
	}
}
