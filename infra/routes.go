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

	"github.com/gatewright/gatewright/shared/management/api"
)

// route is a method of a path of the REST API and the function behind it.
type route struct {
	method, path string
	function     string   // name of the function
	operations   []string // ids of the operations
}

const (
	// greedyVariable is the path variable that matches the rest of a path.
	greedyVariable = "{proxy+}"
	// anyMethod matches all methods that have no route of their own.
	anyMethod = "ANY"
)

// routesOf derives the REST API's routes from the operations of the functions in specs. The order of specs does not
// matter. A path segment with a dollar sign is matched by a variable, because an emulator refuses it as a literal
// segment. The function's own routing distinguishes this segment from other values of the variable. A parameter that
// can contain slashes, and the rest of the path after it, are matched by a greedy variable, because some platforms
// decode a path before they route it.
//
// Each path also has a route for the methods without an operation, so that a function responds with 405 and Allow. API
// Gateway itself would respond that the path does not exist. If the operations of a path belong to several functions,
// the first function by name gets these requests.
func routesOf(specs []functionSpec) ([]route, error) {
	type key struct{ path, method string }
	byKey := map[key]*route{}
	for _, f := range slices.SortedFunc(slices.Values(specs), func(a, b functionSpec) int {
		return strings.Compare(a.name, b.name)
	}) {
		for _, o := range f.routes {
			path, method := routePath(o), o.Method
			if strings.HasSuffix(path, greedyVariable) {
				method = anyMethod
			}
			r := byKey[key{path, method}]
			if r == nil {
				r = &route{method: method, path: path, function: f.name}
				byKey[key{path, method}] = r
			}
			if r.function != f.name {
				return nil, fmt.Errorf("%s %s would lead to two functions, %s and %s: change a path of %s",
					method, path, r.function, f.name, o.ID)
			}
			r.operations = append(r.operations, o.ID)
			if fallback := (key{path, anyMethod}); byKey[fallback] == nil {
				byKey[fallback] = &route{method: anyMethod, path: path, function: f.name}
			}
		}
	}
	var out []route
	for _, r := range byKey {
		slices.Sort(r.operations)
		out = append(out, *r)
	}
	slices.SortFunc(out, func(a, b route) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.method, b.method))
	})
	return out, nil
}

// withFallbackRoutes adds routes for the paths without an operation: the function of the first route responds to them.
// Without these routes API Gateway would respond itself. It would parse a bearer token as a signature of AWS, and its
// response would contain the token.
func withFallbackRoutes(routes []route) []route {
	for _, path := range []string{"/", "/" + greedyVariable} {
		if !slices.ContainsFunc(routes, func(r route) bool { return r.path == path && r.method == anyMethod }) {
			routes = append(routes, route{method: anyMethod, path: path, function: routes[0].function})
		}
	}
	return routes
}

// routePath returns the path of the route that matches an operation's path. API Gateway allows only one variable below
// a path, and cannot rename it. The name of a variable therefore depends only on the parts of the path before it: not
// on the operation's own parameter names, and not on other operations.
//
// A variable is named after the last literal part before it, with a number if that name is used already:
// /keys/{keys}/{keys_2}. Functions read the whole path, and not its variables.
func routePath(o api.Declaration) string {
	var out strings.Builder
	literal, counts := "root", map[string]int{}
	for part := range strings.SplitSeq(strings.Trim(o.Path, "/"), "/") {
		switch {
		case part == o.SlashParameter && part != "":
			return out.String() + "/" + greedyVariable
		case strings.HasPrefix(part, "{") || strings.Contains(part, "$"):
			counts[literal]++
			name := literal
			if n := counts[literal]; n > 1 {
				name = fmt.Sprintf("%s_%d", literal, n)
			}
			out.WriteString("/{" + name + "}")
		default:
			literal = part
			out.WriteString("/" + part)
		}
	}
	return out.String()
}

// restLogicalID returns the logical id of a REST API. If the id changes, an update creates a new API next to the old
// one. That is necessary for a change of the tree that API Gateway refuses (testdata/apis.txt). The management API had
// the id Api while the names of its variables depended on the order of declarations.
func restLogicalID(name string) string {
	if name == management {
		return "Rest"
	}
	return "Api"
}

// restAPI is an API without routes, in its own scope.
type restAPI struct {
	scope      constructs.Construct
	cfnAPI     awsapigateway.CfnRestApi
	properties *awsapigateway.CfnRestApiProps
}

// newRESTAPI creates a REST API without routes.
func newRESTAPI(stack awscdk.Stack, s Settings, name string) restAPI {
	api := restAPI{
		scope: constructs.NewConstruct(stack, jsii.String(logicalID(name))),
		properties: &awsapigateway.CfnRestApiProps{
			Name:                      jsii.Sprintf("gatewright-%s-%s", s.Stage, name),
			Description:               jsii.Sprintf("Gatewright %s (%s)", s.Stage, name),
			EndpointConfiguration:     &awsapigateway.CfnRestApi_EndpointConfigurationProperty{Types: jsii.Strings("REGIONAL")},
			BinaryMediaTypes:          binaryTypes(),
			DisableExecuteApiEndpoint: jsii.Bool(s.domain(name) != ""),
		},
	}
	api.cfnAPI = awsapigateway.NewCfnRestApi(api.scope, jsii.String(restLogicalID(name)), api.properties)
	return api
}

