package endpoint_test

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/shared/mcp/endpoint"
)

// TestPanicsAreLoggedUnlessTheyAreMeant, and never told: http.ErrAbortHandler is how a handler of net/http gives up.
func TestPanicsAreLoggedUnlessTheyAreMeant(t *testing.T) {
	for cause, logged := range map[any]bool{http.ErrAbortHandler: false, "the secret cause": true} {
		var log strings.Builder
		text := endpoint.Failed(slog.New(slog.NewTextHandler(&log, nil)))(t.Context(), cause)
		if strings.Contains(text, "secret") || !strings.Contains(text, "request id") {
			t.Errorf("%v: the client is told %q", cause, text)
		}
		if got := strings.Contains(log.String(), "the secret cause") && strings.Contains(log.String(), "requestId="); got != logged || (log.Len() > 0) != logged {
			t.Errorf("%v: the log is %q", cause, &log)
		}
	}
}

func TestEachVersionIsDescribed(t *testing.T) {
	for _, version := range mcp.Versions() {
		if !strings.Contains(endpoint.Describe(), version) {
			t.Errorf("%s is not in %q", version, endpoint.Describe())
		}
	}
}

// TestAnAnswerIsPassedOnWhole, or not at all; and no cache keeps it.
func TestAnAnswerIsPassedOnWhole(t *testing.T) {
	response := func(body io.Reader) *http.Response {
		return &http.Response{
			StatusCode: http.StatusAccepted, Body: io.NopCloser(body),
			Header: http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"public"}, "Retry-After": {"3"}},
		}
	}
	got, err := endpoint.AnswerOf(response(strings.NewReader("some")))
	if err != nil || got.Status != http.StatusAccepted || got.ContentType != "text/event-stream" || got.CacheControl != "no-store" || got.RetryAfter != "3" || string(got.Body) != "some" {
		t.Errorf("it is %+v, %v", got, err)
	}
	if got, err := endpoint.AnswerOf(response(io.MultiReader(strings.NewReader("some"), iotest.ErrReader(errors.New("it breaks off"))))); err == nil {
		t.Errorf("an answer that breaks off is %+v", got)
	}
}
