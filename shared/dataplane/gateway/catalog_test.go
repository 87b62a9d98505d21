package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// namedOptions has the options of a handler or policy, and its name.
type namedOptions struct{ name, options string }

func handlerOptions() []namedOptions {
	return []namedOptions{
		{"urlForwardHandler", `{"baseUrl":"https://up.example","followRedirects":true,"forwardSearch":false}`},
		{"urlForwardHandler", `{}`},
		{"urlForwardHandler", `{"baseUrl":"up.example","follow":true,"followRedirects":"yes"}`},
		{"urlForwardHandler", `{"baseUrl":"https://up/${param.id}${x}","mtlsCertificate":"cert"}`},
		{"urlForwardHandler", `{"baseUrl":"${env.UPSTREAM}/v1"}`},
		{"urlForwardHandler", `{"baseUrl":"service://Stock/v1","upgrades":["websocket"]}`},
		{"urlForwardHandler", `{"baseUrl":"service://stock:80"}`},
		{"urlForwardHandler", `{"baseUrl":"https://up.example","upgrades":["websocket","Tcp/1"]}`},
		{"urlForwardHandler", `{"baseUrl":"https://up.example","upgrades":["H2C","HTTP/2.0","TLS/1.0","two words",""]}`},
		{"urlRewriteHandler", `{"rewritePattern":"https://up.example","upgrades":["1","2","3","4","5","6","7","8","9"]}`},
		{"urlRewriteHandler", `{"rewritePattern":"https://up/${params.id}"}`},
		{"urlRewriteHandler", `{"baseUrl":"https://up/graphql"}`},
		{"urlRewriteHandler", `{"baseUrl":"https://up","rewritePattern":"https://up"}`},
		{"urlRewriteHandler", `{}`},
		{"urlRewriteHandler", `{"rewritePattern":7}`},
		{"urlRewriteHandler", `{"rewritePattern":"https://${query.host}/"}`},
		{"urlRewriteHandler", `{"rewritePattern":"service://${query.service}/"}`},
		{"urlForwardHandler", `{"baseUrl":"https://up.example.com","userHeaders":{"sub":"X-User"}}`},
		{"urlForwardHandler", `{"baseUrl":"https://up.example.com","userHeaders":{}}`},
		{"urlRewriteHandler", `{"baseUrl":"https://up.example.com","userHeaders":{"sub":"X_User","data":"x-user"}}`},
		{
			"urlRewriteHandler",
			`{"baseUrl":"https://up.example.com","userHeaders":{"sub":"X User","data":"X-Forwarded-For","name":"x"}}`,
		},
		{"urlForwardHandler", `{"baseUrl":"https://up.example.com","timeoutSeconds":0.1}`},
		{"urlForwardHandler", `{"baseUrl":"https://up.example.com","timeoutSeconds":"600"}`},
		{"urlForwardHandler", `{"baseUrl":"https://up.example.com","timeoutSeconds":0}`},
		{"urlForwardHandler", `{"baseUrl":"https://up.example.com","timeoutSeconds":-1}`},
		{"urlForwardHandler", `{"baseUrl":"https://up.example.com","timeoutSeconds":null}`},
		{"urlRewriteHandler", `{"baseUrl":"https://up.example.com","timeoutSeconds":600.1}`},
		{"urlRewriteHandler", `{"baseUrl":"https://up.example.com","timeoutSeconds":"30s"}`},
		{"mcpServerHandler", `{}`},
		{"mcpServerHandler", `{"operations":[]}`},
		{
			"mcpServerHandler",
			`{"operations":[{"file":"./config/routes.oas.json","id":"a"}],"name":"Shop","version":"1","debugMode":"true",` +
				`"includeOutputSchema":true,"includeStructuredContent":false}`,
		},
		{
			"mcpServerHandler",
			`{"operations":"a","name":"","version":7,"debugMode":"on","includeOutputSchema":1,` +
				`"includeStructuredContent":null,"files":[]}`,
		},
		{"mcpServerHandler", `{"operations":[{"file":1},"a",{"file":"x","id":"","path":"y"}],"name":"` +
			strings.Repeat("x", 129) + `","version":" "}`},
	}
}

