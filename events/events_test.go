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

	samples "github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/sessions"
)

// sampleKey stands in the files where a caller's key does. It is nobody's.
const sampleKey = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000"

// chosen are the names that no group has of its own. The branch holds a slash.
func chosen() samples.Names {
	return samples.Names{"accountName": "acme", "projectName": "shop", "branchName": "feature/x"}
}

func open(t *testing.T) (*samples.Book, samples.Names) {
	t.Helper()
	book, err := samples.Open(functions.Described())
	if err != nil {
		t.Fatal(err)
	}
	names, err := book.Names(chosen())
	if err != nil {
		t.Fatal(err)
	}
	return book, names
}

// fileOf is where an operation's event is.
func fileOf(g api.Group, d api.Declaration) string { return filepath.Join(g.Name, d.ID+".json") }

// eventOf makes the event that API Gateway makes of an operation's good request.
func eventOf(t *testing.T, d api.Declaration, r samples.Request, names samples.Names) events.APIGatewayProxyRequest {
	t.Helper()
	target, body, err := r.Target(d, names)
	if err != nil {
		t.Fatal(err)
	}
	path, query, _ := strings.Cut(target, "?")
	path = strings.ReplaceAll(path, "$", "%24") // as clients write it
	given := map[string]string{}
	for _, name := range samples.Parameters(d) {
		given[name] = url.PathEscape(names[name])
	}
	resource := d.Path
	if d.Slashed != "" {
		// Its value may hold slashes: a greedy variable takes it and what follows.
		before, after, _ := strings.Cut(d.Path, d.Slashed)
		resource = before + "{proxy+}"
		for _, name := range samples.Parameters(api.Declaration{Path: d.Slashed + after}) {
			delete(given, name)
		}
		given["proxy"] = strings.Join(strings.Split(path, "/")[strings.Count(before, "/"):], "/")
	}
	if before, special, found := strings.Cut(d.Path, "/$"); found {
		// A dollar rides on the variable beside it.
		resource = before + "/{keyId}"
		given["keyId"] = "%24" + special
	}
	e := events.APIGatewayProxyRequest{
		Resource: resource, Path: path, HTTPMethod: d.Method, PathParameters: given,
		Headers: map[string]string{
			"Accept": "application/json", "Host": "api.example.com", "User-Agent": "curl/8.5.0",
			"X-Amzn-Trace-Id": "Root=1-5bdb40ca-556d8b0c50dc66f0511bf520",
			"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Port": "443", "X-Forwarded-Proto": "https",
		},
		RequestContext: events.APIGatewayProxyRequestContext{
			AccountID: "000000000000", ResourceID: "abc123", OperationName: d.ID, Stage: "production", DomainName: "api.example.com", DomainPrefix: "api",
			RequestID: "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", ExtendedRequestID: "AbCdEfGhIjKlMnO=", Protocol: "HTTP/1.1",
			Identity:     events.APIGatewayRequestIdentity{SourceIP: "203.0.113.7", UserAgent: "curl/8.5.0"},
			ResourcePath: resource, Path: path, HTTPMethod: d.Method, APIID: "a1b2c3d4e5",
			RequestTime: "20/Nov/2026:12:00:00 +0000", RequestTimeEpoch: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).UnixMilli(),
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

func each(t *testing.T, test func(t *testing.T, g functions.Group, d api.Declaration)) {
	t.Helper()
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			t.Run(d.ID, func(t *testing.T) { test(t, g, d) })
		}
	}
}

func TestEveryOperationHasItsEvent(t *testing.T) {
	book, names := open(t)
	each(t, func(t *testing.T, g functions.Group, d api.Declaration) {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(eventOf(t, d, book.Request(d), names)); err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, fileOf(g.Group, d), out.Bytes())
	})
}

// TestNoEventIsLeftOver: an operation that goes takes its event along.
func TestNoEventIsLeftOver(t *testing.T) {
	wanted := map[string]bool{}
	for _, g := range functions.Groups() {
		wanted[filepath.Join(g.Name, "samples.json")] = true
		for _, d := range g.Declarations() {
			wanted[fileOf(g.Group, d)] = true
		}
	}
	for _, g := range functions.Groups() {
		files, err := filepath.Glob(filepath.Join(g.Name, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !wanted[file] {
				t.Errorf("%s is no operation's", file)
			}
		}
	}
}

// inMemory gives the parts of an installation with an account, and the
// account's key.
func inMemory(t *testing.T, log *slog.Logger) (w *functionstest.World, key string) {
	t.Helper()
	w = functionstest.New(t, projects.Bind)
	w.Parts.Config.DeploymentURL = "https://{deployment}.apis.example.com"
	w.Parts.Log = log
	return w, w.Account("acme")
}

// send runs a request's event through the function of a group, as Lambda does:
// decoded from JSON, and the answer encoded. It gives the operation that the
// log names.
func send(t *testing.T, p installation.Parts, g functions.Group, raw []byte, key string) (out events.APIGatewayProxyResponse, operation string) {
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
		var said struct{ Msg, Operation string }
		if err := json.Unmarshal(line, &said); err != nil {
			t.Fatal(err)
		}
		if said.Msg == "request" {
			operation = said.Operation
		}
	}
	return out, operation
}

// TestEventsReachTheirOperations: each is decoded and answered with a success,
// in the world that the samples make.
func TestEventsReachTheirOperations(t *testing.T) {
	book, names := open(t)
	var binds []functionstest.Bind
	for _, g := range functions.Groups() {
		binds = append(binds, g.Bind)
	}
	var w *functionstest.World
	var key string
	made := maps.Clone(names)
	synctest.Test(t, func(t *testing.T) {
		w = functionstest.New(t, binds...)
		key = w.Account("acme")
		if err := book.Make(w.Client(key), made); err != nil {
			t.Fatal(err)
		}
	})
	each(t, func(t *testing.T, g functions.Group, d api.Declaration) {
		if d.SessionAlone {
			t.Skip("an event has a key")
		}
		raw, err := os.ReadFile(fileOf(g.Group, d))
		if err != nil {
			t.Fatal(err)
		}
		// All at once, the longest first: shop begins shop-main-0123abc, and key_… ends akey_….
		parameters := slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Compare(len(names[b]), len(names[a])) })
		var pairs []string
		for _, parameter := range parameters {
			pairs = append(pairs, names[parameter], made[parameter])
		}
		raw = []byte(strings.NewReplacer(pairs...).Replace(string(raw)))
		out, operation := send(t, w.Copy(t).Parts, g, raw, key)
		if operation != d.ID || out.StatusCode != d.Status {
			t.Errorf("it leads to %q and is answered %d: %s", operation, out.StatusCode, out.Body)
		}
	})
}

// TestEventsWithoutAKeyAreRefused tells, in the body too, how to do better: API
// Gateway passes the header WWW-Authenticate on under another name.
func TestEventsWithoutAKeyAreRefused(t *testing.T) {
	each(t, func(t *testing.T, g functions.Group, d api.Declaration) {
		if d.Public {
			t.Skip("it is public")
		}
		raw, err := os.ReadFile(fileOf(g.Group, d))
		if err != nil {
			t.Fatal(err)
		}
		w, _ := inMemory(t, nil)
		out, _ := send(t, w.Parts, g, bytes.ReplaceAll(raw, []byte("Bearer "+sampleKey), nil), "")
		if out.StatusCode != http.StatusUnauthorized || !slices.Equal(out.MultiValueHeaders["Www-Authenticate"], []string{"Bearer"}) ||
			!strings.Contains(out.Body, "Authorization: Bearer") {
			t.Errorf("answer %+v", out)
		}
	})
}
