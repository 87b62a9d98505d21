//go:build race

package simulations

// maxUnderRace bounds the runs of a simulation, and the plans that Sample returns. Most simulations use one goroutine
// or repeat the same interaction of goroutines, so the race detector does not find more in many runs than in a few. In
// Runs, GATEWRIGHT_SIMULATIONS multiplies the bounded number.
const maxUnderRace = 10
