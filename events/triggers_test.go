package events_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/trigger"
)

// kind is the name of the file for what calls a function.
func kind(e trigger.Event) string {
	switch {
	case e.ObjectCreated != "":
		return "object-created"
	case e.StreamRecords:
		return "stream-records"
	case e.Schedule != nil:
		return e.Schedule.Name
	case e.HTTP:
		return "http"
	}
	return "invoked"
}

// answer is what a function answers to what calls it: what waits for no answer gets none, a batch fails in no part, a request is served. What who invokes
// it is told is the function's own, and stands beside the event.
func answer(t *testing.T, f trigger.Function, e trigger.Event) string {
	t.Helper()
	switch {
	case e.StreamRecords:
		return `{"batchItemFailures":[]}`
	case e.HTTP:
		return `"statusCode":200`
	case e.Invoked:
		text, err := os.ReadFile(filepath.Join(f.Name, kind(e)+"-answer.txt"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	return "null"
}

// TestEverythingThatCallsAFunctionHasItsEvent runs each file as Lambda does, and no file is of nothing that calls.
func TestEverythingThatCallsAFunctionHasItsEvent(t *testing.T) {
	for _, f := range functions.Triggered() {
		files := map[string]bool{}
		for _, e := range f.On {
			file := filepath.Join(f.Name, kind(e)+".json")
			files[filepath.Base(file)] = true
			if e.Invoked {
				files[kind(e)+"-answer.txt"] = true
			}
			t.Run(file, func(t *testing.T) {
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				w, _ := inMemory(t, slog.New(slog.DiscardHandler))
				h, err := f.Open(w.Parts)
				if err != nil {
					t.Fatal(err)
				}
				out, err := lambda.NewHandler(h).Invoke(t.Context(), raw)
				if err != nil {
					t.Fatal(err)
				}
				if want := answer(t, f.Function, e); want == "" || !strings.Contains(string(out), want) {
					t.Errorf("it answers %s, want %q in it", out, want)
				}
			})
		}
		there, err := os.ReadDir(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range there {
			if !files[entry.Name()] {
				t.Errorf("%s/%s is of nothing that calls the function: remove it", f.Name, entry.Name())
			}
		}
	}
}

// TestUploadsEventIsOfTheDeclaredPlace: S3 calls for objects below the prefix
// alone.
func TestUploadsEventIsOfTheDeclaredPlace(t *testing.T) {
	raw, err := os.ReadFile("builder/object-created.json")
	if err != nil {
		t.Fatal(err)
	}
	var event events.S3Event
	decode(t, raw, &event)
	for _, e := range builder.Function.On {
		if e.ObjectCreated == "" || !strings.HasPrefix(event.Records[0].S3.Object.Key, e.ObjectCreated) {
			t.Errorf("%s is not below %s", event.Records[0].S3.Object.Key, e.ObjectCreated)
		}
	}
}

// TestGatewaysRequestsKeepTheirHost: deployments are told apart by it, and the
// adapter leaves it among the other headers.
func TestGatewaysRequestsKeepTheirHost(t *testing.T) {
	raw, err := os.ReadFile("gateway/http.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change  string
		decoded bool
		path    string
	}{
		"as AWS sends it":        {`"/a%2Fb/c%20d"`, false, "/a%2Fb/c%20d"},
		"as MiniStack sends it":  {`"/a/b/c d"`, true, "/a/b/c%20d"},
		"a bare % that was %25":  {`"/50%"`, true, "/50%25"},
		"decoded exactly once":   {`"/50%25"`, true, "/50%2525"},
		"encoded stays as it is": {`"/50%25"`, false, "/50%25"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := inMemory(t, slog.New(slog.DiscardHandler))
			p := w.Parts
			p.Config.DecodedPaths = c.decoded
			var got *http.Request
			edge := gateway.Edge(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r
				w.WriteHeader(http.StatusNoContent)
			}))
			var event events.APIGatewayProxyRequest
			decode(t, bytes.Replace(raw, []byte(`"path": "/__gatewright/ping"`), []byte(`"path": `+c.change), 1), &event)
			if out, err := edge(t.Context(), event); err != nil || out.StatusCode != http.StatusNoContent {
				t.Fatalf("answer %+v, error %v", out, err)
			}
			if got.Host != "shop-main-0123abc.apis.example.com" || got.Header.Get("Host") != "" {
				t.Errorf("its host is %q", got.Host)
			}
			if got.URL.EscapedPath() != c.path {
				t.Errorf("its path is %s, want %s", got.URL.EscapedPath(), c.path)
			}
			if got.RemoteAddr != "203.0.113.7" || got.TLS == nil {
				t.Errorf("it came from %s, encrypted %v", got.RemoteAddr, got.TLS != nil)
			}
		})
	}
}

func decode(t *testing.T, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

// textOf gives all that an item holds as text.
func textOf(t *testing.T, item store.Item) string {
	t.Helper()
	out, err := json.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
