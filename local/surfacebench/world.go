package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/local/instance"
)

// world is a product with a project, and the upstream of this process.
type world struct {
	*instance.Instance
	upstream *httptest.Server
	site     string // the deployment's host
	key      string // of a consumer
}

func newWorld(ctx context.Context, dir, binary string) (_ *world, err error) {
	w := &world{upstream: httptest.NewServer(http.HandlerFunc(answer))}
	defer func() {
		if err != nil {
			w.stop()
		}
	}()
	if w.Instance, err = instance.Start(ctx, dir, "", binary); err != nil {
		return nil, err
	}
	if err := w.Into(ctx, nil, http.MethodPost, "/v1/projects?accountName=demo", `{"name":"bench"}`); err != nil {
		return nil, err
	}
	files, err := project(w.upstream.URL)
	if err != nil {
		return nil, err
	}
	b, err := w.Deploy(ctx, "demo", "bench", instance.Archive(files))
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(b.URL)
	if err != nil || b.Status != "SUCCESS" {
		return nil, fmt.Errorf("the project is not built: %s %s, %w", b.Status, b.BuildResult, err)
	}
	w.site = at.Host
	var made struct{ APIKeys []struct{ Key string } }
	err = w.Into(ctx, &made, http.MethodPost, "/v1/accounts/demo/key-buckets/bench-production/consumers?with-api-key=true", `{"name":"bench"}`)
	if err != nil {
		return nil, err
	}
	if len(made.APIKeys) == 0 {
		return nil, fmt.Errorf("the consumer has no key")
	}
	w.key = made.APIKeys[0].Key
	return w, nil
}

func (w *world) stop() {
	if w.Instance != nil {
		w.Stop()
	}
	w.upstream.Close()
}

// answerText is what the upstream answers to everything: JSON of 1 KB.
var answerText = `{"data":{"text":"` + strings.Repeat("x", 1004) + `"}}`

func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = io.WriteString(w, answerText)
}

// project is what is deployed: each route asks for a key, and the GraphQL route has all four policies.
func project(upstream string) (map[string]string, error) {
	type object = map[string]any
	route := func(id, handler string, options object, inbound, outbound []string) object {
		return object{
			"operationId": id, "responses": object{"200": object{"description": "ok"}},
			"x-gateway-route": object{
				"corsPolicy": "none", "handler": object{"export": handler, "module": "$import(@gatewright/runtime)", "options": options},
				"policies": object{"inbound": inbound, "outbound": outbound},
			},
		}
	}
	policy := func(name, kind, module string, options object) object {
		return object{"name": name, "policyType": kind, "handler": object{"export": "Policy", "module": module, "options": options}}
	}
	const runtime, graphQL = "$import(@gatewright/runtime)", "$import(@gatewright/graphql)"
	key, none := []string{"key"}, []string{}
	todo := route("readTodo", "urlForwardHandler", object{"baseUrl": upstream}, key, none)
	todo["parameters"] = []object{{"name": "id", "in": "path", "required": true, "schema": object{"type": "string", "maxLength": 20}}}
	with := route("graphql", "urlRewriteHandler", object{"rewritePattern": upstream + "/graphql"}, append(key, "limits", "closed"), []string{"hidden", "operations"})
	with["x-graphql"] = true
	files := map[string]string{"gatewright.jsonc": `{"version":1,"compatibilityDate":"2026-11-01","projectType":"self-hosted"}`}
	for name, content := range map[string]object{
		"config/routes.oas.json": {
			"openapi": "3.1.0", "info": object{"title": "bench", "version": "1"},
			"paths": object{
				"/plain":      object{"post": route("plain", "urlRewriteHandler", object{"rewritePattern": upstream + "/graphql"}, key, none)},
				"/graphql":    object{"post": with},
				"/filtered":   object{"post": route("filtered", "urlRewriteHandler", object{"rewritePattern": upstream + "/graphql"}, key, []string{"hidden"})},
				"/todos/{id}": object{"get": todo},
				"/mcp": object{"post": route("server", "mcpServerHandler", object{
					"name": "bench", "version": "1", "operations": []object{{"file": "./config/routes.oas.json", "id": "readTodo"}},
				}, key, none)},
			},
		},
		"config/policies.json": {"policies": []object{
			policy("key", "api-key-inbound", runtime, object{}),
			policy("limits", "graphql-complexity-limit-inbound", graphQL, object{"maxDepth": 10, "maxComplexity": 500}),
			policy("closed", "graphql-disable-introspection-inbound", graphQL, object{}),
			policy("hidden", "graphql-introspection-filter-outbound", graphQL, object{"excludeTypes": []string{"Internal"}}),
			policy("operations", "graphql-analytics-outbound", graphQL, object{}),
		}},
	} {
		text, err := json.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("write the project: %w", err)
		}
		files[name] = string(text)
	}
	return files, nil
}

// toolCall is a call of the tool, in the protocol's most common version.
const toolCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"7"}}}`

// query is a request with a document of so many kilobytes, as generated clients send them, with the place of a number.
func query(kilobytes int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"operationName":"Page","variables":{"id":"7","first":10},"query":"query Page($id: ID!, $first: Int = 10) {\n  node(id: $id, at: \"%s\") { __typename id ...User }\n}\nfragment User on User {\n  name`, load.Numbered)
	for i := 0; b.Len() < kilobytes<<10; i++ {
		fmt.Fprintf(&b, `\n  field%d(first: $first) { edges { node { id } } }`, i)
	}
	return b.String() + `\n}"}`
}

// get and post are requests of the consumer's.
func (w *world) get(path string) load.Options { return w.request(http.MethodGet, path, "") }

func (w *world) post(path, body string) load.Options { return w.request(http.MethodPost, path, body) }

func (w *world) request(method, path, body string) load.Options {
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nUser-Agent: bench\r\nAccept: application/json\r\n", method, path, w.site, w.key)
	if body != "" {
		head += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return load.Options{Address: strings.TrimPrefix(w.Gateway, "http://"), Request: []byte(head + "\r\n" + body), Status: http.StatusOK}
}
