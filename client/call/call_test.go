package call_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
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
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// asked is an API at an address, the key for it, and how long it has waited.
func asked(t *testing.T, handler http.HandlerFunc) (api *call.API, key string, waited *[]time.Duration) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	key = credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil))
	access, err := (&profile.Profiles{Current: "a", Profiles: map[string]profile.Profile{"a": {URL: server.URL, Account: "acme", Key: key}}}).Decide(profile.Typed{}, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	waited = new([]time.Duration)
	return &call.API{Access: access, HTTP: call.Client(), Sleep: func(ctx context.Context, d time.Duration) error {
		*waited = append(*waited, d)
		return ctx.Err()
	}}, key, waited
}

// tool is an operation of the API.
func tool(t *testing.T, name string) *apitools.Tool {
	t.Helper()
	all, err := apitools.Load()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(t apitools.Tool) bool { return t.Name == name })
	if i < 0 {
		t.Fatalf("there is no operation %s", name)
	}
	return &all[i]
}

// text is an argument.
func text(t *testing.T, v any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestRequestIsTheOperations(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	api, key, _ := asked(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"id":"x"}`)
	})
	answer, err := api.Do(t.Context(), tool(t, "ApiKeyConsumersService_create"), map[string]json.RawMessage{
		"bucketName": text(t, "a/../b"), "with-api-key": text(t, true), "name": text(t, "ada"), "tags": text(t, map[string]string{"team": "blue"}),
	})
	if err != nil || string(answer.Body) != `{"id":"x"}` {
		t.Fatalf("%+v, %v", answer, err)
	}
	if got.Method != http.MethodPost || got.RequestURI != "/v1/accounts/acme/key-buckets/a%2F..%2Fb/consumers?with-api-key=true" {
		t.Errorf("the request is %s %s", got.Method, got.RequestURI)
	}
	if got.Header.Get("Authorization") != "Bearer "+key || got.Header.Get("Idempotency-Key") == "" || got.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(got.Header.Get("User-Agent"), "gatewright/") {
		t.Errorf("its header is %v", got.Header)
	}
	if string(body) != `{"name":"ada","tags":{"team":"blue"}}` {
		t.Errorf("its body is %s", body)
	}
}

func TestNoKeyGoesWhereNoneIsNeeded(t *testing.T) {
	t.Parallel()
	api, _, _ := asked(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("it has a key")
		}
		_, _ = io.WriteString(w, `{}`)
	})
	if _, err := api.Do(t.Context(), tool(t, "openApi"), map[string]json.RawMessage{}); err != nil {
		t.Error(err)
	}
}

func TestKeyFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		api, key, _ := asked(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/"+r.Header.Get("Authorization"), status)
		})
		_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
		if err == nil || exit.Of(err) != exit.Failure || !strings.Contains(err.Error(), other.URL) || strings.Contains(err.Error(), key) {
			t.Errorf("%d is answered with %v", status, err)
		}
	}
	api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", strings.TrimPrefix(other.URL, "http:"))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
	if err == nil || !strings.Contains(err.Error(), "a redirect to "+strings.TrimPrefix(other.URL, "http://")+",") {
		t.Errorf("a redirect without a scheme is answered with %v", err)
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("another place was asked %d times", n)
	}
}

func TestStatusesEndACommandWithTheirCode(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]exit.Code{
		400: exit.Invalid, 401: exit.NotAllowed, 402: exit.NotAllowed, 403: exit.NotAllowed, 404: exit.NotFound, 405: exit.Failure, 408: exit.TimedOut, 409: exit.Conflict, 410: exit.NotFound, 412: exit.Conflict,
		413: exit.Invalid, 415: exit.Invalid, 418: exit.Failure, 422: exit.Invalid, 423: exit.Conflict, 428: exit.Conflict, 500: exit.Failure, 504: exit.TimedOut,
	} {
		api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"type":"x","title":"T","status":%d,"detail":"What to do.","errors":[{"location":"body.name","message":"m"}],"trace":{"requestId":"r"}}`, status)
		})
		_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
		p, is := errors.AsType[*call.Problem](err)
		if exit.Of(err) != want || !is || p.Status != status || !strings.HasPrefix(err.Error(), "What to do.\nbody.name: m") || !json.Valid(p.Document()) {
			t.Errorf("%d is %v (%d)", status, err, exit.Of(err))
		}
	}
	// Of fields alone the detail has each, which is told once.
	for detail, want := range map[string]string{"body.a: x; body.b: y": "body.a: x\nbody.b: y", "Both are wrong.": "Both are wrong.\nbody.a: x\nbody.b: y"} {
		api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"title":"T","detail":%q,"errors":[{"location":"body.a","message":"x"},{"location":"body.b","message":"y"}]}`, detail)
		})
		if _, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{}); err == nil || err.Error() != want {
			t.Errorf("%s is told as %v", detail, err)
		}
	}
	page, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>\x1b") })
	if _, err := page.Do(t.Context(), tool(t, "ApiKeyBucketsService_create"), map[string]json.RawMessage{"name": text(t, "b")}); exit.Of(err) != exit.Failure || strings.Contains(err.Error(), "html") {
		t.Errorf("a page is taken for an answer: %v", err)
	}
	api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>\x1b", http.StatusForbidden) })
	if _, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{}); exit.Of(err) != exit.NotAllowed || strings.Contains(err.Error(), "html") {
		t.Errorf("what is no API's answer is %v", err)
	}
}

// TestWhatIsSafeIsAskedAgain has an API fail in each way before it answers, and counts what reaches it.
func TestWhatIsSafeIsAskedAgain(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}
	answers := func(status int, after string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if after != "" {
				w.Header().Set("Retry-After", after)
			}
			w.WriteHeader(status)
		}
	}
	// at names a time as HTTP writes one, so long from now that a slow test waits for the better part of it.
	at := func(w http.ResponseWriter) {
		w.Header().Set("Retry-After", time.Now().Add(100*time.Second).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	half := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	}
	endless := func(w http.ResponseWriter) {
		w.Header().Set("Content-Encoding", "gzip")
		packed := gzip.NewWriter(w)
		for spaces := make([]byte, 1<<20); ; {
			if _, err := packed.Write(spaces); err != nil {
				return
			}
		}
	}
	for _, c := range []struct {
		name, operation string
		fails           func(http.ResponseWriter)
		times           int32 // how often it fails
		asked           int32 // how often it is asked in all
		last            int   // what it answers then, 200 for 0
		want            exit.Code
		waits           time.Duration // the first wait at least
		most            time.Duration // and each at most, 0 for any
	}{
		{name: "a read that is cut", operation: "AccountService_list", fails: cut, times: 2, asked: 3},
		{name: "a read that is half", operation: "AccountService_list", fails: half, times: 2, asked: 3},
		{name: "a read that is never answered", operation: "AccountService_list", fails: cut, times: 99, asked: 5, want: exit.Failure},
		{name: "a change that is cut", operation: "ApiKeyBucketsService_create", fails: cut, times: 2, asked: 3},
		{name: "a busy server", operation: "AccountService_list", fails: answers(503, "3"), times: 1, asked: 2, waits: 3 * time.Second},
		{name: "a busy server that names a time", operation: "AccountService_list", fails: at, times: 1, asked: 2, waits: 10 * time.Second},
		{name: "a proxy that reaches no server", operation: "ApiKeyBucketsService_create", fails: answers(502, ""), times: 2, asked: 3},
		{name: "a proxy that has given up", operation: "ApiKeyBucketsService_create", fails: answers(504, ""), times: 2, asked: 3},
		{name: "a server that stays busy", operation: "AccountService_list", fails: answers(503, ""), times: 99, asked: 5, want: exit.Failure},
		{name: "a server that asks for an hour", operation: "AccountService_list", fails: answers(429, "3600"), times: 1, asked: 1, want: exit.Failure},
		{name: "a server that asks for longer than there are numbers", operation: "AccountService_list", fails: answers(429, "99999999999999999999"), times: 1, asked: 1, want: exit.Failure},
		{name: "an answer without an end", operation: "AccountService_list", fails: endless, times: 1, asked: 1, want: exit.Failure},
		{name: "too many requests, for long", operation: "ApiKeyBucketsService_create", fails: answers(429, "20"), times: 9, asked: 10, waits: 20 * time.Second, most: 20 * time.Second},
		{name: "a rate that others share", operation: "ApiKeyBucketsService_create", fails: answers(429, "1"), times: 19, asked: 20, waits: time.Second, most: 8 * time.Second},
		{name: "an error of the server", operation: "AccountService_list", fails: answers(500, ""), times: 9, asked: 1, want: exit.Failure},
		{name: "a removal whose answer is lost", operation: "ApiKeyBucketsService_delete", fails: cut, times: 1, asked: 2, last: 404},
		{name: "a removal of nothing", operation: "ApiKeyBucketsService_delete", asked: 1, last: 404, want: exit.NotFound},
		{name: "a removal of nothing, after a wait", operation: "ApiKeyBucketsService_delete", fails: answers(429, "1"), times: 1, asked: 2, last: 404, want: exit.NotFound},
	} {
		var n atomic.Int32
		var ids []string
		api, _, waited := asked(t, func(w http.ResponseWriter, r *http.Request) {
			ids = append(ids, r.Header.Get("Idempotency-Key"))
			if n.Add(1) <= c.times {
				c.fails(w)
				return
			}
			if c.last != 0 {
				w.WriteHeader(c.last)
				return
			}
			_, _ = io.WriteString(w, `{}`)
		})
		_, err := api.Do(t.Context(), tool(t, c.operation), map[string]json.RawMessage{"bucketName": text(t, "b"), "name": text(t, "b")})
		if exit.Of(err) != c.want || n.Load() != c.asked || len(*waited) != int(c.asked)-1 {
			t.Errorf("%s: %v after %d requests and the waits %v", c.name, err, n.Load(), *waited)
		}
		if c.waits > 0 && (len(*waited) == 0 || (*waited)[0] < c.waits) {
			t.Errorf("%s: it waits %v, want %s", c.name, *waited, c.waits)
		}
		if c.most > 0 && len(*waited) > 0 && slices.Max(*waited) > c.most {
			t.Errorf("%s: it waits %v, want %s at most", c.name, *waited, c.most)
		}
		if len(slices.Compact(ids)) > 1 {
			t.Errorf("%s: the tries are of several requests: %v", c.name, ids)
		}
	}
}

// TestChangeThatMayBeMadeTwiceIsNotAskedForAgain has an operation that takes no Idempotency-Key, of which there is none today: once its answer is
// lost, it is said that nobody knows whether the change was made.
func TestChangeThatMayBeMadeTwiceIsNotAskedForAgain(t *testing.T) {
	t.Parallel()
	once := *tool(t, "ApiKeyBucketsService_create")
	once.Arguments = slices.DeleteFunc(slices.Clone(once.Arguments), func(g project.Argument) bool { return g.Name == "idempotencyKey" })
	for _, c := range []struct {
		status int // 0 for a connection that is cut
		asked  int32
		says   string
	}{{0, 1, "whether the change was made is not known"}, {503, 1, ""}, {429, 2, ""}} {
		var n atomic.Int32
		api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) {
			switch {
			case n.Add(1) > 1:
				_, _ = io.WriteString(w, `{}`)
			case c.status == 0:
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(c.status)
			}
		})
		_, err := api.Do(t.Context(), &once, map[string]json.RawMessage{"name": text(t, "b")})
		if n.Load() != c.asked || (err == nil) != (c.asked > 1) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d: it is asked %d times, and ends with %v", c.status, n.Load(), err)
		}
	}
}

func TestEndOfACommandEndsItsWaits(t *testing.T) {
	t.Parallel()
	api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	api.Sleep = call.Sleep
	ctx, end := context.WithCancelCause(t.Context())
	api.Waits = func(string, time.Duration) { end(exit.ErrInterrupted) }
	if _, err := api.Do(ctx, tool(t, "AccountService_list"), map[string]json.RawMessage{}); exit.Of(err) != exit.Interrupted {
		t.Errorf("it ends with %v", err)
	}
}

func TestConnectionsThatFailAreToldInSentences(t *testing.T) {
	t.Parallel()
	api, key, _ := asked(t, nil)
	for address, says := range map[string]string{
		"http://127.0.0.1:1":                "nothing listens there",
		"https://gatewright-nobody.invalid": "no machine of this name",
	} {
		origin, err := profile.Origin(address)
		if err != nil {
			t.Fatal(err)
		}
		api.Access.Origin = origin
		_, err = api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
		if exit.Of(err) != exit.Failure || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestConnectionsThatFailAreToldWithoutTheirAddress, of which a path or a query may be what somebody has typed and no log is to have.
func TestConnectionsThatFailAreToldWithoutTheirAddress(t *testing.T) {
	t.Parallel()
	api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(c, "no HTTP\r\n\r\n")
		_ = c.Close()
	})
	_, err := api.Do(t.Context(), tool(t, "ApiKeyBucketsService_read"), map[string]json.RawMessage{"bucketName": text(t, "of-a-customer")})
	if exit.Of(err) != exit.Failure || !strings.Contains(err.Error(), "what is no HTTP") || strings.Contains(err.Error(), "net/http") || strings.Contains(err.Error(), "of-a-customer") {
		t.Errorf("it ends with %v", err)
	}
}

// TestSwitchedConnectionIsNoAnswer has an API go over to another protocol and say nothing more: what reads such a connection waits for ever.
func TestSwitchedConnectionIsNoAnswer(t *testing.T) {
	t.Parallel()
	api, _, waited := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	})
	_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
	if exit.Of(err) != exit.Failure || !strings.Contains(err.Error(), "it answers 101") || len(*waited) > 0 {
		t.Errorf("it ends with %v after the waits %v", err, *waited)
	}
}

// TestListGoesOnByItsCursorAlone has entries be added and removed while a list is read, so that its total is none of what there is: the
// page without a next one is the last.
func TestListGoesOnByItsCursorAlone(t *testing.T) {
	t.Parallel()
	for name, total := range map[string]int{"removed meanwhile": 1, "added meanwhile": 9} {
		var n atomic.Int32
		api, _, _ := asked(t, func(w http.ResponseWriter, r *http.Request) {
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
		if want := fmt.Sprintf(`{"data":[{"name":"a"},{"name":"b"},{"name":"c"}],"total":%d}`, total); err != nil || string(got) != want || n.Load() != 2 {
			t.Errorf("%s: it is %s after %d requests, %v", name, got, n.Load(), err)
		}
	}
}

func TestPageAfterItselfEndsAList(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	api, _, _ := asked(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) > 9 {
			w.WriteHeader(http.StatusTeapot) // of a list that goes on
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"name":"a"}],"total":9,"next":"same"}`)
	})
	_, err := api.List(t.Context(), "ApiKeyConsumersService_list", map[string]any{"bucketName": "b"})
	if err == nil || !strings.Contains(err.Error(), "after itself") || n.Load() != 2 {
		t.Errorf("it ends with %v after %d requests", err, n.Load())
	}
}