func policyOptions() []namedOptions {
	return []namedOptions{
		{"api-key-inbound", `{}`},
		{"api-key-inbound", `{"bucketName":"a-bucket","authHeader":"X-Key","authScheme":"","cacheTtlSeconds":60}`},
		{
			"api-key-inbound",
			`{"bucketName":"a-bucket","bucketId":"bckt_1","authHeader":"X Key","authScheme":"Be arer","cacheTtlSeconds":59,` +
				`"allowUnauthenticatedRequests":1}`,
		},
		{"rate-limit-inbound", `{"rateLimitBy":"user","requestsAllowed":"100","timeWindowMinutes":1}`},
		{"rate-limit-inbound", `{}`},
		{
			"rate-limit-inbound",
			`{"rateLimitBy":"function","requestsAllowed":0,"timeWindowMinutes":-1,"headerMode":"all","mode":"loose",` +
				`"identifier":{"module":"$import(./modules/x)"}}`,
		},
		{"rate-limit-inbound", `{"rateLimitBy":"all","requestsAllowed":1.5,"timeWindowMinutes":1,"identifier":{}}`},
		{
			"quota-inbound",
			`{"bucketId":"mtr_1","meters":{"requests":1,"free":"0"},"customerKey":{"data":"/a~1b"},` +
				`"allowedStatuses":["active","unpaid"],"onError":"open","headerMode":"none","idempotencyKeys":false}`,
		},
		{
			"quota-inbound",
			`{"bucketId":"mtr_1","meters":{"units":{"responseHeader":"X-Units","max":"500","otherwise":0},` +
				`"tokens":{"responseBody":"/usage/total","max":500}}}`,
		},
		{"quota-inbound", `{}`},
		{
			"quota-inbound",
			`{"bucketId":"bckt_1","meters":{},"customerKey":"sub","allowedStatuses":["Active"],"onError":"maybe",` +
				`"headerMode":"all","idempotencyKeys":1,"region":"eu"}`,
		},
		{"quota-inbound", `{"bucketId":"mtr_1","meters":[],"customerKey":{},"allowedStatuses":[]}`},
		{
			"quota-inbound",
			`{"bucketId":"mtr_1","meters":{"a":-1,"b":1.5,"c/d":9007199254740992,"e":"many","f":null,"":1,"g":true},` +
				`"customerKey":{"header":"X-Customer"}}`,
		},
		{
			"quota-inbound",
			`{"bucketId":"mtr_1","meters":{"a":{},"b":{"responseHeader":"X Units","max":0},"c":{"responseBody":"usage",` +
				`"max":1.5},"d":{"responseBody":"/~2","responseHeader":"X","max":-1},"e":{"responseBody":"/~2","max":1}}}`,
		},
		{
			"quota-inbound",
			`{"bucketId":"mtr_1","meters":{"a":{"requestHeader":"X-Units","max":5},"b":{"responseHeader":"X-Units","max":5,` +
				`"otherwise":6},"c":{"responseHeader":"X-Units","max":5,"otherwise":-1}}}`,
		},
		{
			"query-param-to-header-inbound",
			`{"queryParam":"token","headerName":"Authorization","headerValue":"Bearer {value}"}`,
		},
		{"query-param-to-header-inbound", `{"headerName":"content-length","headerValue":"Bearer"}`},
		{"query-param-to-header-inbound", `{"queryParam":"","headerName":"X: y","headerValue":"{value}\n"}`},
	}
}

func transformOptions() []namedOptions {
	return []namedOptions{
		{"set-headers-inbound", `{"headers":[{"name":"X-User","value":"${request.user.sub}"}]}`},
		{"set-headers-inbound", `{"headers":[]}`},
		{"set-headers-inbound", `{"headers":{"X-User":"a"},"header":1}`},
		{
			"set-headers-inbound", `{"headers":[{"name":"Via","value":"a"},{"name":"a b","value":"${env.A}"},{"name":"X",` +
				`"value":"${x}${y"},{"name":"x","value":"a\nb"},{"value":"a"},{"name":"Y","value":""}]}`,
		},
		{
			"set-headers-outbound", `{"headers":[{"name":"Content-Length","value":"1"},{"name":"Via","value":"a",` +
				`"keepExisting":1}]}`,
		},
		{"remove-headers-inbound", `{"headers":["X-Debug","Host","x-debug",""]}`},
		{"remove-headers-outbound", `{"headers":["Server","Transfer-Encoding"]}`},
		{"rename-headers-inbound", `{"headers":[{"from":"X-A","to":"x-a"},{"from":"X-A","to":"Host"},{"from":"X-B"}]}`},
		{"rename-headers-outbound", `{"headers":[{"from":"X-A","to":"X-B"}]}`},
		{"set-query-params-inbound", `{"params":[{"name":"a","value":"${query.b}"},{"name":"a","value":"b"}]}`},
		{"remove-query-params-inbound", `{"params":[]}`},
		{"rename-query-params-inbound", `{"params":[{"from":"a","to":"a"},{"from":"a","to":"b"}]}`},
		{"set-status-outbound", `{"status":"404"}`},
		{"set-status-outbound", `{"status":101}`},
		{"request-size-limit-inbound", `{"maxBytes":1048576}`},
		{"request-size-limit-inbound", `{"maxBytes":-1}`},
		{"ip-restriction-inbound", `{"allow":["192.0.2.0/24","2001:db8::1, 198.51.100.7"],"deny":["::ffff:192.0.2.1"]}`},
		{"ip-restriction-inbound", `{}`},
		{"ip-restriction-inbound", `{"allow":["192.0.2.7/24","office",""],"deny":["fe80::1%eth0","192.0.2.0/33"]}`},
	}
}

