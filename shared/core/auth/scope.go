package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/format/environment"
)

// Resource is the kind of resource that a scope covers.
type Resource string

// The resources that scopes cover. KeyBuckets includes consumers and keys.
const (
	Accounts       Resource = "accounts"
	AccountKeys    Resource = "account-keys"
	AuditLogs      Resource = "audit-logs"
	CACertificates Resource = "ca-certificates"
	CustomDomains  Resource = "custom-domains"
	KeyBuckets     Resource = "key-buckets"
	Projects       Resource = "projects"
	Variables      Resource = "variables"
	Deployments    Resource = "deployments"
	Tunnels        Resource = "tunnels"
	Metering       Resource = "metering"
	Logs           Resource = "logs"
	Analytics      Resource = "analytics"
	Fleets         Resource = "fleets"
)

// Resources returns all resources.
func Resources() []Resource {
	return []Resource{
		Accounts, AccountKeys, AuditLogs, CACertificates, CustomDomains, KeyBuckets, Projects, Variables,
		Deployments, Tunnels, Metering, Logs, Analytics, Fleets,
	}
}

// Direction says whether a scope allows reading, or reading and changing, its resource.
type Direction string

// The directions. Write includes Read.
const (
	Read  Direction = "read"
	Write Direction = "write"
)

// Scope is a permission, spelled resource:direction.
type Scope string

// Read returns the scope for reading the resource.
func (r Resource) Read() Scope { return Scope(string(r) + ":" + string(Read)) }

// Write returns the scope for reading and changing the resource.
func (r Resource) Write() Scope { return Scope(string(r) + ":" + string(Write)) }

// Resource returns the resource that the scope covers.
func (s Scope) Resource() Resource {
	r, _, _ := strings.Cut(string(s), ":")
	return Resource(r)
}

// Direction returns whether the scope is for reading or for writing.
func (s Scope) Direction() Direction {
	_, d, _ := strings.Cut(string(s), ":")
	return Direction(d)
}

// Scopes returns all scopes.
func Scopes() []Scope {
	var all []Scope
	for _, r := range Resources() {
		all = append(all, r.Read(), r.Write())
	}
	return all
}

// IsKnown reports whether the scope exists.
func (s Scope) IsKnown() bool { return slices.Contains(Scopes(), s) }

// ScopeFormat describes the format of a scope, with all resources.
func ScopeFormat() string {
	return "RESOURCE:read and RESOURCE:write with the resources " + names(Resources())
}

// ParseScopes parses a comma-separated list of scopes, or "all" or "none".
func ParseScopes(text string) ([]Scope, error) {
	switch text {
	case "all":
		return Scopes(), nil
	case "none":
		return nil, nil
	}
	var out []Scope
	for part := range strings.SplitSeq(text, ",") {
		s := Scope(strings.TrimSpace(part))
		if !s.IsKnown() {
			return nil, fmt.Errorf("%q is no scope; use all, none or a list of %s", s, ScopeFormat())
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out, nil
}

// ParseEnvironments parses a comma-separated list of kinds of environment, or "all" or "*" for all kinds.
func ParseEnvironments(text string) ([]environment.Kind, error) {
	if text == "all" || text == "*" {
		return environment.Kinds(), nil
	}
	var out []environment.Kind
	for name := range strings.SplitSeq(text, ",") {
		kind, ok := environment.Parse(strings.TrimSpace(name))
		if !ok {
			return nil, errors.New("write all, or a list of production, preview and development")
		}
		if !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	return out, nil
}

func names(rs []Resource) string {
	var out []string
	for _, r := range rs {
		out = append(out, string(r))
	}
	return strings.Join(out, ", ")
}
