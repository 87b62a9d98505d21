// Package policy has the built-in policies of routes (contract 4.5). Each type has a constructor that reads
// options and reports all their problems, so that an invalid project fails its build and not its first request.
//
// To add a policy, add its constructor, an entry in builtins, a description in declarations.go, and a page in docs. Each
// type declares its options once, as a struct with tags (package options). The documentation and the JSON Schema for
// editors (schema.go) are derived from these declarations.
// CORS policies are not in this package: package gateway applies them.
//
// Read this file first. apikey.go and keycache.go check keys, ratelimit.go limits rates, and mtls.go checks
// client certificates. jwt.go checks tokens with package jwt, and jwtscopes.go their scopes. basicauth.go checks
// passwords, webhook.go signatures, and abuse.go blocks callers that fail too often. when.go runs policies on a
// condition, and authorize.go refuses requests by an expression. authrequest.go asks a service, and introspection.go an
// authorization server. composite.go has the policies that contain others. headers.go and query.go change messages, and protect.go refuses requests by their size or by the
// client's address. security.go compares the policies of a route with the security schemes of its OpenAPI document.
// quota.go enforces the quotas of customers' subscriptions, with reservations.go (a repeated request is counted once) and
// amount.go (units that a response reports). Interfaces to the installation are declared where they are used: Keys,
// Allowances, Clients, SubscriptionReader, Quotas and Operations.
//
// The policies for GraphQL routes begin in graphql.go, which reads requests for all of
// them: graphqlcost.go, graphqlintrospection.go, graphqlfilter.go and graphqlanalytics.go.
package policy

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gatewright/gatewright/shared/base/spelling"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/graphql"
	"github.com/gatewright/gatewright/shared/format/project"
)

// RuntimeModule is the module of the built-in policies.
const RuntimeModule = "$import(@gatewright/runtime)"

// Setup has the dependencies of policies.
type Setup struct {
	// Identity identifies the deployment and its owner.
	Identity project.Identity
	Keys     *KeyCache
	// Buckets are the artifact's buckets, by the names of policies.
	Buckets map[string]project.KeyBucket
	// Variables are the artifact's variables, by their names.
	Variables map[string]string
	// Member returns a policy of the project, for policies that contain others.
	Member func(name string) Provisioned
	// Allowances counts for rate limits.
	Allowances Allowances
	// ClientVerifier verifies client certificates; nil trusts no certificate.
	ClientVerifier ClientVerifier
	// Subscriptions and Quotas are for quota-inbound. If they are nil, requests can't be counted.
	Subscriptions SubscriptionReader
	Quotas        Quotas
	// Documents caches results for GraphQL documents, nil for no cache.
	Documents *graphql.Cache
	// Operations counts GraphQL operations; nil counts nothing.
	Operations Operations
	// ResponseMemory bounds the bytes of responses that are kept in memory to be validated. nil means no bound.
	ResponseMemory *semaphore.Weighted
	// CheckSlots bounds the bytes of the bodies that are validated at the same time (NewCheckSlots), nil for no bound.
	CheckSlots *semaphore.Weighted
	// Memory has what policies remember about callers. With nil, each policy remembers for itself.
	Memory *Memory
	// Tokens caches verified tokens and the keys of their issuers; nil caches nothing.
	Tokens *jwt.Cache
	// Upstream fetches the keys of issuers. It dials only addresses that the installation allows.
	Upstream http.RoundTripper
	// Log receives the warnings of policies. One of them is the line for a request that quota-inbound could
	// not count. If Metrics is set, that line is also a metric, with the time of Now.
	Log     *slog.Logger
	Metrics bool
	Now     func() time.Time
}

// Provisioned is a policy that was created from its options. If the options have no problems, exactly one of its fields
// is set.
type Provisioned struct {
	Inbound  pipeline.Inbound
	Outbound pipeline.Outbound
}

// Direction says whether a policy runs before or after a route's handler.
type Direction string

// The directions.
const (
	Inbound  Direction = "inbound"
	Outbound Direction = "outbound"
)

// kind is a type of policy.
type kind struct {
	direction Direction
	module    string
	// defaults is the struct of the options, with the values of options that a project does not set.
	defaults any
	// implements is set for policies that identify the user of a request. It reports whether the policy p, which lets no
	// anonymous requests through, implements a security scheme. earlier are the inbound policies of the route before p.
	implements func(scheme project.SecurityScheme, p project.Policy, earlier []project.Policy) bool
	// credentialHeader is set for policies that read credentials from a header, and returns its name.
	credentialHeader func(project.Policy) string
	// validates is set for policies that compare requests (inbound policies) or responses (outbound policies) with the
	// description of their route.
	validates bool
	// whenProblem is why policies of this type cannot have a condition (project.Policy.When) that uses the response, or
	// "" if they can. If unconditional is set, they cannot have any condition.
	whenProblem   string
	unconditional bool
	// provision reads the options of the policy called name. With a nil Setup, as in a build, only the problems matter.
	provision func(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem)
}