func graphQLOptions() []namedOptions {
	return []namedOptions{
		{"graphql-complexity-limit-inbound", `{"maxDepth":0,"maxComplexity":"100"}`},
		{
			"graphql-complexity-limit-inbound",
			`{"useDepthLimit":{"depthLimit":5,"ignore":["edges"]},"useComplexityLimit":{"complexityLimit":100,` +
				`"endpointUrl":"https://up.example.com"}}`,
		},
		{"graphql-complexity-limit-inbound", `{}`},
		{"graphql-complexity-limit-inbound", `{"maxDepth":-1,"maxComplexity":0,"depth":5}`},
		{"graphql-complexity-limit-inbound", `{"maxDepth":1.5,"maxComplexity":null}`},
		{
			"graphql-complexity-limit-inbound",
			`{"maxDepth":5,"useDepthLimit":{"depthLimit":5,"ignore":["/^x/",""]},"maxComplexity":5,"useComplexityLimit":{}}`,
		},
		{"graphql-disable-introspection-inbound", `{}`},
		{"graphql-disable-introspection-inbound", `{"enabled":true}`},
		{"graphql-introspection-filter-outbound", `{"excludeTypes":["Secret"],"excludeTypeFields":{"User":["salary"]}}`},
		{"graphql-introspection-filter-outbound", `{}`},
		{
			"graphql-introspection-filter-outbound",
			`{"excludeTypes":["a b",""],"excludeTypeFields":{"User":"salary","a/b":["x"],"Order":[1,"a-b"]}}`,
		},
		{"graphql-introspection-filter-outbound", `{"excludeTypes":"Secret","excludeTypeFields":["User"]}`},
		{
			"graphql-analytics-outbound",
			`{"errorCodeClassification":{"NO_MONEY":"auth"},"defaultErrorClass":"timeout","logErrors":true,` +
				`"maxScanBytes":"5242880"}`,
		},
		{
			"graphql-analytics-outbound",
			`{"errorCodeClassification":{"a/b":"money","c":1},"defaultErrorClass":"other","logErrors":1,"maxScanBytes":5242881}`,
		},
	}
}

// TestOptionErrorsSayWhatToDo checks the texts that users read when a build fails because of options.
func TestOptionErrorsSayWhatToDo(t *testing.T) {
	var out strings.Builder
	for _, test := range slices.Concat(handlerOptions(), policyOptions(), transformOptions(), callerOptions(),
		graphQLOptions(), tokenOptions(), []namedOptions{{"moon-phase-inbound", `{}`}, {"set-header-inbound", `{}`}}) {
		c := project.Component{
			Export: test.name, Module: "$import(@gatewright/runtime)",
			Options: json.RawMessage(test.options),
		}
		if strings.HasPrefix(test.name, "graphql-") {
			c.Module = "$import(@gatewright/graphql)"
		}
		fmt.Fprintf(&out, "%s %s\n", test.name, test.options)
		problems := gateway.Catalog{}.CheckHandler(c)
		if !strings.HasSuffix(test.name, "Handler") {
			problems = gateway.Catalog{}.CheckPolicy(project.Policy{Name: "p", Type: test.name, Handler: c})
		}
		for _, p := range problems {
			fmt.Fprintf(&out, "    %s: %s\n", p.Path, p.Message)
		}
		if len(problems) == 0 {
			out.WriteString("    good\n")
		}
	}
	golden.Equal(t, "testdata/problems.txt", out.String())
}

