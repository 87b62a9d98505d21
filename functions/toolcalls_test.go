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
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// toolResult is the result of a tool call.
type toolResult struct {
	// invalidArguments says that no request was sent, because the arguments do not match the tool's schema or because
	// the tool is unknown.
	invalidArguments, isError bool
	text                      string
	// response is the response of the operation, or its problem.
	response json.RawMessage
}

// callTool sends a tool call to the MCP server as a client does.
func callTool(t *testing.T, fx *functionstest.Fixture, key, tool string, arguments map[string]any) toolResult {
	t.Helper()
	message := map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": arguments},
	}
	resp := fx.Call(key, http.MethodPost, "/mcp", string(encodeJSON(t, message)))
	var reply struct {
		Error  *struct{ Message string }
		Result struct {
			IsError           bool
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(resp.Body), &reply); err != nil {
		t.Fatalf("callTool(%s) = %s, JSON error = %v, want a JSON-RPC response", tool, truncate(resp.Dump), err)
	}
	r := reply.Result
	switch {
	case resp.Status != http.StatusOK || reply.Error != nil || r.IsError && len(r.Content) < 2:
		return toolResult{invalidArguments: true, text: resp.Body}
	case r.IsError: // the text, and then the API's problem document
		return toolResult{isError: true, text: r.Content[0].Text, response: json.RawMessage(r.Content[1].Text)}
	}
	return toolResult{text: r.Content[0].Text, response: r.StructuredContent}
}

// argumentsForRequest returns the arguments with which a tool call sends this request. ok is false if there are none.
func argumentsForRequest(tool *apitools.Tool, path, body string, headers ...string) (out map[string]any, ok bool) {
	out = map[string]any{}
	path, rawQuery, _ := strings.Cut(path, "?")
	query, err := url.ParseQuery(rawQuery)
	pathSegments, declared := strings.Split(path, "/"), strings.Split(tool.Path, "/")
	if err != nil || len(pathSegments) != len(declared) {
		return nil, false
	}
	hasBody, properties := false, map[string]string{}
	for _, a := range tool.Arguments {
		switch a.Location {
		case project.InPath:
			text, err := url.PathUnescape(pathSegments[slices.Index(declared, "{"+a.TargetName()+"}")])
			if err != nil {
				return nil, false
			}
			out[a.Name] = text
		case project.InQuery:
			if values, found := query[a.TargetName()]; found {
				out[a.Name] = queryArgument(a.Type, values)
				delete(query, a.TargetName())
			}
		case project.InHeader:
			for field := range slices.Chunk(headers, 2) {
				if field[0] == a.TargetName() {
					out[a.Name] = field[1]
				}
			}
		case project.InBody:
			hasBody, out[a.Name] = true, json.RawMessage(body)
		case project.InProperty:
			properties[a.TargetName()] = a.Name
		case project.InFileName, project.InMediaType: // of the files of forms, which no operation has
			return nil, false
		}
	}
	if len(query) > 0 { // tags, and parameters that do not exist
		return nil, false
	}
	if body == "" || hasBody { // a tool call always sends a body if the operation has one
		return out, hasBody && json.Valid([]byte(body)) || !hasBody && !tool.TakesBody
	}
	var fields map[string]json.RawMessage
	if len(body) > api.MaxBodyBytes/2 || json.Unmarshal([]byte(body), &fields) != nil || fields == nil {
		return nil, false
	}
	for name, value := range fields {
		if argument := properties[name]; argument != "" {
			name = argument
		}
		if _, exists := out[name]; exists {
			return nil, false
		}
		out[name] = value
	}
	return out, true
}

var plainValue = regexp.MustCompile(`^(-?(0|[1-9][0-9]*)|true|false)$`)

// queryArgument returns the argument for the values of a query parameter.
func queryArgument(kind string, values []string) any {
	switch text := values[0]; {
	case kind == "array" || len(values) > 1:
		return values
	// other notations, such as 1e3, are whole numbers in JSON too, but not in a query
	case kind != "string" && plainValue.MatchString(text):
		return json.RawMessage(text)
	default:
		return text
	}
}

// twinFixtures are two fixtures with the same history. byRequest gets requests, and byTool gets the tool calls for the
// same requests.
type twinFixtures struct{ byRequest, byTool *functionstest.Fixture }

// volatileParts matches the expected differences between twinFixtures: sealed values, and the last use of keys, which
// only the process with the MCP server records here.
var volatileParts = regexp.MustCompile(`"lastUsedOn":(\{"Value":)?("[^"]*"|null)\}?,?|"A[A-Za-z0-9+/]{35,}=*"`)

