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

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
)

// These tests create invalid options and bodies from valid ones. They replace each value at every depth with values of
// other types and with unusual values, remove each member, and add unknown members. TestOptionErrorsSayWhatToDo checks
// the texts of the problems.

// violation is a valid JSON object with one change: a value was replaced or removed, or an unknown member was added.
type violation struct {
	description string
	// pointer is the JSON pointer of the changed value, and raw the whole JSON object.
	pointer string
	raw     string
	// mustBeRefused is set if the new value has another type, or is an unknown member. Other violations can be valid.
	mustBeRefused bool
}

// unknownMember is a member that no object has.
const unknownMember = "noSuchThing"

// violationsOf returns all violations of a valid JSON object.
func violationsOf(t *testing.T, validJSON string) (all []violation) {
	t.Helper()
	var document any
	if err := json.Unmarshal([]byte(validJSON), &document); err != nil {
		t.Fatalf("Unmarshal(%s) error = %v, want none", validJSON, err)
	}
	add := func(description, pointer string, mustBeRefused bool) {
		raw, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, violation{
			description: description, pointer: pointer, raw: string(raw), mustBeRefused: mustBeRefused,
		})
	}
	deep := any("x")
	for range 100 {
		deep = []any{deep}
	}
	var corrupt func(value any, pointer string, put func(any))
	corrupt = func(value any, pointer string, put func(any)) {
		for _, other := range []any{nil, true, 7.0, "word", []any{}, map[string]any{}} {
			if fmt.Sprintf("%T", other) != fmt.Sprintf("%T", value) {
				put(other)
				add(fmt.Sprintf("%T", other), pointer, true)
			}
		}
		for _, unusual := range []any{
			"", " ", "\x00", "a/b~c", strings.Repeat("x", 70_000), -1.0, 0.0, 1.5, 1e300,
			[]any{nil},
			deep,
		} {
			put(unusual)
			add(fmt.Sprintf("unusual value %.20q", fmt.Sprint(unusual)), pointer, false)
		}
		put(value)
		switch value := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(value)) {
				member := value[name]
				delete(value, name)
				add("missing", pointer+"/"+name, false)
				corrupt(member, pointer+"/"+name, func(v any) { value[name] = v })
				value[name] = member
			}
			value[unknownMember] = nil
			add("unknown member", pointer+"/"+unknownMember, true)
			delete(value, unknownMember)
		case []any:
			for i, element := range value {
				corrupt(element, fmt.Sprintf("%s/%d", pointer, i), func(v any) { value[i] = v })
				value[i] = element
			}
		}
	}
	root, _ := document.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(root)) {
		member := root[name]
		delete(root, name)
		add("missing", "/"+name, false)
		corrupt(member, "/"+name, func(v any) { root[name] = v })
		root[name] = member
	}
	root[unknownMember] = nil
	add("unknown member", "/"+unknownMember, true)
	return all
}

// validOptionsByType returns valid options of all handlers and of all policies except
// quota-inbound, and of the mcp object of a route. Together they have nearly all options.
func validOptionsByType() map[string][]string {
	return map[string][]string{
		"mcpServerHandler": {
			`{"name":"Shop","version":"1","operations":[{"file":"config/routes.oas.json","id":"look"}],"debugMode":false,` +
				`"includeOutputSchema":true,"includeStructuredContent":true}`,
			`{"operations":[{"file":"config/routes.oas.json","method":"GET","path":"/look"}]}`,
		},
		"urlForwardHandler": {
			`{"baseUrl":"https://up.example","forwardSearch":true,"followRedirects":false,"upgrades":["websocket"],` +
				`"userHeaders":{"sub":"X-Sub","data":"X-Data"},"timeoutSeconds":30}`,
		},
		"urlRewriteHandler": {`{"rewritePattern":"https://up.example/${method}","followRedirects":true}`},
		"api-key-inbound": {
			`{"bucketName":"a-bucket","authHeader":"X-Key","authScheme":"Key","cacheTtlSeconds":60,` +
				`"allowUnauthenticatedRequests":true}`,
		},
		"mtls-auth-inbound": {`{"allowUnauthenticatedRequests":true}`},
		"rate-limit-inbound": {
			`{"rateLimitBy":"ip","requestsAllowed":5,"timeWindowMinutes":1.5,"headerMode":"none","throwOnFailure":true,` +
				`"mode":"strict"}`,
		},
		"query-param-to-header-inbound": {
			`{"queryParam":"key","headerName":"Authorization","headerValue":"Bearer {value}","removeFromUrl":true}`,
		},
		"basic-auth-inbound": {
			`{"users":[{"name":"ann","passwordHash":"` + bcryptOfRight + `"}],"realm":"Shop","maxFailuresPerMinute":5,` +
				`"allowUnauthenticatedRequests":true}`,
		},
		"webhook-signature-inbound": {
			`{"scheme":"hex","secrets":["a long secret"],"header":"X-Sign","prefix":"v1=","idHeader":"X-Id",` +
				`"rejectReplays":true,"toleranceSeconds":60,"maxBodyBytes":1000}`,
		},
		"abuse-inbound": {
			`{"by":"ip","statuses":[401],"limit":5,"windowMinutes":1.5,"blockMinutes":5,"maxConcurrent":9}`,
		},
		"graphql-complexity-limit-inbound": {
			`{"maxDepth":5,"maxComplexity":100}`,
			`{"useDepthLimit":{"depthLimit":5,"ignore":["edges"]},"useComplexityLimit":{"complexityLimit":100,` +
				`"endpointUrl":"https://up.example"}}`,
		},
		"graphql-disable-introspection-inbound": {`{}`},
		"graphql-introspection-filter-outbound": {`{"excludeTypes":["Secret"],"excludeTypeFields":{"User":["salary"]}}`},
		"graphql-analytics-outbound": {
			`{"errorCodeClassification":{"NO_MONEY":"auth"},"defaultErrorClass":"timeout","logErrors":true,"maxScanBytes":1000}`,
		},
		"mcp GET": {
			`{"type":"tool","name":"look","description":"Looks.","enabled":true,"_meta":{"a":1},` +
				`"annotations":{"title":"Look","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,` +
				`"openWorldHint":false}}`,
			`{"type":"resource","name":"look","description":"Looks.","enabled":true,"_meta":{"a":1},"uri":"shop://look",` +
				`"mimeType":"text/css"}`,
		},
		"mcp POST": {
			`{"type":"prompt","name":"look","description":"Looks.","enabled":true}`,
			`{"type":"graphql","enabled":true,"introspectionTool":{"name":"one","description":"One."},` +
				`"executeTool":{"name":"other","description":"Other."}}`,
		},
	}
}

