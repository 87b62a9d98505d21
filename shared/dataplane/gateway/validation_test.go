package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// validatedRequest is a request that reached the upstream.
type validatedRequest struct {
	target, body string
	header       http.Header
}

// validatedFixture is a gateway with validated routes, and an upstream that records requests.
type validatedFixture struct {
	*fixture
	mu       sync.Mutex
	received []validatedRequest
	// respond writes the upstream's response.
	respond http.HandlerFunc
}

// take returns the requests that have reached the upstream since the last call.
func (v *validatedFixture) take() []validatedRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := v.received
	v.received = nil
	return out
}

const petDescription = `{
  "openapi": "3.0.3", "info": {"title": "Pets", "version": "1"},
  "paths": {
    "/pets/{id}": {
      "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "integer", "minimum": 1}}],
      "post": {
        "operationId": "savePet",
        "parameters": [
          {"name": "tags", "in": "query", "explode": false,
            "schema": {"type": "array", "maxItems": 2, "items": {"enum": ["a", "b"]}}},
          {"name": "X-Count", "in": "header", "schema": {"type": "integer"}},
          {"name": "session", "in": "cookie", "required": true, "schema": {"type": "string", "minLength": 3}}
        ],
        "requestBody": {"required": true, "content": {
          "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}},
          "application/x-www-form-urlencoded": {"schema": {"$ref": "#/components/schemas/Pet"}}
        }},
        "responses": {
          "200": {"description": "", "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
          "206": {"description": "", "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
        "x-gateway-route": {"handler": HANDLER,
          "policies": {"inbound": ["validate"], "outbound": ["validate-responses"]}}
      }
    },
    "/mcp": {"post": {"responses": {"200": {"description": ""}}, "x-gateway-route": {"handler": {
      "export": "mcpServerHandler", "module": "$import(@gatewright/runtime)",
      "options": {"operations": [{"file": "config/routes.oas.json", "id": "savePet"}]}}}}}
  },
  "components": {"schemas": {"Pet": {
    "type": "object", "required": ["id", "name", "price"],
    "properties": {
      "id": {"type": "integer", "readOnly": true}, "name": {"type": "string"},
      "price": {"type": "number", "minimum": 0}, "parent": {"$ref": "#/components/schemas/Pet"}
    }
  }}}
}`

