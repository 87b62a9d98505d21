//go:build race

package simulations

// mostUnderRace bounds the runs of a simulation. In a run, one thing happens at a time or the same goroutines meet again, so the race
// detector finds nothing in many runs that it does not find in few. GATEWRIGHT_SIMULATIONS multiplies the bound.
const mostUnderRace = 10