// projectWith returns a project with a component that has these options, and the file and JSON pointer of the options.
// The name of the component is a key of validOptionsByType.
func projectWith(name, options string) (f project.Files, file, base string) {
	method, handler, mcp, inbound, outbound := "post", "urlRewriteHandler", "{}", "", ""
	policies, routeOptions := "", `{"rewritePattern":"https://up.example"}`
	file = "config/routes.oas.json"
	server := `{"operations":[{"file":"config/routes.oas.json","id":"look"}]}`
	switch {
	case name == project.MCPServerHandler:
		method, server, base = "get", options, "/paths/~1mcp/post/x-gateway-route/handler/options"
	case strings.HasPrefix(name, "mcp "):
		method, mcp = strings.ToLower(strings.TrimPrefix(name, "mcp ")), options
		base = "/paths/~1look/" + method + "/x-gateway-route/mcp"
	case strings.HasSuffix(name, "Handler"):
		handler, routeOptions, base = name, options, "/paths/~1look/post/x-gateway-route/handler/options"
	default:
		file, base = "config/policies.json", "/policies/0/handler/options"
		module := "runtime"
		if strings.HasPrefix(name, "graphql-") {
			module = "graphql"
		}
		policies = fmt.Sprintf(
			`{"name":"p","policyType":%q,"handler":{"export":"x","module":"$import(@gatewright/%s)","options":%s}}`, name,
			module, options)
		if inbound = `"p"`; strings.HasSuffix(name, "-outbound") {
			inbound, outbound = "", `"p"`
		}
	}
	routes := fmt.Sprintf(`{"openapi":"3.1.0","info":{"title":"Shop","version":"1"},"paths":{
		"/look":{%q:{"operationId":"look","responses":{"200":{"description":"It"}},"x-gateway-route":{"mcp":%s,
			"handler":{"export":%q,"module":"$import(@gatewright/runtime)","options":%s},
			"policies":{"inbound":[%s],"outbound":[%s]}}}},
		"/mcp":{"post":{"operationId":"server","responses":{"200":{"description":"It"}},"x-gateway-route":{
			"handler":{"export":"mcpServerHandler","module":"$import(@gatewright/runtime)","options":%s}}}}}}`,
		method, mcp, handler, routeOptions, inbound, outbound, server)
	return project.Files{
		"config/routes.oas.json": []byte(routes),
		"config/policies.json":   []byte(`{"policies":[` + policies + `]}`),
	}, file, base
}

// minRefused is the minimum number of refused projects. With fewer, the test has by mistake tried too few violations.
const minRefused = 500

