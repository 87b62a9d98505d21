package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/project"
)

// The suites of bad options and bad bodies are made from good ones: each value at every depth becomes
// everything that it may not be. The table of TestEveryMistakeInOptionsSaysWhatToDo has the texts.

// violation is a good value with one place spoilt.
type violation struct {
	what string
	// pointer is the place, and raw the whole.
	pointer string
	raw     string
	// wrong says that it cannot be right: a value of another type, or a member that nobody knows.
	wrong bool
}

// stranger is a member that no object has.
const stranger = "noSuchThing"

// violationsOf spoils a good value, an object in JSON.
func violationsOf(t *testing.T, good string) (all []violation) {
	t.Helper()
	var whole any
	if err := json.Unmarshal([]byte(good), &whole); err != nil {
		t.Fatalf("%v in %s", err, good)
	}
	add := func(what, pointer string, wrong bool) {
		raw, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, violation{what: what, pointer: pointer, raw: string(raw), wrong: wrong})
	}
	deep := any("x")
	for range 100 {
		deep = []any{deep}
	}
	var spoil func(value any, pointer string, put func(any))
	spoil = func(value any, pointer string, put func(any)) {
		for _, other := range []any{nil, true, 7.0, "word", []any{}, map[string]any{}} {
			if fmt.Sprintf("%T", other) != fmt.Sprintf("%T", value) {
				put(other)
				add(fmt.Sprintf("%T", other), pointer, true)
			}
		}
		for i, odd := range []any{"", " ", "\x00", "a/b~c", strings.Repeat("x", 70_000), -1.0, 0.0, 1.5, 1e300, []any{nil}, deep} {
			put(odd)
			add(fmt.Sprintf("odd value %d", i), pointer, false)
		}
		put(value)
		switch value := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				member := value[name]
				delete(value, name)
				add("missing", pointer+"/"+name, false)
				spoil(member, pointer+"/"+name, func(v any) { value[name] = v })
				value[name] = member
			}
			value[stranger] = nil
			add("unknown member", pointer+"/"+stranger, true)
			delete(value, stranger)
		case []any:
			for i, element := range value {
				spoil(element, fmt.Sprintf("%s/%d", pointer, i), func(v any) { value[i] = v })
				value[i] = element
			}
		}
	}
	root, _ := whole.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(root)) {
		member := root[name]
		delete(root, name)
		add("missing", "/"+name, false)
		spoil(member, "/"+name, func(v any) { root[name] = v })
		root[name] = member
	}
	root[stranger] = nil
	add("unknown member", "/"+stranger, true)
	return all
}

// goodOptions are of each handler and policy, and of the mcp object of a route: with every option that
// there is, but for those of which one rules out another.
func goodOptions() map[string][]string {
	return map[string][]string{
		"mcpServerHandler": {`{"name":"Shop","version":"1","operations":[{"file":"config/routes.oas.json","id":"look"}],"debugMode":false,"includeOutputSchema":true,"includeStructuredContent":true}`},
		"urlForwardHandler": {
			`{"baseUrl":"https://up.example","forwardSearch":true,"followRedirects":false,"upgrades":["websocket"],"userHeaders":{"sub":"X-Sub","data":"X-Data"},"timeoutSeconds":30}`,
		},
		"urlRewriteHandler": {`{"rewritePattern":"https://up.example/${method}","followRedirects":true}`},
		"api-key-inbound":   {`{"bucketName":"a-bucket","authHeader":"X-Key","authScheme":"Key","cacheTtlSeconds":60,"allowUnauthenticatedRequests":true}`},
		"mtls-auth-inbound": {`{"allowUnauthenticatedRequests":true}`},
		"rate-limit-inbound": {
			`{"rateLimitBy":"ip","requestsAllowed":5,"timeWindowMinutes":1.5,"headerMode":"none","throwOnFailure":true,"mode":"strict"}`,
		},
		"query-param-to-header-inbound":         {`{"queryParam":"key","headerName":"Authorization","headerValue":"Bearer {value}","removeFromUrl":true}`},
		"graphql-complexity-limit-inbound":      {`{"maxDepth":5,"maxComplexity":100}`, `{"useDepthLimit":{"depthLimit":5,"ignore":["edges"]},"useComplexityLimit":{"complexityLimit":100,"endpointUrl":"https://up.example"}}`},
		"graphql-disable-introspection-inbound": {`{}`},
		"graphql-introspection-filter-outbound": {`{"excludeTypes":["Secret"],"excludeTypeFields":{"User":["salary"]}}`},
		"graphql-analytics-outbound":            {`{"errorCodeClassification":{"NO_MONEY":"auth"},"defaultErrorClass":"timeout","logErrors":true,"maxScanBytes":1000}`},
		"mcp GET": {
			`{"type":"tool","name":"look","description":"Looks.","enabled":true,"_meta":{"a":1},"annotations":{"title":"Look","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}`,
			`{"type":"resource","name":"look","description":"Looks.","enabled":true,"_meta":{"a":1},"uri":"shop://look","mimeType":"text/css"}`,
		},
		"mcp POST": {
			`{"type":"prompt","name":"look","description":"Looks.","enabled":true}`,
			`{"type":"graphql","enabled":true,"introspectionTool":{"name":"one","description":"One."},"executeTool":{"name":"other","description":"Other."}}`,
		},
	}
}

