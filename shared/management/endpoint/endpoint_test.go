package endpoint_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/endpoint"
)

// TestPanicsAreLoggedUnlessAborted checks that panics are logged, except http.ErrAbortHandler,
// with which handlers of net/http abort a response. Clients must never see the value of a panic.
func TestPanicsAreLoggedUnlessAborted(t *testing.T) {
	for cause, logged := range map[any]bool{http.ErrAbortHandler: false, "the secret cause": true} {
		var log strings.Builder
		text := endpoint.LogFailure(slog.New(slog.NewTextHandler(&log, nil)))(t.Context(), cause)
		if strings.Contains(text, "secret") || !strings.Contains(text, "request id") {
			t.Errorf("LogFailure()(%v) = %q, want a request id without the cause", cause, text)
		}
		if got := strings.Contains(log.String(), "the secret cause") &&
			strings.Contains(log.String(), "requestId="); got != logged || (log.Len() > 0) != logged {
			t.Errorf("LogFailure()(%v) logs %q, want a line with the cause and a requestId: %t", cause, &log, logged)
		}
	}
}

func TestEachVersionIsDescribed(t *testing.T) {
	for _, version := range mcp.Versions() {
		if !strings.Contains(endpoint.Describe(), version) {
			t.Errorf("Describe() = %q, want the version %s", endpoint.Describe(), version)
		}
	}
}

// TestReadResponse checks that a response is forwarded completely or not at all, and that it must not be cached.
func TestReadResponse(t *testing.T) {
	response := func(body io.Reader) *http.Response {
		return &http.Response{
			StatusCode: http.StatusAccepted, Body: io.NopCloser(body),
			Header: http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"public"}, "Retry-After": {"3"}},
		}
	}
	got, err := endpoint.ReadResponse(response(strings.NewReader("some")))
	if err != nil || got.Status != http.StatusAccepted || string(got.Body) != "some" {
		t.Errorf("ReadResponse() = %d %q, %v, want 202 \"some\" and no error", got.Status, got.Body, err)
	}
	if got.ContentType != "text/event-stream" || got.CacheControl != "no-store" || got.RetryAfter != "3" {
		t.Errorf("ReadResponse(): type %q, Cache-Control %q, Retry-After %q, want text/event-stream, no-store, 3",
			got.ContentType, got.CacheControl, got.RetryAfter)
	}
	if got, err := endpoint.ReadResponse(response(io.MultiReader(strings.NewReader("some"),
		iotest.ErrReader(errors.New("it breaks off"))))); err == nil {
		t.Errorf("ReadResponse(body that breaks off) = %+v, want an error", got)
	}
}
