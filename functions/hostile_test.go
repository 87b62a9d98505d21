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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// maxProblemBytes is far more than any problem document needs. What a client
// sends may be 1 MB, and come back sixfold in the escapes of JSON.
const maxProblemBytes = 128 << 10

// TestHostileRequestsAreAnsweredInBounds sends every operation its good request
// with one part spoilt, at random but the same each time. Whatever comes, the
// status is one that the operation declares, the answer fits the served
// document, and a refused change leaves its record.
func TestHostileRequestsAreAnsweredInBounds(t *testing.T) {
	p, doc := newPopulated(t), readServed(t)
	problem := doc.schema("components", "schemas", "Problem")
	each(t, sampled(every), func(t *testing.T, d api.Declaration) {
		random := spoiler{rand.New(rand.NewPCG(1, uint64(len(d.ID))))}
		good := p.book.Request(d)
		for range 2 {
			w := p.Copy(t)
			for range 8 {
				path, body := random.request(t, d, good, p.names)
				w.Restart() // a time of its own for each record
				w.Now = w.Now.Add(time.Second)
				before, call := w.Items.Snapshot(), shortened(d.Method+" "+path+" "+body)
				answer := w.Call(p.key, d.Method, path, body)
				if written, _, _ := strings.Cut(path, "?"); len(written) > framing.MaxPathBytes {
					answer.Want(http.StatusRequestURITooLong) // before it leads to an operation
					continue
				}
				inBounds(t, problem, d, answer, call)
				if n := len(recorded(w, before)); d.Mutates() && n != 1 {
					t.Errorf("%s left %d audit records, want 1", call, n)
				}
				if t.Failed() {
					return
				}
			}
		}
	})
}

// inBounds checks the answer to a request that may be anything.
func inBounds(t *testing.T, problem *jsonschema.Schema, d api.Declaration, a functionstest.Answer, call string) {
	t.Helper()
	if a.Status == d.Status {
		return
	}
	if a.Status >= http.StatusInternalServerError || !slices.Contains(d.Errors, a.Status) {
		t.Errorf("%s is answered %d, which %s does not declare: %s", call, a.Status, d.ID, shortened(a.Body))
	}
	if len(a.Body) > maxProblemBytes {
		t.Errorf("%s is answered with %d bytes: %s", call, len(a.Body), shortened(a.Body))
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(a.Body))
	if d.TakesMessage && err == nil && a.Header.Get("Content-Type") == "application/json" {
		return // an error of the protocol whose message it was
	}
	if err != nil || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s is answered with no problem document (%v): %s", call, err, shortened(a.Body))
		return
	}
	if err := problem.Validate(document); err != nil {
		t.Errorf("%s: %v", call, err)
	}
}

func shortened(text string) string {
	if len(text) > 400 {
		return text[:400] + "…"
	}
	return text
}

// spoiler spoils requests.
type spoiler struct{ *rand.Rand }

// request is a good one with its path, its query or its body spoilt.
func (s spoiler) request(t *testing.T, d api.Declaration, good events.Request, names events.Names) (path, body string) {
	t.Helper()
	path, body = target(t, d, good, names)
	parameters := events.Parameters(d)
	switch n := s.IntN(4); {
	case n == 0 && len(parameters) > 0:
		spoilt := events.Names{parameters[s.IntN(len(parameters))]: s.name()}
		for name, value := range names {
			if spoilt[name] == "" {
				spoilt[name] = value
			}
		}
		path, _ = target(t, d, good, spoilt)
	case n <= 1 || !d.TakesBody:
		path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + s.query()
	case n == 2:
		body = s.field(body)
	default:
		body = s.body()
	}
	return path, body
}

// name is one that may be anything a path holds.
func (s spoiler) name() string {
	all := []string{
		"&", "<", "é", "İ", "😀", "a", "%", "..%2F", "$bulk", "{}", "\x00", "\u202e", "\ufffd", "null",
		"bckt_0123456789ABCDEFGHIJKLMNOPQRSTUV", "00000000-0000-0000-0000-000000000000",
	}
	return strings.Repeat(oneOf(s, all), []int{1, 1, 2, 64, 256, 600, 700, 100_000}[s.IntN(8)])
}

func (s spoiler) query() string {
	names := []string{"limit", "offset", "key-format", "include-api-keys", "manager-email", "with-api-key", "accountName", "tag", "tag.", "tag.plan", "tag." + s.name(), s.name()}
	values := []string{"", "-1", "0", "1e3", "99999999999999999999", "true", "visible", "gold", "\x01", s.name()}
	var out []string
	for range 1 + s.IntN(4) {
		out = append(out, url.QueryEscape(names[s.IntN(len(names))])+"="+url.QueryEscape(values[s.IntN(len(values))]))
	}
	return strings.Join(out, "&")
}

// field is a body with another value for one of its fields, or with one more.
func (s spoiler) field(body string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &fields) != nil {
		return "[" + s.value() + "]"
	}
	names := []string{"name", "description", "tags", "metadata", "managers", "key", "expiresOn", "value", "isSecret", "email", "branchName"}
	for name := range fields {
		names = append(names, name, name, name)
	}
	slices.Sort(names)
	fields[names[s.IntN(len(names))]] = json.RawMessage(s.value())
	out, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// value is any JSON.
func (s spoiler) value() string {
	if s.IntN(3) > 0 {
		return oneOf(s, values)
	}
	name, err := json.Marshal(s.name())
	if err != nil {
		panic(err)
	}
	return strings.ReplaceAll(oneOf(s, []string{"NAME", "{NAME:1}", `{NAME:"\u0000"}`}), "NAME", string(name))
}

// body is any text.
func (s spoiler) body() string {
	if s.IntN(2) > 0 {
		return oneOf(s, bodies)
	}
	return strings.ReplaceAll(oneOf(s, []string{"VALUE", "[VALUE]", `{"x":VALUE}`}), "VALUE", s.value())
}

func oneOf(s spoiler, all []string) string { return all[s.IntN(len(all))] }

var (
	values = []string{
		"null", "true", "0", "-1", "1e308", `""`, "[]", "{}", `"\u0000"`, `"\ud800"`, `"9999-12-31T23:59:59.999999999Z"`,
		strings.Repeat("[", 30) + strings.Repeat("]", 30), "[" + strings.Repeat("1,", 15_000) + "1]",
		"[" + strings.Repeat("{},", 15_000) + "{}]", "[" + strings.Repeat(`"",`, 60) + `""]`,
	}
	bodies = []string{
		"", " ", "{", "{}{}", "\xff", "\ufeff{}", `{"name":"a","name":"b"}`,
		strings.Repeat("[", 500_000), "[" + strings.Repeat("1,", 500_000) + "1]", "[" + strings.Repeat("{},", 1000) + "{}]",
		"[" + strings.Repeat(`{"key":1,"description":2,"expiresOn":3},`, 999) + "{}]",
		"[" + strings.Repeat(`{"key":"<<<<<<<<<<<<<<<<é","description":"\n"},`, 999) + "{}]",
		`{"name":"zz","managers":[` + strings.Repeat("1,", 500_000) + "1]}", strings.Repeat(" ", api.MaxBodyBytes+1),
	}
)
