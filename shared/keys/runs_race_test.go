//go:build race

package keys_test

// In a run one thing happens at a time, which the race detector only makes
// slower.
const (
	runs  = 20
	crowd = 2_000
)
