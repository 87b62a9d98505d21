// Package analytics answers what a deployment's gateways have counted: its last
// calls one by one, its calls by status, and its GraphQL operations
// (specification 2, "GraphQL routes"; contract 2.10).
//
// How calls are counted and added up is package counts in shared/analytics; this package
// is what of them is shown, and to whom. Read operations.go first, then handlers.go.
package analytics
