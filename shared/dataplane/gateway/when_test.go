package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// conditional returns the artifact of transform, whose policy has a condition. It sets the header X-Applied.
func conditional(t *testing.T, base, direction, when string) *project.Artifact {
	t.Helper()
	a := transform(t, base, "set-headers-"+direction, `{"headers": [{"name": "X-Applied", "value": "yes"}]}`)
	p := a.Policies["p"]
	p.When = when
	a.Policies["p"] = p
	a.Variables = map[string]string{"MODE": "strict"}
	if problems := gateway.Verify(t.Context(), a); len(problems) > 0 {
		t.Fatalf("Verify(when %s) = %+v, want no problems", when, problems)
	}
	return a
}

// typedBody sends a POST request with a body.
func typedBody(mediaType, text string) func(*http.Request) {
	return func(r *http.Request) {
		r.Method, r.Body, r.ContentLength = http.MethodPost, io.NopCloser(strings.NewReader(text)), int64(len(text))
		r.Header.Set("Content-Type", mediaType)
	}
}

// TestInboundPoliciesRunOnACondition checks for which requests an inbound policy with a condition runs. A condition that
// fails counts as true.
func TestInboundPoliciesRunOnACondition(t *testing.T) {
	t.Parallel()
	upstream := serve(t, headers)
	const jsonType = "application/json"
	for _, tt := range []struct {
		when, mediaType, body string // without a mediaType, the request is a GET
		want                  bool
	}{
		{"request.method == 'GET'", "", "", true},
		{"request.method != 'GET'", "", "", false},
		{"request.path == '/x/7' && request.params.id == '7'", "", "", true},
		{"int(request.params.id) > 7", "", "", false},
		{"request.query.q == 'a b'", "", "", true},
		{"request.query.size() == 2", "", "", true},
		{"request.headers['x-tenant'] == 'acme, other'", "", "", true},
		{"'x-none' in request.headers", "", "", false},
		{"request.headers['x-none'] == 'a'", "", "", true}, // fails
		{"request.ip == '127.0.0.1'", "", "", true},
		{"user.sub == '' && size(user.data) == 0", "", "", true},
		{"has(user.data.plan) && user.data.plan == 'gold'", "", "", false},
		{"env.MODE == 'strict'", "", "", true},
		{"env['OTHER'] == 'strict'", "", "", false},
		{"request.body == null", "", "", true},
		{"request.body.price > 3", jsonType, `{"price": 3.5}`, true},
		{"request.body.price > 4", jsonType, `{"price": 3.5}`, false},
		{"request.body.n == 9007199254740993", "application/a+json", `{"n": 9007199254740993}`, true},
		{"request.body.items.exists(i, i.sku == 'b')", jsonType, `{"items":[{"sku":"a"},{"sku":"b"}]}`, true},
		{"request.body.startsWith('a=')", "application/x-www-form-urlencoded", "b=1", false},
		{"request.body.a == 1", jsonType, `{"a":2,"a":2}`, true},                           // fails
		{"request.body.a == 2", jsonType, `{"a": 1`, true},                                 // fails
		{"request.body == 'x'", "text/plain", "\xff", true},                                // fails
		{"request.body == null && false", jsonType, strings.Repeat("[", 1_000_000), false}, // is not parsed
		{"request.body == null", jsonType, strings.Repeat("[", 1_000_000), true},           // fails
		{"request.body == {'a': 1}", jsonType, `{"a":1}`, true},
		{"'" + strings.Repeat("a", 100) + "'.contains(request.method)", "", "", false},
	} {
		fx := newFixture(t, conditional(t, upstream.URL, "inbound", tt.when))
		modifiers := []func(*http.Request){header("X-Tenant", "acme"), func(r *http.Request) {
			r.Header.Add("X-Tenant", "other")
		}}
		if tt.mediaType != "" {
			modifiers = append(modifiers, typedBody(tt.mediaType, tt.body))
		}
		response := fx.do(t, http.MethodGet, "/x/7?q=a%20b&q=c&r=1", modifiers...)
		if response.StatusCode != http.StatusOK {
			t.Errorf("when %s: status = %d, want 200", tt.when, response.StatusCode)
			continue
		}
		if got := headersOf(t, response).Get("X-Applied") == "yes"; got != tt.want {
			t.Errorf("when %s: the policy ran = %t, want %t", tt.when, got, tt.want)
		}
	}
}

// TestOutboundPoliciesRunOnACondition checks for which responses an outbound policy with a condition runs.
func TestOutboundPoliciesRunOnACondition(t *testing.T) {
	t.Parallel()
	upstream := serve(t, headers)
	for when, want := range map[string]bool{
		"response.status == 200":                             true,
		"response.status >= 400":                             false,
		"response.headers['x-path'] == '/x/7'":               true,
		"request.method == 'GET' && response.status == 200":  true,
		"request.method == 'POST'":                           false,
		"request.method == 'GET'":                            true,
		"response.headers['x-none'] == ''":                   true, // fails
		"user.sub == 'acme' || response.headers.size() == 0": false,
	} {
		fx := newFixture(t, conditional(t, upstream.URL, "outbound", when))
		if got := fx.do(t, http.MethodGet, "/x/7").Header.Get("X-Applied") == "yes"; got != want {
			t.Errorf("when %s: the policy ran = %t, want %t", when, got, want)
		}
	}
}

