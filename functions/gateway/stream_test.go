package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
)

// stream sends an event for a GET request to the streaming Lambda handler for h, and returns its response.
func stream(
	ctx context.Context, t *testing.T, h http.HandlerFunc, event events.APIGatewayProxyRequest,
) *events.APIGatewayProxyStreamingResponse {
	t.Helper()
	p := installation.Parts{Config: config.Config{Streaming: true}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	handler, ok := gateway.LambdaHandler(p, h).(gateway.StreamingHandler)
	if !ok {
		t.Fatal("LambdaHandler() with streaming is no gateway.StreamingHandler, want one")
	}
	event.HTTPMethod = http.MethodGet
	event.RequestContext.RequestID = "the-request"
	out, err := handler(ctx, event)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestResponseIsStreamed checks that Lambda gets the status and the headers of a response first, and then each part of
// the body as soon as the handler has written it.
func TestResponseIsStreamed(t *testing.T) {
	next := make(chan string)
	out := stream(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop-main-0123abc.apis.example.com" || r.URL.Query()["q"][0] != "a b" {
			t.Errorf("request = %s of %s, want q=a b of shop-main-0123abc.apis.example.com", r.URL, r.Host)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusAccepted)
		for part := range next {
			_, _ = io.WriteString(w, part)
		}
	}, events.APIGatewayProxyRequest{
		Path: "/events", QueryStringParameters: map[string]string{"q": "a b"},
		MultiValueHeaders: map[string][]string{"Host": {"shop-main-0123abc.apis.example.com"}},
	})
	head := make([]byte, 4096)
	n, err := out.Read(head)
	if err != nil {
		t.Fatal(err)
	}
	prelude, rest, found := bytes.Cut(head[:n], make([]byte, 8))
	var meta struct {
		StatusCode        int
		MultiValueHeaders http.Header
	}
	if err := json.Unmarshal(prelude, &meta); err != nil || !found || len(rest) > 0 {
		t.Fatalf("beginning of the response = %q, %v, want JSON, 8 zeros and nothing after them", head[:n], err)
	}
	if meta.StatusCode != http.StatusAccepted || meta.MultiValueHeaders.Get("Content-Type") != "text/event-stream" {
		t.Errorf("head of the response = %+v, want 202 with text/event-stream", meta)
	}
	for _, part := range []string{"one", "two", strings.Repeat("x", 7<<10)} {
		next <- part
		got := make([]byte, len(part))
		if _, err := io.ReadFull(out, got); err != nil || string(got) != part {
			t.Errorf("ReadFull() = %q, %v, want %q", got, err, part)
		}
	}
	close(next)
	if remaining, err := io.ReadAll(out); err != nil || len(remaining) > 0 {
		t.Errorf("ReadAll() at the end = %q, %v, want no more", remaining, err)
	}
}

// slowFlusher takes some time to write its counts.
type slowFlusher struct {
	http.HandlerFunc
	flushed bool
}

// FlushIfDue takes a second. The Lambda handler calls it before an invocation ends.
func (s *slowFlusher) FlushIfDue(context.Context) {
	time.Sleep(time.Second)
	s.flushed = true
}

// TestStreamEndsAfterCountsAreWritten checks that a stream ends only after the counts were written. The invocation ends
// with the stream, so an unfinished write would be frozen with the process.
func TestStreamEndsAfterCountsAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &slowFlusher{HandlerFunc: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "all of it") }}
		p := installation.Parts{Config: config.Config{Streaming: true}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		out, err := gateway.Stream(p, h)(t.Context(), events.APIGatewayProxyRequest{HTTPMethod: http.MethodGet, Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(out.Body); string(body) != "all of it" || err != nil || !h.flushed {
			t.Errorf("body = %q, %v, with counts written: %t, want \"all of it\" with true", body, err, h.flushed)
		}
	})
}

// TestStreamEndsAfterSpansAreSent checks that the spans of a request are sent before its stream ends.
func TestStreamEndsAfterSpansAreSent(t *testing.T) {
	collector := telemetrytest.New(t)
	p := installation.Parts{
		Config: config.Config{Streaming: true}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
		Telemetry: telemetry.Options{Tracer: collector.Tracer},
	}
	out, err := gateway.Stream(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, span := collector.Start(r.Context(), "x", nil)
		span.End(false)
		_, _ = io.WriteString(w, "all of it")
	}))(t.Context(), events.APIGatewayProxyRequest{HTTPMethod: http.MethodGet, Path: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(out.Body); string(body) != "all of it" || err != nil || len(collector.Requests()) != 1 {
		t.Errorf("body = %q, %v, after %d requests to the collector, want \"all of it\" after 1",
			body, err, len(collector.Requests()))
	}
}

// TestAbortedStreamIsTruncated checks that the stream of an aborted response ends with an error, so that the client can
// detect that the body is incomplete.
func TestAbortedStreamIsTruncated(t *testing.T) {
	out := stream(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half of it")
		panic(http.ErrAbortHandler)
	}, events.APIGatewayProxyRequest{Path: "/"})
	body, err := io.ReadAll(out.Body)
	if string(body) != "half of it" || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("body = %q, %v, want \"half of it\" and an error other than EOF", body, err)
	}
}

