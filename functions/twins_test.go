package functions_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
)

// called is what a call of a tool was answered.
type called struct {
	// unfit says that its arguments do not fit the tool's schema, or that no tool was reached: nothing was asked.
	unfit, isError bool
	text           string
	// answer is the operation's, or its problem.
	answer json.RawMessage
}

// callTool calls a tool as a client does.
func callTool(t *testing.T, w *functionstest.World, key, tool string, arguments map[string]any) called {
	t.Helper()
	message := map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}}
	a := w.Call(key, http.MethodPost, "/mcp", string(encoded(t, message)))
	var said struct {
		Error  *struct{ Message string }
		Result struct {
			IsError           bool
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(a.Body), &said); err != nil {
		t.Fatalf("%s is answered %s: %v", tool, shortened(a.Whole), err)
	}
	r := said.Result
	switch {
	case a.Status != http.StatusOK || said.Error != nil || r.IsError && len(r.Content) < 2:
		return called{unfit: true, text: a.Body}
	case r.IsError: // in words, and then as the API has answered it
		return called{isError: true, text: r.Content[0].Text, answer: json.RawMessage(r.Content[1].Text)}
	}
	return called{text: r.Content[0].Text, answer: r.StructuredContent}
}

// argumentsFor are the arguments that make a request, ok for one that some make.
func argumentsFor(tool *apitools.Tool, path, body string, headers ...string) (out map[string]any, ok bool) {
	out = map[string]any{}
	path, rawQuery, _ := strings.Cut(path, "?")
	query, err := url.ParseQuery(rawQuery)
	asked, declared := strings.Split(path, "/"), strings.Split(tool.Path, "/")
	if err != nil || len(asked) != len(declared) {
		return nil, false
	}
	whole, properties := false, map[string]string{}
	for _, a := range tool.Arguments {
		switch a.Place {
		case project.InPath:
			text, err := url.PathUnescape(asked[slices.Index(declared, "{"+a.Aim()+"}")])
			if err != nil {
				return nil, false
			}
			out[a.Name] = text
		case project.InQuery:
			if values, has := query[a.Aim()]; has {
				out[a.Name] = queried(a.Type, values)
				delete(query, a.Aim())
			}
		case project.InHeader:
			for field := range slices.Chunk(headers, 2) {
				if field[0] == a.Aim() {
					out[a.Name] = field[1]
				}
			}
		case project.InBody:
			whole, out[a.Name] = true, json.RawMessage(body)
		case project.InProperty:
			properties[a.Aim()] = a.Name
		}
	}
	if len(query) > 0 { // tags, and what is no parameter
		return nil, false
	}
	if body == "" || whole { // a call of what takes a body has one
		return out, whole && json.Valid([]byte(body)) || !whole && !tool.TakesBody
	}
	var fields map[string]json.RawMessage
	if len(body) > api.MaxBodyBytes/2 || json.Unmarshal([]byte(body), &fields) != nil || fields == nil {
		return nil, false
	}
	for name, value := range fields {
		if own := properties[name]; own != "" {
			name = own
		}
		if _, taken := out[name]; taken {
			return nil, false
		}
		out[name] = value
	}
	return out, true
}

var plainValue = regexp.MustCompile(`^(-?(0|[1-9][0-9]*)|true|false)$`)

// queried is a parameter of the query as an argument.
func queried(kind string, values []string) any {
	switch text := values[0]; {
	case kind == "array" || len(values) > 1:
		return values
	case kind != "string" && plainValue.MatchString(text): // a call may write whole numbers in other ways, too
		return json.RawMessage(text)
	default:
		return text
	}
}

// twins are two worlds of one past: the one is asked by requests, the other by calls of tools.
type twins struct{ asked, called *functionstest.World }

// noise is what differs in two worlds of one past: what is sealed, and when keys were used, which the process of
// calls notes and those of requests here do not.
var noise = regexp.MustCompile(`"lastUsedOn":(\{"Value":)?("[^"]*"|null)\}?,?|"A[A-Za-z0-9+/]{35,}=*"`)

