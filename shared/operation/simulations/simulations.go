// Package simulations says how many seeded runs a simulation makes: as many as
// its test asks for, fewer under the race detector, more where somebody has the
// time.
//
// A simulation plays the same code again and again, under faults that a seed
// chooses, so that what it costs is a choice: `make test` makes few runs of each,
// `make simulations` many, and one for each of hundreds of changes few again
// (`make mutate`). What a run is, each simulation says itself. It is for
// tests alone; read simulations.go.
package simulations

import (
	"fmt"
	"math"
	"os"
	"strconv"
)

// VarFactor is the environment variable that multiplies the runs of every
// simulation: a number above 0, such as 4 or 0.1. Empty is 1.
const VarFactor = "GATEWRIGHT_SIMULATIONS"

// Racing tells that the race detector watches: a test that does one thing at a time
// does less of it then.
const Racing = mostUnderRace > 0

// T is the part of *testing.T that Sequential needs.
type T interface {
	Helper()
	Skip(args ...any)
}

// Sequential skips a long test that does everything on one goroutine, while the race detector watches: it finds no race there, and
// makes the test ten times as long. make test runs it.
func Sequential(t T) {
	t.Helper()
	if Racing {
		t.Skip("everything happens on one goroutine: make test runs it")
	}
}

// Sample returns all plans of a simulation, and under the race detector a few of them: the first, the last, and some evenly spread
// between them.
func Sample[P any](plans []P) []P { return sample(plans, mostUnderRace) }

func sample[P any](plans []P, most int) (some []P) {
	if most == 0 || len(plans) <= most {
		return plans
	}
	for i := range most {
		some = append(some, plans[i*(len(plans)-1)/max(1, most-1)])
	}
	return some
}

// Runs is how many runs a simulation makes whose usual number is given: one at
// least. It panics if the variable holds no such number.
func Runs(usual int) int { return runs(usual, mostUnderRace, os.Getenv(VarFactor)) }

func runs(usual, most int, factor string) int {
	if most > 0 {
		usual = min(usual, most)
	}
	if factor == "" {
		return usual
	}
	times, err := strconv.ParseFloat(factor, 64)
	if err != nil || times <= 0 || math.IsNaN(times) || math.IsInf(times, 0) {
		panic(fmt.Sprintf("%s is %q: write a number above 0, such as 4 or 0.1", VarFactor, factor))
	}
	return max(1, int(float64(usual)*times))
}