// builtins returns all policies by their policyType.
func builtins() map[string]kind {
	all := map[string]kind{
		apiKeyType: {
			direction: Inbound, module: RuntimeModule, defaults: defaultAPIKeyOptions(), implements: apiKeyImplements,
			credentialHeader: apiKeyHeader, provision: newAPIKey,
		},
		basicAuthType: {
			direction: Inbound, module: RuntimeModule, defaults: defaultBasicAuthOptions(), implements: basicAuthImplements,
			credentialHeader: basicAuthHeader, provision: newBasicAuth,
		},
		webhookType: {
			direction: Inbound, module: RuntimeModule, defaults: defaultWebhookOptions(), provision: newWebhook,
		},
		abuseType: {
			direction: Inbound, module: RuntimeModule, defaults: abuseOptions{}, provision: newAbuse,
		},
		mtlsType: {
			direction: Inbound, module: RuntimeModule, defaults: mtlsOptions{}, implements: mtlsImplements, provision: newMTLS,
		},
		authorizeType: {
			direction: Inbound, module: RuntimeModule, defaults: authorizeOptions{}, provision: newAuthorize,
		},
		quotaType: {
			direction: Inbound, module: RuntimeModule, defaults: defaultQuotaOptions(), provision: newQuota,
		},
		rateLimitType: {
			direction: Inbound, module: RuntimeModule, defaults: defaultRateLimitOptions(), provision: newRateLimit,
		},
		queryParamType: {
			direction: Inbound, module: RuntimeModule, defaults: defaultQueryParamOptions(), provision: newQueryParam,
		},
		setQueryType: {
			direction: Inbound, module: RuntimeModule, defaults: setQueryOptions{}, provision: newSetQuery,
		},
		removeQueryType: {
			direction: Inbound, module: RuntimeModule, defaults: removeQueryOptions{}, provision: newRemoveQuery,
		},
		renameQueryType: {
			direction: Inbound, module: RuntimeModule, defaults: renameQueryOptions{}, provision: newRenameQuery,
		},
		setHeadersInType:     headerKind(Inbound, setHeadersOptions{}, newSetHeaders),
		setHeadersOutType:    headerKind(Outbound, setHeadersOptions{}, newSetHeaders),
		removeHeadersInType:  headerKind(Inbound, removeHeadersOptions{}, newRemoveHeaders),
		removeHeadersOutType: headerKind(Outbound, removeHeadersOptions{}, newRemoveHeaders),
		renameHeadersInType:  headerKind(Inbound, renameHeadersOptions{}, newRenameHeaders),
		renameHeadersOutType: headerKind(Outbound, renameHeadersOptions{}, newRenameHeaders),
		setStatusType: {
			direction: Outbound, module: RuntimeModule, defaults: setStatusOptions{}, provision: newSetStatus,
		},
		sizeLimitType: {
			direction: Inbound, module: RuntimeModule, defaults: sizeLimitOptions{}, provision: newSizeLimit,
		},
		ipRestrictionType: {
			direction: Inbound, module: RuntimeModule, defaults: ipRestrictionOptions{}, provision: newIPRestriction,
		},
		requestValidationType: {
			direction: Inbound, module: RuntimeModule, defaults: defaultRequestValidation(), validates: true,
			provision: newRequestValidation,
		},
		responseValidationType: {
			direction: Outbound, module: RuntimeModule, defaults: defaultResponseValidation(), validates: true,
			provision: newResponseValidation,
		},
	}
	maps.Copy(all, graphQLBuiltins())
	maps.Copy(all, jwtBuiltins())
	maps.Copy(all, authRequestBuiltins())
	maps.Copy(all, introspectionBuiltins())
	maps.Copy(all, compositeBuiltins())
	return all
}

// graphQLBuiltins returns the policies for GraphQL routes.
func graphQLBuiltins() map[string]kind {
	return map[string]kind{
		complexityType: {
			direction: Inbound, module: GraphQLModule, defaults: complexityOptions{}, provision: newComplexityLimit,
		},
		introspectionType: {
			direction: Inbound, module: GraphQLModule, defaults: introspectionOptions{}, provision: newDisableIntrospection,
		},
		filterType: {
			direction: Outbound, module: GraphQLModule, defaults: filterOptions{}, provision: newIntrospectionFilter,
			whenProblem: "Remove response from this condition: the policy changes the request, before there is a response.",
		},
		analyticsType: {
			direction: Outbound, module: GraphQLModule, defaults: defaultAnalyticsOptions(), provision: newAnalytics,
			whenProblem:   "Remove this condition: policies of this type count all operations of their routes.",
			unconditional: true,
		},
	}
}

