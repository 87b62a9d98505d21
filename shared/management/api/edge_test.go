package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// serveEvent sends an event to a handler through NewLambdaHandler.
func serveEvent(
	t *testing.T, o LambdaHandlerOptions, h http.HandlerFunc, event events.APIGatewayProxyRequest,
) events.APIGatewayProxyResponse {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Now = time.Now
	if event.HTTPMethod == "" {
		event.HTTPMethod = http.MethodGet
	}
	event.RequestContext.RequestID = "the-request"
	out, err := NewLambdaHandler(h, o)(t.Context(), event)
	if err != nil {
		t.Fatalf("NewLambdaHandler() handler error = %v, want none: the platform responds 502 to an error", err)
	}
	return out
}

// problemIn returns the problem document in a response, and checks its status and its request ID.
func problemIn(t *testing.T, out events.APIGatewayProxyResponse) Problem {
	t.Helper()
	var p Problem
	if err := json.Unmarshal([]byte(out.Body), &p); err != nil {
		t.Fatalf("response body = %q, %v, want a problem document", out.Body, err)
	}
	if p.Status != out.StatusCode {
		t.Errorf("status in the problem = %d, want %d", p.Status, out.StatusCode)
	}
	if p.Trace == nil || p.Trace.RequestID != "the-request" {
		t.Errorf("trace = %+v, want the request ID the-request", p.Trace)
	}
	return p
}

// TestLateResponseIs504 checks that a handler that takes too long gets a 504.
// Otherwise the platform would end the request, and the client would not learn what to do.
func TestLateResponseIs504(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		start := time.Now()
		timedOut := make(chan struct{})
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // the handler stops when the context ends
			close(timedOut)
		})
		edge := NewLambdaHandler(slow, LambdaHandlerOptions{Log: slog.New(slog.DiscardHandler), Now: time.Now})
		out, err := edge(ctx, events.APIGatewayProxyRequest{
			HTTPMethod: http.MethodGet, Path: "/",
			RequestContext: events.APIGatewayProxyRequestContext{RequestID: "the-request"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if elapsed := time.Since(start); out.StatusCode != http.StatusGatewayTimeout || elapsed != 28*time.Second {
			t.Errorf("late response: status = %d after %s, want 504 after 28s", out.StatusCode, elapsed)
		}
		problemIn(t, out)
		<-timedOut
	})
}

func TestResponseBeforeDeadlineIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		edge := NewLambdaHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(28*time.Second - time.Millisecond)
			w.WriteHeader(http.StatusAccepted)
		}), LambdaHandlerOptions{Log: slog.New(slog.DiscardHandler), Now: time.Now})
		out, err := edge(ctx, events.APIGatewayProxyRequest{HTTPMethod: http.MethodGet, Path: "/"})
		if err != nil || out.StatusCode != http.StatusAccepted {
			t.Errorf("response before the deadline = %d, %v, want 202 and no error", out.StatusCode, err)
		}
	})
}

// TestOversizedResponseIsExplained checks that a response that is too large for the platform
// becomes a problem that explains this. The platform would respond only "Internal server error".
func TestOversizedResponseIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"plain text within the limit":                  {strings.Repeat("x", maxResponseBytes-2), http.StatusOK},
		"plain text over the limit":                    {strings.Repeat("x", maxResponseBytes), http.StatusBadGateway},
		"text that grows by escaping":                  {strings.Repeat(`"`, maxResponseBytes/2+1), http.StatusBadGateway},
		"binary data within the limit":                 {"\xff" + strings.Repeat("x", 4<<20), http.StatusOK},
		"binary data that Base64 grows past the limit": {"\xff" + strings.Repeat("x", 5<<20), http.StatusBadGateway},
		"markup, which is not escaped":                 {strings.Repeat("<", 5<<20), http.StatusOK},
		"control characters within the limit":          {strings.Repeat("\x01", maxResponseBytes/6), http.StatusOK},
		"control characters over the limit":            {strings.Repeat("\x01", maxResponseBytes/6+1), http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			out := serveEvent(t, LambdaHandlerOptions{}, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, c.body)
			}, events.APIGatewayProxyRequest{Path: "/"})
			if out.StatusCode != c.status {
				t.Fatalf("response of %d bytes: status = %d, want %d", len(c.body), out.StatusCode, c.status)
			}
			var encoded strings.Builder // encoded like Lambda's runtime does
			encoder := json.NewEncoder(&encoded)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(out); err != nil || encoded.Len() > 6<<20 {
				t.Errorf("encoded response = %d bytes, %v, want at most %d and no error", encoded.Len(), err, 6<<20)
			}
		})
	}
}

