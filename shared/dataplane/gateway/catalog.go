package gateway

import (
	"context"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/handler"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Catalog reports to the project compiler which handlers and policies exist,
// and which of their options are invalid. The zero value is ready to use.
type Catalog struct{}

var _ project.Catalog = Catalog{}

// CheckHandler returns the problems of a route's handler.
func (Catalog) CheckHandler(c project.Component) []project.Problem { return handler.Check(c) }

// CheckPolicy returns the problems of a policy.
func (Catalog) CheckPolicy(p project.Policy) []project.Problem { return policy.Check(p) }

// UsedVariables returns the names of the variables that the condition of a policy uses.
func (Catalog) UsedVariables(p project.Policy) []string { return policy.UsedVariables(p) }

// Members returns the names of the policies that a policy contains, and whether they run in its place.
func (Catalog) Members(p project.Policy) (names []string, expands bool) { return policy.Members(p) }

// CheckMembers returns the problems of a policy with its members.
func (Catalog) CheckMembers(p project.Policy, members []project.Policy) []project.Problem {
	return policy.CheckMembers(p, members)
}

// WarnInbound returns warnings about a route's inbound policies that are valid, but probably a mistake.
func (Catalog) WarnInbound(all []project.Policy) map[int]string { return policy.WarnInbound(all) }

// Unprotected returns why the inbound policies of a route do not implement a security scheme with the scopes, or "" if
// they do.
func (Catalog) Unprotected(scheme project.SecurityScheme, scopes []string, inbound []project.Policy) string {
	return policy.Unprotected(scheme, scopes, inbound)
}

// WarnDescribed returns a warning about a policy that has no effect on a route with these descriptions, or "".
func (Catalog) WarnDescribed(p project.Policy, request *project.RequestDescription,
	responses project.ResponseDescription,
) string {
	return policy.WarnDescribed(p, request, responses)
}

// PolicyModule returns the module of policies of a type, or "" for an unknown type.
func (Catalog) PolicyModule(policyType string) string { return policy.ModuleOf(policyType) }

// CredentialHeader returns the name of the header from which a policy reads the caller's credentials, or "".
func (Catalog) CredentialHeader(p project.Policy) string { return policy.CredentialHeader(p) }

// IsReservedHeader reports whether the gateway writes or removes a header of requests. MCP servers send bodies without an
// encoding.
func (Catalog) IsReservedHeader(name string) bool {
	return upstream.Reserved(name) || strings.EqualFold(name, "Content-Encoding")
}

// Validates reports whether policies of a type validate requests, and whether they validate responses.
func (Catalog) Validates(policyType string) (request, responses bool) {
	return policy.Validates(policyType)
}

// Verify returns the problems that would keep a gateway from serving an artifact. It prepares the artifact
// like a gateway, but opens no connection. A Catalog checks each component alone. Verify also checks
// addresses after the variables were substituted, parameters that a path does not have, policies in
// the wrong direction, and the schemas of MCP servers. It does not check certificates, because the build
// adds them to the artifact later. If Verify returns no problem, a gateway of this release fails to
// initialize the deployment only if a certificate is missing or invalid. Verify stops after the current route when ctx ends,
// so that its result is then incomplete.
func Verify(ctx context.Context, a *project.Artifact) []project.Problem {
	keys := policy.NewKeyCache(nil, 1, [32]byte{}, nil)
	return newSite(a, dependencies{
		handler:             handler.Setup{Upstream: &upstream.Account{}, CertificatesPending: true},
		policy:              policy.Setup{Keys: keys},
		compileDescriptions: true,
		done:                ctx.Done(),
	}).problems
}

// PoliciesSchema returns the JSON Schema of config/policies.json, with the options of all policies.
func PoliciesSchema() map[string]any { return policy.Schema() }
