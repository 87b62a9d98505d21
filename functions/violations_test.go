package functions_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/simulations"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema/kind"
)

// The suite of invalid input is derived from the served document. It sends requests to every operation. In each
// request, one parameter or field, at any depth, has another value. The schema in the document decides whether the
// value is invalid, with a validator that is independent of the server's. An invalid value must be refused, in most
// cases with 400. The problem of a 400 must name the place of the value. The table must not change, except for the
// audit record of the refusal.

// minViolations is the minimum number of requests that the suite must send, so that it cannot shrink unnoticed.
const minViolations = 4000

// randomViolations is the number of additional requests whose path, query and body are changed at random. violationSeed
// is the seed of these changes. `make fuzz` sets both.
var (
	randomViolations = flag.Int("violations", 0,
		"number of additional requests with random changes")
	violationSeed = flag.Uint64("violation-seed", 1, "seed of the random changes")
)

// changedRequest is a valid request with a changed part. The changed part can be valid too.
type changedRequest struct {
	label      string // for failure messages
	method     string
	path, body string
	headers    []string
	locations  []string // the problem must name one of them; nil if the request may be valid
	statuses   []int    // the allowed statuses of a refusal
}

// TestEveryViolationIsRefused runs the suite of invalid input for all operations.
func TestEveryViolationIsRefused(t *testing.T) {
	p, doc := newPopulatedFixture(t), readServedDocument(t)
	operations, schemas := readOpenAPI(t)
	problem := doc.schema("components", "schemas", "Problem")
	sent, refused := 0, 0
	forEachOperation(t, fewerIfRacing(anyOperation), func(t *testing.T, d api.Declaration) {
		checker := responseChecker{t: t, p: p, problem: problem, d: d}
		rg := requestGenerator{t: t, d: d, doc: doc, values: p.values, operation: operations[d.ID], schemas: schemas}
		valid := variants(p.sampleSet, d)
		for _, rg.valid = range valid {
			rg.path, rg.body = requestTarget(t, d, rg.valid, p.values)
			for b := range rg.singleFaults() {
				if checker.send(b); t.Failed() {
					return
				}
			}
		}
		random := rand.New(rand.NewPCG(*violationSeed, uint64(len(d.ID))))
		for _, rg.valid = range valid {
			rg.path, rg.body = requestTarget(t, d, rg.valid, p.values)
			targets, bodies := append(rg.queries(), rg.paths()...), rg.fields()
			for range *randomViolations / len(operations) / len(valid) {
				if checker.send(rg.random(random, targets, bodies)); t.Failed() {
					return
				}
			}
		}
		checker.strict.checkUnchanged(t)
		sent, refused = sent+checker.sent, refused+checker.refused
	})
	t.Logf("%d requests were sent, %d of them refused", sent, refused)
	if onlyGroup(t) == "" && !simulations.RaceEnabled && refused < minViolations {
		t.Errorf("%d requests were refused, want %d or more", refused, minViolations)
	}
}

// responseChecker sends an operation's changed requests and checks the responses.
type responseChecker struct {
	t             *testing.T
	p             populatedFixture
	problem       *jsonschema.Schema
	d             api.Declaration
	sent, refused int

	// strict gets only requests that must be refused, and its table is checked after checkInterval refusals. lenient
	// gets requests that may be valid, and its table is checked after each refusal.
	strict, lenient checkedFixture
}

// checkedFixture is a fixture with its table at the last check.
type checkedFixture struct {
	*functionstest.Fixture
	before   table
	refusals []string // the refused requests since the last check
}

// checkInterval is the number of refusals between two checks of a table.
const checkInterval = 100

// send sends a request and checks the response.
func (c *responseChecker) send(b changedRequest) {
	t, fixture, interval := c.t, &c.strict, checkInterval
	if b.locations == nil {
		fixture, interval = &c.lenient, 1
	}
	if fixture.Fixture == nil {
		fixture.Fixture = c.p.Copy(t)
		fixture.before = fixture.Items.Snapshot()
	}
	call := truncate(fmt.Sprintf("%s (%s): %s %s %q", c.d.ID, b.label, b.method, b.path, b.body))
	fixture.Now = fixture.Now.Add(time.Second) // so that each audit record has its own time
	c.sent++
	resp := fixture.Call(c.p.key, b.method, b.path, b.body, b.headers...)
	switch {
	case resp.Status >= http.StatusInternalServerError || resp.Status < http.StatusBadRequest && b.locations != nil:
		t.Errorf("%s = %d, want a status below 500, and a refusal if it is invalid: %s",
			call, resp.Status, truncate(resp.Body))
		return
	case resp.Status < http.StatusBadRequest:
		fixture.Fixture = nil
		return
	case b.method == c.d.Method:
		checkRefusal(t, c.problem, c.d, resp, call)
	}
	c.refused++
	if fixture.refusals = append(fixture.refusals, call); len(fixture.refusals) >= interval {
		fixture.checkUnchanged(t)
	}
	if b.locations == nil {
		return
	}
	if !slices.Contains(b.statuses, resp.Status) {
		t.Errorf("%s = %d, want one of %v: %s", call, resp.Status, b.statuses, truncate(resp.Body))
	}
	if resp.Status == http.StatusBadRequest && !slices.ContainsFunc(b.locations, func(name string) bool {
		return strings.Contains(resp.Message(), name)
	}) {
		t.Errorf("%s: problem = %s, want one of %q in it", call, truncate(resp.Body), b.locations)
	}
}

