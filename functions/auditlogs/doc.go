// Package auditlogs answers the operation that lists an account's audit log
// (specification 4.2, contract 2.2 and 3.3): who changed what, from where, and
// what came of it.
//
// How records are chained, counted and found is package trail in shared; this
// package is what of them is shown. Read operations.go first, then handlers.go.
package auditlogs
