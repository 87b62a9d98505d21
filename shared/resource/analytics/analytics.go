// Package analytics defines the events that are counted for analytics: calls, with their route, caller and status,
// and GraphQL operations, with their duration and errors (specification 2, "GraphQL routes"; contract 2.10).
//
// The package contains only types, so that gateways and their policies can report events without access to the table.
// Package counts does the counting. An event contains an operation's name, but no other part of a document, and no
// variables, body, address or key.
package analytics

import "time"

// Deployment identifies the deployment that was called. The installation creates or checks these values, and limits
// their length.
type Deployment struct {
	AccountID   string
	Project     string
	Environment string
	// Name is the name of the deployment, as in the paths of the API.
	Name string
}

// Class is the kind of an error in a GraphQL response.
type Class uint8

// The classes, in their stored order.
const (
	// ClassSyntax: the request is not a document, or its document does not parse.
	ClassSyntax Class = iota
	// ClassValidation: the document violates the schema or a limit.
	ClassValidation
	// ClassAuth: the caller is not authenticated or not authorized.
	ClassAuth
	// ClassTimeout: the upstream did not respond in time.
	ClassTimeout
	// ClassResolver: every other error of an upstream.
	ClassResolver
	// Classes is the number of classes.
	Classes int = iota
)

// Operation is one GraphQL operation that a client requested.
type Operation struct {
	Deployment Deployment
	// Route is the route's path template.
	Route string
	// Name is the operation's name in its document, "" for an unnamed operation. The
	// caller chooses it, so the collector limits its length and the number of names.
	Name string
	// Type is query, mutation or subscription, or "" if the document could not be parsed.
	Type string
	At   time.Time
	// Total is the time from the first byte of the request to the head of the response, as in the access log.
	Total time.Duration
	// Resolver is the time in the response's tracing extension. Without the
	// extension it is the upstream's time, and 0 if no upstream was called.
	Resolver   time.Duration
	Complexity int
	Failed     bool
	// Classes are the classes of the operation's errors, each once.
	Classes []Class
}

// Call is one request of any route.
type Call struct {
	Deployment Deployment
	// Consumer is the name of the consumer whose credential was accepted, "" for none.
	Consumer string
	Method   string
	// Route is the route's path template, "" if no route matched.
	Route  string
	Status int
	// Policy is the name, in the project, of the policy that responded instead of the handler, "" for none.
	Policy string
	At     time.Time
}
