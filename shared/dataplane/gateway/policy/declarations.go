package policy

import (
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
)

// Declaration describes a type of policies, for documentation and editors.
type Declaration struct {
	Type      string
	Module    string
	Direction Direction
	// Summary says in one sentence what the policy does. It is in Markdown.
	Summary string
	Options []options.Option
}

// Declarations returns the declarations of all types, sorted by type.
func Declarations() []Declaration {
	kinds := builtins()
	var out []Declaration
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		k, text := kinds[name], descriptions()[name]
		out = append(out, Declaration{
			Type: name, Module: k.module, Direction: k.direction, Summary: text.summary,
			Options: options.Describe(k.defaults, text.options),
		})
	}
	return out
}

// ModuleOf returns the module of policies of a type, "" for an unknown type.
func ModuleOf(policyType string) string { return builtins()[policyType].module }

// description has the texts about a type of policies: a sentence about the type, and one about each of its options
// (options.Describe).
type description struct {
	summary string
	options map[string]string
}

// These descriptions are the same for several types.
const (
	headerName = "the name of the header"
	valueText  = "the value. It can contain values of the request, such as `${request.user.sub}` or " +
		"`${headers.accept}`"
	keepExisting   = "keeps the value of a message that has one already"
	anonymousKey   = "lets requests without a valid key through, without a user"
	headersInText  = "headers of the request that the upstream gets"
	headersOutText = "headers of the response that the client gets"
)

// setDescriptions returns the descriptions of the options that set headers or parameters. list is the name of the option
// with the list.
func setDescriptions(list, text, name string) map[string]string {
	return map[string]string{
		list: text, list + ".name": name, list + ".value": valueText, list + ".keepExisting": keepExisting,
	}
}

// renameDescriptions is setDescriptions for options that rename.
func renameDescriptions(list, text string) map[string]string {
	return map[string]string{
		list: text, list + ".from": "the old name",
		list + ".to": "the new name. It replaces an existing value with this name",
	}
}

// descriptions returns the descriptions of all types.
func descriptions() map[string]description {
	all := map[string]description{
		setHeadersInType:  {"Sets " + headersInText + ".", setDescriptions("headers", "the headers to set", headerName)},
		setHeadersOutType: {"Sets " + headersOutText + ".", setDescriptions("headers", "the headers to set", headerName)},
		removeHeadersInType: {
			"Removes " + headersInText + ".", map[string]string{"headers": "the names of the headers to remove"},
		},
		removeHeadersOutType: {
			"Removes " + headersOutText + ".", map[string]string{"headers": "the names of the headers to remove"},
		},
		renameHeadersInType:  {"Renames " + headersInText + ".", renameDescriptions("headers", "the headers to rename")},
		renameHeadersOutType: {"Renames " + headersOutText + ".", renameDescriptions("headers", "the headers to rename")},
		setQueryType: {
			"Sets query parameters of the request that the upstream gets.",
			setDescriptions("params", "the parameters to set", "the name of the parameter"),
		},
		removeQueryType: {
			"Removes query parameters of the request that the upstream gets.",
			map[string]string{"params": "the names of the parameters to remove"},
		},
		renameQueryType: {
			"Renames query parameters of the request that the upstream gets.",
			renameDescriptions("params", "the parameters to rename"),
		},
		setStatusType: {"Replaces the status of responses.", map[string]string{"status": "the new status"}},
		sizeLimitType: {
			"Refuses requests with a body that is too large (413), also without a `Content-Length`.",
			map[string]string{"maxBytes": "the maximum size of a body in bytes"},
		},
		authorizeType: {
			"Refuses requests for which an expression is not true (403).",
			map[string]string{"expression": "the expression in CEL, such as `user.data.plan == 'gold'`"},
		},
		ipRestrictionType: {
			"Refuses requests by the address of the client (403).",
			map[string]string{
				"allow": "admits only these addresses and ranges, such as `192.0.2.7` or `2001:db8::/32`",
				"deny":  "refuses these addresses and ranges, even if `allow` has them",
			},
		},
	}
	maps.Copy(all, trafficDescriptions())
	maps.Copy(all, graphQLDescriptions())
	maps.Copy(all, callerDescriptions())
	maps.Copy(all, jwtDescriptions())
	maps.Copy(all, authRequestDescriptions())
	maps.Copy(all, introspectionDescriptions())
	maps.Copy(all, compositeDescriptions())
	return all
}

