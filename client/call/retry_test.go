package call_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/format/project"
)

// retryTest describes an API whose first responses are failures, and the expected requests and waits.
type retryTest struct {
	name, operation string
	fail            func(http.ResponseWriter)
	failures        int32 // number of failures
	requests        int32 // the expected number of requests
	lastStatus      int   // the status of the last response, 200 for 0
	want            exit.Code
	minFirstWait    time.Duration // the minimum of the first wait
	maxWait         time.Duration // the maximum of each wait, 0 for no maximum
}

// retryTests have at least one operation for each kind of failure.
var retryTests = []retryTest{
	{
		name: "read with a closed connection", operation: "AccountService_list", fail: closeConnection, failures: 2,
		requests: 3,
	},
	{
		name: "read with a truncated response", operation: "AccountService_list", fail: truncateBody, failures: 2,
		requests: 3,
	},
	{
		name: "read with closed connections only", operation: "AccountService_list", fail: closeConnection, failures: 99,
		requests: 5, want: exit.Failure,
	},
	{
		name: "change with a closed connection", operation: "ApiKeyBucketsService_create", fail: closeConnection,
		failures: 2, requests: 3,
	},
	{
		name: "busy server with Retry-After in seconds", operation: "AccountService_list", fail: respondWith(503, "3"),
		failures: 1, requests: 2, minFirstWait: 3 * time.Second,
	},
	{
		name: "busy server with a date in Retry-After", operation: "AccountService_list", fail: retryAfterDate, failures: 1,
		requests: 2, minFirstWait: 10 * time.Second,
	},
	{
		name: "proxy without a server", operation: "ApiKeyBucketsService_create", fail: respondWith(502, ""), failures: 2,
		requests: 3,
	},
	{
		name: "proxy with a timeout", operation: "ApiKeyBucketsService_create", fail: respondWith(504, ""), failures: 2,
		requests: 3,
	},
	{
		name: "server that is always busy", operation: "AccountService_list", fail: respondWith(503, ""), failures: 99,
		requests: 5, want: exit.Failure,
	},
	{
		name: "Retry-After of an hour", operation: "AccountService_list", fail: respondWith(429, "3600"), failures: 1,
		requests: 1, want: exit.Failure,
	},
	{
		name: "Retry-After beyond 64 bits", operation: "AccountService_list", fail: respondWith(429, "99999999999999999999"),
		failures: 1, requests: 1, want: exit.Failure,
	},
	{
		name: "endless response", operation: "AccountService_list", fail: sendEndlessBody, failures: 1, requests: 1,
		want: exit.Failure,
	},
	{
		name: "rate limit with long waits", operation: "ApiKeyBucketsService_create", fail: respondWith(429, "20"),
		failures: 9, requests: 10, minFirstWait: 20 * time.Second, maxWait: 20 * time.Second,
	},
	{
		name: "rate limit shared with other clients", operation: "ApiKeyBucketsService_create", fail: respondWith(429, "1"),
		failures: 19, requests: 20, minFirstWait: time.Second, maxWait: 8 * time.Second,
	},
	{
		name: "internal error", operation: "AccountService_list", fail: respondWith(500, ""), failures: 9, requests: 1,
		want: exit.Failure,
	},
	{
		name: "deletion with a lost response", operation: "ApiKeyBucketsService_delete", fail: closeConnection, failures: 1,
		requests: 2, lastStatus: 404,
	},
	{
		name: "deletion of a missing object", operation: "ApiKeyBucketsService_delete", requests: 1, lastStatus: 404,
		want: exit.NotFound,
	},
	{
		name: "deletion of a missing object after a wait", operation: "ApiKeyBucketsService_delete",
		fail: respondWith(429, "1"), failures: 1, requests: 2, lastStatus: 404, want: exit.NotFound,
	},
}

// closeConnection closes the connection without a response.
func closeConnection(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// respondWith returns a function that responds with a status. It sets Retry-After unless retryAfter is "".
func respondWith(status int, retryAfter string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
	}
}

