package functions_test

import (
	"bytes"
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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
	"github.com/gatewright/gatewright/thirdparty/jsonschema/kind"
)

// The suite of bad input is made from the served document: of every operation each
// parameter and each field, at every depth, with every value that may be wrong there.
// Whether it is wrong the document's own schema says, held by a validator that shares
// nothing with the one that answers. What is wrong has to be a 400 that names where,
// and leaves the table as it was but for the record of the refusal.

// leastViolations is how many requests the suite has to send: it can't shrink unseen.
const leastViolations = 4000

// violations is how many more the suite makes at random, each with two parts spoilt,
// and violationSeed where they begin: `make fuzz` sets them.
var (
	violations    = flag.Int("violations", 0, "how many requests to spoil at random, beside those that are made one by one")
	violationSeed = flag.Uint64("violation-seed", 1, "where the random ones begin")
)

// bad is a request with something in it that may be wrong.
type bad struct {
	what       string // for the reader of a failure
	method     string
	path, body string
	headers    []string
	where      []string // of which the problem has to name one; nil where nothing need be wrong
	status     []int    // what a wrong one may be answered
}

// TestEveryViolationIsRefused is the suite of all operations.
func TestEveryViolationIsRefused(t *testing.T) {
	p, doc := newPopulated(t), readServed(t)
	operations, schemas := requests(t)
	problem := doc.schema("components", "schemas", "Problem")
	sent, refused := 0, 0
	each(t, sampled(every), func(t *testing.T, d api.Declaration) {
		j := judge{t: t, p: p, problem: problem, d: d}
		m := maker{t: t, d: d, doc: doc, names: p.names, operation: operations[d.ID], schemas: schemas}
		good := variants(p.book, d)
		for _, m.good = range good {
			m.path, m.body = target(t, d, m.good, p.names)
			for b := range m.all() {
				if j.send(b); t.Failed() {
					return
				}
			}
		}
		random := rand.New(rand.NewPCG(*violationSeed, uint64(len(d.ID))))
		for _, m.good = range good {
			m.path, m.body = target(t, d, m.good, p.names)
			places, fields := append(m.queries(), m.paths()...), m.fields()
			for range *violations / len(operations) / len(good) {
				if j.send(m.random(random, places, fields)); t.Failed() {
					return
				}
			}
		}
		j.strict.look(t)
		sent, refused = sent+j.sent, refused+j.refused
	})
	t.Logf("%d requests were sent, %d of them refused", sent, refused)
	if only(t) == "" && !simulations.Racing && refused < leastViolations {
		t.Errorf("%d requests were refused, want %d", refused, leastViolations)
	}
}

// judge sends an operation's bad requests and judges the answers.
type judge struct {
	t             *testing.T
	p             populated
	problem       *jsonschema.Schema
	d             api.Declaration
	sent, refused int

	// strict has had refusals alone, and is looked at every now and then; lenient
	// has what may be right, and is looked at after each refusal.
	strict, lenient seen
}

// seen is a world, and its table when it was last looked at.
type seen struct {
	*functionstest.World
	before table
	since  []string // what was refused from then on
}

// lookEvery is how many refusals there are between two looks.
const lookEvery = 100

func (j *judge) send(b bad) {
	t, in, every := j.t, &j.strict, lookEvery
	if b.where == nil {
		in, every = &j.lenient, 1
	}
	if in.World == nil {
		in.World = j.p.Copy(t)
		in.before = in.Items.Snapshot()
	}
	call := shortened(fmt.Sprintf("%s (%s): %s %s %q", j.d.ID, b.what, b.method, b.path, b.body))
	in.Now = in.Now.Add(time.Second) // a time of its own for each record
	j.sent++
	a := in.Call(j.p.key, b.method, b.path, b.body, b.headers...)
	switch {
	case a.Status >= http.StatusInternalServerError || a.Status < http.StatusBadRequest && b.where != nil:
		t.Errorf("%s is answered %d: %s", call, a.Status, shortened(a.Body))
		return
	case a.Status < http.StatusBadRequest:
		in.World = nil
		return
	case b.method == j.d.Method:
		inBounds(t, j.problem, j.d, a, call)
	}
	j.refused++
	if in.since = append(in.since, call); len(in.since) >= every {
		in.look(t)
	}
	if b.where == nil {
		return
	}
	if !slices.Contains(b.status, a.Status) {
		t.Errorf("%s is answered %d, want %v: %s", call, a.Status, b.status, shortened(a.Body))
	}
	if a.Status == http.StatusBadRequest && !slices.ContainsFunc(b.where, func(name string) bool { return strings.Contains(a.Told(), name) }) {
		t.Errorf("%s: the problem names none of %q: %s", call, b.where, shortened(a.Body))
	}
}

