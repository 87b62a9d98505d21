// Package analytics says what is counted of requests: which route answered whom with which status, and which GraphQL operation was asked for, how
// long it took and what it failed of (specification 2, "GraphQL routes"; contract 2.10).
//
// It has the words alone, for gateways and their policies, which know no table. Who counts is package counts.
// Nothing here has a part of a document but an operation's name, nor of variables, a body, an address or a key.
package analytics

import "time"

// Deployment names what was called. Its texts are the platform's own: they are bounded where they are made.
type Deployment struct {
	AccountID   string
	Project     string
	Environment string
	// Name is the deployment's, as in the paths of the API.
	Name string
}

// Class is what kind of error a GraphQL answer has.
type Class uint8

// The classes, in the order in which they are kept.
const (
	// ClassSyntax: the request is no document, or one that does not parse.
	ClassSyntax Class = iota
	// ClassValidation: the document asks for what the schema or a limit does not allow.
	ClassValidation
	// ClassAuth: the caller is not known, or may not.
	ClassAuth
	// ClassTimeout: the upstream did not answer in time.
	ClassTimeout
	// ClassResolver: everything else that an upstream calls an error.
	ClassResolver
	// Classes is how many there are.
	Classes int = iota
)

// Operation is one GraphQL operation that was asked for.
type Operation struct {
	Deployment Deployment
	// Route is the route's path template.
	Route string
	// Name is the operation's in its document, "" for an unnamed one. It comes from a caller: the collector bounds its length and how many there are.
	Name string
	// Type is query, mutation or subscription, "" where the document could not be parsed.
	Type string
	At   time.Time
	// Total is from the request's first byte to the answer's head, as access lines have it.
	Total time.Duration
	// Resolver is the time of the answer's tracing extension, else the upstream's, 0 where none was asked.
	Resolver   time.Duration
	Complexity int
	Failed     bool
	// Classes are those of its errors, each once.
	Classes []Class
}

// Call is one request of any route.
type Call struct {
	Deployment Deployment
	// Consumer is the name of the consumer whose credential was accepted, "" without one.
	Consumer string
	Method   string
	// Route is the route's path template, "" where no route matched.
	Route  string
	Status int
	// Policy is the policy that answered in place of the handler, by its name in the project, "" for none.
	Policy string
	At     time.Time
}