func TestProjectModulesAreRefused(t *testing.T) {
	c := project.Component{Export: "default", Module: "$import(./modules/mine)"}
	if got := (gateway.Catalog{}).CheckHandler(c); len(got) != 1 || got[0].Path != "/module" {
		t.Errorf("CheckHandler(%s) = %v, want one problem at /module", c.Module, got)
	}
	if got := (gateway.Catalog{}).CheckPolicy(project.Policy{Type: "api-key-inbound", Handler: c}); len(got) != 1 ||
		got[0].Path != "/module" {
		t.Errorf("CheckPolicy(%s) = %v, want one problem at /module", c.Module, got)
	}
}

// TestTotalPatternBudgetIsReportedOnce checks that the budget of all patterns together is reported once if it is
// exceeded by several patterns, and that another problem is reported, too.
func TestTotalPatternBudgetIsReportedOnce(t *testing.T) {
	var routes []project.Route
	for i := range project.MaxPatterns + 20 {
		r := route(fmt.Sprintf("GET /%d", i), forward("https://up.example"))
		r.PathMode = project.URLPattern
		routes = append(routes, r)
	}
	routes = append(routes, route("GET /{", forward("https://up.example")))
	problems := gateway.Verify(t.Context(), artifact(routes...))
	if len(problems) != 2 || !strings.Contains(problems[0].Message, `the budget "patterns"`) ||
		strings.Contains(problems[1].Message, "budget") {
		t.Errorf("Verify() = %+v, want 2 problems, only the first about the budget of patterns", problems)
	}
}

// TestVerifyEndsWithItsContext checks that Verify leaves out routes after its context has ended.
func TestVerifyEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := artifact(route("GET /{", forward("https://up.example")))
	if problems := gateway.Verify(ctx, a); len(problems) > 0 {
		t.Errorf("Verify(canceled) = %+v, want no problems", problems)
	}
	if problems := gateway.Verify(t.Context(), a); len(problems) != 1 {
		t.Errorf("Verify() = %+v, want 1 problem", problems)
	}
}

func TestVerifyReportsGatewayErrors(t *testing.T) {
	a := artifact(
		route("GET /good/{id}", rewrite("${env.UPSTREAM}/${params.id}"), "key"),
		route("GET /param/{id}", rewrite("https://up/${params.other}")),
		route("GET /unset", forward("${env.UNSET}/v1")),
		route("GET /invalid", forward("${env.TOKEN}/v1")),
		route("GET /__gatewright/mine", forward("https://up")),
		route("GET /./__gatewright/mine", forward("https://up")),
		route("GET /{a}{b}", forward("https://up")),
		route("GET /unknown", forward("https://up"), "nothing"),
		route("GET /service", forward("service://Stock")),
		route("GET /redirects",
			component("urlForwardHandler", map[string]any{"baseUrl": "service://Stock", "followRedirects": true})),
		route("GET /rewritten-redirects",
			component("urlRewriteHandler", map[string]any{"rewritePattern": "${env.SERVICE}/x", "followRedirects": true})),
		route("GET /certificate",
			component("urlRewriteHandler", map[string]any{"baseUrl": "service://Stock", "mtlsCertificate": "mine"})),
		route("GET /secret-service", forward("service://${env.TOKEN}.example")),
		route("GET /bad-policy", forward("https://up"), "bad"),
	)
	a.Variables = map[string]string{"UPSTREAM": "https://up.example", "TOKEN": "s3cret", "SERVICE": "service://Stock"}
	wrongSide := route("GET /side", forward("https://up"))
	wrongSide.Outbound = []string{"key"}
	wrongSide.CORSPolicy = "nothing"
	a.Routes = append(a.Routes, wrongSide)
	declare(a, "key", "api-key-inbound", map[string]any{})
	declare(a, "bad", "rate-limit-inbound", map[string]any{"rateLimitBy": "all"})
	var out strings.Builder
	for _, p := range gateway.Verify(t.Context(), a) {
		fmt.Fprintf(&out, "%s %s: %s\n", p.File, p.Path, p.Message)
	}
	if strings.Contains(out.String(), "s3cret") {
		t.Errorf("Verify() repeats a variable's value, want none:\n%s", &out)
	}
	golden.Equal(t, "testdata/verify.txt", out.String())
}
