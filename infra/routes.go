package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/api"
)

// route is a method of a path of the REST API and the function behind it.
type route struct {
	method, path string
	function     string
	operations   []string
}

const (
	// greedy is the path variable that takes everything below it.
	greedy = "{proxy+}"
	// anyMethod takes every method that has no route of its own.
	anyMethod = "ANY"
)

// routesOf derives the REST API's routes from declarations, whatever their order. A
// segment with a dollar rides on its parent's variable child, since an emulator
// refuses it as a part of its own; the function's own routing tells them apart.
// From a parameter that may hold slashes on, a greedy variable takes the rest:
// some platforms decode a path before they route it.
//
// Each path takes the methods that no operation has as well, so that a function
// answers 405 with Allow; the platform would say that the path does not exist.
// Where a path's operations are of several functions, it is the first by name.
func routesOf(fs []declared) ([]route, error) {
	type key struct{ path, method string }
	found := map[key]*route{}
	for _, f := range slices.SortedFunc(slices.Values(fs), func(a, b declared) int { return strings.Compare(a.name, b.name) }) {
		for _, o := range f.routes {
			path, method := routePath(o), o.Method
			if strings.HasSuffix(path, greedy) {
				method = anyMethod
			}
			r := found[key{path, method}]
			if r == nil {
				r = &route{method: method, path: path, function: f.name}
				found[key{path, method}] = r
			}
			if r.function != f.name {
				return nil, fmt.Errorf("%s %s would lead to two functions, %s and %s: change a path of %s",
					method, path, r.function, f.name, o.ID)
			}
			r.operations = append(r.operations, o.ID)
			if rest := (key{path, anyMethod}); found[rest] == nil {
				found[rest] = &route{method: anyMethod, path: path, function: f.name}
			}
		}
	}
	var out []route
	for _, r := range found {
		slices.Sort(r.operations)
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b route) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	return out, nil
}

// withUnknown adds routes for the paths that no operation has: the function of the first route answers them. Without these routes API Gateway
// answers itself. It would take a bearer token for a signature of AWS, and its own answer would contain the token.
func withUnknown(routes []route) []route {
	for _, path := range []string{"/", "/" + greedy} {
		if !slices.ContainsFunc(routes, func(r route) bool { return r.path == path && r.method == anyMethod }) {
			routes = append(routes, route{method: anyMethod, path: path, function: routes[0].function})
		}
	}
	return routes
}

// routePath returns the path of the route that an operation's path takes. What its
// variables are called follows from the parts before them and from nothing else:
// API Gateway takes one variable child of a path, and no other one in its place
// while it is there. So no operation renames a path of others, whatever it calls
// its parameters and wherever its group stands.
//
// A variable is called as the last part before it that is none, and counted where
// there were such: /keys/{keys}/{keys_2}. A function reads the whole path, and no
// variable.
func routePath(o api.Declaration) string {
	var out strings.Builder
	last, named := "root", map[string]int{}
	for part := range strings.SplitSeq(strings.Trim(o.Path, "/"), "/") {
		switch {
		case part == o.Slashed && part != "":
			return out.String() + "/" + greedy
		case strings.HasPrefix(part, "{") || strings.Contains(part, "$"):
			named[last]++
			name := last
			if n := named[last]; n > 1 {
				name = fmt.Sprintf("%s_%d", last, n)
			}
			out.WriteString("/{" + name + "}")
		default:
			last = part
			out.WriteString("/" + part)
		}
	}
	return out.String()
}

// restID is what CloudFormation calls a REST API. Another one is another API, beside
// the old one while an installation is updated: a change of its tree that API
// Gateway refuses needs it (testdata/apis.txt). The management API was called Api
// while the order of declarations decided what its variables were called.
func restID(name string) string {
	if name == management {
		return "Rest"
	}
	return "Api"
}

// front is an API that has no routes yet, in a scope of its own.
type front struct {
	scope      constructs.Construct
	rest       awsapigateway.CfnRestApi
	properties *awsapigateway.CfnRestApiProps
}

// newFront makes a REST API without routes.
func newFront(stack awscdk.Stack, s Settings, name string) front {
	f := front{scope: constructs.NewConstruct(stack, jsii.String(exported(name))), properties: &awsapigateway.CfnRestApiProps{
		Name:                      jsii.Sprintf("gatewright-%s-%s", s.Stage, name),
		Description:               jsii.Sprintf("Gatewright %s (%s)", s.Stage, name),
		EndpointConfiguration:     &awsapigateway.CfnRestApi_EndpointConfigurationProperty{Types: jsii.Strings("REGIONAL")},
		BinaryMediaTypes:          binaryTypes(),
		DisableExecuteApiEndpoint: jsii.Bool(s.domain(name) != ""),
	}}
	f.rest = awsapigateway.NewCfnRestApi(f.scope, jsii.String(restID(name)), f.properties)
	return f
}

