//go:build !race

package simulations

// mostUnderRace is no bound.
const mostUnderRace = 0
