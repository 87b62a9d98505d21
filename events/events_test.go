package events_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/console"
	samples "github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/sessions"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// sampleKey is the placeholder for a caller's key in the files. It is not a real key.
const sampleKey = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000"

// baseValues returns the values that no group defines. The branch contains a slash.
func baseValues() samples.Values {
	return samples.Values{
		"accountName": "acme", "projectName": "shop", "branchName": "feature/x",
		"consoleIcon": console.Embedded().Icon(),
	}
}

func openSamples(t *testing.T) (*samples.SampleSet, samples.Values) {
	t.Helper()
	sampleSet, err := samples.Open(functions.APIGroups())
	if err != nil {
		t.Fatal(err)
	}
	values, err := sampleSet.Values(baseValues())
	if err != nil {
		t.Fatal(err)
	}
	return sampleSet, values
}

// eventFile returns the path of an operation's event.
func eventFile(g api.Group, d api.Declaration) string { return filepath.Join(g.Name, d.ID+".json") }

// newEvent returns the event that API Gateway creates from an operation's valid request.
func newEvent(t *testing.T, d api.Declaration, r samples.Request, values samples.Values) events.APIGatewayProxyRequest {
	t.Helper()
	target, body, err := r.Target(d, values)
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(target, "?")
	path = strings.ReplaceAll(path, "$", "%24") // as clients write it
	pathParameters := map[string]string{}
	for _, name := range samples.Parameters(d) {
		pathParameters[name] = url.PathEscape(values[name])
	}
	resource := d.Path
	if d.SlashParameter != "" {
		// The value of this parameter can contain slashes, so a greedy variable of API Gateway matches the value and
		// the rest of the path.
		before, after, _ := strings.Cut(d.Path, d.SlashParameter)
		resource = before + "{proxy+}"
		for _, name := range samples.Parameters(api.Declaration{Path: d.SlashParameter + after}) {
			delete(pathParameters, name)
		}
		pathParameters["proxy"] = strings.Join(strings.Split(path, "/")[strings.Count(before, "/"):], "/")
	}
	if before, special, found := strings.Cut(d.Path, "/$"); found {
		// For API Gateway, the dollar sign is a part of the variable's value.
		resource = before + "/{keyId}"
		pathParameters["keyId"] = "%24" + special
	}
	e := events.APIGatewayProxyRequest{
		Resource: resource, Path: path, HTTPMethod: d.Method, PathParameters: pathParameters,
		Headers: map[string]string{
			"Accept": "application/json", "Host": "api.example.com", "User-Agent": "curl/8.5.0",
			"X-Amzn-Trace-Id": "Root=1-5bdb40ca-556d8b0c50dc66f0511bf520",
			"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Port": "443", "X-Forwarded-Proto": "https",
		},
		RequestContext: events.APIGatewayProxyRequestContext{
			AccountID: "000000000000", ResourceID: "abc123", OperationName: d.ID, Stage: "production",
			DomainName: "api.example.com", DomainPrefix: "api",
			RequestID: "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", ExtendedRequestID: "AbCdEfGhIjKlMnO=", Protocol: "HTTP/1.1",
			Identity:     events.APIGatewayRequestIdentity{SourceIP: "203.0.113.7", UserAgent: "curl/8.5.0"},
			ResourcePath: resource, Path: path, HTTPMethod: d.Method, APIID: "a1b2c3d4e5",
			RequestTime:      "20/Nov/2026:12:00:00 +0000",
			RequestTimeEpoch: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixMilli(),
		},
	}
	if !d.Public {
		e.Headers["Authorization"] = "Bearer " + sampleKey
	}
	if d.TakesBody || d.TakesMessage {
		e.Headers["Content-Type"] = "application/json"
		e.Body = body
	}
	if query != "" {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		e.MultiValueQueryStringParameters = values
		e.QueryStringParameters = map[string]string{}
		for name, v := range values {
			e.QueryStringParameters[name] = v[len(v)-1]
		}
	}
	e.MultiValueHeaders = map[string][]string{}
	for name, value := range e.Headers {
		e.MultiValueHeaders[name] = []string{value}
	}
	return e
}

func forEachOperation(t *testing.T, test func(t *testing.T, g functions.Group, d api.Declaration)) {
	t.Helper()
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			t.Run(d.ID, func(t *testing.T) { test(t, g, d) })
		}
	}
}

func TestEventOfEachOperation(t *testing.T) {
	sampleSet, values := openSamples(t)
	forEachOperation(t, func(t *testing.T, g functions.Group, d api.Declaration) {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(newEvent(t, d, sampleSet.Request(d), values)); err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, eventFile(g.Group, d), out.Bytes())
	})
}