// retryAfterDate responds with a Retry-After date in 100 seconds: so late that even a slow test still measures a long
// wait.
func retryAfterDate(w http.ResponseWriter) {
	w.Header().Set("Retry-After", time.Now().Add(100*time.Second).UTC().Format(http.TimeFormat))
	w.WriteHeader(http.StatusServiceUnavailable)
}

// truncateBody ends a response before its body is complete.
func truncateBody(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, "{")
}

// sendEndlessBody sends an endless response.
func sendEndlessBody(w http.ResponseWriter) {
	w.Header().Set("Content-Encoding", "gzip")
	zw := gzip.NewWriter(w)
	for spaces := make([]byte, 1<<20); ; {
		if _, err := zw.Write(spaces); err != nil {
			return
		}
	}
}

// TestRepeatableRequestIsRetried checks the result, the number of requests, the waits and the idempotency keys for each
// kind of failure.
func TestRepeatableRequestIsRetried(t *testing.T) {
	t.Parallel()
	for _, c := range retryTests {
		var n atomic.Int32
		var ids []string
		api, _, sleeps := newTestAPI(t, func(w http.ResponseWriter, r *http.Request) {
			ids = append(ids, r.Header.Get("Idempotency-Key"))
			if n.Add(1) <= c.failures {
				c.fail(w)
				return
			}
			if c.lastStatus != 0 {
				w.WriteHeader(c.lastStatus)
				return
			}
			_, _ = io.WriteString(w, `{}`)
		})
		_, err := api.Do(t.Context(), tool(t, c.operation), map[string]json.RawMessage{
			"bucketName": encode(t, "b"),
			"name":       encode(t, "b"),
		})
		if exit.CodeOf(err) != c.want || n.Load() != c.requests || len(*sleeps) != int(c.requests)-1 {
			t.Errorf("%s: Do() = %v after %d requests and the waits %v, want code %d after %d requests",
				c.name, err, n.Load(), *sleeps, c.want, c.requests)
		}
		if c.minFirstWait > 0 && (len(*sleeps) == 0 || (*sleeps)[0] < c.minFirstWait) {
			t.Errorf("%s: waits = %v, want at least %s first", c.name, *sleeps, c.minFirstWait)
		}
		if c.maxWait > 0 && len(*sleeps) > 0 && slices.Max(*sleeps) > c.maxWait {
			t.Errorf("%s: waits = %v, want at most %s each", c.name, *sleeps, c.maxWait)
		}
		if len(slices.Compact(ids)) > 1 {
			t.Errorf("%s: the attempts have the idempotency keys %v, want one key", c.name, ids)
		}
	}
}

// TestNonIdempotentChangeIsNotRetried checks that an operation without an Idempotency-Key is repeated only after status
// 429. If the response is lost, the error must say that the outcome is unknown. The test declares such an operation,
// because the API has none.
func TestNonIdempotentChangeIsNotRetried(t *testing.T) {
	t.Parallel()
	nonIdempotent := *tool(t, "ApiKeyBucketsService_create")
	nonIdempotent.Arguments = slices.DeleteFunc(slices.Clone(nonIdempotent.Arguments), func(arg project.Argument) bool {
		return arg.Name == "idempotencyKey"
	})
	for _, c := range []struct {
		status   int // 0: the server closes the connection
		requests int32
		wantErr  string
	}{{0, 1, "whether the change was made is not known"}, {503, 1, ""}, {429, 2, ""}} {
		var n atomic.Int32
		api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			switch {
			case n.Add(1) > 1:
				_, _ = io.WriteString(w, `{}`)
			case c.status == 0:
				panic(http.ErrAbortHandler)
			default:
				w.WriteHeader(c.status)
			}
		})
		_, err := api.Do(t.Context(), &nonIdempotent, map[string]json.RawMessage{"name": encode(t, "b")})
		if n.Load() != c.requests || (err == nil) != (c.requests > 1) ||
			err != nil && !strings.Contains(err.Error(), c.wantErr) {
			t.Errorf("Do() of a change that is not idempotent, with status %d: error = %v after %d requests, "+
				"want an error: %t, with %q, after %d", c.status, err, n.Load(), c.requests == 1, c.wantErr, c.requests)
		}
	}
}
