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
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
)

func stream(ctx context.Context, t *testing.T, h http.HandlerFunc, event events.APIGatewayProxyRequest) *events.APIGatewayProxyStreamingResponse {
	t.Helper()
	p := installation.Parts{Config: config.Config{Streaming: true}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	made, ok := gateway.Lambda(p, h).(gateway.Streaming)
	if !ok {
		t.Fatal("the installation streams, its function does not")
	}
	event.HTTPMethod = http.MethodGet
	event.RequestContext.RequestID = "the-request"
	out, err := made(ctx, event)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestAnswerIsReadWhileItIsWritten: the head comes first, then each part as soon
// as it is there.
func TestAnswerIsReadWhileItIsWritten(t *testing.T) {
	next := make(chan string)
	out := stream(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "shop-main-0123abc.apis.example.com" || r.URL.Query()["q"][0] != "a b" {
			t.Errorf("asked is %s of %s", r.URL, r.Host)
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
	prelude, zeros, found := bytes.Cut(head[:n], make([]byte, 8))
	var said struct {
		StatusCode        int
		MultiValueHeaders http.Header
	}
	if err := json.Unmarshal(prelude, &said); err != nil || !found || len(zeros) > 0 {
		t.Fatalf("the answer begins with %q (%v)", head[:n], err)
	}
	if said.StatusCode != http.StatusAccepted || said.MultiValueHeaders.Get("Content-Type") != "text/event-stream" {
		t.Errorf("its head is %+v", said)
	}
	for _, part := range []string{"one", "two", strings.Repeat("x", 7<<10)} {
		next <- part
		got := make([]byte, len(part))
		if _, err := io.ReadFull(out, got); err != nil || string(got) != part {
			t.Errorf("read %q, error %v", got, err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("then %q, error %v", rest, err)
	}
}

// settling takes some time to write what it has counted.
type settling struct {
	http.HandlerFunc
	settled bool
}

// Settle is what a function calls before an invocation ends.
func (s *settling) Settle(context.Context) {
	time.Sleep(time.Second)
	s.settled = true
}

// TestStreamEndsWhenAllIsWritten: the invocation ends with the stream, and whatever is on its way then is frozen with the process.
func TestStreamEndsWhenAllIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &settling{HandlerFunc: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "all of it") }}
		p := installation.Parts{Config: config.Config{Streaming: true}, Log: slog.New(slog.DiscardHandler), Now: time.Now}
		out, err := gateway.Stream(p, h)(t.Context(), events.APIGatewayProxyRequest{HTTPMethod: http.MethodGet, Path: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(out.Body); string(body) != "all of it" || err != nil || !h.settled {
			t.Errorf("read %q, error %v, and what was counted is written: %t", body, err, h.settled)
		}
	})
}

// TestSpansAreSentBeforeTheStreamEnds, as what was counted is written.
func TestSpansAreSentBeforeTheStreamEnds(t *testing.T) {
	collector := telemetrytest.New(t)
	p := installation.Parts{Config: config.Config{Streaming: true}, Log: slog.New(slog.DiscardHandler), Now: time.Now, Telemetry: telemetry.Options{Tracer: collector.Tracer}}
	out, err := gateway.Stream(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, span := collector.Start(r.Context(), "x", nil)
		span.End(false)
		_, _ = io.WriteString(w, "all of it")
	}))(t.Context(), events.APIGatewayProxyRequest{HTTPMethod: http.MethodGet, Path: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(out.Body); string(body) != "all of it" || err != nil || len(collector.Requests()) != 1 {
		t.Errorf("read %q, error %v, and the collector was asked %d times", body, err, len(collector.Requests()))
	}
}

// TestBrokenStreamIsNotWhole: the platform has to end the connection without the
// body's regular end.
func TestBrokenStreamIsNotWhole(t *testing.T) {
	out := stream(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half of it")
		panic(http.ErrAbortHandler)
	}, events.APIGatewayProxyRequest{Path: "/"})
	body, err := io.ReadAll(out.Body)
	if string(body) != "half of it" || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read %q, error %v", body, err)
	}
}

func TestAnswerThatNeverBeginsIsAProblem(t *testing.T) {
	out := stream(t.Context(), t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		events.APIGatewayProxyRequest{Path: "/"})
	if body, err := io.ReadAll(out.Body); out.StatusCode != http.StatusBadGateway || err != nil || !strings.Contains(string(body), "the-request") {
		t.Errorf("status %d, %s, error %v", out.StatusCode, body, err)
	}
	out = stream(t.Context(), t, nil, events.APIGatewayProxyRequest{Path: "/50%"})
	if out.StatusCode != http.StatusBadRequest {
		t.Errorf("a path that is none is answered with %d", out.StatusCode)
	}
	out = stream(t.Context(), t, func(http.ResponseWriter, *http.Request) {}, events.APIGatewayProxyRequest{Path: "/"})
	if out.StatusCode != http.StatusOK {
		t.Errorf("an empty answer has the status %d", out.StatusCode)
	}
}

// TestHeadIsAwaitedForATime and not for the whole time that a stream may take. Then the request ends, and has some seconds to give
// back what it holds before the invocation ends with the stream.
func TestHeadIsAwaitedForATime(t *testing.T) {
	for gives, waits := range map[time.Duration]time.Duration{0: 0, time.Second: time.Second, time.Hour: 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
			began, ended := time.Now(), make(chan struct{})
			out := stream(ctx, t, func(w http.ResponseWriter, r *http.Request) {
				defer close(ended)
				<-r.Context().Done()
				time.Sleep(gives)
				_, _ = io.WriteString(w, "too late")
			}, events.APIGatewayProxyRequest{Path: "/"})
			if took := time.Since(began); took != 28*time.Second || out.StatusCode != http.StatusGatewayTimeout {
				t.Errorf("status %d after %s", out.StatusCode, took)
			}
			began = time.Now()
			if body, err := io.ReadAll(out.Body); err != nil || !strings.Contains(string(body), "too long") || strings.Contains(string(body), "too late") {
				t.Errorf("the body is %s, error %v", body, err)
			}
			if waited := time.Since(began); waited != waits {
				t.Errorf("what takes %s to end had %s", gives, waited)
			}
			cancel()
			<-ended
		})
	}
}