// differ tells how the tables of both differ, "" for not: their records say the same but for the way.
func (c twins) differ(t *testing.T) string {
	t.Helper()
	var out []string
	text := func(key store.Key, items table) string {
		if _, there := items[key]; !there {
			return "nothing"
		}
		text := string(encoded(t, items[key]))
		if audit.IsRecord(key) {
			text = strings.ReplaceAll(text, `"mcp"`, `"api"`)
		}
		return noise.ReplaceAllString(text, "")
	}
	asked, called := c.asked.Items.Snapshot(), c.called.Items.Snapshot()
	for _, items := range []table{asked, called} {
		for key := range items {
			if reflect.DeepEqual(asked[key], called[key]) {
				continue
			}
			if one, other := text(key, asked), text(key, called); one != other {
				out = append(out, fmt.Sprintf("%s %s: by request %s, by call %s", key.PK, key.SK, one, other))
			}
		}
	}
	return strings.Join(out, "\n")
}

// spelt is a path as calls spell it, which problems and records repeat.
func spelt(d api.Declaration, path string) string {
	path, query, has := strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	for i, declared := range strings.Split(d.Path, "/") {
		if text, err := url.PathUnescape(segments[i]); err == nil && strings.HasPrefix(declared, "{") {
			segments[i] = strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
		}
	}
	if path = strings.Join(segments, "/"); has {
		path += "?" + query
	}
	return path
}

func sameJSON(a, b []byte) bool {
	var texts [2]any
	for i, raw := range [][]byte{a, b} {
		d := json.NewDecoder(bytes.NewReader(noise.ReplaceAll(raw, nil)))
		d.UseNumber()
		if d.Decode(&texts[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(texts[0], texts[1])
}

// TestACallIsItsRequest: good, bad, conditional and repeated ones. Each is asked for in one world, and called in another one of
// the same past: both answer the same, and hold the same afterwards. Arguments that do not fit ask for nothing, and
// their request is refused, too, but for what it has that is of no use.
func TestACallIsItsRequest(t *testing.T) {
	p, doc, tools := newPopulated(t), readServed(t), toolsByOperation(t)
	operations, schemas := requests(t)
	compared := 0
	each(t, sampled(isTool), func(t *testing.T, d api.Declaration) {
		tool := tools[d.Method+" "+d.Path]
		m := maker{t: t, d: d, doc: doc, names: p.names, operation: operations[d.ID], schemas: schemas}
		random := rand.New(rand.NewPCG(*violationSeed, uint64(len(d.ID))))
		for _, m.good = range variants(p.book, d) {
			m.path, m.body = target(t, d, m.good, p.names)
			places, fields := append(m.queries(), m.paths()...), m.fields()
			all := []bad{{path: m.path, body: m.body}, {path: m.path, body: m.body, headers: []string{"If-Match", `"another"`}}}
			for range 8 {
				all = append(all, m.random(random, places, fields))
			}
			c := twins{p.Copy(t), p.Copy(t)}
			for _, b := range all {
				arguments, ok := argumentsFor(tool, b.path, b.body, b.headers...)
				if !ok {
					continue
				}
				c.asked.Now, c.called.Now = c.asked.Now.Add(time.Second), c.called.Now.Add(time.Second)
				where := shortened(fmt.Sprintf("%s %s %v", b.path, b.body, b.headers))
				got := callTool(t, c.called, p.key, tool.Name, arguments)
				if got.unfit {
					c.asked.Call("", http.MethodGet, "/none", "") // whose id a request has taken there, too
					if diff := c.differ(t); diff != "" {
						t.Errorf("%s does not fit, and changes: %s", where, diff)
					}
					continue
				}
				compared++
				a := c.asked.Call(p.key, d.Method, spelt(d, b.path), b.body, b.headers...)
				want, _ := tool.Mask([]byte(strings.TrimSpace(a.Body)))
				switch {
				case got.isError != (a.Status >= http.StatusBadRequest) || len(want) > 0 && want[0] == '{' && !sameJSON(want, got.answer):
					t.Errorf("%s is asked for and answered %s, and called %s %s", where, shortened(a.Body), shortened(got.text), shortened(string(got.answer)))
				case a.Status < http.StatusBadRequest && len(want) > 0 && noise.ReplaceAllString(got.text, "") != noise.ReplaceAllString(string(want), ""):
					t.Errorf("%s is told %s, want %s", where, shortened(got.text), shortened(string(want)))
				}
				if diff := c.differ(t); diff != "" {
					t.Errorf("%s: %s", where, diff)
				}
				if t.Failed() {
					return
				}
			}
		}
	})
	t.Logf("%d calls were compared with their requests", compared)
	if compared < 40 && os.Getenv(varGroup) == "" {
		t.Error("too few to tell")
	}
}
