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

// call sends an event to a handler by an edge of its own.
func call(t *testing.T, o EdgeOptions, h http.HandlerFunc, event events.APIGatewayProxyRequest) events.APIGatewayProxyResponse {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Now = time.Now
	if event.HTTPMethod == "" {
		event.HTTPMethod = http.MethodGet
	}
	event.RequestContext.RequestID = "the-request"
	out, err := NewEdge(h, o)(t.Context(), event)
	if err != nil {
		t.Fatalf("the platform would make a 502 of %v", err)
	}
	return out
}

func problemIn(t *testing.T, out events.APIGatewayProxyResponse) Problem {
	t.Helper()
	var p Problem
	if err := json.Unmarshal([]byte(out.Body), &p); err != nil {
		t.Fatalf("%v in %q", err, out.Body)
	}
	if p.Status != out.StatusCode || p.Trace == nil || p.Trace.RequestID != "the-request" {
		t.Errorf("problem %+v of an answer with status %d", p, out.StatusCode)
	}
	return p
}

// TestLateAnswerIsA504OfOurOwn: the platform would cut the request without a
// word that tells whether it may be repeated.
func TestLateAnswerIsA504OfOurOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		began := time.Now()
		given := make(chan struct{})
		slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-r.Context().Done() // it is told to stop, and does
			close(given)
		})
		edge := NewEdge(slow, EdgeOptions{Log: slog.New(slog.DiscardHandler), Now: time.Now})
		out, err := edge(ctx, events.APIGatewayProxyRequest{HTTPMethod: http.MethodGet, Path: "/", RequestContext: events.APIGatewayProxyRequestContext{RequestID: "the-request"}})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); out.StatusCode != http.StatusGatewayTimeout || took != 28*time.Second {
			t.Errorf("status %d after %s", out.StatusCode, took)
		}
		problemIn(t, out)
		<-given
	})
}

func TestAnswerJustInTimeIsGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 29*time.Second)
		defer cancel()
		edge := NewEdge(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(28*time.Second - time.Millisecond)
			w.WriteHeader(http.StatusAccepted)
		}), EdgeOptions{Log: slog.New(slog.DiscardHandler), Now: time.Now})
		out, err := edge(ctx, events.APIGatewayProxyRequest{HTTPMethod: http.MethodGet, Path: "/"})
		if err != nil || out.StatusCode != http.StatusAccepted {
			t.Errorf("status %d, error %v", out.StatusCode, err)
		}
	})
}

// TestOversizedAnswerIsExplained: the platform refuses it, and says only
// "Internal server error".
func TestOversizedAnswerIsExplained(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"plain text within":             {strings.Repeat("x", maxAnswerBytes-2), http.StatusOK},
		"plain text over":               {strings.Repeat("x", maxAnswerBytes), http.StatusBadGateway},
		"text that grows by escaping":   {strings.Repeat(`"`, maxAnswerBytes/2+1), http.StatusBadGateway},
		"binary within":                 {"\xff" + strings.Repeat("x", 4<<20), http.StatusOK},
		"binary that grows past it":     {"\xff" + strings.Repeat("x", 5<<20), http.StatusBadGateway},
		"markup, which stays as it is":  {strings.Repeat("<", 5<<20), http.StatusOK},
		"characters that grow sixfold":  {strings.Repeat("\x01", maxAnswerBytes/6), http.StatusOK},
		"characters that grow too much": {strings.Repeat("\x01", maxAnswerBytes/6+1), http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			out := call(t, EdgeOptions{}, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, c.body)
			}, events.APIGatewayProxyRequest{Path: "/"})
			if out.StatusCode != c.status {
				t.Fatalf("status %d, want %d", out.StatusCode, c.status)
			}
			var encoded strings.Builder // as Lambda's runtime does it
			encoder := json.NewEncoder(&encoded)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(out); err != nil || encoded.Len() > 6<<20 {
				t.Errorf("%d bytes go to the platform, error %v", encoded.Len(), err)
			}
		})
	}
}

func TestBrokenAnswerIsExplained(t *testing.T) {
	var log strings.Builder
	out := call(t, EdgeOptions{Log: slog.New(slog.NewJSONHandler(&log, nil))}, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half of it")
		panic(http.ErrAbortHandler)
	}, events.APIGatewayProxyRequest{Path: "/"})
	if out.StatusCode != http.StatusBadGateway || strings.Contains(out.Body, "half of it") || !strings.Contains(log.String(), "the-request") {
		t.Errorf("answer %+v, log %s", out, log.String())
	}
	problemIn(t, out)
}

func TestBase64BodiesAreDecoded(t *testing.T) {
	binary := "\x00\xff\xfe"
	echo := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || string(body) != binary {
			t.Errorf("body %q, error %v", body, err)
		}
		_, _ = w.Write(body)
	}
	out := call(t, EdgeOptions{}, echo, events.APIGatewayProxyRequest{
		HTTPMethod: http.MethodPost, Path: "/", Body: base64.StdEncoding.EncodeToString([]byte(binary)), IsBase64Encoded: true,
	})
	if body, err := base64.StdEncoding.DecodeString(out.Body); err != nil || !out.IsBase64Encoded || string(body) != binary {
		t.Errorf("answer %+v", out)
	}
	out = call(t, EdgeOptions{}, echo, events.APIGatewayProxyRequest{HTTPMethod: http.MethodPost, Path: "/", Body: "%%%", IsBase64Encoded: true})
	if out.StatusCode != http.StatusBadRequest {
		t.Errorf("a body that is no base64 is answered with %d", out.StatusCode)
	}
}

// TestDecodedPathsFindTheirOperation is about a platform that decodes paths
// before it hands them over.
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
			s.deep = append(s.deep, deepPath{segments, i})
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
		"/v1/keys/a/b":                                          "/v1/keys/a/b", // no key's id holds a slash: no such operation
	} {
		if got := s.escaped(decoded); got != want {
			t.Errorf("%s becomes %s, want %s", decoded, got, want)
		}
	}
}
