package gateway_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// anyAuthArtifact returns the artifact of a route that admits keys of two buckets, in two headers, and users of
// basic-auth-inbound. The upstream gets the name of the user.
func anyAuthArtifact(t *testing.T) *project.Artifact {
	t.Helper()
	a := artifact(route("GET /x", rewrite(serve(t, headers).URL+"/${request.user.sub}"), "either"))
	declare(a, "mine", "api-key-inbound", map[string]any{"bucketName": "mine"})
	declare(a, "theirs", "api-key-inbound", json.RawMessage(
		`{"bucketName": "theirs", "authHeader": "X-Key", "authScheme": ""}`))
	declare(a, "either", "any-auth-inbound", map[string]any{"policies": []string{"mine", "theirs"}})
	if problems := gateway.Verify(t.Context(), a); len(problems) > 0 {
		t.Fatalf("Verify() = %+v, want no problems", problems)
	}
	return a
}

// TestAnyAuthAdmitsWhatOneMemberAdmits checks which requests any-auth-inbound admits, and the response to others.
func TestAnyAuthAdmitsWhatOneMemberAdmits(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, anyAuthArtifact(t))
	fx.keys.known = map[string]policy.KeyOwner{"mine k1": {Sub: "ann"}, "theirs k2": {Sub: "bob"}}
	for _, tt := range []struct {
		name, authorization, key string
		status                   int
		want                     string // the path that the upstream gets, or a text in the problem
	}{
		{"the first member", "Bearer k1", "", http.StatusOK, "/ann"},
		{"the second member", "", "k2", http.StatusOK, "/bob"},
		{"both", "Bearer k1", "k2", http.StatusOK, "/ann"},
		{"the second with a wrong key for the first", "Bearer k3", "k2", http.StatusOK, "/bob"},
		{"a key of the other bucket", "Bearer k2", "", http.StatusUnauthorized, "Authorization Failed"},
		{"no key", "", "", http.StatusUnauthorized, "No Authorization Header"},
	} {
		response := fx.do(t, http.MethodGet, "/x", func(r *http.Request) {
			if tt.authorization != "" {
				r.Header.Set("Authorization", tt.authorization)
			}
			if tt.key != "" {
				r.Header.Set("X-Key", tt.key)
			}
		})
		text := response.Header.Get("X-Path") + " " + body(t, response)
		if response.StatusCode != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s: status = %d with %s, want %d with %q", tt.name, response.StatusCode, text, tt.status, tt.want)
		}
		if challenge := response.Header.Get("Www-Authenticate"); (challenge == "Bearer") != (tt.status == 401) {
			t.Errorf("%s: WWW-Authenticate = %q, want Bearer for 401 only", tt.name, challenge)
		}
	}
}

// TestAnyAuthReportsOutages checks that the response is 503 if a member could not check the request and no other member
// admits it: a 401 would mean that the key is wrong.
func TestAnyAuthReportsOutages(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, anyAuthArtifact(t))
	fx.keys.err = fault.New(fault.Unavailable, "the database is not reachable")
	response := fx.do(t, http.MethodGet, "/x", header("X-Key", "k2"))
	if response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("status without the database = %d, want 503", response.StatusCode)
	}
	if lines := fx.log.String(); strings.Contains(lines, "k2") {
		t.Errorf("log = %s, want no key", lines)
	}
}

// TestMembersAreChecked checks the problems of policies that contain others.
func TestMembersAreChecked(t *testing.T) {
	t.Parallel()
	declared := func(policyType, options, when string) project.Policy {
		p := project.Policy{Name: "m", Type: policyType, When: when}
		p.Handler.Options = json.RawMessage(options)
		return p
	}
	key := declared("api-key-inbound", `{"bucketName": "b"}`, "")
	for _, tt := range []struct {
		outer string
		inner project.Policy
		want  string
	}{
		{"composite-inbound", key, ""},
		{"composite-inbound", declared("set-status-outbound", `{"status": 200}`, ""), "policies that end with -inbound"},
		{"composite-outbound", key, "policies that end with -outbound"},
		{"any-auth-inbound", key, ""},
		{"any-auth-inbound", declared("request-size-limit-inbound", `{"maxBytes": 1}`, ""), "does not identify the user"},
		{"any-auth-inbound", declared("any-auth-inbound", `{"policies": ["a"]}`, ""), "does not identify the user"},
		{"any-auth-inbound", declared("api-key-inbound", `{}`, "request.method == 'GET'"), "Remove when"},
		{
			"any-auth-inbound", declared("api-key-inbound", `{"allowUnauthenticatedRequests": true}`, ""),
			"lets requests without a user through",
		},
	} {
		problems := gateway.Catalog{}.CheckMembers(declared(tt.outer, `{"policies": ["a", "m"]}`, ""),
			[]project.Policy{key, tt.inner})
		problems = slices.DeleteFunc(problems, func(p project.Problem) bool { return p.Path == "/options/policies/0" })
		if tt.want == "" && len(problems) == 0 {
			continue
		}
		if len(problems) != 1 || problems[0].Path != "/options/policies/1" ||
			!strings.Contains(problems[0].Message, tt.want) {
			t.Errorf("CheckMembers(%s of %s) = %+v, want %q at /options/policies/1", tt.outer, tt.inner.Type, problems,
				tt.want)
		}
	}
}

// TestCompositesAreNotServed checks that a gateway refuses an artifact whose route names a composite policy: the build
// writes its members in its place. A policy that contains itself ends with a problem, too.
func TestCompositesAreNotServed(t *testing.T) {
	t.Parallel()
	for policyType, want := range map[string]string{
		"composite-inbound": "Deploy the project again", "any-auth-inbound": "Correct the policy",
	} {
		a := artifact(route("GET /x", forward("http://127.0.0.1"), "self"))
		declare(a, "self", policyType, map[string]any{"policies": []string{"self"}})
		problems := gateway.Verify(t.Context(), a)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("Verify(%s of itself) = %+v, want one problem with %q", policyType, problems, want)
		}
	}
}
