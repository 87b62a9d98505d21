//go:build !race

package allowance

// seeds is how many runs the simulation makes.
const seeds = 2000
