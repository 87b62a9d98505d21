package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
)

// TestEndlessListFails checks that List returns an error if a cursor occurs twice, and that AddPage returns an error if
// the pages exceed 1024 MiB. Otherwise the list would exhaust the memory.
func TestEndlessListFails(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) > 9 {
			w.WriteHeader(http.StatusTeapot) // end a client that reads too many pages
			return
		}
		_, _ = fmt.Fprintf(w, `{"data":[{"name":"a"}],"total":9,"next":"%d"}`, n.Load()%3)
	})
	_, err := api.List(t.Context(), "ApiKeyConsumersService_list", map[string]any{"bucketName": "b"})
	if err == nil || !strings.Contains(err.Error(), "after itself") || n.Load() != 4 {
		t.Errorf("List() with cursors in a circle: error = %v after %d requests, want \"after itself\" after 4",
			err, n.Load())
	}
	var tracker call.PageTracker
	for page := range 2 {
		if err = tracker.AddPage(600<<20, fmt.Sprint(page)); page == 0 && err != nil {
			t.Errorf("AddPage() of 600 MiB: error = %v, want none", err)
		}
	}
	if err == nil || !strings.Contains(err.Error(), "1024 MiB") {
		t.Errorf("AddPage() of 1200 MiB in all: error = %v, want \"1024 MiB\"", err)
	}
}

// stalledTransport is an http.RoundTripper whose response begins, continues slowly, and then stops.
type stalledTransport struct{ requests int }

func (s *stalledTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	s.requests++
	pr, pw := io.Pipe()
	go func() {
		for range 5 {
			_, _ = pw.Write([]byte("{"))
			time.Sleep(50 * time.Second)
		}
		<-r.Context().Done()
		_ = pw.CloseWithError(r.Context().Err())
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: pr, Request: r}, nil
}

func TestStalledBodyTimesOut(t *testing.T) {
	t.Parallel()
	api, _, _ := newTestAPI(t, nil)
	synctest.Test(t, func(t *testing.T) {
		transport := &stalledTransport{}
		api := &call.API{Access: api.Access, HTTP: &http.Client{Transport: transport}, Sleep: call.Sleep}
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		_, err := api.Do(ctx, tool(t, "AccountService_list"), map[string]json.RawMessage{})
		if exit.CodeOf(err) != exit.Failure || !strings.Contains(err.Error(), "in the middle of its answer") ||
			transport.requests != 5 {
			t.Errorf("Do() with a stalled body: error = %v after %d requests, want code %d and "+
				"\"in the middle of its answer\" after 5 requests", err, transport.requests, exit.Failure)
		}
	})
}

// TestUnknownOutcomeIsReported sends requests whose responses are lost. If the request was a change, the error must say
// that its outcome is unknown, because running the command again could make a second change. It must not say so if no
// connection was established, because then nothing was sent.
func TestUnknownOutcomeIsReported(t *testing.T) {
	t.Parallel()
	const unknown = "whether the change was made is not known"
	for operation, reported := range map[string]bool{
		"AccountService_list": false, "ApiKeyBucketsService_create": true,
		"ApiKeyBucketsService_delete": true,
	} {
		api, _, _ := newTestAPI(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		do := func(ctx context.Context) error {
			_, err := api.Do(ctx, tool(t, operation), map[string]json.RawMessage{
				"bucketName": encode(t, "b"),
				"name":       encode(t, "b"),
			})
			return err
		}
		if err := do(t.Context()); exit.CodeOf(err) != exit.Failure || strings.Contains(err.Error(), unknown) != reported {
			t.Errorf("Do(%s) error = %v, want code %d and strings.Contains(error, %q) = %t",
				operation, err, exit.Failure, unknown, reported)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		api.Sleep = func(context.Context, time.Duration) error { cancel(exit.ErrInterrupted); return context.Cause(ctx) }
		if err := do(ctx); !errors.Is(err, exit.ErrInterrupted) || strings.Contains(err.Error(), unknown) != reported {
			t.Errorf("Do(%s) interrupted between two attempts: error = %v, want %v and strings.Contains(error, %q) = %t",
				operation, err, exit.ErrInterrupted, unknown, reported)
		}
	}
	checkUnsentChange(t, unknown)
	ctx, cancel := context.WithCancelCause(t.Context())
	api, _, _ := newTestAPI(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not detect that the client disconnects
		cancel(exit.ErrInterrupted)
		<-r.Context().Done()
	})
	_, err := api.Do(ctx, tool(t, "ApiKeyBucketsService_create"), map[string]json.RawMessage{"name": encode(t, "b")})
	if !errors.Is(err, exit.ErrInterrupted) || !strings.Contains(err.Error(), unknown) {
		t.Errorf("Do() interrupted during the request: error = %v, want %v with %q", err, exit.ErrInterrupted, unknown)
	}
}

// checkUnsentChange lets connections fail. The outcome of a change is unknown only if an earlier attempt was sent.
func checkUnsentChange(t *testing.T, unknown string) {
	t.Helper()
	for name, connections := range map[string]int{"no connection": 0, "a lost response, then no connection": 1} {
		api, _, _ := newTestAPI(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		api.HTTP = &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if connections--; connections < 0 {
					return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
				}
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		}}
		wantUnknown := connections > 0
		_, err := api.Do(t.Context(), tool(t, "ApiKeyBucketsService_create"),
			map[string]json.RawMessage{"name": encode(t, "b")})
		if exit.CodeOf(err) != exit.Failure || strings.Contains(err.Error(), unknown) != wantUnknown {
			t.Errorf("Do() with %s: error = %v, want code %d and strings.Contains(error, %q) = %t",
				name, err, exit.Failure, unknown, wantUnknown)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	api, _, _ := newTestAPI(t, func(http.ResponseWriter, *http.Request) {})
	api.HTTP = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			cancel(exit.ErrInterrupted)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}}
	_, err := api.Do(ctx, tool(t, "ApiKeyBucketsService_create"), map[string]json.RawMessage{"name": encode(t, "b")})
	if !errors.Is(err, exit.ErrInterrupted) || strings.Contains(err.Error(), unknown) {
		t.Errorf("Do() interrupted during the dial: error = %v, want %v without %q", err, exit.ErrInterrupted, unknown)
	}
}