// violated is a project with options of something, and where in which file those are.
func violated(name, options string) (f project.Files, file, base string) {
	method, handler, mcp, inbound, outbound := "post", "urlRewriteHandler", "{}", "", ""
	policies, handled := "", `{"rewritePattern":"https://up.example"}`
	file = "config/routes.oas.json"
	server := `{"operations":[{"file":"config/routes.oas.json","id":"look"}]}`
	switch {
	case name == project.MCPServerHandler:
		method, server, base = "get", options, "/paths/~1mcp/post/x-gateway-route/handler/options"
	case strings.HasPrefix(name, "mcp "):
		method, mcp = strings.ToLower(strings.TrimPrefix(name, "mcp ")), options
		base = "/paths/~1look/" + method + "/x-gateway-route/mcp"
	case strings.HasSuffix(name, "Handler"):
		handler, handled, base = name, options, "/paths/~1look/post/x-gateway-route/handler/options"
	default:
		file, base = "config/policies.json", "/policies/0/handler/options"
		module := "runtime"
		if strings.HasPrefix(name, "graphql-") {
			module = "graphql"
		}
		policies = fmt.Sprintf(`{"name":"p","policyType":%q,"handler":{"export":"x","module":"$import(@gatewright/%s)","options":%s}}`, name, module, options)
		if inbound = `"p"`; strings.HasSuffix(name, "-outbound") {
			inbound, outbound = "", `"p"`
		}
	}
	routes := fmt.Sprintf(`{"openapi":"3.1.0","info":{"title":"Shop","version":"1"},"paths":{
		"/look":{%q:{"operationId":"look","responses":{"200":{"description":"It"}},"x-gateway-route":{"mcp":%s,"handler":{"export":%q,"module":"$import(@gatewright/runtime)","options":%s},
			"policies":{"inbound":[%s],"outbound":[%s]}}}},
		"/mcp":{"post":{"operationId":"server","responses":{"200":{"description":"It"}},"x-gateway-route":{"handler":{"export":"mcpServerHandler","module":"$import(@gatewright/runtime)","options":%s}}}}}}`,
		method, mcp, handler, handled, inbound, outbound, server)
	return project.Files{"config/routes.oas.json": []byte(routes), "config/policies.json": []byte(`{"policies":[` + policies + `]}`)}, file, base
}

// leastOptions is how many projects the suite has to see refused: it can't shrink unseen.
const leastOptions = 500

