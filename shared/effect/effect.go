// Package effect has the words for what an operation of the API does, and the names under which its OpenAPI
// document says more of one than OpenAPI has members for.
//
// What it is not: it declares no operation (package api). It links nothing, so that whoever reads the document
// links no server.
package effect

// Effect is what an operation does to what is there, in a word: it tells a program, and who has to agree to
// its calls, what a mistake would cost.
type Effect string

// The effects, the one first that costs nothing.
const (
	// Reads is for what changes nothing, Adds for what leaves all there is as it was.
	Reads Effect = "reads"
	Adds  Effect = "adds"
	// Replaces is for what puts something in the place of another, and Removes for what leaves nothing there.
	Replaces Effect = "replaces"
	Removes  Effect = "removes"
)

// All lists them.
func All() []Effect { return []Effect{Reads, Adds, Replaces, Removes} }

// The document's words for what OpenAPI has none for.
const (
	// Extension is the Effect of an operation.
	Extension = "x-effect"
	// ScopeExtension is the scope that the key of an operation needs. The roles that OpenAPI 3.1 has in
	// security for this are refused by linters that know those of OAuth alone.
	ScopeExtension = "x-required-scope"
)