// TestHugeProblemIsTruncated checks that the error text of a huge problem is truncated, also if the text has combining
// or control characters.
func TestHugeProblemIsTruncated(t *testing.T) {
	t.Parallel()
	for _, long := range []string{
		strings.Repeat("y", 5<<20), strings.Repeat("\u0301", 2<<20),
		strings.Repeat("\x1b", 1<<20),
	} {
		api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			field := map[string]string{"location": "body.name", "message": long[:len(long)/100]}
			fields := make([]any, 300)
			for i := range fields {
				fields[i] = field
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"title": "T", "detail": long, "errors": fields})
		})
		_, err := api.Do(t.Context(), tool(t, "AccountService_list"), map[string]json.RawMessage{})
		if exit.CodeOf(err) != exit.Invalid || !strings.Contains(err.Error(), "and 250 more") {
			t.Fatalf("Do() with 300 invalid fields and the detail %.8q…: error = %.100v, want code %d and \"and 250 more\"",
				long, err, exit.Invalid)
		}
		if n := len(err.Error()); n > 4<<20 { // the limit for 50 fields and the detail
			t.Errorf("Do() with the detail %.8q…: the error has %d bytes, want at most %d", long, n, 4<<20)
		}
	}
}

// TestUnexpectedResponseTypeIsExplained checks the error for a response that differs from the API's declaration. It
// must say where the response differs, and must not name a Go type.
func TestUnexpectedResponseTypeIsExplained(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`[1,"x"]`: "the kind array", `7`: "the kind number", `"x"`: "the kind string", ``: "it is no document",
		`{"data":{"a":1}}`: "in data", `{"data":[],"total":"x"}`: "in total", `{"data":[],"next":5}`: "in next",
		strings.Repeat("[", 300) + strings.Repeat("]", 300): "no JSON", `{} {}`: "no JSON", `<html>`: "no JSON",
	} {
		api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		_, err := api.List(t.Context(), "ApiKeyConsumersService_list", map[string]any{"bucketName": "b"})
		if exit.CodeOf(err) != exit.Failure || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "the address of a management API") || strings.Contains(err.Error(), "Go ") {
			t.Errorf("List() with the response %.40s: error = %v, want code %d, %q, \"the address of a management API\", "+
				"and no name of a Go type", body, err, exit.Failure, want)
		}
	}
}

// TestListTotalComesFromPages checks that List finds the total, also in pages of the audit log, where it is in another
// member.
func TestListTotalComesFromPages(t *testing.T) {
	t.Parallel()
	for _, page := range []string{`{"data":[{}],"total":7}`, `{"data":[{}],"pagination":{"total":7}}`} {
		api, _, _ := newTestAPI(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
		if list, err := api.List(t.Context(), "AuditLogsService_list", nil); err != nil ||
			string(list) != `{"data":[{}],"total":7}` {
			t.Errorf(`List() with the page %s = %s, %v, want {"data":[{}],"total":7}`, page, list, err)
		}
	}
}