// newValidatedFixture returns a gateway whose routes have these options of request-validation-inbound and
// response-validation-outbound.
func newValidatedFixture(t testing.TB, request, response string, settings ...setting) *validatedFixture {
	t.Helper()
	v := &validatedFixture{}
	backend := serve(t, func(out http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		v.mu.Lock()
		v.received = append(v.received, validatedRequest{r.URL.RequestURI(), string(all), r.Header.Clone()})
		respond := v.respond
		v.mu.Unlock()
		if respond != nil {
			respond(out, r)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		writef(out, `{"id": 1, "name": "n", "price": 1}`)
	})
	handler := fmt.Sprintf(`{"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
		"options": {"baseUrl": %q}}`, backend.URL)
	v.fixture = newFixture(t, built(t, project.Files{
		"config/routes.oas.json": []byte(strings.ReplaceAll(petDescription, "HANDLER", handler)),
		"config/policies.json": []byte(fmt.Sprintf(`{"policies": [
			{"name": "validate", "policyType": "request-validation-inbound", "handler": {
				"export": "RequestValidationInboundPolicy", "module": "$import(@gatewright/runtime)", "options": %s}},
			{"name": "validate-responses", "policyType": "response-validation-outbound", "handler": {
				"export": "ResponseValidationOutboundPolicy", "module": "$import(@gatewright/runtime)", "options": %s}}]}`,
			request, response)),
	}), settings...)
	return v
}

// validPet makes a request that matches petDescription.
func validPet(r *http.Request) {
	r.Header.Set("Cookie", "session=abc")
	r.Header.Set("Content-Type", "application/json")
	sending(`{"name": "n", "price": 1}`)(r)
}

// replaced returns a function that replaces all values of a header field of a request.
func replaced(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// TestRequestsAreValidated sends requests that match or violate the description of a route.
func TestRequestsAreValidated(t *testing.T) {
	v := newValidatedFixture(t, `{"unknownQuery": "reject"}`, `{}`)
	for name, test := range map[string]struct {
		target string
		change func(*http.Request)
		status int
		// errors are the places of the errors, such as "body /price".
		errors []string
	}{
		"valid":          {"/pets/1?tags=a,b", func(*http.Request) {}, 200, nil},
		"path":           {"/pets/x", func(*http.Request) {}, 400, []string{"path /id"}},
		"path too small": {"/pets/0", func(*http.Request) {}, 400, []string{"path /id"}},
		"query":          {"/pets/1?tags=a,c", func(*http.Request) {}, 400, []string{"query /tags/1"}},
		"unknown query":  {"/pets/1?tag=a", func(*http.Request) {}, 400, []string{"query /tag"}},
		"header":         {"/pets/1", replaced("X-Count", "1.5"), 400, []string{"header /X-Count"}},
		"cookie":         {"/pets/1", replaced("Cookie", "session=ab"), 400, []string{"cookie /session"}},
		"missing cookie": {"/pets/1", func(r *http.Request) { r.Header.Del("Cookie") }, 400, []string{"cookie /session"}},
		"body":           {"/pets/1", sending(`{"name": "n", "price": -3}`), 400, []string{"body /price"}},
		"nested body": {
			"/pets/1", sending(`{"name": "n", "price": 1, "parent": {"name": "n", "price": "1"}}`), 400,
			[]string{"body /parent/price"},
		},
		"missing property":   {"/pets/1", sending(`{"price": 1}`), 400, []string{"body "}},
		"read-only property": {"/pets/1", sending(`{"id": 1, "name": "n", "price": 1}`), 400, []string{"body /id"}},
		"duplicate property": {"/pets/1", sending(`{"name": "n", "price": -1, "price": 1}`), 400, []string{"body /price"}},
		"no body":            {"/pets/1", sending(``), 400, []string{"body "}},
		"no JSON":            {"/pets/1", sending(`{"name": `), 400, []string{"body /name"}},
		"several": {
			"/pets/0", sending(`{"name": 1, "price": -1}`), 400, []string{"path /id", "body /name", "body /price"},
		},
		"media type":       {"/pets/1", replaced("Content-Type", "text/plain"), 415, nil},
		"charset":          {"/pets/1", replaced("Content-Type", "application/json; charset=utf-16"), 415, nil},
		"content encoding": {"/pets/1", replaced("Content-Encoding", "br"), 415, nil},
		"no gzip":          {"/pets/1", replaced("Content-Encoding", "gzip"), 400, nil},
		"too large":        {"/pets/1", sending(`{"name": "` + strings.Repeat("n", 1<<20) + `", "price": 1}`), 413, nil},
		"too large unzipped": {"/pets/1", func(r *http.Request) {
			r.Header.Set("Content-Encoding", "gzip")
			sending(zipped(`{"name": "` + strings.Repeat("n", 1<<20) + `", "price": 1}`))(r)
		}, 413, nil},
		"two encodings":   {"/pets/1", replaced("Content-Encoding", "gzip, gzip"), 415, nil},
		"two media types": {"/pets/1", func(r *http.Request) { r.Header.Add("Content-Type", "text/plain") }, 415, nil},
		"form": {"/pets/1", func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			sending("name=n&price=1.5")(r)
		}, 200, nil},
		"invalid form": {"/pets/1", func(r *http.Request) {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			sending("name=n&price=-1.5")(r)
		}, 400, []string{"body /price"}},
	} {
		t.Run(name, func(t *testing.T) {
			response := v.do(t, http.MethodPost, test.target, validPet, test.change)
			var problem struct {
				Errors []struct{ In, Pointer, Detail string }
			}
			text := body(t, response)
			if err := json.Unmarshal([]byte(text), &problem); err != nil {
				t.Fatalf("body of the response = %s, want JSON", text)
			}
			var errors []string
			for _, e := range problem.Errors {
				errors = append(errors, e.In+" "+e.Pointer)
				if e.Detail == "" {
					t.Errorf("error %s %s has no detail, want one", e.In, e.Pointer)
				}
			}
			slices.Sort(errors)
			slices.Sort(test.errors)
			if response.StatusCode != test.status || !slices.Equal(errors, test.errors) {
				t.Errorf("POST %s = %d with errors %q (%s), want %d with %q", test.target, response.StatusCode, errors, text,
					test.status, test.errors)
			}
			want := 0
			if test.status == 200 {
				want = 1
			}
			if got := v.take(); len(got) != want {
				t.Errorf("POST %s reached the upstream %d times, want %d", test.target, len(got), want)
			}
		})
	}
}

// TestUpstreamGetsTheValidatedBytes checks that a compressed body reaches the upstream as it was checked, without fields
// that describe the compressed bytes, and that an uncompressed body and its fields are unchanged.
func TestUpstreamGetsTheValidatedBytes(t *testing.T) {
	v := newValidatedFixture(t, `{}`, `{}`)
	const pet = ` {"name": "n",  "price": 1e0}`
	for _, encoding := range []string{"", "gzip", "identity", "GZip", "identity, X-gzip"} {
		isZipped := strings.HasSuffix(strings.ToLower(encoding), "gzip")
		response := v.do(t, http.MethodPost, "/pets/1", validPet, func(r *http.Request) {
			text := pet
			if isZipped {
				text = zipped(pet)
			}
			if encoding != "" {
				r.Header.Set("Content-Encoding", encoding)
			}
			r.Header.Set("Content-Digest", "sha-256=:AAAA:")
			sending(text)(r)
		})
		got := v.take()
		if response.StatusCode != http.StatusOK || len(got) != 1 || got[0].body != pet {
			t.Fatalf("POST with the encoding %q = %d, upstream got %v, want 200 and the body %s", encoding,
				response.StatusCode, got, pet)
		}
		kept := !isZipped
		if has := got[0].header.Get("Content-Digest") != ""; has != kept {
			t.Errorf("encoding %q: the upstream's request has Content-Digest = %t, want %t", encoding, has, kept)
		}
		if isZipped && got[0].header.Get("Content-Encoding") != "" ||
			got[0].header.Get("Content-Type") != "application/json" {
			t.Errorf("encoding %q: header = %v, want no gzip, and the media type", encoding, got[0].header)
		}
	}
}

// TestLoggedViolationsPass checks that requests with violations pass unchanged if the options say log, and that the log
// has the places but no values.
func TestLoggedViolationsPass(t *testing.T) {
	v := newValidatedFixture(t, `{"body": "log", "pathParameters": "log", "queryParameters": "none", "headers": "none",
		"cookies": "none"}`, `{}`)
	const secret = "sesame-open"
	for _, test := range []struct{ name, text, encoding, want string }{
		{"media type", secret, "", "media type"},
		{"valid gzip", zipped(`{"name": "n", "price": 1}`), "gzip", "path /id"},
		{"violations", `{"name": 1, "price": "` + secret + `"}`, "", "body /price"},
		{"too large", `{"name": "` + strings.Repeat("n", 1<<20) + `", "price": -1}`, "", "too large"},
		{"too large, in chunks", `{"name": "` + strings.Repeat("c", 1<<20) + `", "price": -1}`, "", "too large"},
		{"no JSON", secret, "", "does not match"},
		{"encoding", secret, "br", "content encoding"},
	} {
		response := v.do(t, http.MethodPost, "/pets/0", validPet, func(r *http.Request) {
			if test.encoding != "" {
				r.Header.Set("Content-Encoding", test.encoding)
			}
			sending(test.text)(r)
			switch {
			case strings.HasSuffix(test.name, "in chunks"):
				r.ContentLength = -1
			case test.name == "media type":
				r.Header.Set("Content-Type", "text/plain")
			}
		})
		got := v.take()
		if response.StatusCode != http.StatusOK || len(got) != 1 || got[0].body != test.text {
			t.Errorf("%s: POST = %d, upstream got %d requests, want 200 and one with the same body", test.name,
				response.StatusCode, len(got))
		}
		if log := v.log.String(); !strings.Contains(log, test.want) || strings.Contains(log, secret) {
			t.Errorf("%s: log = %s, want %q and no value", test.name, log, test.want)
		}
	}
}

// TestLoggedViolationsHaveTheOutcome checks that the log says whether a request with logged violations was refused because
// of other violations.
func TestLoggedViolationsHaveTheOutcome(t *testing.T) {
	for text, want := range map[string]string{
		`{"name": "n", "price": 1}`: "outcome=admitted", `{"name": "n", "price": -1}`: "outcome=refused",
	} {
		v := newValidatedFixture(t, `{"pathParameters": "log"}`, `{}`)
		status := v.do(t, http.MethodPost, "/pets/0", validPet, sending(text)).StatusCode
		if refused := status == http.StatusBadRequest; refused != strings.HasSuffix(want, "refused") {
			t.Errorf("POST /pets/0 with %s: status = %d, want %s", text, status, want)
		}
		if log := v.log.String(); !strings.Contains(log, want) {
			t.Errorf("POST /pets/0 with %s: log = %s, want %s", text, log, want)
		}
	}
}

// TestFewViolationsAreLogged checks that a line of the log has the first five violations of a request.
func TestFewViolationsAreLogged(t *testing.T) {
	v := newValidatedFixture(t, `{"body": "log"}`, `{}`)
	const wrong = `{"name": 1, "price": -1, "parent": `
	v.do(t, http.MethodPost, "/pets/1", validPet, sending(strings.Repeat(wrong, 5)+"{}"+strings.Repeat("}", 5)))
	if got := strings.Count(v.log.String(), " must "); got != 5 {
		t.Errorf("log of a request with more than ten violations = %s, with %d of them, want 5", v.log.String(), got)
	}
}

// TestUnsupportedBodiesSayWhatToSend checks the problems for bodies that the gateway does not read: they name what a
// client can send instead.
func TestUnsupportedBodiesSayWhatToSend(t *testing.T) {
	v := newValidatedFixture(t, `{}`, `{}`)
	for _, test := range []struct{ name, value, detail, accepted string }{
		{"Content-Type", "text/plain", "application/json or application/x-www-form-urlencoded", ""},
		{"Content-Type", "text/plain; charset=utf-8", "application/json or application/x-www-form-urlencoded", ""},
		{"Content-Type", "application/json; charset=utf-16", "in UTF-8", ""},
		{"Content-Encoding", "br", "with gzip", "gzip"},
	} {
		response := v.do(t, http.MethodPost, "/pets/1", validPet, replaced(test.name, test.value))
		accepted := response.Header.Get("Accept-Encoding")
		if accepted != test.accepted {
			t.Errorf("%s: %s: Accept-Encoding of the response = %q, want %q", test.name, test.value, accepted, test.accepted)
		}
		text := body(t, response)
		if response.StatusCode != http.StatusUnsupportedMediaType || !strings.Contains(text, test.detail) {
			t.Errorf("%s: %s = %d %s, want 415 with %q", test.name, test.value, response.StatusCode, text, test.detail)
		}
	}
}

// TestToolsAreValidatedAsRoutes checks that a tool call with an argument that the description does not allow is refused
// before the upstream is called.
func TestToolsAreValidatedAsRoutes(t *testing.T) {
	v := newValidatedFixture(t, `{"cookies": "none"}`, `{}`)
	for _, test := range []struct {
		price string
		want  int
	}{{"-3", 0}, {"3", 1}} {
		text := fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "savePet",
			"arguments": {"id": 1, "name": "n", "price": %s}}}`, test.price)
		got := body(t, v.do(t, http.MethodPost, "/mcp", sending(text)))
		if calls := len(v.take()); calls != test.want {
			t.Errorf("tool call with the price %s = %s, upstream called %d times, want %d", test.price, got, calls, test.want)
		}
	}
}

// TestValidationComesAfterAuthentication checks that a build refuses a route that validates requests before it identifies
// the user, and accepts the other order.
func TestValidationComesAfterAuthentication(t *testing.T) {
	for _, test := range []struct {
		inbound string
		refused bool
	}{
		{`"validate", "key"`, true},
		{`"limit", "validate", "key"`, true},
		{`"key", "validate"`, false},
		{`"validate"`, false},
	} {
		policy := func(name, policyType, options string) string {
			return fmt.Sprintf(`{"name": %q, "policyType": %q, "handler": {"export": "P",
				"module": "$import(@gatewright/runtime)", "options": %s}}`, name, policyType, options)
		}
		_, result := tryBuild(t, project.Files{
			"config/routes.oas.json": []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/a/{id}": {
				"get": {"responses": {"200": {"description": ""}}, "x-gateway-route": {
				"policies": {"inbound": [` + test.inbound + `]}, "handler": {"export": "urlForwardHandler",
				"module": "$import(@gatewright/runtime)", "options": {"baseUrl": "https://up.example.com"}}}}}}}`),
			"config/policies.json": []byte(`{"policies": [` + policy("validate", "request-validation-inbound", "{}") + "," +
				policy("key", "api-key-inbound", "{}") + "," + policy("limit", "rate-limit-inbound",
				`{"rateLimitBy": "ip", "requestsAllowed": 1, "timeWindowMinutes": 1}`) + `]}`),
		})
		refused := slices.ContainsFunc(result.Errors, func(p project.Problem) bool {
			return strings.Contains(p.Message, "behind the policies that identify the user") &&
				p.Path == "/paths/~1a~1{id}/get/x-gateway-route/policies/inbound"
		})
		if refused != test.refused || len(result.Errors) > 1 {
			t.Errorf("build with the inbound policies %s: errors = %v, want one = %t", test.inbound, result.Errors, test.refused)
		}
	}
}

