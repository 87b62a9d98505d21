// Package policy has the built-in policies of routes (contract 4.5): types with
// a constructor that reads options and says everything that is wrong with them,
// so that a bad project fails its build and not its first request.
//
// Adding a policy is adding a line to builtins and a file beside it. CORS is no
// policy of this kind: it is a property of the route (package gateway).
//
// Read this file first; apikey.go and keycache.go are the key checks,
// ratelimit.go the limits, mtls.go clients' certificates. quota.go counts what callers have
// bought, by way of claims.go (what is counted, and once) and amount.go (what an answer
// says it has used). The interfaces that policies need of the installation are declared where
// they are used: Keys, Allowances, Clients, Subscriptions, Quotas and Operations.
//
// The policies of GraphQL routes begin in graphql.go, which reads requests for all of them:
// graphqlcost.go, graphqlintrospection.go, graphqlfilter.go and graphqlanalytics.go.
package policy

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/graphql"
	"github.com/gatewright/gatewright/shared/project"
)

// RuntimeModule is where the built-in policies are.
const RuntimeModule = "$import(@gatewright/runtime)"

// Setup is what policies are provisioned with.
type Setup struct {
	// Identity says whose deployment it is.
	Identity project.Identity
	Keys     *KeyCache
	// Buckets are the artifact's, by the names of policies.
	Buckets map[string]project.KeyBucket
	// Allowances counts for rate limits.
	Allowances Allowances
	// Clients verifies clients' certificates; without it none is trusted.
	Clients Clients
	// Subscriptions and Quotas say what callers have bought, and count it; without them
	// nobody can.
	Subscriptions Subscriptions
	Quotas        Quotas
	// Documents remembers what is known of GraphQL documents, nil for nothing.
	Documents *graphql.Cache
	// Operations counts GraphQL operations, nil for nobody.
	Operations Operations
	// Log hears of what could not be counted, Metrics has it counted instead, at Now.
	Log     *slog.Logger
	Metrics bool
	Now     func() time.Time
}

// Provisioned is a policy that is ready to serve: one of its fields is set.
type Provisioned struct {
	Inbound  pipeline.Inbound
	Outbound pipeline.Outbound
}

// Direction is where in a route a policy may stand.
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
	// identifies tells that it says who the user of a request is.
	identifies bool
	// provision reads the options of the policy called name. A nil Setup asks
	// for the problems alone, at build time.
	provision func(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem)
}

// builtins are all policies by their policyType.
func builtins() map[string]kind {
	return map[string]kind{
		apiKeyType:                      {direction: Inbound, module: RuntimeModule, identifies: true, provision: newAPIKey},
		mtlsType:                        {direction: Inbound, module: RuntimeModule, identifies: true, provision: newMTLS},
		quotaType:                       {direction: Inbound, module: RuntimeModule, provision: newQuota},
		rateLimitType:                   {direction: Inbound, module: RuntimeModule, provision: newRateLimit},
		"query-param-to-header-inbound": {direction: Inbound, module: RuntimeModule, provision: newQueryParam},
		complexityType:                  {direction: Inbound, module: GraphQLModule, provision: newComplexityLimit},
		introspectionType:               {direction: Inbound, module: GraphQLModule, provision: newDisableIntrospection},
		filterType:                      {direction: Outbound, module: GraphQLModule, provision: newIntrospectionFilter},
		analyticsType:                   {direction: Outbound, module: GraphQLModule, provision: newAnalytics},
	}
}

// Check returns what is wrong with a policy as its project wrote it. Pointers
// are relative to the policy's handler, but for "/policyType".
func Check(p project.Policy) []project.Problem {
	_, problems := provision(p, nil)
	return problems
}

// DoubtInbound returns what is probably not meant of the inbound policies of a route,
// in their order: a text for the index of each such policy.
func DoubtInbound(all []project.Policy) map[int]string {
	kinds, doubts, identified := builtins(), map[int]string{}, false
	for i, p := range all {
		identified = identified || kinds[p.Type].identifies
		if p.Type == rateLimitType && !identified && limitsUsers(p.Handler.Options) {
			doubts[i] = fmt.Sprintf("This limits by user, and no policy before it says who the user is: each client's address counts instead. Put a policy before it that does (%s), or limit by ip.", strings.Join(identifying(), ", "))
		}
		if p.Type == quotaType && !identified {
			doubts[i] = fmt.Sprintf("This counts for customers, and no policy before it says who the user is: each request is answered 401. Put a policy before it that does (%s).", strings.Join(identifying(), ", "))
		}
	}
	return doubts
}

// identifying lists the types of policies that say who the user is.
func identifying() []string {
	var out []string
	for name, k := range builtins() {
		if k.identifies {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Identifies reports whether policies of a type say who the user of a request is.
func Identifies(policyType string) bool { return builtins()[policyType].identifies }

// DirectionOf returns where a policy of a type may stand, "" for an unknown type.
func DirectionOf(policyType string) Direction { return builtins()[policyType].direction }

// Provision makes a policy ready to serve.
func Provision(p project.Policy, s Setup) (Provisioned, []project.Problem) { return provision(p, &s) }

func provision(p project.Policy, s *Setup) (Provisioned, []project.Problem) {
	k, known := builtins()[p.Type]
	if !known {
		return Provisioned{}, []project.Problem{{
			Path:    "/policyType",
			Message: fmt.Sprintf("Use one of the policy types that exist: %s.", strings.Join(slices.Sorted(maps.Keys(builtins())), ", ")),
		}}
	}
	var problems []project.Problem
	if p.Handler.Module != k.module {
		problems = append(problems, project.Problem{Path: "/module", Message: fmt.Sprintf("Write %s: that is where policies of the type %s are.", k.module, p.Type)})
	}
	out, more := k.provision(p.Name, p.Handler.Options, s)
	return out, append(problems, more...)
}
