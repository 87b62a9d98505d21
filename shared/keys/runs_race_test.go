//go:build race

package keys_test

// Runs one at a time, which the race detector only makes slower.
const runs = 20

var crowds = [2]int{1_000, 2_000}