func TestPanicIsExplained(t *testing.T) {
	var log strings.Builder
	out := serveEvent(t, LambdaHandlerOptions{Log: slog.New(slog.NewJSONHandler(&log, nil))},
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half of it")
			panic(http.ErrAbortHandler)
		}, events.APIGatewayProxyRequest{Path: "/"})
	if out.StatusCode != http.StatusBadGateway || strings.Contains(out.Body, "half of it") ||
		!strings.Contains(log.String(), "the-request") {
		t.Errorf("response to a panic = %+v, log %s, want 502 without \"half of it\", and the request ID in the log",
			out, log.String())
	}
	problemIn(t, out)
}

func TestBase64BodiesAreDecoded(t *testing.T) {
	binary := "\x00\xff\xfe"
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != binary {
			t.Errorf("request body = %q, %v, want %q and no error", body, err, binary)
		}
		_, _ = w.Write(body)
	}
	out := serveEvent(t, LambdaHandlerOptions{}, echo, events.APIGatewayProxyRequest{
		HTTPMethod: http.MethodPost, Path: "/", Body: base64.StdEncoding.EncodeToString([]byte(binary)),
		IsBase64Encoded: true,
	})
	if body, err := base64.StdEncoding.DecodeString(out.Body); err != nil || !out.IsBase64Encoded ||
		string(body) != binary {
		t.Errorf("response = %+v, want the Base64 encoding of %q", out, binary)
	}
	out = serveEvent(t, LambdaHandlerOptions{}, echo, events.APIGatewayProxyRequest{
		HTTPMethod: http.MethodPost, Path: "/", Body: "%%%",
		IsBase64Encoded: true,
	})
	if out.StatusCode != http.StatusBadRequest {
		t.Errorf("request with invalid Base64: status = %d, want 400", out.StatusCode)
	}
}

// TestDecodedPathsFindTheirOperation checks how paths are encoded again on platforms that decode them before they call
// the function. A branch name can have slashes, so the operations' paths determine which slashes are encoded.
func TestDecodedPathsFindTheirOperation(t *testing.T) {
	s := &Server{routing: new(routing)}
	for _, path := range []string{
		"/v1/projects/{projectName}/branches/{branchName}/variables",
		"/v1/projects/{projectName}/branches/{branchName}/variables/{variableName}",
		"/v1/projects/{projectName}/branches/{branchName}",
		"/v1/keys/$bulk",
		"/v1/keys/{keyId}",
	} {
		segments := strings.Split(path, "/")
		s.paths = append(s.paths, segments)
		if i := slices.Index(segments, "{branchName}"); i >= 0 {
			s.slashPaths = append(s.slashPaths, slashPath{segments, i})
		}
	}
	for decoded, want := range map[string]string{
		"/v1/projects/shop/branches/main/variables":             "/v1/projects/shop/branches/main/variables",
		"/v1/projects/shop/branches/feature/x/variables":        "/v1/projects/shop/branches/feature%2Fx/variables",
		"/v1/projects/shop/branches/feature/x/variables/":       "/v1/projects/shop/branches/feature%2Fx/variables",
		"/v1/projects/shop/branches/feature/x/variables/A_NAME": "/v1/projects/shop/branches/feature%2Fx/variables/A_NAME",
		"/v1/projects/shop/branches/a/b/c":                      "/v1/projects/shop/branches/a%2Fb%2Fc",
		"/v1/projects/shop/branches/50%":                        "/v1/projects/shop/branches/50%25",
		"/v1/projects/shop/branches/50%25":                      "/v1/projects/shop/branches/50%2525",
		"/v1/projects/shop/branches/a b":                        "/v1/projects/shop/branches/a%20b",
		"/v1/keys/$bulk":                                        "/v1/keys/$bulk",
		// A key's id cannot contain a slash, so no operation has this path.
		"/v1/keys/a/b": "/v1/keys/a/b",
	} {
		if got := s.escapeForRoute(decoded); got != want {
			t.Errorf("escapeForRoute(%s) = %s, want %s", decoded, got, want)
		}
	}
}
