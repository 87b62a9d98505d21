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

// TestEverythingThatCallsAFunctionHasItsEvent runs each file as Lambda does.
func TestEverythingThatCallsAFunctionHasItsEvent(t *testing.T) {
	answers := map[string]string{
		"accounts/invoked.json":          `"name":"globex"`,
		"builder/object-created.json":    "null",
		"operations/invoked.json":        `{"operations":[]}`,
		"operations/stream-records.json": `{"batchItemFailures":[]}`,
		"auditchain/stream-records.json": `{"batchItemFailures":[]}`,
		"operations/sweep.json":          "null",
		"quotareset/hourly.json":         "null",
		"rollup/minutely.json":           "null",
		"gateway/http.json":              `"statusCode":200`,
	}
	for _, f := range functions.Triggered() {
		for _, e := range f.On {
			file := filepath.Join(f.Name, kind(e)+".json")
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
				want, ok := answers[file]
				if !ok || !strings.Contains(string(out), want) {
					t.Errorf("it answers %s, want %q in it", out, want)
				}
			})
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
