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
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// eventKind returns the name of an event's file, without the extension.
func eventKind(e trigger.Event) string {
	switch {
	case e.ObjectCreated != "":
		return "object-created"
	case e.FromStream:
		return "stream-records"
	case e.Schedule != nil:
		return e.Schedule.Name
	case e.HTTP:
		return "http"
	}
	return "invoked"
}

// expectedResult returns the expected result of a function for an event: none for an asynchronous event, a batch
// response without failures for a batch, and a successful response for a request. The expected result of a function
// that operators invoke is in a file next to the event.
func expectedResult(t *testing.T, f trigger.Function, e trigger.Event) string {
	t.Helper()
	switch {
	case e.FromStream:
		return `{"batchItemFailures":[]}`
	case e.HTTP:
		return `"statusCode":200`
	case e.Invoked:
		text, err := os.ReadFile(filepath.Join(f.Name, eventKind(e)+"-answer.txt"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	return "null"
}

// TestEachTriggerHasEvent runs each function with its event files, as Lambda does. It also checks that no file belongs
// to an undeclared event.
func TestEachTriggerHasEvent(t *testing.T) {
	for _, f := range functions.Triggered() {
		files := map[string]bool{}
		for _, e := range f.Events {
			file := filepath.Join(f.Name, eventKind(e)+".json")
			files[filepath.Base(file)] = true
			if e.Invoked {
				files[eventKind(e)+"-answer.txt"] = true
			}
			t.Run(file, func(t *testing.T) {
				raw, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				fx, _ := newFixture(t, slog.New(slog.DiscardHandler))
				h, err := f.Open(fx.Parts)
				if err != nil {
					t.Fatal(err)
				}
				out, err := lambda.NewHandler(h).Invoke(t.Context(), raw)
				if err != nil {
					t.Fatalf("Invoke(%s) error = %v, want none", file, err)
				}
				if want := expectedResult(t, f.Function, e); want == "" || !strings.Contains(string(out), want) {
					t.Errorf("Invoke(%s) = %s, want %q in it", file, out, want)
				}
			})
		}
		entries, err := os.ReadDir(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if !files[entry.Name()] {
				t.Errorf("no trigger of the function sends %s/%s, want it removed", f.Name, entry.Name())
			}
		}
	}
}

// TestUploadEventMatchesPrefix checks that the object in the event has the declared prefix, because S3 sends events
// only for such objects.
func TestUploadEventMatchesPrefix(t *testing.T) {
	raw, err := os.ReadFile("builder/object-created.json")
	if err != nil {
		t.Fatal(err)
	}
	var event events.S3Event
	decode(t, raw, &event)
	for _, e := range builder.Function.Events {
		if e.ObjectCreated == "" || !strings.HasPrefix(event.Records[0].S3.Object.Key, e.ObjectCreated) {
			t.Errorf("the event has the key %s, want the prefix %q", event.Records[0].S3.Object.Key, e.ObjectCreated)
		}
	}
}

// TestGatewayRequestKeepsHost checks that the gateway finds the host, which identifies the deployment. The adapter
// leaves the host among the other headers. The test also checks the path, which MiniStack decodes, and the client's
// address.
func TestGatewayRequestKeepsHost(t *testing.T) {
	raw, err := os.ReadFile("gateway/http.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pathJSON string
		decoded  bool
		wantPath string
	}{
		"as AWS sends it":        {`"/a%2Fb/c%20d"`, false, "/a%2Fb/c%20d"},
		"as MiniStack sends it":  {`"/a/b/c d"`, true, "/a/b/c%20d"},
		"a bare % that was %25":  {`"/50%"`, true, "/50%25"},
		"decoded exactly once":   {`"/50%25"`, true, "/50%2525"},
		"encoded stays as it is": {`"/50%25"`, false, "/50%25"},
	} {
		t.Run(name, func(t *testing.T) {
			fx, _ := newFixture(t, slog.New(slog.DiscardHandler))
			p := fx.Parts
			p.Config.DecodedPaths = c.decoded
			var got *http.Request
			edge := gateway.Edge(p, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = r
				w.WriteHeader(http.StatusNoContent)
			}))
			var event events.APIGatewayProxyRequest
			decode(t, bytes.Replace(raw, []byte(`"path": "/__gatewright/ping"`), []byte(`"path": `+c.pathJSON), 1), &event)
			if out, err := edge(t.Context(), event); err != nil || out.StatusCode != http.StatusNoContent {
				t.Fatalf("response = %+v, %v, want status 204", out, err)
			}
			if got.Host != "shop-main-0123abc.apis.example.com" || got.Header.Get("Host") != "" {
				t.Errorf("request host = %q with the header %q, want shop-main-0123abc.apis.example.com without a header",
					got.Host, got.Header.Get("Host"))
			}
			if got.URL.EscapedPath() != c.wantPath {
				t.Errorf("request path = %s, want %s", got.URL.EscapedPath(), c.wantPath)
			}
			if got.RemoteAddr != "203.0.113.7" || got.TLS == nil {
				t.Errorf("request from %s, encrypted %t, want 203.0.113.7, encrypted", got.RemoteAddr, got.TLS != nil)
			}
		})
	}
}

func decode(t *testing.T, raw []byte, out any) {
	t.Helper()
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatal(err)
	}
}

// itemText returns all attributes of an item as text.
func itemText(t *testing.T, item store.Item) string {
	t.Helper()
	out, err := json.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
