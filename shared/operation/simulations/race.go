//go:build race

package simulations

// mostUnderRace bounds a simulation's runs. In a run one thing happens at a
// time, so the race detector finds nothing in many that is not in few.
const mostUnderRace = 100
