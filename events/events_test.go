package events_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// sampleKey stands in the files where a caller's key does. It is nobody's.
const sampleKey = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000"

// values are what the parameters of paths are in the files.
var values = map[string]string{
	"accountName": "acme", "projectName": "shop", "branchName": "feature%2Fx", "bucketName": "shop-production",
	"consumerName": "ada", "keyId": "key_0123456789ABCDEFGHIJKLMN", "managerId": "eusr_0123456789ABCDEFGHIJKLMN",
	"statusId": "0b1e8f1e-7c1d-4a55-9d0c-3f0f4c6f2a11", "deploymentName": "shop-main-0123abc", "variableName": "API_ORIGIN",
}

var parameter = regexp.MustCompile(`\{([A-Za-z]+)\}`)

// fileOf is where an operation's event is.
func fileOf(g api.Group, d api.Declaration) string { return filepath.Join(g.Name, d.ID+".json") }

// eventOf makes the event that API Gateway makes of a request to an operation.
// The body is kept from the file that is there: only people know a good one.
func eventOf(t *testing.T, g api.Group, d api.Declaration) events.APIGatewayProxyRequest {
	t.Helper()
	given := map[string]string{}
	path := parameter.ReplaceAllStringFunc(d.Path, func(p string) string {
		name := strings.Trim(p, "{}")
		v, ok := values[name]
		if !ok {
			t.Fatalf("%s has the parameter %s: give it a value in values", d.ID, name)
		}
		given[name] = v
		return v
	})
	path = strings.ReplaceAll(path, "$", "%24") // as clients write it
	resource := d.Path
	if before, _, deep := strings.Cut(d.Path, "{branchName}"); deep {
		// A branch may hold slashes: a greedy variable takes it and what follows.
		resource = before + "{proxy+}"
		delete(given, "branchName")
		delete(given, "variableName")
		given["proxy"] = path[strings.Index(path, "/branches/")+len("/branches/"):]
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
	if d.TakesBody {
		e.Headers["Content-Type"] = "application/json"
		if e.Body = read(t, fileOf(g, d)).Body; e.Body == "" {
			t.Fatalf("%s takes a body: write a file events/%s with a good one in \"body\", and run the test with -update", d.ID, fileOf(g, d))
		}
	}
	e.MultiValueHeaders = map[string][]string{}
	for name, value := range e.Headers {
		e.MultiValueHeaders[name] = []string{value}
	}
	return e
}

// read gives the event in a file, an empty one when there is none.
func read(t *testing.T, file string) events.APIGatewayProxyRequest {
	t.Helper()
	var e events.APIGatewayProxyRequest
	raw, err := os.ReadFile(file)
	if err != nil {
		return e
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		t.Fatalf("%s: %v", file, err)
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
	each(t, func(t *testing.T, g functions.Group, d api.Declaration) {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(eventOf(t, g.Group, d)); err != nil {
			t.Fatal(err)
		}
		golden.Equal(t, fileOf(g.Group, d), out.Bytes())
	})
}

// TestNoEventIsLeftOver: an operation that goes takes its event along.
func TestNoEventIsLeftOver(t *testing.T) {
	wanted := map[string]bool{}
	for _, g := range functions.Groups() {
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
func inMemory(t *testing.T, log *slog.Logger) (p installation.Parts, items *store.Memory, key string) {
	t.Helper()
	items = store.NewMemory()
	now := func() time.Time { return storetest.Epoch }
	random := storetest.Random(t)
	p = installation.Parts{
		Config: config.Config{DeploymentURL: "https://{deployment}.apis.example.com"},
		Table:  storetest.Over(t, items, storetest.Clock(now)),
		Bucket: blob.NewMemory(now), Key: seal.OpenFile(filepath.Join(t.TempDir(), "key")),
		Random: random, Now: now, IDs: ids.NewSource(random, now), Log: log,
	}
	_, key, err := p.Accounts().Create(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	return p, items, key
}

// send runs a request's event through the function of a group, as Lambda does:
// decoded from JSON, and the answer encoded. It gives the operation that the
// log names.
func send(t *testing.T, g functions.Group, raw []byte, change func(*installation.Parts)) (out events.APIGatewayProxyResponse, operation string) {
	t.Helper()
	var log bytes.Buffer
	p, _, key := inMemory(t, slog.New(slog.NewJSONHandler(&log, nil)))
	if change != nil {
		change(&p)
	}
	raw = bytes.ReplaceAll(raw, []byte(sampleKey), []byte(key))
	var event events.APIGatewayProxyRequest
	if err := json.Unmarshal(raw, &event); err != nil {
		t.Fatal(err)
	}
	out, err := p.Server(p.Accounts(), g.Bind(functions.NewServices(p))).Edge()(t.Context(), event)
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

// TestEventsReachTheirOperations: each is decoded and answered, with a success
// where it needs nothing to be there, and never with a failure of ours.
func TestEventsReachTheirOperations(t *testing.T) {
	succeeded := 0
	each(t, func(t *testing.T, g functions.Group, d api.Declaration) {
		raw, err := os.ReadFile(fileOf(g.Group, d))
		if err != nil {
			t.Fatal(err)
		}
		out, operation := send(t, g, raw, nil)
		if operation != d.ID {
			t.Errorf("it leads to %q", operation)
		}
		switch out.StatusCode {
		case d.Status:
			succeeded++
		case http.StatusNotFound: // what it names is not there
		default:
			t.Errorf("status %d: %s", out.StatusCode, out.Body)
		}
	})
	if succeeded < 8 {
		t.Errorf("only %d events succeed", succeeded)
	}
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
		out, _ := send(t, g, bytes.ReplaceAll(raw, []byte("Bearer "+sampleKey), nil), nil)
		if out.StatusCode != http.StatusUnauthorized || !slices.Equal(out.MultiValueHeaders["Www-Authenticate"], []string{"Bearer"}) ||
			!strings.Contains(out.Body, "Authorization: Bearer") {
			t.Errorf("answer %+v", out)
		}
	})
}
