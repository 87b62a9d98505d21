package functions_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// maxProblemBytes is far more than any problem document needs. A client can send 1 MB, and JSON escapes could make it
// six times as long.
const maxProblemBytes = 128 << 10

// TestFuzzedRequestsGetDeclaredResponses calls operations with valid requests that have one random part. The random
// numbers are the same in every run. The status must be declared, an error must match the schema Problem of the served
// document, and each call of a mutating operation must leave one audit record. A path that is too long is refused
// before that.
func TestFuzzedRequestsGetDeclaredResponses(t *testing.T) {
	p, doc := newPopulatedFixture(t), readServedDocument(t)
	problem := doc.schema("components", "schemas", "Problem")
	forEachOperation(t, fewerIfRacing(anyOperation), func(t *testing.T, d api.Declaration) {
		fuzz := fuzzer{rand.New(rand.NewPCG(1, uint64(len(d.ID))))}
		valid := p.sampleSet.Request(d)
		for range 2 {
			fx := p.Copy(t)
			for range 8 {
				path, body := fuzz.request(t, d, valid, p.values)
				fx.Restart()                     // empties the caches and resets the request IDs
				fx.Now = fx.Now.Add(time.Second) // so that each audit record has its own time
				before, call := fx.Items.Snapshot(), truncate(d.Method+" "+path+" "+body)
				resp := fx.Call(p.key, d.Method, path, body)
				if rawPath, _, _ := strings.Cut(path, "?"); len(rawPath) > framing.DefaultMaxPathBytes {
					resp.Want(http.StatusRequestURITooLong) // refused before routing
					continue
				}
				checkRefusal(t, problem, d, resp, call)
				if n := len(newAuditRecords(fx, before)); d.Mutates() && n != 1 {
					t.Errorf("%s left %d audit records, want 1", call, n)
				}
				if t.Failed() {
					return
				}
			}
		}
	})
}

// checkRefusal checks the response if the request was refused: the operation must declare the status, and the body must
// be a problem document or an error of the MCP protocol.
func checkRefusal(
	t *testing.T, problem *jsonschema.Schema, d api.Declaration, resp functionstest.Response, call string,
) {
	t.Helper()
	if resp.Status == d.Status {
		return
	}
	if resp.Status >= http.StatusInternalServerError || !slices.Contains(d.Errors, resp.Status) {
		t.Errorf("%s: status = %d, want one that %s declares: %s", call, resp.Status, d.ID, truncate(resp.Body))
	}
	if len(resp.Body) > maxProblemBytes {
		t.Errorf("%s: body has %d bytes, want at most %d: %s",
			call, len(resp.Body), maxProblemBytes, truncate(resp.Body))
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(resp.Body))
	if d.TakesMessage && err == nil && resp.Header.Get("Content-Type") == "application/json" {
		return // an error of the MCP protocol
	}
	if err != nil || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: Content-Type = %q, JSON error = %v, want application/problem+json and no error: %s",
			call, resp.Header.Get("Content-Type"), err, truncate(resp.Body))
		return
	}
	if err := problem.Validate(document); err != nil {
		t.Errorf("%s: validation error of the body = %v, want a body that matches the schema Problem: %s",
			call, err, truncate(resp.Body))
	}
}

func truncate(text string) string {
	if len(text) > 400 {
		return text[:400] + "…"
	}
	return text
}

// fuzzer replaces parts of requests with random values.
type fuzzer struct{ *rand.Rand }

// request returns the path and the body of a valid request, with a random value in the path, the query or the body.
func (f fuzzer) request(
	t *testing.T, d api.Declaration, valid events.Request, values events.Values,
) (path, body string) {
	t.Helper()
	path, body = requestTarget(t, d, valid, values)
	parameters := events.Parameters(d)
	switch n := f.IntN(4); {
	case n == 0 && len(parameters) > 0:
		fuzzed := events.Values{parameters[f.IntN(len(parameters))]: f.randomText()}
		for name, value := range values {
			if fuzzed[name] == "" {
				fuzzed[name] = value
			}
		}
		path, _ = requestTarget(t, d, valid, fuzzed)
	case n <= 1 || !d.TakesBody:
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + f.randomQuery()
	case n == 2:
		body = f.changeField(body)
	default:
		body = f.randomBody()
	}
	return path, body
}