// TestAbortedRequestIsAProblem checks that the response is 502 if the handler fails before the response begins. It also
// checks that an invalid path gets 400, and that a handler that writes nothing gets 200.
func TestAbortedRequestIsAProblem(t *testing.T) {
	out := stream(t.Context(), t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		events.APIGatewayProxyRequest{Path: "/"})
	if body, err := io.ReadAll(out.Body); out.StatusCode != http.StatusBadGateway || err != nil ||
		!strings.Contains(string(body), "the-request") {
		t.Errorf("response = %d %s, %v, want 502 with the-request", out.StatusCode, body, err)
	}
	out = stream(t.Context(), t, nil, events.APIGatewayProxyRequest{Path: "/50%"})
	if out.StatusCode != http.StatusBadRequest {
		t.Errorf("status of the path /50%% = %d, want 400", out.StatusCode)
	}
	out = stream(t.Context(), t, func(http.ResponseWriter, *http.Request) {}, events.APIGatewayProxyRequest{Path: "/"})
	if out.StatusCode != http.StatusOK {
		t.Errorf("status of an empty response = %d, want 200", out.StatusCode)
	}
}

// TestResponseHeadTimesOut checks that the response is 504 if its head does not arrive within 28 seconds, although a
// stream can take 15 minutes. The request must be canceled. The invocation must wait up to three seconds until the
// handler has returned, because the handler releases the request's slot.
func TestResponseHeadTimesOut(t *testing.T) {
	for cleanup, wantWait := range map[time.Duration]time.Duration{
		0: 0, time.Second: time.Second,
		time.Hour: 3 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
			start, finished := time.Now(), make(chan struct{})
			out := stream(ctx, t, func(w http.ResponseWriter, r *http.Request) {
				defer close(finished)
				<-r.Context().Done()
				time.Sleep(cleanup)
				_, _ = io.WriteString(w, "too late")
			}, events.APIGatewayProxyRequest{Path: "/"})
			if elapsed := time.Since(start); elapsed != 28*time.Second || out.StatusCode != http.StatusGatewayTimeout {
				t.Errorf("status with a cleanup of %s = %d after %s, want 504 after 28s", cleanup, out.StatusCode, elapsed)
			}
			start = time.Now()
			if body, err := io.ReadAll(out.Body); err != nil || !strings.Contains(string(body), "too long") ||
				strings.Contains(string(body), "too late") {
				t.Errorf("body with a cleanup of %s = %s, %v, want \"too long\" without \"too late\"", cleanup, body, err)
			}
			if waitTime := time.Since(start); waitTime != wantWait {
				t.Errorf("time until the stream ends = %s with a cleanup of %s, want %s", waitTime, cleanup, wantWait)
			}
			cancel()
			<-finished
		})
	}
}

// TestEventPathIsUnchanged checks that the handler receives the path exactly as in the event. The gateway itself
// interprets the path.
func TestEventPathIsUnchanged(t *testing.T) {
	for _, path := range []string{`/a"%2Fb`, "//admin", "/v1/..%2Fadmin", "/%61dmin/%2e%2e", "/x;a/..;", `/a\b`} {
		out := stream(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
			received := r.URL.RawPath
			if received == "" {
				received = r.URL.EscapedPath()
			}
			_, _ = io.WriteString(w, received)
		}, events.APIGatewayProxyRequest{Path: path})
		got, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(got), path) {
			t.Errorf("stream = %q, want one that ends with the path %s", got, path)
		}
	}
}

// TestContentTypeIsNotGuessed checks that a response without a content type stays without one. The adapter would
// otherwise guess a type from the body, such as text/html for data that looks like a web page.
func TestContentTypeIsNotGuessed(t *testing.T) {
	for _, streaming := range []bool{false, true} {
		for body, want := range map[string]http.Header{"<html></html>": {"X-A": {"1"}}, "": {"X-A": {"1"}}} {
			handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"], w.Header()["X-A"] = nil, []string{"1"}
				w.WriteHeader(http.StatusOK)
				for range 2 {
					_, _ = io.WriteString(w, body)
				}
			})
			event := events.APIGatewayProxyRequest{Path: "/", HTTPMethod: http.MethodGet}
			var got map[string][]string
			if streaming {
				got = stream(t.Context(), t, handler, event).MultiValueHeaders
			} else {
				edge := gateway.Edge(installation.Parts{Log: slog.New(slog.DiscardHandler), Now: time.Now}, handler)
				out, err := edge(t.Context(), event)
				if err != nil || out.Body != body+body {
					t.Fatalf("body = %q, %v, want %q", out.Body, err, body+body)
				}
				got = out.MultiValueHeaders
			}
			if diff := cmp.Diff(want, http.Header(got)); diff != "" {
				t.Errorf("header with body %q (streaming %v) (-want +got): %s", body, streaming, diff)
			}
		}
	}
}

func TestUpstreamContentTypeIsKept(t *testing.T) {
	edge := gateway.Edge(installation.Parts{Log: slog.New(slog.DiscardHandler), Now: time.Now},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/x-mine")
			_, _ = io.WriteString(w, "<html>")
		}))
	out, err := edge(t.Context(), events.APIGatewayProxyRequest{Path: "/", HTTPMethod: http.MethodGet})
	if err != nil || http.Header(out.MultiValueHeaders).Get("Content-Type") != "text/x-mine" {
		t.Errorf("header = %v, %v, want Content-Type text/x-mine", out.MultiValueHeaders, err)
	}
}