// look fails the test if refusals have changed the table. Their records go, so that
// the next look has less to see.
func (s *seen) look(t *testing.T) {
	t.Helper()
	if s.World == nil || len(s.since) == 0 {
		return
	}
	failed := t.Failed()
	unchanged(t, s.before, s.Items.Snapshot())
	if !failed && t.Failed() {
		t.Logf("one of these did it:\n%s", strings.Join(s.since, "\n"))
	}
	if s.since = nil; len(s.Items.Snapshot()) > len(s.before)+lookEvery {
		s.World = nil
	}
}

// maker makes bad requests of good ones.
type maker struct {
	t          *testing.T
	d          api.Declaration
	doc        *served
	names      events.Names
	operation  described
	schemas    map[string]schema
	good       events.Request
	path, body string
}

// all are the requests that have one part spoilt.
func (m maker) all() func(yield func(bad) bool) {
	return func(yield func(bad) bool) {
		for _, part := range []func() []bad{m.methods, m.paths, m.queries, m.texts, m.fields} {
			for _, b := range part() {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// random is a request whose path or query is that of one of places, and whose body is
// that of one of fields, or anything.
func (m maker) random(r *rand.Rand, places, fields []bad) bad {
	out := bad{what: "at random", method: m.d.Method, path: m.path, body: m.body}
	if len(places) > 0 && r.IntN(2) == 0 {
		out.path = places[r.IntN(len(places))].path
	}
	switch {
	case len(fields) > 0 && r.IntN(3) > 0:
		out.body = fields[r.IntN(len(fields))].body
	case m.d.TakesBody:
		out.body = spoiler{r}.body()
	}
	return out
}

// methods asks for the path with methods that it does not have.
func (m maker) methods() (out []bad) {
	taken := map[string]bool{http.MethodHead: true} // GET answers it too
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if shapeOf(d.Path) == shapeOf(m.d.Path) {
				taken[d.Method] = true
			}
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, "PROPFIND"} {
		if !taken[method] {
			out = append(out, bad{
				what: "another method", method: method, path: m.path, body: m.body, where: []string{""},
				// 400 where the path is that of a neighbour too: keys/$bulk is keys/{keyId}.
				status: []int{http.StatusMethodNotAllowed, http.StatusNotFound, http.StatusBadRequest},
			})
		}
	}
	return out
}

var braces = regexp.MustCompile(`\{[^}]*\}`)

func shapeOf(path string) string { return braces.ReplaceAllString(path, "{}") }

// names that no path parameter of the world has.
var strangeNames = []string{
	" ", ".", "..", "a b", "%", "é", "😀", "\x00", "\x7f", "a\nb", "A_B.C", "$bulk", "{x}", "-", "_", "'", `"`, "\\", "a/b", "..%2f..", "null", "0", "-1",
	strings.Repeat("a", 63), strings.Repeat("a", 300), strings.Repeat("a", 2100), "00000000-0000-0000-0000-000000000000", "\u202e", "\ufffd", "xn--a",
}

// paths puts strange names into the path.
func (m maker) paths() (out []bad) {
	for _, parameter := range events.Parameters(m.d) {
		for _, name := range strangeNames {
			n, r := maps.Clone(m.names), m.good
			n[parameter], r.Names = name, maps.Clone(r.Names)
			delete(r.Names, parameter) // which would go before
			path, body := target(m.t, m.d, r, n)
			b := bad{what: "path." + parameter, method: m.d.Method, path: path, body: body}
			if m.wrong("path", parameter, name) {
				b.where, b.status = []string{"path." + parameter, "Not Found", "path"}, []int{http.StatusBadRequest, http.StatusNotFound}
			}
			out = append(out, b)
		}
	}
	return out
}

// wrong asks the document whether a parameter may have a value.
func (m maker) wrong(in, name, text string) bool {
	list, _ := m.doc.at("paths", m.d.Path, strings.ToLower(m.d.Method), "parameters").([]any)
	for i, entry := range list {
		object, _ := entry.(map[string]any)
		if object["name"] != name || object["in"] != in {
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
		return m.doc.schema("paths", m.d.Path, strings.ToLower(m.d.Method), "parameters", strconv.Itoa(i), "schema").Validate(value) != nil
	}
	return false
}

var strangeValues = []string{
	"", " ", "-1", "0", "1", "1.5", "1e3", "0x10", "abc", "99999999999999999999", "-99999999999999999999", "true", "TRUE", "yes", "null", "nonesuch", "\x00", "é", "1 ", " 1", "١",
	"2026-13-45T00:00:00Z", "2026-01-01", "2026-01-01T00:00:00", "a@b", strings.Repeat("9", 400), strings.Repeat("a", 5000),
}

// queries puts strange values into the query, and texts that are none.
func (m maker) queries() (out []bad) {
	with := func(query string) string {
		r := m.good
		r.Query = strings.TrimPrefix(r.Query+"&"+query, "&")
		path, _ := target(m.t, m.d, r, m.names)
		return path
	}
	for _, query := range []string{"a=%", "a=%zz", "%=1", "a=%ff", "a=%00", "a;b=1"} {
		b := bad{what: "query", method: m.d.Method, path: with(query), body: m.body, where: []string{"query"}, status: []int{http.StatusBadRequest}}
		if strings.HasPrefix(query, "a;") {
			b.where = nil // some parsers take it
		}
		out = append(out, b)
	}
	for _, p := range m.operation.Parameters {
		if p.In != "query" || strings.Contains("&"+m.good.Query, "&"+p.Name+"=") {
			continue
		}
		for _, value := range strangeValues {
			b := bad{what: "query." + p.Name, method: m.d.Method, path: with(p.Name + "=" + url.QueryEscape(value)), body: m.body}
			if p.Name != "tag" && m.wrong("query", p.Name, value) {
				b.where, b.status = []string{"query." + p.Name}, []int{http.StatusBadRequest}
			}
			out = append(out, b)
		}
	}
	return out
}

// texts are bodies that are no JSON of one object, or not as it may be written.
func (m maker) texts() (out []bad) {
	if !m.d.TakesBody {
		return nil
	}
	spoilt := map[string]string{
		"cut short": m.body[:max(0, len(m.body)-1)], "with more behind it": m.body + "{}", "in Latin-1": strings.Replace(m.body, `"`, "\"\xe9", 1),
		"in UTF-16": "\xff\xfe{\x00}\x00", "with a comment": "/* a */" + m.body, "with a comma too many": strings.Replace(m.body, "}", ",}", 1),
		"in single quotes": strings.ReplaceAll(m.body, `"`, "'"), "a form": "a=1&b=2", "XML": "<a/>", "NaN": `{"name":NaN}`, "too deep": strings.Repeat("[", 100_000),
	}
	for _, what := range slices.Sorted(maps.Keys(spoilt)) {
		if json.Valid([]byte(spoilt[what])) && !bytes.ContainsRune([]byte(spoilt[what]), '\xe9') {
			continue // the good body has none of what is spoilt
		}
		out = append(out, bad{what: what, method: m.d.Method, path: m.path, body: spoilt[what], where: []string{"body"}, status: []int{http.StatusBadRequest}})
	}
	large := bad{what: "too large", method: m.d.Method, path: m.path, body: strings.Repeat(" ", api.MaxBodyBytes) + m.body, where: []string{"Too Large"}, status: []int{http.StatusRequestEntityTooLarge}}
	packed := bad{what: "said to be compressed", method: m.d.Method, path: m.path, body: "\x1f\x8b\x08" + m.body, headers: []string{"Content-Encoding", "gzip"}, where: []string{"body"}, status: []int{http.StatusBadRequest, http.StatusUnsupportedMediaType}}
	return append(out, large, packed)
}

// wrongValues are put in the place of each field.
func wrongValues(s schema) (out []any) {
	out = []any{
		nil, true, false, json.Number("0"), json.Number("-1"), json.Number("1.5"), json.Number("1e400"), json.Number("12345678901234567890"),
		"", " ", "a", "\x00", "a\nb", "é", "😀", "A B", "../x", "nonesuch", "NONESUCH", "2026-02-30T00:00:00Z", "2026-01-01", "true", "1",
		strings.Repeat("a", 200), strings.Repeat("a", 70_000),
		[]any{},
		[]any{nil},
		[]any{"a"},
		[]any{map[string]any{}},
		map[string]any{},
		map[string]any{"a": nil},
		map[string]any{"a": 1},
		map[string]any{"": "a"},
		map[string]any{"a": map[string]any{"b": []any{1}}},
	}
	if s.MaxLength != nil {
		out = append(out, strings.Repeat("a", *s.MaxLength+1), strings.Repeat("é", *s.MaxLength+1))
	}
	if s.MaxItems != nil && *s.MaxItems < 2000 {
		out = append(out, slices.Repeat([]any{"a"}, *s.MaxItems+1), slices.Repeat([]any{map[string]any{}}, *s.MaxItems+1))
	}
	return out
}

// fields puts wrong values into the body, leaves fields out, and replaces it.
func (m maker) fields() (out []bad) {
	if !m.d.TakesBody {
		return nil
	}
	judge := m.doc.schema("paths", m.d.Path, strings.ToLower(m.d.Method), "requestBody", "content", "application/json", "schema")
	try := func(what string, whole any) {
		raw, err := json.Marshal(whole)
		if err != nil {
			m.t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			m.t.Fatal(err)
		}
		b := bad{what: what, method: m.d.Method, path: m.path, body: string(raw)}
		if err := judge.Validate(value); err != nil {
			b.where, b.status = whereOf(err), []int{http.StatusBadRequest}
			if len(raw) > api.MaxBodyBytes {
				b.status = []int{http.StatusRequestEntityTooLarge}
			}
		}
		out = append(out, b)
	}
	fresh := func() any { return decoded(m.t, m.body) }
	for _, c := range m.operation.RequestBody.Content {
		for _, value := range wrongValues(c.Schema.of(m.schemas)) {
			try("the body", value)
		}
		everyField(fresh(), c.Schema, m.schemas, func(at []any, name string, s schema) {
			what := fmt.Sprintf("body%v.%s", at, name)
			for _, value := range wrongValues(s) {
				whole := fresh()
				if object, ok := within(whole, at).(map[string]any); ok {
					object[name] = value
					try(what, whole)
				}
			}
			whole := fresh()
			if object, ok := within(whole, at).(map[string]any); ok {
				delete(object, name)
				try(what+" left out", whole)
			}
		})
	}
	return out
}

// everyField calls f for each field that the schema of a body describes, with the
// way to the object that has it, or may.
func everyField(body any, s schema, schemas map[string]schema, f func(at []any, name string, s schema)) {
	var walk func(at []any, value any, s schema)
	walk = func(at []any, value any, s schema) {
		s = s.of(schemas)
		for _, one := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
			walk(at, value, one)
		}
		switch value := value.(type) {
		case []any:
			for i, entry := range value {
				if s.Items != nil && i < 3 {
					walk(append(slices.Clone(at), i), entry, *s.Items)
				}
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
				property := s.Properties[name].of(schemas)
				f(at, name, property)
				if field, ok := value[name]; ok {
					walk(append(slices.Clone(at), name), field, property)
				}
			}
		}
	}
	walk(nil, body, s)
}

// whereOf gives the names of what a validator refuses, as a problem may tell them.
func whereOf(err error) (out []string) {
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