// TestWarningHasThePlaceOfThePolicy checks the place of the warning about a policy that has nothing to check: its position
// in the route as it is written, although a security scheme adds another policy before it.
func TestWarningHasThePlaceOfThePolicy(t *testing.T) {
	_, result := tryBuild(t, project.Files{
		"config/routes.oas.json": []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
			"security": [{"key": []}], "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer",
			"x-gateway-policy": "key"}}}, "paths": {"/a": {"get": {"responses": {"200": {"description": ""}},
			"x-gateway-route": {"policies": {"inbound": ["limit", "validate"]}, "handler": {"export": "urlForwardHandler",
			"module": "$import(@gatewright/runtime)", "options": {"baseUrl": "https://up.example.com"}}}}}}}`),
		"config/policies.json": []byte(`{"policies": [
			{"name": "validate", "policyType": "request-validation-inbound", "handler": {"export": "P",
				"module": "$import(@gatewright/runtime)"}},
			{"name": "key", "policyType": "api-key-inbound", "handler": {"export": "P",
				"module": "$import(@gatewright/runtime)"}},
			{"name": "limit", "policyType": "rate-limit-inbound", "handler": {"export": "P",
				"module": "$import(@gatewright/runtime)",
				"options": {"rateLimitBy": "ip", "requestsAllowed": 1, "timeWindowMinutes": 1}}}]}`),
	})
	const at = "/paths/~1a/get/x-gateway-route/policies/inbound/1"
	if len(result.Errors) > 0 || len(result.Warnings) != 1 || result.Warnings[0].Path != at {
		t.Errorf("build = errors %v, warnings %v, want one warning at %s", result.Errors, result.Warnings, at)
	}
}
