//go:build !race

package builds_test

// runs is how many seeded runs the simulation makes.
const runs = 2_000