// TestEveryInvalidOptionIsRefused checks that a build refuses each violation with mustBeRefused, except within _meta.
// Each refusal must have a problem at the violation's location, or at one of its parents in the options. If a build
// does not refuse a violation, it must return an artifact.
func TestEveryInvalidOptionIsRefused(t *testing.T) {
	refused, compiler := 0, project.NewCompiler()
	compile := func(t *testing.T, f project.Files) (*project.Artifact, []project.Problem) {
		t.Helper()
		a, result, err := compiler.Compile(t.Context(), f,
			project.Input{Identity: artifact().Identity, Catalog: gateway.Catalog{}, Verify: gateway.Verify})
		if err != nil {
			t.Fatalf("Compile() error = %v, want an artifact or problems", err)
		}
		return a, result.Errors
	}
	for name, all := range validOptionsByType() {
		t.Run(name, func(t *testing.T) {
			for _, validOptions := range all {
				f, _, _ := projectWith(name, validOptions)
				if _, problems := compile(t, f); len(problems) > 0 {
					t.Fatalf("compile(valid options) = %+v, want no problems", problems)
				}
				for _, v := range violationsOf(t, validOptions) {
					f, file, base := projectWith(name, v.raw)
					a, problems := compile(t, f)
					unchecked := strings.Contains(v.pointer, "/_meta/") // a free object of the project
					switch {
					case len(problems) == 0 && v.mustBeRefused && !unchecked:
						t.Errorf("%s at %s: no problems, want one: %.300s", v.description, v.pointer, v.raw)
					case len(problems) == 0 && a == nil:
						t.Errorf("%s at %s: no artifact and no problem, want one of them", v.description, v.pointer)
					case len(problems) > 0:
						refused++
					}
					location := base + v.pointer
					if len(problems) > 0 && !slices.ContainsFunc(problems, func(p project.Problem) bool {
						return p.File == file && (strings.HasPrefix(p.Path, location) || strings.HasPrefix(location, p.Path) &&
							strings.HasPrefix(p.Path, base))
					}) {
						t.Errorf("%s at %s: problems = %+v, want one at this place", v.description, v.pointer, problems)
					}
					for _, p := range problems {
						if !strings.HasSuffix(p.Message, ".") || len(p.Message) > 1000 {
							t.Errorf("%s at %s: message = %.2000s, want a sentence of at most 1000 bytes",
								v.description, v.pointer, p.Message)
						}
					}
				}
			}
		})
	}
	if refused < minRefused {
		t.Errorf("refused projects = %d, want at least %d", refused, minRefused)
	}
}

// TestEveryInvalidBodyIsRefused checks that the violations of GraphQL and MCP bodies never cause a
// 5xx response. A violation with mustBeRefused must be refused, unless isAllowed is true for it. The upstream must get
// no request then.
func TestEveryInvalidBodyIsRefused(t *testing.T) {
	fx := newMCPFixture(t)
	h, server := newGraphQLFixture(t, map[string]any{"graphql-complexity-limit-inbound": limits}, nil)
	for _, tt := range []struct {
		name, validBody string
		// isAllowed reports whether a violation with mustBeRefused is nevertheless valid at a pointer.
		isAllowed     func(description, pointer string) bool
		send          func(t *testing.T, body string) *http.Response
		receivedCount func() int
		// refused reports whether a response is a refusal.
		refused func(status int, body string) bool
	}{
		{
			name: "GraphQL",
			validBody: `{"query":"query A($b:Int){a(b:$b)}","operationName":"A","variables":{"b":[1]},` +
				`"extensions":{"tracing":true}}`,
			isAllowed: func(description, pointer string) bool {
				return description == "<nil>" && pointer != "/query" || strings.HasPrefix(pointer, "/variables/") ||
					strings.HasPrefix(pointer, "/extensions/") || pointer == "/"+unknownMember
			},
			send: func(t *testing.T, body string) *http.Response {
				return h.send(t, "/graphql", body)
			}, receivedCount: server.count,
			refused: func(status int, body string) bool {
				return status == http.StatusBadRequest && strings.HasPrefix(body, `{"errors":[{"message":`)
			},
		},
		{
			name: "MCP",
			validBody: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_todo","arguments":{"id":"1",` +
				`"title":"a","done":true,"tags":["home"]},"_meta":{"progressToken":"p"}}}`,
			isAllowed: func(description, pointer string) bool {
				return pointer == "/id" && description == "string" || strings.HasPrefix(pointer, "/params/_meta") ||
					pointer == "/"+unknownMember || pointer == "/params/"+unknownMember
			},
			send: func(t *testing.T, body string) *http.Response { return fx.post(t, "/mcp", body) }, receivedCount: fx.count,
			refused: func(status int, body string) bool {
				return status == http.StatusAccepted || strings.Contains(body, `"error":{"code":-32`)
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, v := range violationsOf(t, tt.validBody) {
				before := tt.receivedCount()
				response := tt.send(t, v.raw)
				raw, err := io.ReadAll(response.Body)
				if err != nil || response.StatusCode >= http.StatusInternalServerError || len(raw) > 0 && !json.Valid(raw) &&
					response.Header.Get("Content-Type") != "text/event-stream" {
					t.Errorf("%s at %s: status = %d, %v, body = %.300s, want a status below 500 with JSON or events",
						v.description, v.pointer, response.StatusCode, err, raw)
				}
				if v.mustBeRefused && !tt.isAllowed(v.description, v.pointer) && (!tt.refused(response.StatusCode, string(raw)) ||
					tt.receivedCount() != before) {
					t.Errorf("%s at %s: status = %d, %d requests at the upstream, body = %.300s, want a refusal and no request",
						v.description, v.pointer, response.StatusCode, tt.receivedCount()-before, raw)
				}
			}
		})
	}
}