// TestNoEventFileIsUnused checks that every event file belongs to an operation that exists.
func TestNoEventFileIsUnused(t *testing.T) {
	expected := map[string]bool{}
	for _, g := range functions.Groups() {
		expected[filepath.Join(g.Name, "samples.json")] = true
		for _, d := range g.Declarations() {
			expected[eventFile(g.Group, d)] = true
		}
	}
	for _, g := range functions.Groups() {
		files, err := filepath.Glob(filepath.Join(g.Name, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !expected[file] {
				t.Errorf("no operation has the event %s, want it removed", file)
			}
		}
	}
}

// newFixture returns a fixture with an account, and the account's key.
func newFixture(t *testing.T, log *slog.Logger) (fx *functionstest.Fixture, key string) {
	t.Helper()
	fx = functionstest.New(t, projects.Bind)
	fx.Parts.Config.DeploymentURL = "https://{deployment}.apis.example.com"
	fx.Parts.Log = log
	return fx, fx.CreateAccount("acme")
}

// invoke decodes the event of a request from JSON, as Lambda does, and runs the function of a group with it. It returns
// the response, and the operation that the log names.
func invoke(
	t *testing.T, p installation.Parts, g functions.Group, raw []byte, key string,
) (out events.APIGatewayProxyResponse, operation string) {
	t.Helper()
	var log bytes.Buffer
	p.Log = slog.New(slog.NewJSONHandler(&log, nil))
	raw = bytes.ReplaceAll(raw, []byte(sampleKey), []byte(key))
	var event events.APIGatewayProxyRequest
	if err := json.Unmarshal(raw, &event); err != nil {
		t.Fatal(err)
	}
	out, err := api.Open(p, sessions.Open(p, accounts.Open(p)), g.Bind(p)).Edge()(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(log.Bytes()) {
		var entry struct{ Msg, Operation string }
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Msg == "request" {
			operation = entry.Operation
		}
	}
	return out, operation
}

// TestEventsReachOperations checks that each event runs its operation, and that the operation succeeds with the objects
// of the samples.
func TestEventsReachOperations(t *testing.T) {
	sampleSet, values := openSamples(t)
	var binds []functionstest.Bind
	for _, g := range functions.Groups() {
		binds = append(binds, g.Bind)
	}
	var fx *functionstest.Fixture
	var key string
	created := maps.Clone(values)
	synctest.Test(t, func(t *testing.T) {
		fx = functionstest.New(t, binds...)
		key = fx.CreateAccount("acme")
		if err := sampleSet.Setup(fx.Client(key), created); err != nil {
			t.Fatal(err)
		}
	})
	forEachOperation(t, func(t *testing.T, g functions.Group, d api.Declaration) {
		if d.SessionOnly {
			t.Skip("an event has a key")
		}
		raw, err := os.ReadFile(eventFile(g.Group, d))
		if err != nil {
			t.Fatal(err)
		}
		// All values are replaced at once, the longest first: shop is a prefix of shop-main-0123abc, and key_… a suffix of
		// akey_….
		parameters := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
			return cmp.Compare(len(values[b]), len(values[a]))
		})
		var pairs []string
		for _, parameter := range parameters {
			pairs = append(pairs, values[parameter], created[parameter])
		}
		raw = []byte(strings.NewReplacer(pairs...).Replace(string(raw)))
		out, operation := invoke(t, fx.Copy(t).Parts, g, raw, key)
		if operation != d.ID || out.StatusCode != d.Status {
			t.Errorf("operation of the event = %q with status %d: %s, want %q with %d",
				operation, out.StatusCode, out.Body, d.ID, d.Status)
		}
	})
}

// TestEventsWithoutAKeyAreRefused checks that an event without a key gets a response with status 401 and advice in the
// body. The header WWW-Authenticate is not enough, because API Gateway renames it.
func TestEventsWithoutAKeyAreRefused(t *testing.T) {
	forEachOperation(t, func(t *testing.T, g functions.Group, d api.Declaration) {
		if d.Public {
			t.Skip("it is public")
		}
		raw, err := os.ReadFile(eventFile(g.Group, d))
		if err != nil {
			t.Fatal(err)
		}
		fx, _ := newFixture(t, nil)
		out, _ := invoke(t, fx.Parts, g, bytes.ReplaceAll(raw, []byte("Bearer "+sampleKey), nil), "")
		if out.StatusCode != http.StatusUnauthorized || !slices.Equal(out.MultiValueHeaders["Www-Authenticate"],
			[]string{"Bearer"}) ||
			!strings.Contains(out.Body, "Authorization: Bearer") {
			t.Errorf("response without a key = %+v, want 401 with Www-Authenticate: Bearer and a hint", out)
		}
	})
}
