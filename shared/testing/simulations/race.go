//go:build race

package simulations

// maxUnderRace bounds the runs of a simulation. Most simulations use one goroutine or repeat the same interaction of
// goroutines, so the race detector does not find more in many runs than in a few. GATEWRIGHT_SIMULATIONS multiplies the
// bound.
const maxUnderRace = 10
