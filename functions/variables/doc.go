// Package variables serves the operations on the environment variables of a project's branch:
// listing, creating, reading, changing and deleting them (specification 4.7; contract 2.7 and 9).
//
// Package variables in shared implements the operations. Builds also use it to read the values. Read operations.go
// first, then handlers.go.
package variables
