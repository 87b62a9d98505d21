// Package variables answers the operations on the environment variables of a
// project's branch: making one and changing its value (specification 4.7;
// contract 2.7).
//
// The rules are package variables' in shared, whose builds also read the
// values. Read operations.go first, then handlers.go.
package variables