// TestThePathOfAnEventArrivesAsItWasWritten: the gateway decides what it means.
func TestThePathOfAnEventArrivesAsItWasWritten(t *testing.T) {
	for _, path := range []string{`/a"%2Fb`, "//admin", "/v1/..%2Fadmin", "/%61dmin/%2e%2e", "/x;a/..;", `/a\b`} {
		out := stream(t.Context(), t, func(w http.ResponseWriter, r *http.Request) {
			written := r.URL.RawPath
			if written == "" {
				written = r.URL.EscapedPath()
			}
			_, _ = io.WriteString(w, written)
		}, events.APIGatewayProxyRequest{Path: path})
		got, err := io.ReadAll(out)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(string(got), path) {
			t.Errorf("%s arrives as %s", path, got)
		}
	}
}

// TestNoContentTypeIsGuessedForAnEvent: the adapter would make a page of data, and
// an event has no word for a field without a value.
func TestNoContentTypeIsGuessedForAnEvent(t *testing.T) {
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
					t.Fatalf("answered %q, %v", out.Body, err)
				}
				got = out.MultiValueHeaders
			}
			if diff := cmp.Diff(want, http.Header(got)); diff != "" {
				t.Errorf("streaming %v, body %q: %s", streaming, body, diff)
			}
		}
	}
}

func TestATypeOfTheUpstreamsOwnStays(t *testing.T) {
	edge := gateway.Edge(installation.Parts{Log: slog.New(slog.DiscardHandler), Now: time.Now}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/x-mine")
		_, _ = io.WriteString(w, "<html>")
	}))
	out, err := edge(t.Context(), events.APIGatewayProxyRequest{Path: "/", HTTPMethod: http.MethodGet})
	if err != nil || http.Header(out.MultiValueHeaders).Get("Content-Type") != "text/x-mine" {
		t.Errorf("got %v, %v", out.MultiValueHeaders, err)
	}
}
