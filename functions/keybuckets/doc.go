// Package keybuckets answers the operations on key buckets (specification 4.5,
// contract 2.5): the groups of consumers whose API keys open the routes of a
// project's environment, or of whatever else names the bucket.
//
// What a bucket is and does stands in package keys in shared; its consumers are
// functions/consumers' part. Read operations.go first, then handlers.go.
package keybuckets