// TestConditionsOfTheUser checks conditions after the authentication of the request.
func TestConditionsOfTheUser(t *testing.T) {
	t.Parallel()
	upstream := serve(t, headers)
	for when, want := range map[string]bool{
		"user.sub == 'acme'":       true,
		"user.data.plan == 'gold'": true,
		"user.data.plan == 'free'": false,
		"user.data.none == 'gold'": true, // fails
	} {
		a := conditional(t, upstream.URL, "inbound", when)
		declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "my-bucket"})
		a.Routes[0].Inbound = []string{"key", "p"}
		fx := newFixture(t, a)
		fx.keys.known = map[string]policy.KeyOwner{"my-bucket k1": {Sub: "acme", Data: json.RawMessage(`{"plan":"gold"}`)}}
		response := fx.do(t, http.MethodGet, "/x/7", header("Authorization", "Bearer k1"))
		if got := headersOf(t, response).Get("X-Applied") == "yes"; got != want {
			t.Errorf("when %s: the policy ran = %t, want %t", when, got, want)
		}
	}
}

// TestBodiesForConditionsAreBounded checks that a body that is too large for an expression is refused, also without a
// Content-Length, and that the upstream gets an accepted body unchanged.
func TestBodiesForConditionsAreBounded(t *testing.T) {
	t.Parallel()
	upstream := serve(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		writef(w, "%d", len(text))
	})
	fx := newFixture(t, conditional(t, upstream.URL, "inbound", "size(request.body) > 3"))
	const limit = 1 << 20
	for _, chunked := range []bool{false, true} {
		for size, want := range map[int]int{limit: http.StatusOK, limit + 1: http.StatusRequestEntityTooLarge} {
			response := fx.do(t, http.MethodPost, "/x/7", typedBody("text/plain", strings.Repeat("a", size)),
				func(r *http.Request) {
					if chunked {
						r.ContentLength = -1
					}
				})
			if response.StatusCode != want {
				t.Errorf("%d bytes, chunked: %t: status = %d, want %d", size, chunked, response.StatusCode, want)
			}
			if want == http.StatusOK {
				if got := body(t, response); got != strconv.Itoa(size) {
					t.Errorf("%d bytes, chunked: %t: the upstream got %s bytes, want all", size, chunked, got)
				}
			}
		}
	}
}

// TestFailureOfAConditionIsLoggedWithoutValues checks the line of the log for a condition that fails, and that a condition
// that takes too much work ends.
func TestFailureOfAConditionIsLoggedWithoutValues(t *testing.T) {
	t.Parallel()
	const loop = "[1,2,3,4,5,6,7,8,9,10]"
	for when, want := range map[string]string{
		"request.query.secret == request.query.none":      "no result for this request",
		"int(request.query.secret) == 1":                  "no result for this request",
		"request.body.secret == 1":                        "the body is not readable",
		strings.Repeat(loop+".all(a, ", 5) + "a > 0)))))": "more work than an expression may take",
	} {
		fx := newFixture(t, conditional(t, serve(t, headers).URL, "inbound", when))
		response := fx.do(t, http.MethodPost, "/x/7?secret=hunter2", typedBody("application/json", `{"secret": hunter2`))
		if response.StatusCode != http.StatusOK || headersOf(t, response).Get("X-Applied") != "yes" {
			t.Errorf("when %.40s: status = %d, want 200 and that the policy runs", when, response.StatusCode)
		}
		lines := fx.log.String()
		if !strings.Contains(lines, want) || !strings.Contains(lines, "the policy runs") {
			t.Errorf("when %.40s: log = %s, want the reason %q", when, lines, want)
		}
		if strings.Contains(lines, "hunter2") {
			t.Errorf("when %.40s: log = %s, want no value of the request", when, lines)
		}
	}
}

// TestConditionsOfBodiesComeAfterAuthentication checks that the build refuses a condition that reads bodies of requests whose
// user is not identified yet.
func TestConditionsOfBodiesComeAfterAuthentication(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]int{"request.body == null": 1, "request.query.body == ''": 0} {
		a := conditional(t, "http://127.0.0.1", "inbound", when)
		declare(a, "key", "api-key-inbound", map[string]any{"bucketName": "my-bucket"})
		a.Routes[0].Inbound = []string{"p", "key"}
		problems := gateway.Verify(t.Context(), a)
		if len(problems) != want || want > 0 && !strings.Contains(problems[0].Message, `Move "p" behind the policies`) {
			t.Errorf("Verify(when %s before the key) = %+v, want %d problems that say to move it", when, problems, want)
		}
	}
}