// diff returns the differences between the two tables, or "" if there are none. It ignores the source in audit records.
func (f twinFixtures) diff(t *testing.T) string {
	t.Helper()
	var out []string
	text := func(key store.Key, items table) string {
		if _, ok := items[key]; !ok {
			return "nothing"
		}
		text := string(encodeJSON(t, items[key]))
		if audit.IsRecord(key) {
			text = strings.ReplaceAll(text, `"mcp"`, `"api"`)
		}
		return volatileParts.ReplaceAllString(text, "")
	}
	requestItems, toolItems := f.byRequest.Items.Snapshot(), f.byTool.Items.Snapshot()
	for _, items := range []table{requestItems, toolItems} {
		for key := range items {
			if reflect.DeepEqual(requestItems[key], toolItems[key]) {
				continue
			}
			if requestText, toolText := text(key, requestItems), text(key, toolItems); requestText != toolText {
				out = append(out, fmt.Sprintf("%s %s: by request %s, by call %s", key.PK, key.SK, requestText, toolText))
			}
		}
	}
	return strings.Join(out, "\n")
}

// normalizePath returns a path with the encoding that tool calls use. Problems and audit records contain the path.
func normalizePath(d api.Declaration, path string) string {
	path, query, hasQuery := strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	for i, declared := range strings.Split(d.Path, "/") {
		if text, err := url.PathUnescape(segments[i]); err == nil && strings.HasPrefix(declared, "{") {
			segments[i] = strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
		}
	}
	if path = strings.Join(segments, "/"); hasQuery {
		path += "?" + query
	}
	return path
}

func sameJSON(a, b []byte) bool {
	var texts [2]any
	for i, raw := range [][]byte{a, b} {
		d := json.NewDecoder(bytes.NewReader(volatileParts.ReplaceAll(raw, nil)))
		d.UseNumber()
		if d.Decode(&texts[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(texts[0], texts[1])
}

// TestToolCallMatchesRequest sends valid, invalid, conditional and repeated requests to one fixture, and the tool calls
// for them to another fixture with the same history. Both must return the same response and have the same data
// afterwards. Arguments that do not match the tool's schema send no request and must change nothing.
func TestToolCallMatchesRequest(t *testing.T) {
	p, doc, tools := newPopulatedFixture(t), readServedDocument(t), toolsByOperation(t)
	operations, schemas := readOpenAPI(t)
	compared := 0
	forEachOperation(t, fewerIfRacing(isTool), func(t *testing.T, d api.Declaration) {
		tool := tools[d.Method+" "+d.Path]
		rg := requestGenerator{t: t, d: d, doc: doc, values: p.values, operation: operations[d.ID], schemas: schemas}
		random := rand.New(rand.NewPCG(*violationSeed, uint64(len(d.ID))))
		for _, rg.valid = range variants(p.sampleSet, d) {
			rg.path, rg.body = requestTarget(t, d, rg.valid, p.values)
			targets, bodies := append(rg.queries(), rg.paths()...), rg.fields()
			cases := []changedRequest{
				{path: rg.path, body: rg.body},
				{path: rg.path, body: rg.body, headers: []string{"If-Match", `"another"`}},
			}
			for range 8 {
				cases = append(cases, rg.random(random, targets, bodies))
			}
			c := twinFixtures{p.Copy(t), p.Copy(t)}
			for _, b := range cases {
				arguments, ok := argumentsForRequest(tool, b.path, b.body, b.headers...)
				if !ok {
					continue
				}
				c.byRequest.Now, c.byTool.Now = c.byRequest.Now.Add(time.Second), c.byTool.Now.Add(time.Second)
				label := truncate(fmt.Sprintf("%s %s %v", b.path, b.body, b.headers))
				got := callTool(t, c.byTool, p.key, tool.Name, arguments)
				if got.invalidArguments {
					c.byRequest.Call("", http.MethodGet, "/none", "") // use up an id, because the tool call has used one for a request
					if diff := c.diff(t); diff != "" {
						t.Errorf("%s: invalid arguments cause a change, want none: %s", label, diff)
					}
					continue
				}
				compared++
				resp := c.byRequest.Call(p.key, d.Method, normalizePath(d, b.path), b.body, b.headers...)
				want, _ := tool.Mask([]byte(strings.TrimSpace(resp.Body)))
				switch {
				case got.isError != (resp.Status >= http.StatusBadRequest) || len(want) > 0 && want[0] == '{' &&
					!sameJSON(want, got.response):
					t.Errorf("%s: call of the tool = %s %s, want the response of the request %s",
						label, truncate(got.text), truncate(string(got.response)), truncate(resp.Body))
				case resp.Status < http.StatusBadRequest && len(want) > 0 &&
					volatileParts.ReplaceAllString(got.text, "") != volatileParts.ReplaceAllString(string(want), ""):
					t.Errorf("%s: text = %s, want %s", label, truncate(got.text), truncate(string(want)))
				}
				if diff := c.diff(t); diff != "" {
					t.Errorf("%s: changes of the tool and the request differ, want the same: %s", label, diff)
				}
				if t.Failed() {
					return
				}
			}
		}
	})
	t.Logf("%d calls were compared with their requests", compared)
	if compared < 40 && os.Getenv(varGroup) == "" {
		t.Errorf("compared calls = %d, want 40 or more", compared)
	}
}