// unknownType returns the message about a type that does not exist.
func unknownType(policyType string) string {
	const lettersPerTypo = 4
	all := slices.Sorted(maps.Keys(builtins()))
	if nearest, ok := spelling.Nearest(policyType, all, min(len(policyType), 64)/lettersPerTypo); ok {
		return fmt.Sprintf("There is no policy type of this name: %s", spelling.DidYouMean(nearest))
	}
	return "Use one of the policy types that exist: " + strings.Join(all, ", ") + "."
}

// Check returns the problems of a policy's declaration, before variables are
// substituted. Pointers are relative to the policy's handler, except "/policyType" and "/when".
func Check(p project.Policy) []project.Problem {
	_, problems := provision(p, nil)
	return problems
}

// WarnInbound returns warnings about a route's inbound policies that are valid, but probably a mistake. all are the
// route's inbound policies, in their order. The key of a warning is the index of its policy in all.
func WarnInbound(all []project.Policy) map[int]string {
	kinds, warnings, identified := builtins(), map[int]string{}, false
	for i, p := range all {
		identified = identified || kinds[p.Type].implements != nil
		if text := warnJWT(p, all[:i]); text != "" {
			warnings[i] = text
		}
		if p.Type == rateLimitType && !identified && limitsUsers(p.Handler.Options) {
			warnings[i] = fmt.Sprintf("This limits by user, and no policy before it says who the user is: each client's "+
				"address counts instead. Put a policy before it that does (%s), or limit by ip.",
				strings.Join(identifyingTypes(), ", "))
		}
		if text := warnCallers(all[:i], p, identified); text != "" {
			warnings[i] = text
		}
		if p.Type == quotaType && !identified {
			warnings[i] = fmt.Sprintf("This counts for customers, and no policy before it says who the user is: each request "+
				"is answered 401. Put a policy before it that does (%s).", strings.Join(identifyingTypes(), ", "))
		}
	}
	return warnings
}

// identifyingTypes returns the types of policies that identify the user.
func identifyingTypes() []string {
	var out []string
	for name, k := range builtins() {
		if k.implements != nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Identifies reports whether policies of a type identify the user of a request.
func Identifies(policyType string) bool { return builtins()[policyType].implements != nil }

// CredentialHeader returns the name of the header from which a policy reads the caller's credentials, or "". A policy
// with invalid options has none.
func CredentialHeader(p project.Policy) string {
	if header := builtins()[p.Type].credentialHeader; header != nil {
		return header(p)
	}
	return ""
}

// Validates reports whether policies of a type validate requests, and whether they validate responses.
func Validates(policyType string) (request, responses bool) {
	k := builtins()[policyType]
	return k.validates && k.direction == Inbound, k.validates && k.direction == Outbound
}

// Misplaced returns the index of the first inbound policy that validates requests, or whose condition uses their bodies,
// if a policy after it identifies the user of the request. Otherwise it returns -1. The gateway must not keep bodies of unauthenticated requests in memory.
func Misplaced(all []project.Policy) int {
	kinds, validation := builtins(), -1
	for i, p := range all {
		if (kinds[p.Type].validates || readsBody(p)) && validation < 0 {
			validation = i
		}
		if kinds[p.Type].implements != nil && validation >= 0 {
			return validation
		}
	}
	return -1
}

// DirectionOf returns the direction of policies of a type, "" for an unknown type.
func DirectionOf(policyType string) Direction { return builtins()[policyType].direction }

// Provision returns a policy and its problems. A policy without problems is ready to serve.
func Provision(p project.Policy, s Setup) (Provisioned, []project.Problem) { return provision(p, &s) }

func provision(p project.Policy, s *Setup) (Provisioned, []project.Problem) {
	k, known := builtins()[p.Type]
	if !known {
		return Provisioned{}, []project.Problem{{Path: "/policyType", Message: unknownType(p.Type)}}
	}
	var problems []project.Problem
	if p.Handler.Module != k.module {
		problems = append(problems, project.Problem{
			Path:    "/module",
			Message: fmt.Sprintf("Write %s: that is where policies of the type %s are.", k.module, p.Type),
		})
	}
	out, more := k.provision(p.Name, p.Handler.Options, s)
	problems = append(problems, more...)
	if p.When == "" {
		return out, problems
	}
	c, problem := compileWhen(p, k)
	if problem != "" {
		problems = append(problems, project.Problem{Path: "/when", Message: problem})
	}
	if s == nil || len(problems) > 0 {
		return out, problems
	}
	return conditional(p.Name, out, c, s), nil
}