// addRoutes gives a REST API its routes, deployed to a stage.
func addRoutes(api front, s Settings, name string, routes []route, fs map[string]*function) {
	tree := newTree(api.scope, api.rest, name)
	// The integration with each function, made once: each of its parts is asked of the CDK's process.
	integrations := map[string]*awsapigateway.CfnMethod_IntegrationProperty{}
	var served snapshot
	for _, r := range routes {
		f := fs[r.function]
		first := integrations[r.function] == nil
		if first {
			integrations[r.function] = integration(s, name, f)
		}
		method := &awsapigateway.CfnMethodProps{
			RestApiId: tree.restID, ResourceId: tree.resource(r.path), HttpMethod: &r.method,
			// Callers are authenticated by the functions: keys are our own.
			AuthorizationType: jsii.String("NONE"),
			ApiKeyRequired:    jsii.Bool(false),
			Integration:       integrations[r.function],
		}
		served.add(method, awsapigateway.NewCfnMethod(tree.scope(methodsOf(r.path)), jsii.String(methodID(r)), method))
		if first {
			// One permission for the whole API: one for each method would
			// outgrow the 20 KB that a function's policy may have.
			f.permit(api.scope, "CalledBy"+exported(name), "apigateway.amazonaws.com", awscdk.Fn_Join(jsii.String(""), &[]*string{
				jsii.String("arn:"), awscdk.Aws_PARTITION(), jsii.String(":execute-api:"), awscdk.Aws_REGION(),
				jsii.String(":"), awscdk.Aws_ACCOUNT_ID(), jsii.String(":"), api.rest.Ref(), jsii.String("/*"),
			}), nil)
		}
	}
	tree.chain()
	newGatewayResponses(api, &served)
	served.newStage(api, s, name, s.throttles(name, routes, fs))
}

// integration hands a route's requests to a function.
func integration(s Settings, name string, f *function) *awsapigateway.CfnMethod_IntegrationProperty {
	uri := func(version, suffix string) *string {
		return awscdk.Fn_Join(jsii.String(""), &[]*string{
			jsii.String("arn:"), awscdk.Aws_PARTITION(), jsii.String(":apigateway:"), awscdk.Aws_REGION(),
			jsii.String(":lambda:path/" + version + "/functions/"), f.alias.Ref(), jsii.String(suffix),
		})
	}
	out := &awsapigateway.CfnMethod_IntegrationProperty{
		Type: jsii.String("AWS_PROXY"), IntegrationHttpMethod: jsii.String("POST"), Uri: uri("2015-03-31", "/invocations"),
	}
	if s.Streaming && name == gateway {
		out.Uri = uri("2021-11-15", "/response-streaming-invocations")
		out.ResponseTransferMode = jsii.String("STREAM")
		out.TimeoutInMillis = jsii.Number(float64(streamTimeout.Milliseconds()))
	}
	return out
}

// binaryTypes has bodies passed through as they are: the gateway's are anything, and the management API answers the
// console's files compressed. API Gateway looks at the first type alone that a request accepts, which is any for a script.
// Bodies that come in are in base64 then, of which it takes 4.5 MB; no operation takes as much.
func binaryTypes() *[]*string { return jsii.Strings("*/*") }

// platformAnswer is an answer of API Gateway without a function. retryAfter is the Retry-After in seconds, "" for none.
type platformAnswer struct{ kind, status, title, detail, retryAfter string }

// floodSeconds is the time over which the web ACL counts the requests of an address.
const floodSeconds = "300"

func platformAnswers() []platformAnswer {
	const noOperation = "There is no such operation. GET /openapi lists them all."
	return []platformAnswer{
		{"MISSING_AUTHENTICATION_TOKEN", "404", "Not Found", noOperation, ""},
		{"RESOURCE_NOT_FOUND", "404", "Not Found", noOperation, ""},
		{"INVALID_SIGNATURE", "404", "Not Found", noOperation, ""},
		{"REQUEST_TOO_LARGE", "413", "Request Entity Too Large", "The body is larger than what the platform takes: 6 MB of text, or 4.5 MB of anything else. Send less at once.", ""},
		{"THROTTLED", "429", "Too Many Requests", "The installation takes no more requests at the moment. Repeat this one later.", "1"},
		{"WAF_FILTERED", "429", "Too Many Requests", "The installation takes no more requests from this address at the moment. Repeat this one in five minutes.", floodSeconds},
		{"INTEGRATION_TIMEOUT", "504", "Gateway Timeout", "The function took too long. Read what the request is about before repeating a change.", ""},
		{"INTEGRATION_FAILURE", "502", "Bad Gateway", "The function failed. Read what the request is about before repeating a change.", ""},
		{"DEFAULT_4XX", "400", "Bad Request", "The platform cannot read this request. Check its path, its headers and its body.", ""},
		{"DEFAULT_5XX", "500", "Internal Server Error", "Something went wrong on our side. Read what the request is about before repeating a change.", ""},
	}
}

// newGatewayResponses makes problem documents of what the platform answers
// itself (contract 1.2). They contain nothing of $context.error, whose texts repeat headers of the request.
func newGatewayResponses(api front, served *snapshot) {
	for _, r := range platformAnswers() {
		headers := map[string]*string{"gatewayresponse.header.Content-Type": jsii.String("'application/problem+json'")}
		if r.retryAfter != "" {
			headers["gatewayresponse.header.Retry-After"] = jsii.String("'" + r.retryAfter + "'")
		}
		answer := &awsapigateway.CfnGatewayResponseProps{
			RestApiId: api.rest.Ref(), ResponseType: jsii.String(r.kind), StatusCode: jsii.String(r.status),
			ResponseTemplates: &map[string]*string{"application/json": jsii.Sprintf(
				`{"type":"https://httpproblems.com/http-status/%s","title":%q,"status":%s,"detail":%q,"instance":"$context.path",`+
					`"trace":{"requestId":"$context.requestId"}}`, r.status, r.title, r.status, r.detail)},
			ResponseParameters: &headers,
		}
		served.add(answer, awsapigateway.NewCfnGatewayResponse(api.scope, jsii.String("Answer"+exported(strings.ToLower(r.kind))), answer))
	}
}

func methodID(r route) string {
	return strings.ToUpper(r.method[:1]) + strings.ToLower(r.method[1:]) + digest(r.path)
}

// digest makes a short part of a logical id.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToUpper(hex.EncodeToString(sum[:5]))
}

// exported makes a logical id's part of a name.
func exported(name string) string {
	var out strings.Builder
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '_' }) {
		out.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return out.String()
}