// trafficDescriptions returns the descriptions of the types that identify, count and validate.
func trafficDescriptions() map[string]description {
	const part = "what happens to a request whose part does not match: `reject` refuses it, `log` logs the errors and " +
		"admits it, `none` does not check the part"
	return map[string]description{
		apiKeyType: {
			"Admits requests with an API key of a key bucket.", map[string]string{
				"allowUnauthenticatedRequests": anonymousKey, "authHeader": "the header with the key",
				"authScheme": "the word before the key, `\"\"` if the header has only the key",
				"bucketId":   "the id of the key bucket", "bucketName": "the name of the key bucket",
				"cacheTtlSeconds": "how many seconds the gateway uses the result of a check: a revoked key works at most " +
					"so long",
			},
		},
		mtlsType: {
			"Admits requests of clients with a certificate of one of the account's CAs.", map[string]string{
				"allowUnauthenticatedRequests": "lets requests without such a certificate through, without a user",
				"certIssuerDN": "the issuer of the client's certificate, as RFC 2253 writes names: " +
					"`CN=Partners CA, O=Acme`",
			},
		},
		rateLimitType: {
			"Refuses requests beyond a limit in a window of time (429).", map[string]string{
				"rateLimitBy":     "the requests that share a limit: those of a user, of an address (`ip`), or `all`",
				"requestsAllowed": "the number of requests in a window", "timeWindowMinutes": "the length of a window",
				"headerMode": "`retry-after` sends the limit with each response, in `RateLimit-Policy` and `RateLimit`, and with " +
					"status 429 in `Retry-After`. `none` sends none of these headers",
				"throwOnFailure": "answers 503 if the requests cannot be counted. Otherwise such requests are admitted",
				"mode": "`strict` never admits more than the limit, over all gateways. `async` does not wait, and can admit " +
					"more",
				"identifier": "refused: it names code of the project",
			},
		},
		quotaType: {
			"Counts requests for the subscriptions of customers, and refuses those beyond their quota (429).",
			map[string]string{
				"bucketId": "the id of the metering bucket, `mtr_…`",
				"meters": "the units that a request counts, by the names of meters: a whole number, or an object if the " +
					"response has the number",
				"customerKey":      "where the customer is, if it is not the user's `sub`",
				"customerKey.data": "a JSON pointer into the metadata of the consumer",
				"allowedStatuses":  "the statuses of subscriptions that admit requests",
				"onError":          "what happens to a request that cannot be counted: `closed` answers 503, `open` admits it",
				"headerMode":       "`none` sends no headers about the quota",
				"idempotencyKeys":  "counts requests with the same `Idempotency-Key` once",
			},
		},
		queryParamType: {
			"Moves a query parameter into a header, for clients that cannot send headers.", map[string]string{
				"queryParam": "the parameter", "headerName": "the header",
				"headerValue":   "the value of the header, with `{value}` where the value of the parameter goes",
				"removeFromUrl": "removes the parameter from the query",
			},
		},
		requestValidationType: {
			"Refuses requests that do not match the OpenAPI description of their route.", map[string]string{
				"pathParameters": part, "queryParameters": part, "headers": part, "cookies": part, "body": part,
				"unknownQuery": "`reject` refuses query parameters that the description does not have",
				"maxBodyBytes": "the maximum size of a body in bytes, before and after it is decompressed",
			},
		},
		responseValidationType: {
			"Compares responses of the upstream with the OpenAPI description of their route.", map[string]string{
				"mode": "`log` forwards a response, and checks its body afterwards. `reject` reads the body first, and " +
					"replaces a response that does not match with a 502 problem",
				"sampleRate": "the share of responses that are checked, above 0",
			},
		},
	}
}

// graphQLDescriptions returns the descriptions of the types for GraphQL routes.
func graphQLDescriptions() map[string]description {
	const otherForm = "another form of `"
	return map[string]description{
		complexityType: {
			"Refuses GraphQL documents that are nested too deeply or request too much.", map[string]string{
				"maxDepth": "the maximum depth", "maxComplexity": "the maximum complexity",
				"useDepthLimit": otherForm + "maxDepth`", "useDepthLimit.depthLimit": "the maximum depth",
				"useDepthLimit.ignore":               "the names of at most 50 fields that add nothing to the depth",
				"useComplexityLimit":                 otherForm + "maxComplexity`",
				"useComplexityLimit.complexityLimit": "the maximum complexity",
				"useComplexityLimit.endpointUrl":     "has no effect: no schema is needed",
			},
		},
		introspectionType: {"Refuses GraphQL introspection (403).", nil},
		filterType: {
			"Removes types and fields from GraphQL introspection.", map[string]string{
				"excludeTypes": "the names of types",
				"excludeTypeFields": "the names of fields, input fields and enum values, by the names of their types: " +
					"`{\"User\": [\"salary\"]}`",
			},
		},
		analyticsType: {
			"Counts GraphQL operations for analytics.", map[string]string{
				"errorCodeClassification": "the classes of errors by their code: `{\"NO_MONEY\": \"auth\"}`",
				"defaultErrorClass":       "the class of errors without another class",
				"logErrors":               "writes a line to the log for each response with errors",
				"maxScanBytes":            "the number of bytes of a response that are read",
			},
		},
	}
}