// checkUnchanged fails the test if refusals have changed the table. If they have left many audit records, it discards
// the fixture, so that the next check is faster.
func (fx *checkedFixture) checkUnchanged(t *testing.T) {
	t.Helper()
	if fx.Fixture == nil || len(fx.refusals) == 0 {
		return
	}
	failed := t.Failed()
	assertUnchanged(t, fx.before, fx.Items.Snapshot())
	if !failed && t.Failed() {
		t.Logf("one of these requests changed the table:\n%s", strings.Join(fx.refusals, "\n"))
	}
	if fx.refusals = nil; len(fx.Items.Snapshot()) > len(fx.before)+checkInterval {
		fx.Fixture = nil
	}
}

// requestGenerator derives changed requests from a valid request.
type requestGenerator struct {
	t          *testing.T
	d          api.Declaration
	doc        *servedDocument
	values     events.Values
	operation  operationSpec
	schemas    map[string]schema
	valid      events.Request
	path, body string
}

// singleFaults returns the requests with one changed part.
func (rg requestGenerator) singleFaults() func(yield func(changedRequest) bool) {
	return func(yield func(changedRequest) bool) {
		for _, part := range []func() []changedRequest{rg.methods, rg.paths, rg.queries, rg.malformedBodies, rg.fields} {
			for _, b := range part() {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// random returns a request that can have the path and query of one of targets, and the body of one of bodies or a
// random body.
func (rg requestGenerator) random(r *rand.Rand, targets, bodies []changedRequest) changedRequest {
	out := changedRequest{label: "at random", method: rg.d.Method, path: rg.path, body: rg.body}
	if len(targets) > 0 && r.IntN(2) == 0 {
		out.path = targets[r.IntN(len(targets))].path
	}
	switch {
	case len(bodies) > 0 && r.IntN(3) > 0:
		out.body = bodies[r.IntN(len(bodies))].body
	case rg.d.TakesBody:
		out.body = fuzzer{r}.randomBody()
	}
	return out
}

// methods returns requests for the operation's path with methods that the path does not support.
func (rg requestGenerator) methods() (out []changedRequest) {
	known := map[string]bool{http.MethodHead: true} // GET also serves HEAD
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if pathShape(d.Path) == pathShape(rg.d.Path) {
				known[d.Method] = true
			}
		}
	}
	for _, method := range []string{
		http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions, http.MethodTrace, "PROPFIND",
	} {
		if !known[method] {
			out = append(out, changedRequest{
				label: "another method", method: method, path: rg.path, body: rg.body, locations: []string{""},
				// The status is 400 if the path also matches another operation, as keys/$bulk matches keys/{keyId}.
				statuses: []int{http.StatusMethodNotAllowed, http.StatusNotFound, http.StatusBadRequest},
			})
		}
	}
	return out
}

var placeholderPattern = regexp.MustCompile(`\{[^}]*\}`)

func pathShape(path string) string { return placeholderPattern.ReplaceAllString(path, "{}") }

// unusualNames are names that no path parameter of the fixture has.
var unusualNames = []string{
	" ", ".", "..", "a b", "%", "é", "😀", "\x00", "\x7f", "a\nb", "A_B.C", "$bulk", "{x}", "-", "_", "'", `"`, "\\",
	"a/b", "..%2f..", "null", "0", "-1",
	strings.Repeat("a", 63), strings.Repeat("a", 300), strings.Repeat("a", 2100), "00000000-0000-0000-0000-000000000000",
	"\u202e", "\ufffd", "xn--a",
}

// paths returns requests with unusual names in the path.
func (rg requestGenerator) paths() (out []changedRequest) {
	for _, parameter := range events.Parameters(rg.d) {
		for _, name := range unusualNames {
			n, r := maps.Clone(rg.values), rg.valid
			n[parameter], r.Values = name, maps.Clone(r.Values)
			delete(r.Values, parameter) // a named value would replace the unusual name
			path, body := requestTarget(rg.t, rg.d, r, n)
			b := changedRequest{label: "path." + parameter, method: rg.d.Method, path: path, body: body}
			if rg.isInvalid("path", parameter, name) {
				b.locations, b.statuses = []string{"path." + parameter, "Not Found", "path"},
					[]int{http.StatusBadRequest, http.StatusNotFound}
			}
			out = append(out, b)
		}
	}
	return out
}

// isInvalid reports whether the document forbids a value of a parameter.
func (rg requestGenerator) isInvalid(location, name, text string) bool {
	parameters, _ := rg.doc.lookup("paths", rg.d.Path, strings.ToLower(rg.d.Method), "parameters").([]any)
	for i, entry := range parameters {
		object, _ := entry.(map[string]any)
		if object["name"] != name || object["in"] != location {
			continue
		}
		var value any = text
		s, _ := object["schema"].(map[string]any)
		switch s["type"] {
		case "integer", "number":
			if _, err := strconv.ParseInt(text, 10, 64); err != nil {
				return true
			}
			value = json.Number(text)
		case "boolean":
			if text != "true" && text != "false" {
				return true
			}
			value = text == "true"
		}
		return rg.doc.schema("paths", rg.d.Path, strings.ToLower(rg.d.Method), "parameters", strconv.Itoa(i), "schema").
			Validate(value) != nil
	}
	return false
}

var unusualValues = []string{
	"", " ", "-1", "0", "1", "1.5", "1e3", "0x10", "abc", "99999999999999999999", "-99999999999999999999", "true", "TRUE",
	"yes", "null", "nonesuch", "\x00", "é", "1 ", " 1", "١",
	"2026-13-45T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "a@b", strings.Repeat("9", 400),
	strings.Repeat("a", 5000),
}

// queries returns requests with unusual values in the query, and with invalid queries.
func (rg requestGenerator) queries() (out []changedRequest) {
	pathWith := func(query string) string {
		r := rg.valid
		r.Query = strings.TrimPrefix(r.Query+"&"+query, "&")
		path, _ := requestTarget(rg.t, rg.d, r, rg.values)
		return path
	}
	for _, query := range []string{"a=%", "a=%zz", "%=1", "a=%ff", "a=%00", "a;b=1"} {
		b := changedRequest{
			label: "query", method: rg.d.Method, path: pathWith(query), body: rg.body,
			locations: []string{"query"}, statuses: []int{http.StatusBadRequest},
		}
		if strings.HasPrefix(query, "a;") {
			b.locations = nil // the request may be valid: some parsers accept the query
		}
		out = append(out, b)
	}
	for _, p := range rg.operation.Parameters {
		if p.In != "query" || strings.Contains("&"+rg.valid.Query, "&"+p.Name+"=") {
			continue
		}
		for _, value := range unusualValues {
			b := changedRequest{
				label: "query." + p.Name, method: rg.d.Method,
				path: pathWith(p.Name + "=" + url.QueryEscape(value)), body: rg.body,
			}
			if p.Name != "tag" && rg.isInvalid("query", p.Name, value) {
				b.locations, b.statuses = []string{"query." + p.Name}, []int{http.StatusBadRequest}
			}
			out = append(out, b)
		}
	}
	return out
}

// malformedBodies returns requests whose bodies are not JSON, are not a single object, are too large, or have an
// encoding that is not allowed.
func (rg requestGenerator) malformedBodies() (out []changedRequest) {
	if !rg.d.TakesBody {
		return nil
	}
	malformed := map[string]string{
		"cut short": rg.body[:max(0, len(rg.body)-1)], "with a second object": rg.body + "{}",
		"in Latin-1": strings.Replace(rg.body, `"`, "\"\xe9", 1),
		"in UTF-16":  "\xff\xfe{\x00}\x00", "with a comment": "/* a */" + rg.body,
		"with a trailing comma": strings.Replace(rg.body, "}", ",}", 1),
		"in single quotes":      strings.ReplaceAll(rg.body, `"`, "'"), "a form": "a=1&b=2", "XML": "<a/>",
		"NaN":      `{"name":NaN}`,
		"too deep": strings.Repeat("[", 100_000),
	}
	for _, label := range slices.Sorted(maps.Keys(malformed)) {
		if json.Valid([]byte(malformed[label])) && !strings.Contains(malformed[label], "\xe9") {
			continue // the valid body does not contain the text to replace
		}
		out = append(out, changedRequest{
			label: label, method: rg.d.Method, path: rg.path, body: malformed[label],
			locations: []string{"body"}, statuses: []int{http.StatusBadRequest},
		})
	}
	oversized := changedRequest{
		label: "too large", method: rg.d.Method, path: rg.path,
		body: strings.Repeat(" ", api.MaxBodyBytes) + rg.body, locations: []string{"Too Large"},
		statuses: []int{http.StatusRequestEntityTooLarge},
	}
	compressed := changedRequest{
		label: "with Content-Encoding: gzip", method: rg.d.Method, path: rg.path,
		body: "\x1f\x8b\x08" + rg.body, headers: []string{"Content-Encoding", "gzip"}, locations: []string{"body"},
		statuses: []int{http.StatusBadRequest, http.StatusUnsupportedMediaType},
	}
	return append(out, oversized, compressed)
}

// errorLocations returns the names of the places in a validator's error. A problem must contain one of these names.
func errorLocations(err error) (out []string) {
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return []string{"body"}
	}
	var walk func(e *jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		name := "body"
		for _, token := range slices.Backward(e.InstanceLocation) {
			if _, err := strconv.Atoi(token); err != nil {
				name = "." + token
				break
			}
		}
		out = append(out, name)
		if required, ok := e.ErrorKind.(*kind.Required); ok {
			out = append(out, required.Missing...)
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(e)
	return out
}