// TestEveryViolationOfOptionsIsRefused, with a problem that names the place and says what to do; and what is not
// refused is something that a gateway can serve.
func TestEveryViolationOfOptionsIsRefused(t *testing.T) {
	refused, compiler := 0, project.NewCompiler()
	compile := func(t *testing.T, f project.Files) (*project.Artifact, []project.Problem) {
		t.Helper()
		a, result, err := compiler.Compile(t.Context(), f, project.Input{Identity: artifact().Identity, Catalogue: gateway.Catalogue{}, Verify: gateway.Verify})
		if err != nil {
			t.Fatal(err)
		}
		return a, result.Errors
	}
	for name, all := range goodOptions() {
		t.Run(name, func(t *testing.T) {
			for _, good := range all {
				f, _, _ := violated(name, good)
				if _, problems := compile(t, f); len(problems) > 0 {
					t.Fatalf("good options are refused: %+v", problems)
				}
				for _, v := range violationsOf(t, good) {
					f, file, base := violated(name, v.raw)
					a, problems := compile(t, f)
					free := strings.Contains(v.pointer, "/_meta/") // a client's own
					switch {
					case len(problems) == 0 && v.wrong && !free:
						t.Errorf("%s at %s is taken: %.300s", v.what, v.pointer, v.raw)
					case len(problems) == 0 && a == nil:
						t.Errorf("%s at %s: no artifact and no problem", v.what, v.pointer)
					case len(problems) > 0:
						refused++
					}
					place := base + v.pointer
					if len(problems) > 0 && !slices.ContainsFunc(problems, func(p project.Problem) bool {
						return p.File == file && (strings.HasPrefix(p.Path, place) || strings.HasPrefix(place, p.Path) && strings.HasPrefix(p.Path, base))
					}) {
						t.Errorf("%s at %s: no problem is there: %+v", v.what, v.pointer, problems)
					}
					for _, p := range problems {
						if !strings.HasSuffix(p.Message, ".") || len(p.Message) > 1000 {
							t.Errorf("%s at %s: %.2000s", v.what, v.pointer, p.Message)
						}
					}
				}
			}
		})
	}
	if refused < leastOptions {
		t.Errorf("%d were refused, want %d", refused, leastOptions)
	}
}

// TestEveryViolationOfABodyIsAnswered: a body for GraphQL or MCP with one place spoilt is never the gateway's fault;
// and where it cannot be right it is refused, and no upstream sees it.
func TestEveryViolationOfABodyIsAnswered(t *testing.T) {
	w := newMCPWorld(t)
	h, server := graphQLHouse(t, map[string]any{"graphql-complexity-limit-inbound": limits}, nil)
	for _, tt := range []struct {
		name, good string
		// may reports whether another type, or a member that nobody knows, is right there.
		may  func(what, pointer string) bool
		send func(t *testing.T, body string) *http.Response
		seen func() int
		// refused reports whether an answer is a refusal.
		refused func(status int, body string) bool
	}{
		{
			name: "GraphQL", good: `{"query":"query A($b:Int){a(b:$b)}","operationName":"A","variables":{"b":[1]},"extensions":{"tracing":true}}`,
			may: func(what, pointer string) bool {
				return what == "<nil>" && pointer != "/query" || strings.HasPrefix(pointer, "/variables/") || strings.HasPrefix(pointer, "/extensions/") || pointer == "/"+stranger
			},
			send: func(t *testing.T, body string) *http.Response { return h.send(t, "/graphql", body) }, seen: server.count,
			refused: func(status int, body string) bool {
				return status == http.StatusBadRequest && strings.HasPrefix(body, `{"errors":[{"message":`)
			},
		},
		{
			name: "MCP", good: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_todo","arguments":{"id":"1","title":"a","done":true,"tags":["home"]},"_meta":{"progressToken":"p"}}}`,
			may: func(what, pointer string) bool {
				return pointer == "/id" && what == "string" || strings.HasPrefix(pointer, "/params/_meta") || pointer == "/"+stranger || pointer == "/params/"+stranger
			},
			send: func(t *testing.T, body string) *http.Response { return w.post(t, "/mcp", body) }, seen: w.count,
			refused: func(status int, body string) bool {
				return status == http.StatusAccepted || strings.Contains(body, `"error":{"code":-32`)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, v := range violationsOf(t, tt.good) {
				before := tt.seen()
				response := tt.send(t, v.raw)
				raw, err := io.ReadAll(response.Body)
				if err != nil || response.StatusCode >= http.StatusInternalServerError || len(raw) > 0 && !json.Valid(raw) && response.Header.Get("Content-Type") != "text/event-stream" {
					t.Errorf("%s at %s is answered %d, %v: %.300s", v.what, v.pointer, response.StatusCode, err, raw)
				}
				if v.wrong && !tt.may(v.what, v.pointer) && (!tt.refused(response.StatusCode, string(raw)) || tt.seen() != before) {
					t.Errorf("%s at %s is answered %d, and the upstream asked %d times: %.300s", v.what, v.pointer, response.StatusCode, tt.seen()-before, raw)
				}
			}
		})
	}
}
