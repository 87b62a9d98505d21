// Package auditlogs serves the operations that list and export an account's audit log (specification 4.2, contract 2.2
// and 3.3). A record has the actor, the change, the origin and the result.
//
// Package trail in shared chains, counts and finds records. This package decides which parts of a record a response
// contains. Read operations.go first, then handlers.go.
package auditlogs
