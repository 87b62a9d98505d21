// Package keybuckets serves the operations on key buckets (specification 4.5, contract 2.5). A key bucket is a group of
// consumers. Their API keys are accepted by the routes of a project's environment, or by routes that name the bucket.
//
// Package keys in shared implements the operations. Package functions/consumers serves the operations on the consumers
// of buckets. Read operations.go first, then handlers.go.
package keybuckets
