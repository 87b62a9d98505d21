// Package openapiext has the words for the effect of an API operation, and the names of the OpenAPI extensions for
// properties of operations that OpenAPI has no members for.
//
// Package api declares operations with these. This package imports nothing,
// so that programs that only read the document do not contain a server.
package openapiext

// Effect is the effect of an operation on existing objects, in one word. It shows
// programs, and people who confirm calls, how much harm a mistaken call would do.
type Effect string

// The effects, from the least to the most harmful.
const (
	// Reads is for operations that change nothing. Adds is for
	// operations that create objects and do not change existing ones.
	Reads Effect = "reads"
	Adds  Effect = "adds"
	// Replaces is for operations that replace an object. Removes is for operations that delete one.
	Replaces Effect = "replaces"
	Removes  Effect = "removes"
)

// All returns all effects.
func All() []Effect { return []Effect{Reads, Adds, Replaces, Removes} }

// The names of the OpenAPI extensions.
const (
	// EffectExtension is the name of the extension with the Effect of an operation.
	EffectExtension = "x-effect"
	// ScopeExtension is the name of the extension with the scope that a key needs for an operation. OpenAPI
	// 3.1 allows roles in security for this, but some linters accept them only for OAuth.
	ScopeExtension = "x-required-scope"
)