// TestConditionsAreCheckedByTheBuild checks the problem of each kind of wrong condition.
func TestConditionsAreCheckedByTheBuild(t *testing.T) {
	t.Parallel()
	const in, out = "set-headers-inbound", "set-headers-outbound"
	for _, tt := range []struct{ policyType, when, want string }{
		{in, "request.methd == 'GET'", `character 8: "request.methd" does not exist: did you mean request.method?`},
		{in, "true && foo", `character 9: "foo" does not exist. Use request.method, `},
		{in, "request.method", "the result of this expression has the type string"},
		{in, "request.method == 1", "character 16: found no matching overload for '_==_'"},
		{in, "request.method ==", "character 18: Syntax error"},
		{in, "response.status == 200", `response exists only in the expressions of outbound policies`},
		{out, "request.body == 1", `request.body exists only in the expressions of inbound policies`},
		{in, "env[request.method] == ''", "name the variable after env"},
		{in, "size(env) == 1", "name the variable after env"},
		{in, "request.method.matches('(')", "correct a constant of this expression"},
		{in, strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300), "Correct this expression"},
		{in, "'" + strings.Repeat("a", 5000) + "' == ''", "at most 4096 bytes"},
		{in, "\x00", "character 1"},
		{"graphql-analytics-outbound", "request.method == 'GET'", "Remove this condition"},
		{"graphql-introspection-filter-outbound", "response.status == 200", "Remove response from this condition"},
	} {
		p := project.Policy{Name: "p", Type: tt.policyType, When: tt.when}
		p.Handler.Module, p.Handler.Options = policy.ModuleOf(tt.policyType), json.RawMessage(`{}`)
		if strings.HasPrefix(tt.policyType, "set-") {
			p.Handler.Options = json.RawMessage(`{"headers": [{"name": "A", "value": "b"}]}`)
		}
		if tt.policyType == "graphql-introspection-filter-outbound" {
			p.Handler.Options = json.RawMessage(`{"excludeTypes": ["A"]}`)
		}
		problems := gateway.Catalog{}.CheckPolicy(p)
		if len(problems) != 1 || problems[0].Path != "/when" || !strings.Contains(problems[0].Message, tt.want) {
			t.Errorf("CheckPolicy(%s when %.40s) = %+v, want one problem at /when with %q", tt.policyType, tt.when, problems,
				tt.want)
		}
	}
}

// TestAuthorizeRefusesWithoutTrue checks that authorize-inbound admits a request only if its expression is true, and logs an
// expression that fails.
func TestAuthorizeRefusesWithoutTrue(t *testing.T) {
	t.Parallel()
	upstream := serve(t, headers)
	for _, tt := range []struct {
		expression, body string
		status           int
		logged           bool
	}{
		{"request.params.id == '7'", "", http.StatusOK, false},
		{"request.params.id == env.MODE", "", http.StatusForbidden, false},
		{"env.MODE == 'strict'", "", http.StatusOK, false},
		{"request.headers['x-none'] == 'a'", "", http.StatusForbidden, true},
		{"request.body.role == 'admin'", `{"role":"admin"}`, http.StatusOK, false},
		{"request.body.role == 'admin'", `{"role":"user","role":"admin"}`, http.StatusForbidden, true},
		{"request.body.role == 'admin'", "", http.StatusForbidden, true},
	} {
		a := transform(t, upstream.URL, "authorize-inbound", `{"expression": "`+tt.expression+`"}`)
		a.Variables = map[string]string{"MODE": "strict"}
		fx := newFixture(t, a)
		var modifiers []func(*http.Request)
		if tt.body != "" {
			modifiers = append(modifiers, typedBody("application/json", tt.body))
		}
		response := fx.do(t, http.MethodGet, "/x/7", modifiers...)
		if response.StatusCode != tt.status {
			t.Errorf("%s with the body %s: status = %d, want %d", tt.expression, tt.body, response.StatusCode, tt.status)
		}
		if logged := strings.Contains(fx.log.String(), "the request is refused"); logged != tt.logged {
			t.Errorf("%s with the body %s: log = %s, want a line about a failure: %t", tt.expression, tt.body, fx.log.String(),
				tt.logged)
		}
	}
}

// TestVariablesOfExpressions checks which variables the build puts into the artifact for the expressions of a policy.
func TestVariablesOfExpressions(t *testing.T) {
	t.Parallel()
	p := project.Policy{Name: "p", Type: "authorize-inbound", When: "env.B == '' || env['C'] == env.B"}
	p.Handler.Options = json.RawMessage(`{"expression": "env.A == ''"}`)
	got := gateway.Catalog{}.UsedVariables(p)
	slices.Sort(got)
	if !slices.Equal(got, []string{"A", "B", "C"}) {
		t.Errorf("UsedVariables() = %v, want A, B and C", got)
	}
	p.When, p.Handler.Options = "env.B ==", json.RawMessage(`{}`)
	if got := (gateway.Catalog{}).UsedVariables(p); len(got) > 0 {
		t.Errorf("UsedVariables(with mistakes) = %v, want none", got)
	}
}
