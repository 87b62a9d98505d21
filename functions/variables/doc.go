// Package variables answers the operations on the environment variables of a
// project's branch: listing, making, reading, changing and deleting them
// (specification 4.7; contract 2.7 and 9).
//
// The rules are package variables' in shared, whose builds also read the
// values. Read operations.go first, then handlers.go.
package variables
