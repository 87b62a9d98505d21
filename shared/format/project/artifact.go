package project

import (
	"encoding/json"
	"maps"
)

// The versions of Artifact's encoding. During an update, two releases serve one installation for some minutes, and
// after a rollback the older release serves it alone. A release must therefore read a format before a later release
// writes it (docs/decisions/0059-formats-are-read-a-release-before-they-are-written.md). A new member needs no new
// format if older releases can ignore it safely. It needs a new format if older releases would serve the project
// wrongly without it.
const (
	// ArtifactFormat is the newest format that this release reads, and the Format of artifacts in memory.
	ArtifactFormat = 2
	// WrittenFormat is the format that builds write: the newest that the previous release reads too.
	WrittenFormat = 1
	// OldestFormat is the oldest format that this release reads: WrittenFormat or the format before it. The
	// installation builds artifacts in older formats again before an update continues (package builds, Rebuild).
	OldestFormat = 1
)

// Artifact is a project in the form that the gateway serves: validated, with every $env resolved. It is immutable,
// and the digest of its encoding identifies it. It can contain secrets and is therefore stored encrypted.
type Artifact struct {
	// Format is ArtifactFormat in memory. Decode sets it, even for an artifact that was stored in an older format. There
	// is one exception: for a stored artifact that this release cannot read, package serving creates an Artifact with the
	// stored Format and with the Identity of the deployment, but without routes.
	Format int `json:"format"`
	// Identity names the deployment, its project and its build.
	Identity Identity `json:"identity"`
	// Routes are in the order of files (by name), paths and methods.
	Routes []Route `json:"routes"`
	// Policies are the policies by name. Routes refer to them by name only.
	Policies map[string]Policy `json:"policies"`
	// PathNormalization is PreservePaths, or "" for the canonical path.
	PathNormalization string `json:"pathNormalisation,omitempty"`
	// CORSPolicies are the project's CORS policies by name, in addition to the built-in "none" and "anything-goes".
	CORSPolicies map[string]CORSPolicy `json:"corsPolicies,omitempty"`
	// Buckets are the key buckets that policies use to verify keys, by policy name. Artifacts of earlier releases have
	// none.
	Buckets map[string]KeyBucket `json:"buckets,omitempty"`
	// Certificates are the client certificates that handlers present to upstreams, by their names in the project.
	Certificates map[string]ClientCertificate `json:"certificates,omitempty"`
	// Definitions are the schemas to which the descriptions of requests and responses refer, by name. They can refer to
	// each other and to themselves.
	Definitions map[string]json.RawMessage `json:"definitions,omitempty"`
	// Variables are the environment variables that ${env.NAME} can read in rewrite patterns and base addresses, by name.
	Variables map[string]string `json:"variables,omitempty"`
	// Env are the variables that $env(NAME) has read, by name. A build of the same sources
	// with Variables and Env produces the same artifact, even if the environment has
	// changed since. Env is nil in artifacts of earlier releases, which did not record it.
	Env map[string]string `json:"env,omitzero"`
}

// BuildVariables returns the variables that a build of the same sources needs to produce
// this artifact again. It returns nil if the artifact does not record them.
func (a *Artifact) BuildVariables() map[string]string {
	if a.Env == nil {
		return nil
	}
	out := maps.Clone(a.Variables)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, a.Env)
	return out
}

// Identity names a deployment and the build that made it.
type Identity struct {
	AccountID   string `json:"accountId"`
	Account     string `json:"account"`
	Project     string `json:"project"`
	Branch      string `json:"branch"`
	Environment string `json:"environment"` // production, preview or development
	Deployment  string `json:"deployment"`  // the first label of its host name
	BuildID     string `json:"buildId"`     // a UUID, shown in the trace of problem responses
}

// PreservePaths is the PathNormalization that forwards request paths to upstreams as the client wrote them.
const PreservePaths = "preserve"

// PathMode is the syntax of a route's path.
type PathMode string

const (
	// OpenAPIPath is the syntax of OpenAPI, with parameters such as {name}.
	OpenAPIPath PathMode = "open-api"
	// URLPattern is the syntax of the URL Pattern standard.
	URLPattern PathMode = "url-pattern"
)

// Route is one operation of the project's OpenAPI documents.
type Route struct {
	OperationID string   `json:"operationId,omitempty"`
	Method      string   `json:"method"` // upper case
	Path        string   `json:"path"`
	PathMode    PathMode `json:"pathMode"`
	// Source is the place that declares the route, for logs and errors.
	Source Source `json:"source"`
	// file is the routes file that has the path of the route. Only the compilation uses it. It differs from the file of
	// Source if the path refers to a path item in another file.
	file string
	// inboundEntries and outboundEntries have the index of the entry in the route's lists that each policy comes from. Only
	// the compilation uses them.
	inboundEntries, outboundEntries []int

	Handler Component `json:"handler"`
	// Inbound and Outbound are names of Policies, in their order of execution.
	Inbound  []string `json:"inbound,omitempty"`
	Outbound []string `json:"outbound,omitempty"`
	// CORSPolicy is "none", "anything-goes" or a name of CORSPolicies.
	CORSPolicy string `json:"corsPolicy"`
	// GraphQL is true for a GraphQL route: its extension x-graphql, one of its policies or its mcp object makes it one.
	GraphQL bool `json:"graphql,omitempty"`
	// MCP is the route's mcp object. It is absent if the route has none.
	MCP json.RawMessage `json:"mcp,omitempty"`
	// MCPOperation is what the project's MCP servers offer for the route. It is absent if no server offers the route.
	MCPOperation *MCPOperation `json:"mcpOperation,omitempty"`
	// Request and Responses describe the requests and responses. Each is absent if no policy of the route validates with it.
	Request   *RequestDescription `json:"request,omitempty"`
	Responses ResponseDescription `json:"responses,omitempty"`
}