// randomText returns a random text for a path parameter, a query or a JSON string.
func (f fuzzer) randomText() string {
	candidates := []string{
		"&", "<", "é", "İ", "😀", "a", "%", "..%2F", "$bulk", "{}", "\x00", "\u202e", "\ufffd", "null",
		"bckt_0123456789ABCDEFGHIJKLMNOPQRSTUV", "00000000-0000-0000-0000-000000000000",
	}
	return strings.Repeat(pick(f, candidates), []int{1, 1, 2, 64, 256, 600, 700, 100_000}[f.IntN(8)])
}

func (f fuzzer) randomQuery() string {
	names := []string{
		"limit", "offset", "key-format", "include-api-keys", "manager-email", "with-api-key", "accountName",
		"tag", "tag.", "tag.plan", "tag." + f.randomText(), f.randomText(),
	}
	values := []string{"", "-1", "0", "1e3", "99999999999999999999", "true", "visible", "gold", "\x01", f.randomText()}
	var out []string
	for range 1 + f.IntN(4) {
		out = append(out, url.QueryEscape(names[f.IntN(len(names))])+"="+url.QueryEscape(values[f.IntN(len(values))]))
	}
	return strings.Join(out, "&")
}

// changeField returns a body with another value for one of its fields, or with an additional field.
func (f fuzzer) changeField(body string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &fields) != nil {
		return "[" + f.randomJSON() + "]"
	}
	names := []string{
		"name", "description", "tags", "metadata", "managers", "key", "expiresOn", "value", "isSecret",
		"email", "branchName",
	}
	for name := range fields {
		names = append(names, name, name, name)
	}
	slices.Sort(names)
	fields[names[f.IntN(len(names))]] = json.RawMessage(f.randomJSON())
	out, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// randomJSON returns a random JSON value.
func (f fuzzer) randomJSON() string {
	if f.IntN(3) > 0 {
		return pick(f, fuzzValues)
	}
	text, err := json.Marshal(f.randomText())
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(pick(f, []string{"TEXT", "{TEXT:1}", `{TEXT:"\u0000"}`}), "TEXT", string(text))
}

// randomBody returns a random text for a body.
func (f fuzzer) randomBody() string {
	if f.IntN(2) > 0 {
		return pick(f, fuzzBodies)
	}
	return strings.ReplaceAll(pick(f, []string{"VALUE", "[VALUE]", `{"x":VALUE}`}), "VALUE", f.randomJSON())
}

func pick(f fuzzer, values []string) string { return values[f.IntN(len(values))] }

var (
	fuzzValues = []string{
		"null", "true", "0", "-1", "1e308", `""`, "[]", "{}", `"\u0000"`, `"\ud800"`, `"9999-12-31T23:59:59.999999999Z"`,
		strings.Repeat("[", 30) + strings.Repeat("]", 30), "[" + strings.Repeat("1,", 15_000) + "1]",
		"[" + strings.Repeat("{},", 15_000) + "{}]", "[" + strings.Repeat(`"",`, 60) + `""]`,
	}
	fuzzBodies = []string{
		"", " ", "{", "{}{}", "\xff", "\ufeff{}", `{"name":"a","name":"b"}`,
		strings.Repeat("[", 500_000), "[" + strings.Repeat("1,", 500_000) + "1]", "[" + strings.Repeat("{},", 1000) + "{}]",
		"[" + strings.Repeat(`{"key":1,"description":2,"expiresOn":3},`, 999) + "{}]",
		"[" + strings.Repeat(`{"key":"<<<<<<<<<<<<<<<<é","description":"\n"},`, 999) + "{}]",
		`{"name":"zz","managers":[` + strings.Repeat("1,", 500_000) + "1]}", strings.Repeat(" ", api.MaxBodyBytes+1),
	}
)
