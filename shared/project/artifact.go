package project

import (
	"encoding/json"
	"maps"
)

// The formats of Artifact's encoding. Releases that differ serve one installation for the minutes of
// an update, and the older one alone after a rollback, so that reading a format comes a release before
// writing it (docs/decisions/0059-formats-are-read-a-release-before-they-are-written.md). What an older
// release may overlook, such as a member that only tells, needs no other format; what it would serve
// wrongly without does.
const (
	// ArtifactFormat is the newest format that this release reads, and what Format is in memory.
	ArtifactFormat = 2
	// WrittenFormat is the one that builds write: the newest that the last release reads too.
	WrittenFormat = 1
	// OldestFormat is the oldest that this release reads. It is the one before WrittenFormat, or that
	// itself: older ones are built anew before a release goes on (package builds, Rebuild).
	OldestFormat = 1
)

// Artifact is a project as the gateway serves it: validated, with every $env
// resolved. It is immutable and known by the digest of its encoding; it may
// hold secrets and is therefore stored sealed.
type Artifact struct {
	// Format is ArtifactFormat for what can be served, whichever format it was read from.
	Format int `json:"format"`
	// Identity says whose project this is.
	Identity Identity `json:"identity"`
	// Routes in the order of files (by name), paths and methods.
	Routes []Route `json:"routes"`
	// Policies by name; routes refer to them by name alone.
	Policies map[string]Policy `json:"policies"`
	// PathNormalisation is PreservePaths, or "" for the canonical path.
	PathNormalisation string `json:"pathNormalisation,omitempty"`
	// CORSPolicies by name, beside the built-in "none" and "anything-goes".
	CORSPolicies map[string]CORSPolicy `json:"corsPolicies,omitempty"`
	// Buckets are the key buckets that policies verify keys by, by the policies'
	// names. Artifacts of earlier releases have none.
	Buckets map[string]KeyBucket `json:"buckets,omitempty"`
	// Certificates are the client certificates that handlers show to upstreams, by the
	// names that they have in the project.
	Certificates map[string]ClientCertificate `json:"certificates,omitempty"`
	// Variables are the environment's variables that ${env.NAME} may read in
	// rewrite patterns and base addresses, by name.
	Variables map[string]string `json:"variables,omitempty"`
	// Env are the variables that $env(NAME) has read, by name: with these and Variables the same
	// sources give the same artifact again, whatever the environment's are by then. nil in artifacts
	// of earlier releases, which do not tell.
	Env map[string]string `json:"env,omitzero"`
}

// BuiltWith are the variables that a build of the same sources needs to give the artifact again, nil where
// it does not tell.
func (a *Artifact) BuiltWith() map[string]string {
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
	BuildID     string `json:"buildId"`     // a UUID, told in problems' trace
}

// PreservePaths has requests' paths go upstream as they were written.
const PreservePaths = "preserve"

// PathMode is how a route's path is matched.
type PathMode string

const (
	// OpenAPIPath matches {name} segments, as in OpenAPI.
	OpenAPIPath PathMode = "open-api"
	// URLPattern matches the syntax of the URL Pattern standard.
	URLPattern PathMode = "url-pattern"
)

// Route is one operation of the project's OpenAPI documents.
type Route struct {
	OperationID string   `json:"operationId,omitempty"`
	Method      string   `json:"method"` // upper case
	Path        string   `json:"path"`
	PathMode    PathMode `json:"pathMode"`
	// Source is where the route was declared, for logs and errors.
	Source Source `json:"source"`

	Handler Component `json:"handler"`
	// Inbound and Outbound are names of Policies, in the order they run.
	Inbound  []string `json:"inbound,omitempty"`
	Outbound []string `json:"outbound,omitempty"`
	// CORSPolicy is "none", "anything-goes" or a name of CORSPolicies.
	CORSPolicy string `json:"corsPolicy"`
	// GraphQL is the x-graphql extension of the operation.
	GraphQL bool `json:"graphql,omitempty"`
	// MCP is the route's mcp object, absent when it has none.
	MCP json.RawMessage `json:"mcp,omitempty"`
	// MCPOperation is what the project's MCP servers offer of the route, absent where none does.
	MCPOperation *MCPOperation `json:"mcpOperation,omitempty"`
}

// Source is a place in a project's files.
type Source struct {
	File    string `json:"file"`
	Pointer string `json:"pointer"` // a JSON pointer, RFC 6901
}

// Component names a handler or policy and holds its options, as the project
// wrote them but with $env resolved.
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
	// Source is where the policy was declared, for errors. Artifacts of earlier
	// releases have none.
	Source Source `json:"source,omitzero"`
}

// KeyBucket names a key bucket for good: a later bucket of the name has another
// id.
type KeyBucket struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ClientCertificate is a project's mTLS certificate.
type ClientCertificate struct {
	ID string `json:"id"`
	// Chain and Key are in PEM: the certificate with its intermediates, and its private
	// key.
	Chain string `json:"chain"`
	Key   string `json:"key"`
}

// CORSPolicy is an entry of config/policies.json's corsPolicies.
type CORSPolicy struct {
	Name             string   `json:"name"`
	AllowedOrigins   []string `json:"allowedOrigins"`
	AllowedMethods   []string `json:"allowedMethods,omitempty"`
	AllowedHeaders   []string `json:"allowedHeaders,omitempty"`
	ExposeHeaders    []string `json:"exposeHeaders,omitempty"`
	MaxAgeSeconds    int      `json:"maxAge,omitempty"`
	AllowCredentials bool     `json:"allowCredentials,omitempty"`
}

// Problem is one thing wrong with a project, as buildResult.errors tells it.
type Problem struct {
	File string `json:"file"`
	// Path is a JSON pointer into File, "" for the whole of it.
	Path string `json:"path"`
	// Line and Column are where that begins, both from 1, the column in characters; 0 without a place.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Message says what to do. It repeats no variable's value.
	Message string `json:"message"`
	// Unset is a variable without which this is wrong, "" for what is wrong in any case: who does not know an
	// environment's variables does not know whether it is.
	Unset string `json:"-"`
}

// Catalogue is what the compiler asks about handlers and policies: package
// gateway has it, so that a bad option fails the build and not the first
// request. The first two methods answer every fault at once, each with a pointer
// relative to the component ("/options/requestsAllowed"), none for a good one.
type Catalogue interface {
	CheckHandler(Component) []Problem
	CheckPolicy(Policy) []Problem
	// DoubtInbound answers what is probably not meant of the inbound policies of a
	// route, in their order: a text for the index of each such policy.
	DoubtInbound([]Policy) map[int]string
}
