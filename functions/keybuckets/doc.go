// Package keybuckets serves the operations on key buckets (specification 4.5, contract 2.5). A key bucket is a group of
// consumers. The routes that accept their API keys are the routes of a project's environment, or the routes that name
// the bucket.
//
// Package keys in shared implements the operations. Package functions/consumers serves the operations on the consumers
// of buckets. Read operations.go first, then handlers.go.
package keybuckets
