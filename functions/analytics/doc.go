// Package analytics serves the statistics that gateways record about a deployment: its most recent calls, its
// numbers of calls by status, and its GraphQL operations (specification 2, "GraphQL routes"; contract 2.10).
//
// Package counts in shared/resource/analytics counts calls. This package decides which statistics each caller can see.
// Read operations.go first, then handlers.go.
package analytics
