//go:build !race

package simulations

// maxUnderRace is 0, which means no bound.
const maxUnderRace = 0