// addRoutes creates the routes of a REST API and deploys them to a stage.
func addRoutes(api restAPI, s Settings, name string, routes []route, fns map[string]*function) {
	tree := newTree(api.scope, api.cfnAPI, name)
	// The integration with each function is created only once, because each of its parts costs a call to the CDK's
	// process.
	integrations := map[string]*awsapigateway.CfnMethod_IntegrationProperty{}
	var content snapshot
	for _, r := range routes {
		f := fns[r.function]
		first := integrations[r.function] == nil
		if first {
			integrations[r.function] = integration(s, name, f)
		}
		method := &awsapigateway.CfnMethodProps{
			RestApiId: tree.restID, ResourceId: tree.resource(r.path), HttpMethod: &r.method,
			// The functions themselves authenticate callers, by account keys.
			AuthorizationType: jsii.String("NONE"),
			ApiKeyRequired:    jsii.Bool(false),
			Integration:       integrations[r.function],
		}
		content.add(method, awsapigateway.NewCfnMethod(tree.scope(methodsStackOf(r.path)), jsii.String(methodID(r)), method))
		if first {
			// One permission for the whole API: a permission for each method would exceed the 20 KB of a function's policy.
			f.allowInvoke(api.scope, "CalledBy"+logicalID(name), "apigateway.amazonaws.com",
				awscdk.Fn_Join(jsii.String(""), &[]*string{
					jsii.String("arn:"), awscdk.Aws_PARTITION(), jsii.String(":execute-api:"), awscdk.Aws_REGION(),
					jsii.String(":"), awscdk.Aws_ACCOUNT_ID(), jsii.String(":"), api.cfnAPI.Ref(), jsii.String("/*"),
				}), nil)
		}
	}
	tree.chain()
	newGatewayResponses(api, &content)
	content.newStage(api, s, name, s.throttles(name, routes, fns))
}

// integration returns the integration that passes a route's requests to a function.
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

// binaryTypes returns the media types of the bodies that API Gateway passes unchanged. Bodies of the gateway can have
// any type, and the management API responds with compressed files of the console. The type is */* because API Gateway
// compares only the first type that a request accepts, which is */* for a script. With this setting request bodies are
// in base64, which limits them to 4.5 MB. No operation accepts larger bodies.
func binaryTypes() *[]*string { return jsii.Strings("*/*") }

// platformResponse is a response that API Gateway itself sends, without calling a function. retryAfter is the
// Retry-After in seconds, or "".
type platformResponse struct{ kind, status, title, detail, retryAfter string }

// floodSeconds is the period for which the web ACL counts the requests of an address.
const floodSeconds = "300"

// platformResponses returns the responses that replace API Gateway's own.
func platformResponses() []platformResponse {
	const noOperation = "There is no such operation. GET /openapi lists them all."
	return []platformResponse{
		{"MISSING_AUTHENTICATION_TOKEN", "404", "Not Found", noOperation, ""},
		{"RESOURCE_NOT_FOUND", "404", "Not Found", noOperation, ""},
		{"INVALID_SIGNATURE", "404", "Not Found", noOperation, ""},
		{"REQUEST_TOO_LARGE", "413", "Request Entity Too Large", "The body is larger than what the platform takes: 6 MB of " +
			"text, or 4.5 MB of anything else. Send less at once.", ""},
		{
			"THROTTLED", "429", "Too Many Requests",
			"The installation takes no more requests at the moment. Repeat this one later.", "1",
		},
		{"WAF_FILTERED", "429", "Too Many Requests", "The installation takes no more requests from this address at the " +
			"moment. Repeat this one in five minutes.", floodSeconds},
		{
			"INTEGRATION_TIMEOUT", "504", "Gateway Timeout",
			"The function took too long. Read what the request is about before repeating a change.", "",
		},
		{
			"INTEGRATION_FAILURE", "502", "Bad Gateway",
			"The function failed. Read what the request is about before repeating a change.", "",
		},
		{
			"DEFAULT_4XX", "400", "Bad Request",
			"The platform cannot read this request. Check its path, its headers and its body.", "",
		},
		{
			"DEFAULT_5XX", "500", "Internal Server Error",
			"Something went wrong on our side. Read what the request is about before repeating a change.", "",
		},
	}
}

// newGatewayResponses replaces responses of the platform itself with problem documents (contract 1.2). They do not
// contain the texts of $context.error, which repeat headers of the request.
func newGatewayResponses(api restAPI, content *snapshot) {
	for _, r := range platformResponses() {
		headers := map[string]*string{"gatewayresponse.header.Content-Type": jsii.String("'application/problem+json'")}
		if r.retryAfter != "" {
			headers["gatewayresponse.header.Retry-After"] = jsii.String("'" + r.retryAfter + "'")
		}
		response := &awsapigateway.CfnGatewayResponseProps{
			RestApiId: api.cfnAPI.Ref(), ResponseType: jsii.String(r.kind), StatusCode: jsii.String(r.status),
			ResponseTemplates: &map[string]*string{"application/json": jsii.Sprintf(
				`{"type":"https://httpproblems.com/http-status/%s","title":%q,"status":%s,"detail":%q,"instance":"$context.path",`+
					`"trace":{"requestId":"$context.requestId"}}`, r.status, r.title, r.status, r.detail)},
			ResponseParameters: &headers,
		}
		content.add(response,
			awsapigateway.NewCfnGatewayResponse(api.scope, jsii.String("Answer"+logicalID(strings.ToLower(r.kind))), response))
	}
}

// methodID returns the logical id of the method of a route.
func methodID(r route) string {
	return strings.ToUpper(r.method[:1]) + strings.ToLower(r.method[1:]) + shortDigest(r.path)
}

// shortDigest returns the beginning of a text's digest, as a part of a logical id.
func shortDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToUpper(hex.EncodeToString(sum[:5]))
}

// logicalID converts a name to a part of a logical id.
func logicalID(name string) string {
	var out strings.Builder
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '-' || r == '_' }) {
		out.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return out.String()
}