// Source is a place in a project's files.
type Source struct {
	File    string `json:"file"`
	Pointer string `json:"pointer"` // a JSON pointer, RFC 6901
}

// Component names a handler or policy and has its options as the project wrote them, with $env resolved.
type Component struct {
	Export  string          `json:"export"`
	Module  string          `json:"module"`
	Options json.RawMessage `json:"options,omitempty"`
}

// Policy is an entry of config/policies.json.
type Policy struct {
	Name    string    `json:"name"`
	Type    string    `json:"policyType"`
	Handler Component `json:"handler"`
	// Source is the place that declares the policy, for errors. Artifacts of earlier releases have none.
	Source Source `json:"source,omitzero"`
	// WithoutHandler is set if the file has the options directly in the policy, and not in its handler.
	WithoutHandler bool `json:"withoutHandler,omitempty"`
	// When is the condition of the policy, an expression of package celexpr. "" means always.
	When string `json:"when,omitempty"`
}

// HandlerPointer returns the JSON pointer of the object in the file that has the options of the policy.
func (p Policy) HandlerPointer() string {
	if p.WithoutHandler {
		return p.Source.Pointer
	}
	return p.Source.Pointer + "/handler"
}

// KeyBucket identifies a key bucket permanently: a later bucket with the same name has a different ID.
type KeyBucket struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ClientCertificate is a project's mTLS certificate.
type ClientCertificate struct {
	ID string `json:"id"`
	// Chain is the certificate with its intermediate certificates. Key is its private key. Both are in PEM.
	Chain string `json:"chain"`
	Key   string `json:"key"`
}

// CORSPolicy is an entry of corsPolicies in config/policies.json.
type CORSPolicy struct {
	Name             string   `json:"name"`
	AllowedOrigins   []string `json:"allowedOrigins"`
	AllowedMethods   []string `json:"allowedMethods,omitempty"`
	AllowedHeaders   []string `json:"allowedHeaders,omitempty"`
	ExposeHeaders    []string `json:"exposeHeaders,omitempty"`
	MaxAgeSeconds    int      `json:"maxAge,omitempty"`
	AllowCredentials bool     `json:"allowCredentials,omitempty"`
}

// Problem is one mistake in a project, as buildResult.errors reports it.
type Problem struct {
	File string `json:"file"`
	// Path is a JSON pointer into File. It is "" for the whole file.
	Path string `json:"path"`
	// Line and Column are where the mistake begins. Both begin at 1,
	// and Column counts characters. Both are 0 if the place is unknown.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Message says what to do. It does not repeat the value of a variable.
	Message string `json:"message"`
	// Unset is the name of a variable without a value, if the mistake exists only
	// because the variable has no value. It is "" for other mistakes. A caller that does
	// not know an environment's variables cannot know whether such a mistake exists.
	Unset string `json:"-"`
}

// Catalog checks handlers and policies. Package gateway implements it, so that an invalid option fails
// the build and not the first request. CheckHandler and CheckPolicy return all mistakes at once, each
// with a pointer relative to the component ("/options/requestsAllowed"), and none for a valid component.
type Catalog interface {
	CheckHandler(Component) []Problem
	CheckPolicy(Policy) []Problem
	// UsedVariables returns the names of the variables that the condition of a policy uses. A policy whose condition has
	// problems uses none.
	UsedVariables(Policy) []string
	// Members returns the names of the policies that a policy contains, nil for a policy without members. If expands is
	// set, the members run in its place. Otherwise it admits each request that one of its members admits.
	Members(Policy) (names []string, expands bool)
	// CheckMembers returns the problems of a policy with its members. The pointers are those of CheckPolicy.
	CheckMembers(p Policy, members []Policy) []Problem
	// WarnInbound returns warnings about the inbound policies of a route, which are passed in their order of
	// execution. The result maps the index of each policy that is probably a mistake to the text of the warning.
	WarnInbound([]Policy) map[int]string
	// Unprotected returns "" if the inbound policies of a route, in their order of execution, refuse every request that
	// does not satisfy the security scheme with the scopes. Otherwise it returns why they do not, or what to do, as the
	// end of a sentence.
	Unprotected(scheme SecurityScheme, scopes []string, inbound []Policy) string
	// WarnDescribed returns a warning about a policy that has no effect on a route with these descriptions of requests and
	// responses, or "".
	WarnDescribed(Policy, *RequestDescription, ResponseDescription) string
	// Validates reports whether policies of a type validate requests, and whether they validate responses. Such policies
	// need the description of the route's requests or responses.
	Validates(policyType string) (request, responses bool)
	// PolicyModule returns the module of policies of a type, or "" for an unknown type. A policy without a handler has this
	// module.
	PolicyModule(policyType string) string
	// CredentialHeader returns the name of the header from which a policy reads the caller's credentials, or "". A policy
	// with invalid options has none.
	CredentialHeader(Policy) string
	// IsReservedHeader reports whether the gateway writes or removes a header of requests, so that MCP servers cannot send
	// it.
	IsReservedHeader(name string) bool
}
