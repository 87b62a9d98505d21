// Package simulations says how many seeded runs a simulation makes: as many as
// its test asks for, fewer under the race detector, more where somebody has the
// time.
//
// A simulation plays the same code again and again, under faults that a seed
// chooses, so that what it costs is a choice: `make test` makes few runs of each,
// `make simulations` many. What a run is, each simulation says itself. It is for
// tests alone; read simulations.go.
package simulations

import (
	"fmt"
	"os"
	"strconv"
)

// varFactor is the environment variable that multiplies the runs of every
// simulation: a whole number from 1 on. Empty is 1.
const varFactor = "GATEWRIGHT_SIMULATIONS"

// Runs is how many runs a simulation makes whose usual number is given. It
// panics if the variable holds no such number.
func Runs(usual int) int { return runs(usual, mostUnderRace, os.Getenv(varFactor)) }

func runs(usual, most int, factor string) int {
	if most > 0 {
		usual = min(usual, most)
	}
	if factor == "" {
		return usual
	}
	n, err := strconv.Atoi(factor)
	if err != nil || n < 1 {
		panic(fmt.Sprintf("%s is %q: write a whole number from 1 on", varFactor, factor))
	}
	return usual * n
}
