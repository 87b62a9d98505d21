//go:build race

package keys_test

// A run has no concurrency, so the race detector finds nothing in it and only makes it slower.
const (
	runs            = 20
	largeBucketSize = 2_000
)
